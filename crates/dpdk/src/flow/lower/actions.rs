// SPDX-License-Identifier: BSD-3-Clause
//! Converts actions.

use super::super::other::{Layout, MODIFY_LEN};
use super::super::{Action, ActionData, HashFunction, OtherAction, Rss, bits_of};
use super::items::{LONG_MIN, RteItems};
use super::{Room, is_in_room, place_in, to_native};
use crate::sys;
use std::ffi::c_void;
use std::ptr::null;

/// A list of actions in the structures of `rte_flow`.
pub(super) struct RteActions {
    /// The actions, and the end.
    pub(super) actions: Vec<sys::rte_flow_action>,
    confs: Vec<Conf>,
    _parts: Vec<Part>,
}

/// The configuration of an action.
enum Conf {
    Null,
    Room(Room),
    /// At this address: in a [`Part`], or the driver's.
    At(*const c_void),
}

/// What configurations are or point to, if that is not in a [`Room`].
#[expect(dead_code, reason = "only addresses in it are used, while it exists")]
enum Part {
    Items(RteItems),
    Actions(RteActions),
    Long(Vec<u64>),
}

impl RteActions {
    /// Fails with the place of an action that this DPDK does not have, and the reason.
    pub(super) fn new(list: &[Action]) -> Result<Self, (usize, String)> {
        let mut parts = Vec::new();
        let confs = list.iter().enumerate().map(|(place, action)| match action {
            Action::Other(other) => {
                Conf::of(other, &mut parts).map_err(|reason: String| (place, reason))
            }
            action => Ok(conf_of(action).map_or(Conf::Null, Conf::Room)),
        });
        let confs: Vec<_> = confs.collect::<Result<_, _>>()?;
        let mut actions = Vec::with_capacity(list.len() + 1);
        for (place, (action, conf)) in list.iter().zip(&confs).enumerate() {
            let type_ = action_type(action).map_err(|reason| (place, reason))?;
            actions.push(sys::rte_flow_action { type_, conf: conf.as_ptr() });
        }
        let end = sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_END;
        actions.push(sys::rte_flow_action { type_: end, conf: null() });
        Ok(Self { actions, confs, _parts: parts })
    }

    pub(super) fn as_ptr(&self) -> *const sys::rte_flow_action {
        self.actions.as_ptr()
    }

    /// Returns the actions without their values.
    pub(super) fn kinds(&self) -> Vec<sys::rte_flow_action> {
        let kind = |action: &sys::rte_flow_action| sys::rte_flow_action {
            type_: action.type_,
            conf: null(),
        };
        self.actions.iter().map(kind).collect()
    }

    /// Returns the place of the action that contains `address`.
    pub(super) fn place_of(&self, address: usize) -> Option<usize> {
        let has = |conf: &Conf| match conf {
            Conf::Room(room) => is_in_room(room, address),
            Conf::At(at) => *at as usize == address,
            Conf::Null => false,
        };
        place_in(&self.actions, address).or_else(|| self.confs.iter().position(has))
    }
}

