/* SPDX-License-Identifier: BSD-3-Clause */
/* The port: devargs, queues, link, statistics. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_kvargs.h>
#include <rte_malloc.h>
#include <rte_version.h>
#include <bus_vdev_driver.h>
#include <ethdev_vdev.h>

#include "twin.h"

#define ARG_WIRE "wire"
#define ARG_PERSONALITY "personality"
#define ARG_SEED "seed"

static const char *const known_args[] = { ARG_WIRE, ARG_PERSONALITY, ARG_SEED, NULL };

RTE_LOG_REGISTER(log_type, pmd.net.twin, NOTICE);

int
twin_log_type(void)
{
	return log_type;
}

uint64_t
twin_now_us(void)
{
	return rte_get_tsc_cycles() / RTE_MAX(rte_get_tsc_hz() / US_PER_S, 1u);
}

static int
start(struct rte_eth_dev *dev)
{
	struct twin_port *port = dev->data->dev_private;
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		if (port->rxq[i].ring == NULL) {
			TWIN_LOG(ERR, "receive queue %u was not set up\n", i);
			return -EINVAL;
		}
		dev->data->rx_queue_state[i] = RTE_ETH_QUEUE_STATE_STARTED;
	}
	for (i = 0; i < dev->data->nb_tx_queues; i++)
		dev->data->tx_queue_state[i] = RTE_ETH_QUEUE_STATE_STARTED;
	twin_nic_set_started(port->nic, true);
	twin_wire_set_started(port, true);
	return 0;
}

/* What is in a ring goes back to its pool. */
static void
drain(struct rte_ring *ring)
{
	struct rte_mbuf *packet;

	while (rte_ring_sc_dequeue(ring, (void **)&packet) == 0)
		rte_pktmbuf_free(packet);
}

static void
free_ring(struct twin_rxq *rxq)
{
	if (rxq->ring == NULL)
		return;
	drain(rxq->ring);
	rte_ring_free(rxq->ring);
	rxq->ring = NULL;
}

static int
stop(struct rte_eth_dev *dev)
{
	struct twin_port *port = dev->data->dev_private;
	uint16_t i;

	twin_wire_set_started(port, false);
	twin_nic_set_started(port->nic, false);
	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		dev->data->rx_queue_state[i] = RTE_ETH_QUEUE_STATE_STOPPED;
		drain(port->rxq[i].ring);
	}
	for (i = 0; i < dev->data->nb_tx_queues; i++)
		dev->data->tx_queue_state[i] = RTE_ETH_QUEUE_STATE_STOPPED;
	return 0;
}

static int
info(struct rte_eth_dev *dev __rte_unused, struct rte_eth_dev_info *info)
{
	info->max_mac_addrs = 1;
	info->max_rx_pktlen = UINT32_MAX;
	info->max_rx_queues = TWIN_QUEUES_MAX;
	info->max_tx_queues = TWIN_QUEUES_MAX;
	info->hash_key_size = TWIN_RSS_KEY_LEN;
	info->reta_size = TWIN_RETA_SIZE;
	info->flow_type_rss_offloads = twin_rss_supported();
	info->rx_offload_capa = RTE_ETH_RX_OFFLOAD_RSS_HASH;
	info->min_rx_bufsize = 0;
	info->rx_desc_lim = (struct rte_eth_desc_lim){
		.nb_max = TWIN_RXD_MAX, .nb_min = TWIN_RXD_MIN, .nb_align = 1,
	};
	info->tx_desc_lim = info->rx_desc_lim;
	info->default_rxportconf.ring_size = 1024;
	info->default_txportconf.ring_size = 1024;
	info->tx_offload_capa = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	return 0;
}

static int
rx_queue_setup(struct rte_eth_dev *dev, uint16_t queue, uint16_t descriptors, unsigned int socket,
	       const struct rte_eth_rxconf *conf __rte_unused,
	       struct rte_mempool *pool __rte_unused)
{
	struct twin_port *port = dev->data->dev_private;
	struct twin_rxq *rxq = &port->rxq[queue];
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "twin_%u_%u", dev->data->port_id, queue);
	rxq->ring = rte_ring_create(name, descriptors, socket,
				    RING_F_SC_DEQ | RING_F_EXACT_SZ);
	if (rxq->ring == NULL)
		return -rte_errno;
	rxq->port = port;
	dev->data->rx_queues[queue] = rxq;
	return 0;
}

static void
rx_queue_release(struct rte_eth_dev *dev, uint16_t queue)
{
	if (dev->data->rx_queues[queue] != NULL)
		free_ring(dev->data->rx_queues[queue]);
}

static int
tx_queue_setup(struct rte_eth_dev *dev, uint16_t queue, uint16_t descriptors __rte_unused,
	       unsigned int socket __rte_unused, const struct rte_eth_txconf *conf __rte_unused)
{
	struct twin_port *port = dev->data->dev_private;

	port->txq[queue].port = port;
	dev->data->tx_queues[queue] = &port->txq[queue];
	return 0;
}

