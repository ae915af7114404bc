//! The state of one stream: which side may still send, and how much.
//! It lives from the head of the request until both sides have ended or one has given up.

use crate::outgoing::Outgoing;

#[derive(Debug)]
pub struct Stream {
    /// The client has not ended its request.
    pub receiving: bool,
    /// The head of the answer is out.
    pub answered: bool,
    /// The whole answer is out; the stream is kept until the client has ended its side.
    pub ended: bool,
    /// What the other side accepts now; below zero when it lowered its settings meanwhile.
    pub window: i64,
    /// What the other side may send now.
    pub receive_window: u32,
    /// Received and handed out, and not yet consumed.
    pub held: u32,
    /// Consumed, and not yet credited to the other side.
    pub uncredited: u32,
    /// Window that was given beyond what was consumed.
    pub extended: u32,
    /// What is left of the declared content length.
    pub body_left: Option<u64>,
    /// What waits for the window.
    pub outgoing: Option<Box<Outgoing>>,
    /// Whether it is in the list of streams that can send.
    pub listed: bool,
}

impl Stream {
    pub fn new(window: i64, receive_window: u32, receiving: bool, body_left: Option<u64>) -> Stream {
        Stream {
            receiving,
            answered: false,
            ended: false,
            window,
            receive_window,
            held: 0,
            uncredited: 0,
            extended: 0,
            body_left,
            outgoing: None,
            listed: false,
        }
    }

    /// Counts bytes of the body. False when they are more, or fewer at the end, than declared.
    pub fn count_body(&mut self, len: usize, last: bool) -> bool {
        let Some(left) = self.body_left else { return true };
        let Some(left) = left.checked_sub(len as u64) else { return false };
        self.body_left = Some(left);
        !last || left == 0
    }
}
