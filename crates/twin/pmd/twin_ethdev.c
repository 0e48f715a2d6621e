/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements the port of ethdev: queues and link, for all kinds of sources. */

#include <stdio.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_version.h>
#include <bus_vdev_driver.h>
#include <ethdev_vdev.h>

#include "twin_timed.h"

RTE_LOG_REGISTER(log_type, pmd.net.twin, NOTICE);

int
twin_log_type(void)
{
	return log_type;
}

/* Set by probe(), because a multiplication is cheaper than a division. */
static double us_per_cycle;

uint64_t
twin_now_us(void)
{
	return rte_get_tsc_cycles() * us_per_cycle;
}

bool
twin_set_link(struct twin_port *port, bool is_up)
{
	struct rte_eth_link link = {
		.link_speed = port->pace.mbps != 0 ? port->pace.mbps :
						     RTE_ETH_SPEED_NUM_UNKNOWN,
		.link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
		.link_autoneg = RTE_ETH_LINK_FIXED,
		.link_status = is_up ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN,
	};

	return rte_eth_linkstatus_set(port->dev, &link) == 0;
}

void
twin_tell_link(struct rte_eth_dev *dev)
{
	if (dev->data->dev_conf.intr_conf.lsc != 0)
		rte_eth_dev_callback_process(dev, RTE_ETH_EVENT_INTR_LSC, NULL);
}

/*
 * Checksums are verified only on request, as in mlx5, because this costs the model a pass over the
 * packet. Parsers of other NICs always verify them.
 */
static const struct {
	uint64_t offload;
	uint8_t check;
} checks[] = {
	{ RTE_ETH_RX_OFFLOAD_IPV4_CKSUM, TWIN_CHECK_IPV4 },
	{ RTE_ETH_RX_OFFLOAD_TCP_CKSUM, TWIN_CHECK_TCP },
	{ RTE_ETH_RX_OFFLOAD_UDP_CKSUM, TWIN_CHECK_UDP },
	{ RTE_ETH_RX_OFFLOAD_SCTP_CKSUM, TWIN_CHECK_SCTP },
};

static int
configure(struct rte_eth_dev *dev)
{
	struct twin_port *port = dev->data->dev_private;
	uint8_t wanted = 0;
	unsigned int i;

	for (i = 0; i < RTE_DIM(checks); i++) {
		if (dev->data->dev_conf.rxmode.offloads & checks[i].offload)
			wanted |= checks[i].check;
	}
	twin_nic_set_checks(port->nic, wanted);
	return twin_rss_configure(dev);
}

static void
end(struct twin_port *port)
{
	twin_switch_set_started(port, false);
	twin_pipeline_stop(port);
	port->source->stop(port);
	twin_pipeline_close(port);
	twin_reorder_stop(port);
	twin_nic_set_started(port->nic, false);
	twin_async_note_strays(port);
}

static int
start(struct rte_eth_dev *dev)
{
	struct twin_port *port = dev->data->dev_private;
	uint16_t i;
	int ret;

	if (port->is_down) {
		TWIN_LOG(ERR, "the port has reset itself; it must be reset\n");
		return -EIO;
	}
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
	ret = twin_pipeline_open(port);
	if (ret == 0)
		ret = port->source->start(port);
	if (ret == 0)
		ret = twin_pipeline_start(port);
	if (ret != 0)
		end(port);
	else
		twin_switch_set_started(port, true);
	return ret;
}

/* Frees the packets in a ring; returns their number. */
uint32_t
twin_drain(struct rte_ring *ring)
{
	struct rte_mbuf *packet;
	uint32_t count;

	for (count = 0; rte_ring_sc_dequeue(ring, (void **)&packet) == 0; count++)
		rte_pktmbuf_free(packet);
	return count;
}

static void
free_ring(struct twin_rxq *rxq)
{
	if (rxq->ring == NULL)
		return;
	twin_drain(rxq->ring);
	rte_ring_free(rxq->ring);
	rxq->ring = NULL;
	rxq->pool = NULL;
}

static int
stop(struct rte_eth_dev *dev)
{
	struct twin_port *port = dev->data->dev_private;
	uint16_t i;

	end(port);
	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		dev->data->rx_queue_state[i] = RTE_ETH_QUEUE_STATE_STOPPED;
		twin_add(&port->rxq[i].missed, twin_drain(port->rxq[i].ring));
	}
	for (i = 0; i < dev->data->nb_tx_queues; i++)
		dev->data->tx_queue_state[i] = RTE_ETH_QUEUE_STATE_STOPPED;
	return 0;
}

