/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lower=(DEVARGS): puts a port of another driver below the twin. The twin owns that port and
 * classifies the packets that arrive there. Applications see only the twin.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_pause.h>
#include <rte_spinlock.h>
#include <rte_string_fns.h>

#include "twin.h"

/* All drivers accept this number, or adjust it. */
#define DESCRIPTORS 1024
/*
 * Attempts to take the lock of the lower port before packets of a switch are dropped: some tens of
 * milliseconds, because the thread that has the lock may wait for its cpu meanwhile.
 */
#define TRIES 1000000

/* The lower port has one queue of each direction, which all queues of the twin share. */
struct twin_lower {
	uint16_t port_id;
	uint64_t owner;
	rte_spinlock_t rx_lock;
	rte_spinlock_t tx_lock;
};

static int
update_link(struct twin_port *port)
{
	struct rte_eth_link link;
	int ret = rte_eth_link_get_nowait(port->lower->port_id, &link);

	return ret == 0 ? rte_eth_linkstatus_set(port->dev, &link) : ret;
}

/* Copies the link of the lower port, and reports a change to the application. */
static void
follow_link(struct twin_port *port)
{
	if (update_link(port) == 0)
		twin_tell_link(port->dev);
}

/* The twin above each port. Callbacks in ethdev may outlive the twin, so they look it up here. */
static struct twin_port *above[RTE_MAX_ETHPORTS];
/* True while this thread is in the callback. */
static __thread bool is_telling;

static int
on_link(uint16_t port_id, enum rte_eth_event_type event __rte_unused, void *arg __rte_unused,
	void *result __rte_unused)
{
	struct twin_port *port = __atomic_load_n(&above[port_id], __ATOMIC_ACQUIRE);

	is_telling = true;
	/* Last, because the callback of the application may close the port. */
	if (port != NULL)
		follow_link(port);
	is_telling = false;
	return 0;
}

/* Subscribes to link events of the lower port, if it has them. */
static int
watch_link(struct twin_port *port)
{
	struct rte_eth_dev_info below;
	int ret = rte_eth_dev_info_get(port->lower->port_id, &below);

	if (ret != 0 || (*below.dev_flags & RTE_ETH_DEV_INTR_LSC) == 0)
		return ret;
	port->dev->data->dev_flags |= RTE_ETH_DEV_INTR_LSC;
	__atomic_store_n(&above[port->lower->port_id], port, __ATOMIC_RELEASE);
	return rte_eth_dev_callback_register(port->lower->port_id, RTE_ETH_EVENT_INTR_LSC, on_link,
					     NULL);
}

/* Ends link events. When it returns, no other thread is in the callback. */
static void
leave_link(const struct twin_port *port)
{
	const uint16_t id = port->lower->port_id;
	int ret = -EAGAIN;

	if (__atomic_load_n(&above[id], __ATOMIC_RELAXED) != port)
		return;
	__atomic_store_n(&above[id], NULL, __ATOMIC_RELEASE);
	while (ret == -EAGAIN && !is_telling) {
		ret = rte_eth_dev_callback_unregister(id, RTE_ETH_EVENT_INTR_LSC, on_link, NULL);
		rte_pause();
	}
}

static void
forget(struct twin_port *port)
{
	struct twin_lower *lower = port->lower;
	struct rte_eth_dev_owner owner;

	if (lower == NULL)
		return;
	leave_link(port);
	/* EAL may have closed the port. The device stays: EAL may be iterating over devices. */
	if (rte_eth_dev_owner_get(lower->port_id, &owner) == 0 && owner.id == lower->owner)
		rte_eth_dev_close(lower->port_id);
	free(lower);
	port->lower = NULL;
}

/* Creates the device of the lower port, unless it exists. */
static int
probe(const char *devargs, uint16_t *port_id)
{
	struct rte_devargs device = { 0 };
	int ret = rte_devargs_parse(&device, devargs);

	if (ret != 0)
		return ret;
	if (rte_eth_dev_get_port_by_name(device.name, port_id) != 0) {
		ret = rte_dev_probe(devargs);
		/* The device of a closed port exists without a port: create it again. */
		if (ret == 0 && rte_eth_dev_get_port_by_name(device.name, port_id) != 0) {
			rte_eal_hotplug_remove(rte_bus_name(device.bus), device.name);
			ret = rte_dev_probe(devargs);
		}
		if (ret == 0)
			ret = rte_eth_dev_get_port_by_name(device.name, port_id);
	}
	rte_devargs_reset(&device);
	return ret;
}

