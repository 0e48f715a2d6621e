/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow queues of rte_flow: operations wait in a queue until they are pushed, their results until
 * they are pulled. Rules are made from template tables (twin_template.c).
 *
 * One thread at a time uses a queue, as rte_flow.h requires. All queues share the slots of rules.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_malloc.h>
#include <rte_version.h>

#include "twin_async.h"

/* Size of a queue if the application names none. */
#define OPS_USUAL 64
/* Since 24.03, the operations for each rule are in a structure of their own. */
#define HAS_FAST_OPS (RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0))

/* An operation; `rule` is NULL if it destroys a rule. */
struct op {
	struct rte_flow_conv_rule *rule;
	uint32_t slot;
	void *user_data;
	enum rte_flow_op_status status;
	uint64_t done_us;
};

/* Counts operations since the start; the place of an operation is its number modulo `size`. */
struct twin_flow_queue {
	struct op *ops;
	uint32_t size;
	uint64_t taken;
	uint64_t pushed;
	uint64_t pulled;
	uint64_t busy_until_us;
};

static int
refuse(struct rte_flow_error *error, int code, const char *message)
{
	return rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL, message);
}

/* ---- slots ------------------------------------------------------------------------------- */

/* Returns the handle of a rule: like one of the model, with a bit that those never have. */
static struct rte_flow *
handle_of(const struct twin_slot *slot, uint32_t place)
{
	return (struct rte_flow *)(uintptr_t)((uint64_t)slot->generation << 32 |
					      TWIN_ASYNC_HANDLE | (place + 1));
}

/* Returns the slot of a rule; NULL if it does not exist, or is being destroyed. Under the lock. */
static struct twin_slot *
slot_of(const struct twin_async *async, const struct rte_flow *flow)
{
	uint64_t handle = (uintptr_t)flow;
	uint32_t place = ((uint32_t)handle & ~TWIN_ASYNC_HANDLE) - 1;
	struct twin_slot *slot;

	if ((handle & TWIN_ASYNC_HANDLE) == 0 || place >= async->slot_count)
		return NULL;
	slot = &async->slots[place];
	return slot->table != NULL && !slot->is_leaving && slot->generation == handle >> 32 ?
		       slot :
		       NULL;
}

static void
free_slot(struct twin_async *async, struct twin_slot *slot)
{
	slot->table->used--;
	slot->table = NULL;
	slot->generation++;
	slot->next_free = async->free_slot;
	async->free_slot = slot - async->slots;
}

void
twin_async_note_strays(const struct twin_port *port)
{
	if (port->async != NULL)
		__atomic_store_n(&port->async->has_strays, true, __ATOMIC_RELEASE);
}

/* Frees slots of rules that ended without an operation of a queue. Under the lock. */
static void
sweep(struct twin_async *async, const struct twin_nic *nic)
{
	uint32_t i;

	if (!__atomic_exchange_n(&async->has_strays, false, __ATOMIC_ACQUIRE))
		return;
	for (i = 0; i < async->slot_count; i++) {
		struct twin_slot *slot = &async->slots[i];

		if (slot->table != NULL && slot->rule != 0 && !slot->is_leaving &&
		    !twin_flow_exists(nic, slot->rule))
			free_slot(async, slot);
	}
}

uint32_t
twin_async_used(struct twin_port *port, const struct rte_flow_template_table *table)
{
	struct twin_async *async = port->async;
	uint32_t used;

	rte_spinlock_lock(&async->lock);
	if (table->used != 0)
		sweep(async, port->nic);
	used = table->used;
	rte_spinlock_unlock(&async->lock);
	return used;
}

static int
add_slots(struct twin_async *async)
{
	uint32_t count = RTE_MAX(2 * async->slot_count, 64u), i;
	struct twin_slot *slots = realloc(async->slots, count * sizeof(*slots));

	if (slots == NULL)
		return -ENOMEM;
	for (i = async->slot_count; i < count; i++)
		slots[i] = (struct twin_slot){ .next_free = i + 1 };
	slots[count - 1].next_free = TWIN_NO_SLOT;
	async->free_slot = async->slot_count;
	async->slots = slots;
	async->slot_count = count;
	return 0;
}