static int
info(struct rte_eth_dev *dev, struct rte_eth_dev_info *info)
{
	struct twin_port *port = dev->data->dev_private;
	unsigned int i;

	info->speed_capa = rte_eth_speed_bitflag(port->pace.mbps, RTE_ETH_LINK_FULL_DUPLEX);
	info->max_mac_addrs = 1;
	info->max_rx_pktlen = UINT32_MAX;
	info->max_rx_queues = port->queues_max;
	info->max_tx_queues = port->queues_max;
	twin_rss_info(info);
	twin_switch_info(port, info);
	info->rx_offload_capa = RTE_ETH_RX_OFFLOAD_RSS_HASH | RTE_ETH_RX_OFFLOAD_SCATTER;
	for (i = 0; i < RTE_DIM(checks); i++)
		info->rx_offload_capa |= checks[i].offload;
	info->min_rx_bufsize = 0;
	info->rx_desc_lim = (struct rte_eth_desc_lim){
		.nb_max = port->rxd_max, .nb_min = TWIN_RXD_MIN, .nb_align = 1,
	};
	/* Has an effect only for frames with a send time: others do not wait. */
	info->tx_desc_lim = (struct rte_eth_desc_lim){
		.nb_max = TWIN_RXD_MAX, .nb_min = TWIN_RXD_MIN, .nb_align = 1,
	};
	info->default_rxportconf.ring_size = RTE_MIN(port->rxd_max, 1024);
	info->default_txportconf.ring_size = 1024;
	info->tx_offload_capa = RTE_ETH_TX_OFFLOAD_MULTI_SEGS |
				RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	if (port->source->info != NULL)
		port->source->info(port, info);
	return 0;
}

static int
rx_queue_setup(struct rte_eth_dev *dev, uint16_t queue, uint16_t descriptors, unsigned int socket,
	       const struct rte_eth_rxconf *conf __rte_unused, struct rte_mempool *pool)
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
	rxq->pool = pool;
	rxq->room = RTE_ALIGN_FLOOR(rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM,
				    RTE_CACHE_LINE_SIZE);
	dev->data->rx_queues[queue] = rxq;
	return 0;
}

void
twin_rx_queue_release(struct rte_eth_dev *dev, uint16_t queue)
{
	if (dev->data->rx_queues[queue] != NULL)
		free_ring(dev->data->rx_queues[queue]);
}

static int
close_port(struct rte_eth_dev *dev)
{
	struct twin_port *port = dev->data->dev_private;
	uint16_t i;

	if (rte_eal_process_type() != RTE_PROC_PRIMARY)
		return 0;
	twin_age_stop(port);
	twin_reset_stop(port);
	twin_switch_close(port);
	port->source->close(port);
	twin_async_close(port);
	twin_reorder_close(port);
	for (i = 0; port->rxq != NULL && i < TWIN_QUEUES_MAX; i++)
		free_ring(&port->rxq[i]);
	for (i = 0; port->txq != NULL && i < TWIN_QUEUES_MAX; i++)
		twin_tx_queue_close(&port->txq[i]);
	rte_free(port->rxq);
	rte_free(port->txq);
	if (port->nic != NULL)
		twin_nic_free(port->nic);
	dev->data->mac_addrs = NULL; /* it is part of the private data */
	return 0;
}

static const uint32_t packet_types[] = {
	RTE_PTYPE_L2_ETHER,
	RTE_PTYPE_L3_IPV4_EXT_UNKNOWN,
	RTE_PTYPE_L3_IPV6_EXT_UNKNOWN,
	RTE_PTYPE_L4_ICMP,
	RTE_PTYPE_L4_SCTP,
	RTE_PTYPE_L4_TCP,
	RTE_PTYPE_L4_UDP,
	RTE_PTYPE_UNKNOWN, /* end of the list, for callers that expect it */
};

static const uint32_t *
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
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

static int
link_update(struct rte_eth_dev *dev, int wait __rte_unused)
{
	struct twin_port *port = dev->data->dev_private;

	/* Other sources set the link when it changes. */
	return port->source->update_link != NULL ? port->source->update_link(port) : 0;
}

/* All packets arrive, so promiscuous modes need no action. */
static int
accept_all(struct rte_eth_dev *dev __rte_unused)
{
	return 0;
}

static int
mtu_set(struct rte_eth_dev *dev, uint16_t mtu)
{
	struct twin_port *port = dev->data->dev_private;

	return port->source->set_mtu != NULL ? port->source->set_mtu(port, mtu) : 0;
}

static int
mac_addr_set(struct rte_eth_dev *dev, struct rte_ether_addr *addr)
{
	struct twin_port *port = dev->data->dev_private;

	return port->source->set_mac != NULL ? port->source->set_mac(port, addr) : 0;
}

static int
flow_ops_get(struct rte_eth_dev *dev, const struct rte_flow_ops **ops)
{
	*ops = &((struct twin_port *)dev->data->dev_private)->flow_ops;
	return 0;
}

