//! What a client may cost: frames, settings and windows are charged, and a connection that costs too much is closed.

use super::*;

/// The windows that were given on streams, in order.
fn given(talk: &mut Talk) -> Vec<(u32, u32)> {
    let updates = talk.heard().into_iter().filter(|frame| frame.kind == kind::WINDOW_UPDATE);
    let more = |frame: &Frame| u32::from_be_bytes(frame.payload[..].try_into().unwrap());
    updates.filter(|frame| frame.stream > 0).map(|frame| (frame.stream, more(&frame))).collect()
}

const STEP: u32 = LIMITS.extension_step_bytes;

#[test]
fn large_requests_become_whole_one_after_the_other_however_many_come_at_once() {
    let mut talk = Talk::new();
    for stream in [1, 3, 5, 7] {
        talk.post(stream, false);
        talk.data(stream, &[0; 600], false);
    }
    // Two steps fit into the bound; the others wait.
    assert_eq!(given(&mut talk), [(1, STEP), (3, STEP)]);
    // Of those that need more, only the first gets it.
    talk.data(3, &[0; 2_300], false);
    assert_eq!(given(&mut talk), []);
    talk.data(1, &[0; 2_300], false);
    assert_eq!(given(&mut talk), [(1, STEP)]);
    assert_eq!((talk.server.held(), talk.server.largest()), (4 * 600 + 4_600, Some(StreamId(3))));
    // When it is whole, the next one is the first.
    talk.data(1, &[0; 2_000], true);
    assert_eq!(given(&mut talk), [(3, STEP)]);
    talk.say(kind::RST_STREAM, 0, 3, &number(8));
    assert_eq!(given(&mut talk), [(5, STEP), (7, STEP)]);
    talk.server.consume(StreamId(1), 4_900);
    assert_eq!(talk.server.held(), 1_200);
}

#[test]
fn while_memory_is_scarce_no_window_is_extended() {
    let mut talk = Talk::new();
    talk.server.set_scarce(true);
    talk.post(1, false);
    talk.data(1, &[0; 900], false);
    assert_eq!(given(&mut talk), []);
    talk.server.set_scarce(false);
    assert_eq!(given(&mut talk), [(1, STEP)]);
}

