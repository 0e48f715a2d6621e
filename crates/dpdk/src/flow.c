/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills structures of rte_flow whose members differ between DPDK versions. */
#include <string.h>

#include "bindings.h"

/* The name of the type differs between releases. */
typedef __typeof__(((struct rte_flow_action_modify_field *)0)->dst) field_data;

static void
set_field(field_data *data, const struct shim_field *field)
{
	data->field = (enum rte_flow_field_id)field->field;
	data->level = field->level;
	data->offset = field->offset;
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
	if (field->type != 0 || field->class_id != 0) {
		data->type = field->type;
		data->class_id = rte_cpu_to_be_16(field->class_id);
	} else {
		data->tag_index = field->tag_index;
	}
#else
	/* Without an index of its own, the level of a tag is its index. */
	if (field->tag_index != 0)
		data->level = field->tag_index;
#endif
}

/* Writes a struct rte_flow_action_modify_field. */
void
shim_modify_field(void *room, const struct shim_modify *modify)
{
	struct rte_flow_action_modify_field action;

	memset(&action, 0, sizeof(action));
	action.operation = (enum rte_flow_modify_op)modify->operation;
	action.width = modify->width;
	set_field(&action.dst, &modify->dst);
	set_field(&action.src, &modify->src);
	if (action.src.field == RTE_FLOW_FIELD_VALUE)
		memcpy(action.src.value, modify->value, sizeof(action.src.value));
	else if (action.src.field == RTE_FLOW_FIELD_POINTER)
		action.src.pvalue = (void *)(uintptr_t)modify->pointer;
	memcpy(room, &action, sizeof(action));
}
