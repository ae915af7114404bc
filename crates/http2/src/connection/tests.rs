mod limits;

use super::*;
use crate::hpack::Field;
use bytes::BytesMut;
use std::time::Duration;

const LIMITS: Limits = Limits {
    streams_max: 4,
    stream_window_bytes: 1_000,
    extension_step_bytes: 2_000,
    extension_bytes_max: 5_000,
    connection_window_bytes: 70_000,
    header_list_bytes_max: 600,
    output_bytes_soft: 100_000,
};

/// A connection, and a client that sends anything.
struct TestConnection {
    server: Connection,
    input: BytesMut,
}

#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl TestConnection {
    /// Both sides have sent their settings.
    fn new() -> TestConnection {
        let mut client = TestConnection { server: Connection::new(LIMITS), input: BytesMut::new() };
        assert_eq!(client.send(kind::SETTINGS, 0, 0, &[]), []);
        client.heard();
        client
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<Event> {
        let mut bytes = Vec::new();
        frame::put_head(payload.len(), kind, flags, stream, &mut bytes);
        bytes.extend_from_slice(payload);
        // One byte after the other: what is not whole waits.
        let mut events = Vec::new();
        for byte in bytes {
            self.input.extend_from_slice(&[byte]);
            while let Some(event) = self.server.next(&mut self.input) {
                events.push(event);
            }
        }
        self.server.fill();
        events
    }

    fn post(&mut self, stream: u32, last: bool) -> Vec<Event> {
        let flags = flag::END_HEADERS | if last { flag::END_STREAM } else { 0 };
        self.send(kind::HEADERS, flags, stream, &[0x83, 0x86, 0x84])
    }

    fn data(&mut self, stream: u32, data: &[u8], last: bool) -> Vec<Event> {
        self.send(kind::DATA, u8::from(last), stream, data)
    }

    /// What the server has written since.
    fn heard(&mut self) -> Vec<Frame> {
        let bytes = std::mem::take(self.server.output());
        let (mut frames, mut rest) = (Vec::new(), &bytes[..]);
        while let Some(head) = rest.first_chunk::<{ frame::HEAD_BYTES }>() {
            let head = frame::FrameHead::parse(head);
            let (payload, behind) = rest[frame::HEAD_BYTES..].split_at(head.len);
            let frame =
                Frame { kind: head.kind, flags: head.flags, stream: head.stream, payload: payload.to_vec() };
            frames.push(frame);
            rest = behind;
        }
        assert!(rest.is_empty(), "whole frames are written");
        frames
    }

    fn kinds(&mut self) -> Vec<(u8, u32)> {
        self.heard().iter().map(|frame| (frame.kind, frame.stream)).collect()
    }

    /// The code of the GOAWAY that ended the connection.
    fn failed(&mut self) -> Option<u32> {
        assert!(self.server.is_over());
        let frames = self.heard();
        let last = frames.last().filter(|frame| frame.kind == kind::GOAWAY)?;
        Some(u32::from_be_bytes(last.payload[4..8].try_into().unwrap()))
    }

    /// The code with which this stream was reset.
    fn reset_of(&mut self, stream: u32) -> Option<u32> {
        assert!(!self.server.is_over(), "only a stream was in error");
        let frames = self.heard();
        let reset = frames.iter().find(|frame| frame.kind == kind::RST_STREAM && frame.stream == stream)?;
        Some(u32::from_be_bytes(reset.payload[..].try_into().unwrap()))
    }
}

fn number(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_setting(id, value, &mut out);
    out
}

