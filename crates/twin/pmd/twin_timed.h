/* SPDX-License-Identifier: BSD-3-Clause */
/* Declares transmit queues, and the frames that wait there for their send time. */
#ifndef TWIN_TIMED_H
#define TWIN_TIMED_H

#include "twin.h"

/* Frames that wait. One thread puts frames in; any thread takes them out, one at a time. */
struct twin_timed {
	uint32_t descriptors; /* frames that may wait */
	uint32_t mask;
	rte_spinlock_t lock __rte_cache_aligned; /* held while sending; never waited for */
	uint32_t head; /* number of frames that were sent */
	uint32_t tail __rte_cache_aligned; /* number of frames that were put in */
	struct rte_mbuf *packets[];
};

/* Sends frames at once; returns their number. */
typedef uint16_t (*twin_send_t)(struct twin_txq *txq, struct rte_mbuf **packets, uint16_t count);

/* Measures the clock; called once, after the EAL has started. */
void twin_timed_init(void);
int twin_read_clock(struct rte_eth_dev *dev, uint64_t *clock);
int twin_tx_queue_setup(struct rte_eth_dev *dev, uint16_t queue, uint16_t descriptors,
			unsigned int socket, const struct rte_eth_txconf *conf);
void twin_tx_queue_release(struct rte_eth_dev *dev, uint16_t queue);
void twin_tx_queue_close(struct twin_txq *txq);
/* Frees the frames that still wait in an unused queue; returns their number. */
uint32_t twin_timed_drain(struct twin_txq *txq);
/* Puts frames behind those that wait; returns how many fit. For the thread of the queue. */
uint16_t twin_timed_put(struct twin_timed *timed, struct rte_mbuf **packets, uint16_t count);
/* Sends due frames with `send`, unless another thread does so already. For any thread. */
void twin_timed_send(struct twin_txq *txq, twin_send_t send);

#endif
