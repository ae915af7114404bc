//! What a client may cost: frames, settings and windows are charged, and a connection that costs too much is closed.

use super::*;

/// The windows that were given on streams, in order.
fn given(client: &mut TestConnection) -> Vec<(u32, u32)> {
    let updates = client.heard().into_iter().filter(|frame| frame.kind == kind::WINDOW_UPDATE);
    let more = |frame: &Frame| u32::from_be_bytes(frame.payload[..].try_into().unwrap());
    updates.filter(|frame| frame.stream > 0).map(|frame| (frame.stream, more(&frame))).collect()
}

const STEP: u32 = LIMITS.extension_step_bytes;

#[test]
fn large_requests_become_whole_one_after_the_other_however_many_come_at_once() {
    let mut client = TestConnection::new();
    for stream in [1, 3, 5, 7] {
        client.post(stream, false);
        client.data(stream, &[0; 600], false);
    }
    // Two steps fit into the bound; the others wait.
    assert_eq!(given(&mut client), [(1, STEP), (3, STEP)]);
    // Of those that need more, only the first gets it.
    client.data(3, &[0; 2_300], false);
    assert_eq!(given(&mut client), []);
    client.data(1, &[0; 2_300], false);
    assert_eq!(given(&mut client), [(1, STEP)]);
    assert_eq!((client.server.held(), client.server.largest()), (4 * 600 + 4_600, Some(StreamId(3))));
    // When it is whole, the next one is the first.
    client.data(1, &[0; 2_000], true);
    assert_eq!(given(&mut client), [(3, STEP)]);
    client.send(kind::RST_STREAM, 0, 3, &number(8));
    assert_eq!(given(&mut client), [(5, STEP), (7, STEP)]);
    client.server.consume(StreamId(1), 4_900);
    assert_eq!(client.server.held(), 1_200);
}

#[test]
fn while_memory_is_scarce_no_window_is_extended() {
    let mut client = TestConnection::new();
    client.server.set_scarce(true);
    client.post(1, false);
    client.data(1, &[0; 900], false);
    assert_eq!(given(&mut client), []);
    client.server.set_scarce(false);
    assert_eq!(given(&mut client), [(1, STEP)]);
}

#[test]
fn what_was_given_in_advance_is_not_given_again() {
    let mut client = TestConnection::new();
    client.post(1, false);
    client.data(1, &[0; 900], false);
    assert_eq!(given(&mut client), [(1, STEP)]);
    client.server.consume(StreamId(1), 900);
    assert_eq!(given(&mut client), []);
    // 1,000 at the beginning, 2,000 in advance.
    client.data(1, &[0; 2_100], false);
    client.server.consume(StreamId(1), 2_100);
    assert_eq!(client.server.held(), 0);
    let mut sent = 3_000;
    for (_, more) in given(&mut client) {
        sent += more;
    }
    assert_eq!(
        sent,
        1_000 + 3_000 + 1_000,
        "a window, what was consumed, and what is left of the second advance"
    );
}

#[test]
fn several_windows_in_one_frame_of_settings_are_applied_once_and_charged_for_every_stream() {
    let mut client = TestConnection::new();
    (0..4).for_each(|nth| drop(client.post(2 * nth + 1, true)));
    let many =
        [setting(setting::INITIAL_WINDOW_SIZE, 10), setting(setting::INITIAL_WINDOW_SIZE, 70_000)].concat();
    client.send(kind::SETTINGS, 0, 0, &many.repeat(1_000));
    assert!(!client.server.is_over());
    client.server.answer_head(StreamId(1), 200, [], false);
    assert!(!client.server.send_data(StreamId(1), vec![0; 70_000].into(), false), "the connection has less");
    client.heard();
    let frames = flood(|client, _| drop(client.send(kind::SETTINGS, 0, 0, &many.repeat(1_000))));
    assert!(frames.is_some_and(|frames| frames < 100), "{frames:?}");
}

