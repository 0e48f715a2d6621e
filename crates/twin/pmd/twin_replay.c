/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay=FILE: plays a capture instead of a wire. Receiving copies a packet, and the verdict of the
 * NIC, into an mbuf. Every queue plays its own packets at its own pace.
 */

#include <string.h>

#include <rte_cycles.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>

#include "twin_replay.h"

/* Maximum number of blocks that one call plays. */
#define BLOCKS_PER_CALL 64
/*
 * Distance of prefetches of frames and packet entries into the second-level cache. The hardware
 * prefetches entries only if there are few other loads.
 */
#define AHEAD 64

/* Starts with the first packet; after a reset, continues where each queue was. */
static int
start(struct twin_port *port)
{
	int ret = twin_store_prepare(port);
	uint16_t i;

	if (ret != 0)
		return ret;
	for (i = 0; i < port->replay->queues && !port->goes_on; i++)
		port->rxq[i].cursor = (struct twin_cursor){ 0, UINT64_MAX, port->replay->loops };
	port->goes_on = false;
	twin_pace_start(&port->pace);
	if (twin_set_link(port, true))
		twin_tell_link(port->dev);
	return 0;
}

static void
stop(struct twin_port *port)
{
	if (twin_set_link(port, false))
		twin_tell_link(port->dev);
}

/* Counts packets that several rules count: the model has to classify each again. */
static __rte_noinline void
count_often(struct twin_port *port, const struct twin_packet *packets, uint64_t which)
{
	struct twin_verdict verdicts[TWIN_BLOCK];
	struct twin_frame frames[TWIN_BLOCK];
	uint32_t n = 0;

	for (; which != 0; which &= which - 1)
		frames[n++] = twin_frame_of(port->replay, &packets[__builtin_ctzll(which)]);
	twin_nic_classify(port->nic, frames, n, twin_now_us(), verdicts);
}

/* Counts packets of a block for the rules that they hit. */
static void
count(struct twin_port *port, const struct twin_packet *packets, uint64_t which)
{
	struct twin_count counts[TWIN_BLOCK];
	uint64_t begin = rte_rdtsc(), often = 0;
	uint32_t n = 0;

	for (; which != 0; which &= which - 1) {
		const struct twin_packet *packet = &packets[__builtin_ctzll(which)];

		if (unlikely(packet->counter == TWIN_COUNTED_OFTEN))
			often |= which & -which;
		else
			counts[n++] = (struct twin_count){ packet->counter, packet->pkt_len };
	}
	twin_nic_count(port->nic, counts, n, twin_now_us());
	if (unlikely(often != 0))
		count_often(port, packets, often);
	twin_add(&port->model_cycles, rte_rdtsc() - begin);
}

/* Returns the word of an mbuf that is the same for all packets of a port. */
static inline uint64_t
rearm_word(const struct twin_port *port)
{
	const struct rte_mbuf m = {
		.data_off = RTE_PKTMBUF_HEADROOM,
		.refcnt = 1,
		.nb_segs = 1,
		.port = port->dev->data->port_id,
	};
	uint64_t word;

	memcpy(&word, &m.rearm_data, sizeof(word));
	return word;
}

static inline void
fill(struct rte_mbuf *m, uint64_t rearm, const struct twin_packet *packet)
{
	const union twin_mark mark = twin_mark_of(packet);

	memcpy(&m->rearm_data, &rearm, sizeof(rearm));
	m->ol_flags = mark.flags;
	memcpy(m->rx_descriptor_fields1, packet, offsetof(struct twin_packet, mark));
	m->hash.fdir.hi = mark.value;
}

