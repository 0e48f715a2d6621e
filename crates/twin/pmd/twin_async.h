/* SPDX-License-Identifier: BSD-3-Clause */
/* Structures that template tables (twin_template.c) and flow queues (twin_async.c) share. */
#ifndef TWIN_ASYNC_H
#define TWIN_ASYNC_H

#include <sys/queue.h>

#include <rte_flow_driver.h>
#include <rte_spinlock.h>

#include "twin.h"

/* Maximum number of operations in a flow queue. */
#define TWIN_FLOW_OPS_MAX 4096
/* Set in the handles of rules of a queue, and in no handle of the model. */
#define TWIN_ASYNC_HANDLE 0x80000000u
#define TWIN_NO_SLOT UINT32_MAX

/* Common head of both kinds of templates. */
struct twin_template {
	LIST_ENTRY(twin_template) entry;
	uint32_t directions; /* TWIN_INGRESS, TWIN_EGRESS, TWIN_TRANSFER */
	uint32_t users; /* number of tables that use it */
	void *blocks[2]; /* memory to free with it */
};

/* Items and actions are copies of those that the application gave. */
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
	uint32_t used; /* number of rules, pending ones included; under the lock */
	uint8_t pattern_count;
	uint8_t actions_count;
	struct rte_flow_pattern_template *patterns[UINT8_MAX];
	struct rte_flow_actions_template *actions[UINT8_MAX];
};

/* A rule of a queue, from the operation that creates it until it is destroyed. */
struct twin_slot {
	struct rte_flow_template_table *table; /* NULL: the slot is free */
	uint64_t rule; /* the model's handle; 0: not created yet */
	uint32_t generation;
	uint32_t queue;
	uint32_t next_free;
	bool is_leaving; /* its destroy operation is queued */
};

struct twin_async {
	/* Used by one thread at a time, as the programmer's guide of DPDK requires. */
	LIST_HEAD(, twin_template) templates;
	LIST_HEAD(, rte_flow_template_table) tables;
	struct twin_flow_queue *queues;
	uint16_t queue_count;
	bool has_strays; /* slots may belong to rules that no longer exist */
	rte_spinlock_t lock; /* protects all members below */
	struct twin_slot *slots;
	uint32_t slot_count;
	uint32_t free_slot;
};

static inline struct twin_async *
twin_async_of(const struct rte_eth_dev *dev)
{
	return ((struct twin_port *)dev->data->dev_private)->async;
}

/* twin_async.c: returns the number of rules of a table, pending ones included. */
uint32_t twin_async_used(struct twin_port *port, const struct rte_flow_template_table *table);

/* twin_indirect.c */
void twin_indirect_ops(struct rte_flow_ops *ops);

/* twin_template.c */
void twin_template_ops(struct rte_flow_ops *ops);
void twin_template_free_all(struct twin_async *async);
/* Returns a whole rule, to be freed; NULL and the error if the templates do not fit. */
struct rte_flow_conv_rule *twin_table_fill(const struct rte_flow_template_table *table,
					   const struct rte_flow_item pattern[],
					   uint8_t pattern_template,
					   const struct rte_flow_action actions[],
					   uint8_t actions_template, struct rte_flow_error *error);

#endif