/* Reserves a slot; returns its place, -ENOSPC or -ENOMEM. */
static int64_t
take_slot(struct twin_port *port, struct rte_flow_template_table *table, uint32_t queue)
{
	struct twin_async *async = port->async;
	int64_t place = -ENOSPC;
	struct twin_slot *slot;

	rte_spinlock_lock(&async->lock);
	if (table->used == table->attr.nb_flows)
		sweep(async, port->nic);
	if (table->used < table->attr.nb_flows) {
		place = async->free_slot == TWIN_NO_SLOT ? add_slots(async) : 0;
		if (place == 0) {
			place = async->free_slot;
			slot = &async->slots[place];
			async->free_slot = slot->next_free;
			slot->table = table;
			slot->queue = queue;
			slot->rule = 0;
			slot->is_leaving = false;
			table->used++;
		}
	}
	rte_spinlock_unlock(&async->lock);
	return place;
}

uint64_t
twin_async_rule(const struct rte_eth_dev *dev, const struct rte_flow *flow)
{
	struct twin_async *async = twin_async_of(dev);
	uint64_t rule = (uintptr_t)flow;
	const struct twin_slot *slot;

	if (async == NULL || (rule & TWIN_ASYNC_HANDLE) == 0)
		return rule;
	rte_spinlock_lock(&async->lock);
	slot = slot_of(async, flow);
	rule = slot != NULL ? slot->rule : 0;
	rte_spinlock_unlock(&async->lock);
	return rule;
}

/* ---- queues ------------------------------------------------------------------------------ */

static void
drop_queues(struct twin_async *async)
{
	uint16_t i;

	for (i = 0; i < async->queue_count; i++) {
		struct twin_flow_queue *queue = &async->queues[i];

		for (; queue->pushed != queue->taken; queue->pushed++)
			free(queue->ops[queue->pushed % queue->size].rule);
		free(queue->ops);
	}
	free(async->queues);
	async->queues = NULL;
	async->queue_count = 0;
}

static int
info_get(struct rte_eth_dev *dev __rte_unused, struct rte_flow_port_info *port,
	 struct rte_flow_queue_info *queue, struct rte_flow_error *error __rte_unused)
{
	/* The model limits the number of counters when a rule is created. */
	*port = (struct rte_flow_port_info){
		.max_nb_queues = TWIN_QUEUES_MAX,
		.max_nb_counters = INT32_MAX,
	};
	if (queue != NULL)
		queue->max_size = TWIN_FLOW_OPS_MAX;
	return 0;
}

static bool
is_in_use(const struct twin_async *async)
{
	uint16_t i;

	for (i = 0; i < async->queue_count; i++) {
		if (async->queues[i].taken != async->queues[i].pulled)
			return true;
	}
	return !LIST_EMPTY(&async->tables);
}

static int
configure(struct rte_eth_dev *dev, const struct rte_flow_port_attr *attr, uint16_t count,
	  const struct rte_flow_queue_attr *attrs[], struct rte_flow_error *error)
{
	struct twin_async *async = twin_async_of(dev);
	struct twin_flow_queue *queues;
	uint16_t i;

	if (is_in_use(async))
		return refuse(error, EBUSY, "tables or results of the configuration before");
	if (attr->nb_meters != 0 || attr->nb_conn_tracks != 0)
		return refuse(error, ENOTSUP, "there are no meters and no connection tracking");
	if (count == 0 || count > TWIN_QUEUES_MAX)
		return refuse(error, EINVAL, "there are 1 to 64 flow queues");
	for (i = 0; i < count; i++) {
		if (attrs[i] != NULL && attrs[i]->size > TWIN_FLOW_OPS_MAX)
			return refuse(error, EINVAL, "a flow queue holds at most 4096 operations");
	}
	queues = calloc(count, sizeof(*queues));
	if (queues == NULL)
		return refuse(error, ENOMEM, "no memory for flow queues");
	drop_queues(async);
	async->queues = queues;
	async->queue_count = count;
	for (i = 0; i < count; i++) {
		uint32_t size = attrs[i] != NULL && attrs[i]->size != 0 ? attrs[i]->size :
									  OPS_USUAL;

		queues[i].size = size;
		queues[i].ops = calloc(size, sizeof(struct op));
		if (queues[i].ops == NULL) {
			drop_queues(async);
			return refuse(error, ENOMEM, "no memory for flow queues");
		}
	}
	return 0;
}

