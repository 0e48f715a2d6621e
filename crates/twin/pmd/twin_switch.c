/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch=NAME: ports with the same name are ports of one NIC. Their rules can send packets that
 * arrive at one port to another.
 *
 * The thread that classifies a packet also sends it, and may hold the lock of a switch or a wire
 * already. It never waits for such a lock: if it is taken, the packets are dropped and counted.
 */

#include <errno.h>
#include <stdlib.h>

#include <rte_mbuf.h>
#include <rte_rwlock.h>
#include <rte_spinlock.h>
#include <rte_string_fns.h>

#include "twin.h"

/* Maximum number of ports that a packet passes, because rules may form a loop. */
#define HOPS_MAX 8

struct twin_switch {
	LIST_ENTRY(twin_switch) next;
	char name[64];
	uint16_t domain;
	unsigned int users;
	/* Read-locked to send; write-locked when a port joins, starts, stops or leaves. */
	rte_rwlock_t lock;
	struct twin_port *ports[RTE_MAX_ETHPORTS];
};

static LIST_HEAD(, twin_switch) switches = LIST_HEAD_INITIALIZER(switches);
static rte_spinlock_t switches_lock = RTE_SPINLOCK_INITIALIZER;

/* Number of ports that the current packets of this thread have passed. */
static __thread unsigned int hops;

static struct twin_switch *
add(const char *name)
{
	struct twin_switch *eswitch = calloc(1, sizeof(*eswitch));

	if (eswitch == NULL)
		return NULL;
	if (rte_strscpy(eswitch->name, name, sizeof(eswitch->name)) < 0) {
		TWIN_LOG(ERR, "switch=%s: the name has more than %zu characters\n", name,
			 sizeof(eswitch->name) - 1);
		free(eswitch);
		return NULL;
	}
	if (rte_eth_switch_domain_alloc(&eswitch->domain) != 0) {
		TWIN_LOG(ERR, "switch=%s: there is no switch domain left\n", name);
		free(eswitch);
		return NULL;
	}
	rte_rwlock_init(&eswitch->lock);
	LIST_INSERT_HEAD(&switches, eswitch, next);
	return eswitch;
}

static struct twin_switch *
find_or_add(const char *name)
{
	struct twin_switch *eswitch;

	LIST_FOREACH(eswitch, &switches, next) {
		if (strcmp(eswitch->name, name) == 0)
			return eswitch;
	}
	return add(name);
}

static void
set_port(struct twin_switch *eswitch, uint16_t number, struct twin_port *port)
{
	rte_rwlock_write_lock(&eswitch->lock);
	eswitch->ports[number] = port;
	rte_rwlock_write_unlock(&eswitch->lock);
}

int
twin_switch_open(struct twin_port *port, const struct twin_args *args)
{
	struct twin_switch *eswitch;

	rte_spinlock_lock(&switches_lock);
	eswitch = find_or_add(args->eswitch);
	if (eswitch != NULL) {
		set_port(eswitch, port->dev->data->port_id, port);
		eswitch->users++;
	}
	rte_spinlock_unlock(&switches_lock);
	if (eswitch == NULL)
		return -EINVAL;
	port->eswitch = eswitch;
	twin_nic_set_switch(port->nic, true);
	return 0;
}

void
twin_switch_close(struct twin_port *port)
{
	struct twin_switch *eswitch = port->eswitch;

	if (eswitch == NULL)
		return;
	rte_spinlock_lock(&switches_lock);
	set_port(eswitch, port->dev->data->port_id, NULL);
	if (--eswitch->users == 0) {
		LIST_REMOVE(eswitch, next);
		rte_eth_switch_domain_free(eswitch->domain);
		free(eswitch);
	}
	rte_spinlock_unlock(&switches_lock);
	port->eswitch = NULL;
}

/* Sets whether other ports may send packets here. After false, no thread still does. */
void
twin_switch_set_started(struct twin_port *port, bool is_started)
{
	if (port->eswitch == NULL)
		return;
	rte_rwlock_write_lock(&port->eswitch->lock);
	port->is_reachable = is_started;
	rte_rwlock_write_unlock(&port->eswitch->lock);
}

void
twin_switch_info(const struct twin_port *port, struct rte_eth_dev_info *info)
{
	if (port->eswitch == NULL)
		return;
	info->switch_info.name = port->eswitch->name;
	info->switch_info.domain_id = port->eswitch->domain;
	info->switch_info.port_id = port->dev->data->port_id;
}

/* ---- rules ------------------------------------------------------------------------------- */

