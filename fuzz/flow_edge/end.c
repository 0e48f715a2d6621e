/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdio.h>
#include <stdlib.h>

#include <rte_bus_vdev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "draw.h"
#include "end.h"

#define RETA_MAX 512

/* Newer headers want every result looked at. */
static void
refused_or_not(int result __rte_unused)
{
}

static void
forget(struct end *end, uint32_t place)
{
	end->gone[end->gone_count++ % GONE_MAX] = end->taken[place].flow;
	end->taken[place] = end->taken[--end->taken_count];
}

static bool
has(const struct end *end, const struct rte_flow *flow)
{
	uint32_t i;

	for (i = 0; i < end->taken_count; i++) {
		if (end->taken[i].flow == flow)
			return true;
	}
	return false;
}

bool
end_gives(const struct end *end, uint32_t mark)
{
	uint32_t i;

	for (i = 0; i < end->taken_count; i++) {
		if (end->taken[i].marks && end->taken[i].mark == mark)
			return true;
	}
	return false;
}

void
end_start(struct end *end)
{
	int ret = rte_eth_dev_start(end->id);

	if (ret != 0)
		wrong("%s does not start: %s", end->name, strerror(-ret));
	end->is_started = true;
}

void
end_stop(struct end *end)
{
	uint32_t i;

	rte_eth_dev_stop(end->id);
	end->is_started = false;
	for (i = 0; i < end->taken_count; i++)
		end->taken[i].may_be_gone = true;
}

/* A key of some length, to be freed. */
static void
draw_key(struct rte_eth_rss_conf *conf)
{
	static const uint8_t lens[] = { 40, 40, 40, 1, 13, 39, 41, 52 };

	if (draw_percent(30))
		return;
	conf->rss_key_len = lens[draw(RTE_DIM(lens))];
	conf->rss_key = exactly(conf->rss_key_len);
	draw_bytes(conf->rss_key, conf->rss_key_len);
	/* Old programs leave it out: there are 40 bytes then. */
	if (conf->rss_key_len == 40 && draw_percent(20))
		conf->rss_key_len = 0;
}

static void
setup_queues(struct end *end, struct rte_mempool *pool)
{
	uint16_t queue, descriptors;
	int ret = 0;

	for (queue = 0; ret == 0 && queue < end->queues; queue += draw_percent(95)) {
		descriptors = 64 + draw(200);
		ret = rte_eth_rx_queue_setup(end->id, queue, descriptors, SOCKET_ID_ANY, NULL,
					     pool);
		if (ret == 0)
			ret = rte_eth_tx_queue_setup(end->id, queue, descriptors, SOCKET_ID_ANY,
						     NULL);
	}
	if (ret != 0)
		wrong("%s: queues: %s", end->name, strerror(-ret));
}

void
end_configure(struct end *end, struct rte_mempool *pool)
{
	struct rte_eth_conf conf = { 0 };
	struct rte_eth_rss_conf *rss = &conf.rx_adv_conf.rss_conf;
	int ret;

	if (end->is_started)
		end_stop(end);
	end->queues = draw_percent(90) ? 1 + draw(8) : 1 + draw(64);
	if (draw_percent(70)) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		rss->rss_hf = draw_percent(70) ? RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP : draw(1 << 20);
		draw_key(rss);
	}
	ret = rte_eth_dev_configure(end->id, end->queues, end->queues, &conf);
	free(rss->rss_key);
	if (ret != 0) {
		conf = (struct rte_eth_conf){ 0 };
		ret = rte_eth_dev_configure(end->id, end->queues, end->queues, &conf);
	}
	if (ret != 0)
		wrong("%s: %u queues: %s", end->name, end->queues, strerror(-ret));
	setup_queues(end, pool);
}

void
end_open(struct end *end, struct rte_mempool *pool)
{
	end->is_started = false;
	end->taken_count = end->gone_count = 0;
	if (rte_vdev_init(end->name, end->devargs) != 0 ||
	    rte_eth_dev_get_port_by_name(end->name, &end->id) != 0)
		wrong("there is no port %s,%s", end->name, end->devargs);
	effort.ports++;
	end_configure(end, pool);
	end_start(end);
}

