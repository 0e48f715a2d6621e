/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports aged rules: by an event (RTE_ETH_EVENT_FLOW_AGED), and in a list. */

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_flow_driver.h>

#include "twin.h"

/* Timeouts are whole seconds, so half a second is fine enough. */
#define PERIOD_US (US_PER_S / 2)

static void
look(void *arg)
{
	struct twin_port *port = arg;
	struct rte_eth_dev *dev = port->dev;
	bool is_news = twin_nic_is_ageing_news(port->nic, twin_now_us());

	rte_eal_alarm_set(PERIOD_US, look, port);
	/* Last, because the callback may close the port. */
	if (is_news)
		rte_eth_dev_callback_process(dev, RTE_ETH_EVENT_FLOW_AGED, NULL);
}

/* Starts the checks for aged rules; called for each new rule with an age. */
void
twin_age_start(struct twin_port *port)
{
	if (!__atomic_exchange_n(&port->is_ageing, true, __ATOMIC_RELAXED))
		rte_eal_alarm_set(PERIOD_US, look, port);
}

/* Stops the checks; none is running when it returns. */
void
twin_age_stop(struct twin_port *port)
{
	if (__atomic_exchange_n(&port->is_ageing, false, __ATOMIC_RELAXED))
		rte_eal_alarm_cancel(look, port);
}

int
twin_age_list(struct rte_eth_dev *dev, void **contexts, uint32_t room,
	      struct rte_flow_error *error __rte_unused)
{
	const struct twin_port *port = dev->data->dev_private;
	uint32_t count;

	static_assert(sizeof(void *) == sizeof(uint64_t), "contexts are pointers");
	count = twin_flow_aged(port->nic, twin_now_us(), (uint64_t *)contexts, room);
	return room == 0 ? count : RTE_MIN(count, room);
}
