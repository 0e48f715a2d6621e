/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replay: a capture is the cable. Its packets lie in memory, classified ahead in blocks; receiving
 * copies a packet and what the NIC says of it into an mbuf. Every queue plays its own packets at
 * its own pace.
 *
 * A block whose verdicts are of an older generation of rules is classified anew when a queue comes
 * to it, so that a rule costs nothing when it is made, and holds for every packet that is received
 * afterwards.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_cycles.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>
#include <rte_spinlock.h>

#include "twin_mbuf.h"

/* Frames begin at cache lines. */
#define LINE RTE_CACHE_LINE_SIZE
/* Packets of a block: bits of a word. */
#define BLOCK 64
/* Blocks without packets for a queue that one call passes. */
#define BLOCKS_PER_CALL 64
/* Packets whose frames are on their way into the cache. */
#define AHEAD 16

/* A packet: what goes into the mbuf in the order of its fields, and where its bytes are. */
struct packet {
	uint32_t packet_type;
	uint32_t pkt_len;
	uint16_t data_len;
	uint16_t vlan_tci;
	uint32_t hash;
	uint32_t mark;
	uint32_t flags;
	uint32_t line;
	uint32_t counter;
};

static_assert(sizeof(struct packet) == 32, "two to a cache line");
static_assert(offsetof(struct rte_mbuf, hash.fdir.hi) -
	      offsetof(struct rte_mbuf, rx_descriptor_fields1) == offsetof(struct packet, mark),
	      "the order of fields in an mbuf");

/* What is known of the packets of a block; sets of them are bits. */
struct block {
	uint64_t generation;
	uint64_t counted; /* by rules */
	uint64_t dropped; /* by rules */
	uint64_t lost; /* their queue is not there */
	rte_spinlock_t lock; /* where there is more than one queue */
	uint32_t count;
};

struct twin_replay {
	uint32_t count;
	uint32_t block_count;
	uint64_t loops;
	uint8_t *frames;
	struct packet *packets;
	struct block *blocks;
	/* The packets of each queue in each block; while the port is started. */
	uint64_t *members;
	uint16_t queues;
	const uint64_t *generation;
	const uint64_t *change_us; /* when the next one begins by itself */
};

/* Zeros; in huge pages, where they are large and there are any. */
static void *
reserve(size_t bytes)
{
	const size_t huge = 2 << 20;
	const size_t page = bytes < huge ? LINE : huge;
	const size_t len = RTE_ALIGN_CEIL(RTE_MAX(bytes, 1u), page);
	void *memory = aligned_alloc(page, len);

	if (memory == NULL)
		return NULL;
	if (page == huge)
		(void)madvise(memory, len, MADV_HUGEPAGE);
	return memset(memory, 0, len);
}

static void
forget(struct twin_port *port)
{
	struct twin_replay *replay = port->replay;

	if (replay == NULL)
		return;
	free(replay->frames);
	free(replay->packets);
	free(replay->blocks);
	free(replay->members);
	free(replay);
	port->replay = NULL;
}

static uint32_t
lines_of(const struct twin_frame *frame)
{
	return RTE_MAX((frame->len + LINE - 1) / LINE, 1u);
}

/* Lays the frames out; -ENOMEM. */
static int
store(struct twin_replay *replay, const struct twin_capture *capture)
{
	struct twin_frame frame;
	uint64_t lines = 0;
	uint32_t i;

	for (i = 0; i < replay->count; i++) {
		twin_capture_frame(capture, i, &frame);
		lines += lines_of(&frame);
	}
	replay->block_count = (replay->count + BLOCK - 1) / BLOCK;
	replay->packets = reserve(replay->count * sizeof(struct packet));
	replay->blocks = reserve(replay->block_count * sizeof(struct block));
	replay->frames = lines <= UINT32_MAX ? reserve(lines * LINE) : NULL;
	if (replay->packets == NULL || replay->blocks == NULL || replay->frames == NULL)
		return -ENOMEM;
	for (i = 0, lines = 0; i < replay->count; i++) {
		twin_capture_frame(capture, i, &frame);
		memcpy(replay->frames + lines * LINE, frame.bytes, frame.len);
		replay->packets[i].pkt_len = frame.len;
		replay->packets[i].data_len = frame.len;
		replay->packets[i].line = lines;
		replay->blocks[i / BLOCK].count++;
		lines += lines_of(&frame);
	}
	return 0;
}

