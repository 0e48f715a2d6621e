/* SPDX-License-Identifier: BSD-3-Clause */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_ethdev.h>

#include "draw.h"
#include "rule.h"

#define ITEM(name, structure) [RTE_FLOW_ITEM_TYPE_##name] = sizeof(struct rte_flow_item_##structure)

/* Types that are not here have no structure, or one with pointers. */
static const size_t item_sizes[] = {
	ITEM(ANY, any),
	ITEM(PORT_ID, port_id),
	ITEM(ETH, eth),
	ITEM(VLAN, vlan),
	ITEM(IPV4, ipv4),
	ITEM(IPV6, ipv6),
	ITEM(ICMP, icmp),
	ITEM(UDP, udp),
	ITEM(TCP, tcp),
	ITEM(SCTP, sctp),
	ITEM(VXLAN, vxlan),
	ITEM(E_TAG, e_tag),
	ITEM(NVGRE, nvgre),
	ITEM(MPLS, mpls),
	ITEM(GRE, gre),
	ITEM(FUZZY, fuzzy),
	ITEM(GTP, gtp),
	ITEM(GTPC, gtp),
	ITEM(GTPU, gtp),
	ITEM(ESP, esp),
	ITEM(GENEVE, geneve),
	ITEM(VXLAN_GPE, vxlan_gpe),
	ITEM(ARP_ETH_IPV4, arp_eth_ipv4),
	ITEM(IPV6_EXT, ipv6_ext),
	ITEM(ICMP6, icmp6),
	ITEM(ICMP6_ND_NS, icmp6_nd_ns),
	ITEM(ICMP6_ND_NA, icmp6_nd_na),
	ITEM(ICMP6_ND_OPT, icmp6_nd_opt),
	ITEM(ICMP6_ND_OPT_SLA_ETH, icmp6_nd_opt_sla_eth),
	ITEM(ICMP6_ND_OPT_TLA_ETH, icmp6_nd_opt_tla_eth),
	ITEM(MARK, mark),
	ITEM(META, meta),
	[RTE_FLOW_ITEM_TYPE_GRE_KEY] = sizeof(rte_be32_t),
	ITEM(GTP_PSC, gtp_psc),
	ITEM(PPPOES, pppoe),
	ITEM(PPPOED, pppoe),
	ITEM(PPPOE_PROTO_ID, pppoe_proto_id),
	ITEM(NSH, nsh),
	ITEM(IGMP, igmp),
	ITEM(AH, ah),
	ITEM(TAG, tag),
	ITEM(L2TPV3OIP, l2tpv3oip),
	ITEM(PFCP, pfcp),
	ITEM(ECPRI, ecpri),
	ITEM(IPV6_FRAG_EXT, ipv6_frag_ext),
	ITEM(INTEGRITY, integrity),
	ITEM(CONNTRACK, conntrack),
	ITEM(PORT_REPRESENTOR, ethdev),
	ITEM(REPRESENTED_PORT, ethdev),
	ITEM(L2TPV2, l2tpv2),
	ITEM(PPP, ppp),
	ITEM(MACSEC, macsec),
	ITEM(METER_COLOR, meter_color),
};

