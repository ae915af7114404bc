//! One HTTP/2 connection: a single task that reads, steps the machine, hands calls to the core or to the router, and
//! writes what has gathered, once a turn. Answers and parts of responses come in by two inboxes that wake it once
//! for all that they hold.
//! While too much output waits for the client nothing more is read from it.

use crate::acceptor::ClientConn;
use crate::audit::{self, Recording};
use crate::conn::callers::CallerCache;
use crate::conn::fast::{self, GrpcFastPath, ParsedCall};
use crate::conn::fields::{self, pairs};
use crate::conn::progress::BodyProgress;
use crate::conn::routed::{CallOrigin, RoutedCall, RoutedPart};
use crate::conn::timers::{ConnTimers, TimerEvent};
use crate::conn::{ConnContext, LIMITS, stop_requested, urgent};
use crate::connections::SlotGuard;
use crate::gateway::old_prefix;
use crate::grpc::kv_service::LargeFound;
use crate::grpc::{calls, refusal};
use crate::metrics::{MethodMetrics, VERSION, VersionCache};
use crate::request_budget::HeldBytes;
use crate::rest::ClientIdentity;
use axum::http::{HeaderMap, StatusCode};
use base::Code;
use bytes::{Bytes, BytesMut};
use coord::call::OpOutcome;
use coord::reply::Reply;
use coord::request::Request;
use http2::{ErrorCode, Event, Head, StreamId};
use server::{InboxReply, ReplyInbox};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tonic::Status;
use tonic::transport::server::Connected;
use tracing::trace;

/// How much is read at once.
const READ_BYTES: usize = 16 * 1024;
/// With so much unwritten, nothing is read.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// A buffer that has grown larger is given back when it is empty.
const OUTPUT_BYTES_KEPT: usize = 16 * 1024;
/// The bytes that incomplete requests of one connection may hold; beyond them they are refused.
const HELD_BYTES_MAX: usize = 32 * 1024 * 1024;
/// For the last bytes before the connection is closed.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Connection {
    conn: ClientConn,
    shared: Arc<ConnContext>,
    callers: CallerCache,
    address: Option<SocketAddr>,
    identity: Option<ClientIdentity>,
    machine: http2::Connection,
    input: BytesMut,
    /// How much of the machine's output the socket has taken.
    written: usize,
    calls: BTreeMap<StreamId, StreamCall>,
    answers: Arc<ReplyInbox<InboxReply>>,
    parts: Arc<ReplyInbox<RoutedPart>>,
    timers: ConnTimers,
    versions: VersionCache,
    slot_guard: Arc<SlotGuard>,
    /// Whether the slot is marked as having requests under way.
    busy: bool,
    /// The part of the process's budget that incomplete requests hold.
    held: HeldBytes,
    /// Resolves when it is time to close.
    close_request: Option<Pin<Box<dyn Future<Output = CloseReason> + Send>>>,
    /// The buffer for what the inboxes held, reused.
    taken_answers: Vec<InboxReply>,
    taken_parts: Vec<RoutedPart>,
}

/// A call under way.
enum StreamCall {
    /// Its message is still arriving, for the fast path.
    Gathering(Box<GatheringCall>),
    /// The core has it.
    Waiting(SubmittedCall),
    Routed(RoutedCall),
}

struct SubmittedCall {
    call: fast::FastCall,
    count: calls::CountedCall,
    deadline: Option<Instant>,
    /// The request, if the router may have to serve it after all: its answer is too large, or its caller must be admitted
    /// again.
    again: Option<Box<(Head, Bytes)>>,
}

struct GatheringCall {
    call: fast::FastCall,
    head: Head,
    body: BytesMut,
    /// Its counters, until the router counts it, and when it began.
    method: Option<Arc<MethodMetrics>>,
    begun: std::time::Instant,
}

impl Drop for GatheringCall {
    /// A call whose message never came whole counts, too.
    fn drop(&mut self) {
        drop(self.method.take().map(|method| calls::CountedCall::begin(method, self.begun)));
    }
}

/// Why the connection closes.
enum CloseReason {
    /// The process stops.
    Stopping,
    /// The connection is idle, and its slot is needed.
    Idle,
}

