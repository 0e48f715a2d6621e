// SPDX-License-Identifier: BSD-3-Clause
//! Sets the IP header fields of a [`FrameBuilder`].
//!
//! These are common fields, fragments, options, extension headers, and overrides that make a header
//! invalid.

use super::{FrameBuilder, Network};
use crate::proto;

impl FrameBuilder {
    /// Sets the IPv4 time to live or IPv6 hop limit; 64 by default.
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ip.ttl = ttl;
        self
    }

    /// Sets the IPv4 type of service or IPv6 traffic class.
    pub fn tos(mut self, tos: u8) -> Self {
        self.ip.tos = tos;
        self
    }

    /// Sets the IPv6 flow label, 20 bits.
    #[track_caller]
    pub fn flow_label(mut self, label: u32) -> Self {
        self.need_v6("flow_label");
        self.ip.flow_label = label & 0x000f_ffff;
        self
    }

    /// Sets the identification of the datagram: 16 bits in the IPv4 header, 32 in the IPv6 fragment
    /// header.
    pub fn ip_id(mut self, id: u32) -> Self {
        self.ip.id = id;
        self
    }

    /// Sets the IPv4 "don't fragment" flag.
    #[track_caller]
    pub fn dont_fragment(mut self) -> Self {
        self.need_v4("dont_fragment");
        self.ip.dont_fragment = true;
        self
    }

    /// Makes the packet a fragment at `offset` bytes, a multiple of 8. `more`: more fragments
    /// follow.
    ///
    /// For IPv6 this adds a fragment header here. A transport header, if set, is written in any
    /// case; for a later fragment use [`protocol`](Self::protocol).
    #[track_caller]
    pub fn fragment(mut self, offset: usize, more: bool) -> Self {
        assert!(offset % 8 == 0 && offset < 1 << 16, "{offset} is no fragment offset");
        self.ip.fragment = (offset, more);
        if matches!(self.network, Network::V6(..)) {
            return self.extension(proto::FRAGMENT, &[]);
        }
        self.need_v4("fragment");
        self
    }

    /// Sets the IPv4 options, padded with zeros to a multiple of 4 bytes.
    #[track_caller]
    pub fn ip_options(mut self, options: &[u8]) -> Self {
        self.need_v4("ip_options");
        assert!(options.len() <= 40, "{} bytes of IPv4 options, 40 fit", options.len());
        self.ip.options = options.to_vec();
        self
    }

    /// Adds an IPv6 hop-by-hop options header.
    #[track_caller]
    pub fn hop_by_hop(self, options: &[u8]) -> Self {
        self.extension(proto::HOP_BY_HOP, options)
    }

    /// Adds an IPv6 destination options header.
    #[track_caller]
    pub fn dest_options(self, options: &[u8]) -> Self {
        self.extension(proto::DEST_OPTIONS, options)
    }

    /// Adds an IPv6 routing header; `body` starts with routing type and segments left.
    ///
    /// Transport checksums cover the destination in the IPv6 header. So they are right only if no
    /// segments are left.
    #[track_caller]
    pub fn routing(self, body: &[u8]) -> Self {
        self.extension(proto::ROUTING, body)
    }

    /// Adds an authentication header.
    #[track_caller]
    pub fn auth(self, spi: u32, seq: u32, icv: &[u8]) -> Self {
        let body = [&[0, 0], &spi.to_be_bytes()[..], &seq.to_be_bytes(), icv].concat();
        self.extension(proto::AUTH, &body)
    }

    /// Adds an extension header with any number.
    ///
    /// `body` follows next header and length; the header is padded with zeros to a multiple of 8
    /// bytes.
    #[track_caller]
    pub fn extension(mut self, number: u8, body: &[u8]) -> Self {
        self.need_v6("extension");
        assert!(body.len() <= 1000, "{} bytes of extension header", body.len());
        self.ip.extensions.push((number, body.to_vec()));
        self
    }

    /// Overrides the IP version field.
    pub fn ip_version(mut self, version: u8) -> Self {
        self.ip.version = Some(version);
        self
    }

    /// Overrides the IPv4 header length, in units of 4 bytes.
    #[track_caller]
    pub fn header_words(mut self, words: u8) -> Self {
        self.need_v4("header_words");
        self.ip.header_words = Some(words);
        self
    }

    /// Overrides the length field: IPv4 total length or IPv6 payload length.
    pub fn ip_len(mut self, len: u16) -> Self {
        self.ip.len = Some(len);
        self
    }

    /// Overrides the IPv4 header checksum.
    #[track_caller]
    pub fn ip_checksum(mut self, checksum: u16) -> Self {
        self.need_v4("ip_checksum");
        self.ip.checksum = Some(checksum);
        self
    }

    #[track_caller]
    fn need_v4(&self, method: &str) {
        assert!(matches!(self.network, Network::V4(..)), "{method} is for IPv4");
    }

    #[track_caller]
    fn need_v6(&self, method: &str) {
        assert!(matches!(self.network, Network::V6(..)), "{method} is for IPv6");
    }
}
