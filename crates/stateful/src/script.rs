// SPDX-License-Identifier: BSD-3-Clause
//! The bytes that a program sends in one connection. They are computed from their place in the
//! stream, so that no connection stores data: to send again, and to check what arrives.

use std::sync::Arc;

/// Bytes after which the pattern repeats: a prime, so that data that is shifted by a power of two
/// differs.
const PERIOD: usize = 4093;
/// Longest payload of a frame that we send or expect.
const PAYLOAD_MAX: usize = 9216;

/// The pattern, long enough for a payload from any place of the period.
static PATTERN: [u8; PERIOD + PAYLOAD_MAX] = pattern();

const fn pattern() -> [u8; PERIOD + PAYLOAD_MAX] {
    let mut bytes = [0; PERIOD + PAYLOAD_MAX];
    let (mut at, mut state) = (0, 0x9e37_79b9_u32);
    while at < bytes.len() {
        // Xorshift (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bytes[at] = if at < PERIOD { (state >> 8) as u8 } else { bytes[at - PERIOD] };
        at += 1;
    }
    bytes
}

/// Returns the pattern of `len` bytes, at most 9216, from a place in the stream.
#[inline(always)]
fn pattern_at(offset: u32, len: usize) -> &'static [u8] {
    let begin = offset as usize % PERIOD;
    &PATTERN[begin..begin + len]
}

/// What a program sends.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Script {
    /// Each piece with the place in the stream at which it begins.
    pieces: Vec<(u64, Piece)>,
    len: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Pattern,
    Bytes(Arc<[u8]>),
    Repeated(Script),
}

impl Script {
    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends `len` bytes of the pattern.
    pub(crate) fn push_pattern(&mut self, len: u64) {
        if !matches!(self.pieces.last(), Some((_, Piece::Pattern))) {
            self.pieces.push((self.len, Piece::Pattern));
        }
        self.len = self.len.saturating_add(len);
    }

    /// Appends these bytes.
    pub(crate) fn push_bytes(&mut self, bytes: Arc<[u8]>) {
        let len = bytes.len() as u64;
        self.pieces.push((self.len, Piece::Bytes(bytes)));
        self.len = self.len.saturating_add(len);
    }

    /// Appends `count` times what `body` has.
    pub(crate) fn push_repeated(&mut self, count: u64, body: Self) {
        let len = body.len.saturating_mul(count);
        match body.is_pattern() {
            // The pattern goes on over all rounds.
            true if len > 0 => self.push_pattern(len),
            true => {}
            false => {
                self.pieces.push((self.len, Piece::Repeated(body)));
                self.len = self.len.saturating_add(len);
            }
        }
    }

    fn is_pattern(&self) -> bool {
        self.pieces.iter().all(|(_, piece)| matches!(piece, Piece::Pattern))
    }

    /// Writes the bytes from a place of the stream, modulo 2^32. Behind the end, they are those of
    /// the pattern.
    #[inline(always)]
    pub(crate) fn write(&self, offset: u32, to: &mut [u8]) {
        if self.pieces.len() <= 1 && self.is_pattern() {
            return to.copy_from_slice(pattern_at(offset, to.len()));
        }
        self.visit(offset, to.len(), |at, bytes| {
            to[at..at + bytes.len()].copy_from_slice(bytes);
            true
        });
    }

    /// True if `bytes` are those of the stream from this place on.
    #[inline(always)]
    pub(crate) fn has(&self, offset: u32, bytes: &[u8]) -> bool {
        if bytes.len() > PAYLOAD_MAX {
            return false;
        }
        if self.pieces.len() <= 1 && self.is_pattern() {
            return bytes == pattern_at(offset, bytes.len());
        }
        self.visit(offset, bytes.len(), |at, ours| bytes[at..at + ours.len()] == *ours)
    }