impl Conf {
    /// Fails with the reason why no driver can be given the action.
    fn of(other: &OtherAction, parts: &mut Vec<Part>) -> Result<Self, String> {
        other.number()?;
        let mut conf = other.conf.clone();
        to_native(&mut conf, other.kind.native());
        let bytes = match &other.data {
            ActionData::Bytes(bytes) => &bytes[..],
            _ => &[],
        };
        let room = match (other.kind.layout(), &other.data) {
            (Layout::Plain, _) if conf.is_empty() => return Ok(Conf::Null),
            (Layout::Plain, _) if conf.len() <= Room::LEN => Room::of([0u8; 0]).with(&conf),
            (Layout::Plain, _) => {
                conf.resize(conf.len().next_multiple_of(8), 0);
                let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
                return Ok(Self::long(conf.chunks_exact(8).map(word).collect(), parts));
            }
            (Layout::Items, ActionData::Items(items)) => {
                let items = RteItems::new(items).map_err(|(_, reason)| reason)?;
                let address = items.as_ptr() as usize;
                parts.push(Part::Items(items));
                Room::of(address)
            }
            (Layout::Sample, ActionData::Actions(actions)) => {
                let actions = RteActions::new(actions).map_err(|(_, reason)| reason)?;
                let address = actions.as_ptr() as usize;
                parts.push(Part::Actions(actions));
                Room::of([0, address]).with(&conf)
            }
            (Layout::RawEncap, _) => Room::of([bytes.as_ptr() as usize, 0, bytes.len()]),
            (Layout::RawDecap, _) => Room::of([bytes.as_ptr() as usize, bytes.len()]),
            (Layout::Ipv6ExtPush, _) => {
                let kind = usize::from_ne_bytes([conf[0], 0, 0, 0, 0, 0, 0, 0]);
                Room::of([bytes.as_ptr() as usize, bytes.len(), kind])
            }
            (Layout::Indirect, ActionData::Indirect(action)) => {
                return Ok(Conf::At(action.address()));
            }
            (Layout::Modify, _) => {
                // Drivers read as many bytes as the width says.
                let mut value = vec![0u64; LONG_MIN / 8];
                for (word, bytes) in value.iter_mut().zip(bytes.chunks(8)) {
                    let mut padded = [0; 8];
                    padded[..bytes.len()].copy_from_slice(bytes);
                    *word = u64::from_ne_bytes(padded);
                }
                let modify = modify_of(&other.conf, value.as_ptr().cast());
                parts.push(Part::Long(value));
                let mut long = vec![0u64; sys::BIND_MODIFY_FIELD_LEN.div_ceil(8)];
                // SAFETY: it has the room that the function needs.
                unsafe { sys::shim_modify_field(long.as_mut_ptr().cast(), &modify) };
                return Ok(Self::long(long, parts));
            }
            _ => unreachable!("`number` has checked the data"),
        };
        Ok(Conf::Room(room))
    }

    fn long(words: Vec<u64>, parts: &mut Vec<Part>) -> Self {
        let address = words.as_ptr().cast();
        parts.push(Part::Long(words));
        Conf::At(address)
    }

    fn as_ptr(&self) -> *const c_void {
        match self {
            Conf::Null => null(),
            Conf::Room(room) => room.as_ptr(),
            Conf::At(address) => *address,
        }
    }
}

/// Returns the parts of a `modify_field`. `pointer`: what a source of that type points to.
fn modify_of(conf: &[u8], pointer: *const u8) -> sys::shim_modify {
    let number = |first: usize, len: usize| bits_of(conf, first * 8, len * 8) as u32;
    let field = |first: usize| sys::shim_field {
        field: number(first, 1),
        level: number(first + 1, 1) as u8,
        tag_index: number(first + 2, 1) as u8,
        type_: number(first + 3, 1) as u8,
        class_id: number(first + 4, 2) as u16,
        offset: number(first + 6, 4),
    };
    let mut value = [0; 16];
    value.copy_from_slice(&conf[21..37]);
    sys::shim_modify {
        operation: number(0, 1),
        dst: field(1),
        src: field(11),
        value,
        pointer,
        width: number(37, MODIFY_LEN - 37),
    }
}

