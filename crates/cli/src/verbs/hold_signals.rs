//! Every signal that a process can catch, for a wrapper that passes them on to its command.

use crate::signals;
use rustix::process::Signal;
use std::future::poll_fn;
use std::task::Poll;
use tokio::signal::unix::{self, SignalKind, signal};

/// The signals that ask a process to end.
const STOPPING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
/// Others that are passed on. The rest cannot be caught, or says that this process itself did something wrong; real-time
/// signals have no name in `rustix` and end this process, and the command with it.
const PASSED_ON: &[Signal] = &[
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::WINCH,
    Signal::CONT,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::IO,
    #[cfg(target_os = "linux")]
    Signal::POWER,
    Signal::URG,
    Signal::VTALARM,
    Signal::PROF,
    Signal::XCPU,
    Signal::XFSZ,
];

pub struct HoldSignals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl HoldSignals {
    pub fn new() -> std::io::Result<HoldSignals> {
        let listen = |caught: &Signal| Ok((*caught, signal(SignalKind::from_raw(caught.as_raw()))?));
        let wanted = STOPPING.iter().chain(PASSED_ON).filter(|caught| !signals::is_ignored(caught.as_raw()));
        let streams = wanted.map(listen).collect::<std::io::Result<_>>()?;
        Ok(HoldSignals { streams })
    }

    pub async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let mut each = self.streams.iter_mut();
            let arrived = each.find_map(|(caught, stream)| match stream.poll_recv(context) {
                Poll::Ready(Some(())) => Some(*caught),
                Poll::Ready(None) | Poll::Pending => None,
            });
            arrived.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The next one that asks to end.
    pub async fn stop_requested(&mut self) -> Signal {
        loop {
            let caught = self.next().await;
            if is_stopping(caught) {
                return caught;
            }
        }
    }
}

pub fn is_stopping(signal: Signal) -> bool {
    STOPPING.contains(&signal)
}
