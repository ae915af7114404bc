//! Althing's own lease service: a stream of lease events, with warnings before a lease expires.
//! A request names leases or none for all; responses come until the client goes away, does not keep up, or the
//! member stops. Nothing that happened after the first response is left out.

use crate::grpc::{call_context, refusal};
use base::{Code, LeaseId};
use proto::althing::lease::v1::lease_event::Type;
use proto::althing::lease::v1::lease_service_server::LeaseService;
use proto::althing::lease::v1::{EventsRequest, EventsResponse, LeaseEvent};
use server::{Handle, LeaseEventFilter, LeaseEventKind, LeaseEvents, RequiredAccess};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::sync::watch::Receiver;
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// Responses that the client has not taken yet; further events wait where they are bounded, too.
const RESPONSES_BUFFERED: usize = 16;
const WARNING_DEFAULT: Duration = Duration::from_secs(5);

pub struct LeaseEventService {
    handle: Handle,
    stopping: Receiver<bool>,
}

impl LeaseEventService {
    pub fn new(handle: Handle, stopping: Receiver<bool>) -> LeaseEventService {
        LeaseEventService { handle, stopping }
    }
}

#[tonic::async_trait]
impl LeaseService for LeaseEventService {
    type EventsStream = BoxStream<EventsResponse>;

    async fn events(&self, request: Request<EventsRequest>) -> Result<Response<Self::EventsStream>, Status> {
        call_context::check_leader(&self.handle, request.metadata()).map_err(refusal::render)?;
        let handle = call_context::admit(&self.handle, request.metadata()).await?;
        handle.auth().permit(RequiredAccess::User).await.map_err(refusal::render)?;
        let wanted = parse(&request.into_inner());
        let events = self.handle.leases().events(wanted).map_err(refusal::render)?;
        let (sender, receiver) = mpsc::channel(RESPONSES_BUFFERED);
        tokio::spawn(send_events(self.handle.clone(), events, sender, self.stopping.clone()));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

fn parse(wire: &EventsRequest) -> LeaseEventFilter {
    let warning = match wire.warning_ms {
        0 => Some(WARNING_DEFAULT),
        given => u64::try_from(given).ok().map(Duration::from_millis),
    };
    LeaseEventFilter { ids: wire.ids.iter().copied().map(LeaseId).collect(), warning }
}

async fn send_events(
    handle: Handle,
    mut events: LeaseEvents,
    responses: mpsc::Sender<Result<EventsResponse, Status>>,
    mut stopping: Receiver<bool>,
) {
    let header = Some(call_context::header(&handle, handle.status().revision));
    let mut response = Ok(EventsResponse { header, events: Vec::new() });
    loop {
        let ends = response.is_err();
        if responses.send(response).await.is_err() || ends {
            return;
        }
        response = tokio::select! {
            event = events.next() => event.map(|event| render(&handle, event)).map_err(refusal::render),
            () = responses.closed() => return,
            _ = stopping.wait_for(|stopping| *stopping) => Err(refusal::render(Code::Stopped)),
        };
    }
}

fn render(handle: &Handle, event: server::LeaseEvent) -> EventsResponse {
    let mut wire = LeaseEvent { id: event.id.0, ..LeaseEvent::default() };
    let kind = match event.kind {
        LeaseEventKind::Granted { ttl } => {
            wire.ttl = ttl;
            Type::Granted
        }
        LeaseEventKind::Renewed => Type::Renewed,
        LeaseEventKind::Expiring { left_ms } => {
            wire.left_ms = i64::try_from(left_ms).unwrap_or(i64::MAX);
            Type::Expiring
        }
        LeaseEventKind::Expired => Type::Expired,
        LeaseEventKind::Revoked => Type::Revoked,
        LeaseEventKind::Ended => Type::Ended,
    };
    wire.set_type(kind);
    EventsResponse { header: Some(call_context::header(handle, event.revision)), events: vec![wire] }
}
