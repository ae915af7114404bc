//! A server around the machine: it sends every request's body back, in a manner that the request's path names, and
//! reads and writes as few bytes at a time as it is told.

use base::Rng;
use bytes::{Bytes, BytesMut};
use http2::{Connection, ErrorCode, Event, Field, Limits, PREFACE, StreamId};
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

pub struct Echo {
    socket: DuplexStream,
    machine: Connection,
    rng: Rng,
    /// How a request is answered, and what came of its body.
    open: BTreeMap<StreamId, (Bytes, BytesMut)>,
}

impl Echo {
    pub fn new(socket: DuplexStream, limits: Limits, seed: u64) -> Echo {
        Echo { socket, machine: Connection::new(limits), rng: Rng::new(seed), open: BTreeMap::new() }
    }

    /// Until the client goes away. Returns how many streams were left.
    pub async fn serve(mut self) -> usize {
        let mut preface = [0; PREFACE.len()];
        self.socket.read_exact(&mut preface).await.unwrap();
        assert_eq!(preface, PREFACE);
        let mut input = BytesMut::new();
        let mut piece = vec![0; 3_000];
        while !self.machine.is_over() || !self.machine.output().is_empty() {
            self.machine.fill();
            while self.machine.next_drained().is_some() {}
            let len = 1 + (self.rng.next_u64() % 3_000) as usize;
            let (mut reader, mut writer) = tokio::io::split(&mut self.socket);
            let output = self.machine.output();
            // A client that waits to be read does not read.
            tokio::select! {
                read = reader.read(&mut piece[..len]) => match read {
                    Ok(0) | Err(_) => break,
                    Ok(len) => input.extend_from_slice(&piece[..len]),
                },
                written = writer.write(output), if !output.is_empty() => {
                    let Ok(written) = written else { break };
                    output.drain(..written);
                }
            }
            while let Some(event) = self.machine.next(&mut input) {
                self.take(event);
            }
        }
        self.machine.streams()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Request { stream, head, last } => {
                self.open.insert(stream, (head.path, BytesMut::new()));
                if last {
                    self.answer(stream);
                }
            }
            Event::Data { stream, data, last } => {
                self.open.get_mut(&stream).unwrap().1.extend_from_slice(&data);
                self.machine.consume(stream, data.len());
                if last {
                    self.answer(stream);
                }
            }
            Event::Reset { stream } => drop(self.open.remove(&stream)),
        }
    }

    fn answer(&mut self, stream: StreamId) {
        let (manner, body) = self.open.remove(&stream).unwrap();
        let head = [Field::from_static("content-type", "application/grpc"), Field::from_static("a", "b")];
        let trailers = [Field::from_static("grpc-status", "0"), Field::from_static("c", "d")];
        match &*manner {
            b"/whole" => {
                self.machine.answer_whole(
                    stream,
                    &head,
                    body.len(),
                    |out| out.extend_from_slice(&body),
                    &trailers,
                );
            }
            b"/parts" => {
                let fields = head.iter().map(|field| (&*field.name, &*field.value));
                self.machine.answer_head(stream, 200, fields, false);
                for part in body.chunks(500 + (self.rng.next_u64() % 40_000) as usize) {
                    self.machine.send_data(stream, Bytes::copy_from_slice(part), false);
                }
                self.machine.send_trailers(stream, trailers.to_vec());
            }
            b"/plain" => {
                self.machine.answer_head(stream, 404, [], false);
                self.machine.send_data(stream, body.freeze(), true);
            }
            _ => self.machine.reset(stream, ErrorCode::Internal),
        }
    }
}
