/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts verdicts into packet types and offload flags of mbufs. */
#ifndef TWIN_MBUF_H
#define TWIN_MBUF_H

#include <rte_mbuf.h>
#include <rte_mbuf_ptype.h>

#include "twin.h"

static inline uint32_t
twin_packet_type(const struct twin_verdict *verdict)
{
	static const uint32_t types[] = {
		[TWIN_PROTO_IPV4] = RTE_PTYPE_L3_IPV4_EXT_UNKNOWN,
		[TWIN_PROTO_IPV6] = RTE_PTYPE_L3_IPV6_EXT_UNKNOWN,
		[TWIN_PROTO_TCP] = RTE_PTYPE_L4_TCP,
		[TWIN_PROTO_UDP] = RTE_PTYPE_L4_UDP,
		[TWIN_PROTO_SCTP] = RTE_PTYPE_L4_SCTP,
		[TWIN_PROTO_ICMP] = RTE_PTYPE_L4_ICMP,
		[TWIN_PROTO_ICMP6] = RTE_PTYPE_L4_ICMP,
	};

	return RTE_PTYPE_L2_ETHER | types[verdict->network] | types[verdict->transport];
}

static inline uint64_t
twin_offload_flags(const struct twin_verdict *verdict)
{
	uint64_t flags = 0;

	if (verdict->flags & TWIN_HAS_HASH)
		flags |= RTE_MBUF_F_RX_RSS_HASH;
	if (verdict->flags & TWIN_HAS_FLAG)
		flags |= RTE_MBUF_F_RX_FDIR;
	if (verdict->flags & TWIN_HAS_MARK)
		flags |= RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
	if (verdict->flags & TWIN_NETWORK_GOOD)
		flags |= RTE_MBUF_F_RX_IP_CKSUM_GOOD;
	if (verdict->flags & TWIN_NETWORK_BAD)
		flags |= RTE_MBUF_F_RX_IP_CKSUM_BAD;
	if (verdict->flags & TWIN_TRANSPORT_GOOD)
		flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
	if (verdict->flags & TWIN_TRANSPORT_BAD)
		flags |= RTE_MBUF_F_RX_L4_CKSUM_BAD;
	return flags;
}

#endif
