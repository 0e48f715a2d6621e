// SPDX-License-Identifier: BSD-3-Clause
//! Defines actions on the packets that a flow rule matches.

use super::OtherAction;

/// One action of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Nothing.
    Void,
    /// Packets carry this number.
    Mark(u32),
    /// Packets carry a mark without a number.
    Flag,
    /// Packets go to this receive queue.
    Queue(u16),
    /// Packets are spread over several receive queues.
    Rss(Rss),
    /// Packets are dropped.
    Drop,
    /// Packets are counted, by the counter with this number.
    Count(u32),
    /// The rule is reported once it has matched no packet for this number of seconds (24 bits).
    Age(u32),
    /// Packets are matched against rules of lower priority next.
    Passthru,
    /// Packets are matched against the rules of this group next.
    Jump(u32),
    /// Packets go to the port with this number, by the action from before DPDK 21.11; without a
    /// number, to the wire of the rule's own port.
    PortId(Option<u32>),
    /// Packets go to the entity that the port with this number represents.
    RepresentedPort(u16),
    /// Packets go to the port with this number itself.
    PortRepresentor(u16),
    /// An action that only the flow shell uses.
    Other(Box<OtherAction>),
}

impl Action {
    /// Returns the name that DPDK's programs use for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Action::Void => "void",
            Action::Mark(_) => "mark",
            Action::Flag => "flag",
            Action::Queue(_) => "queue",
            Action::Rss(_) => "rss",
            Action::Drop => "drop",
            Action::Count(_) => "count",
            Action::Age(_) => "age",
            Action::Passthru => "passthru",
            Action::Jump(_) => "jump",
            Action::PortId(_) => "port_id",
            Action::RepresentedPort(_) => "represented_port",
            Action::PortRepresentor(_) => "port_representor",
            Action::Other(other) => other.kind.name(),
        }
    }
}

/// Configuration of an `rss` action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rss {
    /// Hash function.
    pub func: HashFunction,
    /// Headers that are hashed: 0 the driver's choice, 1 the outermost, 2 those inside a tunnel,
    /// and so on.
    pub level: u32,
    /// Packets that are hashed, and their fields: DPDK's `RTE_ETH_RSS_` bits.
    pub types: u64,
    /// Key of the hash. Empty: a null pointer, which stands for the key of the port.
    pub key: Vec<u8>,
    /// Key length that is passed with the null pointer of an empty key: drivers read it too.
    pub null_key_len: u32,
    /// The queues. Empty: a null pointer.
    pub queues: Vec<u16>,
}

/// Hash functions of RSS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // They have no other names.
pub enum HashFunction {
    /// The driver's choice.
    #[default]
    Default,
    Toeplitz,
    SimpleXor,
    SymmetricToeplitz,
}

impl HashFunction {
    /// Every function with the name that DPDK's programs give it.
    pub const ALL: [(HashFunction, &'static str); 4] = [
        (HashFunction::Default, "default"),
        (HashFunction::Toeplitz, "toeplitz"),
        (HashFunction::SimpleXor, "simple_xor"),
        (HashFunction::SymmetricToeplitz, "symmetric_toeplitz"),
    ];
}

/// Bits of [`Rss::types`] with the names that DPDK's programs give them, groups last.
pub const RSS_TYPES: [(&str, u64); 54] = [
    ("ipv4", 1 << 2),
    ("ipv4-frag", 1 << 3),
    ("ipv4-tcp", 1 << 4),
    ("ipv4-udp", 1 << 5),
    ("ipv4-sctp", 1 << 6),
    ("ipv4-other", 1 << 7),
    ("ipv6", 1 << 8),
    ("ipv6-frag", 1 << 9),
    ("ipv6-tcp", 1 << 10),
    ("ipv6-udp", 1 << 11),
    ("ipv6-sctp", 1 << 12),
    ("ipv6-other", 1 << 13),
    ("l2-payload", 1 << 14),
    ("ipv6-ex", 1 << 15),
    ("ipv6-tcp-ex", 1 << 16),
    ("ipv6-udp-ex", 1 << 17),
    ("port", 1 << 18),
    ("vxlan", 1 << 19),
    ("geneve", 1 << 20),
    ("nvgre", 1 << 21),
    ("gtpu", 1 << 23),
    ("eth", 1 << 24),
    ("s-vlan", 1 << 25),
    ("c-vlan", 1 << 26),
    ("esp", 1 << 27),
    ("ah", 1 << 28),
    ("l2tpv3", 1 << 29),
    ("pfcp", 1 << 30),
    ("pppoe", 1 << 31),
    ("ecpri", 1 << 32),
    ("mpls", 1 << 33),
    ("ipv4-chksum", 1 << 34),
    ("l4-chksum", 1 << 35),
    ("l2tpv2", 1 << 36),
    // Since DPDK 23.11; drivers of earlier ones refuse it.
    ("ipv6-flow-label", 1 << 37),
    ("l3-pre96", 1 << 52),
    ("l3-pre64", 1 << 53),
    ("l3-pre56", 1 << 54),
    ("l3-pre48", 1 << 55),
    ("l3-pre40", 1 << 56),
    ("l3-pre32", 1 << 57),
    ("l2-dst-only", 1 << 58),
    ("l2-src-only", 1 << 59),
    ("l4-dst-only", 1 << 60),
    ("l4-src-only", 1 << 61),
    ("l3-dst-only", 1 << 62),
    ("l3-src-only", 1 << 63),
    ("ip", 0xa38c),
    ("tcp", 0x1_0410),
    ("udp", 0x2_0820),
    ("sctp", 0x1040),
    ("tunnel", 0x38_0000),
    ("vlan", 0x600_0000),
    // The bits of testpmd of DPDK 22.11 (`rss_type_table`).
    ("all", 0x13_7f83_fffc),
];