    /// Passes the `len` bytes from a place on to `use_bytes`, run by run, with the place of each
    /// run among the `len` bytes. Ends early, and returns false, if `use_bytes` does.
    fn visit(
        &self,
        offset: u32,
        len: usize,
        mut use_bytes: impl FnMut(usize, &[u8]) -> bool,
    ) -> bool {
        let mut at = 0;
        while at < len {
            let place = u64::from(offset.wrapping_add(at as u32));
            let run = self.run(place, len - at);
            if !use_bytes(at, run) {
                return false;
            }
            at += run.len();
        }
        true
    }

    /// Returns bytes from a place on, at least one and at most `most`.
    fn run(&self, place: u64, most: usize) -> &[u8] {
        let (mut script, mut inner) = (self, place);
        loop {
            let number = script.pieces.partition_point(|(begin, _)| *begin <= inner);
            let Some((begin, piece)) = number.checked_sub(1).map(|it| &script.pieces[it]) else {
                return pattern_at(place as u32, most);
            };
            let end = script.pieces.get(number).map_or(script.len, |(begin, _)| *begin);
            if inner >= end {
                return pattern_at(place as u32, most);
            }
            let most = most.min(usize::try_from(end - inner).unwrap_or(most));
            match piece {
                Piece::Pattern => return pattern_at(place as u32, most),
                Piece::Bytes(bytes) => return &bytes[(inner - begin) as usize..][..most],
                Piece::Repeated(body) => {
                    inner = (inner - begin) % body.len;
                    script = body;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes of a script by a plain walk over its pieces.
    fn plain(script: &Script, begin: u64, to: &mut Vec<u8>) {
        for (number, (piece_begin, piece)) in script.pieces.iter().enumerate() {
            let end = script.pieces.get(number + 1).map_or(script.len, |(begin, _)| *begin);
            match piece {
                Piece::Pattern => {
                    for place in *piece_begin..end {
                        to.push(PATTERN[((begin + place) % PERIOD as u64) as usize]);
                    }
                }
                Piece::Bytes(bytes) => to.extend_from_slice(bytes),
                Piece::Repeated(body) => {
                    let rounds = (end - piece_begin) / body.len;
                    for round in 0..rounds {
                        plain(body, begin + piece_begin + round * body.len, to);
                    }
                }
            }
        }
    }

    #[test]
    fn every_part_of_a_stream_is_what_the_whole_has() {
        let mut body = Script::default();
        body.push_bytes(b"GET / ".as_slice().into());
        body.push_pattern(7);
        let mut script = Script::default();
        script.push_pattern(3);
        script.push_repeated(5, body);
        script.push_bytes(b"bye".as_slice().into());
        let mut whole = Vec::new();
        plain(&script, 0, &mut whole);
        assert_eq!((whole.len(), script.len()), (3 + 5 * 13 + 3, 71));
        assert!(whole.ends_with(b"bye") && whole[3..].starts_with(b"GET / "));
        for begin in 0..whole.len() {
            for end in begin..=whole.len() {
                let mut part = vec![0; end - begin];
                script.write(begin as u32, &mut part);
                assert_eq!(part, whole[begin..end]);
                assert!(script.has(begin as u32, &part));
                if let Some(byte) = part.last_mut() {
                    *byte ^= 1;
                    assert!(!script.has(begin as u32, &part));
                }
            }
        }
    }

    #[test]
    fn rounds_of_the_pattern_are_one_pattern() {
        let mut body = Script::default();
        body.push_pattern(20);
        let mut script = Script::default();
        script.push_repeated(500, body);
        assert_eq!((script.pieces.len(), script.len()), (1, 10_000));
        let mut bytes = [0; 9216];
        script.write(u32::MAX, &mut bytes);
        assert!(script.has(u32::MAX, &bytes));
        assert!(!script.has(u32::MAX - 2, &bytes));
    }

    #[test]
    fn bytes_beyond_any_payload_are_not_expected() {
        let mut script = Script::default();
        script.push_pattern(100_000);
        assert!(script.has(3, pattern_at(3, PAYLOAD_MAX)));
        assert!(!script.has(3, &[0; PAYLOAD_MAX + 5000]));
    }
}