async fn close_requested(stopping: watch::Receiver<bool>, slot_guard: Arc<SlotGuard>) -> CloseReason {
    tokio::select! {
        () = stop_requested(stopping) => CloseReason::Stopping,
        () = slot_guard.must_close() => CloseReason::Idle,
    }
}

/// The connection is over: it was closed, or broke, or the client is gone.
struct ConnectionOver;

impl Connection {
    /// `input` is what the client has sent after its preface.
    pub fn new(
        conn: ClientConn,
        input: BytesMut,
        shared: Arc<ConnContext>,
        stopping: watch::Receiver<bool>,
    ) -> Connection {
        let slot_guard = conn.slot_guard().clone();
        Connection {
            callers: CallerCache::new(shared.certificate_token_of(&conn), slot_guard.client().clone()),
            address: conn.connect_info(),
            identity: shared.identity_of(&conn),
            conn,
            held: HeldBytes::nothing(&shared.request_budget),
            busy: false,
            shared,
            machine: http2::Connection::new(LIMITS),
            input,
            written: 0,
            calls: BTreeMap::new(),
            answers: Arc::default(),
            parts: Arc::default(),
            timers: ConnTimers::new(),
            versions: VersionCache::default(),
            close_request: Some(Box::pin(close_requested(stopping, slot_guard.clone()))),
            slot_guard,
            taken_answers: Vec::new(),
            taken_parts: Vec::new(),
        }
    }

    pub async fn serve(mut self) {
        let now = self.timers.on_received();
        self.take_input(now);
        if poll_fn(|context| self.poll(context)).await.is_ok() {
            // The client may be gone already, or never read the rest.
            let _ = timeout(GOODBYE_TIMEOUT, self.conn.shutdown()).await;
        }
    }

