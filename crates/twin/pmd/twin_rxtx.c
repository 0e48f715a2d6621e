/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets. Who sends does the work of the receiving NIC: it classifies, writes what the NIC would
 * write into the mbuf, and puts the packet into a queue. Who receives only takes it out.
 */

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "twin.h"

uint16_t
twin_rx(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_rxq *rxq = queue;
	uint64_t bytes = 0;
	uint16_t i, got;

	got = rte_ring_sc_dequeue_burst(rxq->ring, (void **)packets, count, NULL);
	for (i = 0; i < got; i++)
		bytes += packets[i]->pkt_len;
	rxq->packets += got;
	rxq->bytes += bytes;
	return got;
}

static const uint32_t packet_types[] = {
	[TWIN_PROTO_IPV4] = RTE_PTYPE_L3_IPV4_EXT_UNKNOWN,
	[TWIN_PROTO_IPV6] = RTE_PTYPE_L3_IPV6_EXT_UNKNOWN,
	[TWIN_PROTO_TCP] = RTE_PTYPE_L4_TCP,
	[TWIN_PROTO_UDP] = RTE_PTYPE_L4_UDP,
	[TWIN_PROTO_SCTP] = RTE_PTYPE_L4_SCTP,
	[TWIN_PROTO_ICMP] = RTE_PTYPE_L4_ICMP,
	[TWIN_PROTO_ICMP6] = RTE_PTYPE_L4_ICMP,
};

/* What a driver leaves in an mbuf that a NIC has filled. */
static inline void
receive(struct rte_mbuf *m, uint16_t port_id, const struct twin_verdict *verdict)
{
	/* The sender's flags ask for offloads, and its other fields are none of the receiver's. */
	m->ol_flags &= RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT;
	m->tx_offload = 0;
	m->vlan_tci = 0;
	m->packet_type = RTE_PTYPE_L2_ETHER | packet_types[verdict->network] |
			 packet_types[verdict->transport];
	m->port = port_id;
	if (verdict->flags & TWIN_HAS_HASH) {
		m->ol_flags |= RTE_MBUF_F_RX_RSS_HASH;
		m->hash.rss = verdict->hash;
	}
	if (verdict->flags & TWIN_HAS_FLAG)
		m->ol_flags |= RTE_MBUF_F_RX_FDIR;
	if (verdict->flags & TWIN_HAS_MARK) {
		m->ol_flags |= RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
		m->hash.fdir.hi = verdict->mark;
	}
}

/* Classifies a burst of at most TWIN_BURST for its receiver, and puts it into the queues there. */
static void
deliver(struct twin_port *to, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_frame frames[TWIN_BURST];
	struct twin_verdict verdicts[TWIN_BURST];
	struct rte_mbuf *kept[TWIN_BURST];
	uint16_t queues[TWIN_BURST];
	uint16_t i, kept_count = 0, rule_drops = 0, no_queue = 0;

	if (count == 0)
		return;
	for (i = 0; i < count; i++) {
		frames[i].bytes = rte_pktmbuf_mtod(packets[i], const uint8_t *);
		frames[i].len = packets[i]->data_len;
		frames[i].frame_len = packets[i]->pkt_len;
	}
	twin_nic_classify(to->nic, frames, count, twin_now_us(), verdicts);
	for (i = 0; i < count; i++) {
		const struct twin_verdict *verdict = &verdicts[i];
		bool is_dropped = (verdict->flags & TWIN_DROPPED) != 0;

		if (is_dropped || verdict->queue >= to->dev->data->nb_rx_queues) {
			rule_drops += is_dropped;
			no_queue += !is_dropped;
			rte_pktmbuf_free(packets[i]);
			continue;
		}
		receive(packets[i], to->dev->data->port_id, verdict);
		kept[kept_count] = packets[i];
		queues[kept_count++] = verdict->queue;
	}
	if (rule_drops != 0)
		__atomic_fetch_add(&to->rule_drops, rule_drops, __ATOMIC_RELAXED);
	if (no_queue != 0)
		__atomic_fetch_add(&to->no_queue, no_queue, __ATOMIC_RELAXED);
	for (i = 0; i < kept_count;) {
		struct twin_rxq *rxq = &to->rxq[queues[i]];
		uint16_t same = 1, room;

		while (i + same < kept_count && queues[i + same] == queues[i])
			same++;
		room = rte_ring_enqueue_burst(rxq->ring, (void **)&kept[i], same, NULL);
		if (unlikely(room < same)) {
			rte_pktmbuf_free_bulk(&kept[i + room], same - room);
			__atomic_fetch_add(&rxq->missed, same - room, __ATOMIC_RELAXED);
		}
		i += same;
	}
}

/* A cable takes everything; without another end that listens, it is lost. */
uint16_t
twin_tx(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_txq *txq = queue;
	struct twin_wire *wire = txq->port->wire;
	struct twin_port *peer;
	uint64_t bytes = 0;
	uint16_t i;

	rte_rwlock_read_lock(&wire->lock);
	peer = wire->end[!txq->port->side];
	if (unlikely(peer == NULL || !peer->started)) {
		rte_rwlock_read_unlock(&wire->lock);
		rte_pktmbuf_free_bulk(packets, count);
		txq->errors += count;
		return count;
	}
	for (i = 0; i < count; i++)
		bytes += packets[i]->pkt_len;
	for (i = 0; i < count; i += TWIN_BURST)
		deliver(peer, packets + i, RTE_MIN(count - i, TWIN_BURST));
	rte_rwlock_read_unlock(&wire->lock);
	txq->packets += count;
	txq->bytes += bytes;
	return count;
}
