/* SPDX-License-Identifier: BSD-3-Clause */
/* One end of the wire: a twin port, and what it was told. */
#ifndef END_H
#define END_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_flow.h>
#include <rte_mempool.h>

#include "rule.h"

#define TAKEN_MAX 256
#define GONE_MAX 64

/* A rule that the port took. */
struct taken {
	struct rte_flow *flow;
	bool marks;
	uint32_t mark;
	bool may_be_gone; /* the port was stopped, and some NICs forget then */
};

struct end {
	char name[32];
	char devargs[256];
	uint16_t id;
	uint16_t queues; /* of each direction */
	bool is_started;
	struct taken taken[TAKEN_MAX];
	uint32_t taken_count;
	/* Handles of rules that are no more. */
	struct rte_flow *gone[GONE_MAX];
	uint32_t gone_count;
};

struct effort {
	uint64_t tried;
	uint64_t taken;
	uint64_t sent;
	uint64_t received;
	uint64_t marked;
	uint64_t switched;
	uint64_t ports;
};

extern struct effort effort;

/* Says what is wrong, and ends. */
__rte_noreturn void wrong(const char *format, ...) __rte_format_printf(1, 2);

/* By its name and its devargs; the port is there and started. */
void end_open(struct end *end, struct rte_mempool *pool);
void end_close(struct end *end);
/* Queues and RSS of other kinds; the rules stay, or go, as the NIC likes. */
void end_configure(struct end *end, struct rte_mempool *pool);
void end_start(struct end *end);
void end_stop(struct end *end);
/* Calls that change nothing that lasts, or of which the port knows what is right. */
void end_ask(struct end *end);

void end_create(struct end *end, const struct rule *rule);
void end_destroy(struct end *end);
void end_destroy_none(struct end *end, const struct end *other);
void end_query(struct end *end);
void end_flush(struct end *end);
bool end_gives(const struct end *end, uint32_t mark);

#endif