#[test]
fn a_request_comes_out_as_events_and_its_answer_as_frames() {
    let mut client = TestConnection::new();
    let events = client.post(1, false);
    let [Event::Request { stream: StreamId(1), head, last: false }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((&*head.method, &*head.scheme, &*head.path), (&b"POST"[..], &b"http"[..], &b"/"[..]));
    let data = Bytes::from_static(b"question");
    assert_eq!(client.data(1, b"question", true), [Event::Data { stream: StreamId(1), data, last: true }]);
    let head = [Field::from_static("content-type", "application/grpc")];
    let trailers = [Field::from_static("grpc-status", "0")];
    client.server.answer_whole(StreamId(1), &head, 6, |out| out.extend_from_slice(b"answer"), &trailers);
    let frames = client.heard();
    let seen: Vec<_> = frames.iter().map(|frame| (frame.kind, frame.flags)).collect();
    let end = flag::END_STREAM | flag::END_HEADERS;
    assert_eq!(seen, [(kind::HEADERS, flag::END_HEADERS), (kind::DATA, 0), (kind::HEADERS, end)]);
    assert_eq!(frames[1].payload, b"answer");
    assert_eq!(client.server.streams(), 0);
}

#[test]
fn settings_and_pings_are_acknowledged() {
    let mut client = TestConnection { server: Connection::new(LIMITS), input: BytesMut::new() };
    assert_eq!(client.kinds(), [(kind::SETTINGS, 0), (kind::WINDOW_UPDATE, 0)]);
    client.send(kind::SETTINGS, 0, 0, &setting(99, 7));
    client.send(kind::SETTINGS, flag::ACK, 0, &[]);
    client.send(kind::PING, 0, 0, b"12345678");
    client.send(kind::PING, flag::ACK, 0, b"12345678");
    let frames = client.heard();
    assert_eq!(frames[0], Frame { kind: kind::SETTINGS, flags: flag::ACK, stream: 0, payload: vec![] });
    assert_eq!(
        frames[1],
        Frame { kind: kind::PING, flags: flag::ACK, stream: 0, payload: b"12345678".to_vec() }
    );
    assert_eq!(frames.len(), 2);
}

#[test]
fn a_connection_error_is_sent_with_its_code() {
    use ErrorCode::{Compression, FlowControl, FrameSize, Protocol, StreamClosed};
    type Said = (u8, u8, u32, Vec<u8>);
    let cases: Vec<(ErrorCode, Said)> = vec![
        (Protocol, (kind::DATA, 0, 0, vec![1])),
        (Protocol, (kind::DATA, 0, 7, vec![1])),
        (Protocol, (kind::DATA, flag::PADDED, 1, vec![9, 1])),
        (Protocol, (kind::HEADERS, flag::END_HEADERS, 2, vec![0x83, 0x86, 0x84])),
        (Protocol, (kind::HEADERS, flag::END_HEADERS, 0, vec![0x83, 0x86, 0x84])),
        (Compression, (kind::HEADERS, flag::END_HEADERS, 5, vec![0x80])),
        (StreamClosed, (kind::HEADERS, flag::END_HEADERS, 3, vec![0x83, 0x86, 0x84])),
        (Protocol, (kind::CONTINUATION, flag::END_HEADERS, 1, vec![])),
        (Protocol, (kind::RST_STREAM, 0, 0, number(8).to_vec())),
        (Protocol, (kind::RST_STREAM, 0, 9, number(8).to_vec())),
        (FrameSize, (kind::RST_STREAM, 0, 1, vec![0; 3])),
        (Protocol, (kind::SETTINGS, 0, 1, vec![])),
        (FrameSize, (kind::SETTINGS, 0, 0, vec![0; 5])),
        (FrameSize, (kind::SETTINGS, flag::ACK, 0, vec![0; 6])),
        (Protocol, (kind::SETTINGS, 0, 0, setting(setting::ENABLE_PUSH, 2))),
        (FlowControl, (kind::SETTINGS, 0, 0, setting(setting::INITIAL_WINDOW_SIZE, 1 << 31))),
        (Protocol, (kind::SETTINGS, 0, 0, setting(setting::MAX_FRAME_SIZE, 16_383))),
        (Protocol, (kind::SETTINGS, 0, 0, setting(setting::MAX_FRAME_SIZE, 1 << 24))),
        (FrameSize, (kind::PING, 0, 0, vec![0; 7])),
        (Protocol, (kind::PING, 0, 1, vec![0; 8])),
        (Protocol, (kind::GOAWAY, 0, 1, vec![0; 8])),
        (FrameSize, (kind::GOAWAY, 0, 0, vec![0; 7])),
        (Protocol, (kind::PUSH_PROMISE, 0, 1, vec![0; 8])),
        (FrameSize, (kind::PRIORITY, 0, 1, vec![0; 4])),
        (Protocol, (kind::PRIORITY, 0, 0, vec![0; 5])),
        (FrameSize, (kind::WINDOW_UPDATE, 0, 0, vec![0; 3])),
        (Protocol, (kind::WINDOW_UPDATE, 0, 0, number(0).to_vec())),
        (Protocol, (kind::WINDOW_UPDATE, 0, 9, number(1).to_vec())),
        (FlowControl, (kind::WINDOW_UPDATE, 0, 0, number(frame::WINDOW_MAX).to_vec())),
    ];
    for (code, (kind, flags, stream, payload)) in cases {
        let mut client = TestConnection::new();
        client.post(1, false);
        client.post(3, true);
        client.server.answer_head(StreamId(3), 200, [], true);
        client.send(kind, flags, stream, &payload);
        assert_eq!(client.failed(), Some(code as u32), "frame {kind} of stream {stream}");
        assert_eq!(client.post(11, true), [], "nothing more is heard");
    }
}

#[test]
fn settings_come_first_and_frames_have_their_size() {
    let mut client = TestConnection { server: Connection::new(LIMITS), input: BytesMut::new() };
    client.send(kind::PING, 0, 0, &[0; 8]);
    assert_eq!(client.failed(), Some(ErrorCode::Protocol as u32));
    let mut client = TestConnection::new();
    client.input.extend_from_slice(&[0, 0x40, 1, kind::DATA, 0, 0, 0, 0, 1]);
    assert_eq!(client.server.next(&mut client.input), None);
    assert_eq!(client.failed(), Some(ErrorCode::FrameSize as u32));
}

#[test]
fn what_breaks_one_stream_leaves_the_others() {
    use ErrorCode::{FlowControl, Protocol, StreamClosed};
    type Said = (u8, u8, u32, Vec<u8>);
    let cases: Vec<(ErrorCode, Said)> = vec![
        // Data and fields behind the end of a request; data on a stream that is over.
        (StreamClosed, (kind::DATA, 0, 3, vec![1])),
        (StreamClosed, (kind::HEADERS, flag::END_HEADERS, 3, vec![0x83])),
        (StreamClosed, (kind::DATA, 0, 5, vec![1])),
        // Trailers that do not end it, and pseudo-fields among them.
        (Protocol, (kind::HEADERS, flag::END_HEADERS, 1, vec![])),
        (Protocol, (kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, vec![0x83])),
        (FlowControl, (kind::DATA, 0, 1, vec![0; 1_001])),
        (Protocol, (kind::WINDOW_UPDATE, 0, 1, number(0).to_vec())),
        (FlowControl, (kind::WINDOW_UPDATE, 0, 1, number(frame::WINDOW_MAX).to_vec())),
        // A request without a path.
        (Protocol, (kind::HEADERS, flag::END_HEADERS, 7, vec![0x83, 0x86])),
    ];
    for (code, (kind, flags, stream, payload)) in cases {
        let mut client = TestConnection::new();
        client.post(1, false);
        client.post(3, true);
        client.post(5, true);
        client.server.answer_head(StreamId(5), 200, [], true);
        client.heard();
        let events = client.send(kind, flags, stream, &payload);
        let known = if stream < 5 { vec![Event::Reset { stream: StreamId(stream) }] } else { vec![] };
        assert_eq!(events, known, "frame {kind} of stream {stream}");
        assert_eq!(client.reset_of(stream), Some(code as u32), "frame {kind} of stream {stream}");
        // What was under way is ignored without another reset.
        client.data(stream, b"late", false);
        assert_eq!(client.heard(), []);
        assert_eq!(client.post(9, true).len(), 1);
    }
}

#[test]
fn a_body_must_be_as_long_as_was_promised() {
    let promise = |length: &str| {
        let mut block = vec![0x83, 0x86, 0x84, 0x0f, 0x0d, length.len() as u8];
        block.extend_from_slice(length.as_bytes());
        block
    };
    for (length, body, last, kept) in
        [("4", &b"abcd"[..], true, true), ("4", b"abc", true, false), ("4", b"abcde", false, false)]
    {
        let mut client = TestConnection::new();
        client.send(kind::HEADERS, flag::END_HEADERS, 1, &promise(length));
        let events = client.data(1, body, last);
        assert_eq!(matches!(events[..], [Event::Data { .. }]), kept, "{length} {body:?}");
        assert_eq!(client.reset_of(1), (!kept).then_some(ErrorCode::Protocol as u32));
    }
}

#[test]
fn fields_may_come_in_several_frames_but_nothing_between_them_and_not_for_ever() {
    let mut client = TestConnection::new();
    assert_eq!(client.send(kind::HEADERS, flag::END_STREAM, 1, &[0x83]), []);
    assert_eq!(client.send(kind::CONTINUATION, 0, 1, &[0x86]), []);
    let events = client.send(kind::CONTINUATION, flag::END_HEADERS, 1, &[0x84]);
    assert!(matches!(events[..], [Event::Request { last: true, .. }]));

    client.send(kind::HEADERS, 0, 3, &[0x83]);
    client.send(kind::PING, 0, 0, &[0; 8]);
    assert_eq!(client.failed(), Some(ErrorCode::Protocol as u32));

    let mut client = TestConnection::new();
    client.send(kind::HEADERS, 0, 1, &[0x83]);
    (0..20).for_each(|_| drop(client.send(kind::CONTINUATION, 0, 1, &[])));
    assert_eq!(client.failed(), Some(ErrorCode::EnhanceYourCalm as u32));

    let mut client = TestConnection::new();
    client.send(kind::HEADERS, 0, 1, &[0x83]);
    client.send(kind::CONTINUATION, 0, 1, &[0x83; 16_384]);
    assert_eq!(client.failed(), Some(ErrorCode::EnhanceYourCalm as u32));
}

#[test]
fn a_head_with_too_many_fields_is_answered_so() {
    let mut client = TestConnection::new();
    let mut block = vec![0x83, 0x86, 0x84];
    (0..20).for_each(|_| block.extend_from_slice(&[0x00, 1, b'a', 1, b'b']));
    assert_eq!(client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block), []);
    let frames = client.heard();
    assert_eq!((frames.len(), frames[0].kind), (1, kind::HEADERS));
    assert!(frames[0].payload.ends_with(b"431"));
}

