/* SPDX-License-Identifier: BSD-3-Clause */

#include <assert.h>
#include <stdlib.h>

#include <rte_byteorder.h>
#include <rte_ether.h>

#include "draw.h"
#include "frame.h"

/* Bytes that a frame of headers never comes near. */
#define HEADERS_MAX 2000
#define SEGMENTS_MAX 8

static void add_ethernet(struct frame *frame, unsigned int depth);
static void add_network(struct frame *frame, uint8_t *ether_type, unsigned int depth);

/* The header is zero. */
static uint8_t *
add(struct frame *frame, enum rte_flow_item_type type, uint32_t len)
{
	uint8_t *header = frame->bytes + frame->len;

	assert(frame->len + len <= HEADERS_MAX && frame->layer_count < LAYERS_MAX);
	memset(header, 0, len);
	frame->layers[frame->layer_count++] = (struct layer){ type, frame->len, len };
	frame->len += len;
	return header;
}

/* Bytes that no item names. */
static uint8_t *
add_options(struct frame *frame, uint32_t len)
{
	uint8_t *options = frame->bytes + frame->len;

	assert(frame->len + len <= HEADERS_MAX);
	draw_bytes(options, len);
	frame->len += len;
	return options;
}

static void
put16(uint8_t *to, uint16_t value)
{
	to[0] = value >> 8;
	to[1] = value;
}

static void
add_vxlan(struct frame *frame, uint8_t *port, unsigned int depth)
{
	uint8_t *vxlan = add(frame, RTE_FLOW_ITEM_TYPE_VXLAN, 8);

	put16(port, 4789);
	vxlan[0] = 0x08;
	vxlan[6] = draw(4);
	add_ethernet(frame, depth + 1);
}

static void
add_gtpu(struct frame *frame, uint8_t *port, unsigned int depth)
{
	uint8_t *gtpu = add(frame, RTE_FLOW_ITEM_TYPE_GTPU, 8);
	uint8_t unused[2], *options;
	uint32_t i, units;

	put16(port, 2152);
	gtpu[0] = 0x30 | (draw_percent(50) ? draw(8) : 0);
	gtpu[1] = draw_percent(90) ? 255 : draw(256);
	gtpu[7] = draw(4);
	if (gtpu[0] & 0x07) {
		options = add_options(frame, 4);
		options[3] = draw_percent(50) ? 0x85 : 0;
		for (i = 0; i < 3 && options[3] != 0; i++) {
			units = 1 + draw(3);
			options = add_options(frame, 4 * units) + 4 * (units - 1);
			options[4 - 4 * (int)units] = draw_percent(90) ? units : draw(256);
			if (units > 1 || draw_percent(90))
				options[3] = draw_percent(50) ? 0x85 : 0;
		}
	}
	add_network(frame, unused, depth + 1);
}

static void
add_gre(struct frame *frame, unsigned int depth)
{
	uint8_t *gre = add(frame, RTE_FLOW_ITEM_TYPE_GRE, 4);

	gre[0] = draw_percent(40) ? draw(256) : 0;
	add_options(frame, 4 * __builtin_popcount(gre[0] & 0xb0));
	if (draw_percent(40)) {
		put16(gre + 2, 0x6558);
		add_ethernet(frame, depth + 1);
	} else {
		add_network(frame, gre + 2, depth + 1);
	}
}

static void
add_udp(struct frame *frame, unsigned int depth)
{
	uint8_t *udp = add(frame, RTE_FLOW_ITEM_TYPE_UDP, 8);
	uint32_t tunnel = depth == 0 ? draw(4) : 3;

	put16(udp, 1000 + draw(4));
	put16(udp + 2, 2000 + draw(4));
	if (tunnel == 0)
		add_vxlan(frame, udp + 2, depth);
	else if (tunnel == 1)
		add_gtpu(frame, udp + 2, depth);
}

static void
add_transport(struct frame *frame, uint8_t *protocol, unsigned int depth)
{
	uint8_t *header;

	switch (draw(8)) {
	case 0:
		*protocol = IPPROTO_ICMP;
		header = add(frame, RTE_FLOW_ITEM_TYPE_ICMP, 8);
		header[0] = draw(2) * 8;
		break;
	case 1:
		*protocol = IPPROTO_ICMPV6;
		header = add(frame, RTE_FLOW_ITEM_TYPE_ICMP6, 4);
		header[0] = 128 + draw(2);
		break;
	case 2:
		*protocol = IPPROTO_SCTP;
		header = add(frame, RTE_FLOW_ITEM_TYPE_SCTP, 12);
		put16(header, 1000 + draw(4));
		put16(header + 2, 2000 + draw(4));
		break;
	case 3:
	case 4:
		*protocol = IPPROTO_TCP;
		header = add(frame, RTE_FLOW_ITEM_TYPE_TCP, 20);
		put16(header, 1000 + draw(4));
		put16(header + 2, 2000 + draw(4));
		header[12] = 0x50;
		header[13] = draw(64);
		break;
	case 5:
		*protocol = IPPROTO_GRE;
		if (depth == 0)
			add_gre(frame, depth);
		break;
	case 6:
		*protocol = draw(256);
		break;
	default:
		*protocol = IPPROTO_UDP;
		add_udp(frame, depth);
		break;
	}
}