static int
own(struct twin_port *port, const char *devargs)
{
	struct twin_lower *lower = port->lower;
	struct rte_eth_dev_owner owner = { 0 };
	int ret = rte_eth_dev_owner_new(&owner.id);

	if (ret != 0)
		return ret;
	rte_strscpy(owner.name, port->dev->data->name, sizeof(owner.name));
	ret = rte_eth_dev_owner_set(lower->port_id, &owner);
	if (ret != 0)
		TWIN_LOG(ERR, "lower=%s belongs to another port\n", devargs);
	else
		lower->owner = owner.id;
	return ret;
}

int
twin_lower_open(struct twin_port *port, const struct twin_args *args)
{
	struct twin_lower *lower = calloc(1, sizeof(*lower));
	int ret;

	if (lower == NULL)
		return -ENOMEM;
	port->lower = lower;
	rte_spinlock_init(&lower->rx_lock);
	rte_spinlock_init(&lower->tx_lock);
	ret = probe(args->lower, &lower->port_id);
	if (ret == 0 && lower->port_id == port->dev->data->port_id)
		ret = -ELOOP;
	if (ret != 0) {
		TWIN_LOG(ERR, "lower=%s: cannot open the port: %s\n", args->lower, strerror(-ret));
		free(lower);
		port->lower = NULL;
		return ret;
	}
	ret = own(port, args->lower);
	if (ret == 0)
		ret = rte_eth_macaddr_get(lower->port_id, &port->mac);
	if (ret == 0)
		ret = watch_link(port);
	return ret;
}

