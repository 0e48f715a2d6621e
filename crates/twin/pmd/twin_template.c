/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements templates of rules and template tables. A pattern template has the masks, an actions
 * template the values that are the same for all rules; each rule adds the other values.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_version.h>

#include "twin_async.h"

static int
refuse(struct rte_flow_error *error, int code, enum rte_flow_error_type type, const void *cause,
       const char *message)
{
	return rte_flow_error_set(error, code, type, cause, message);
}

/* Returns memory of zeros; NULL and the error if there is none. */
static void *
new_block(size_t size, struct rte_flow_error *error)
{
	void *block = calloc(1, size);

	if (block == NULL)
		refuse(error, ENOMEM, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL, "no memory");
	return block;
}

/* Copies items, actions or a rule into one block, with all that they point to. NULL if it fails. */
static void *
copy(enum rte_flow_conv_op op, const void *from, struct rte_flow_error *error)
{
	int size = rte_flow_conv(op, NULL, 0, from, error);
	void *to = size >= 0 ? new_block(size, error) : NULL;

	if (to != NULL && rte_flow_conv(op, to, size, from, error) < 0) {
		free(to);
		return NULL;
	}
	return to;
}

/* ---- templates --------------------------------------------------------------------------- */

static void *
new_template(size_t size, uint32_t directions, struct rte_flow_error *error)
{
	struct twin_template *template;

	if (directions == 0) {
		refuse(error, EINVAL, RTE_FLOW_ERROR_TYPE_ATTR, NULL, "a direction is needed");
		return NULL;
	}
	template = new_block(size, error);
	if (template != NULL)
		template->directions = directions;
	return template;
}

static void
free_template(struct twin_template *template)
{
	free(template->blocks[0]);
	free(template->blocks[1]);
	free(template);
}

static int
destroy_template(struct twin_template *template, struct rte_flow_error *error)
{
	if (template->users != 0)
		return refuse(error, EBUSY, RTE_FLOW_ERROR_TYPE_STATE, NULL,
			      "a table uses the template");
	LIST_REMOVE(template, entry);
	free_template(template);
	return 0;
}

static struct rte_flow_pattern_template *
pattern_create(struct rte_eth_dev *dev, const struct rte_flow_pattern_template_attr *attr,
	       const struct rte_flow_item pattern[], struct rte_flow_error *error)
{
	struct rte_flow_pattern_template *template;
	const struct rte_flow_item *item;

	for (item = pattern; item->type != RTE_FLOW_ITEM_TYPE_END; item++) {
		if (item - pattern == TWIN_PARTS_MAX || !twin_flow_knows(item)) {
			refuse(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, item,
			       "this item is not supported");
			return NULL;
		}
	}
	template = new_template(sizeof(*template),
				twin_directions(attr->ingress, attr->egress, attr->transfer), error);
	if (template == NULL)
		return NULL;
	template->is_relaxed = attr->relaxed_matching;
	template->items = template->head.blocks[0] = copy(RTE_FLOW_CONV_OP_PATTERN, pattern, error);
	if (template->items == NULL) {
		free_template(&template->head);
		return NULL;
	}
	LIST_INSERT_HEAD(&twin_async_of(dev)->templates, &template->head, entry);
	return template;
}

static int
pattern_destroy(struct rte_eth_dev *dev __rte_unused, struct rte_flow_pattern_template *template,
		struct rte_flow_error *error)
{
	return destroy_template(&template->head, error);
}

/* Checks that each action has a mask, and that there are not too many. */
static bool
are_masked(const struct rte_flow_action actions[], const struct rte_flow_action masks[],
	   struct rte_flow_error *error)
{
	uint32_t i;

	if (masks == NULL) {
		refuse(error, EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, NULL, "masks are needed");
		return false;
	}
	for (i = 0; i == 0 || actions[i - 1].type != RTE_FLOW_ACTION_TYPE_END; i++) {
		if (i > TWIN_PARTS_MAX || masks[i].type != actions[i].type) {
			refuse(error, EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, &actions[i],
			       "the mask is of another action");
			return false;
		}
	}
	return true;
}

static struct rte_flow_actions_template *
actions_create(struct rte_eth_dev *dev, const struct rte_flow_actions_template_attr *attr,
	       const struct rte_flow_action actions[], const struct rte_flow_action masks[],
	       struct rte_flow_error *error)
{
	struct rte_flow_actions_template *template;