    /// Runs turns until there is nothing to do but wait.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionOver>> {
        self.answers.mark_awake();
        loop {
            // Answers after requests: what is answered at once is written at once.
            let mut busy = self.read(context)?;
            busy |= self.take_answers(context);
            busy |= self.take_parts(context);
            self.take_time(context)?;
            self.fill();
            busy |= self.write(context)?;
            if self.machine.is_over() && self.machine.output().is_empty() {
                return Poll::Ready(Ok(()));
            }
            if !busy {
                self.note_idle();
                self.slot_guard.client().set_streams(self.calls.len());
                // A connection that waits keeps no buffer.
                if self.input.is_empty() {
                    self.input = BytesMut::new();
                }
                return Poll::Pending;
            }
        }
    }

    fn take_time(&mut self, context: &mut Context<'_>) -> Result<(), ConnectionOver> {
        if let Some(close_request) = &mut self.close_request
            && let Poll::Ready(why) = close_request.as_mut().poll(context)
        {
            self.close_request = None;
            match why {
                CloseReason::Stopping => self.machine.shut_down(),
                CloseReason::Idle => self.machine.leave(),
            }
        }
        while let Some(due) = self.timers.next(context) {
            match due {
                TimerEvent::Ping => self.machine.ping(),
                TimerEvent::Dead => return Err(ConnectionOver),
                TimerEvent::Expired(stream) => self.expire(stream),
                TimerEvent::Sweep => self.sweep(),
            }
        }
        Ok(())
    }

    /// Whether something was read.
    fn read(&mut self, context: &mut Context<'_>) -> Result<bool, ConnectionOver> {
        if self.machine.is_over() || self.machine.output().len() - self.written > OUTPUT_BYTES_MAX {
            return Ok(false);
        }
        self.input.reserve(READ_BYTES);
        match pin!(self.conn.read_buf(&mut self.input)).poll(context) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(1..)) => {}
            Poll::Ready(_) => return Err(ConnectionOver),
        }
        let now = self.timers.on_received();
        self.take_input(now);
        Ok(true)
    }

    fn take_input(&mut self, now: base::Instant) {
        self.machine.advance(now);
        while let Some(event) = self.machine.next(&mut self.input) {
            match event {
                Event::Request { stream, head, last } => self.begin(stream, head, last),
                Event::Data { stream, data, last } => self.take_data(stream, data, last),
                Event::Reset { stream } => self.cancel(stream),
            }
        }
        self.bound_held();
    }

    /// Marks the slot as busy. False if it was told to close before: then the request is not executed.
    fn note_busy(&mut self) -> bool {
        if !self.busy {
            self.busy = self.slot_guard.begin_request();
        }
        self.busy
    }

    fn note_idle(&mut self) {
        if self.busy && self.calls.is_empty() {
            self.busy = false;
            self.slot_guard.end_requests();
        }
    }

    /// Refuses what is largest while the connection holds more than it may, or the process does.
    fn bound_held(&mut self) {
        while self.machine.held() > HELD_BYTES_MAX || !self.held.set(self.machine.held()) {
            let Some(stream) = self.machine.largest() else { return };
            self.refuse_partial(
                stream,
                &refusal::render(Code::TooManyRequests),
                StatusCode::TOO_MANY_REQUESTS,
            );
        }
    }

    /// Refuses requests that take too long to become complete, and resumes others that had to wait for memory.
    fn sweep(&mut self) {
        let request_budget = self.shared.request_budget.clone();
        let now = std::time::Instant::now();
        let is_late = |(bytes, since): &(usize, std::time::Instant)| {
            now.saturating_duration_since(*since) >= request_budget.patience(*bytes)
        };
        let (mut late, mut any) = (Vec::new(), false);
        for (stream, call) in &self.calls {
            if let Some(partial) = call.partial() {
                any = true;
                late.extend(is_late(&partial).then_some(*stream));
            }
        }
        for stream in late {
            self.refuse_partial(stream, &refusal::render(Code::Timeout), StatusCode::REQUEST_TIMEOUT);
        }
        self.machine.set_scarce(request_budget.is_short());
        self.bound_held();
        if any {
            self.timers.sweep_soon();
        }
    }

    /// Refuses a request without reading its body.
    fn refuse_early(&mut self, stream: StreamId, status: &Status) {
        self.answer_status(stream, status);
        self.machine.reset(stream, ErrorCode::NoError);
    }

    /// Refuses a request of which nothing was executed, because it is incomplete.
    fn refuse_partial(&mut self, stream: StreamId, status: &Status, http: StatusCode) {
        let call = self.calls.remove(&stream);
        if self.machine.is_answered(stream) {
            return self.machine.reset(stream, ErrorCode::EnhanceYourCalm);
        }
        match call {
            Some(StreamCall::Routed(bridged)) if !bridged.progress.is_grpc() => {
                self.machine.answer_head(stream, http.as_u16(), [], true);
            }
            Some(StreamCall::Gathering(mut gathering)) => {
                if let Some(method) = gathering.method.take() {
                    calls::CountedCall::begin(method, gathering.begun).end(status.code());
                }
                self.answer_status(stream, status);
            }
            _ => self.answer_status(stream, status),
        }
        // The client need not send the rest.
        self.machine.reset(stream, ErrorCode::NoError);
    }

    /// Whether something was written.
    fn write(&mut self, context: &mut Context<'_>) -> Result<bool, ConnectionOver> {
        let output = self.machine.output();
        if output.is_empty() {
            return self.flush(context);
        }
        match Pin::new(&mut self.conn).poll_write(context, &output[self.written..]) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(written)) => self.written += written,
            Poll::Ready(Err(_)) => return Err(ConnectionOver),
        }
        if self.written == output.len() || self.written > OUTPUT_BYTES_KEPT {
            output.drain(..self.written);
            output.shrink_to(OUTPUT_BYTES_KEPT);
            self.written = 0;
        }
        Ok(true)
    }

    /// TLS may have buffered what the socket has not taken.
    fn flush(&mut self, context: &mut Context<'_>) -> Result<bool, ConnectionOver> {
        match Pin::new(&mut self.conn).poll_flush(context) {
            Poll::Ready(Err(_)) => Err(ConnectionOver),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(false),
        }
    }

    fn fill(&mut self) {
        self.machine.fill();
        while let Some(stream) = self.machine.next_drained() {
            if let Some(StreamCall::Routed(bridged)) = self.calls.get_mut(&stream) {
                bridged.drained();
            }
        }
    }

    fn begin(&mut self, stream: StreamId, mut head: Head, last: bool) {
        if let Some(path) = old_prefix::replace(&head.path) {
            head.path = path;
        }
        self.slot_guard.client().count_request();
        trace!(stream = stream.0, path = %head.path.escape_ascii(), "a call begins");
        if self.slot_guard.is_limited() && !urgent::is_urgent(&head.path) {
            return self.refuse_early(stream, &refusal::render(Code::TooManyRequests));
        }
        let call = fast::call_of(&head).filter(|_| !last);
        match call.zip(self.shared.fast.as_ref()) {
            Some((call, fast)) => {
                self.timers.sweep_soon();
                let method = Some(fast.method(call).clone());
                let begun = self.timers.last_received();
                let gathering = GatheringCall { call, head, body: BytesMut::new(), method, begun };
                self.calls.insert(stream, StreamCall::Gathering(Box::new(gathering)));
            }
            None => {
                if let Some(bridged) = self.bridge(stream, head, None, None) {
                    if last { bridged.end_body() } else { self.timers.sweep_soon() }
                }
            }
        }
    }

    fn bridge(
        &mut self,
        stream: StreamId,
        mut head: Head,
        counted: Option<calls::CountedCall>,
        found: Option<LargeFound>,
    ) -> Option<&mut RoutedCall> {
        self.callers.show(&mut head);
        if !self.note_busy() {
            // The call was not executed, and the client may retry elsewhere.
            self.machine.reset(stream, ErrorCode::RefusedStream);
            self.calls.remove(&stream);
            return None;
        }
        let is_grpc = head.get("content-type").is_some_and(|kind| kind.starts_with(b"application/grpc"));
        let many = std::str::from_utf8(&head.path).is_ok_and(|path| self.shared.streams.contains(path));
        let progress = BodyProgress::new(is_grpc, many, self.timers.last_received());
        let client = self.slot_guard.client().clone();
        if let Some(agent) = head.get("user-agent") {
            client.set_agent(agent);
        }
        let identity = self.identity.clone();
        let from = CallOrigin { stream, address: self.address, identity, counted, found, client };
        let bridged = RoutedCall::begin(
            (&self.shared.router, &self.shared.browsers),
            from,
            head,
            &self.parts,
            progress,
        );
        let Some(bridged) = bridged else {
            self.machine.reset(stream, ErrorCode::Protocol);
            self.calls.remove(&stream);
            return None;
        };
        self.calls.insert(stream, StreamCall::Routed(bridged));
        match self.calls.get_mut(&stream) {
            Some(StreamCall::Routed(bridged)) => Some(bridged),
            _ => None,
        }
    }

    fn take_data(&mut self, stream: StreamId, data: Bytes, last: bool) {
        match self.calls.get_mut(&stream) {
            Some(StreamCall::Gathering(_)) => self.gather(stream, data, last),
            Some(StreamCall::Routed(bridged)) => {
                bridged.push(data, self.timers.last_received());
                if last {
                    bridged.end_body();
                }
                let credit = bridged.progress.credit();
                self.machine.consume(stream, credit);
            }
            // Answered before its end.
            Some(StreamCall::Waiting(_)) | None => self.machine.consume(stream, data.len()),
        }
    }

    fn gather(&mut self, stream: StreamId, data: Bytes, last: bool) {
        let (Some(StreamCall::Gathering(mut gathering)), Some(fast)) =
            (self.calls.remove(&stream), &self.shared.fast)
        else {
            return self.machine.reset(stream, ErrorCode::Internal);
        };
        let whole = if last && gathering.body.is_empty() {
            data
        } else {
            gathering.body.extend_from_slice(&data);
            if !last && fast.can_gather(&gathering.body) {
                self.calls.insert(stream, StreamCall::Gathering(gathering));
                return;
            }
            std::mem::take(&mut gathering.body).freeze()
        };
        let head = std::mem::take(&mut gathering.head);
        let method = gathering.method.take().expect("it is counted once");
        let asked =
            if last { fast.parse_call(gathering.call, &head, whole.clone()) } else { ParsedCall::Unusual };
        // A complete request is not charged any more.
        if !matches!(asked, ParsedCall::Unusual) {
            self.machine.consume(stream, whole.len());
        }
        if !matches!(asked, ParsedCall::Unusual) {
            self.versions.count(&fast.versions, head.get(VERSION));
        }
        let count = || calls::CountedCall::begin(method, gathering.begun);
        match asked {
            ParsedCall::Core(request) => self.submit((stream, gathering.call), request, count(), head, whole),
            ParsedCall::Refused(code) => {
                let mut count = count();
                count.record(self.record_unread(gathering.call, &head));
                self.refuse(stream, count, &refusal::render(code));
            }
            ParsedCall::Unusual => {
                if self.bridge(stream, head, None, None).is_some() {
                    self.take_data(stream, whole, last);
                }
            }
        }
    }

    fn submit(
        &mut self,
        (stream, call): (StreamId, fast::FastCall),
        request: Request,
        mut count: calls::CountedCall,
        head: Head,
        body: Bytes,
    ) {
        if !self.note_busy() {
            drop(count);
            return self.machine.reset(stream, ErrorCode::RefusedStream);
        }
        let Some(fast) = &self.shared.fast else {
            return self.route_whole(stream, (head, body), count, None);
        };
        let certificate_token = fast.handle.audit().and_then(|_| self.callers.certificate_token());
        // The services serve a caller that must wait or is refused.
        let Some(handle) = self.callers.handle(&fast.handle, &head) else {
            return self.route_whole(stream, (head, body), count, None);
        };
        count.record(audit::of_fast_call(
            handle,
            GrpcFastPath::path(call),
            &head,
            (self.address, certificate_token),
            Some(&request),
        ));
        let may_be_large = matches!(request, Request::Range(_));
        let may_be_stale = handle.is_of_user();
        if let Err(code) = handle.kv().submit_to(request, &self.answers, u64::from(stream.0)) {
            return self.refuse(stream, count, &refusal::render(code));
        }
        fast.calls.inc();
        let patience = head.get(calls::TIMEOUT).and_then(|value| calls::parse_timeout(value));
        let deadline = patience.and_then(|patience| self.timers.add(stream, patience));
        let again = (may_be_large || may_be_stale).then(|| Box::new((head, body)));
        self.calls.insert(stream, StreamCall::Waiting(SubmittedCall { call, count, deadline, again }));
    }

    /// The recording of a call whose message is refused before anything is submitted.
    fn record_unread(&mut self, call: fast::FastCall, head: &Head) -> Option<Recording> {
        let open = &self.shared.fast.as_ref()?.handle;
        open.audit()?;
        let certificate_token = self.callers.certificate_token();
        let handle = self.callers.handle(open, head).unwrap_or(open);
        audit::of_fast_call(handle, GrpcFastPath::path(call), head, (self.address, certificate_token), None)
    }

    /// Whether there were answers.
    fn take_answers(&mut self, context: &Context<'_>) -> bool {
        let mut answers = std::mem::take(&mut self.taken_answers);
        self.answers.take(&mut answers, context);
        let any = !answers.is_empty();
        if any && let Some(fast) = &self.shared.clone().fast {
            let term = fast.handle.status().term.0;
            for InboxReply { ticket, outcome } in answers.drain(..) {
                let stream = StreamId(u32::try_from(ticket).expect("tickets are the numbers of streams"));
                // The reply to a call that was cancelled meanwhile is dropped.
                let Some(mut waiting) = self.end_waiting(stream) else { continue };
                match outcome.map(Reply::narrowed) {
                    Ok(Reply { revision, body: OpOutcome::Large(range) }) => {
                        self.route_again(stream, waiting, Some(LargeFound { revision, range: *range }))
                    }
                    // The call was not executed: the auth revision has changed since the caller was admitted.
                    Err(Code::AuthOldRevision) if waiting.again.is_some() => {
                        self.route_again(stream, waiting, None)
                    }
                    Ok(Reply { revision, body: OpOutcome::Whole(reply) }) => {
                        waiting.count.end(tonic::Code::Ok);
                        fast.answer(&mut self.machine, (stream, waiting.call), (revision, reply), term);
                    }
                    Err(code) => self.refuse(stream, waiting.count, &refusal::render(code)),
                }
            }
        }
        self.taken_answers = answers;
        any
    }

    fn end_waiting(&mut self, stream: StreamId) -> Option<SubmittedCall> {
        match self.calls.remove(&stream)? {
            StreamCall::Waiting(waiting) => {
                trace!(stream = stream.0, "a call ends");
                waiting.deadline.inspect(|deadline| self.timers.remove(stream, *deadline));
                Some(waiting)
            }
            other => {
                self.calls.insert(stream, other);
                None
            }
        }
    }

    /// The services read a large answer in pieces, and admit a caller again.
    fn route_again(&mut self, stream: StreamId, waiting: SubmittedCall, found: Option<LargeFound>) {
        let request = *waiting.again.expect("a request that may be repeated is kept");
        self.route_whole(stream, request, waiting.count, found);
    }

    /// Hands a complete call to the router.
    fn route_whole(
        &mut self,
        stream: StreamId,
        (head, body): (Head, Bytes),
        count: calls::CountedCall,
        found: Option<LargeFound>,
    ) {
        let now = self.timers.last_received();
        if let Some(bridged) = self.bridge(stream, head, Some(count), found) {
            bridged.push(body, now);
            bridged.end_body();
        }
    }

    fn refuse(&mut self, stream: StreamId, mut count: calls::CountedCall, status: &Status) {
        let handle = self.shared.fast.as_ref().map(|fast| &fast.handle);
        count.end_for(handle, self.slot_guard.client(), status.code());
        self.answer_status(stream, status);
    }

    fn answer_status(&mut self, stream: StreamId, status: &Status) {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", GRPC);
        status.add_header(&mut headers).expect("our words are plain text");
        fields::complete_status(&mut headers);
        self.machine.answer_head(stream, 200, pairs(&headers), true);
    }

    fn expire(&mut self, stream: StreamId) {
        if let Some(waiting) = self.end_waiting(stream) {
            self.refuse(stream, waiting.count, &calls::late());
        }
    }

    fn cancel(&mut self, stream: StreamId) {
        if let Some(StreamCall::Waiting(SubmittedCall { deadline: Some(deadline), .. })) =
            self.calls.remove(&stream)
        {
            self.timers.remove(stream, deadline);
        }
    }

    /// Whether there were parts.
    fn take_parts(&mut self, context: &Context<'_>) -> bool {
        let mut parts = std::mem::take(&mut self.taken_parts);
        self.parts.take(&mut parts, context);
        let any = !parts.is_empty();
        parts.drain(..).for_each(|part| self.take_part(part));
        self.taken_parts = parts;
        any
    }

    fn take_part(&mut self, part: RoutedPart) {
        match part {
            RoutedPart::Consumed { stream, bytes } => {
                if let Some(StreamCall::Routed(bridged)) = self.calls.get_mut(&stream) {
                    bridged.progress.read(bytes);
                    let credit = bridged.progress.credit();
                    self.machine.consume(stream, credit);
                }
            }
            RoutedPart::Head { stream, mut head, last } => {
                fields::complete_status(&mut head.headers);
                self.machine.answer_head(stream, head.status.as_u16(), pairs(&head.headers), last);
                self.end_if(last, stream);
            }
            RoutedPart::Data { stream, data, last } => {
                if let Some(StreamCall::Routed(bridged)) = self.calls.get_mut(&stream) {
                    let at_once = bridged.send(&mut self.machine, stream, data, last);
                    bridged.sent(at_once);
                }
                self.end_if(last, stream);
            }
            RoutedPart::Trailers { stream, trailers } => {
                self.machine.send_trailers(stream, fields::trailers(trailers));
                self.end_if(true, stream);
            }
            RoutedPart::Broken { stream } => {
                if self.calls.remove(&stream).is_some() {
                    self.machine.reset(stream, ErrorCode::Internal);
                }
            }
        }
    }

    fn end_if(&mut self, last: bool, stream: StreamId) {
        if last {
            trace!(stream = stream.0, "a call of the router ends");
            self.calls.remove(&stream);
        }
    }
}

impl StreamCall {
    /// The bytes of the incomplete message, and since when the rest is waited for.
    fn partial(&self) -> Option<(usize, std::time::Instant)> {
        match self {
            StreamCall::Gathering(gathering) => Some((gathering.body.len(), gathering.begun)),
            StreamCall::Waiting(_) => None,
            StreamCall::Routed(bridged) => bridged.progress.partial(),
        }
    }
}

const GRPC: axum::http::HeaderValue = axum::http::HeaderValue::from_static("application/grpc");
