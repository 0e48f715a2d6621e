// SPDX-License-Identifier: BSD-3-Clause
//! Finds the sets that contain an address.

use ipnet::IpNet;

/// The sets of one IP version, for sources and for destinations.
#[derive(Debug)]
pub(super) struct SetIndex([EndIndex; 2]);

/// The sets of one end. The address space is cut where a set begins or ends; each piece has a mask
/// of the sets that contain it.
#[derive(Debug, Default)]
struct EndIndex {
    /// First address of each piece, but for the first piece, which begins at 0.
    starts: Vec<u128>,
    /// Sets of each piece: one more than there are starts.
    masks: Vec<u64>,
}

impl SetIndex {
    /// Builds the index. Networks of the other IP version are left out. `None` if it would need
    /// more memory.
    pub(super) fn new(sets: &[Vec<&[IpNet]>; 2], is_v6: bool, max_bytes: usize) -> Option<Self> {
        let sources = EndIndex::new(&sets[0], is_v6, max_bytes)?;
        let left = max_bytes.saturating_sub(sources.bytes());
        Some(Self([sources, EndIndex::new(&sets[1], is_v6, left)?]))
    }

    /// Returns the sets that contain a source, and a destination, bit by bit.
    #[inline(always)]
    pub(super) fn of(&self, [src, dst]: [u128; 2]) -> [u64; 2] {
        [self.0[0].of(src), self.0[1].of(dst)]
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(EndIndex::bytes).sum()
    }
}

impl EndIndex {
    fn bytes(&self) -> usize {
        size_of_val(&self.starts[..]) + size_of_val(&self.masks[..])
    }

    fn new(sets: &[&[IpNet]], is_v6: bool, max_bytes: usize) -> Option<Self> {
        // Each change of the sets takes a start and a mask.
        let most = max_bytes / (size_of::<u128>() + size_of::<u64>());
        let mut changes: Vec<(u128, u64)> = Vec::new();
        for (bit, networks) in sets.iter().enumerate() {
            // Joined networks do not touch, so that each boundary switches the bit.
            for network in IpNet::aggregate(&networks.to_vec()) {
                let (first, last) = match network {
                    IpNet::V4(network) if !is_v6 => {
                        let ends = (network.network(), network.broadcast());
                        (ends.0.to_bits().into(), u128::from(ends.1.to_bits()))
                    }
                    IpNet::V6(network) if is_v6 => {
                        (network.network().to_bits(), network.broadcast().to_bits())
                    }
                    _ => continue,
                };
                changes.push((first, 1 << bit));
                if let Some(next) = last.checked_add(1) {
                    changes.push((next, 1 << bit));
                }
            }
            if changes.len() > most {
                return None;
            }
        }
        changes.sort_unstable();
        let mut index = Self { starts: Vec::new(), masks: vec![0] };
        let mut mask = 0;
        for (start, change) in changes {
            mask ^= change;
            match index.starts.last() {
                Some(last) if *last == start => *index.masks.last_mut().expect("one") = mask,
                _ => {
                    index.starts.push(start);
                    index.masks.push(mask);
                }
            }
        }
        (index.bytes() <= max_bytes).then_some(index)
    }

    #[inline(always)]
    fn of(&self, address: u128) -> u64 {
        if self.starts.is_empty() {
            return 0;
        }
        self.masks[self.starts.partition_point(|start| *start <= address)]
    }
}
