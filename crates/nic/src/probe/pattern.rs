// SPDX-License-Identifier: BSD-3-Clause
//! Builds the patterns that the prober tries: lists of headers with the values of one frame.

use super::frame::Frame;
use twin::{Field, HEADER_MAX, Item, Proto};

/// Items, and a frame that matches them with any masks.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) items: Vec<Item>,
    /// A frame that matches; `None` if no frame has such headers.
    pub(super) frame: Option<Vec<u8>>,
}

/// Bits of a field's mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bits {
    None,
    Full,
    /// All but the lowest.
    ButLowest,
    /// The upper half.
    Upper,
    Lowest,
    /// The bits of a number, for fields of at most 64 bits.
    These(u64),
}

impl Bits {
    fn has(self, field: Field, bit: usize) -> bool {
        let from_top = bit - field.bit;
        match self {
            Self::None => false,
            Self::Full => true,
            Self::ButLowest => from_top + 1 < field.len,
            Self::Upper => from_top < field.len / 2,
            Self::Lowest => from_top + 1 == field.len,
            Self::These(bits) => {
                bits.checked_shr((field.len - 1 - from_top) as u32).unwrap_or(0) & 1 == 1
            }
        }
    }
}

impl Pattern {
    /// Returns a pattern of headers of these kinds, without spec and mask.
    pub(super) fn of(headers: &[Proto]) -> Self {
        let frame = Frame::of(headers);
        let mut items: Vec<_> = headers.iter().map(|&proto| Item::any(proto)).collect();
        if let Some(frame) = &frame {
            for (item, &at) in items.iter_mut().zip(&frame.offsets) {
                let len = item.proto.header_len();
                item.spec[..len].copy_from_slice(&frame.bytes[at..at + len]);
            }
        }
        Self { items, frame: frame.map(|frame| frame.bytes) }
    }

    /// Gives the item at `at` a spec and a mask.
    pub(super) fn given(mut self, at: usize) -> Self {
        let given = &mut self.items[at].given;
        (given.spec, given.mask) = (true, true);
        self
    }

    /// Removes spec and mask of the item at `at`.
    pub(super) fn null(mut self, at: usize) -> Self {
        let item = &mut self.items[at];
        *item = Item { spec: item.spec, ..Item::any(item.proto) };
        self
    }

    /// Sets the mask of one field.
    pub(super) fn masked(self, at: usize, field: Field, bits: Bits) -> Self {
        let mut pattern = self.given(at);
        let mask = &mut pattern.items[at].mask;
        for bit in field.bit..field.bit + field.len {
            set(mask, bit, bits.has(field, bit));
        }
        pattern
    }

    /// Sets the value of one field; the frame may then no longer match.
    pub(super) fn valued(mut self, at: usize, field: Field, value: u64) -> Self {
        for bit in field.bit..field.bit + field.len {
            set(&mut self.items[at].spec, bit, Bits::These(value).has(field, bit));
        }
        self
    }

    /// Inverts one masked bit of a field, so that the frame must not match.
    pub(super) fn contradicted(mut self, at: usize, field: Field) -> Self {
        let item = &mut self.items[at];
        let bits = field.bit..field.bit + field.len;
        if let Some(bit) = bits.rev().find(|&bit| item.mask[bit / 8] & 0x80 >> (bit % 8) != 0) {
            item.spec[bit / 8] ^= 0x80 >> (bit % 8);
        }
        self
    }
}

fn set(bytes: &mut [u8; HEADER_MAX], bit: usize, value: bool) {
    let mask = 0x80 >> (bit % 8);
    match value {
        true => bytes[bit / 8] |= mask,
        false => bytes[bit / 8] &= !mask,
    }
}

/// Returns the text of a list of headers, as `eth / ipv4`.
pub(super) fn words(headers: &[Proto]) -> String {
    let names: Vec<_> = headers.iter().map(|proto| proto.name()).collect();
    names.join(" / ")
}
