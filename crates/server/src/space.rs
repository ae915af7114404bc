//! What an operator is told about space: once when it becomes scarce, when it is gone, and when it is back.

/// A warning comes when this part of the quota is used, and may come again when less than the other was.
const WARN_PERCENT: u64 = 80;
const CALM_PERCENT: u64 = 70;

pub(crate) struct Space {
    quota_bytes: u64,
    warned: bool,
    full: bool,
}

impl Space {
    pub fn new(quota_bytes: u64) -> Space {
        Space { quota_bytes, warned: false, full: false }
    }

    pub fn tell(&mut self, stored_bytes: u64, full: bool) {
        let percent = stored_bytes.saturating_mul(100).checked_div(self.quota_bytes).unwrap_or(0);
        let quota_bytes = self.quota_bytes;
        if percent >= WARN_PERCENT && !self.warned {
            tracing::warn!(
                stored_bytes,
                quota_bytes,
                percent,
                "space becomes scarce: compact, delete, or raise the quota"
            );
        }
        self.warned = percent >= WARN_PERCENT || self.warned && percent >= CALM_PERCENT;
        match (self.full, full) {
            (false, true) => tracing::error!(
                stored_bytes,
                quota_bytes,
                "NOSPACE: nothing that grows is accepted until keys are deleted and compacted"
            ),
            (true, false) => tracing::info!(stored_bytes, quota_bytes, "there is space again"),
            _ => {}
        }
        self.full = full;
    }
}
