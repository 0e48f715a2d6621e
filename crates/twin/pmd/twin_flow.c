/* SPDX-License-Identifier: BSD-3-Clause */
/* rte_flow: takes a rule apart for the model, and says the model's refusal as a driver would. */

#include <errno.h>
#include <string.h>

#include <rte_flow_driver.h>

#include "twin.h"

/* As many as any pattern or action list of sense has. */
#define ITEMS_MAX 32

/* What of an item is header bytes, and the mask where the rule gives none. */
struct layout {
	enum rte_flow_item_type type;
	enum twin_proto proto;
	uint32_t len;
	const void *mask;
};

/* Every one of these items begins with the header as it is in a packet, but VLAN. */
static const struct layout layouts[] = {
	{ RTE_FLOW_ITEM_TYPE_ETH, TWIN_PROTO_ETH, 14, &rte_flow_item_eth_mask },
	{ RTE_FLOW_ITEM_TYPE_VLAN, TWIN_PROTO_VLAN, 4, &rte_flow_item_vlan_mask },
	{ RTE_FLOW_ITEM_TYPE_IPV4, TWIN_PROTO_IPV4, 20, &rte_flow_item_ipv4_mask },
	{ RTE_FLOW_ITEM_TYPE_IPV6, TWIN_PROTO_IPV6, 40, &rte_flow_item_ipv6_mask },
	{ RTE_FLOW_ITEM_TYPE_TCP, TWIN_PROTO_TCP, 20, &rte_flow_item_tcp_mask },
	{ RTE_FLOW_ITEM_TYPE_UDP, TWIN_PROTO_UDP, 8, &rte_flow_item_udp_mask },
	{ RTE_FLOW_ITEM_TYPE_SCTP, TWIN_PROTO_SCTP, 12, &rte_flow_item_sctp_mask },
	{ RTE_FLOW_ITEM_TYPE_ICMP, TWIN_PROTO_ICMP, 8, &rte_flow_item_icmp_mask },
	{ RTE_FLOW_ITEM_TYPE_ICMP6, TWIN_PROTO_ICMP6, 4, &rte_flow_item_icmp6_mask },
};

/* A rule taken apart. The place of an item here is not that in the pattern, which has VOID ones. */
struct parts {
	struct twin_rule rule;
	struct twin_item items[ITEMS_MAX];
	struct twin_action actions[ITEMS_MAX];
	const struct rte_flow_item *item_of[ITEMS_MAX];
	const struct rte_flow_action *action_of[ITEMS_MAX];
};

static const struct layout *
layout_of(enum rte_flow_item_type type)
{
	unsigned int i;

	for (i = 0; i < RTE_DIM(layouts); i++) {
		if (layouts[i].type == type)
			return &layouts[i];
	}
	return NULL;
}

/* The bit that Ethernet and VLAN items have beside the header. */
static void
take_has_vlan(const struct rte_flow_item *item, const void *mask, struct twin_item *to)
{
	if (item->type == RTE_FLOW_ITEM_TYPE_ETH) {
		to->has_vlan = ((const struct rte_flow_item_eth *)item->spec)->has_vlan;
		to->vlan_matters = ((const struct rte_flow_item_eth *)mask)->has_vlan;
	} else if (item->type == RTE_FLOW_ITEM_TYPE_VLAN) {
		to->has_vlan = ((const struct rte_flow_item_vlan *)item->spec)->has_more_vlan;
		to->vlan_matters = ((const struct rte_flow_item_vlan *)mask)->has_more_vlan;
	}
}

static int
take_item(const struct rte_flow_item *item, struct twin_item *to, struct rte_flow_error *error)
{
	const struct layout *layout = layout_of(item->type);
	const void *mask;

	memset(to, 0, sizeof(*to));
	if (layout == NULL)
		return 0; /* the model refuses TWIN_PROTO_NONE */
	to->proto = layout->proto;
	if (item->last != NULL)
		return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_LAST, item,
					  "ranges are not supported");
	if (item->spec == NULL) {
		if (item->mask != NULL)
			return rte_flow_error_set(error, EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_SPEC,
						  item, "a mask without a spec");
		return 0;
	}
	mask = item->mask != NULL ? item->mask : layout->mask;
	memcpy(to->spec, item->spec, layout->len);
	memcpy(to->mask, mask, layout->len);
	take_has_vlan(item, mask, to);
	return 0;
}

