/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules with an age: the event that says that some are aged, and the list of them. */

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_flow_driver.h>

#include "twin.h"

/* The grain of ages is a second. */
#define PERIOD_US (US_PER_S / 2)

static void
look(void *arg)
{
	struct twin_port *port = arg;
	struct rte_eth_dev *dev = port->dev;
	bool is_news = twin_nic_is_ageing_news(port->nic, twin_now_us());

	rte_eal_alarm_set(PERIOD_US, look, port);
	/* The last that happens: who is told may close the port. */
	if (is_news)
		rte_eth_dev_callback_process(dev, RTE_ETH_EVENT_FLOW_AGED, NULL);
}

/* To be called when there is a rule with an age. */
void
twin_age_start(struct twin_port *port)
{
	if (!__atomic_exchange_n(&port->is_ageing, true, __ATOMIC_RELAXED))
		rte_eal_alarm_set(PERIOD_US, look, port);
}

/* Nobody looks at the port any more when it returns. */
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
