/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements statistics of ethdev, from the counters of queues and model. */

#include <stdio.h>

#include "twin.h"

static uint64_t
load(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void
zero(uint64_t *counter)
{
	__atomic_store_n(counter, 0, __ATOMIC_RELAXED);
}

int
twin_stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
{
	struct twin_port *port = dev->data->dev_private;
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		const struct twin_rxq *rxq = &port->rxq[i];

		stats->ipackets += rxq->packets;
		stats->ibytes += rxq->bytes;
		stats->imissed += load(&rxq->missed);
		if (i < RTE_ETHDEV_QUEUE_STAT_CNTRS) {
			stats->q_ipackets[i] = rxq->packets;
			stats->q_ibytes[i] = rxq->bytes;
			stats->q_errors[i] = load(&rxq->missed);
		}
	}
	stats->imissed += load(&port->no_queue) + load(&port->no_room);
	for (i = 0; i < dev->data->nb_tx_queues; i++) {
		const struct twin_txq *txq = &port->txq[i];

		stats->opackets += txq->packets;
		stats->obytes += txq->bytes;
		stats->oerrors += txq->errors;
		if (i < RTE_ETHDEV_QUEUE_STAT_CNTRS) {
			stats->q_opackets[i] = txq->packets;
			stats->q_obytes[i] = txq->bytes;
		}
	}
	if (port->source->add_stats != NULL)
		port->source->add_stats(port, stats);
	return 0;
}

int
twin_stats_reset(struct rte_eth_dev *dev)
{
	struct twin_port *port = dev->data->dev_private;
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		port->rxq[i].packets = 0;
		port->rxq[i].bytes = 0;
		zero(&port->rxq[i].missed);
	}
	zero(&port->rule_drops);
	zero(&port->no_queue);
	zero(&port->no_room);
	zero(&port->model_cycles);
	zero(&port->model_packets);
	zero(&port->switched);
	zero(&port->switch_drops);
	zero(&port->carried);
	zero(&port->carried_bytes);
	for (i = 0; i < dev->data->nb_tx_queues; i++) {
		port->txq[i].packets = 0;
		port->txq[i].bytes = 0;
		port->txq[i].errors = 0;
	}
	if (port->source->reset_stats != NULL)
		port->source->reset_stats(port);
	return 0;
}

/* Counters that struct rte_eth_stats has no field for. */
static const struct {
	const char *name;
	size_t offset;
} extended[] = {
	{ "rx_rule_drops", offsetof(struct twin_port, rule_drops) },
	{ "rx_switch_packets", offsetof(struct twin_port, switched) },
	{ "rx_switch_drops", offsetof(struct twin_port, switch_drops) },
	{ "tx_switch_packets", offsetof(struct twin_port, carried) },
	{ "tx_switch_bytes", offsetof(struct twin_port, carried_bytes) },
	/* TSC cycles for classifying, which a hardware NIC would not cost. */
	{ "model_cycles", offsetof(struct twin_port, model_cycles) },
	{ "model_packets", offsetof(struct twin_port, model_packets) },
};

int
twin_xstats_get_names(struct rte_eth_dev *dev __rte_unused, struct rte_eth_xstat_name *names,
		      unsigned int size)
{
	unsigned int i;

	for (i = 0; names != NULL && i < RTE_MIN(size, RTE_DIM(extended)); i++)
		snprintf(names[i].name, sizeof(names[i].name), "%s", extended[i].name);
	return RTE_DIM(extended);
}

int
twin_xstats_get(struct rte_eth_dev *dev, struct rte_eth_xstat *xstats, unsigned int size)
{
	unsigned int i;

	for (i = 0; xstats != NULL && i < RTE_MIN(size, RTE_DIM(extended)); i++) {
		xstats[i].id = i;
		xstats[i].value = load(RTE_PTR_ADD(dev->data->dev_private, extended[i].offset));
	}
	return RTE_DIM(extended);
}