#define ACTION(name, structure) \
	[RTE_FLOW_ACTION_TYPE_##name] = sizeof(struct rte_flow_action_##structure)

/* Likewise. */
static const size_t action_sizes[] = {
	ACTION(JUMP, jump),
	ACTION(MARK, mark),
	ACTION(QUEUE, queue),
	ACTION(COUNT, count),
	ACTION(RSS, rss),
	ACTION(VF, vf),
	ACTION(PORT_ID, port_id),
	ACTION(METER, meter),
	ACTION(OF_PUSH_VLAN, of_push_vlan),
	ACTION(OF_SET_VLAN_VID, of_set_vlan_vid),
	ACTION(SET_TTL, set_ttl),
	ACTION(SET_TAG, set_tag),
	ACTION(SET_META, set_meta),
	ACTION(AGE, age),
	ACTION(METER_COLOR, meter_color),
	ACTION(PORT_REPRESENTOR, ethdev),
	ACTION(REPRESENTED_PORT, ethdev),
};

void *
exactly(size_t size)
{
	void *buffer = calloc(1, size);

	if (buffer == NULL && size != 0)
		abort();
	return buffer;
}

/* Goes with the rule. */
static void *
keep(struct rule *rule, size_t size)
{
	void *buffer = exactly(size);

	assert(rule->buffer_count < BUFFERS_MAX);
	rule->buffers[rule->buffer_count++] = buffer;
	return buffer;
}

static void *
draw_spec(struct rule *rule, size_t size)
{
	void *spec = keep(rule, size);

	if (draw_percent(50))
		draw_bytes(spec, size);
	return spec;
}

/* All bits, none, whole bytes or any. */
static void *
draw_mask(struct rule *rule, size_t size)
{
	uint8_t *mask = keep(rule, size);
	uint32_t i, kind = draw(4);

	for (i = 0; i < size; i++)
		mask[i] = kind == 0 ? 0xff : kind == 1 ? 0 : kind == 2 ? -draw(2) : draw(256);
	return mask;
}

/* What a driver does not know it may not look at: there is one byte. */
static size_t
size_of(const size_t *sizes, size_t count, int type)
{
	return type >= 0 && (size_t)type < count && sizes[type] != 0 ? sizes[type] : 1;
}

static void
draw_item(struct rule *rule, struct rte_flow_item *item)
{
	size_t size;

	item->type = draw_percent(90) ? 1 + draw(RTE_DIM(item_sizes) + 5) : draw_number();
	/* It would end there. */
	if (item->type == RTE_FLOW_ITEM_TYPE_END)
		item->type = RTE_FLOW_ITEM_TYPE_VOID;
	size = size_of(item_sizes, RTE_DIM(item_sizes), item->type);
	item->spec = draw_percent(60) ? draw_spec(rule, size) : NULL;
	item->last = draw_percent(10) ? draw_spec(rule, size) : NULL;
	item->mask = draw_percent(60) ? draw_mask(rule, size) : NULL;
}

/* The header of a frame as an item, or only its name. */
static void
name_layer(struct rule *rule, const struct frame *frame, const struct layer *layer,
	   struct rte_flow_item *item)
{
	size_t size = size_of(item_sizes, RTE_DIM(item_sizes), layer->type);
	uint8_t *spec, *last;

	item->type = layer->type;
	if (draw_percent(40))
		return;
	spec = keep(rule, size);
	memcpy(spec, frame->bytes + layer->offset, RTE_MIN(layer->len, size));
	item->spec = draw_percent(95) ? spec : NULL;
	item->mask = draw_percent(70) ? draw_mask(rule, size) : NULL;
	if (draw_percent(5)) {
		last = keep(rule, size);
		memcpy(last, spec, size);
		last[draw(size)] ^= draw(2);
		item->last = last;
	}
}

static void
draw_items(struct rule *rule, const struct frame *frame)
{
	uint32_t i, count = 0, layers = 1 + draw(frame->layer_count);
	struct rte_flow_item items[ENTRIES_MAX + 1] = { 0 };

	if (draw_percent(85)) {
		for (i = 0; i < layers; i++) {
			if (draw_percent(5))
				draw_item(rule, &items[count++]);
			if (draw_percent(95))
				name_layer(rule, frame, &frame->layers[i], &items[count++]);
		}
	} else {
		count = draw_percent(90) ? draw_few(8) : draw(ENTRIES_MAX + 1);
		for (i = 0; i < count; i++)
			draw_item(rule, &items[i]);
	}
	items[count].type = RTE_FLOW_ITEM_TYPE_END;
	rule->items = keep(rule, (count + 1) * sizeof(*items));
	memcpy(rule->items, items, (count + 1) * sizeof(*items));
}

static void
draw_rss(struct rule *rule, struct rte_flow_action_rss *rss, uint16_t queues)
{
	static const uint32_t key_lens[] = { 0, 1, 13, 39, 40, 41, 52 };
	uint16_t *list;
	uint8_t *key;
	uint32_t i;

	rss->func = draw_percent(90) ? 0 : draw(8);
	rss->level = draw_percent(90) ? 0 : draw(4);
	rss->types = draw_percent(70) ? 0 : draw_percent(50) ? RTE_ETH_RSS_IP : draw_number();
	rss->key_len = draw_percent(70) ? 0 : key_lens[draw(RTE_DIM(key_lens))];
	if (draw_percent(80)) {
		key = keep(rule, rss->key_len);
		draw_bytes(key, rss->key_len);
		rss->key = key;
	}
	rss->queue_num = draw_percent(80) ? 1 + draw(8) : draw_percent(50) ? 0 : draw(300);
	list = keep(rule, rss->queue_num * sizeof(*list));
	for (i = 0; i < rss->queue_num; i++)
		list[i] = draw_percent(98) ? draw(queues) : draw_number();
	rss->queue = rss->queue_num != 0 || draw_percent(50) ? list : NULL;
}

static void
draw_action(struct rule *rule, struct rte_flow_action *action, int type, uint16_t queues)
{
	size_t size = size_of(action_sizes, RTE_DIM(action_sizes), type);
	uint32_t number = draw_percent(80) ? draw(0x10000) : draw_number();
	uint16_t queue = draw_percent(90) ? draw(queues) : number;
	uint32_t group = draw_percent(90) ? draw(4) : number;
	void *conf;

	action->type = type;
	if (draw_percent(4))
		return;
	action->conf = conf = keep(rule, size);
	switch (type) {
	case RTE_FLOW_ACTION_TYPE_MARK:
		memcpy(conf, &number, sizeof(number));
		rule->marks = true;
		rule->mark = number;
		break;
	case RTE_FLOW_ACTION_TYPE_QUEUE:
		memcpy(conf, &queue, sizeof(queue));
		break;
	case RTE_FLOW_ACTION_TYPE_JUMP:
		memcpy(conf, &group, sizeof(group));
		break;
	case RTE_FLOW_ACTION_TYPE_RSS:
		draw_rss(rule, conf, queues);
		break;
	case RTE_FLOW_ACTION_TYPE_PORT_ID:
		draw_bytes(conf, size);
		if (draw_percent(90))
			((struct rte_flow_action_port_id *)conf)->id = draw(3);
		break;
	case RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT:
	case RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR:
		((struct rte_flow_action_ethdev *)conf)->port_id =
			draw_percent(90) ? draw(3) : number;
		break;
	case RTE_FLOW_ACTION_TYPE_AGE: /* has a pointer */
		break;
	default:
		draw_bytes(conf, size);
		break;
	}
}

static int
draw_action_type(void)
{
	static const int known[] = {
		RTE_FLOW_ACTION_TYPE_PASSTHRU, RTE_FLOW_ACTION_TYPE_JUMP, RTE_FLOW_ACTION_TYPE_MARK,
		RTE_FLOW_ACTION_TYPE_FLAG, RTE_FLOW_ACTION_TYPE_QUEUE, RTE_FLOW_ACTION_TYPE_DROP,
		RTE_FLOW_ACTION_TYPE_COUNT, RTE_FLOW_ACTION_TYPE_RSS, RTE_FLOW_ACTION_TYPE_VOID,
		RTE_FLOW_ACTION_TYPE_AGE, RTE_FLOW_ACTION_TYPE_PORT_ID,
		RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT, RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR,
	};
	int type;

	if (draw_percent(90))
		return known[draw(RTE_DIM(known))];
	type = draw_percent(80) ? 1 + draw(RTE_FLOW_ACTION_TYPE_SEND_TO_KERNEL + 5) : draw_number();
	return type != RTE_FLOW_ACTION_TYPE_END ? type : RTE_FLOW_ACTION_TYPE_VOID;
}

static void
draw_actions(struct rule *rule, uint16_t queues)
{
	static const int fates[] = {
		RTE_FLOW_ACTION_TYPE_QUEUE, RTE_FLOW_ACTION_TYPE_RSS, RTE_FLOW_ACTION_TYPE_DROP,
		RTE_FLOW_ACTION_TYPE_JUMP, RTE_FLOW_ACTION_TYPE_PASSTHRU, RTE_FLOW_ACTION_TYPE_QUEUE,
		RTE_FLOW_ACTION_TYPE_PORT_ID, RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT,
		RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR,
	};
	struct rte_flow_action actions[ENTRIES_MAX + 1] = { 0 };
	uint32_t i, count = 0;

	if (draw_percent(85)) {
		if (draw_percent(60))
			draw_action(rule, &actions[count++], RTE_FLOW_ACTION_TYPE_MARK, queues);
		if (draw_percent(20))
			draw_action(rule, &actions[count++], RTE_FLOW_ACTION_TYPE_COUNT, queues);
		if (draw_percent(10))
			draw_action(rule, &actions[count++], RTE_FLOW_ACTION_TYPE_FLAG, queues);
		if (draw_percent(90))
			draw_action(rule, &actions[count++], fates[draw(RTE_DIM(fates))], queues);
	} else {
		count = draw_percent(90) ? draw_few(6) : draw(ENTRIES_MAX + 1);
		for (i = 0; i < count; i++)
			draw_action(rule, &actions[i], draw_action_type(), queues);
	}
	actions[count].type = RTE_FLOW_ACTION_TYPE_END;
	rule->actions = keep(rule, (count + 1) * sizeof(*actions));
	memcpy(rule->actions, actions, (count + 1) * sizeof(*actions));
}

void
rule_draw(struct rule *rule, const struct frame *frame, uint16_t queues)
{
	memset(rule, 0, sizeof(*rule));
	rule->attr = keep(rule, sizeof(*rule->attr));
	rule->attr->group = draw_percent(85) ? 0 : draw_percent(80) ? draw(4) : draw_number();
	rule->attr->priority = draw_percent(85) ? 0 : draw_percent(80) ? draw(4) : draw_number();
	/* The interface refuses both at once. */
	rule->attr->transfer = draw_percent(20);
	rule->attr->ingress = draw_percent(rule->attr->transfer ? 2 : 98);
	rule->attr->egress = draw_percent(2);
	draw_items(rule, frame);
	draw_actions(rule, queues);
}

void
rule_free(struct rule *rule)
{
	while (rule->buffer_count > 0)
		free(rule->buffers[--rule->buffer_count]);
}
