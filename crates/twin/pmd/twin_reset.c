/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements ports that reset themselves after a number of packets (reset_after=). */

#include <errno.h>

#include <rte_alarm.h>

#include "twin_timed.h"

/* Resets the NIC and reports it. Runs in the interrupt thread, like the event of a real NIC. */
static void
tell(void *arg)
{
	struct twin_port *port = arg;

	twin_nic_go_down(port->nic);
	twin_async_note_strays(port);
	/* Last, because the callback may close the port. */
	rte_eth_dev_callback_process(port->dev, RTE_ETH_EVENT_INTR_RESET, NULL);
}

/* True if one of these packets is the last before the port resets itself. */
static inline bool
is_last(struct twin_port *port, uint16_t packets)
{
	int64_t left = __atomic_fetch_sub(&port->left, packets, __ATOMIC_RELAXED);

	return left > 0 && left <= packets;
}

uint16_t
twin_reset_rx(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_port *port = ((struct twin_rxq *)queue)->port;
	uint16_t got;

	if (__atomic_load_n(&port->is_down, __ATOMIC_RELAXED))
		return 0;
	got = port->source->rx(queue, packets, count);
	if (unlikely(got != 0 && is_last(port, got))) {
		__atomic_store_n(&port->is_down, true, __ATOMIC_RELAXED);
		rte_eal_alarm_set(1, tell, port);
	}
	return got;
}

/* A port that is down sends nothing and frees nothing. */
uint16_t
twin_reset_tx(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	struct twin_port *port = ((struct twin_txq *)queue)->port;

	if (__atomic_load_n(&port->is_down, __ATOMIC_RELAXED))
		return 0;
	return port->source->tx(queue, packets, count);
}

/* Brings the port back as new, without queues. ethdev has stopped it before. */
int
twin_reset(struct rte_eth_dev *dev)
{
	struct twin_port *port = dev->data->dev_private;
	bool is_back;
	uint16_t i;

	twin_reset_stop(port);
	is_back = twin_nic_bring_back(port->nic);
	twin_async_forget(port);
	__atomic_store_n(&port->is_down, !is_back, __ATOMIC_RELAXED);
	if (!is_back)
		return -EIO;
	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		twin_rx_queue_release(dev, i);
		dev->data->rx_queues[i] = NULL;
	}
	for (i = 0; i < dev->data->nb_tx_queues; i++) {
		twin_tx_queue_release(dev, i);
		dev->data->tx_queues[i] = NULL;
	}
	port->left = port->reset_after;
	port->goes_on = true;
	return 0;
}

void
twin_reset_stop(struct twin_port *port)
{
	if (port->reset_after != 0)
		rte_eal_alarm_cancel(tell, port);
}
