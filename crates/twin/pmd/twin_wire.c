/* SPDX-License-Identifier: BSD-3-Clause */
/* wire=NAME: connects two ports with the same name, like a cable. */

#include <errno.h>
#include <stdlib.h>

#include <rte_mbuf.h>
#include <rte_rwlock.h>
#include <rte_spinlock.h>
#include <rte_string_fns.h>

#include "twin_timed.h"

/* A wire: each end receives the packets that the other sends. */
struct twin_wire {
	LIST_ENTRY(twin_wire) next;
	char name[64];
	/* Read-locked to send; write-locked when a port is opened, started, stopped or closed. */
	rte_rwlock_t lock;
	struct twin_port *end[2];
};

static LIST_HEAD(, twin_wire) wires = LIST_HEAD_INITIALIZER(wires);
static rte_spinlock_t wires_lock = RTE_SPINLOCK_INITIALIZER;

static struct twin_wire *
find_or_add(const char *name)
{
	struct twin_wire *wire;

	LIST_FOREACH(wire, &wires, next) {
		if (strcmp(wire->name, name) == 0)
			return wire;
	}
	wire = calloc(1, sizeof(*wire));
	if (wire == NULL)
		return NULL;
	if (rte_strscpy(wire->name, name, sizeof(wire->name)) < 0) {
		TWIN_LOG(ERR, "wire=%s: the name has more than %zu characters\n", name,
			 sizeof(wire->name) - 1);
		free(wire);
		return NULL;
	}
	rte_rwlock_init(&wire->lock);
	LIST_INSERT_HEAD(&wires, wire, next);
	return wire;
}

/* Connects a port to a free end of the wire. */
int
twin_wire_open(struct twin_port *port, const struct twin_args *args)
{
	struct twin_wire *wire;

	rte_spinlock_lock(&wires_lock);
	wire = find_or_add(args->wire);
	if (wire != NULL) {
		rte_rwlock_write_lock(&wire->lock);
		port->side = wire->end[0] == NULL ? 0 : 1;
		if (wire->end[port->side] == NULL)
			wire->end[port->side] = port;
		rte_rwlock_write_unlock(&wire->lock);
		if (wire->end[port->side] != port) {
			TWIN_LOG(ERR, "wire=%s has two ports already\n", args->wire);
			wire = NULL;
		}
	}
	rte_spinlock_unlock(&wires_lock);
	port->wire = wire;
	return wire != NULL ? 0 : -EINVAL;
}

/* Notes in the queues of one end whether the other sends frames at set times. */
static void
note_timed(struct twin_port *to, const struct twin_port *from)
{
	bool is_timed = false;
	uint16_t i;

	if (from != NULL && from->started) {
		for (i = 0; i < from->dev->data->nb_tx_queues; i++)
			is_timed |= from->txq[i].timed != NULL;
	}
	for (i = 0; i < TWIN_QUEUES_MAX; i++)
		__atomic_store_n(&to->rxq[i].is_far_timed, is_timed, __ATOMIC_RELAXED);
}

/* The link is up while both ends are started. */
static void
set_started(struct twin_port *port, bool started)
{
	struct rte_eth_dev *changed[2] = { NULL, NULL };
	struct twin_wire *wire = port->wire;
	struct twin_port *peer;
	unsigned int i;
	bool is_up;

	rte_rwlock_write_lock(&wire->lock);
	port->started = started;
	peer = wire->end[!port->side];
	is_up = started && peer != NULL && peer->started;
	if (twin_set_link(port, is_up))
		changed[0] = port->dev;
	if (peer != NULL && twin_set_link(peer, is_up))
		changed[1] = peer->dev;
	note_timed(port, peer);
	if (peer != NULL)
		note_timed(peer, port);
	rte_rwlock_write_unlock(&wire->lock);
	/* Without the lock, because callbacks may start and stop ports. */
	for (i = 0; i < RTE_DIM(changed); i++) {
		if (changed[i] != NULL)
			twin_tell_link(changed[i]);
	}
}

static int
start(struct twin_port *port)
{
	twin_pace_start(&port->pace);
	set_started(port, true);
	return 0;
}

static void
stop(struct twin_port *port)
{
	uint16_t i;

	set_started(port, false);
	/* The other end no longer sends these frames. */
	for (i = 0; i < port->dev->data->nb_tx_queues; i++)
		port->txq[i].errors += twin_timed_drain(&port->txq[i]);
}

static void
unplug(struct twin_port *port)
{
	struct twin_wire *wire = port->wire;

	if (wire == NULL)
		return;
	rte_spinlock_lock(&wires_lock);
	rte_rwlock_write_lock(&wire->lock);
	wire->end[port->side] = NULL;
	rte_rwlock_write_unlock(&wire->lock);
	if (wire->end[!port->side] == NULL) {
		LIST_REMOVE(wire, next);
		free(wire);
	}
	rte_spinlock_unlock(&wires_lock);
	port->wire = NULL;
}

/* Returns how many of the packets the rate of the wire allows now. */
static uint16_t
fit(struct twin_pace *pace, struct rte_mbuf **packets, uint16_t count)
{
	int64_t claimed = twin_pace_claim(pace), left = claimed;
	uint16_t i;

	if (likely(claimed == TWIN_PACE_UNLIMITED))
		return count;
	for (i = 0; i < count && left >= twin_pace_bytes(packets[i]->pkt_len); i++)
		left -= twin_pace_bytes(packets[i]->pkt_len);
	twin_pace_use(pace, claimed, claimed - left);
	return i;
}