static void
add_ipv4(struct frame *frame, unsigned int depth)
{
	uint8_t *ip = add(frame, RTE_FLOW_ITEM_TYPE_IPV4, 20);
	uint32_t words = draw_percent(80) ? 5 : draw(16);

	ip[0] = 0x40 | words;
	put16(ip + 6, draw_percent(85) ? 0 : draw_bits());
	ip[8] = 64;
	ip[12] = ip[16] = 10;
	ip[15] = draw(4);
	ip[19] = draw(4);
	add_options(frame, words > 5 ? 4 * (words - 5) : 0);
	add_transport(frame, ip + 9, depth);
}

static void
add_ipv6(struct frame *frame, unsigned int depth)
{
	uint8_t *ip = add(frame, RTE_FLOW_ITEM_TYPE_IPV6, 40);
	uint8_t *protocol = ip + 6;

	ip[0] = 0x60;
	ip[7] = 64;
	ip[8] = ip[24] = 0xfd;
	ip[23] = draw(4);
	ip[39] = draw(4);
	if (draw_percent(20)) {
		*protocol = IPPROTO_FRAGMENT;
		protocol = add(frame, RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT, 8);
		put16(protocol + 2, draw_percent(50) ? draw(2) : draw_bits());
	} else if (draw_percent(10)) {
		*protocol = IPPROTO_HOPOPTS;
		protocol = add_options(frame, 8);
		protocol[1] = 0;
	}
	add_transport(frame, protocol, depth);
}

static void
add_network(struct frame *frame, uint8_t *ether_type, unsigned int depth)
{
	switch (draw(8)) {
	case 0:
		put16(ether_type, draw_bits());
		break;
	case 1:
	case 2:
	case 3:
		put16(ether_type, RTE_ETHER_TYPE_IPV6);
		add_ipv6(frame, depth);
		break;
	default:
		put16(ether_type, RTE_ETHER_TYPE_IPV4);
		add_ipv4(frame, depth);
		break;
	}
}

static void
add_ethernet(struct frame *frame, unsigned int depth)
{
	static const uint16_t tags[] = { RTE_ETHER_TYPE_VLAN, RTE_ETHER_TYPE_QINQ, 0x9100 };
	uint8_t *ethernet = add(frame, RTE_FLOW_ITEM_TYPE_ETH, 14);
	uint8_t *ether_type = ethernet + 12, *tag;
	uint32_t i, tag_count = draw_few(3);

	ethernet[0] = ethernet[6] = 2;
	ethernet[5] = draw(4);
	ethernet[11] = draw(4);
	for (i = 0; i < tag_count; i++) {
		put16(ether_type, tags[draw(RTE_DIM(tags))]);
		tag = add(frame, RTE_FLOW_ITEM_TYPE_VLAN, 4);
		put16(tag, draw(4));
		ether_type = tag + 2;
	}
	add_network(frame, ether_type, depth);
}

void
frame_draw(struct frame *frame)
{
	frame->len = 0;
	frame->layer_count = 0;
	add_ethernet(frame, 0);
	add_options(frame, draw_percent(50) ? draw(64) : 0);
}

void
frame_damage(struct frame *frame)
{
	uint32_t i, count = draw_few(8), len;

	for (i = 0; i < count; i++)
		frame->bytes[draw(frame->len)] = draw(256);
	if (draw_percent(25))
		frame->len = 1 + draw(frame->len);
	if (draw_percent(10)) {
		len = 1 + draw(FRAME_MAX);
		if (len > frame->len)
			draw_bytes(frame->bytes + frame->len, len - frame->len);
		frame->len = len;
	}
	if (draw_percent(2))
		draw_bytes(frame->bytes, frame->len);
}

static struct rte_mbuf *
to_chain(const struct frame *frame, struct rte_mempool *pool)
{
	struct rte_mbuf *first = NULL, *segment;
	uint32_t done = 0, len, room, segments = 1;

	do {
		segment = rte_pktmbuf_alloc(pool);
		if (segment == NULL)
			goto fail;
		room = rte_pktmbuf_tailroom(segment);
		len = frame->len - done;
		if (len > room || (segments < SEGMENTS_MAX && draw_percent(40)))
			len = draw(RTE_MIN(len, room) + 1);
		if (segments >= SEGMENTS_MAX)
			len = RTE_MIN(frame->len - done, room);
		memcpy(rte_pktmbuf_append(segment, len), frame->bytes + done, len);
		done += len;
		if (first == NULL) {
			first = segment;
		} else if (rte_pktmbuf_chain(first, segment) != 0) {
			rte_pktmbuf_free(segment);
			goto fail;
		}
		segments++;
	} while (done < frame->len);
	return first;
fail:
	rte_pktmbuf_free(first);
	return NULL;
}

static void
free_both(void *bytes, void *opaque)
{
	free(bytes);
	free(opaque);
}

static struct rte_mbuf *
to_heap(const struct frame *frame, struct rte_mempool *pool)
{
	struct rte_mbuf_ext_shared_info *shared = malloc(sizeof(*shared));
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint8_t *bytes = malloc(frame->len);

	if (m == NULL || shared == NULL || bytes == NULL) {
		rte_pktmbuf_free(m);
		free_both(bytes, shared);
		return NULL;
	}
	memcpy(bytes, frame->bytes, frame->len);
	shared->free_cb = free_both;
	shared->fcb_opaque = shared;
	rte_mbuf_ext_refcnt_set(shared, 1);
	rte_pktmbuf_attach_extbuf(m, bytes, RTE_BAD_IOVA, frame->len, shared);
	rte_pktmbuf_append(m, frame->len);
	return m;
}

struct rte_mbuf *
frame_to_mbuf(const struct frame *frame, struct rte_mempool *pool)
{
	return draw_percent(60) ? to_heap(frame, pool) : to_chain(frame, pool);
}
