// SPDX-License-Identifier: BSD-3-Clause
//! The engine against a naive reference, and against itself in other bursts and segments, over
//! millions of random operations.

mod association;
mod bypass;
mod bypass_tcp;
mod drift;
mod drive;
mod fragments;
mod icmp;
mod invariance;
mod life;
mod marks;
mod marks_at_the_end;
mod reference;
mod resumed;
mod room;
mod sequence;
mod traffic;
mod walks;
mod workers;

use crate::sized;
use drive::{Case, agree};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(sized(500, 15_000)))]

    /// Every record, verdict and counter, and the very turn in which a flow ends.
    #[test]
    fn agrees_with_the_reference(
        bits: [u64; 3],
        operations in prop::collection::vec(any::<u64>(), 1..2000),
    ) {
        agree(Case::on_ticks(bits), &operations);
    }

    /// Compares every record, verdict and counter at times that do not fall on ticks of the wheel.
    #[test]
    fn agrees_with_the_reference_within_a_tick(
        bits: [u64; 3],
        operations in prop::collection::vec(any::<u64>(), 1..2000),
    ) {
        agree(Case::off_ticks(bits), &operations);
    }
}
