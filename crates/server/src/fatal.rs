//! The end of the process when its disk, or its state, cannot be trusted any more.
//! After a failed write or sync nobody knows what the disk holds, so nothing may be retried or answered: the
//! log is read again by the next start. Nothing that was acknowledged is lost by ending here.

use std::fmt::Display;
use std::process;
use std::thread;

/// Says once what happened, and ends the process with exit code 1.
pub(crate) fn fatal(doing: &str, error: &dyn Display) -> ! {
    tracing::error!(
        doing,
        %error,
        "the disk failed and this member stops: see to the disk, then start it again; acknowledged writes are safe"
    );
    process::exit(1)
}

/// Says why this member must not go on, and ends the process with exit code 1.
pub(crate) fn astray() -> ! {
    tracing::error!(
        "CORRUPT: this member's state is another than that of the majority, and it stops for good: replace it with \
         `althing member replace`"
    );
    process::exit(1)
}

/// Held by a thread of the core: if it panics, nothing that waits for it may go on as if it lived.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
