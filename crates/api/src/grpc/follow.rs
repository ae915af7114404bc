//! Following keys from a revision on, for services that are more than a watch.
//! A range of keys and a revision go in; their changes come out one revision's events after the other, until the
//! history that is needed was compacted or the member stops.

use base::{Code, KeyRange, Revision};
use coord::watch::{Create, Event, Filters, Input, Refusal, ResponseKind};
use server::{Handle, WatchResponses};
use std::collections::VecDeque;
use std::future::poll_fn;

pub struct KeyFollower {
    responses: WatchResponses,
    events: VecDeque<(Revision, Event)>,
}

impl KeyFollower {
    /// From this revision on, itself included.
    pub async fn begin(handle: &Handle, keys: KeyRange, start: Revision) -> Result<KeyFollower, Code> {
        let handle = handle.auth().readmitted().await?;
        let (requests, responses) = handle.watch_stream()?;
        let create = Create {
            stream: requests.stream(),
            caller: handle.caller().clone(),
            id: None,
            keys,
            start,
            prev_kv: false,
            filters: Filters { no_put: false, no_delete: false },
            progress_notify: false,
            fragment: false,
        };
        if requests.send(Input::Create(create)).await {
            Ok(KeyFollower { responses, events: VecDeque::new() })
        } else {
            Err(Code::Stopped)
        }
    }

    /// The next change, with the revision of the response that it came in.
    pub async fn next(&mut self) -> Result<(Revision, Event), Code> {
        loop {
            if let Some(next) = self.events.pop_front() {
                return Ok(next);
            }
            let batch = poll_fn(|cx| self.responses.poll_take(cx)).await.ok_or(Code::Stopped)?;
            for response in batch {
                match response.kind {
                    ResponseKind::Created | ResponseKind::Progress => {}
                    ResponseKind::Refused(Refusal::Denied(code)) | ResponseKind::Denied(code) => {
                        return Err(code);
                    }
                    ResponseKind::Refused(_) => return Err(Code::FutureRevision),
                    ResponseKind::Canceled { .. } => return Err(Code::Compacted),
                    ResponseKind::Events { batch, .. } => {
                        let events = batch.events().iter().map(|event| (response.revision, event.clone()));
                        self.events.extend(events);
                    }
                }
            }
        }
    }
}