#[test]
fn streams_beyond_the_bound_are_refused() {
    let mut client = TestConnection::new();
    (0..4).for_each(|nth| assert_eq!(client.post(2 * nth + 1, true).len(), 1));
    assert_eq!(client.post(9, true), []);
    assert_eq!(client.reset_of(9), Some(ErrorCode::RefusedStream as u32));
    client.server.answer_head(StreamId(1), 200, [], true);
    assert_eq!(client.post(11, true).len(), 1);
}

#[test]
fn credit_is_given_back_as_bodies_are_consumed() {
    let mut client = TestConnection::new();
    client.post(1, false);
    for _ in 0..2 {
        client.data(1, &[0; 300], false);
        client.server.consume(StreamId(1), 249);
    }
    assert_eq!(client.heard(), []);
    client.server.consume(StreamId(1), 2);
    let update = Frame { kind: kind::WINDOW_UPDATE, flags: 0, stream: 1, payload: number(500).to_vec() };
    assert_eq!(client.heard(), [update]);
    // More than was received cannot be consumed.
    client.server.consume(StreamId(1), 1_000_000);
    assert_eq!(client.heard(), []);
}

#[test]
fn a_stream_that_ends_gives_its_share_of_the_window_back() {
    let mut client = TestConnection::new();
    // Nothing is ever consumed, and still a hundred windows' worth can be sent.
    for nth in 0..7_000 {
        let stream = 2 * nth + 1;
        client.post(stream, false);
        assert_eq!(client.data(stream, &[0; 1_000], true).len(), 1);
        match nth % 3 {
            0 => client.server.answer_head(StreamId(stream), 200, [], true),
            1 => client.server.reset(StreamId(stream), ErrorCode::Internal),
            _ => drop(client.send(kind::RST_STREAM, 0, stream, &number(8))),
        }
        client.server.advance(Instant(u64::from(nth) * 100_000));
    }
    assert!(!client.server.is_over());
    assert!(client.heard().iter().any(|frame| frame.kind == kind::WINDOW_UPDATE && frame.stream == 0));
}