	if (!are_masked(actions, masks, error))
		return NULL;
	template = new_template(sizeof(*template),
				twin_directions(attr->ingress, attr->egress, attr->transfer), error);
	if (template == NULL)
		return NULL;
	template->actions = template->head.blocks[0] =
		copy(RTE_FLOW_CONV_OP_ACTIONS, actions, error);
	if (template->actions != NULL)
		template->masks = template->head.blocks[1] =
			copy(RTE_FLOW_CONV_OP_ACTIONS, masks, error);
	if (template->masks == NULL) {
		free_template(&template->head);
		return NULL;
	}
	LIST_INSERT_HEAD(&twin_async_of(dev)->templates, &template->head, entry);
	return template;
}

static int
actions_destroy(struct rte_eth_dev *dev __rte_unused, struct rte_flow_actions_template *template,
		struct rte_flow_error *error)
{
	return destroy_template(&template->head, error);
}

/* ---- tables ------------------------------------------------------------------------------ */

static bool
is_for_all(const struct rte_flow_attr *flow, struct rte_flow_pattern_template *const patterns[],
	   uint8_t pattern_count, struct rte_flow_actions_template *const actions[],
	   uint8_t actions_count)
{
	uint32_t all = TWIN_INGRESS | TWIN_EGRESS | TWIN_TRANSFER;
	uint8_t i;

	for (i = 0; i < pattern_count; i++)
		all &= patterns[i]->head.directions;
	for (i = 0; i < actions_count; i++)
		all &= actions[i]->head.directions;
	return pattern_count != 0 && actions_count != 0 &&
	       (twin_directions(flow->ingress, flow->egress, flow->transfer) & ~all) == 0;
}

static void
use(struct rte_flow_template_table *table, int more)
{
	uint8_t i;

	for (i = 0; i < table->pattern_count; i++)
		table->patterns[i]->head.users += more;
	for (i = 0; i < table->actions_count; i++)
		table->actions[i]->head.users += more;
}

/* True for kinds of tables that came after 22.11: rules by index, and tables that grow. */
static bool
is_plain(const struct rte_flow_template_table_attr *attr __rte_unused)
{
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
	return attr->insertion_type == RTE_FLOW_TABLE_INSERTION_TYPE_PATTERN &&
	       (attr->specialize & RTE_FLOW_TABLE_SPECIALIZE_RESIZABLE) == 0;
#else
	return true;
#endif
}

static struct rte_flow_template_table *
table_create(struct rte_eth_dev *dev, const struct rte_flow_template_table_attr *attr,
	     struct rte_flow_pattern_template *patterns[], uint8_t pattern_count,
	     struct rte_flow_actions_template *actions[], uint8_t actions_count,
	     struct rte_flow_error *error)
{
	struct rte_flow_template_table *table;

	if (attr->nb_flows == 0 ||
	    !is_for_all(&attr->flow_attr, patterns, pattern_count, actions, actions_count)) {
		refuse(error, EINVAL, RTE_FLOW_ERROR_TYPE_ATTR, NULL,
		       "room for rules and templates of the same direction are needed");
		return NULL;
	}
	if (!is_plain(attr)) {
		refuse(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR, NULL,
		       "rules by index and tables that grow are not supported");
		return NULL;
	}
	table = new_block(sizeof(*table), error);
	if (table == NULL)
		return NULL;
	table->attr = *attr;
	table->pattern_count = pattern_count;
	table->actions_count = actions_count;
	memcpy(table->patterns, patterns, pattern_count * sizeof(*patterns));
	memcpy(table->actions, actions, actions_count * sizeof(*actions));
	use(table, 1);
	LIST_INSERT_HEAD(&twin_async_of(dev)->tables, table, entry);
	return table;
}

static int
table_destroy(struct rte_eth_dev *dev, struct rte_flow_template_table *table,
	      struct rte_flow_error *error)
{
	if (twin_async_used(dev->data->dev_private, table) != 0)
		return refuse(error, EBUSY, RTE_FLOW_ERROR_TYPE_STATE, NULL,
			      "the table has rules");
	use(table, -1);
	LIST_REMOVE(table, entry);
	free(table);
	return 0;
}

/* Combines the values of a rule with the masks of the template. */
static int
fill_items(const struct rte_flow_pattern_template *template, const struct rte_flow_item *given,
	   struct rte_flow_item *to, struct rte_flow_error *error)
{
	const struct rte_flow_item *item;

