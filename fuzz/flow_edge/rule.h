/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules as programs hand them over: every structure in a heap buffer of exactly its size, so that
 * whoever reads more is seen. Some make sense, most only nearly.
 */
#ifndef RULE_H
#define RULE_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_flow.h>

#include "frame.h"

/* More than any driver takes. */
#define ENTRIES_MAX 40
#define BUFFERS_MAX (6 * ENTRIES_MAX + 3)

struct rule {
	struct rte_flow_attr *attr;
	struct rte_flow_item *items;
	struct rte_flow_action *actions;
	bool marks;
	uint32_t mark; /* the last one */
	void *buffers[BUFFERS_MAX];
	uint32_t buffer_count;
};

/* Often one that this frame matches. */
void rule_draw(struct rule *rule, const struct frame *frame, uint16_t queues);
void rule_free(struct rule *rule);
/* To be freed. */
void *exactly(size_t size);

#endif
