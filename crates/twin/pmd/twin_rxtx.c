/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Classifies packets in mbufs and puts them into the rings of their queues, from which receivers
 * take them.
 */

#include <rte_cycles.h>
#include <rte_ethdev.h>

#include "twin_mbuf.h"

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

/* Receives from the ring. Without a pipeline thread, polls the source first. */
uint16_t
twin_rx_polling(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_rxq *rxq = queue;

	/* Only into an empty ring, which has room for a burst. */
	if (!rxq->port->pipeline.is_running && rte_ring_empty(rxq->ring))
		rxq->port->source->poll(rxq->port);
	return twin_rx(queue, packets, count);
}

static inline void
receive(struct rte_mbuf *m, uint16_t port_id, const struct twin_verdict *verdict)
{
	/* Flags and fields that the sender has set do not concern the receiver. */
	m->ol_flags &= RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT;
	m->ol_flags |= twin_offload_flags(verdict);
	m->tx_offload = 0;
	m->vlan_tci = 0;
	m->packet_type = twin_packet_type(verdict);
	m->port = port_id;
	m->hash.rss = verdict->hash;
	m->hash.fdir.hi = verdict->mark;
}

static void
enqueue(struct twin_rxq *rxq, struct rte_mbuf **packets, uint16_t count)
{
	uint16_t room = rte_ring_enqueue_burst(rxq->ring, (void **)packets, count, NULL);

	if (unlikely(room < count)) {
		rte_pktmbuf_free_bulk(packets + room, count - room);
		twin_add(&rxq->missed, count - room);
	}
}

/* Bytes of a chain that the model reads; all usual headers are within them. */
#define HEADERS_MAX 256

/* Classifies packets whose headers may be in several segments; copies those headers. */
static __rte_noinline void
classify_chains(const struct twin_port *to, struct rte_mbuf **packets, struct twin_frame *frames,
		uint16_t count, struct twin_verdict *verdicts)
{
	uint8_t scratch[TWIN_BURST][HEADERS_MAX];
	uint16_t i;

	for (i = 0; i < count; i++) {
		const struct rte_mbuf *m = packets[i];
		uint32_t len = RTE_MIN(m->pkt_len, (uint32_t)HEADERS_MAX);

		if (m->nb_segs == 1 || m->data_len >= HEADERS_MAX)
			continue;
		frames[i].bytes = rte_pktmbuf_read(m, 0, len, scratch[i]);
		frames[i].len = frames[i].bytes != NULL ? len : 0;
	}
	twin_nic_classify(to->nic, frames, count, twin_now_us(), verdicts);
}

static inline void
classify(const struct twin_port *to, struct rte_mbuf **packets, uint16_t count,
	 struct twin_verdict *verdicts)
{
	struct twin_frame frames[TWIN_BURST];
	uint32_t segments = 0;
	uint16_t i;

	for (i = 0; i < count; i++) {
		frames[i].bytes = rte_pktmbuf_mtod(packets[i], const uint8_t *);
		frames[i].len = packets[i]->data_len;
		frames[i].frame_len = packets[i]->pkt_len;
		segments += packets[i]->nb_segs;
	}
	if (unlikely(segments != count))
		classify_chains(to, packets, frames, count, verdicts);
	else
		twin_nic_classify(to->nic, frames, count, twin_now_us(), verdicts);
}

/* Packets of a burst, and the queue or port of each. */
struct pile {
	struct rte_mbuf *packets[TWIN_BURST];
	uint32_t to[TWIN_BURST];
	uint64_t left; /* as bits */
	uint16_t count;
};

static inline void
put(struct pile *pile, struct rte_mbuf *packet, uint32_t to)
{
	static_assert(TWIN_BURST <= 64, "packets are bits of a word");
	pile->left |= RTE_BIT64(pile->count);
	pile->packets[pile->count] = packet;
	pile->to[pile->count++] = to;
}

/* Takes all packets with the target of the first, in order; returns their number. */
static inline uint16_t
take(struct pile *pile, struct rte_mbuf **packets, uint32_t *to)
{
	uint64_t rest = pile->left;
	uint16_t count = 0;

	*to = pile->to[__builtin_ctzll(rest)];
	for (; rest != 0; rest &= rest - 1) {
		unsigned int i = __builtin_ctzll(rest);

		if (pile->to[i] == *to) {
			packets[count++] = pile->packets[i];
			pile->left &= ~RTE_BIT64(i);
		}
	}
	return count;
}