fn conf_of(action: &Action) -> Option<Room> {
    let room = match *action {
        Action::Void | Action::Flag | Action::Drop | Action::Passthru => return None,
        Action::Mark(id) => Room::of(sys::rte_flow_action_mark { id }),
        Action::Queue(index) => Room::of(sys::rte_flow_action_queue { index }),
        Action::Count(id) => Room::of(sys::rte_flow_action_count { id }),
        Action::Jump(group) => Room::of(sys::rte_flow_action_jump { group }),
        Action::RepresentedPort(port_id) | Action::PortRepresentor(port_id) => {
            Room::of(sys::rte_flow_action_ethdev { port_id })
        }
        Action::Rss(ref rss) => Room::of(rss_of(rss)),
        Action::PortId(id) => {
            // SAFETY: a plain C struct of numbers.
            let mut port: sys::rte_flow_action_port_id = unsafe { std::mem::zeroed() };
            port.id = id.unwrap_or(0);
            port.set_original(id.is_none().into());
            Room::of(port)
        }
        Action::Age(seconds) => {
            // SAFETY: a plain C struct of numbers; a null context asks for the rule's handle.
            let mut age: sys::rte_flow_action_age = unsafe { std::mem::zeroed() };
            age.set_timeout(seconds);
            Room::of(age)
        }
        Action::Other(_) => unreachable!("`Conf` converts it"),
    };
    Some(room)
}

/// The hash functions that every supported DPDK has, with their numbers.
const HASHES: [(HashFunction, sys::rte_eth_hash_function); 4] = [
    (HashFunction::Default, sys::rte_eth_hash_function_RTE_ETH_HASH_FUNCTION_DEFAULT),
    (HashFunction::Toeplitz, sys::rte_eth_hash_function_RTE_ETH_HASH_FUNCTION_TOEPLITZ),
    (HashFunction::SimpleXor, sys::rte_eth_hash_function_RTE_ETH_HASH_FUNCTION_SIMPLE_XOR),
    (
        HashFunction::SymmetricToeplitz,
        sys::rte_eth_hash_function_RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ,
    ),
];

fn rss_of(rss: &Rss) -> sys::rte_flow_action_rss {
    let number = HASHES.iter().find(|(func, _)| *func == rss.func).map(|(_, number)| *number);
    sys::rte_flow_action_rss {
        func: number.expect("every function is in the table"),
        level: rss.level,
        types: rss.types,
        key_len: if rss.key.is_empty() { rss.null_key_len } else { rss.key.len() as u32 },
        queue_num: rss.queues.len() as u32,
        key: if rss.key.is_empty() { null() } else { rss.key.as_ptr() },
        queue: if rss.queues.is_empty() { null() } else { rss.queues.as_ptr() },
    }
}

/// Converts a driver's description of its RSS; an unknown hash function becomes the default.
///
/// # Safety
/// The arrays that `rss` points to are valid.
pub(in crate::flow) unsafe fn rss_from(rss: &sys::rte_flow_action_rss) -> Rss {
    let func = HASHES.iter().find(|(_, number)| *number == rss.func).map(|(func, _)| *func);
    // SAFETY: by contract.
    unsafe {
        Rss {
            func: func.unwrap_or_default(),
            level: rss.level,
            types: rss.types,
            key: array(rss.key, rss.key_len),
            null_key_len: if rss.key.is_null() { rss.key_len } else { 0 },
            queues: array(rss.queue, rss.queue_num),
        }
    }
}

/// Copies an array of C; a null pointer is an empty array.
///
/// # Safety
/// `first` is null or points to `len` values.
unsafe fn array<T: Copy>(first: *const T, len: u32) -> Vec<T> {
    if first.is_null() {
        return Vec::new();
    }
    // SAFETY: by contract.
    unsafe { std::slice::from_raw_parts(first, len as usize) }.to_vec()
}

/// Returns the number of an action, or the reason why this DPDK has none.
fn action_type(action: &Action) -> Result<sys::rte_flow_action_type, String> {
    Ok(match action {
        Action::Void => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_VOID,
        Action::Mark(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_MARK,
        Action::Flag => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_FLAG,
        Action::Queue(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_QUEUE,
        Action::Rss(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_RSS,
        Action::Drop => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_DROP,
        Action::Count(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_COUNT,
        Action::Age(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_AGE,
        Action::Passthru => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_PASSTHRU,
        Action::Jump(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_JUMP,
        Action::PortId(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_PORT_ID,
        Action::RepresentedPort(_) => {
            sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT
        }
        Action::PortRepresentor(_) => {
            sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR
        }
        Action::Other(other) => other.number()?,
    })
}
