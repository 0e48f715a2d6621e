/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Defines how a port stores a capture. The packets are in memory, in blocks, and classified ahead.
 *
 * A thread that changes an exact rule writes new marks into the packets that it matches, and
 * receivers do not notice. If more than the mark changes, the verdict is marked as old. Verdicts of
 * an older generation of rules are old too. A queue that reaches a block classifies its old packets
 * again, so a rule holds for every packet received after the call.
 */
#ifndef TWIN_REPLAY_H
#define TWIN_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include <rte_mbuf.h>
#include <rte_seqlock.h>

#include "twin.h"

/* Frames begin at multiples of this, because rte_mov64 copies so many bytes. */
#define TWIN_LINE 64
/* Packets of a block, so that a set of them is one word. */
#define TWIN_BLOCK 64

/* Mark and flags of a packet, in one word that any thread reads and writes atomically. */
union twin_mark {
	struct {
		uint32_t value;
		uint32_t flags; /* all flags of the mbuf, with those of the mark */
	};
	uint64_t word;
};

/* A packet: fields of the mbuf in their order, and the place of its bytes. */
struct twin_packet {
	uint32_t packet_type;
	uint32_t pkt_len;
	uint16_t data_len;
	uint16_t vlan_tci;
	uint32_t hash; /* RSS hash; the target if the packet goes to another port */
	union twin_mark mark;
	uint32_t line;
	uint32_t counter;
};

static_assert(sizeof(struct twin_packet) == 32, "two to a cache line");
static_assert(offsetof(struct twin_packet, mark) ==
	      offsetof(struct rte_mbuf, hash.fdir.hi) -
	      offsetof(struct rte_mbuf, rx_descriptor_fields1),
	      "the order of fields in an mbuf");

/* Sets of packets of a block, as bits. */
struct twin_sets {
	uint64_t counted; /* counted by rules */
	uint64_t dropped; /* dropped by rules */
	uint64_t lost; /* for queues that do not exist */
	uint64_t elsewhere; /* sent to other ports */
};

/* Returns the packets that no queue receives. */
static inline uint64_t
twin_aside(const struct twin_sets *sets)
{
	return sets->dropped | sets->lost | sets->elsewhere;
}

/* A block. Queues read verdicts without a write, and once more if they changed meanwhile. */
struct twin_block {
	rte_seqlock_t lock;
	uint64_t generation;
	uint64_t old; /* packets with old verdicts, in this generation; changes add bits */
	struct twin_sets sets;
	uint32_t count;
} __rte_aligned(TWIN_LINE);

static_assert(sizeof(struct twin_block) == TWIN_LINE, "one cache line for each block");

struct twin_replay {
	uint32_t count;
	uint32_t block_count;
	uint64_t loops;
	uint8_t *frames;
	struct twin_packet *packets;
	struct twin_block *blocks;
	/* Packets that each queue plays in each block, as bits. */
	uint64_t *members;
	uint16_t queues;
	const uint64_t *generation;
	const uint64_t *change_us; /* time at which twin_nic_settle is due; 0: never */
};

/* Returns the packets of a block. */
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
 * True if packets of a block have to be classified again. If false, verdicts read afterwards are
 * those of the generation, or of a later one.
 */
static inline bool
twin_is_old(const struct twin_block *block, uint64_t generation)
{
	return __atomic_load_n(&block->generation, __ATOMIC_ACQUIRE) < generation ||
	       __atomic_load_n(&block->old, __ATOMIC_ACQUIRE) != 0;
}

/* Returns the sets of a block, one for each queue; those of the next block follow. */
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
