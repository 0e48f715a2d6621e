/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture as a port keeps it. Its packets lie in memory, classified ahead in blocks. Whoever
 * makes or destroys an exact rule that only gives or takes marks writes those to its packets, and
 * receiving does not notice. What else an exact rule changes is marked as old, and all is that is
 * of an older generation of rules: these verdicts are made anew when a queue comes to their block.
 * So a rule holds for every packet received afterwards.
 */
#ifndef TWIN_REPLAY_H
#define TWIN_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include <rte_mbuf.h>
#include <rte_seqlock.h>

#include "twin.h"

/* Frames begin at multiples of this: what rte_mov64 copies, whatever the cache has in a line. */
#define TWIN_LINE 64
/* Packets of a block: bits of a word. */
#define TWIN_BLOCK 64

/* What an exact rule changes: read and written at once, by any thread. */
union twin_mark {
	struct {
		uint32_t value;
		uint32_t flags; /* of the mbuf, those of the mark and all others */
	};
	uint64_t word;
};

/* A packet: what goes into the mbuf in the order of its fields, and where its bytes are. */
struct twin_packet {
	uint32_t packet_type;
	uint32_t pkt_len;
	uint16_t data_len;
	uint16_t vlan_tci;
	uint32_t hash; /* of those that go elsewhere, where to */
	union twin_mark mark;
	uint32_t line;
	uint32_t counter;
};

static_assert(sizeof(struct twin_packet) == 32, "two to a cache line");
static_assert(offsetof(struct twin_packet, mark) ==
	      offsetof(struct rte_mbuf, hash.fdir.hi) -
	      offsetof(struct rte_mbuf, rx_descriptor_fields1),
	      "the order of fields in an mbuf");

/* Packets of a block, as bits. */
struct twin_sets {
	uint64_t counted; /* by rules */
	uint64_t dropped; /* by rules */
	uint64_t lost; /* their queue is not there */
	uint64_t elsewhere; /* to other ports */
};

/* Those that nobody receives. */
static inline uint64_t
twin_aside(const struct twin_sets *sets)
{
	return sets->dropped | sets->lost | sets->elsewhere;
}

/* Queues read verdicts without writing anything, and again if they have changed meanwhile. */
struct twin_block {
	rte_seqlock_t lock;
	uint64_t generation;
	uint64_t old; /* packets of this generation whose verdicts are old; changes add to them */
	struct twin_sets sets;
	uint32_t count;
} __rte_aligned(TWIN_LINE);

static_assert(sizeof(struct twin_block) == TWIN_LINE, "a line tells all of a block");

struct twin_replay {
	uint32_t count;
	uint32_t block_count;
	uint64_t loops;
	uint8_t *frames;
	struct twin_packet *packets;
	struct twin_block *blocks;
	/* The packets that each queue comes by in each block; while the port is started. */
	uint64_t *members;
	uint16_t queues;
	const uint64_t *generation;
	const uint64_t *change_us; /* when the next one begins by itself */
};

/* Those of a block. */
static inline struct twin_packet *
twin_packets_of(const struct twin_replay *replay, uint32_t block)
{
	return &replay->packets[(size_t)block * TWIN_BLOCK];
}

static inline const uint8_t *
twin_bytes_of(const struct twin_replay *replay, const struct twin_packet *packet)
{
	return replay->frames + (size_t)packet->line * TWIN_LINE;
}

static inline struct twin_frame
twin_frame_of(const struct twin_replay *replay, const struct twin_packet *packet)
{
	return (struct twin_frame){
		.bytes = twin_bytes_of(replay, packet),
		.len = packet->pkt_len,
		.frame_len = packet->pkt_len,
	};
}

static inline union twin_mark
twin_mark_of(const struct twin_packet *packet)
{
	return (union twin_mark){ .word = __atomic_load_n(&packet->mark.word, __ATOMIC_RELAXED) };
}

static inline void
twin_set_mark(struct twin_packet *packet, union twin_mark mark)
{
	__atomic_store_n(&packet->mark.word, mark.word, __ATOMIC_RELAXED);
}

/*
 * Whether verdicts of a block have to be made anew. If not, who begins to read them behind this
 * reads those of the generation, or of a later one.
 */
static inline bool
twin_is_old(const struct twin_block *block, uint64_t generation)
{
	return __atomic_load_n(&block->generation, __ATOMIC_ACQUIRE) < generation ||
	       __atomic_load_n(&block->old, __ATOMIC_ACQUIRE) != 0;
}

/* Sets of a block, one for each queue; those of the next one follow. */
static inline uint64_t *
twin_members_of(const struct twin_replay *replay, uint32_t block)
{
	return &replay->members[(size_t)block * replay->queues];
}

/* twin_store.c */
void twin_store_free(struct twin_port *port);
int twin_store_prepare(struct twin_port *port);
void twin_store_classify(struct twin_port *port, uint32_t place, uint64_t generation);

#endif