static void
take_action(const struct rte_flow_action *action, struct twin_action *to)
{
	const struct rte_flow_action_rss *rss;

	memset(to, 0, sizeof(*to)); /* the model refuses TWIN_ACTION_NONE */
	switch (action->type) {
	case RTE_FLOW_ACTION_TYPE_MARK:
		to->kind = TWIN_ACTION_MARK;
		to->value = ((const struct rte_flow_action_mark *)action->conf)->id;
		break;
	case RTE_FLOW_ACTION_TYPE_FLAG:
		to->kind = TWIN_ACTION_FLAG;
		break;
	case RTE_FLOW_ACTION_TYPE_QUEUE:
		to->kind = TWIN_ACTION_QUEUE;
		to->value = ((const struct rte_flow_action_queue *)action->conf)->index;
		break;
	case RTE_FLOW_ACTION_TYPE_DROP:
		to->kind = TWIN_ACTION_DROP;
		break;
	case RTE_FLOW_ACTION_TYPE_PASSTHRU:
		to->kind = TWIN_ACTION_PASSTHRU;
		break;
	case RTE_FLOW_ACTION_TYPE_COUNT:
		to->kind = TWIN_ACTION_COUNT;
		break;
	case RTE_FLOW_ACTION_TYPE_RSS:
		rss = action->conf;
		to->kind = TWIN_ACTION_RSS;
		to->value = twin_rss_types(rss->types);
		to->queues = rss->queue;
		to->queue_count = rss->queue_num;
		break;
	default:
		break;
	}
}

/* What can be said only here, where the port is known. */
static const char *
trouble_of(const struct rte_flow_action *action, const struct twin_port *port)
{
	const uint16_t queues = port->dev->data->nb_rx_queues;
	const struct rte_flow_action_rss *rss = action->conf;
	const struct rte_flow_action_queue *queue = action->conf;
	uint32_t i;

	if (action->conf == NULL)
		return action->type == RTE_FLOW_ACTION_TYPE_MARK ||
		       action->type == RTE_FLOW_ACTION_TYPE_QUEUE ||
		       action->type == RTE_FLOW_ACTION_TYPE_RSS ? "the action needs a value" : NULL;
	if (action->type == RTE_FLOW_ACTION_TYPE_QUEUE && queue->index >= queues)
		return "queue index out of range";
	if (action->type != RTE_FLOW_ACTION_TYPE_RSS)
		return NULL;
	if (rss->func != RTE_ETH_HASH_FUNCTION_DEFAULT &&
	    rss->func != RTE_ETH_HASH_FUNCTION_TOEPLITZ)
		return "only Toeplitz is supported";
	if (rss->level > 1)
		return "only the outermost headers are hashed";
	if (rss->types & ~twin_rss_supported())
		return "a type that is not supported";
	if (rss->key_len != 0 && (rss->key_len != TWIN_RSS_KEY_LEN ||
				  memcmp(rss->key, port->rss.key, TWIN_RSS_KEY_LEN) != 0))
		return "another key than that of the port";
	for (i = 0; i < rss->queue_num; i++) {
		if (rss->queue[i] >= queues)
			return "queue index out of range";
	}
	return NULL;
}

static int
take_items(struct parts *parts, const struct rte_flow_item *item, struct rte_flow_error *error)
{
	uint32_t count = 0;
	int ret;

	for (; item->type != RTE_FLOW_ITEM_TYPE_END; item++) {
		if (item->type == RTE_FLOW_ITEM_TYPE_VOID)
			continue;
		if (count == ITEMS_MAX)
			return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_NUM,
						  item, "too many items");
		ret = take_item(item, &parts->items[count], error);
		if (ret != 0)
			return ret;
		parts->item_of[count++] = item;
	}
	parts->rule.item_count = count;
	return 0;
}

static int
take_actions(struct parts *parts, const struct rte_flow_action *action,
	     const struct twin_port *port, struct rte_flow_error *error)
{
	const char *trouble;
	uint32_t count = 0;

	for (; action->type != RTE_FLOW_ACTION_TYPE_END; action++) {
		if (action->type == RTE_FLOW_ACTION_TYPE_VOID)
			continue;
		if (count == ITEMS_MAX)
			return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION_NUM,
						  action, "too many actions");
		trouble = trouble_of(action, port);
		if (trouble != NULL)
			return rte_flow_error_set(error, EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF,
						  action, trouble);
		take_action(action, &parts->actions[count]);
		parts->action_of[count++] = action;
	}
	parts->rule.action_count = count;
	return 0;
}

static int
take_apart(struct parts *parts, const struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
	   const struct rte_flow_item pattern[], const struct rte_flow_action actions[],
	   struct rte_flow_error *error)
{
	int ret;

