// SPDX-License-Identifier: BSD-3-Clause
//! Edits of a good file, so that a fuzzer that starts from nothing starts from there.

/// `file` with `edits` made to it one after the other. Each says where (16 bits), how many bytes to
/// take out (16 bits), how many to put in (8 bits, of which all ones are all that follow), and
/// these.
pub(crate) fn edited(mut file: Vec<u8>, mut edits: &[u8]) -> Vec<u8> {
    while let [at_low, at_high, out_low, out_high, count, rest @ ..] = edits {
        let at = usize::from(u16::from_le_bytes([*at_low, *at_high])) % (file.len() + 1);
        let out = usize::from(u16::from_le_bytes([*out_low, *out_high])).min(file.len() - at);
        let count = if *count == u8::MAX { rest.len() } else { usize::from(*count) };
        let (put_in, rest) = rest.split_at(count.min(rest.len()));
        file.splice(at..at + out, put_in.iter().copied());
        edits = rest;
    }
    file
}
