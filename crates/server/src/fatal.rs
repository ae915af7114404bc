//! The end of the process when its disk, or its state, cannot be trusted.
//! After a failed write or sync the content of the disk is unknown, so nothing may be retried or answered: the
//! next start reads the log again. Nothing that was acknowledged is lost by ending here.

use std::fmt::Display;
use std::process;
use std::thread;

/// Logs the error, and ends the process with exit code 1.
pub(crate) fn fatal(doing: &str, error: &dyn Display) -> ! {
    tracing::error!(
        doing,
        %error,
        "the disk failed and this member stops: repair the disk, then start it again; acknowledged writes are safe"
    );
    process::exit(1)
}

/// Logs why this member must not continue, and ends the process with exit code 1.
pub(crate) fn diverged() -> ! {
    tracing::error!(
        "CORRUPT: this member's state differs from that of the majority, and it stops for good: replace it with \
         `althing member replace`"
    );
    process::exit(1)
}

/// Held by a thread of the core: if it panics, the process ends, so that no other thread waits for it.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
