//! WebSocket for the gateway, as etcd's proxy in front of its own has it: the messages of the client are the body of
//! one request, and every line of the answer is a message back. So a page can watch, and renew leases.
//! A new connection goes in. One that is anything else comes back as it was; a WebSocket is
//! served until either side closes it. Nothing waits without a deadline: a silent client is pinged, and dropped.

pub mod frame;
pub mod handshake;

use crate::browsers::BrowserGuard;
use crate::clients;
use crate::connections::SlotGuard;
use crate::request_budget::{IncompleteRequest, RequestBudget};
use crate::rest::ClientIdentity;
use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use bytes::{Bytes, BytesMut};
use frame::{AWAY, BROKEN, FrameDecoder, NORMAL, SocketEvent, TRY_LATER};
use handshake::{HandshakeCheck, UpgradeRequest};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, interval_at, timeout};
use tonic::codegen::Service;
use tonic::codegen::tokio_stream::StreamExt;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;

/// How long the head of the first request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the client is pinged.
const PING_EVERY: Duration = Duration::from_secs(30);
/// A client that was silent for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(50);
/// A socket that accepts no bytes for so long is closed, too.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 16 * 1024;
/// Parts of messages that the call has not taken yet.
const PARTS_MAX: usize = 4;
/// Pings that are not answered yet; more are too many.
const COMMANDS_MAX: usize = 16;
/// The calls that take a stream of messages; others take one.
pub const STREAMS: [&str; 2] = ["/v3/watch", "/v3/lease/keepalive"];

/// What the reader makes the writer send.
enum WriterCommand {
    Pong(Bytes),
    Close(u16),
}

/// The limits of a connection.
pub struct SocketLimits<'a> {
    pub slot_guard: &'a SlotGuard,
    pub request_budget: &'a Arc<RequestBudget>,
    /// The client's address, while it has one.
    pub address: Option<SocketAddr>,
    /// Its certificate, where the names on certificates are those of users.
    pub identity: Option<ClientIdentity>,
    /// Whose pages may open one.
    pub browsers: &'a BrowserGuard,
}

/// Serves the connection if it is a WebSocket's; else returns what was read of it.
pub async fn serve<S>(stream: &mut S, router: &Router, bounds: SocketLimits<'_>) -> Option<Bytes>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut heard = BytesMut::new();
    match timeout(HEAD_TIMEOUT, receive_head(stream, &mut heard)).await {
        Ok(Ok(Some(opening))) => {
            if bounds.slot_guard.begin_request() {
                let client = bounds.slot_guard.client().clone();
                client.count_request();
                client.set_streams(1);
                // A client that goes away in the middle has had enough.
                let conversation = run_socket(stream, heard, opening, router.clone(), bounds);
                let _ = clients::serve(client, conversation).await;
            }
            None
        }
        Ok(Ok(None)) => Some(heard.freeze()),
        Ok(Err(_)) | Err(_) => None,
    }
}

