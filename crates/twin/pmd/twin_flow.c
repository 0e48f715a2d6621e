/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements rte_flow: converts rules for the model, and its refusals into rte_flow_error. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_flow_driver.h>

#include "twin.h"

/* The model has the numbers of 22.11; later releases only add some. */
static_assert(RTE_FLOW_ERROR_TYPE_HANDLE == 2 && RTE_FLOW_ERROR_TYPE_ITEM == 13 &&
	      RTE_FLOW_ERROR_TYPE_STATE == 17, "enum rte_flow_error_type");

/* The protocol of an item in the model, and the default mask. */
struct layout {
	enum rte_flow_item_type type;
	enum twin_proto proto;
	const void *mask;
};

/* rte_flow.h has no default mask for the fragment header. */
static const uint8_t no_mask[8];

/* All these items begin with the header as it is in a packet. */
static const struct layout layouts[] = {
	{ RTE_FLOW_ITEM_TYPE_ETH, TWIN_PROTO_ETH, &rte_flow_item_eth_mask },
	{ RTE_FLOW_ITEM_TYPE_VLAN, TWIN_PROTO_VLAN, &rte_flow_item_vlan_mask },
	{ RTE_FLOW_ITEM_TYPE_IPV4, TWIN_PROTO_IPV4, &rte_flow_item_ipv4_mask },
	{ RTE_FLOW_ITEM_TYPE_IPV6, TWIN_PROTO_IPV6, &rte_flow_item_ipv6_mask },
	{ RTE_FLOW_ITEM_TYPE_TCP, TWIN_PROTO_TCP, &rte_flow_item_tcp_mask },
	{ RTE_FLOW_ITEM_TYPE_UDP, TWIN_PROTO_UDP, &rte_flow_item_udp_mask },
	{ RTE_FLOW_ITEM_TYPE_SCTP, TWIN_PROTO_SCTP, &rte_flow_item_sctp_mask },
	{ RTE_FLOW_ITEM_TYPE_ICMP, TWIN_PROTO_ICMP, &rte_flow_item_icmp_mask },
	{ RTE_FLOW_ITEM_TYPE_ICMP6, TWIN_PROTO_ICMP6, &rte_flow_item_icmp6_mask },
	{ RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT, TWIN_PROTO_IPV6_FRAG, no_mask },
	{ RTE_FLOW_ITEM_TYPE_VXLAN, TWIN_PROTO_VXLAN, &rte_flow_item_vxlan_mask },
	{ RTE_FLOW_ITEM_TYPE_GTPU, TWIN_PROTO_GTPU, &rte_flow_item_gtp_mask },
	{ RTE_FLOW_ITEM_TYPE_GRE, TWIN_PROTO_GRE, &rte_flow_item_gre_mask },
};

/* The header of a VLAN item begins behind the EtherType of the tag: TCI, then the next type. */
static_assert(offsetof(struct rte_flow_item_vlan, inner_type) == 2, "rte_flow_item_vlan");

/*
 * A rule in the types of the model. VOID items and ports are left out, so indexes differ from those
 * of the pattern. `item_of` and `action_of` end with END.
 */
