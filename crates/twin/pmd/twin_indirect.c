/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Refuses indirect actions of flow queues, which the software NIC does not have. Before 24.03,
 * ethdev calls these operations without checking that the driver has them.
 */

#include <errno.h>

#include <rte_version.h>

#include "twin_async.h"

#if RTE_VERSION < RTE_VERSION_NUM(24, 3, 0, 0)

static int
refuse(struct rte_flow_error *error)
{
	return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
				  "indirect actions are not supported");
}

static struct rte_flow_action_handle *
create(struct rte_eth_dev *dev __rte_unused, uint32_t queue __rte_unused,
       const struct rte_flow_op_attr *attr __rte_unused,
       const struct rte_flow_indir_action_conf *conf __rte_unused,
       const struct rte_flow_action *action __rte_unused, void *user_data __rte_unused,
       struct rte_flow_error *error)
{
	refuse(error);
	return NULL;
}

static int
destroy(struct rte_eth_dev *dev __rte_unused, uint32_t queue __rte_unused,
	const struct rte_flow_op_attr *attr __rte_unused,
	struct rte_flow_action_handle *handle __rte_unused, void *user_data __rte_unused,
	struct rte_flow_error *error)
{
	return refuse(error);
}

static int
update(struct rte_eth_dev *dev __rte_unused, uint32_t queue __rte_unused,
       const struct rte_flow_op_attr *attr __rte_unused,
       struct rte_flow_action_handle *handle __rte_unused, const void *to __rte_unused,
       void *user_data __rte_unused, struct rte_flow_error *error)
{
	return refuse(error);
}

static int
query(struct rte_eth_dev *dev __rte_unused, uint32_t queue __rte_unused,
      const struct rte_flow_op_attr *attr __rte_unused,
      const struct rte_flow_action_handle *handle __rte_unused, void *data __rte_unused,
      void *user_data __rte_unused, struct rte_flow_error *error)
{
	return refuse(error);
}

void
twin_indirect_ops(struct rte_flow_ops *ops)
{
	ops->async_action_handle_create = create;
	ops->async_action_handle_destroy = destroy;
	ops->async_action_handle_update = update;
	ops->async_action_handle_query = query;
}

#endif
