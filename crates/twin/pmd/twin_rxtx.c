/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets in mbufs: the model judges them, they wait in the rings of their queues, and who receives
 * only takes them out.
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

/* The same, of a source that is asked for packets: by a thread, or by who receives. */
uint16_t
twin_rx_polling(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_rxq *rxq = queue;

	/* A ring that is empty has room for a burst. */
	if (!rxq->port->pipeline.is_running && rte_ring_empty(rxq->ring))
		rxq->port->source->poll(rxq->port);
	return twin_rx(queue, packets, count);
}

static inline void
receive(struct rte_mbuf *m, uint16_t port_id, const struct twin_verdict *verdict)
{
	/* The sender's flags ask for offloads, and its other fields are none of the receiver's. */
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

/* Classifies a burst of at most TWIN_BURST for its receiver, and puts it into the queues there. */
static void
deliver_burst(struct twin_port *to, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_frame frames[TWIN_BURST];
	struct twin_verdict verdicts[TWIN_BURST];
	struct rte_mbuf *kept[TWIN_BURST];
	uint16_t queues[TWIN_BURST];
	uint16_t i, same, kept_count = 0, rule_drops = 0, no_queue = 0;
	uint64_t begin = rte_rdtsc();

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
	twin_add(&to->rule_drops, rule_drops);
	twin_add(&to->no_queue, no_queue);
	twin_add(&to->model_packets, count);
	twin_add(&to->model_cycles, rte_rdtsc() - begin);
	for (i = 0; i < kept_count; i += same) {
		for (same = 1; i + same < kept_count && queues[i + same] == queues[i]; same++)
			;
		enqueue(&to->rxq[queues[i]], kept + i, same);
	}
}

/* Takes the packets, whatever becomes of them. */
void
twin_deliver(struct twin_port *to, struct rte_mbuf **packets, uint16_t count)
{
	uint16_t i;

	for (i = 0; i < count; i += TWIN_BURST)
		deliver_burst(to, packets + i, RTE_MIN(count - i, TWIN_BURST));
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

/* A port without a cable: there is no link, and what is sent is lost. */
const struct twin_source twin_no_source = {
	.start = start_nothing,
	.stop = do_nothing,
	.close = do_nothing,
	.rx = twin_rx,
	.tx = tx_nowhere,
};

/* Sends to where nobody cares. */
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
	/* Chains have to be taken apart first. */
	if (likely(txq->is_of_one_pool && segments == count) && count != 0)
		rte_mempool_put_bulk(packets[0]->pool, (void *const *)packets, count);
	else
		rte_pktmbuf_free_bulk(packets, count);
	txq->packets += count;
	txq->bytes += bytes;
	return count;
}
