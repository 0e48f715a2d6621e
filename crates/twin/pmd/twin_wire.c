/* SPDX-License-Identifier: BSD-3-Clause */
/* Cables: two ports whose wire= has the same name are the ends of one. */

#include <stdlib.h>

#include <rte_spinlock.h>
#include <rte_string_fns.h>

#include "twin.h"

static LIST_HEAD(, twin_wire) wires = LIST_HEAD_INITIALIZER(wires);
static rte_spinlock_t wires_lock = RTE_SPINLOCK_INITIALIZER;

static struct twin_wire *
find_or_add(const char *name)
{
	struct twin_wire *wire;

	LIST_FOREACH(wire, &wires, next) {
		if (strcmp(wire->name, name) == 0)
			return wire;
	}
	wire = calloc(1, sizeof(*wire));
	if (wire == NULL)
		return NULL;
	if (rte_strscpy(wire->name, name, sizeof(wire->name)) < 0) {
		TWIN_LOG(ERR, "wire=%s: the name has more than %zu characters\n", name,
			 sizeof(wire->name) - 1);
		free(wire);
		return NULL;
	}
	rte_rwlock_init(&wire->lock);
	LIST_INSERT_HEAD(&wires, wire, next);
	return wire;
}

/* Plugs a port into a free end; NULL if both are taken, or the name is no name. */
struct twin_wire *
twin_wire_plug(const char *name, struct twin_port *port)
{
	struct twin_wire *wire;

	rte_spinlock_lock(&wires_lock);
	wire = find_or_add(name);
	if (wire != NULL) {
		rte_rwlock_write_lock(&wire->lock);
		port->side = wire->end[0] == NULL ? 0 : 1;
		if (wire->end[port->side] == NULL)
			wire->end[port->side] = port;
		rte_rwlock_write_unlock(&wire->lock);
		if (wire->end[port->side] != port) {
			TWIN_LOG(ERR, "wire=%s has two ports already\n", name);
			wire = NULL;
		}
	}
	rte_spinlock_unlock(&wires_lock);
	return wire;
}

static void
set_link(struct twin_port *port, bool is_up)
{
	struct rte_eth_link link = {
		.link_speed = RTE_ETH_SPEED_NUM_UNKNOWN,
		.link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
		.link_autoneg = RTE_ETH_LINK_FIXED,
		.link_status = is_up ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN,
	};
	int unchanged = rte_eth_linkstatus_set(port->dev, &link);

	if (unchanged == 0 && port->dev->data->dev_conf.intr_conf.lsc != 0)
		rte_eth_dev_callback_process(port->dev, RTE_ETH_EVENT_INTR_LSC, NULL);
}

/* The link is up while both ends are started. */
void
twin_wire_set_started(struct twin_port *port, bool started)
{
	struct twin_wire *wire = port->wire;
	struct twin_port *peer;
	bool is_up;

	rte_rwlock_write_lock(&wire->lock);
	port->started = started;
	peer = wire->end[!port->side];
	is_up = started && peer != NULL && peer->started;
	rte_rwlock_write_unlock(&wire->lock);
	set_link(port, is_up);
	if (peer != NULL)
		set_link(peer, is_up);
}

void
twin_wire_unplug(struct twin_port *port)
{
	struct twin_wire *wire = port->wire;

	if (wire == NULL)
		return;
	rte_spinlock_lock(&wires_lock);
	rte_rwlock_write_lock(&wire->lock);
	wire->end[port->side] = NULL;
	rte_rwlock_write_unlock(&wire->lock);
	if (wire->end[!port->side] == NULL) {
		LIST_REMOVE(wire, next);
		free(wire);
	}
	rte_spinlock_unlock(&wires_lock);
	port->wire = NULL;
}