#[test]
fn padding_counts_for_the_window_and_is_consumed_at_once() {
    let mut client = TestConnection::new();
    client.post(1, false);
    let mut payload = vec![255];
    payload.extend_from_slice(&[7; 256]);
    for _ in 0..2 {
        let events = client.send(kind::DATA, flag::PADDED, 1, &payload);
        assert!(matches!(&events[..], [Event::Data { data, .. }] if data.len() == 1));
    }
    let update = Frame { kind: kind::WINDOW_UPDATE, flags: 0, stream: 1, payload: number(512).to_vec() };
    assert_eq!(client.heard(), [update]);
}

#[test]
fn an_answer_waits_for_the_windows_and_goes_on_with_them() {
    let mut client = TestConnection::new();
    client.send(kind::SETTINGS, 0, 0, &setting(setting::INITIAL_WINDOW_SIZE, 10));
    client.post(1, true);
    client.heard();
    client.server.answer_head(StreamId(1), 200, [], false);
    assert!(!client.server.send_data(StreamId(1), Bytes::from_static(&[1; 25]), false));
    client.server.send_trailers(StreamId(1), vec![Field::from_static("grpc-status", "0")]);
    let lens = |client: &mut TestConnection| -> Vec<(u8, usize)> {
        client.heard().iter().map(|frame| (frame.kind, frame.payload.len())).collect()
    };
    assert_eq!(lens(&mut client), [(kind::HEADERS, 1), (kind::DATA, 10)]);
    // The setting moves open windows, below zero if need be.
    client.send(kind::SETTINGS, 0, 0, &setting(setting::INITIAL_WINDOW_SIZE, 5));
    client.send(kind::WINDOW_UPDATE, 0, 1, &number(5));
    assert_eq!(lens(&mut client), [(kind::SETTINGS, 0)]);
    client.send(kind::WINDOW_UPDATE, 0, 1, &number(7));
    assert_eq!(lens(&mut client), [(kind::DATA, 7)]);
    assert_eq!(client.server.next_drained(), None);
    client.send(kind::SETTINGS, 0, 0, &setting(setting::INITIAL_WINDOW_SIZE, 100));
    assert_eq!(lens(&mut client)[1..], [(kind::DATA, 8), (kind::HEADERS, 15)]);
    assert_eq!(client.server.next_drained(), Some(StreamId(1)));
    assert_eq!(client.server.streams(), 0);
}

