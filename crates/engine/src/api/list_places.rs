// SPDX-License-Identifier: BSD-3-Clause
//! Owns the places of a pair that lists are bound to.

use super::offload::Side;

/// Which packets of a port a list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListDirection {
    /// Packets that arrive at the port.
    In,
    /// Packets that are to leave through the port.
    Out,
}

/// Indices of the lists that judge packets which arrive at port A, and at port B: first the list
/// for arriving packets, then the one for leaving packets of the other port.
pub(crate) type Chains = [[Option<usize>; 2]; 2];

/// Binds a list to these places.
///
/// # Errors
/// The other list and this one, if another list has one of them.
pub(super) fn bind(
    chains: &mut Chains,
    places: &[(Side, ListDirection)],
    list: usize,
) -> Result<(), [usize; 2]> {
    for &(side, direction) in places {
        let place = match direction {
            ListDirection::In => &mut chains[side as usize][0],
            ListDirection::Out => &mut chains[1 - side as usize][1],
        };
        if let Some(other) = place.replace(list) {
            return Err([other, list]);
        }
    }
    Ok(())
}

/// Returns the places that a list is bound to.
pub(super) fn places_of(chains: &Chains, list: usize) -> Vec<(Side, ListDirection)> {
    let places = [
        (Side::A, ListDirection::In),
        (Side::B, ListDirection::Out),
        (Side::B, ListDirection::In),
        (Side::A, ListDirection::Out),
    ];
    let bound = chains.iter().flatten().zip(places);
    bound.filter(|(index, _)| **index == Some(list)).map(|(_, place)| place).collect()
}

/// Returns the names of places: `a in`.
pub(super) fn names_of(places: Vec<(Side, ListDirection)>) -> Vec<String> {
    let name = |(side, direction)| {
        let side = if side == Side::A { "a" } else { "b" };
        let direction = if direction == ListDirection::In { "in" } else { "out" };
        format!("{side} {direction}")
    };
    places.into_iter().map(name).collect()
}