/* Copies a frame into one mbuf, in whole cache lines; rxq->room makes sure that they fit. */
static inline void
copy(struct rte_mbuf *m, const uint8_t *from, int32_t len)
{
	uint8_t *to = (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM;

	do {
		rte_mov64(to, from);
		to += TWIN_LINE;
		from += TWIN_LINE;
		len -= TWIN_LINE;
	} while (unlikely(len > 0));
}

/* Copies a frame into a chain that begins with `m`. False if there are no more mbufs. */
static bool
copy_long(struct twin_rxq *rxq, struct rte_mbuf *m, const uint8_t *from, uint32_t len)
{
	struct rte_mbuf *last = m;
	uint32_t part;

	m->data_len = 0;
	for (;; len -= part, from += part) {
		part = RTE_MIN(len, (uint32_t)rte_pktmbuf_tailroom(last));
		memcpy(rte_pktmbuf_mtod_offset(last, void *, last->data_len), from, part);
		last->data_len += part;
		if (part == len)
			return true;
		last->next = part != 0 ? rte_pktmbuf_alloc(rxq->pool) : NULL;
		if (last->next == NULL)
			break;
		last = last->next;
		m->nb_segs++;
	}
	if (m->next != NULL)
		rte_pktmbuf_free(m->next);
	m->next = NULL;
	m->nb_segs = 1;
	return false;
}

/* A burst that is being received. */
struct burst {
	struct rte_mbuf **mbufs;
	uint16_t room;
	uint16_t got;
	uint64_t bytes;
	int64_t wire; /* remaining wire time in bytes */
};

/* Resets mbufs that were filled by verdicts which changed meanwhile. */
static void
take_back(struct rte_mbuf **mbufs, uint16_t count)
{
	uint16_t i;

	for (i = 0; i < count; i++) {
		if (mbufs[i]->nb_segs > 1)
			rte_pktmbuf_free(mbufs[i]->next);
		mbufs[i]->next = NULL;
		mbufs[i]->nb_segs = 1;
	}
}

/*
 * Prefetches for one of several queues, because the hardware cannot: its packets are scattered.
 * Fetches frames of the next block, and packet entries of the block after it.
 */
static inline void
fetch(const struct twin_replay *replay, uint32_t place, uint16_t queue)
{
	const struct twin_packet *packets = twin_packets_of(replay, place);
	const uint64_t *members = twin_members_of(replay, place) + queue;
	uint64_t next, behind;

	if (place + 2 >= replay->block_count)
		return;
	for (next = members[replay->queues]; next != 0; next &= next - 1) {
		const struct twin_packet *packet = &packets[TWIN_BLOCK + __builtin_ctzll(next)];

		rte_prefetch0(twin_bytes_of(replay, packet));
	}
	for (behind = members[2 * replay->queues]; behind != 0; behind &= behind - 1)
		rte_prefetch0(&packets[2 * TWIN_BLOCK + __builtin_ctzll(behind)]);
}

/* Receives packets of a block while there are mbufs and wire time; returns the others. */
static inline uint64_t
receive(struct twin_rxq *rxq, struct burst *burst, const struct twin_packet *packets,
	uint64_t which)
{
	const struct twin_replay *replay = rxq->port->replay;
	const size_t ahead = replay->queues == 1 ? AHEAD : 0;
	const uint64_t rearm = rearm_word(rxq->port);
	int64_t wire = burst->wire;
	uint64_t bytes = burst->bytes;
	uint16_t got = burst->got;

	for (; which != 0 && got < burst->room; which &= which - 1) {
		const struct twin_packet *packet = &packets[__builtin_ctzll(which)];
		const uint8_t *frame = twin_bytes_of(replay, packet);
		struct rte_mbuf *m = burst->mbufs[got];

		if (unlikely(wire < twin_pace_bytes(packet->pkt_len)))
			break;
		wire -= twin_pace_bytes(packet->pkt_len);
		rte_prefetch1(frame + ahead * TWIN_LINE);
		rte_prefetch1(packet + ahead);
		fill(m, rearm, packet);
		if (likely(packet->pkt_len <= rxq->room)) {
			copy(m, frame, packet->pkt_len);
		} else if (!copy_long(rxq, m, frame, packet->pkt_len)) {
			rxq->port->dev->data->rx_mbuf_alloc_failed++;
			continue;
		}
		bytes += packet->pkt_len;
		got++;
	}
	burst->wire = wire;
	burst->bytes = bytes;
	burst->got = got;
	return which;
}

/* Returns a copy of a packet in a new mbuf, as if it came by a wire; NULL without mbufs. */
static struct rte_mbuf *
copy_out(struct twin_rxq *rxq, const struct twin_packet *packet)
{
	const uint8_t *frame = twin_bytes_of(rxq->port->replay, packet);
	struct rte_mbuf *m = rte_pktmbuf_alloc(rxq->pool);

	if (likely(m != NULL)) {
		m->data_len = m->pkt_len = packet->pkt_len;
		if (likely(packet->pkt_len <= rxq->room)) {
			copy(m, frame, packet->pkt_len);
			return m;
		}
		if (copy_long(rxq, m, frame, packet->pkt_len))
			return m;
		rte_pktmbuf_free(m);
	}
	rxq->port->dev->data->rx_mbuf_alloc_failed++;
	return NULL;
}

/*
 * Writes the targets of packets of a block. Returns those that still go to other ports, because
 * rules may have changed since the caller read the block.
 */
static uint64_t
targets_of(const struct twin_block *block, const struct twin_packet *packets, uint64_t which,
	   uint32_t *targets)
{
	uint64_t still, left;
	uint32_t number;

	do {
		number = rte_seqlock_read_begin(&block->lock);
		still = which & block->sets.elsewhere;
		for (left = still; left != 0; left &= left - 1)
			targets[__builtin_ctzll(left)] = packets[__builtin_ctzll(left)].hash;
	} while (rte_seqlock_read_retry(&block->lock, number));
	return still;
}

/* Sends packets of a block to other ports, one port after the other, in order. */
static void
send_elsewhere(struct twin_rxq *rxq, uint32_t place, uint64_t which)
{
	const struct twin_packet *packets = twin_packets_of(rxq->port->replay, place);
	uint32_t targets[TWIN_BLOCK];
	struct rte_mbuf *mbufs[TWIN_BLOCK];
	uint64_t left = targets_of(&rxq->port->replay->blocks[place], packets, which, targets);

	twin_add(&rxq->port->switch_drops, __builtin_popcountll(which & ~left));
	while (left != 0) {
		const uint32_t to = targets[__builtin_ctzll(left)];
		uint64_t rest = left;
		uint16_t count = 0;

		for (; rest != 0; rest &= rest - 1) {
			const uint32_t i = __builtin_ctzll(rest);

			if (targets[i] != to)
				continue;
			left &= ~RTE_BIT64(i);
			mbufs[count] = copy_out(rxq, &packets[i]);
			count += mbufs[count] != NULL;
		}
		if (count != 0)
			twin_switch_send(rxq->port, to, mbufs, count);
	}
}

/* Returns unused mbufs to the pool; a small pool may have no others. */
static void
give_back(struct twin_rxq *rxq, struct burst *burst)
{
	if (burst->got < burst->room)
		rte_mempool_put_bulk(rxq->pool, (void *const *)burst->mbufs + burst->got,
				     burst->room - burst->got);
	burst->room = burst->got;
}

/*
 * Counts packets that no queue receives, and sends those for other ports. Returns their bytes on
 * the wire. Most blocks have no such packets, so this is not inlined.
 */
static __rte_noinline int64_t
pass_unreceived(struct twin_rxq *rxq, uint32_t place, struct twin_sets sets, uint64_t which)
{
	struct twin_port *port = rxq->port;
	const struct twin_packet *packets = twin_packets_of(port->replay, place);
	uint64_t left;
	int64_t bytes = 0;

	for (left = which; left != 0; left &= left - 1)
		bytes += twin_pace_bytes(packets[__builtin_ctzll(left)].pkt_len);
	twin_add(&port->rule_drops, __builtin_popcountll(which & sets.dropped));
	twin_add(&port->no_queue, __builtin_popcountll(which & sets.lost));
	if ((which & sets.counted) != 0)
		count(port, packets, which & sets.counted);
	if ((which & sets.elsewhere) != 0)
		send_elsewhere(rxq, place, which & sets.elsewhere);
	return bytes;
}

/* Returns the current generation of rules; begins one if rules change by the clock. */
static inline uint64_t
generation_of(const struct twin_port *port)
{
	const struct twin_replay *replay = port->replay;
	uint64_t change_us = __atomic_load_n(replay->change_us, __ATOMIC_RELAXED);

	if (unlikely(change_us != 0)) {
		uint64_t now_us = twin_now_us();

		if (now_us >= change_us)
			twin_nic_settle(port->nic, now_us);
	}
	return __atomic_load_n(replay->generation, __ATOMIC_ACQUIRE);
}

/*
 * Sends packets of the current block to other ports, and lets the burst end without a packet. So
 * whoever polls can tell the time of what a NIC does by itself from the time of receiving. Returns
 * the other packets of the block; all of them if the burst has packets already.
 */
static __rte_noinline uint64_t
forward_first(struct twin_rxq *rxq, struct burst *burst, struct twin_sets sets, uint64_t mine)
{
	const uint64_t which = mine & sets.elsewhere;

	if (burst->got != 0)
		return mine;
	give_back(rxq, burst);
	burst->wire -= pass_unreceived(rxq, rxq->cursor.block, sets, which);
	rxq->cursor.ahead &= ~which;
	return mine & ~which;
}

/* Receives packets of the current block of the queue, all by verdicts of one generation. */
static inline uint64_t
receive_judged(struct twin_rxq *rxq, struct burst *burst, const struct twin_packet *packets)
{
	struct twin_port *port = rxq->port;
	struct twin_replay *replay = port->replay;
	const uint32_t place = rxq->cursor.block;
	const uint16_t queue = rxq - port->rxq;
	const uint64_t *members = twin_members_of(replay, place);
	const uint64_t generation = generation_of(port);
	struct twin_block *block = &replay->blocks[place];
	struct burst attempt;
	struct twin_sets sets;
	uint64_t mine, all, left, aside;
	uint32_t number;

	/* Once, not in a loop: rules may change all the time. */
	if (unlikely(twin_is_old(block, generation)))
		twin_store_classify(port, place, generation);
	for (;;) {
		number = rte_seqlock_read_begin(&block->lock);
		attempt = *burst;
		sets = block->sets;
		mine = members[queue] & rxq->cursor.ahead;
		all = (mine & sets.elsewhere) != 0 ? 0 : mine & ~twin_aside(&sets);
		left = receive(rxq, &attempt, packets, all);
		if (likely(!rte_seqlock_read_retry(&block->lock, number)))
			break;
		take_back(burst->mbufs + burst->got, attempt.got - burst->got);
	}
	if (unlikely((mine & sets.elsewhere) != 0))
		return forward_first(rxq, burst, sets, mine);
	*burst = attempt;
	if (unlikely((all & ~left & sets.counted) != 0))
		count(port, packets, all & ~left & sets.counted);
	aside = mine & ~all;
	/* Only packets before the first one left: rules may change before the rest is played. */
	if (left != 0)
		aside &= ~(UINT64_MAX << __builtin_ctzll(left));
	if (unlikely(aside != 0))
		burst->wire -= pass_unreceived(rxq, place, sets, aside);
	return left;
}

/* Plays packets of the current block. At its end, moves to the next block and returns true. */
static inline bool
play(struct twin_rxq *rxq, struct burst *burst)
{
	const struct twin_replay *replay = rxq->port->replay;
	struct twin_cursor *cursor = &rxq->cursor;
	uint64_t left;

	if (replay->queues > 1 && cursor->ahead == UINT64_MAX)
		fetch(replay, cursor->block, rxq - rxq->port->rxq);
	left = receive_judged(rxq, burst, twin_packets_of(replay, cursor->block));
	if (left != 0) {
		cursor->ahead &= UINT64_MAX << __builtin_ctzll(left);
		return false;
	}
	cursor->ahead = UINT64_MAX;
	cursor->block++;
	if (unlikely(cursor->block == replay->block_count)) {
		cursor->block = 0;
		cursor->passes--;
	}
	return true;
}

/* Takes up to `count` mbufs; halves the number until the pool has as many. */
static inline uint16_t
take_mbufs(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t count)
{
	for (; count != 0; count /= 2) {
		if (likely(rte_mempool_get_bulk(pool, (void **)mbufs, count) == 0))
			break;
	}
	return count;
}

static uint16_t
rx(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_rxq *rxq = queue;
	struct twin_pace *pace = &rxq->port->pace;
	struct burst burst = { .mbufs = packets };
	int64_t time;
	uint16_t blocks = 0;

	/* Packets that rules of other ports send here come first. */
	if (unlikely(rxq->port->eswitch != NULL && !rte_ring_empty(rxq->ring)))
		return twin_rx(queue, packets, count);
	if (unlikely(rxq->cursor.passes == 0))
		return 0;
	time = burst.wire = twin_pace_claim(pace);
	if (time == 0)
		return 0;
	burst.room = take_mbufs(rxq->pool, packets, count);
	if (unlikely(burst.room == 0)) {
		twin_pace_use(pace, time, 0);
		rxq->port->dev->data->rx_mbuf_alloc_failed += count;
		return 0;
	}
	while (burst.got < burst.room && rxq->cursor.passes != 0 && blocks++ < BLOCKS_PER_CALL) {
		if (!play(rxq, &burst))
			break;
	}
	twin_pace_use(pace, time, time - burst.wire);
	rxq->packets += burst.got;
	rxq->bytes += burst.bytes;
	if (unlikely(burst.got < burst.room))
		give_back(rxq, &burst);
	return burst.got;
}

const struct twin_source twin_replay_source = {
	.start = start,
	.stop = stop,
	.close = twin_store_free,
	.rx = rx,
	.tx = twin_tx_swallow,
	.carry = twin_carry_swallow,
};
