/* SPDX-License-Identifier: BSD-3-Clause */
/* Transmit queues, and the frames that wait there until it is time to send them. */
#ifndef TWIN_TIMED_H
#define TWIN_TIMED_H

#include "twin.h"

/* One thread puts frames in; others may take them out, one at a time. */
struct twin_timed {
	uint32_t descriptors; /* frames that may wait */
	uint32_t mask;
	rte_spinlock_t lock __rte_cache_aligned; /* of who sends; tried, and never waited for */
	uint32_t head; /* counts the frames that were sent */
	uint32_t tail __rte_cache_aligned; /* counts those that were put in */
	struct rte_mbuf *packets[];
};

/* Sends frames now; how many. */
typedef uint16_t (*twin_send_t)(struct twin_txq *txq, struct rte_mbuf **packets, uint16_t count);

/* Once, when there is a clock. */
void twin_timed_init(void);
int twin_read_clock(struct rte_eth_dev *dev, uint64_t *clock);
int twin_tx_queue_setup(struct rte_eth_dev *dev, uint16_t queue, uint16_t descriptors,
			unsigned int socket, const struct rte_eth_txconf *conf);
void twin_tx_queue_release(struct rte_eth_dev *dev, uint16_t queue);
void twin_tx_queue_close(struct twin_txq *txq);
/* Frees the frames that still wait in a queue that nobody uses any more; how many. */
uint32_t twin_timed_drain(struct twin_txq *txq);
/* By who sends by the queue: puts frames behind those that wait; how many there was room for. */
uint16_t twin_timed_put(struct twin_timed *timed, struct rte_mbuf **packets, uint16_t count);
/* By anybody: sends those whose time has come, by `send`, unless somebody does so already. */
void twin_timed_send(struct twin_txq *txq, twin_send_t send);

#endif