/* As programs do: most close the port, some only pull the device out, even in use. */
void
end_close(struct end *end)
{
	if (end->is_started && draw_percent(80))
		end_stop(end);
	if (!end->is_started && draw_percent(50) && rte_eth_dev_close(end->id) != 0)
		wrong("%s does not close", end->name);
	if (rte_vdev_uninit(end->name) != 0)
		wrong("%s cannot be removed", end->name);
}

static void
ask_rss(struct end *end)
{
	struct rte_eth_rss_conf conf = { .rss_hf = draw(1 << 20) };
	static const uint16_t sizes[] = { 128, 128, 1, 64, 127, 256, 512 };
	uint16_t i, size = sizes[draw(RTE_DIM(sizes))];
	uint16_t group_count = (size + RTE_ETH_RETA_GROUP_SIZE - 1) / RTE_ETH_RETA_GROUP_SIZE;
	struct rte_eth_rss_reta_entry64 *groups = exactly(group_count * sizeof(*groups));

	draw_key(&conf);
	if (draw_percent(50))
		refused_or_not(rte_eth_dev_rss_hash_update(end->id, &conf));
	else
		refused_or_not(rte_eth_dev_rss_hash_conf_get(end->id, &conf));
	free(conf.rss_key);
	for (i = 0; i < group_count; i++) {
		groups[i].mask = draw_percent(80) ? UINT64_MAX : (uint64_t)draw_bits() << 16;
		for (uint16_t j = 0; j < RTE_ETH_RETA_GROUP_SIZE; j++)
			groups[i].reta[j] = draw(end->queues);
	}
	if (draw_percent(50))
		refused_or_not(rte_eth_dev_rss_reta_update(end->id, groups, size));
	else
		refused_or_not(rte_eth_dev_rss_reta_query(end->id, groups, size));
	free(groups);
}

static void
ask_flow(struct end *end)
{
	uint32_t count = draw_few(8);
	void **contexts = exactly(count * sizeof(*contexts));
	FILE *nowhere = fopen("/dev/null", "w");
	struct rte_flow_error error;

	refused_or_not(rte_flow_isolate(end->id, draw(2), &error));
	refused_or_not(rte_flow_get_aged_flows(end->id, contexts, count, &error));
	if (nowhere != NULL) {
		refused_or_not(rte_flow_dev_dump(end->id, NULL, nowhere, &error));
		fclose(nowhere);
	}
	free(contexts);
}

static void
ask_port(struct end *end)
{
	struct rte_ether_addr mac = { .addr_bytes = { 2, 0, 0, 0, 0, draw(256) } };
	uint32_t count = draw(40);
	struct rte_eth_xstat *xstats = exactly(count * sizeof(*xstats));
	struct rte_eth_xstat_name *names = exactly(count * sizeof(*names));
	uint32_t *types = exactly(4 * sizeof(*types));
	struct rte_eth_link link;

	refused_or_not(rte_eth_xstats_get(end->id, count != 0 ? xstats : NULL, count));
	refused_or_not(rte_eth_xstats_get_names(end->id, count != 0 ? names : NULL, count));
	refused_or_not(rte_eth_dev_get_supported_ptypes(end->id, RTE_PTYPE_ALL_MASK, types, 4));
	refused_or_not(rte_eth_dev_default_mac_addr_set(end->id, &mac));
	refused_or_not(rte_eth_dev_set_mtu(end->id, 68 + draw(9000)));
	refused_or_not(rte_eth_link_get_nowait(end->id, &link));
	refused_or_not(draw_percent(50) ? rte_eth_stats_reset(end->id) :
					  rte_eth_xstats_reset(end->id));
	free(xstats);
	free(names);
	free(types);
}

void
end_ask(struct end *end)
{
	switch (draw(3)) {
	case 0:
		ask_rss(end);
		break;
	case 1:
		ask_flow(end);
		break;
	default:
		ask_port(end);
		break;
	}
}

/* An error names something of the rule, or nothing; all of it can be read. */
static void
check_error(const struct end *end, const struct rule *rule, const struct rte_flow_error *error)
{
	const struct rte_flow_action *action;
	const struct rte_flow_item *item;

	if (error->message != NULL && strlen(error->message) == 0)
		wrong("%s refuses without a word", end->name);
	if (error->cause == NULL || error->cause == rule->attr)
		return;
	for (item = rule->items; error->cause != item; item++) {
		if (item->type == RTE_FLOW_ITEM_TYPE_END)
			break;
	}
	for (action = rule->actions; error->cause != item && error->cause != action; action++) {
		if (action->type == RTE_FLOW_ACTION_TYPE_END)
			wrong("%s refuses for what is not in the rule: %s", end->name,
			      error->message);
	}
}

