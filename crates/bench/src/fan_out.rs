//! Loads on watches: how many events a server sends for its processor time, and how soon a change is seen.
//! Watches are created first and confirmed; then puts follow, and every event is counted or timed.

use crate::calls::Caller;
use crate::stats::Stats;
use crate::wire::{ConnError, Event, GrpcConn};
use bytes::Bytes;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// The number of `WatchResponse.events`.
const EVENTS_FIELD: u32 = 11;

/// One stream with watches of one key.
pub struct Stream(GrpcConn);

impl Stream {
    /// Creates the watches and waits until the server has confirmed them.
    pub async fn open(mut wire: GrpcConn, key: &Bytes, watches: usize) -> Result<Stream, ConnError> {
        let stream = wire.open(WATCH);
        for _ in 0..watches {
            let create = WatchCreateRequest { key: key.clone(), ..WatchCreateRequest::default() };
            let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
            wire.send(stream, &request);
        }
        let mut created = 0;
        let mut ended = None;
        while created < watches && ended.is_none() {
            wire.turn(&mut |_, event| match event {
                Event::Message { message, .. } => created += usize::from(decode(message).created),
                Event::End { outcome, .. } => ended = Some(outcome),
            })
            .await?;
        }
        match ended {
            None => Ok(Stream(wire)),
            Some(_) => Err(ConnError::Closed),
        }
    }

    /// Takes events until `expected` have come.
    pub async fn take(mut self, expected: u64, events: &Cell<u64>) -> Result<(), ConnError> {
        let mut seen = 0;
        while seen < expected {
            self.0
                .turn(&mut |_, event| {
                    if let Event::Message { message, .. } = event {
                        let n_events = count_events(&message);
                        seen += n_events;
                        events.set(events.get() + n_events);
                    }
                })
                .await?;
        }
        Ok(())
    }
}

fn decode(message: Bytes) -> WatchResponse {
    WatchResponse::decode(message).unwrap_or_default()
}

/// Without decoding them: what is measured is the server.
fn count_events(message: &[u8]) -> u64 {
    let (mut rest, mut count) = (message, 0);
    while let Ok((field, wire_type)) = decode_key(&mut rest) {
        count += u64::from(field == EVENTS_FIELD);
        if skip_field(wire_type, field, &mut rest, DecodeContext::default()).is_err() {
            break;
        }
    }
    count
}

/// Puts, and waits for the event of each put before the next: the time from the call to the event.
pub async fn latency(
    mut putter: GrpcConn,
    mut watcher: Stream,
    mut caller: Caller,
    stats: Rc<RefCell<Stats>>,
) -> Result<(), ConnError> {
    while stats.borrow_mut().begin(Instant::now()) {
        let began = Instant::now();
        caller.issue(&mut putter);
        putter.flush().await?;
        let mut seen = false;
        while !seen {
            watcher.0.turn(&mut |_, event| seen |= matches!(event, Event::Message { .. })).await?;
        }
        let latency = began.elapsed();
        let mut outcome = None;
        while outcome.is_none() {
            putter
                .turn(&mut |_, event| {
                    if let Event::End { outcome: ended, .. } = event {
                        outcome = Some(ended);
                    }
                })
                .await?;
        }
        stats.borrow_mut().end(latency, &outcome.unwrap_or_default());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::mvccpb;

    #[test]
    fn events_are_counted_as_they_would_be_decoded() {
        let event = mvccpb::Event { kv: Some(mvccpb::KeyValue::default()), ..mvccpb::Event::default() };
        let response = WatchResponse { watch_id: 7, events: vec![event; 3], ..WatchResponse::default() };
        assert_eq!(count_events(&response.encode_to_vec()), 3);
        assert_eq!(count_events(&[0xff]), 0);
    }
}