static int
close_port(struct rte_eth_dev *dev)
{
	struct twin_port *port = dev->data->dev_private;
	uint16_t i;

	if (rte_eal_process_type() != RTE_PROC_PRIMARY)
		return 0;
	twin_wire_unplug(port);
	for (i = 0; port->rxq != NULL && i < TWIN_QUEUES_MAX; i++)
		free_ring(&port->rxq[i]);
	rte_free(port->rxq);
	rte_free(port->txq);
	if (port->nic != NULL)
		twin_nic_free(port->nic);
	dev->data->mac_addrs = NULL; /* part of the private data */
	return 0;
}

static int
stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
{
	const struct twin_port *port = dev->data->dev_private;
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		const struct twin_rxq *rxq = &port->rxq[i];

		stats->ipackets += rxq->packets;
		stats->ibytes += rxq->bytes;
		stats->imissed += __atomic_load_n(&rxq->missed, __ATOMIC_RELAXED);
	}
	stats->imissed += __atomic_load_n(&port->no_queue, __ATOMIC_RELAXED);
	for (i = 0; i < dev->data->nb_tx_queues; i++) {
		stats->opackets += port->txq[i].packets;
		stats->obytes += port->txq[i].bytes;
		stats->oerrors += port->txq[i].errors;
	}
	return 0;
}

static int
stats_reset(struct rte_eth_dev *dev)
{
	struct twin_port *port = dev->data->dev_private;
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		port->rxq[i].packets = 0;
		port->rxq[i].bytes = 0;
		__atomic_store_n(&port->rxq[i].missed, 0, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&port->rule_drops, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&port->no_queue, 0, __ATOMIC_RELAXED);
	for (i = 0; i < dev->data->nb_tx_queues; i++) {
		port->txq[i].packets = 0;
		port->txq[i].bytes = 0;
		port->txq[i].errors = 0;
	}
	return 0;
}

/* What ethdev's own statistics have no place for. */
static int
xstats_get_names(struct rte_eth_dev *dev __rte_unused, struct rte_eth_xstat_name *names,
		 unsigned int size)
{
	if (names != NULL && size > 0)
		snprintf(names[0].name, sizeof(names[0].name), "rx_rule_drops");
	return 1;
}

static int
xstats_get(struct rte_eth_dev *dev, struct rte_eth_xstat *xstats, unsigned int size)
{
	const struct twin_port *port = dev->data->dev_private;

	if (xstats != NULL && size > 0) {
		xstats[0].id = 0;
		xstats[0].value = __atomic_load_n(&port->rule_drops, __ATOMIC_RELAXED);
	}
	return 1;
}

static const uint32_t packet_types[] = {
	RTE_PTYPE_L2_ETHER,
	RTE_PTYPE_L3_IPV4_EXT_UNKNOWN,
	RTE_PTYPE_L3_IPV6_EXT_UNKNOWN,
	RTE_PTYPE_L4_ICMP,
	RTE_PTYPE_L4_SCTP,
	RTE_PTYPE_L4_TCP,
	RTE_PTYPE_L4_UDP,
	RTE_PTYPE_UNKNOWN, /* the end, for those that look for it */
};

static const uint32_t *
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
supported_ptypes_get(struct rte_eth_dev *dev __rte_unused, size_t *count)
{
	*count = RTE_DIM(packet_types) - 1;
	return packet_types;
}
#else
supported_ptypes_get(struct rte_eth_dev *dev __rte_unused)
{
	return packet_types;
}
#endif

/* The link is set where it changes. */
static int
link_update(struct rte_eth_dev *dev __rte_unused, int wait __rte_unused)
{
	return 0;
}

/* Whatever is on a cable arrives: there is nothing to turn on. */
static int
accept_all(struct rte_eth_dev *dev __rte_unused)
{
	return 0;
}

static int
mtu_set(struct rte_eth_dev *dev __rte_unused, uint16_t mtu __rte_unused)
{
	return 0;
}

static int
mac_addr_set(struct rte_eth_dev *dev __rte_unused, struct rte_ether_addr *addr __rte_unused)
{
	return 0;
}

static int
flow_ops_get(struct rte_eth_dev *dev __rte_unused, const struct rte_flow_ops **ops)
{
	*ops = &twin_flow_ops;
	return 0;
}

static const struct eth_dev_ops ops = {
	.dev_configure = twin_rss_configure,
	.dev_start = start,
	.dev_stop = stop,
	.dev_close = close_port,
	.dev_infos_get = info,
	.dev_supported_ptypes_get = supported_ptypes_get,
	.rx_queue_setup = rx_queue_setup,
	.rx_queue_release = rx_queue_release,
	.tx_queue_setup = tx_queue_setup,
	.link_update = link_update,
	.reta_update = twin_rss_reta_update,
	.reta_query = twin_rss_reta_query,
	.rss_hash_update = twin_rss_hash_update,
	.rss_hash_conf_get = twin_rss_hash_conf_get,
	.stats_get = stats_get,
	.stats_reset = stats_reset,
	.xstats_get_names = xstats_get_names,
	.xstats_get = xstats_get,
	.xstats_reset = stats_reset,
	.promiscuous_enable = accept_all,
	.promiscuous_disable = accept_all,
	.allmulticast_enable = accept_all,
	.allmulticast_disable = accept_all,
	.mtu_set = mtu_set,
	.mac_addr_set = mac_addr_set,
	.flow_ops_get = flow_ops_get,
};