/* True if another owner shares the packet or its bytes. Receivers need packets of their own. */
static inline bool
is_shared(const struct rte_mbuf *m)
{
	uint16_t left = m->nb_segs;

	for (;; m = m->next) {
		if (rte_mbuf_refcnt_read(m) != 1 || RTE_MBUF_CLONED(m) ||
		    (RTE_MBUF_HAS_EXTBUF(m) && rte_mbuf_ext_refcnt_read(m->shinfo) != 1))
			return true;
		if (likely(--left == 0))
			return false;
	}
}

/* Replaces shared packets by copies; returns how many packets remain. */
static __rte_noinline uint16_t
copy_shared(struct twin_port *peer, struct rte_mbuf **packets, uint16_t count)
{
	struct rte_mempool *pool = peer->rxq[0].pool;
	uint16_t i, kept = 0;

	for (i = 0; i < count; i++) {
		struct rte_mbuf *m = packets[i], *copy = NULL;

		if (is_shared(m)) {
			if (pool != NULL)
				copy = rte_pktmbuf_copy(m, pool, 0, UINT32_MAX);
			rte_pktmbuf_free(m);
			m = copy;
		}
		if (m != NULL)
			packets[kept++] = m;
	}
	twin_add(&peer->no_room, count - kept);
	return kept;
}

/*
 * Sends packets under the lock of the wire. The sender also does the work of the receiving NIC. A
 * wire takes all packets that its rate allows. If the other end is not started, they are lost.
 */
static inline uint16_t
put_on_wire(struct twin_txq *txq, struct rte_mbuf **packets, uint16_t count)
{
	const struct twin_wire *wire = txq->port->wire;
	struct twin_port *peer;
	bool are_shared = false;
	uint64_t bytes = 0;
	uint16_t i, arriving;

	peer = wire->end[!txq->port->side];
	if (unlikely(peer == NULL || !peer->started)) {
		rte_pktmbuf_free_bulk(packets, count);
		txq->errors += count;
		return count;
	}
	count = fit(&txq->port->pace, packets, count);
	for (i = 0; i < count; i++) {
		bytes += packets[i]->pkt_len;
		are_shared |= is_shared(packets[i]);
	}
	arriving = unlikely(are_shared) ? copy_shared(peer, packets, count) : count;
	twin_hand_over(peer, packets, arriving);
	txq->packets += count;
	txq->bytes += bytes;
	return count;
}

static uint16_t
tx(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_txq *txq = queue;
	struct twin_wire *wire = txq->port->wire;

	if (unlikely(txq->timed != NULL))
		count = twin_timed_put(txq->timed, packets, count);
	rte_rwlock_read_lock(&wire->lock);
	if (unlikely(txq->timed != NULL))
		twin_timed_send(txq, put_on_wire);
	else
		count = put_on_wire(txq, packets, count);
	rte_rwlock_read_unlock(&wire->lock);
	return count;
}

/* Sends the due frames of the other end, as a NIC does without its application. */
static __rte_noinline void
let_far_send(struct twin_port *port)
{
	struct twin_wire *wire = port->wire;
	struct twin_port *peer;
	uint16_t i;

	if (rte_rwlock_read_trylock(&wire->lock) != 0)
		return;
	peer = wire->end[!port->side];
	if (peer != NULL && peer->started && !__atomic_load_n(&peer->is_down, __ATOMIC_RELAXED)) {
		for (i = 0; i < peer->dev->data->nb_tx_queues; i++) {
			if (peer->txq[i].timed != NULL)
				twin_timed_send(&peer->txq[i], put_on_wire);
		}
	}
	rte_rwlock_read_unlock(&wire->lock);
}

static uint16_t
rx(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_rxq *rxq = queue;
	uint16_t got;

	if (unlikely(__atomic_load_n(&rxq->is_far_timed, __ATOMIC_RELAXED)))
		let_far_send(rxq->port);
	got = twin_rx(queue, packets, count);
	/* With a thread, that one does it. */
	if (unlikely(got == 0 && rxq->port->reorder != NULL && !rxq->port->pipeline.is_running))
		twin_deliver(rxq->port, NULL, 0);
	return got;
}

static void
info(struct twin_port *port __rte_unused, struct rte_eth_dev_info *info)
{
	info->tx_offload_capa |= RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP;
}

/* Sends packets of the switch. Never waits for the lock, which this thread may hold already. */
static uint16_t
carry(struct twin_port *port, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_wire *wire = port->wire;
	struct twin_port *peer;
	uint64_t bytes = 0;
	uint16_t i, sent = 0;

	if (likely(rte_rwlock_read_trylock(&wire->lock) == 0)) {
		peer = wire->end[!port->side];
		if (likely(peer != NULL && peer->started)) {
			sent = fit(&port->pace, packets, count);
			for (i = 0; i < sent; i++)
				bytes += packets[i]->pkt_len;
			/* Not through the inbox: this thread counts the hops. */
			twin_deliver(peer, packets, sent);
		}
		rte_rwlock_read_unlock(&wire->lock);
	}
	rte_pktmbuf_free_bulk(packets + sent, count - sent);
	twin_switch_count(port, sent, bytes);
	return sent;
}

const struct twin_source twin_wire_source = {
	.start = start,
	.stop = stop,
	.close = unplug,
	.rx = rx,
	.tx = tx,
	.carry = carry,
	.info = info,
};