int
twin_replay_open(struct twin_port *port, const struct twin_args *args)
{
	struct twin_capture *capture;
	char why[256];
	int ret;

	capture = twin_capture_read(args->replay, why, sizeof(why));
	if (capture == NULL) {
		TWIN_LOG(ERR, "replay=%s: the file %s\n", args->replay, why);
		return -EINVAL;
	}
	if (twin_capture_count(capture) > UINT32_MAX) {
		TWIN_LOG(ERR, "replay=%s: more than %u packets\n", args->replay, UINT32_MAX);
		twin_capture_free(capture);
		return -EINVAL;
	}
	port->replay = calloc(1, sizeof(*port->replay));
	if (port->replay == NULL) {
		twin_capture_free(capture);
		return -ENOMEM;
	}
	port->replay->count = twin_capture_count(capture);
	port->replay->loops = args->loops;
	port->replay->generation = twin_nic_generation(port->nic);
	port->replay->change_us = twin_nic_change_us(port->nic);
	ret = store(port->replay, capture);
	twin_capture_free(capture);
	if (ret != 0)
		TWIN_LOG(ERR, "replay=%s: not enough memory for its packets\n", args->replay);
	return ret;
}

static void
remember(struct packet *packet, const struct twin_verdict *verdict)
{
	packet->packet_type = twin_packet_type(verdict);
	packet->hash = verdict->hash;
	packet->mark = verdict->mark;
	packet->flags = twin_offload_flags(verdict);
	packet->counter = verdict->counter;
}

static void
classify(struct twin_port *port, uint32_t place, uint64_t generation)
{
	struct twin_replay *replay = port->replay;
	struct block *block = &replay->blocks[place];
	struct packet *packets = &replay->packets[(size_t)place * BLOCK];
	uint64_t *members = &replay->members[(size_t)place * replay->queues];
	struct twin_frame frames[BLOCK];
	struct twin_verdict verdicts[BLOCK];
	uint64_t begin = rte_rdtsc();
	uint32_t i;

	for (i = 0; i < block->count; i++) {
		frames[i].bytes = replay->frames + (size_t)packets[i].line * LINE;
		frames[i].len = packets[i].pkt_len;
		frames[i].frame_len = packets[i].pkt_len;
	}
	twin_nic_foresee(port->nic, frames, block->count, twin_now_us(), verdicts);
	block->counted = block->dropped = block->lost = 0;
	memset(members, 0, replay->queues * sizeof(*members));
	for (i = 0; i < block->count; i++) {
		remember(&packets[i], &verdicts[i]);
		if (verdicts[i].counter != 0)
			block->counted |= RTE_BIT64(i);
		if (verdicts[i].flags & TWIN_DROPPED)
			block->dropped |= RTE_BIT64(i);
		else if (verdicts[i].queue >= replay->queues)
			block->lost |= RTE_BIT64(i);
		else
			members[verdicts[i].queue] |= RTE_BIT64(i);
	}
	block->generation = generation;
	twin_add(&port->model_packets, block->count);
	twin_add(&port->model_cycles, rte_rdtsc() - begin);
}

/* From the first packet, as often as was asked for. */
static int
start(struct twin_port *port)
{
	struct twin_replay *replay = port->replay;
	uint64_t generation = __atomic_load_n(replay->generation, __ATOMIC_ACQUIRE);
	uint32_t i;

	replay->queues = port->dev->data->nb_rx_queues;
	replay->members = calloc((size_t)replay->block_count * replay->queues, sizeof(uint64_t));
	if (replay->members == NULL && replay->queues != 0)
		return -ENOMEM;
	for (i = 0; i < replay->block_count; i++)
		classify(port, i, generation);
	for (i = 0; i < replay->queues; i++)
		port->rxq[i].cursor = (struct twin_cursor){ 0, UINT64_MAX, replay->loops };
	twin_pace_start(&port->pace);
	twin_set_link(port, true);
	return 0;
}

static void
stop(struct twin_port *port)
{
	twin_set_link(port, false);
	free(port->replay->members);
	port->replay->members = NULL;
}

/* Counts packets of a block for the rules that they hit. */
static void
count(struct twin_port *port, const struct packet *packets, uint64_t which)
{
	struct twin_count counts[BLOCK];
	uint64_t begin = rte_rdtsc();
	uint32_t n = 0;

	for (; which != 0; which &= which - 1) {
		const struct packet *packet = &packets[__builtin_ctzll(which)];

		counts[n++] = (struct twin_count){ packet->counter, packet->pkt_len };
	}
	twin_nic_count(port->nic, counts, n, twin_now_us());
	twin_add(&port->model_cycles, rte_rdtsc() - begin);
}

/* What nobody receives is on the account of the first queue; returns its bytes on the wire. */
static int64_t
pass_unreceived(struct twin_port *port, const struct block *block, const struct packet *packets)
{
	uint64_t which = block->dropped | block->lost, left;
	int64_t bytes = 0;

	if (likely(which == 0))
		return 0;
	for (left = which; left != 0; left &= left - 1)
		bytes += twin_pace_bytes(packets[__builtin_ctzll(left)].pkt_len);
	twin_add(&port->rule_drops, __builtin_popcountll(block->dropped));
	twin_add(&port->no_queue, __builtin_popcountll(block->lost));
	if ((which & block->counted) != 0)
		count(port, packets, which & block->counted);
	return bytes;
}