static int
keep_string(const char *key __rte_unused, const char *value, void *to)
{
	if (value == NULL || value[0] == '\0')
		return -EINVAL;
	*(const char **)to = value;
	return 0;
}

static int
keep_number(const char *key, const char *value, void *to)
{
	char *end;

	errno = 0;
	*(uint64_t *)to = strtoull(value != NULL ? value : "", &end, 0);
	if (errno == 0 && value != NULL && value[0] != '\0' && *end == '\0')
		return 0;
	TWIN_LOG(ERR, "%s=%s is no number\n", key, value);
	return -EINVAL;
}

static int
make_nic(struct twin_port *port, struct rte_kvargs *kvargs)
{
	const char *personality = "ideal";
	char message[4096];
	uint64_t seed = 1;

	if (rte_kvargs_process(kvargs, ARG_PERSONALITY, keep_string, &personality) != 0 ||
	    rte_kvargs_process(kvargs, ARG_SEED, keep_number, &seed) != 0)
		return -EINVAL;
	port->nic = twin_nic_new(personality, seed, message, sizeof(message));
	if (port->nic != NULL)
		return 0;
	TWIN_LOG(ERR, "%s\n", message);
	return -EINVAL;
}

/* Connects the port as its devargs say. */
static int
parse(struct twin_port *port, const char *args)
{
	struct rte_kvargs *kvargs = rte_kvargs_parse(args, known_args);
	const char *wire = NULL;
	int ret;

	if (kvargs == NULL) {
		TWIN_LOG(ERR, "unknown parameter in '%s'; there are: wire=NAME, "
			 "personality=NAME|FILE, seed=N\n", args);
		return -EINVAL;
	}
	ret = make_nic(port, kvargs);
	if (ret == 0)
		ret = rte_kvargs_process(kvargs, ARG_WIRE, keep_string, &wire);
	if (ret == 0 && wire != NULL) {
		port->wire = twin_wire_plug(wire, port);
		ret = port->wire != NULL ? 0 : -EINVAL;
	} else if (ret == 0) {
		TWIN_LOG(ERR, "wire=NAME is missing: two ports with one NAME are its ends\n");
		ret = -EINVAL;
	}
	rte_kvargs_free(kvargs);
	return ret;
}

static int
fill(struct rte_eth_dev *dev, const char *args)
{
	struct twin_port *port = dev->data->dev_private;
	int socket = dev->data->numa_node;

	port->dev = dev;
	rte_eth_random_addr(port->mac.addr_bytes);
	dev->data->mac_addrs = &port->mac;
	dev->data->promiscuous = 1;
	dev->data->all_multicast = 1;
	dev->data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS | RTE_ETH_DEV_FLOW_OPS_THREAD_SAFE;
	dev->dev_ops = &ops;
	dev->rx_pkt_burst = twin_rx;
	dev->tx_pkt_burst = twin_tx;
	port->rxq = rte_zmalloc_socket(NULL, TWIN_QUEUES_MAX * sizeof(*port->rxq),
				       RTE_CACHE_LINE_SIZE, socket);
	port->txq = rte_zmalloc_socket(NULL, TWIN_QUEUES_MAX * sizeof(*port->txq),
				       RTE_CACHE_LINE_SIZE, socket);
	if (port->rxq == NULL || port->txq == NULL)
		return -ENOMEM;
	return parse(port, args);
}

/* Structures inside of DPDK may change with every release. */
static bool
is_built_for_this_dpdk(void)
{
	char version[64];

	snprintf(version, sizeof(version), "%s %d.%02d.%d%s", RTE_VER_PREFIX, RTE_VER_YEAR,
		 RTE_VER_MONTH, RTE_VER_MINOR, RTE_VER_SUFFIX);
	if (strcmp(rte_version(), version) == 0)
		return true;
	TWIN_LOG(ERR, "built for %s, loaded into %s: build it again\n", version, rte_version());
	return false;
}

static int
probe(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *dev;
	int ret;

	if (!is_built_for_this_dpdk() || rte_eal_process_type() != RTE_PROC_PRIMARY)
		return -ENOTSUP;
	dev = rte_eth_vdev_allocate(vdev, sizeof(struct twin_port));
	if (dev == NULL)
		return -ENOMEM;
	ret = fill(dev, rte_vdev_device_args(vdev));
	if (ret == 0) {
		rte_eth_dev_probing_finish(dev);
		return 0;
	}
	close_port(dev);
	rte_eth_dev_release_port(dev);
	return ret;
}

static int
remove_port(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));

	if (dev == NULL)
		return 0;
	close_port(dev);
	return rte_eth_dev_release_port(dev);
}

static struct rte_vdev_driver twin_driver = {
	.probe = probe,
	.remove = remove_port,
};

RTE_PMD_REGISTER_VDEV(net_twin, twin_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_twin,
	ARG_WIRE "=<name> "
	ARG_PERSONALITY "=<name or file> "
	ARG_SEED "=<number>");
