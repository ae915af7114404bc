//! Logs about space: once when it becomes scarce, when it is gone, and when it is back.

use node::Apply;

/// A warning comes when this part of the quota is used, and may come again when less than the other was.
const WARN_PERCENT: u64 = 80;
const CALM_PERCENT: u64 = 70;

#[derive(Default)]
pub(crate) struct SpaceLog {
    warned: bool,
    full: bool,
}

impl SpaceLog {
    pub fn report(&mut self, machine: &Apply) {
        let (stored_bytes, quota_bytes) = (machine.stored_bytes(), machine.quota_bytes());
        let full = machine.alarms().any(|alarm| alarm.refuses_growth());
        let percent = stored_bytes.saturating_mul(100).checked_div(quota_bytes).unwrap_or(0);
        if percent >= WARN_PERCENT && !self.warned {
            tracing::warn!(
                stored_bytes,
                quota_bytes,
                percent,
                "little space left: compact, delete, or raise the quota"
            );
        }
        self.warned = percent >= WARN_PERCENT || self.warned && percent >= CALM_PERCENT;
        match (self.full, full) {
            (false, true) => tracing::error!(
                stored_bytes,
                quota_bytes,
                "NOSPACE: nothing that grows is accepted until keys are deleted and compacted"
            ),
            (true, false) => tracing::info!(stored_bytes, quota_bytes, "space available again"),
            _ => {}
        }
        self.full = full;
    }
}
