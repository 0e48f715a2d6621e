/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores a capture in memory, and has the model classify its packets ahead. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_cycles.h>
#include <rte_prefetch.h>

#include "twin_mbuf.h"
#include "twin_replay.h"

/* Distance of prefetches, in packets. */
#define AHEAD 16

/* Returns memory of zeros, in huge pages if it is large and there are some. */
static void *
reserve(size_t bytes)
{
	const size_t huge = 2 << 20;
	const size_t page = bytes < huge ? TWIN_LINE : huge;
	const size_t len = RTE_ALIGN_CEIL(RTE_MAX(bytes, 1u), page);
	void *memory = aligned_alloc(page, len);

	if (memory == NULL)
		return NULL;
	if (page == huge)
		(void)madvise(memory, len, MADV_HUGEPAGE);
	return memset(memory, 0, len);
}

void
twin_store_free(struct twin_port *port)
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
	return RTE_MAX((frame->len + TWIN_LINE - 1) / TWIN_LINE, 1u);
}

/* Copies the frames of a capture into blocks; -ENOMEM if there is no memory. */
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
	replay->block_count = (replay->count + TWIN_BLOCK - 1) / TWIN_BLOCK;
	replay->packets = reserve(replay->count * sizeof(struct twin_packet));
	replay->blocks = reserve(replay->block_count * sizeof(struct twin_block));
	replay->frames = lines <= UINT32_MAX ? reserve(lines * TWIN_LINE) : NULL;
	if (replay->packets == NULL || replay->blocks == NULL || replay->frames == NULL)
		return -ENOMEM;
	for (i = 0, lines = 0; i < replay->count; i++) {
		twin_capture_frame(capture, i, &frame);
		memcpy(replay->frames + lines * TWIN_LINE, frame.bytes, frame.len);
		replay->packets[i].pkt_len = frame.len;
		replay->packets[i].data_len = frame.len;
		replay->packets[i].line = lines;
		replay->blocks[i / TWIN_BLOCK].count++;
		lines += lines_of(&frame);
	}
	return 0;
}

static union twin_mark
mark_of(const struct twin_verdict *verdict)
{
	return (union twin_mark){ { verdict->mark, twin_offload_flags(verdict) } };
}

static void
remember(struct twin_packet *packet, const struct twin_verdict *verdict)
{
	packet->packet_type = twin_packet_type(verdict);
	packet->hash = twin_is_elsewhere(verdict) ? twin_target(verdict) : verdict->hash;
	twin_set_mark(packet, mark_of(verdict));
	packet->counter = verdict->counter;
}

/*
 * Assigns a packet to the queue that plays it: the receiver. A packet without a receiver stays with
 * its queue, so that it keeps its place in its connection; new ones go to queue 0.
 */
static void
assign(uint64_t *members, uint16_t queues, uint64_t bit, const uint16_t *receiver)
{
	uint64_t had = 0;
	uint16_t i;

	for (i = 0; i < queues; i++)
		had |= members[i] & bit;
	if (receiver == NULL) {
		if (queues != 0)
			members[0] |= bit & ~had;
		return;
	}
	for (i = 0; i < queues && had != 0; i++)
		members[i] &= ~bit;
	members[*receiver] |= bit;
}

/* Stores the verdicts of packets of a block; `verdict` is the first of an array. */
static void
remember_all(struct twin_replay *replay, uint32_t place, uint64_t which,
	     const struct twin_verdict *verdict)
{
	struct twin_sets *sets = &replay->blocks[place].sets;
	struct twin_packet *packets = twin_packets_of(replay, place);
	uint64_t *members = twin_members_of(replay, place);

	sets->counted &= ~which;
	sets->dropped &= ~which;
	sets->lost &= ~which;
	sets->elsewhere &= ~which;
	for (; which != 0; which &= which - 1, verdict++) {
		const uint64_t bit = which & -which;
		const uint16_t *receiver = NULL;

		remember(&packets[__builtin_ctzll(which)], verdict);
		if (verdict->counter != 0)
			sets->counted |= bit;
		if (verdict->flags & TWIN_DROPPED)
			sets->dropped |= bit;
		else if (twin_is_elsewhere(verdict))
			sets->elsewhere |= bit;
		else if (verdict->queue >= replay->queues)
			sets->lost |= bit;
		else
			receiver = &verdict->queue;
		assign(members, replay->queues, bit, receiver);
	}
}

