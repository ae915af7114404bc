//! The signals that stop a process, for every verb that runs until one arrives.

use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal is gone.
    hang_up: Option<Signal>,
}

impl Signals {
    pub fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: None,
        })
    }

    /// Also SIGHUP, unless this process was started to ignore it, as by `nohup`.
    pub fn with_hang_up() -> std::io::Result<Signals> {
        let hang_up = SignalKind::hangup();
        let hang_up = if is_ignored(hang_up.as_raw_value()) { None } else { Some(signal(hang_up)?) };
        Ok(Signals { hang_up, ..Signals::new()? })
    }

    pub async fn next(&mut self) -> &'static str {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = hang_up => "SIGHUP",
        }
    }

    /// From here on a second signal ends the process at once.
    pub fn exit_on_next(mut self) {
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(1);
        });
    }
}

/// Whether this process was started with the signal ignored. Only Linux tells; elsewhere it is taken for not.
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).is_some_and(|rest| rest & 1 == 1))
}