#[test]
fn an_end_alone_needs_no_window() {
    let mut client = TestConnection::new();
    client.send(kind::SETTINGS, 0, 0, &setting(setting::INITIAL_WINDOW_SIZE, 0));
    for stream in [1, 3] {
        client.post(stream, true);
        client.server.answer_head(StreamId(stream), 200, [], false);
        client.heard();
    }
    assert!(client.server.send_data(StreamId(1), Bytes::new(), true));
    client.server.send_trailers(StreamId(3), vec![]);
    let ends: Vec<_> = client.heard().iter().map(|frame| (frame.kind, frame.flags & 1)).collect();
    assert_eq!(ends, [(kind::DATA, 1), (kind::HEADERS, 1)]);
}

#[test]
fn streams_that_wait_take_turns() {
    let mut client = TestConnection::new();
    for stream in [1, 3] {
        client.post(stream, true);
        client.send(kind::WINDOW_UPDATE, 0, stream, &number(1_000_000));
    }
    client.heard();
    client.server.answer_head(StreamId(1), 200, [], false);
    client.server.answer_head(StreamId(3), 200, [], false);
    // The window of the connection is spent on the first of them.
    assert!(!client.server.send_data(StreamId(1), vec![1; 200_000].into(), true));
    assert!(!client.server.send_data(StreamId(3), vec![3; 200_000].into(), true));
    client.heard();
    client.send(kind::WINDOW_UPDATE, 0, 0, &number(4 * 16_384));
    assert_eq!(client.kinds(), [1, 3, 1, 3].map(|stream| (kind::DATA, stream)));
}

