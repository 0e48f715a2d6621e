// SPDX-License-Identifier: BSD-3-Clause
//! Reads the members of a gzip file as one stream. After the last member it accepts zeros, with
//! which tapes and `dd` fill up a block. Anything else there is a fault, reported after all bytes
//! before it.

use super::fault::Cause;
use flate2::bufread::GzDecoder;
use std::io::{self, BufReader, Chain, Read};

/// The first bytes of every member.
pub(super) const MAGIC: &[u8] = &[0x1f, 0x8b];

/// A decoder of a member. The part of [`MAGIC`] that was already read stands before the source.
type Member = GzDecoder<Chain<&'static [u8], BufReader<Box<dyn Read>>>>;

/// The decompressed bytes of a file that starts with a member.
pub(super) struct Members {
    /// The member being read; `None` after the last.
    member: Option<Member>,
}

impl Members {
    pub(super) fn new(source: Box<dyn Read>) -> Self {
        Self { member: Some(member(0, BufReader::new(source))) }
    }
}

impl Read for Members {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let n = member.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                return Ok(n);
            }
            let ended = self.member.take();
            self.member = ended.map_or(Ok(None), next)?;
        }
        Ok(0)
    }
}

fn member(magic_len: usize, source: BufReader<Box<dyn Read>>) -> Member {
    GzDecoder::new(MAGIC[..magic_len].chain(source))
}

/// Returns the next member after `ended`; `None` at the end of the file.
fn next(ended: Member) -> io::Result<Option<Member>> {
    let (_, mut source) = ended.into_inner().into_inner();
    let mut head = Vec::new();
    source.by_ref().take(MAGIC.len() as u64).read_to_end(&mut head)?;
    if !head.is_empty() && MAGIC.starts_with(&head) {
        return Ok(Some(member(head.len(), source)));
    }
    match head.chain(source).bytes().find(|byte| !matches!(byte, Ok(0))) {
        Some(byte) => Err(io::Error::other(Cause::TrailingGarbage(byte?))),
        None => Ok(None),
    }
}