static struct twin_flow_queue *
queue_of(const struct twin_async *async, uint32_t queue, struct rte_flow_error *error)
{
	if (queue < async->queue_count)
		return &async->queues[queue];
	refuse(error, EINVAL, "no such flow queue");
	return NULL;
}

static bool
has_room(const struct twin_flow_queue *queue, struct rte_flow_error *error)
{
	if (queue->taken - queue->pulled < queue->size)
		return true;
	refuse(error, ENOSPC, "the flow queue is full: pull its results");
	return false;
}

/* Executes an operation. Failures show in its result. */
static void
execute(struct rte_eth_dev *dev, struct twin_flow_queue *queue, struct op *op)
{
	struct twin_async *async = twin_async_of(dev);
	struct twin_call call = { .now_us = twin_now_us() };
	struct rte_flow_error error; /* not reported: results have no message */
	bool is_to_go = op->rule == NULL;
	struct twin_slot *slot;
	uint64_t rule, done;

	if (!is_to_go) {
		done = rule = twin_flow_make(dev, op->rule->attr, op->rule->pattern,
					     op->rule->actions, &call, &error);
		free(op->rule);
		op->rule = NULL;
	} else {
		rte_spinlock_lock(&async->lock);
		rule = async->slots[op->slot].rule;
		rte_spinlock_unlock(&async->lock);
		done = twin_flow_destroy(((struct twin_port *)dev->data->dev_private)->nic, rule,
					 &call);
		rule = 0;
	}
	rte_spinlock_lock(&async->lock);
	slot = &async->slots[op->slot];
	slot->rule = rule;
	/* If creating failed and a destroy is queued, that one frees the slot. */
	if (is_to_go || (rule == 0 && !slot->is_leaving))
		free_slot(async, slot);
	rte_spinlock_unlock(&async->lock);
	op->status = done != 0 ? RTE_FLOW_OP_SUCCESS : RTE_FLOW_OP_ERROR;
	/* The NIC executes operations one after the other; the caller does not wait. */
	queue->busy_until_us = RTE_MAX(queue->busy_until_us, call.now_us) + call.wait_us;
	op->done_us = queue->busy_until_us;
}

static void
push_all(struct rte_eth_dev *dev, struct twin_flow_queue *queue)
{
	for (; queue->pushed != queue->taken; queue->pushed++)
		execute(dev, queue, &queue->ops[queue->pushed % queue->size]);
}

/* Keeps the order of operations: one that is not postponed pushes those before it too. */
static void
enqueue(struct rte_eth_dev *dev, struct twin_flow_queue *queue, struct op op,
	const struct rte_flow_op_attr *attr)
{
	queue->ops[queue->taken++ % queue->size] = op;
	if (!attr->postpone)
		push_all(dev, queue);
}

static struct rte_flow *
async_create(struct rte_eth_dev *dev, uint32_t queue_id, const struct rte_flow_op_attr *attr,
	     struct rte_flow_template_table *table, const struct rte_flow_item pattern[],
	     uint8_t pattern_template, const struct rte_flow_action actions[],
	     uint8_t actions_template, void *user_data, struct rte_flow_error *error)
{
	struct twin_async *async = twin_async_of(dev);
	struct twin_flow_queue *queue = queue_of(async, queue_id, error);
	struct op op = { .user_data = user_data };
	struct rte_flow *flow;
	int64_t place;

	if (queue == NULL || !has_room(queue, error))
		return NULL;
	op.rule = twin_table_fill(table, pattern, pattern_template, actions, actions_template,
				  error);
	if (op.rule == NULL)
		return NULL;
	place = take_slot(dev->data->dev_private, table, queue_id);
	if (place < 0) {
		free(op.rule);
		refuse(error, -place, place == -ENOSPC ? "the table is full" : "no memory");
		return NULL;
	}
	op.slot = place;
	/* Before the operation is queued, because it may free the slot at once. */
	rte_spinlock_lock(&async->lock);
	flow = handle_of(&async->slots[place], place);
	rte_spinlock_unlock(&async->lock);
	enqueue(dev, queue, op, attr);
	return flow;
}