#[test]
fn what_was_given_in_advance_is_not_given_again() {
    let mut talk = Talk::new();
    talk.post(1, false);
    talk.data(1, &[0; 900], false);
    assert_eq!(given(&mut talk), [(1, STEP)]);
    talk.server.consume(StreamId(1), 900);
    assert_eq!(given(&mut talk), []);
    // 1,000 at the beginning, 2,000 in advance.
    talk.data(1, &[0; 2_100], false);
    talk.server.consume(StreamId(1), 2_100);
    assert_eq!(talk.server.held(), 0);
    let mut sent = 3_000;
    for (_, more) in given(&mut talk) {
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
    let mut talk = Talk::new();
    (0..4).for_each(|nth| drop(talk.post(2 * nth + 1, true)));
    let many =
        [setting(setting::INITIAL_WINDOW_SIZE, 10), setting(setting::INITIAL_WINDOW_SIZE, 70_000)].concat();
    talk.say(kind::SETTINGS, 0, 0, &many.repeat(1_000));
    assert!(!talk.server.is_over());
    talk.server.answer_head(StreamId(1), 200, [], false);
    assert!(!talk.server.send_data(StreamId(1), vec![0; 70_000].into(), false), "the connection has less");
    talk.heard();
    let frames = flood(|talk, _| drop(talk.say(kind::SETTINGS, 0, 0, &many.repeat(1_000))));
    assert!(frames.is_some_and(|frames| frames < 100), "{frames:?}");
}

#[test]
fn acknowledgements_window_updates_and_small_pieces_are_charged() {
    assert!(flood(|talk, _| drop(talk.say(kind::SETTINGS, flag::ACK, 0, &[]))).is_some());
    assert!(flood(|talk, _| drop(talk.say(kind::WINDOW_UPDATE, 0, 0, &number(1)))).is_some());
    let of_stream = |talk: &mut Talk, nth: u32| {
        if nth == 0 {
            talk.post(1, false);
        }
        talk.say(kind::WINDOW_UPDATE, 0, 1, &number(1));
    };
    assert!(flood(of_stream).is_some());
    let pieces = |talk: &mut Talk, nth: u32| {
        if nth == 0 {
            talk.post(1, false);
        }
        if !talk.data(1, b"a", false).is_empty() {
            talk.server.consume(StreamId(1), 1);
        }
    };
    assert!(flood(pieces).is_some());
}

#[test]
fn a_client_that_takes_what_it_asked_for_may_say_so() {
    let reader = flood(|talk, nth| {
        if nth == 0 {
            talk.post(1, true);
            talk.server.answer_head(StreamId(1), 200, [], false);
        }
        talk.server.send_data(StreamId(1), vec![0; 16_384].into(), false);
        talk.say(kind::WINDOW_UPDATE, 0, 0, &number(16_384));
        talk.say(kind::WINDOW_UPDATE, 0, 1, &number(16_384));
    });
    assert_eq!(reader, None);
}

#[test]
fn heads_that_are_too_large_keep_their_charge() {
    let mut block = vec![0x83, 0x86, 0x84];
    (0..20).for_each(|_| block.extend_from_slice(&[0x00, 1, b'a', 1, b'b']));
    let flags = flag::END_HEADERS | flag::END_STREAM;
    let refused = flood(|talk, nth| drop(talk.say(kind::HEADERS, flags, 2 * nth + 1, &block)));
    assert!(refused.is_some_and(|nth| nth <= 1_001), "{refused:?}");
}

#[test]
fn a_stream_that_depends_on_itself_is_in_error() {
    let mut talk = Talk::new();
    let on = |stream: u32| [&number(stream)[..], &[7]].concat();
    let fields = [on(1), vec![0x83, 0x86, 0x84]].concat();
    talk.say(kind::HEADERS, flag::END_HEADERS | flag::PRIORITY, 1, &fields);
    assert_eq!(talk.reset_of(1), Some(ErrorCode::Protocol as u32));
    talk.say(kind::PRIORITY, 0, 3, &on(3));
    assert_eq!(talk.reset_of(3), Some(ErrorCode::Protocol as u32));
    let fields = [on(3), vec![0x83, 0x86, 0x84]].concat();
    assert_eq!(talk.say(kind::HEADERS, flag::END_HEADERS | flag::PRIORITY, 5, &fields).len(), 1);
}

#[test]
fn of_answered_streams_that_their_clients_do_not_end_the_oldest_are_cut() {
    let limits = Limits { streams_max: 1_000, ..LIMITS };
    let mut talk = Talk { server: Connection::new(limits), input: BytesMut::new() };
    talk.say(kind::SETTINGS, 0, 0, &[]);
    for nth in 0..LINGERING_MAX as u32 + 1 {
        talk.post(2 * nth + 1, false);
        talk.server.answer_head(StreamId(2 * nth + 1), 200, [], true);
    }
    assert_eq!(talk.server.streams(), LINGERING_MAX);
    assert_eq!(talk.reset_of(1), Some(ErrorCode::NoError as u32));
}

#[test]
fn a_connection_that_leaves_says_which_streams_it_heard() {
    let mut talk = Talk::new();
    talk.post(1, true);
    talk.server.answer_head(StreamId(1), 200, [], true);
    talk.heard();
    talk.server.leave();
    talk.server.leave();
    let frames = talk.heard();
    assert_eq!((frames.len(), frames[0].kind), (1, kind::GOAWAY));
    assert_eq!(frames[0].payload[..8], [0, 0, 0, 1, 0, 0, 0, 0]);
    assert!(talk.server.is_over() && talk.post(3, true).is_empty());
}