/* Classifies at most TWIN_BURST packets, and puts them into the queues of the port. */
static void
deliver_burst(struct twin_port *to, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_verdict verdicts[TWIN_BURST];
	struct rte_mbuf *same[TWIN_BURST];
	struct pile kept, elsewhere;
	uint16_t i, n, rule_drops = 0, no_queue = 0;
	uint64_t begin = rte_rdtsc();
	uint32_t where;

	kept.left = elsewhere.left = 0;
	kept.count = elsewhere.count = 0;
	classify(to, packets, count, verdicts);
	for (i = 0; i < count; i++) {
		const struct twin_verdict *verdict = &verdicts[i];
		bool is_dropped = (verdict->flags & TWIN_DROPPED) != 0;

		if (unlikely(twin_is_elsewhere(verdict))) {
			put(&elsewhere, packets[i], twin_target(verdict));
			continue;
		}
		if (is_dropped || verdict->queue >= to->dev->data->nb_rx_queues) {
			rule_drops += is_dropped;
			no_queue += !is_dropped;
			rte_pktmbuf_free(packets[i]);
			continue;
		}
		receive(packets[i], to->dev->data->port_id, verdict);
		put(&kept, packets[i], verdict->queue);
	}
	twin_add(&to->rule_drops, rule_drops);
	twin_add(&to->no_queue, no_queue);
	twin_add(&to->model_packets, count);
	twin_add(&to->model_cycles, rte_rdtsc() - begin);
	while (kept.left != 0) {
		n = take(&kept, same, &where);
		enqueue(&to->rxq[where], same, n);
	}
	while (elsewhere.left != 0) {
		n = take(&elsewhere, same, &where);
		twin_switch_send(to, where, same, n);
	}
}

static void
deliver_all(struct twin_port *to, struct rte_mbuf **packets, uint16_t count)
{
	uint16_t i;

	for (i = 0; i < count; i += TWIN_BURST)
		deliver_burst(to, packets + i, RTE_MIN(count - i, TWIN_BURST));
}

static __rte_noinline void
deliver_reordered(struct twin_port *to, struct rte_mbuf **packets, uint16_t count)
{
	struct rte_mbuf *out[TWIN_BURST + TWIN_HELD_MAX];
	uint16_t i = 0, n;

	do {
		n = RTE_MIN(count - i, TWIN_BURST);
		deliver_all(to, out, twin_reorder(to->reorder, packets + i, n, out));
		i += n;
	} while (i < count);
}

/*
 * Classifies packets and puts them into queues. The caller no longer owns them. Without any, it
 * delivers those that are held to reorder them.
 */
void
twin_deliver(struct twin_port *to, struct rte_mbuf **packets, uint16_t count)
{
	if (unlikely(to->reorder != NULL))
		deliver_reordered(to, packets, count);
	else
		deliver_all(to, packets, count);
}

static int
start_nothing(struct twin_port *port __rte_unused)
{
	return 0;
}

static void
do_nothing(struct twin_port *port __rte_unused)
{
}

static uint16_t
tx_nowhere(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_txq *txq = queue;

	rte_pktmbuf_free_bulk(packets, count);
	txq->errors += count;
	return count;
}

/* The source of a port without a wire: it has no link, and sent packets are lost. */
const struct twin_source twin_no_source = {
	.start = start_nothing,
	.stop = do_nothing,
	.close = do_nothing,
	.rx = twin_rx,
	.tx = tx_nowhere,
};

/* Frees sent packets and counts them as sent. */
uint16_t
twin_tx_swallow(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_txq *txq = queue;
	uint32_t segments = 0;
	uint64_t bytes = 0;
	uint16_t i;

	for (i = 0; i < count; i++) {
		bytes += packets[i]->pkt_len;
		segments += packets[i]->nb_segs;
	}
	/* Chains, and packets of several pools, must be freed one by one. */
	if (likely(txq->is_of_one_pool && segments == count) && count != 0)
		rte_mempool_put_bulk(packets[0]->pool, (void *const *)packets, count);
	else
		rte_pktmbuf_free_bulk(packets, count);
	txq->packets += count;
	txq->bytes += bytes;
	return count;
}

/* Frees packets that rules of other ports send out here, as twin_tx_swallow does. */
uint16_t
twin_carry_swallow(struct twin_port *port, struct rte_mbuf **packets, uint16_t count)
{
	uint64_t bytes = 0;
	uint16_t i;

	for (i = 0; i < count; i++)
		bytes += packets[i]->pkt_len;
	rte_pktmbuf_free_bulk(packets, count);
	twin_switch_count(port, count, bytes);
	return count;
}