static const struct eth_dev_ops ops = {
	.dev_configure = configure,
	.dev_start = start,
	.dev_stop = stop,
	.dev_close = close_port,
	.dev_reset = twin_reset,
	.dev_infos_get = info,
	.dev_supported_ptypes_get = supported_ptypes_get,
	.rx_queue_setup = rx_queue_setup,
	.rx_queue_release = twin_rx_queue_release,
	.tx_queue_setup = twin_tx_queue_setup,
	.tx_queue_release = twin_tx_queue_release,
	.read_clock = twin_read_clock,
	.link_update = link_update,
	.reta_update = twin_rss_reta_update,
	.reta_query = twin_rss_reta_query,
	.rss_hash_update = twin_rss_hash_update,
	.rss_hash_conf_get = twin_rss_hash_conf_get,
	.stats_get = twin_stats_get,
	.stats_reset = twin_stats_reset,
	.xstats_get_names = twin_xstats_get_names,
	.xstats_get = twin_xstats_get,
	.xstats_reset = twin_stats_reset,
	.promiscuous_enable = accept_all,
	.promiscuous_disable = accept_all,
	.allmulticast_enable = accept_all,
	.allmulticast_disable = accept_all,
	.mtu_set = mtu_set,
	.mac_addr_set = mac_addr_set,
	.flow_ops_get = flow_ops_get,
};

static int
make_nic(struct twin_port *port, const struct twin_args *args)
{
	const char *personality = args->personality != NULL ? args->personality : "ideal";
	char message[4096];

	port->nic = twin_nic_new(personality, args->seed, args->faults != NULL ? args->faults : "",
				 message, sizeof(message));
	if (port->nic == NULL) {
		TWIN_LOG(ERR, "%s\n", message);
		return -EINVAL;
	}
	port->flow_ops = twin_flow_ops;
	return twin_async_open(port);
}

/* Opens the source that the devargs name. */
static int
plug_in(struct twin_port *port, const char *devargs)
{
	struct twin_args args;
	int ret = twin_args_parse(devargs, &args);

	port->pace.mbps = args.mbps;
	port->pipeline.is_wanted = args.has_thread;
	port->pipeline.cpu = args.cpu;
	port->queues_max = args.queues;
	port->rxd_max = args.rxd;
	port->reset_after = port->left = args.reset_after;
	if (ret == 0)
		ret = make_nic(port, &args);
	if (ret == 0)
		ret = twin_reorder_open(port, &args);
	if (ret == 0 && args.eswitch != NULL)
		ret = twin_switch_open(port, &args);
	if (ret == 0 && args.wire != NULL) {
		port->source = &twin_wire_source;
		ret = twin_wire_open(port, &args);
	} else if (ret == 0 && args.replay != NULL) {
		port->source = &twin_replay_source;
		ret = twin_replay_open(port, &args);
	} else if (ret == 0 && args.lower != NULL) {
		port->source = &twin_lower_source;
		ret = twin_lower_open(port, &args);
	}
	twin_args_free(&args);
	return ret;
}

static uint32_t
queue_count(void *queue)
{
	const struct twin_rxq *rxq = queue;

	return rte_ring_count(rxq->ring);
}

static int
fill(struct rte_eth_dev *dev, const char *args)
{
	struct twin_port *port = dev->data->dev_private;
	int socket = dev->data->numa_node;
	int ret;

	port->dev = dev;
	rte_eth_random_addr(port->mac.addr_bytes);
	dev->data->mac_addrs = &port->mac;
	dev->data->promiscuous = 1;
	dev->data->all_multicast = 1;
	dev->data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS | RTE_ETH_DEV_FLOW_OPS_THREAD_SAFE;
	dev->dev_ops = &ops;
	port->source = &twin_no_source;
	port->rxq = rte_zmalloc_socket(NULL, TWIN_QUEUES_MAX * sizeof(*port->rxq),
				       RTE_CACHE_LINE_SIZE, socket);
	port->txq = rte_zmalloc_socket(NULL, TWIN_QUEUES_MAX * sizeof(*port->txq),
				       RTE_CACHE_LINE_SIZE, socket);
	if (port->rxq == NULL || port->txq == NULL)
		return -ENOMEM;
	ret = plug_in(port, args);
	/* Sources with update_link read the link when asked, and do not report changes. */
	if (port->source->update_link == NULL)
		dev->data->dev_flags |= RTE_ETH_DEV_INTR_LSC;
	dev->rx_pkt_burst = port->reset_after != 0 ? twin_reset_rx : port->source->rx;
	dev->tx_pkt_burst = port->reset_after != 0 ? twin_reset_tx : port->source->tx;
	/* For other sources, the ring does not have all packets that wait. */
	if (port->source->rx == twin_rx || port->wire != NULL)
		dev->rx_queue_count = queue_count;
	return ret;
}

/* Internal structures of DPDK may change with every release. */
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
	us_per_cycle = (double)US_PER_S / rte_get_tsc_hz();
	twin_timed_init();
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
	/* Programs may remove, or end with, a started port; its thread must end before. */
	rte_eth_dev_stop(dev->data->port_id);
	close_port(dev);
	return rte_eth_dev_release_port(dev);
}

static struct rte_vdev_driver twin_driver = {
	.probe = probe,
	.remove = remove_port,
};

RTE_PMD_REGISTER_VDEV(net_twin, twin_driver);