#[test]
fn acknowledgements_window_updates_and_small_pieces_are_charged() {
    assert!(flood(|client, _| drop(client.send(kind::SETTINGS, flag::ACK, 0, &[]))).is_some());
    assert!(flood(|client, _| drop(client.send(kind::WINDOW_UPDATE, 0, 0, &number(1)))).is_some());
    let of_stream = |client: &mut TestConnection, nth: u32| {
        if nth == 0 {
            client.post(1, false);
        }
        client.send(kind::WINDOW_UPDATE, 0, 1, &number(1));
    };
    assert!(flood(of_stream).is_some());
    let pieces = |client: &mut TestConnection, nth: u32| {
        if nth == 0 {
            client.post(1, false);
        }
        if !client.data(1, b"a", false).is_empty() {
            client.server.consume(StreamId(1), 1);
        }
    };
    assert!(flood(pieces).is_some());
}

#[test]
fn a_client_that_takes_what_it_asked_for_may_say_so() {
    let reader = flood(|client, nth| {
        if nth == 0 {
            client.post(1, true);
            client.server.answer_head(StreamId(1), 200, [], false);
        }
        client.server.send_data(StreamId(1), vec![0; 16_384].into(), false);
        client.send(kind::WINDOW_UPDATE, 0, 0, &number(16_384));
        client.send(kind::WINDOW_UPDATE, 0, 1, &number(16_384));
    });
    assert_eq!(reader, None);
}

#[test]
fn heads_that_are_too_large_keep_their_charge() {
    let mut block = vec![0x83, 0x86, 0x84];
    (0..20).for_each(|_| block.extend_from_slice(&[0x00, 1, b'a', 1, b'b']));
    let flags = flag::END_HEADERS | flag::END_STREAM;
    let refused = flood(|client, nth| drop(client.send(kind::HEADERS, flags, 2 * nth + 1, &block)));
    assert!(refused.is_some_and(|nth| nth <= 1_001), "{refused:?}");
}

#[test]
fn a_stream_that_depends_on_itself_is_in_error() {
    let mut client = TestConnection::new();
    let on = |stream: u32| [&number(stream)[..], &[7]].concat();
    let fields = [on(1), vec![0x83, 0x86, 0x84]].concat();
    client.send(kind::HEADERS, flag::END_HEADERS | flag::PRIORITY, 1, &fields);
    assert_eq!(client.reset_of(1), Some(ErrorCode::Protocol as u32));
    client.send(kind::PRIORITY, 0, 3, &on(3));
    assert_eq!(client.reset_of(3), Some(ErrorCode::Protocol as u32));
    let fields = [on(3), vec![0x83, 0x86, 0x84]].concat();
    assert_eq!(client.send(kind::HEADERS, flag::END_HEADERS | flag::PRIORITY, 5, &fields).len(), 1);
}

#[test]
fn of_answered_streams_that_their_clients_do_not_end_the_oldest_are_cut() {
    let limits = Limits { streams_max: 1_000, ..LIMITS };
    let mut client = TestConnection { server: Connection::new(limits), input: BytesMut::new() };
    client.send(kind::SETTINGS, 0, 0, &[]);
    for nth in 0..LINGERING_MAX as u32 + 1 {
        client.post(2 * nth + 1, false);
        client.server.answer_head(StreamId(2 * nth + 1), 200, [], true);
    }
    assert_eq!(client.server.streams(), LINGERING_MAX);
    assert_eq!(client.reset_of(1), Some(ErrorCode::NoError as u32));
}

#[test]
fn a_connection_that_leaves_says_which_streams_it_heard() {
    let mut client = TestConnection::new();
    client.post(1, true);
    client.server.answer_head(StreamId(1), 200, [], true);
    client.heard();
    client.server.leave();
    client.server.leave();
    let frames = client.heard();
    assert_eq!((frames.len(), frames[0].kind), (1, kind::GOAWAY));
    assert_eq!(frames[0].payload[..8], [0, 0, 0, 1, 0, 0, 0, 0]);
    assert!(client.server.is_over() && client.post(3, true).is_empty());
}