/* The part of an mbuf that is the same for all packets of a port, in one word. */
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
fill(struct rte_mbuf *m, uint64_t rearm, const struct packet *packet)
{
	memcpy(&m->rearm_data, &rearm, sizeof(rearm));
	m->ol_flags = packet->flags;
	/* Up to the mark. */
	memcpy(m->rx_descriptor_fields1, packet, offsetof(struct packet, flags));
}

/* Copies a frame that fits into one mbuf, in whole cache lines: there is room for them. */
static inline void
copy(struct rte_mbuf *m, const uint8_t *from, int32_t len)
{
	uint8_t *to = (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM;

	do {
		rte_mov64(to, from);
		to += LINE;
		from += LINE;
		len -= LINE;
	} while (unlikely(len > 0));
}

/* Copies a frame into a chain, whose first mbuf is there. False where there are no more. */
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

/* A burst on its way into mbufs. */
struct burst {
	struct rte_mbuf **mbufs;
	uint16_t room;
	uint16_t got;
	int64_t wire; /* bytes of wire time that are left */
};

/* Receives packets of a block, as far as there are mbufs and time; returns the others. */
static inline uint64_t
receive(struct twin_rxq *rxq, struct burst *burst, const struct packet *packets, uint64_t which)
{
	const uint8_t *frames = rxq->port->replay->frames;
	const uint64_t rearm = rearm_word(rxq->port);
	int64_t wire = burst->wire;
	uint16_t got = burst->got, begin = got;
	uint64_t bytes = 0;

	for (; which != 0 && got < burst->room; which &= which - 1) {
		const struct packet *packet = &packets[__builtin_ctzll(which)];
		const uint8_t *frame = frames + (size_t)packet->line * LINE;
		struct rte_mbuf *m = burst->mbufs[got];

		if (unlikely(wire < twin_pace_bytes(packet->pkt_len)))
			break;
		wire -= twin_pace_bytes(packet->pkt_len);
		rte_prefetch0(frame + AHEAD * LINE);
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
	burst->got = got;
	rxq->packets += got - begin;
	rxq->bytes += bytes;
	return which;
}

/* The generation of rules that packets received now are of. */
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

/* Plays packets of the block that the queue is at. At its end it goes on, and says so. */
static inline bool
play(struct twin_rxq *rxq, struct burst *burst)
{
	struct twin_port *port = rxq->port;
	struct twin_replay *replay = port->replay;
	struct twin_cursor *cursor = &rxq->cursor;
	struct block *block = &replay->blocks[cursor->block];
	const struct packet *packets = &replay->packets[(size_t)cursor->block * BLOCK];
	const uint64_t *members = &replay->members[(size_t)cursor->block * replay->queues];
	uint64_t generation = generation_of(port);
	uint64_t all, left, counted;

	if (replay->queues > 1)
		rte_spinlock_lock(&block->lock);
	if (unlikely(block->generation != generation))
		classify(port, cursor->block, generation);
	all = members[rxq - port->rxq] & cursor->ahead;
	left = receive(rxq, burst, packets, all);
	counted = all & ~left & block->counted;
	if (unlikely(counted != 0))
		count(port, packets, counted);
	if (left == 0 && rxq == port->rxq)
		burst->wire -= pass_unreceived(port, block, packets);
	if (replay->queues > 1)
		rte_spinlock_unlock(&block->lock);
	if (left != 0) {
		cursor->ahead = UINT64_MAX << __builtin_ctzll(left);
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

static uint16_t
rx(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_rxq *rxq = queue;
	struct twin_pace *pace = &rxq->port->pace;
	struct burst burst = { .mbufs = packets, .room = count };
	int64_t time;
	uint16_t blocks = 0;

	if (unlikely(rxq->cursor.passes == 0))
		return 0;
	time = burst.wire = twin_pace_claim(pace);
	if (time == 0)
		return 0;
	if (unlikely(rte_mempool_get_bulk(rxq->pool, (void **)packets, count) != 0)) {
		twin_pace_use(pace, time, 0);
		rxq->port->dev->data->rx_mbuf_alloc_failed += count;
		return 0;
	}
	while (burst.got < count && rxq->cursor.passes != 0 && blocks++ < BLOCKS_PER_CALL) {
		if (!play(rxq, &burst))
			break;
	}
	twin_pace_use(pace, time, time - burst.wire);
	if (unlikely(burst.got < count))
		rte_mempool_put_bulk(rxq->pool, (void *const *)packets + burst.got,
				     count - burst.got);
	return burst.got;
}

const struct twin_source twin_replay_source = {
	.start = start,
	.stop = stop,
	.close = forget,
	.rx = rx,
	.tx = twin_tx_swallow,
};