struct parts {
	struct twin_rule rule;
	struct twin_item items[TWIN_PARTS_MAX];
	struct twin_action actions[TWIN_PARTS_MAX];
	const struct rte_flow_item *item_of[TWIN_PARTS_MAX + 1];
	const struct rte_flow_action *action_of[TWIN_PARTS_MAX + 1];
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

bool
twin_flow_knows(const struct rte_flow_item *item)
{
	return item->type == RTE_FLOW_ITEM_TYPE_VOID || twin_switch_knows(item->type) ||
	       layout_of(item->type) != NULL;
}

/* Converts the bit that some items have behind the header, such as has_vlan. */
static void
take_follower(const struct rte_flow_item *item, const void *mask, struct twin_item *to)
{
	if (item->type == RTE_FLOW_ITEM_TYPE_ETH) {
		to->is_followed = ((const struct rte_flow_item_eth *)item->spec)->has_vlan;
		to->follower_matters = ((const struct rte_flow_item_eth *)mask)->has_vlan;
	} else if (item->type == RTE_FLOW_ITEM_TYPE_VLAN) {
		to->is_followed = ((const struct rte_flow_item_vlan *)item->spec)->has_more_vlan;
		to->follower_matters = ((const struct rte_flow_item_vlan *)mask)->has_more_vlan;
	} else if (item->type == RTE_FLOW_ITEM_TYPE_IPV6) {
		to->is_followed = ((const struct rte_flow_item_ipv6 *)item->spec)->has_frag_ext;
		to->follower_matters = ((const struct rte_flow_item_ipv6 *)mask)->has_frag_ext;
	}
}

/* Converts an item. Unknown ones become TWIN_PROTO_NONE, which the model refuses. */
static void
take_item(const struct rte_flow_item *item, struct twin_item *to)
{
	const struct layout *layout = layout_of(item->type);

	*to = (struct twin_item){ .proto = TWIN_PROTO_NONE };
	if (layout == NULL)
		return;
	*to = (struct twin_item){
		.spec = item->spec,
		.last = item->last,
		.mask = item->mask != NULL ? item->mask : layout->mask,
		.proto = layout->proto,
		.given = (item->spec != NULL ? TWIN_GIVEN_SPEC : 0) |
			 (item->last != NULL ? TWIN_GIVEN_LAST : 0) |
			 (item->mask != NULL ? TWIN_GIVEN_MASK : 0),
	};
	if (item->spec != NULL)
		take_follower(item, to->mask, to);
}

static void
take_action(const struct rte_flow_action *action, const struct twin_port *port,
	    struct twin_action *to)
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
	case RTE_FLOW_ACTION_TYPE_AGE:
		to->kind = TWIN_ACTION_AGE;
		to->value = ((const struct rte_flow_action_age *)action->conf)->timeout;
		to->context =
			(uintptr_t)((const struct rte_flow_action_age *)action->conf)->context;
		break;
	case RTE_FLOW_ACTION_TYPE_JUMP:
		to->kind = TWIN_ACTION_JUMP;
		to->value = ((const struct rte_flow_action_jump *)action->conf)->group;
		break;
	case RTE_FLOW_ACTION_TYPE_RSS:
		rss = action->conf;
		to->kind = TWIN_ACTION_RSS;
		to->value = twin_rss_types(rss->types, rss->func);
		to->queues = rss->queue;
		to->queue_count = rss->queue_num;
		break;
	case RTE_FLOW_ACTION_TYPE_PORT_ID:
	case RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT:
	case RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR:
		twin_switch_take_action(port, action, to);
		break;
	default:
		break;
	}
}

static const char *
trouble_of_rss(const struct rte_flow_action_rss *rss, const struct twin_port *port)
{
	if (!twin_rss_knows(rss->func))
		return "only Toeplitz is supported, sorted or not";
	if (rss->level > 1)
		return "only the outermost headers are hashed";
	if (rss->types & ~twin_rss_supported())
		return "a type that is not supported";
	if (rss->key != NULL && rss->key_len != 0 &&
	    (rss->key_len != TWIN_RSS_KEY_LEN ||
	     memcmp(rss->key, port->rss.key, TWIN_RSS_KEY_LEN) != 0))
		return "the key is not that of the port";
	return NULL;
}

/* Returns the error of a configuration that the model does not see; NULL if it is valid. */
static const char *
trouble_of(const struct rte_flow_action *action, const struct twin_port *port)
{
	static const char *const no_value = "the action needs a value";

	switch (action->type) {
	case RTE_FLOW_ACTION_TYPE_MARK:
	case RTE_FLOW_ACTION_TYPE_QUEUE:
	case RTE_FLOW_ACTION_TYPE_JUMP:
	case RTE_FLOW_ACTION_TYPE_AGE:
		return action->conf == NULL ? no_value : NULL;
	case RTE_FLOW_ACTION_TYPE_RSS:
		return action->conf == NULL ? no_value : trouble_of_rss(action->conf, port);
	case RTE_FLOW_ACTION_TYPE_PORT_ID:
	case RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT:
	case RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR:
		return action->conf == NULL ? no_value : twin_switch_action_trouble(port, action);
	default:
		return NULL;
	}
}

static int
take_items(struct parts *parts, const struct rte_flow_item *item, const struct twin_port *port,
	   struct rte_flow_error *error)
{
	const char *trouble;
	uint32_t count = 0;