#[test]
fn bodies_wait_while_the_output_is_not_written() {
    let mut client = TestConnection::new();
    client.post(1, true);
    client.send(kind::WINDOW_UPDATE, 0, 1, &number(1 << 30));
    client.send(kind::WINDOW_UPDATE, 0, 0, &number(1 << 30));
    client.server.answer_head(StreamId(1), 200, [], false);
    assert!(!client.server.send_data(StreamId(1), vec![1; 1 << 20].into(), true));
    let mut sent = 0;
    while client.server.streams() > 0 {
        assert!(client.server.output().len() < LIMITS.output_bytes_soft + 20_000);
        let data = |frame: &Frame| if frame.kind == kind::DATA { frame.payload.len() } else { 0 };
        sent += client.heard().iter().map(data).sum::<usize>();
        client.server.fill();
    }
    sent += client.heard().iter().map(|frame| frame.payload.len()).sum::<usize>();
    assert_eq!(sent, 1 << 20);
    assert_eq!(client.server.next_drained(), Some(StreamId(1)));
}

#[test]
fn an_answer_to_half_a_request_ends_it() {
    let mut client = TestConnection::new();
    for stream in [1, 3, 5] {
        client.post(stream, false);
        client.server.answer_head(StreamId(stream), 200, [], true);
        assert_eq!(client.reset_of(stream), None, "the client may end it");
    }
    assert_eq!(client.data(1, b"the end", true), []);
    assert_eq!(client.send(kind::RST_STREAM, 0, 3, &number(8)), []);
    assert_eq!(client.heard(), []);
    assert_eq!(client.data(5, b"a little more", false), []);
    assert_eq!(client.heard(), []);
    assert_eq!(client.data(5, &[0; 600], false), []);
    assert_eq!(client.reset_of(5), Some(ErrorCode::NoError as u32), "the rest is not needed");
    assert_eq!(client.data(5, b"still coming", true), []);
    assert_eq!((client.heard(), client.server.streams()), (vec![], 0));
}

#[test]
fn a_shutdown_finishes_open_streams() {
    let mut client = TestConnection::new();
    client.post(1, true);
    client.server.shut_down();
    client.server.shut_down();
    let frames = client.heard();
    assert_eq!(frames.iter().map(|frame| frame.kind).collect::<Vec<_>>(), [kind::GOAWAY, kind::PING]);
    // The client did not know yet.
    assert_eq!(client.post(3, true).len(), 1);
    client.send(kind::PING, flag::ACK, 0, &frames[1].payload);
    assert_eq!(client.heard()[0].payload[..4], number(3));
    assert_eq!(client.post(5, true), []);
    assert_eq!(client.reset_of(5), Some(ErrorCode::RefusedStream as u32));
    client.server.answer_head(StreamId(1), 200, [], true);
    assert!(!client.server.is_over());
    client.server.answer_head(StreamId(3), 200, [], true);
    assert!(client.server.is_over());
}