	for (item = template->items; item->type != RTE_FLOW_ITEM_TYPE_END; item++, given++) {
		if (given->type != item->type)
			break;
		/* Without a mask, an item requires its header; with relaxed matching, nothing. */
		if (item->mask == NULL && template->is_relaxed)
			continue;
		*to++ = (struct rte_flow_item){
			.type = item->type,
			.spec = item->mask != NULL ? given->spec : NULL,
			.mask = item->mask,
		};
	}
	*to = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_END };
	if (given->type != item->type)
		return refuse(error, EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, given,
			      "the template has another item here");
	return 0;
}

/* Sizes of the configurations of actions, in bytes. */
static const struct {
	enum rte_flow_action_type type;
	size_t len;
} values[] = {
	{ RTE_FLOW_ACTION_TYPE_MARK, sizeof(struct rte_flow_action_mark) },
	{ RTE_FLOW_ACTION_TYPE_QUEUE, sizeof(struct rte_flow_action_queue) },
	{ RTE_FLOW_ACTION_TYPE_JUMP, sizeof(struct rte_flow_action_jump) },
	{ RTE_FLOW_ACTION_TYPE_AGE, sizeof(struct rte_flow_action_age) },
	{ RTE_FLOW_ACTION_TYPE_RSS, sizeof(struct rte_flow_action_rss) },
	{ RTE_FLOW_ACTION_TYPE_PORT_ID, sizeof(struct rte_flow_action_port_id) },
	{ RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT, sizeof(struct rte_flow_action_ethdev) },
	{ RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR, sizeof(struct rte_flow_action_ethdev) },
};

/* True if the template fixes the value of the action. */
static bool
is_fixed(const struct rte_flow_action *mask)
{
	const uint8_t *bytes = mask->conf;
	size_t len = 0, i;

	for (i = 0; i < RTE_DIM(values); i++) {
		if (values[i].type == mask->type)
			len = values[i].len;
	}
	for (i = 0; bytes != NULL && i < len; i++) {
		if (bytes[i] != 0)
			return true;
	}
	return false;
}

static int
fill_actions(const struct rte_flow_actions_template *template, const struct rte_flow_action *given,
	     struct rte_flow_action *to, struct rte_flow_error *error)
{
	const struct rte_flow_action *action = template->actions, *mask = template->masks;

	for (; action->type != RTE_FLOW_ACTION_TYPE_END; action++, mask++, given++) {
		if (given->type != action->type)
			break;
		*to++ = is_fixed(mask) ? *action : *given;
	}
	*to = (struct rte_flow_action){ .type = RTE_FLOW_ACTION_TYPE_END };
	if (given->type != action->type)
		return refuse(error, EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, given,
			      "the template has another action here");
	return 0;
}

struct rte_flow_conv_rule *
twin_table_fill(const struct rte_flow_template_table *table, const struct rte_flow_item pattern[],
		uint8_t pattern_template, const struct rte_flow_action actions[],
		uint8_t actions_template, struct rte_flow_error *error)
{
	struct rte_flow_item items[TWIN_PARTS_MAX + 1];
	struct rte_flow_action all_actions[TWIN_PARTS_MAX + 1];
	const struct rte_flow_conv_rule rule = {
		.attr_ro = &table->attr.flow_attr,
		.pattern_ro = items,
		.actions_ro = all_actions,
	};

	if (pattern_template >= table->pattern_count || actions_template >= table->actions_count) {
		refuse(error, EINVAL, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
		       "the table has no such template");
		return NULL;
	}
	if (fill_items(table->patterns[pattern_template], pattern, items, error) != 0 ||
	    fill_actions(table->actions[actions_template], actions, all_actions, error) != 0)
		return NULL;
	return copy(RTE_FLOW_CONV_OP_RULE, &rule, error);
}

void
twin_template_ops(struct rte_flow_ops *ops)
{
	ops->pattern_template_create = pattern_create;
	ops->pattern_template_destroy = pattern_destroy;
	ops->actions_template_create = actions_create;
	ops->actions_template_destroy = actions_destroy;
	ops->template_table_create = table_create;
	ops->template_table_destroy = table_destroy;
}

void
twin_template_free_all(struct twin_async *async)
{
	struct rte_flow_template_table *table;
	struct twin_template *template;

	while ((table = LIST_FIRST(&async->tables)) != NULL) {
		LIST_REMOVE(table, entry);
		free(table);
	}
	while ((template = LIST_FIRST(&async->templates)) != NULL) {
		LIST_REMOVE(template, entry);
		free_template(template);
	}
}
