//! A peer that lies, against real members: a bounded run with a fixed seed. `cargo xtask malicious-peer` is the long one.

use malicious_peer::{Limit, Trouble};
use std::path::Path;
use std::time::Duration;

const FRAMES: u64 = 4_000;
/// Far more than it takes: the number of frames ends the run.
const AT_MOST: Duration = Duration::from_secs(600);

#[test]
fn no_frame_of_a_peer_ends_a_member_or_takes_what_was_acknowledged() {
    let limit = Limit { frames: FRAMES, time: AT_MOST };
    let binary = Path::new(env!("CARGO_BIN_EXE_althing"));
    let report = malicious_peer::run(binary, 1, limit, |_| {});
    let report = report.unwrap_or_else(|Trouble(trouble)| panic!("{trouble}"));
    assert!(report.counts.frames >= FRAMES && report.counts.closed > 0, "{report:?}");
    assert!(report.refused_by_members > 0, "they are counted: {report:?}");
}
