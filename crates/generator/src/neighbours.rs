// SPDX-License-Identifier: BSD-3-Clause
//! Resolves the MAC address of a gateway before a run, and answers requests of neighbours during
//! it.

use crate::Clock;
use crate::link::{Receive, Transmit};
use crate::reflector_client::Answers;
use rtrb::{Consumer, Producer, RingBuffer};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use traffic::Written;
use traffic::neighbour::{Message, Neighbour, ShortFrame, reply, request};
use traffic::reflector_query::read_answer;

/// Maximum number of replies between a receiver and a sender; more requests are not answered.
const REPLIES: usize = 64;
/// Number of requests, and the time to wait for a reply to each (RFC 4861 section 10).
const TRIES: u32 = 3;
const WAIT_NS: u64 = 1_000_000_000;
const POLL: Duration = Duration::from_micros(100);
/// Stream number of frames that belong to no stream.
pub const NO_STREAM: u16 = u16::MAX;

/// Finds requests for our addresses among the frames of a receiver, and answers them.
pub struct Responder {
    mac: [u8; 6],
    is_ours: Box<dyn Fn(IpAddr) -> bool + Send>,
    replies: Producer<ShortFrame>,
    answers: Option<Answers>,
}

/// Replies, or queries for a reflector, that a sender of the same port must send.
#[derive(Debug)]
pub struct Replies(pub(crate) Consumer<ShortFrame>);

impl Responder {
    /// Makes a responder that answers requests for addresses for which `is_ours` is true with
    /// `mac`. Also returns the ring of replies, for a sender of the port.
    pub fn new(mac: [u8; 6], is_ours: Box<dyn Fn(IpAddr) -> bool + Send>) -> (Self, Replies) {
        let (replies, taken) = RingBuffer::new(REPLIES);
        (Self { mac, is_ours, replies, answers: None }, Replies(taken))
    }

    /// Sets where the responder puts the answers of a reflector.
    #[must_use]
    pub fn with_answers(mut self, answers: Option<Answers>) -> Self {
        self.answers = answers;
        self
    }

    /// Answers the frame if it is a request for one of our addresses; passes it on if it is a
    /// reflector's answer.
    #[inline]
    pub(crate) fn handle_frame(&mut self, frame: &[u8]) {
        if let Some(answers) = &mut self.answers {
            answers.push(read_answer(frame));
        }
        let Some(Message::Request { from, target }) = Message::read(frame) else { return };
        if !(self.is_ours)(target) {
            return;
        }
        if let Some(reply) = reply(frame, from, target, self.mac) {
            // If there is no room, the neighbour asks again.
            let _ = self.replies.push(reply);
        }
    }
}

impl Replies {
    /// Sends all replies through a port that has no frames waiting.
    #[inline(always)]
    pub(crate) fn send(&mut self, port: &mut impl Transmit) {
        while let Ok(frame) = self.0.pop() {
            if !send(&frame, port) {
                return;
            }
        }
    }
}

/// Sends a frame through a port that has no frames waiting. Returns false if the port does not take
/// the frame, which is then dropped.
fn send(frame: &ShortFrame, port: &mut impl Transmit) -> bool {
    if port.prepare() == 0 {
        return false;
    }
    port.push(0, |room| {
        let len = frame.bytes().len();
        room[..len].copy_from_slice(frame.bytes());
        Written { len, stream: NO_STREAM }
    });
    port.flush();
    let is_sent = port.waiting() == 0;
    port.discard(|_| {});
    is_sent
}

/// Returns the MAC address of `target`, after requests from `from` with these VLAN tags. `None` if
/// no answer arrived within three seconds, or the user interrupted the run.
pub fn resolve(
    (tx, rx): (&mut impl Transmit, &mut impl Receive),
    (from, target): (Neighbour, IpAddr),
    tags: &[u8],
    clock: Clock,
    interrupted: &AtomicBool,
) -> Option<[u8; 6]> {
    let is_ours = Box::new(move |address| address == from.address);
    let (mut responder, mut replies) = Responder::new(from.mac, is_ours);
    for _ in 0..TRIES {
        send(&request(from, target, tags), tx);
        let until = clock.now() + WAIT_NS;
        while clock.now() < until && !interrupted.load(Ordering::Relaxed) {
            let mut found = None;
            for number in 0..rx.receive() {
                let frame = rx.frame(number);
                match Message::read(frame) {
                    Some(Message::Reply(it)) if it.address == target => found = Some(it.mac),
                    // A neighbour may ask for our address first.
                    _ => responder.handle_frame(frame),
                }
            }
            rx.free();
            replies.send(tx);
            if found.is_some() {
                return found;
            }
            std::thread::sleep(POLL);
        }
    }
    None
}