/// Repeats it until the connection fails, or for ever. Returns how often it could be repeated.
fn flood(mut send: impl FnMut(&mut TestConnection, u32)) -> Option<u32> {
    let mut client = TestConnection::new();
    for nth in 0..20_000 {
        send(&mut client, nth);
        if client.server.is_over() {
            assert_eq!(client.failed(), Some(ErrorCode::EnhanceYourCalm as u32));
            return Some(nth);
        }
        client.server.output().clear();
    }
    None
}

#[test]
fn floods_of_what_costs_nothing_to_send_are_ended() {
    assert!(flood(|client, _| drop(client.send(kind::PING, 0, 0, &[0; 8]))).is_some());
    assert!(flood(|client, _| drop(client.send(kind::SETTINGS, 0, 0, &[]))).is_some());
    assert!(flood(|client, _| drop(client.send(kind::PRIORITY, 0, 1, &[0; 5]))).is_some());
    assert!(flood(|client, _| drop(client.send(77, 0, 1, &[]))).is_some());
    let empty = flood(|client, nth| {
        if nth == 0 {
            client.post(1, false);
        }
        client.data(1, b"", false);
    });
    assert!(empty.is_some());
    let resets = flood(|client, nth| {
        client.post(2 * nth + 1, false);
        client.send(kind::RST_STREAM, 0, 2 * nth + 1, &number(8));
    });
    assert!(resets.is_some_and(|nth| nth <= 1_001));
    let errors =
        flood(|client, nth| drop(client.send(kind::HEADERS, flag::END_HEADERS, 2 * nth + 1, &[0x83])));
    assert!(errors.is_some_and(|nth| nth <= 1_001));
}

#[test]
fn an_honest_client_is_never_cut_off() {
    let answered_pings = flood(|client, nth| {
        client.post(2 * nth + 1, true);
        client.server.answer_head(StreamId(2 * nth + 1), 200, [], true);
        (0..5).for_each(|_| drop(client.send(kind::PING, 0, 0, &[0; 8])));
    });
    assert_eq!(answered_pings, None);
    let seldom = flood(|client, nth| {
        client.server.advance(Instant::ZERO.after(Duration::from_millis(20) * nth));
        client.post(2 * nth + 1, false);
        client.send(kind::RST_STREAM, 0, 2 * nth + 1, &number(8));
    });
    assert_eq!(seldom, None);
}

#[test]
fn noise_is_survived() {
    for seed in 0..2_000 {
        let mut rng = base::Rng::new(seed);
        let mut client = TestConnection::new();
        let mut open = Vec::new();
        for _ in 0..60 {
            let len = (rng.next_u64() % 40) as usize;
            let mut payload: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let (kind, mut flags) = ((rng.next_u64() % 11) as u8, rng.next_u64() as u8);
            let stream = (rng.next_u64() % 12) as u32;
            if rng.next_u64().is_multiple_of(2) && kind == kind::HEADERS {
                payload = vec![0x83, 0x86, 0x84];
                flags &= !(flag::PADDED | flag::PRIORITY);
            }
            for event in client.send(kind, flags, stream, &payload) {
                if let Event::Request { stream, .. } = event {
                    open.push(stream);
                }
            }
            if let Some(stream) = open.pop() {
                client.server.answer_whole(stream, &[], 3, |out| out.extend_from_slice(b"abc"), &[]);
            }
        }
        client.heard();
    }
    for seed in 0..2_000 {
        let mut rng = base::Rng::new(seed);
        let mut client = TestConnection::new();
        client.input.extend((0..300).map(|_| rng.next_u64() as u8));
        while client.server.next(&mut client.input).is_some() {}
    }
}