	for (; item->type != RTE_FLOW_ITEM_TYPE_END; item++) {
		if (item->type == RTE_FLOW_ITEM_TYPE_VOID)
			continue;
		if (twin_switch_knows(item->type)) {
			trouble = twin_switch_item_trouble(port, item);
			if (trouble != NULL)
				return rte_flow_error_set(error, EINVAL,
							  RTE_FLOW_ERROR_TYPE_ITEM_SPEC, item,
							  trouble);
			parts->rule.direction |= TWIN_NAMES_PORT;
			continue;
		}
		if (count == TWIN_PARTS_MAX)
			return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_NUM,
						  item, "too many items");
		take_item(item, &parts->items[count]);
		parts->item_of[count++] = item;
	}
	parts->item_of[count] = item;
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
		if (count == TWIN_PARTS_MAX)
			return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION_NUM,
						  action, "too many actions");
		trouble = trouble_of(action, port);
		if (trouble != NULL)
			return rte_flow_error_set(error, EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF,
						  action, trouble);
		take_action(action, port, &parts->actions[count]);
		parts->action_of[count++] = action;
	}
	parts->action_of[count] = action;
	parts->rule.action_count = count;
	return 0;
}

static int
take_apart(struct parts *parts, const struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
	   const struct rte_flow_item pattern[], const struct rte_flow_action actions[],
	   struct rte_flow_error *error)
{
	const struct twin_port *port = dev->data->dev_private;
	int ret;

	parts->rule = (struct twin_rule){
		.group = attr->group,
		.priority = attr->priority,
		.direction = twin_directions(attr->ingress, attr->egress, attr->transfer),
		.items = parts->items,
		.actions = parts->actions,
	};
	ret = take_items(parts, pattern, port, error);
	if (ret == 0)
		ret = take_actions(parts, actions, port, error);
	return ret;
}

/* Writes the refusal of the model as a driver would. */
static int
refuse(const struct twin_call *call, const struct parts *parts, struct rte_flow_error *error)
{
	const void *cause = NULL;

	if (call->type == RTE_FLOW_ERROR_TYPE_NONE) {
		rte_errno = call->error;
		return -rte_errno;
	}
	if (parts != NULL && call->place_kind == TWIN_PLACE_ITEM)
		cause = parts->item_of[call->place];
	else if (parts != NULL && call->place_kind == TWIN_PLACE_ACTION)
		cause = parts->action_of[call->place];
	return rte_flow_error_set(error, call->error, (enum rte_flow_error_type)call->type, cause,
				  call->message);
}

static const struct twin_nic *
nic_of(const struct rte_eth_dev *dev)
{
	return ((const struct twin_port *)dev->data->dev_private)->nic;
}

static struct twin_call
call_now(void)
{
	return (struct twin_call){ .now_us = twin_now_us() };
}

/* Waits as long as the NIC needs; sleeps if that is 1 ms or more. */
static void
wait_for_nic(const struct twin_call *call)
{
	if (call->wait_us >= 1000)
		rte_delay_us_sleep(call->wait_us);
	else if (call->wait_us > 0)
		rte_delay_us_block(call->wait_us);
}

static int
validate(struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
	 const struct rte_flow_item pattern[], const struct rte_flow_action actions[],
	 struct rte_flow_error *error)
{
	struct twin_call call = call_now();
	struct parts parts;
	int ret = take_apart(&parts, dev, attr, pattern, actions, error);

	if (ret != 0)
		return ret;
	if (twin_flow_validate(nic_of(dev), &parts.rule, &call) == 0)
		return refuse(&call, &parts, error);
	return 0;
}

static bool
has_age(const struct parts *parts)
{
	uint32_t i;

	for (i = 0; i < parts->rule.action_count; i++) {
		if (parts->actions[i].kind == TWIN_ACTION_AGE)
			return true;
	}
	return false;
}

uint64_t
twin_flow_make(const struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
	       const struct rte_flow_item pattern[], const struct rte_flow_action actions[],
	       struct twin_call *call, struct rte_flow_error *error)
{
	struct parts parts;
	uint64_t handle;

	if (take_apart(&parts, dev, attr, pattern, actions, error) != 0)
		return 0;
	handle = twin_flow_create(nic_of(dev), &parts.rule, call);
	if (handle == 0)
		refuse(call, &parts, error);
	else if (has_age(&parts))
		twin_age_start(dev->data->dev_private);
	return handle;
}