static int
configure(const struct twin_port *port)
{
	const uint16_t id = port->lower->port_id;
	const struct rte_eth_dev_data *data = port->dev->data;
	struct rte_eth_conf conf = { .rxmode.mtu = data->mtu };
	uint16_t rxd = DESCRIPTORS, txd = DESCRIPTORS;
	struct rte_eth_dev_info below;
	int ret = rte_eth_dev_info_get(id, &below);

	if (ret == 0) {
		/* By these offloads, drivers choose whether they handle chains of mbufs. */
		conf.rxmode.offloads = below.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER &
				       data->dev_conf.rxmode.offloads;
		conf.txmode.offloads = below.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
		conf.intr_conf.lsc = (*below.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
		ret = rte_eth_dev_configure(id, 1, 1, &conf);
	}
	if (ret == 0)
		ret = rte_eth_dev_adjust_nb_rx_tx_desc(id, &rxd, &txd);
	if (ret == 0)
		ret = rte_eth_rx_queue_setup(id, 0, rxd, data->numa_node, NULL, port->rxq[0].pool);
	if (ret == 0)
		ret = rte_eth_tx_queue_setup(id, 0, txd, data->numa_node, NULL);
	return ret;
}

static int
start(struct twin_port *port)
{
	int ret;

	if (port->dev->data->nb_rx_queues == 0) {
		TWIN_LOG(ERR, "a port with lower= needs a receive queue\n");
		return -EINVAL;
	}
	ret = configure(port);
	if (ret == 0)
		ret = rte_eth_dev_start(port->lower->port_id);
	if (ret != 0) {
		TWIN_LOG(ERR, "the lower port does not start: %s\n", strerror(-ret));
		return ret;
	}
	/* Drivers without this mode receive everything anyway. */
	(void)rte_eth_promiscuous_enable(port->lower->port_id);
	follow_link(port);
	return 0;
}

static void
stop(struct twin_port *port)
{
	(void)rte_eth_dev_stop(port->lower->port_id);
	follow_link(port);
}

static uint16_t
poll(struct twin_port *port)
{
	struct twin_lower *lower = port->lower;
	struct rte_mbuf *packets[TWIN_BURST];
	uint16_t count;

	/* The thread that has the lock receives for all queues. */
	if (!rte_spinlock_trylock(&lower->rx_lock))
		return 0;
	/* An empty queue has room for a burst, in which held packets may be. */
	count = rte_eth_rx_burst(lower->port_id, 0, packets,
				 TWIN_BURST - twin_reorder_held(port));
	twin_deliver(port, packets, count);
	rte_spinlock_unlock(&lower->rx_lock);
	return count;
}

/* Sends packets by the lower port, under its lock. Returns their number; writes their bytes. */
static uint16_t
send_below(struct twin_lower *lower, struct rte_mbuf **packets, uint16_t count, uint64_t *bytes)
{
	uint16_t i, sent;

	/* Before sending: sent packets belong to the driver. */
	*bytes = 0;
	for (i = 0; i < count; i++)
		*bytes += packets[i]->pkt_len;
	sent = rte_eth_tx_burst(lower->port_id, 0, packets, count);
	for (i = sent; i < count; i++)
		*bytes -= packets[i]->pkt_len;
	return sent;
}

static uint16_t
tx(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_txq *txq = queue;
	struct twin_lower *lower = txq->port->lower;
	uint64_t bytes;
	uint16_t sent;

	rte_spinlock_lock(&lower->tx_lock);
	sent = send_below(lower, packets, count, &bytes);
	rte_spinlock_unlock(&lower->tx_lock);
	txq->packets += sent;
	txq->bytes += bytes;
	return sent;
}

/* Tries to take the lock for a while. This thread may hold it already, so it must not wait. */
static bool
try_hard(rte_spinlock_t *lock)
{
	unsigned int tries;

	for (tries = 0; tries < TRIES; tries++) {
		if (rte_spinlock_trylock(lock))
			return true;
		rte_pause();
	}
	return false;
}

static uint16_t
carry(struct twin_port *port, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_lower *lower = port->lower;
	uint64_t bytes = 0;
	uint16_t i, sent = 0;

	/* Offloads that the sender requested from its own port do not apply here. */
	for (i = 0; i < count; i++)
		packets[i]->ol_flags &= RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT;
	if (try_hard(&lower->tx_lock)) {
		sent = send_below(lower, packets, count, &bytes);
		rte_spinlock_unlock(&lower->tx_lock);
	}
	rte_pktmbuf_free_bulk(packets + sent, count - sent);
	twin_switch_count(port, sent, bytes);
	return sent;
}

/* Adds the losses of the lower port. The twin itself counts packets and bytes. */
static void
add_stats(struct twin_port *port, struct rte_eth_stats *stats)
{
	struct rte_eth_stats below;

	if (rte_eth_stats_get(port->lower->port_id, &below) != 0)
		return;
	stats->imissed += below.imissed;
	stats->ierrors += below.ierrors;
	stats->oerrors += below.oerrors;
	stats->rx_nombuf += below.rx_nombuf;
}

static void
reset_stats(struct twin_port *port)
{
	(void)rte_eth_stats_reset(port->lower->port_id);
}

static void
info(struct twin_port *port, struct rte_eth_dev_info *info)
{
	struct rte_eth_dev_info below;

	if (rte_eth_dev_info_get(port->lower->port_id, &below) != 0)
		return;
	info->min_mtu = below.min_mtu;
	info->max_mtu = below.max_mtu;
	info->max_rx_pktlen = below.max_rx_pktlen;
	info->min_rx_bufsize = below.min_rx_bufsize;
	info->speed_capa = below.speed_capa;
	info->rx_offload_capa &= below.rx_offload_capa | ~RTE_ETH_RX_OFFLOAD_SCATTER;
	info->tx_offload_capa &= below.tx_offload_capa | ~RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
}

static int
set_mtu(struct twin_port *port, uint16_t mtu)
{
	/* A stopped lower port gets the MTU when it is configured, at the start. */
	return port->dev->data->dev_started ? rte_eth_dev_set_mtu(port->lower->port_id, mtu) : 0;
}

static int
set_mac(struct twin_port *port, struct rte_ether_addr *addr)
{
	return rte_eth_dev_default_mac_addr_set(port->lower->port_id, addr);
}

const struct twin_source twin_lower_source = {
	.start = start,
	.stop = stop,
	.close = forget,
	.poll = poll,
	.rx = twin_rx_polling,
	.tx = tx,
	.carry = carry,
	.update_link = update_link,
	.add_stats = add_stats,
	.reset_stats = reset_stats,
	.info = info,
	.set_mtu = set_mtu,
	.set_mac = set_mac,
};
