// SPDX-License-Identifier: BSD-3-Clause
//! Sets the transport header of a [`FrameBuilder`], its fields and overrides.

use super::{FrameBuilder, IcmpKind, TcpFields, Transport};
use crate::{proto, tcp};

impl FrameBuilder {
    /// Sets any protocol without a transport header: the payload follows the IP header.
    pub fn protocol(mut self, number: u8) -> Self {
        self.transport = Transport::Raw(number);
        self
    }

    /// Sets a TCP header; by default only ACK is set, numbers are 0 and the window is 65,535.
    pub fn tcp(mut self, sport: u16, dport: u16) -> Self {
        self.transport = Transport::Tcp(TcpFields {
            sport,
            dport,
            seq: 0,
            ack: 0,
            flags: tcp::ACK,
            window: u16::MAX,
            options: Vec::new(),
            offset_words: None,
        });
        self
    }

    /// Sets a UDP header.
    pub fn udp(mut self, sport: u16, dport: u16) -> Self {
        self.transport = Transport::Udp { sport, dport, len: None };
        self
    }

    /// Sets an SCTP header; the payload are its chunks.
    pub fn sctp(mut self, sport: u16, dport: u16) -> Self {
        self.transport = Transport::Sctp { sport, dport, tag: 0 };
        self
    }

    /// Appends an SCTP chunk, padded (RFC 9260 section 3.2).
    pub fn chunk(mut self, kind: u8, flags: u8, value: &[u8]) -> Self {
        let [high, low] = ((value.len() + 4) as u16).to_be_bytes();
        self.payload.extend([kind, flags, high, low]);
        self.payload.extend(value);
        self.payload.resize(self.payload.len().next_multiple_of(4), 0);
        self
    }

    /// Appends an INIT or INIT ACK that requests this tag, with a window of 64 KiB and ten streams
    /// each way.
    pub fn init_chunk(self, kind: u8, initiate_tag: u32) -> Self {
        let rest = [0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1];
        self.chunk(kind, 0, &[&initiate_tag.to_be_bytes()[..], &rest].concat())
    }

    /// Sets a GRE header for a protocol of this EtherType, with or without a key (RFC 2890).
    pub fn gre(mut self, ether_type: u16, key: Option<u32>) -> Self {
        let flags: u16 = if key.is_some() { 0x2000 } else { 0 };
        let mut header = [flags.to_be_bytes(), ether_type.to_be_bytes()].concat();
        header.extend(key.into_iter().flat_map(u32::to_be_bytes));
        self.transport = Transport::Plain(proto::GRE, header);
        self
    }

    /// Sets an ESP header (RFC 4303); the payload is the encrypted part.
    pub fn esp(mut self, spi: u32, seq: u32) -> Self {
        let header = [spi.to_be_bytes(), seq.to_be_bytes()].concat();
        self.transport = Transport::Plain(proto::ESP, header);
        self
    }

    /// Sets an ICMP or ICMPv6 echo request.
    pub fn icmp_echo(self, id: u16, seq: u16) -> Self {
        self.echo(IcmpKind::EchoRequest, id, seq)
    }

    /// Sets an ICMP or ICMPv6 echo reply.
    pub fn icmp_echo_reply(self, id: u16, seq: u16) -> Self {
        self.echo(IcmpKind::EchoReply, id, seq)
    }

    fn echo(mut self, kind: IcmpKind, id: u16, seq: u16) -> Self {
        let ([a, b], [c, d]) = (id.to_be_bytes(), seq.to_be_bytes());
        self.transport = Transport::Icmp { kind, rest: [a, b, c, d] };
        self
    }

    /// Sets an ICMP or ICMPv6 error of this type and code that quotes `packet`.
    ///
    /// `packet` is an IP packet or its start (see [`build_packet`](Self::build_packet)).
    pub fn icmp_error(self, kind: u8, code: u8, packet: &[u8]) -> Self {
        self.icmp(kind, code, [0; 4]).payload(packet)
    }

    /// Sets any ICMP or ICMPv6 message: type, code and the four bytes behind the checksum.
    pub fn icmp(mut self, kind: u8, code: u8, rest: [u8; 4]) -> Self {
        self.transport = Transport::Icmp { kind: IcmpKind::Other { kind, code }, rest };
        self
    }

    /// Sets all TCP flags: [`tcp::SYN`]` | `[`tcp::ACK`] and so on.
    #[track_caller]
    pub fn flags(mut self, flags: u8) -> Self {
        self.tcp_fields().flags = flags;
        self
    }

    /// Sets the TCP sequence number.
    #[track_caller]
    pub fn seq(mut self, seq: u32) -> Self {
        self.tcp_fields().seq = seq;
        self
    }

    /// Sets the TCP acknowledgement number; the flags do not change.
    #[track_caller]
    pub fn ack(mut self, ack: u32) -> Self {
        self.tcp_fields().ack = ack;
        self
    }

    /// Sets the TCP window, not scaled.
    #[track_caller]
    pub fn window(mut self, window: u16) -> Self {
        self.tcp_fields().window = window;
        self
    }

    /// Sets the TCP options, padded with zeros to a multiple of 4 bytes.
    #[track_caller]
    pub fn tcp_options(mut self, options: &[u8]) -> Self {
        assert!(options.len() <= 40, "{} bytes of TCP options, 40 fit", options.len());
        self.tcp_fields().options = options.to_vec();
        self
    }

    /// Overrides the TCP data offset, in units of 4 bytes.
    #[track_caller]
    pub fn data_offset(mut self, words: u8) -> Self {
        self.tcp_fields().offset_words = Some(words);
        self
    }

    #[track_caller]
    fn tcp_fields(&mut self) -> &mut TcpFields {
        match &mut self.transport {
            Transport::Tcp(fields) => fields,
            other => panic!("a TCP field in {other:?}: call tcp() first"),
        }
    }

    /// Overrides the UDP length.
    #[track_caller]
    pub fn udp_len(mut self, bytes: u16) -> Self {
        match &mut self.transport {
            Transport::Udp { len, .. } => *len = Some(bytes),
            other => panic!("udp_len in {other:?}: call udp() first"),
        }
        self
    }

    /// Sets the SCTP verification tag.
    #[track_caller]
    pub fn verification_tag(mut self, value: u32) -> Self {
        match &mut self.transport {
            Transport::Sctp { tag, .. } => *tag = value,
            other => panic!("verification_tag in {other:?}: call sctp() first"),
        }
        self
    }

    /// Overrides the transport checksum. Only that of SCTP has more than 16 bits.
    pub fn checksum(mut self, checksum: u32) -> Self {
        self.checksum = Some(checksum);
        self
    }
}
