/* SPDX-License-Identifier: BSD-3-Clause */
/* What template tables (twin_template.c) and flow queues (twin_async.c) know of each other. */
#ifndef TWIN_ASYNC_H
#define TWIN_ASYNC_H

#include <sys/queue.h>

#include <rte_flow_driver.h>
#include <rte_spinlock.h>

#include "twin.h"

/* Operations that a flow queue holds at most. */
#define TWIN_FLOW_OPS_MAX 4096
/* In the handles of rules that were made through a queue, and in none of the model's. */
#define TWIN_ASYNC_HANDLE 0x80000000u
#define TWIN_NO_SLOT UINT32_MAX

/* What templates of both kinds begin with. */
struct twin_template {
	LIST_ENTRY(twin_template) entry;
	uint32_t directions; /* of TWIN_INGRESS and so on */
	uint32_t users; /* tables */
	void *blocks[2]; /* memory that goes with it */
};

/* Items and actions are as the application gave them, in memory of ours. */
struct rte_flow_pattern_template {
	struct twin_template head;
	bool is_relaxed;
	const struct rte_flow_item *items;
};

struct rte_flow_actions_template {
	struct twin_template head;
	const struct rte_flow_action *actions;
	const struct rte_flow_action *masks;
};

struct rte_flow_template_table {
	LIST_ENTRY(rte_flow_template_table) entry;
	struct rte_flow_template_table_attr attr;
	uint32_t used; /* rules, those on their way included; under the lock */
	uint8_t pattern_count;
	uint8_t actions_count;
	struct rte_flow_pattern_template *patterns[UINT8_MAX];
	struct rte_flow_actions_template *actions[UINT8_MAX];
};

/* A rule that was made through a queue, from then on when it was asked for. */
struct twin_slot {
	struct rte_flow_template_table *table; /* NULL: of no rule */
	uint64_t rule; /* the model's handle; 0: not made yet */
	uint32_t generation;
	uint32_t queue;
	uint32_t next_free;
	bool is_leaving; /* it is asked to go */
};

struct twin_async {
	/* Of one thread at a time, as the programmer's guide asks of templates and tables. */
	LIST_HEAD(, twin_template) templates;
	LIST_HEAD(, rte_flow_template_table) tables;
	struct twin_flow_queue *queues;
	uint16_t queue_count;
	bool has_strays; /* slots may be of rules that are gone */
	rte_spinlock_t lock; /* of all below */
	struct twin_slot *slots;
	uint32_t slot_count;
	uint32_t free_slot;
};

static inline struct twin_async *
twin_async_of(const struct rte_eth_dev *dev)
{
	return ((struct twin_port *)dev->data->dev_private)->async;
}

/* twin_async.c: rules of a table, those on their way included. */
uint32_t twin_async_used(struct twin_port *port, const struct rte_flow_template_table *table);

/* twin_indirect.c */
void twin_indirect_ops(struct rte_flow_ops *ops);

/* twin_template.c */
void twin_template_ops(struct rte_flow_ops *ops);
void twin_template_free_all(struct twin_async *async);
/* A whole rule, in memory to be freed; NULL where it is not of these templates. */
struct rte_flow_conv_rule *twin_table_fill(const struct rte_flow_template_table *table,
					   const struct rte_flow_item pattern[],
					   uint8_t pattern_template,
					   const struct rte_flow_action actions[],
					   uint8_t actions_template, struct rte_flow_error *error);

#endif