void
end_create(struct end *end, const struct rule *rule)
{
	struct rte_flow_error error = { 0 }, *to = draw_percent(90) ? &error : NULL;
	struct rte_flow *flow;

	effort.tried++;
	if (draw_percent(50) &&
	    rte_flow_validate(end->id, rule->attr, rule->items, rule->actions, to) != 0)
		check_error(end, rule, &error);
	if (end->taken_count == TAKEN_MAX)
		end_destroy(end);
	error = (struct rte_flow_error){ 0 };
	rte_errno = 0;
	flow = rte_flow_create(end->id, rule->attr, rule->items, rule->actions, to);
	if (flow == NULL) {
		if (rte_errno <= 0)
			wrong("%s refuses a rule without rte_errno", end->name);
		check_error(end, rule, &error);
		return;
	}
	effort.taken++;
	if (has(end, flow))
		wrong("%s gives two rules one handle", end->name);
	end->taken[end->taken_count++] = (struct taken){
		.flow = flow, .marks = rule->marks, .mark = rule->mark,
	};
}

void
end_destroy(struct end *end)
{
	uint32_t place;
	struct rte_flow_error error;
	int ret;

	if (end->taken_count == 0)
		return;
	place = draw(end->taken_count);
	ret = rte_flow_destroy(end->id, end->taken[place].flow, &error);
	if (ret != 0 && !end->taken[place].may_be_gone)
		wrong("%s does not destroy a rule that it took", end->name);
	forget(end, place);
}

/* A rule that is gone, that of the other port, none at all, and any number. */
void
end_destroy_none(struct end *end, const struct end *other)
{
	struct rte_flow *flow = NULL;
	struct rte_flow_query_count *count = exactly(sizeof(*count));
	const struct rte_flow_action action = { .type = RTE_FLOW_ACTION_TYPE_COUNT };
	struct rte_flow_error error;
	uint32_t kind = draw(4);

	if (kind == 0 && end->gone_count != 0)
		flow = end->gone[draw(RTE_MIN(end->gone_count, (uint32_t)GONE_MAX))];
	else if (kind == 1 && other->taken_count != 0)
		flow = other->taken[draw(other->taken_count)].flow;
	else if (kind == 2)
		flow = (struct rte_flow *)((uintptr_t)draw_number() << 32 | draw_number());
	if (!has(end, flow) &&
	    (rte_flow_query(end->id, flow, &action, count, &error) == 0 ||
	     rte_flow_destroy(end->id, flow, &error) == 0))
		wrong("%s knows a rule that it does not have", end->name);
	free(count);
}

void
end_query(struct end *end)
{
	static const int types[] = {
		RTE_FLOW_ACTION_TYPE_COUNT, RTE_FLOW_ACTION_TYPE_COUNT, RTE_FLOW_ACTION_TYPE_AGE,
		RTE_FLOW_ACTION_TYPE_RSS, RTE_FLOW_ACTION_TYPE_MARK,
	};
	struct rte_flow_action actions[2] = { { .type = types[draw(RTE_DIM(types))] } };
	size_t size = sizeof(struct rte_flow_query_count);
	struct rte_flow_error error;
	void *data;

	if (end->taken_count == 0)
		return;
	if (actions[0].type == RTE_FLOW_ACTION_TYPE_AGE)
		size = sizeof(struct rte_flow_query_age);
	else if (actions[0].type == RTE_FLOW_ACTION_TYPE_RSS)
		size = sizeof(struct rte_flow_action_rss);
	data = exactly(size);
	if (actions[0].type == RTE_FLOW_ACTION_TYPE_COUNT)
		((struct rte_flow_query_count *)data)->reset = draw(2);
	refused_or_not(rte_flow_query(end->id, end->taken[draw(end->taken_count)].flow, actions,
				      data, &error));
	free(data);
}

void
end_flush(struct end *end)
{
	struct rte_flow_error error;

	if (rte_flow_flush(end->id, &error) != 0)
		return;
	while (end->taken_count > 0)
		forget(end, 0);
}
