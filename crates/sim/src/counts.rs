//! What happened in a world, in numbers.

#[derive(Clone, Copy, Debug, Default)]
pub struct WorldCounts {
    pub events: u64,
    pub messages: u64,
    pub answered: u64,
    pub refused: u64,
    pub unknown: u64,
    pub faults: u64,
    pub deaths: u64,
    pub disk_errors: u64,
    pub tails_cut: u64,
    pub elections: u64,
    pub snapshots: u64,
    pub flushes: u64,
    /// Responses that watchers took.
    pub watched: u64,
    /// Locks that a client was told to hold, and calls for them that were cancelled.
    pub acquired: u64,
    pub cancelled: u64,
    /// Writes that were refused for their token.
    pub fenced: u64,
    /// Requests that were sent again.
    pub retries: u64,
    /// Leases that expired.
    pub expired: u64,
    /// Compactions that a leader proposed, and watches that one of them ended.
    pub rounds: u64,
    pub overtaken: u64,
    /// Disks whose members came back with empty ones.
    pub disks_lost: u64,
    /// Logs that were damaged while their members were down, and starts that were refused for it.
    pub logs_damaged: u64,
    pub damage_refused: u64,
}

impl WorldCounts {
    pub fn operations(&self) -> u64 {
        self.answered + self.refused + self.unknown
    }

    pub fn add(&mut self, other: &WorldCounts) {
        let WorldCounts {
            events,
            messages,
            answered,
            refused,
            unknown,
            faults,
            deaths,
            disk_errors,
            tails_cut,
            elections,
            snapshots,
            flushes,
            watched,
            acquired,
            cancelled,
            fenced,
            retries,
            expired,
            rounds,
            overtaken,
            disks_lost,
            logs_damaged,
            damage_refused,
        } = other;
        self.logs_damaged += logs_damaged;
        self.damage_refused += damage_refused;
        self.disks_lost += disks_lost;
        self.rounds += rounds;
        self.overtaken += overtaken;
        self.events += events;
        self.messages += messages;
        self.answered += answered;
        self.refused += refused;
        self.unknown += unknown;
        self.faults += faults;
        self.deaths += deaths;
        self.disk_errors += disk_errors;
        self.tails_cut += tails_cut;
        self.elections += elections;
        self.snapshots += snapshots;
        self.flushes += flushes;
        self.watched += watched;
        self.acquired += acquired;
        self.cancelled += cancelled;
        self.fenced += fenced;
        self.retries += retries;
        self.expired += expired;
    }
}
