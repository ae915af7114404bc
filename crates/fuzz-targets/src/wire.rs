//! What clients send before anything of it is believed: HTTP/2 frames and compressed heads.

use base::Instant;
use bytes::{Bytes, BytesMut};
use http2::{Connection, Event, Limits, PREFACE};
use std::time::Duration;

const EVENTS_MAX: usize = 4_096;

/// A client's bytes, behind a preface that is right.
pub fn http2(bytes: &[u8]) {
    let mut connection = Connection::new(Limits {
        streams_max: 16,
        stream_window_bytes: 65_535,
        extension_step_bytes: 10_000,
        extension_bytes_max: 40_000,
        connection_window_bytes: 65_535,
        header_list_bytes_max: 8_192,
        output_bytes_soft: 16_384,
    });
    let mut input = BytesMut::from(PREFACE);
    let mut now = Instant(0);
    for piece in bytes.chunks(97) {
        input.extend_from_slice(piece);
        now = now.after(Duration::from_millis(1));
        connection.advance(now);
        for _ in 0..EVENTS_MAX {
            let Some(event) = connection.next(&mut input) else { break };
            answer(&mut connection, event);
        }
        connection.fill();
        connection.output().clear();
        if connection.is_over() {
            return;
        }
    }
}

fn answer(connection: &mut Connection, event: Event) {
    match event {
        Event::Request { stream, .. } => {
            connection.answer_head(stream, 200, std::iter::empty(), false);
            connection.send_data(stream, Bytes::from_static(b"answer"), true);
        }
        Event::Data { stream, data, .. } => connection.consume(stream, data.len()),
        Event::Reset { .. } => {}
    }
}

pub fn hpack(bytes: &[u8]) {
    let mut decoder = http2::hpack::Decoder::default();
    for block in bytes.chunks(64) {
        let mut fields = 0;
        if decoder.decode(Bytes::copy_from_slice(block), |_| fields += 1).is_err() {
            return;
        }
    }
}
