/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transmit queues, and frames with a send time (RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP). Such frames
 * wait in the descriptors of their queue. Two threads send due frames: the one that uses the queue,
 * and the one that polls the port at the other end of the wire. The latter is needed because the
 * sender may not call again when a frame is due.
 */

#include <errno.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_mbuf_dyn.h>

#include "twin_timed.h"

/* Offset of the send time in mbufs, and the flag of mbufs that have one; for all ports. */
static int time_offset;
static uint64_t time_flag;

/* Nanoseconds per cycle, times 2^32. */
static uint64_t ns_per_cycle;

/* Returns the clock of the port in nanoseconds: the TSC, at the rate that DPDK measured. */
static uint64_t
now_ns(void)
{
	return (unsigned __int128)rte_rdtsc() * ns_per_cycle >> 32;
}

int
twin_read_clock(struct rte_eth_dev *dev __rte_unused, uint64_t *clock)
{
	*clock = now_ns();
	return 0;
}

void
twin_timed_init(void)
{
	ns_per_cycle = (uint64_t)(((unsigned __int128)NS_PER_S << 32) / rte_get_tsc_hz());
}

/* Allocates room for as many frames as the queue has descriptors. */
static int
open_timed(struct twin_txq *txq, uint16_t descriptors, unsigned int socket)
{
	uint32_t places = rte_align32pow2(descriptors);
	struct twin_timed *timed;

	if (rte_mbuf_dyn_tx_timestamp_register(&time_offset, &time_flag) != 0) {
		TWIN_LOG(ERR, "mbufs have no room for a send time\n");
		return -rte_errno;
	}
	timed = rte_zmalloc_socket(NULL, sizeof(*timed) + places * sizeof(timed->packets[0]),
				   RTE_CACHE_LINE_SIZE, socket);
	if (timed == NULL)
		return -ENOMEM;
	rte_spinlock_init(&timed->lock);
	timed->descriptors = descriptors;
	timed->mask = places - 1;
	txq->timed = timed;
	return 0;
}

int
twin_tx_queue_setup(struct rte_eth_dev *dev, uint16_t queue, uint16_t descriptors,
		    unsigned int socket, const struct rte_eth_txconf *conf)
{
	uint64_t offloads = conf->offloads | dev->data->dev_conf.txmode.offloads;
	struct twin_port *port = dev->data->dev_private;
	struct twin_txq *txq = &port->txq[queue];
	int ret = 0;

	txq->port = port;
	txq->is_of_one_pool = (offloads & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) != 0;
	if ((offloads & RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP) != 0)
		ret = open_timed(txq, descriptors, socket);
	if (ret == 0)
		dev->data->tx_queues[queue] = txq;
	return ret;
}

/* Frees the frames that still wait; returns their number. No thread uses the queue any more. */
uint32_t
twin_timed_drain(struct twin_txq *txq)
{
	struct twin_timed *timed = txq->timed;
	uint32_t count = 0;

	if (timed == NULL)
		return 0;
	for (; timed->head != timed->tail; timed->head++, count++)
		rte_pktmbuf_free(timed->packets[timed->head & timed->mask]);
	return count;
}

void
twin_tx_queue_close(struct twin_txq *txq)
{
	txq->errors += twin_timed_drain(txq);
	rte_free(txq->timed);
	txq->timed = NULL;
}

void
twin_tx_queue_release(struct rte_eth_dev *dev, uint16_t queue)
{
	if (dev->data->tx_queues[queue] != NULL)
		twin_tx_queue_close(dev->data->tx_queues[queue]);
}

uint16_t
twin_timed_put(struct twin_timed *timed, struct rte_mbuf **packets, uint16_t count)
{
	uint32_t head = __atomic_load_n(&timed->head, __ATOMIC_ACQUIRE), tail = timed->tail;
	uint16_t i, room = RTE_MIN(count, timed->descriptors - (tail - head));

	for (i = 0; i < room; i++)
		timed->packets[(tail + i) & timed->mask] = packets[i];
	__atomic_store_n(&timed->tail, tail + room, __ATOMIC_RELEASE);
	return room;
}

/* True if a frame may be sent. Frames without a time are due at once, but keep their order. */
static inline bool
is_due(const struct rte_mbuf *m, uint64_t now)
{
	if ((m->ol_flags & time_flag) == 0)
		return true;
	return *RTE_MBUF_DYNFIELD(m, time_offset, const rte_mbuf_timestamp_t *) <= now;
}

void
twin_timed_send(struct twin_txq *txq, twin_send_t send)
{
	struct twin_timed *timed = txq->timed;
	struct rte_mbuf *packets[TWIN_BURST];
	uint16_t count, sent;
	uint32_t tail;
	uint64_t now;

	/* The thread that has the lock sends them. */
	if (!rte_spinlock_trylock(&timed->lock))
		return;
	/* Frames that are queued meanwhile wait for the next call, so that this one ends. */
	tail = __atomic_load_n(&timed->tail, __ATOMIC_ACQUIRE);
	now = now_ns();
	do {
		for (count = 0; count < TWIN_BURST && timed->head + count != tail; count++) {
			packets[count] = timed->packets[(timed->head + count) & timed->mask];
			if (!is_due(packets[count], now))
				break;
		}
		sent = count != 0 ? send(txq, packets, count) : 0;
		/* Release: twin_timed_put may use these places again. */
		__atomic_store_n(&timed->head, timed->head + sent, __ATOMIC_RELEASE);
	} while (sent == TWIN_BURST);
	rte_spinlock_unlock(&timed->lock);
}