/* Returns the number of the port that an action names; with `original`, that of the rule. */
static uint32_t
named_by(const struct twin_port *port, const struct rte_flow_action *action)
{
	const struct rte_flow_action_port_id *port_id = action->conf;

	if (action->type != RTE_FLOW_ACTION_TYPE_PORT_ID)
		return ((const struct rte_flow_action_ethdev *)action->conf)->port_id;
	return port_id->original ? port->dev->data->port_id : port_id->id;
}

const char *
twin_switch_action_trouble(const struct twin_port *port, const struct rte_flow_action *action)
{
	const uint32_t number = named_by(port, action);
	const struct twin_port *other = NULL;

	/* Without a switch, the model refuses every port. */
	if (port->eswitch == NULL)
		return NULL;
	rte_rwlock_read_lock(&port->eswitch->lock);
	if (number < RTE_MAX_ETHPORTS)
		other = port->eswitch->ports[number];
	rte_rwlock_read_unlock(&port->eswitch->lock);
	return other == NULL ? "the action names no port of the same switch=" : NULL;
}

void
twin_switch_take_action(const struct twin_port *port, const struct rte_flow_action *action,
			struct twin_action *to)
{
	const uint16_t own = port->dev->data->port_id;
	const uint32_t number = named_by(port, action);

	if (action->type == RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR) {
		to->kind = TWIN_ACTION_PORT_REPRESENTOR;
		to->value = number == own ? TWIN_OWN_PORT : number;
		return;
	}
	to->kind = action->type == RTE_FLOW_ACTION_TYPE_PORT_ID ? TWIN_ACTION_PORT_ID :
								  TWIN_ACTION_REPRESENTED_PORT;
	to->value = number;
}

bool
twin_switch_knows(enum rte_flow_item_type type)
{
	return type == RTE_FLOW_ITEM_TYPE_PORT_ID || type == RTE_FLOW_ITEM_TYPE_REPRESENTED_PORT;
}

/* Returns the number in a spec or mask; UINT32_MAX for none, or a full mask. */
static uint32_t
number_in(const struct rte_flow_item *item, const void *value)
{
	uint16_t number;

	if (value == NULL)
		return UINT32_MAX;
	if (item->type == RTE_FLOW_ITEM_TYPE_PORT_ID)
		return ((const struct rte_flow_item_port_id *)value)->id;
	number = ((const struct rte_flow_item_ethdev *)value)->port_id;
	return value == item->mask && number == UINT16_MAX ? UINT32_MAX : number;
}

/* A rule is for packets that arrive at its own port, so an item must name that port. */
const char *
twin_switch_item_trouble(const struct twin_port *port, const struct rte_flow_item *item)
{
	const uint32_t mask = number_in(item, item->mask);

	if (port->eswitch == NULL || item->spec == NULL || mask == 0)
		return NULL;
	if (mask != UINT32_MAX || item->last != NULL)
		return "the number of a port has no mask and no range";
	if (number_in(item, item->spec) != port->dev->data->port_id)
		return "a rule must be created on the port where packets arrive";
	return NULL;
}

/* ---- packets ----------------------------------------------------------------------------- */

void
twin_switch_count(struct twin_port *port, uint64_t packets, uint64_t bytes)
{
	twin_add(&port->carried, packets);
	twin_add(&port->carried_bytes, bytes);
}

static uint16_t
dispatch(const struct twin_switch *eswitch, uint32_t to, struct rte_mbuf **packets, uint16_t count)
{
	const uint32_t number = to & UINT16_MAX;
	struct twin_port *port = number < RTE_MAX_ETHPORTS ? eswitch->ports[number] : NULL;

	if (port != NULL && port->is_reachable) {
		if ((to & TWIN_TO_PORT_BIT) != 0) {
			twin_deliver(port, packets, count);
			return count;
		}
		if (port->source->carry != NULL)
			return port->source->carry(port, packets, count);
	}
	rte_pktmbuf_free_bulk(packets, count);
	return 0;
}

/* Sends packets to a port of the switch. The caller no longer owns them. */
void
twin_switch_send(struct twin_port *from, uint32_t to, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_switch *eswitch = from->eswitch;
	uint16_t sent = 0;

	if (likely(hops < HOPS_MAX && rte_rwlock_read_trylock(&eswitch->lock) == 0)) {
		hops++;
		sent = dispatch(eswitch, to, packets, count);
		hops--;
		rte_rwlock_read_unlock(&eswitch->lock);
	} else {
		rte_pktmbuf_free_bulk(packets, count);
	}
	twin_add(&from->switched, sent);
	twin_add(&from->switch_drops, count - sent);
}
