// SPDX-License-Identifier: BSD-3-Clause
//! The TCP connections and UDP exchanges of a capture, as programs of both ends: what each end
//! sent, in the order in which the capture has it, and the pauses between.

mod choice;
mod packet;
mod session;
mod stream;

pub(crate) use choice::Choice;
pub use choice::Pauses;
pub(crate) use session::{CLIENT, SERVER, Session};

use crate::profile::Transport;
use capture::Capture;
use packet::{End, Packet};
use std::collections::HashMap;
use std::io::Cursor;

/// The sessions of a capture, in the order of their first packets.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) sessions: Vec<Session>,
    /// Number of packets that are neither TCP nor UDP.
    pub(crate) others: u64,
    /// The latest session of each pair of ends.
    latest: HashMap<(Transport, End, End), usize>,
}

impl Recording {
    /// Reads a capture file, called `name` in messages.
    pub(crate) fn read(name: &str, bytes: Vec<u8>) -> Result<Self, String> {
        let fault = |fault: capture::Fault| fault.to_string();
        let mut capture = Capture::new(name, Cursor::new(bytes)).map_err(fault)?;
        let mut recording = Self::default();
        let (mut number, mut frame) = (0, Vec::new());
        while let Some(captured) = capture.next().map_err(fault)? {
            number += 1;
            frame.clear();
            if captured.append_ethernet(&mut frame).is_none() {
                let link = captured.link_type;
                return Err(format!(
                    "{name}: packet {number} has link type {link}: it is not read"
                ));
            }
            match Packet::read(&frame, number, captured.time_ns) {
                Some(packet) => recording.add(&packet),
                None => recording.others += 1,
            }
        }
        recording.sessions.iter_mut().for_each(Session::finish);
        Ok(recording)
    }

    fn add(&mut self, packet: &Packet<'_>) {
        let (a, b) = (packet.src.min(packet.dst), packet.src.max(packet.dst));
        let place = self.latest.entry((packet.transport, a, b)).or_insert(usize::MAX);
        match self.sessions.get_mut(*place) {
            Some(session) if !session.is_followed_by(packet) => session.add(packet),
            _ => {
                *place = self.sessions.len();
                let mut session = Session::new(packet);
                session.add(packet);
                self.sessions.push(session);
            }
        }
    }
}