	parts->rule = (struct twin_rule){
		.group = attr->group,
		.priority = attr->priority,
		.direction = (attr->ingress ? TWIN_INGRESS : 0) |
			     (attr->egress ? TWIN_EGRESS : 0) |
			     (attr->transfer ? TWIN_TRANSFER : 0),
		.items = parts->items,
		.actions = parts->actions,
	};
	ret = take_items(parts, pattern, error);
	if (ret == 0)
		ret = take_actions(parts, actions, dev->data->dev_private, error);
	return ret;
}

/* Says a refusal as a driver would. */
static int
refuse(const struct twin_refusal *refusal, const struct parts *parts,
       struct rte_flow_error *error)
{
	enum rte_flow_error_type type = RTE_FLOW_ERROR_TYPE_UNSPECIFIED;
	const void *cause = NULL;

	switch (refusal->cause) {
	case TWIN_CAUSE_HANDLE:
		type = RTE_FLOW_ERROR_TYPE_HANDLE;
		break;
	case TWIN_CAUSE_GROUP:
		type = RTE_FLOW_ERROR_TYPE_ATTR_GROUP;
		break;
	case TWIN_CAUSE_INGRESS:
		type = RTE_FLOW_ERROR_TYPE_ATTR_INGRESS;
		break;
	case TWIN_CAUSE_EGRESS:
		type = RTE_FLOW_ERROR_TYPE_ATTR_EGRESS;
		break;
	case TWIN_CAUSE_TRANSFER:
		type = RTE_FLOW_ERROR_TYPE_ATTR_TRANSFER;
		break;
	case TWIN_CAUSE_ITEM:
		type = RTE_FLOW_ERROR_TYPE_ITEM;
		cause = parts->item_of[refusal->place];
		break;
	case TWIN_CAUSE_ACTIONS:
		type = RTE_FLOW_ERROR_TYPE_ACTION_NUM;
		break;
	case TWIN_CAUSE_ACTION:
		type = RTE_FLOW_ERROR_TYPE_ACTION;
		cause = parts != NULL ? parts->action_of[refusal->place] : NULL;
		break;
	}
	return rte_flow_error_set(error, refusal->error, type, cause, refusal->message);
}

static const struct twin_nic *
nic_of(const struct rte_eth_dev *dev)
{
	return ((const struct twin_port *)dev->data->dev_private)->nic;
}

static int
validate(struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
	 const struct rte_flow_item pattern[], const struct rte_flow_action actions[],
	 struct rte_flow_error *error)
{
	struct twin_refusal refusal;
	struct parts parts;
	int ret = take_apart(&parts, dev, attr, pattern, actions, error);

	if (ret != 0)
		return ret;
	if (twin_flow_validate(nic_of(dev), &parts.rule, &refusal) == 0)
		return refuse(&refusal, &parts, error);
	return 0;
}

/* A rule's handle stands for its address: it is never zero, and nobody looks behind it. */
static struct rte_flow *
create(struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
       const struct rte_flow_item pattern[], const struct rte_flow_action actions[],
       struct rte_flow_error *error)
{
	struct twin_refusal refusal;
	struct parts parts;
	uint64_t handle;

	if (take_apart(&parts, dev, attr, pattern, actions, error) != 0)
		return NULL;
	handle = twin_flow_create(nic_of(dev), &parts.rule, &refusal);
	if (handle == 0)
		refuse(&refusal, &parts, error);
	return (struct rte_flow *)(uintptr_t)handle;
}

static int
destroy(struct rte_eth_dev *dev, struct rte_flow *flow, struct rte_flow_error *error)
{
	struct twin_refusal refusal;

	if (twin_flow_destroy(nic_of(dev), (uintptr_t)flow, &refusal) == 0)
		return refuse(&refusal, NULL, error);
	return 0;
}

static int
flush(struct rte_eth_dev *dev, struct rte_flow_error *error __rte_unused)
{
	twin_flow_flush(nic_of(dev));
	return 0;
}

static int
query(struct rte_eth_dev *dev, struct rte_flow *flow, const struct rte_flow_action *action,
      void *data, struct rte_flow_error *error)
{
	struct rte_flow_query_count *count = data;
	struct twin_refusal refusal;
	uint64_t tally[2];

	if (action->type != RTE_FLOW_ACTION_TYPE_COUNT)
		return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, action,
					  "only count can be queried");
	if (twin_flow_query(nic_of(dev), (uintptr_t)flow, count->reset, tally, &refusal) == 0)
		return refuse(&refusal, NULL, error);
	count->hits_set = 1;
	count->bytes_set = 1;
	count->hits = tally[0];
	count->bytes = tally[1];
	return 0;
}

const struct rte_flow_ops twin_flow_ops = {
	.validate = validate,
	.create = create,
	.destroy = destroy,
	.flush = flush,
	.query = query,
};