/*
 * Returns the packets of a block with old verdicts, and clears their bits before the model
 * classifies. A bit set later stands for a change that the new verdicts may lack, so it stays.
 */
static uint64_t
take_old(struct twin_block *block, uint64_t generation)
{
	uint64_t old = __atomic_exchange_n(&block->old, 0, __ATOMIC_ACQ_REL);

	if (block->generation >= generation)
		return old;
	__atomic_store_n(&block->generation, generation, __ATOMIC_RELEASE);
	return UINT64_MAX >> (TWIN_BLOCK - block->count);
}

/* Classifies packets of a block with old verdicts, unless another thread has just done so. */
void
twin_store_classify(struct twin_port *port, uint32_t place, uint64_t generation)
{
	struct twin_replay *replay = port->replay;
	struct twin_block *block = &replay->blocks[place];
	const struct twin_packet *packets = twin_packets_of(replay, place);
	struct twin_frame frames[TWIN_BLOCK];
	struct twin_verdict verdicts[TWIN_BLOCK];
	uint64_t begin = rte_rdtsc(), old, left;
	uint32_t n = 0;

	rte_seqlock_write_lock(&block->lock);
	/* An update that does not see the lock has written its marks before these verdicts. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	old = take_old(block, generation);
	for (left = old; left != 0; left &= left - 1)
		frames[n++] = twin_frame_of(replay, &packets[__builtin_ctzll(left)]);
	twin_nic_foresee(port->nic, frames, n, twin_now_us(), verdicts);
	remember_all(replay, place, old, verdicts);
	rte_seqlock_write_unlock(&block->lock);
	twin_add(&port->model_packets, n);
	twin_add(&port->model_cycles, rte_rdtsc() - begin);
}

/*
 * Gives a packet the mark of a verdict. False if its own verdict differs in more than the mark, or
 * is not known.
 */
static bool
take_mark(struct twin_replay *replay, uint32_t number, const struct twin_verdict *verdict)
{
	struct twin_packet *packet = &replay->packets[number];
	const struct twin_block *block = &replay->blocks[number / TWIN_BLOCK];
	const uint64_t *members = twin_members_of(replay, number / TWIN_BLOCK);
	const uint64_t bit = RTE_BIT64(number % TWIN_BLOCK);
	const uint32_t marked = RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
	const union twin_mark own = twin_mark_of(packet);
	union twin_mark mark = mark_of(verdict);

	if (packet->packet_type != twin_packet_type(verdict) || packet->hash != verdict->hash ||
	    packet->counter != verdict->counter ||
	    ((own.flags ^ mark.flags) & RTE_MBUF_F_RX_RSS_HASH) != 0 ||
	    (members[verdict->queue] & ~twin_aside(&block->sets) & bit) == 0)
		return false;
	mark.flags = (mark.flags & marked) | (own.flags & ~marked);
	twin_set_mark(packet, mark);
	return true;
}

/*
 * Gives packets of a block the mark of `verdict`, which may be NULL. Packets for which that is not
 * enough become old; if another thread writes verdicts of the block meanwhile, all of them do.
 */
static void
update_block(struct twin_replay *replay, const uint32_t *packets, uint32_t count,
	     const struct twin_verdict *verdict)
{
	struct twin_block *block = &replay->blocks[packets[0] / TWIN_BLOCK];
	const uint32_t number = rte_seqlock_read_begin(&block->lock);
	/*
	 * Packets that are old already may move to another queue, and must not get the mark before
	 * that. If a thread has taken their bits since `number`, is_busy is true.
	 */
	const uint64_t stale = __atomic_load_n(&block->old, __ATOMIC_ACQUIRE);
	const bool is_busy = rte_seqlock_read_retry(&block->lock, number);
	uint64_t all = 0, old = 0;
	uint32_t i;

	for (i = 0; i < count; i++) {
		const uint64_t bit = RTE_BIT64(packets[i] % TWIN_BLOCK);

		all |= bit;
		if (verdict == NULL || is_busy || (stale & bit) != 0 ||
		    !take_mark(replay, packets[i], verdict))
			old |= bit;
	}
	/* Marks before the check: a thread that takes the lock later overwrites them. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (rte_seqlock_read_retry(&block->lock, number))
		old = all;
	/* Release: a thread that takes the bits sees the changed rules. */
	if (old != 0)
		__atomic_fetch_or(&block->old, old, __ATOMIC_RELEASE);
}

/* Prefetches the memory that take_mark needs. */
static void
fetch(const struct twin_replay *replay, uint32_t number)
{
	rte_prefetch0(&replay->packets[number]);
	rte_prefetch0(&replay->blocks[number / TWIN_BLOCK]);
	rte_prefetch0(twin_members_of(replay, number / TWIN_BLOCK));
}

/*
 * Updates verdicts after a change of an exact rule; see twin_update. Receivers never wait for it.
 * Packets that are alike, as most of a connection are, get a new mark from one verdict.
 */
static void
update(void *context, const uint32_t *packets, uint32_t count, bool are_alike)
{
	struct twin_port *port = context;
	struct twin_replay *replay = port->replay;
	struct twin_verdict verdict;
	uint64_t since = rte_rdtsc();
	uint32_t begin, end, ahead = 0;
	bool is_known = false;

	rte_spinlock_lock(&port->changing);
	if (are_alike && count != 0 && replay->queues != 0) {
		struct twin_frame frame = twin_frame_of(replay, &replay->packets[packets[0]]);

		twin_nic_foresee(port->nic, &frame, 1, twin_now_us(), &verdict);
		twin_add(&port->model_packets, 1);
		is_known = (verdict.flags & TWIN_DROPPED) == 0 && !twin_is_elsewhere(&verdict) &&
			   verdict.queue < replay->queues;
	}
	for (begin = 0; begin < count; begin = end) {
		for (; ahead < count && ahead < begin + AHEAD; ahead++)
			fetch(replay, packets[ahead]);
		for (end = begin + 1; end < count; end++)
			if (packets[end] / TWIN_BLOCK != packets[begin] / TWIN_BLOCK)
				break;
		update_block(replay, packets + begin, end - begin, is_known ? &verdict : NULL);
	}
	rte_spinlock_unlock(&port->changing);
	twin_add(&port->model_cycles, rte_rdtsc() - since);
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
	if (ret == 0)
		twin_nic_follow(port->nic, capture, update, port);
	twin_capture_free(capture);
	if (ret != 0)
		TWIN_LOG(ERR, "replay=%s: not enough memory for its packets\n", args->replay);
	return ret;
}

/* Allocates the sets of packets for the current queues. */
static int
set_queues(struct twin_port *port)
{
	struct twin_replay *replay = port->replay;
	const uint16_t queues = port->dev->data->nb_rx_queues;
	uint64_t *members = calloc((size_t)replay->block_count * queues, sizeof(uint64_t)), *before;

	if (members == NULL && queues != 0)
		return -ENOMEM;
	rte_spinlock_lock(&port->changing);
	before = replay->members;
	replay->members = members;
	replay->queues = queues;
	rte_spinlock_unlock(&port->changing);
	free(before);
	return 0;
}

/* Classifies all packets, for the current queues. */
int
twin_store_prepare(struct twin_port *port)
{
	struct twin_replay *replay = port->replay;
	uint64_t generation = __atomic_load_n(replay->generation, __ATOMIC_ACQUIRE);
	int ret = set_queues(port);
	uint32_t i;

	if (ret != 0)
		return ret;
	for (i = 0; i < replay->block_count; i++) {
		replay->blocks[i].generation = 0;
		twin_store_classify(port, i, generation);
	}
	return 0;
}