static int
async_destroy(struct rte_eth_dev *dev, uint32_t queue_id, const struct rte_flow_op_attr *attr,
	      struct rte_flow *flow, void *user_data, struct rte_flow_error *error)
{
	struct twin_async *async = twin_async_of(dev);
	struct twin_flow_queue *queue = queue_of(async, queue_id, error);
	struct op op = { .user_data = user_data };
	struct twin_slot *slot;
	bool is_ours = false;

	if (queue == NULL || !has_room(queue, error))
		return -rte_errno;
	rte_spinlock_lock(&async->lock);
	slot = slot_of(async, flow);
	if (slot != NULL && slot->queue == queue_id) {
		is_ours = true;
		slot->is_leaving = true;
		op.slot = slot - async->slots;
	}
	rte_spinlock_unlock(&async->lock);
	if (!is_ours)
		return rte_flow_error_set(error, slot == NULL ? ENOENT : EINVAL,
					  RTE_FLOW_ERROR_TYPE_HANDLE, flow,
					  slot == NULL ? "no such rule" :
							 "the rule was made by another queue");
	enqueue(dev, queue, op, attr);
	return 0;
}

static int
push(struct rte_eth_dev *dev, uint32_t queue_id, struct rte_flow_error *error)
{
	struct twin_flow_queue *queue = queue_of(twin_async_of(dev), queue_id, error);

	if (queue == NULL)
		return -rte_errno;
	push_all(dev, queue);
	return 0;
}

static int
pull(struct rte_eth_dev *dev, uint32_t queue_id, struct rte_flow_op_result results[],
     uint16_t count, struct rte_flow_error *error)
{
	struct twin_flow_queue *queue = queue_of(twin_async_of(dev), queue_id, error);
	uint64_t now_us = twin_now_us();
	int pulled;

	if (queue == NULL)
		return -rte_errno;
	for (pulled = 0; pulled < count && queue->pulled != queue->pushed; pulled++) {
		const struct op *op = &queue->ops[queue->pulled % queue->size];

		if (op->done_us > now_us)
			break;
		results[pulled].status = op->status;
		results[pulled].user_data = op->user_data;
		queue->pulled++;
	}
	return pulled;
}

/* ---- port -------------------------------------------------------------------------------- */

#if HAS_FAST_OPS
static struct rte_flow_fp_ops queue_ops;

/* ethdev calls these without a check, so the others must be the defaults, which refuse. */
RTE_INIT(fill_queue_ops)
{
	queue_ops = rte_flow_fp_default_ops;
	queue_ops.async_create = async_create;
	queue_ops.async_destroy = async_destroy;
	queue_ops.push = push;
	queue_ops.pull = pull;
}
#endif

int
twin_async_open(struct twin_port *port)
{
	struct rte_flow_ops *ops = &port->flow_ops;

	if (!twin_nic_has_async(port->nic))
		return 0;
	port->async = calloc(1, sizeof(*port->async));
	if (port->async == NULL)
		return -ENOMEM;
	rte_spinlock_init(&port->async->lock);
	port->async->free_slot = TWIN_NO_SLOT;
	twin_template_ops(ops);
	ops->info_get = info_get;
	ops->configure = configure;
#if HAS_FAST_OPS
	port->dev->flow_fp_ops = &queue_ops;
#else
	twin_indirect_ops(ops);
	ops->async_create = async_create;
	ops->async_destroy = async_destroy;
	ops->push = push;
	ops->pull = pull;
#endif
	return 0;
}

void
twin_async_forget(struct twin_port *port)
{
	struct twin_async *async = port->async;
	uint32_t i;

	if (async == NULL)
		return;
	for (i = 0; i < async->slot_count; i++) {
		if (async->slots[i].table != NULL)
			free_slot(async, &async->slots[i]);
	}
	drop_queues(async);
	twin_template_free_all(async);
}

void
twin_async_close(struct twin_port *port)
{
	twin_async_forget(port);
	if (port->async != NULL)
		free(port->async->slots);
	free(port->async);
	port->async = NULL;
}