/* Returns the handle as a pointer. It is never NULL, and never dereferenced. */
static struct rte_flow *
create(struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
       const struct rte_flow_item pattern[], const struct rte_flow_action actions[],
       struct rte_flow_error *error)
{
	struct twin_call call = call_now();
	uint64_t handle = twin_flow_make(dev, attr, pattern, actions, &call, error);

	wait_for_nic(&call);
	return (struct rte_flow *)(uintptr_t)handle;
}

static int
destroy(struct rte_eth_dev *dev, struct rte_flow *flow, struct rte_flow_error *error)
{
	struct twin_call call = call_now();
	uint64_t done = twin_flow_destroy(nic_of(dev), twin_async_rule(dev, flow), &call);

	twin_async_note_strays(dev->data->dev_private);
	wait_for_nic(&call);
	return done != 0 ? 0 : refuse(&call, NULL, error);
}

static int
flush(struct rte_eth_dev *dev, struct rte_flow_error *error)
{
	struct twin_call call = call_now();
	uint64_t done = twin_flow_flush(nic_of(dev), &call);

	twin_async_note_strays(dev->data->dev_private);
	return done != 0 ? 0 : refuse(&call, NULL, error);
}

static int
query_count(const struct rte_eth_dev *dev, uint64_t handle, struct rte_flow_query_count *count,
	    struct rte_flow_error *error)
{
	struct twin_call call = call_now();
	struct twin_tally tally;

	if (twin_flow_query(nic_of(dev), handle, count->reset, &tally, &call) == 0)
		return refuse(&call, NULL, error);
	count->hits_set = 1;
	count->bytes_set = tally.has_bytes;
	count->hits = tally.hits;
	count->bytes = tally.bytes;
	return 0;
}

static int
query_age(const struct rte_eth_dev *dev, uint64_t handle, struct rte_flow_query_age *age,
	  struct rte_flow_error *error)
{
	struct twin_call call = call_now();
	struct twin_idle idle;

	if (twin_flow_idle(nic_of(dev), handle, &idle, &call) == 0)
		return refuse(&call, NULL, error);
	age->aged = idle.is_aged;
	age->sec_since_last_hit_valid = 1;
	age->sec_since_last_hit = RTE_MIN(idle.idle_us / US_PER_S, UINT64_C(0xffffff));
	return 0;
}

static int
query(struct rte_eth_dev *dev, struct rte_flow *flow, const struct rte_flow_action *action,
      void *data, struct rte_flow_error *error)
{
	if (action->type == RTE_FLOW_ACTION_TYPE_COUNT)
		return query_count(dev, twin_async_rule(dev, flow), data, error);
	if (action->type == RTE_FLOW_ACTION_TYPE_AGE)
		return query_age(dev, twin_async_rule(dev, flow), data, error);
	return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, action,
				  "only count and age can be queried");
}

static int
dump(struct rte_eth_dev *dev, struct rte_flow *flow, FILE *file, struct rte_flow_error *error)
{
	struct twin_call call = call_now();
	uint64_t rule = flow != NULL ? twin_async_rule(dev, flow) : 0;
	char *text;

	/* To the model, 0 means all rules. */
	if (flow != NULL && rule == 0)
		return rte_flow_error_set(error, ENOENT, RTE_FLOW_ERROR_TYPE_HANDLE, flow,
					  "no such rule");
	text = twin_flow_dump(nic_of(dev), rule, &call);
	if (text == NULL)
		return refuse(&call, NULL, error);
	fputs(text, file);
	twin_text_free(text);
	return 0;
}

static int
isolate(struct rte_eth_dev *dev, int set, struct rte_flow_error *error)
{
	struct twin_call call = call_now();

	return twin_flow_isolate(nic_of(dev), set != 0, &call) != 0 ? 0 :
								      refuse(&call, NULL, error);
}

const struct rte_flow_ops twin_flow_ops = {
	.validate = validate,
	.create = create,
	.destroy = destroy,
	.flush = flush,
	.query = query,
	.dev_dump = dump,
	.get_aged_flows = twin_age_list,
	.isolate = isolate,
};