/// The handshake of a WebSocket, with what came behind it left in `heard`; nothing if it is none.
async fn receive_head<S: AsyncRead + Unpin>(
    stream: &mut S,
    heard: &mut BytesMut,
) -> io::Result<Option<UpgradeRequest>> {
    loop {
        match handshake::check(heard) {
            HandshakeCheck::NotWebSocket => return Ok(None),
            HandshakeCheck::Upgrade { len, opening } => {
                let _head = heard.split_to(len);
                return Ok(Some(opening));
            }
            HandshakeCheck::Incomplete => {}
        }
        if stream.read_buf(heard).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn run_socket<S>(
    stream: &mut S,
    input: BytesMut,
    opening: UpgradeRequest,
    router: Router,
    bounds: SocketLimits<'_>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (from, mut to) = tokio::io::split(stream);
    let accepted = match opening.answer(bounds.browsers) {
        Ok(accepted) => accepted,
        Err(refusal) => return send(&mut to, refusal.as_bytes()).await,
    };
    let (parts, body) = channel(PARTS_MAX);
    let body = Body::from_stream(ReceiverStream::new(body).map(Ok::<Bytes, Infallible>));
    let Some(mut request) = opening.request(body) else {
        return send(&mut to, b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
    };
    // As other connections have it.
    request.extensions_mut().insert(bounds.address);
    if let Some(identity) = bounds.identity {
        request.extensions_mut().insert(identity);
    }
    send(&mut to, accepted.as_bytes()).await?;
    let one_message = !STREAMS.contains(&request.uri().path());
    let (commands, to_say) = channel(COMMANDS_MAX);
    let reader = read(from, input, parts, commands, (one_message, bounds.request_budget));
    let writer = async {
        write(&mut to, router, request, to_say).await?;
        to.shutdown().await
    };
    tokio::pin!(reader, writer);
    let mut listening = true;
    loop {
        tokio::select! {
            // The reader's last message is still to be written.
            () = &mut reader, if listening => listening = false,
            outcome = &mut writer => return outcome,
        }
    }
}

/// Forwards the client's messages, until it closes, breaks the protocol, goes away or is silent for too long.
async fn read(
    mut from: impl AsyncRead + Unpin,
    mut input: BytesMut,
    parts: Sender<Bytes>,
    commands: Sender<WriterCommand>,
    (one_message, request_budget): (bool, &Arc<RequestBudget>),
) {
    let mut parts = Some(parts);
    let mut incomplete: Option<IncompleteRequest> = None;
    let mut decoder = FrameDecoder::default();
    let last = loop {
        let event = match decoder.next(&mut input) {
            Ok(Some(event)) => event,
            Err(code) => break Some(code),
            Ok(None) => {
                input.reserve(READ_BYTES);
                let patience = incomplete
                    .as_ref()
                    .map_or(SILENCE_MAX, |incomplete| incomplete.time_left().min(SILENCE_MAX));
                match timeout(patience, from.read_buf(&mut input)).await {
                    Ok(Ok(1..)) => continue,
                    _ => break None,
                }
            }
        };
        match &event {
            SocketEvent::Part(part) => {
                let incomplete = incomplete.get_or_insert_with(|| IncompleteRequest::new(request_budget));
                if !incomplete.hold_more(part.len()) {
                    break Some(TRY_LATER);
                }
            }
            SocketEvent::End => incomplete = None,
            SocketEvent::Ping(_) | SocketEvent::Pong | SocketEvent::Close => {}
        }
        match event {
            // When the call is over its receiver is dropped, and the writer ends.
            SocketEvent::Part(part) => {
                if let Some(parts) = &parts {
                    let _ = parts.send(part).await;
                }
            }
            SocketEvent::End if one_message => parts = None,
            SocketEvent::End => {
                if let Some(parts) = &parts {
                    let _ = parts.send(Bytes::from_static(b"\n")).await;
                }
            }
            SocketEvent::Ping(payload) => {
                if commands.try_send(WriterCommand::Pong(payload)).is_err() {
                    break Some(BROKEN);
                }
            }
            SocketEvent::Pong => {}
            SocketEvent::Close => break Some(NORMAL),
        }
    };
    if let Some(code) = last {
        let _ = commands.send(WriterCommand::Close(code)).await;
    }
}

/// Makes the call and sends its answers, until it ends or the reader has received the close frame.
async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    mut router: Router,
    request: Request<Body>,
    mut to_say: Receiver<WriterCommand>,
) -> io::Result<()> {
    let mut pings = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    let mut answer = None;
    let call = router.call(request);
    tokio::pin!(call);
    let mut is_within = false;
    loop {
        let bytes = tokio::select! {
            // When the reader ends, so does the call; the close frame is sent first.
            biased;
            word = to_say.recv() => match word {
                Some(WriterCommand::Pong(payload)) => frame::pong(&payload),
                Some(WriterCommand::Close(code)) => return send(to, &frame::close(code)).await,
                None => return Ok(()),
            },
            _ = pings.tick() => frame::ping(),
            response = &mut call, if answer.is_none() => {
                let Ok(response) = response;
                answer = Some(response.into_body().into_data_stream());
                continue;
            }
            part = next(&mut answer), if answer.is_some() => match part {
                Some(Ok(part)) => messages(&part, &mut is_within),
                Some(Err(_)) => return send(to, &frame::close(AWAY)).await,
                None => {
                    let mut last = if is_within { frame::text(b"", false, true) } else { Vec::new() };
                    last.extend(frame::close(NORMAL));
                    return send(to, &last).await;
                }
            },
        };
        send(to, &bytes).await?;
    }
}

async fn next(answer: &mut Option<BodyDataStream>) -> Option<Result<Bytes, axum::Error>> {
    answer.as_mut()?.next().await
}

/// Frames for the arrived part of the answer: a message for each line, and an unfinished one for an incomplete line.
fn messages(part: &[u8], is_within: &mut bool) -> Vec<u8> {
    let mut frames = Vec::new();
    for piece in part.split_inclusive(|byte| *byte == b'\n') {
        let (line, ends) = match piece.strip_suffix(b"\n") {
            Some(line) => (line, true),
            None => (piece, false),
        };
        if !line.is_empty() || *is_within {
            frames.extend(frame::text(line, !*is_within, ends));
            *is_within = !ends;
        }
    }
    frames
}

/// Written and flushed: TLS may buffer what is written.
async fn send(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    let sent = async {
        to.write_all(bytes).await?;
        to.flush().await
    };
    timeout(WRITE_TIMEOUT, sent).await.map_err(|_| io::ErrorKind::TimedOut)?
}

#[cfg(test)]
mod tests;
