/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements RSS of ethdev: types of packets that are hashed, key, and redirection table (RETA). */

#include <errno.h>
#include <string.h>

#include <rte_version.h>

#include "twin.h"

/* Since 23.11, applications can choose an algorithm, and there is one that sorts. */
#define HAS_ALGORITHMS (RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0))

/* The key if the application gives none: that of Microsoft's examples. */
static const uint8_t default_key[TWIN_RSS_KEY_LEN] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
	0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
	0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static const struct {
	uint64_t hash_function;
	uint16_t type;
} types[] = {
	{ RTE_ETH_RSS_IPV4, TWIN_RSS_IP },
	{ RTE_ETH_RSS_FRAG_IPV4, TWIN_RSS_FRAGMENT },
	{ RTE_ETH_RSS_NONFRAG_IPV4_OTHER, TWIN_RSS_OTHER },
	{ RTE_ETH_RSS_NONFRAG_IPV4_TCP, TWIN_RSS_TCP },
	{ RTE_ETH_RSS_NONFRAG_IPV4_UDP, TWIN_RSS_UDP },
	{ RTE_ETH_RSS_NONFRAG_IPV4_SCTP, TWIN_RSS_SCTP },
	{ RTE_ETH_RSS_IPV6, TWIN_RSS_IP << TWIN_RSS_IPV6_SHIFT },
	{ RTE_ETH_RSS_FRAG_IPV6, TWIN_RSS_FRAGMENT << TWIN_RSS_IPV6_SHIFT },
	{ RTE_ETH_RSS_NONFRAG_IPV6_OTHER, TWIN_RSS_OTHER << TWIN_RSS_IPV6_SHIFT },
	{ RTE_ETH_RSS_NONFRAG_IPV6_TCP, TWIN_RSS_TCP << TWIN_RSS_IPV6_SHIFT },
	{ RTE_ETH_RSS_NONFRAG_IPV6_UDP, TWIN_RSS_UDP << TWIN_RSS_IPV6_SHIFT },
	{ RTE_ETH_RSS_NONFRAG_IPV6_SCTP, TWIN_RSS_SCTP << TWIN_RSS_IPV6_SHIFT },
	/* Addresses in extension headers are ignored, so these are equal to the types above. */
	{ RTE_ETH_RSS_IPV6_EX, TWIN_RSS_IP << TWIN_RSS_IPV6_SHIFT },
	{ RTE_ETH_RSS_IPV6_TCP_EX, TWIN_RSS_TCP << TWIN_RSS_IPV6_SHIFT },
	{ RTE_ETH_RSS_IPV6_UDP_EX, TWIN_RSS_UDP << TWIN_RSS_IPV6_SHIFT },
};

uint64_t
twin_rss_supported(void)
{
	uint64_t all = 0;
	unsigned int i;

	for (i = 0; i < RTE_DIM(types); i++)
		all |= types[i].hash_function;
	return all;
}

/* True for symmetric algorithms: the model sorts for all of them. */
static bool
is_sorted(enum rte_eth_hash_function algorithm)
{
#if HAS_ALGORITHMS
	if (algorithm == RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ_SORT)
		return true;
#endif
	return algorithm == RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ;
}

bool
twin_rss_knows(enum rte_eth_hash_function algorithm)
{
	return algorithm == RTE_ETH_HASH_FUNCTION_DEFAULT ||
	       algorithm == RTE_ETH_HASH_FUNCTION_TOEPLITZ || is_sorted(algorithm);
}

uint32_t
twin_rss_types(uint64_t hash_functions, enum rte_eth_hash_function algorithm)
{
	uint32_t bits = is_sorted(algorithm) ? TWIN_RSS_SORTED : 0;
	unsigned int i;

	for (i = 0; i < RTE_DIM(types); i++) {
		if (hash_functions & types[i].hash_function)
			bits |= types[i].type;
	}
	return bits;
}

static void
apply(const struct twin_port *port)
{
	const struct twin_rss *rss = &port->rss;

	twin_nic_set_rss(port->nic, twin_rss_types(rss->hash_functions, rss->algorithm), rss->key,
			 rss->reta, TWIN_RETA_SIZE);
}

/* Sets the key. A length of 0 stands for the usual one. */
static int
take(struct twin_rss *rss, const struct rte_eth_rss_conf *conf)
{
	if (conf->rss_key != NULL) {
		if (conf->rss_key_len != 0 && conf->rss_key_len != TWIN_RSS_KEY_LEN)
			return -EINVAL;
		memcpy(rss->key, conf->rss_key, TWIN_RSS_KEY_LEN);
	}
	rss->hash_functions = conf->rss_hf & twin_rss_supported();
#if HAS_ALGORITHMS
	rss->algorithm = conf->algorithm;
#endif
	return 0;
}

/* Reports what is supported; ethdev refuses the rest. */
void
twin_rss_info(struct rte_eth_dev_info *info)
{
	info->hash_key_size = TWIN_RSS_KEY_LEN;
	info->reta_size = TWIN_RETA_SIZE;
	info->flow_type_rss_offloads = twin_rss_supported();
#if HAS_ALGORITHMS
	/* An application that names no algorithm gets the default one. */
	info->rss_algo_capa =
		RTE_ETH_HASH_ALGO_TO_CAPA(RTE_ETH_HASH_FUNCTION_DEFAULT) |
		RTE_ETH_HASH_ALGO_TO_CAPA(RTE_ETH_HASH_FUNCTION_TOEPLITZ) |
		RTE_ETH_HASH_ALGO_TO_CAPA(RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ_SORT);
#endif
}

/* Fills the RETA with all queues in turn, as other drivers do. */
int
twin_rss_configure(struct rte_eth_dev *dev)
{
	const struct rte_eth_conf *conf = &dev->data->dev_conf;
	struct twin_port *port = dev->data->dev_private;
	uint16_t i;
	int ret = 0;

	memcpy(port->rss.key, default_key, TWIN_RSS_KEY_LEN);
	port->rss.hash_functions = 0;
	port->rss.algorithm = RTE_ETH_HASH_FUNCTION_DEFAULT;
	if (conf->rxmode.mq_mode & RTE_ETH_MQ_RX_RSS_FLAG)
		ret = take(&port->rss, &conf->rx_adv_conf.rss_conf);
	if (ret != 0)
		return ret;
	for (i = 0; i < TWIN_RETA_SIZE; i++)
		port->rss.reta[i] = i % RTE_MAX(dev->data->nb_rx_queues, 1);
	apply(port);
	twin_nic_set_queues(port->nic, dev->data->nb_rx_queues);
	return 0;
}

int
twin_rss_hash_update(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf)
{
	struct twin_port *port = dev->data->dev_private;
	int ret = take(&port->rss, conf);

	if (ret == 0)
		apply(port);
	return ret;
}

int
twin_rss_hash_conf_get(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf)
{
	const struct twin_port *port = dev->data->dev_private;

	conf->rss_hf = port->rss.hash_functions;
#if HAS_ALGORITHMS
	conf->algorithm = port->rss.algorithm;
#endif
	if (conf->rss_key != NULL && conf->rss_key_len >= TWIN_RSS_KEY_LEN) {
		memcpy(conf->rss_key, port->rss.key, TWIN_RSS_KEY_LEN);
		conf->rss_key_len = TWIN_RSS_KEY_LEN;
	}
	return 0;
}

/* ethdev has checked that the queues exist, but not the size. */
int
twin_rss_reta_update(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups,
		     uint16_t size)
{
	struct twin_port *port = dev->data->dev_private;
	uint16_t i;

	if (size != TWIN_RETA_SIZE)
		return -EINVAL;
	for (i = 0; i < size; i++) {
		const struct rte_eth_rss_reta_entry64 *group = &groups[i / RTE_ETH_RETA_GROUP_SIZE];
		uint16_t place = i % RTE_ETH_RETA_GROUP_SIZE;

		if (group->mask & RTE_BIT64(place))
			port->rss.reta[i] = group->reta[place];
	}
	apply(port);
	return 0;
}

int
twin_rss_reta_query(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups,
		    uint16_t size)
{
	const struct twin_port *port = dev->data->dev_private;
	uint16_t i;

	if (size != TWIN_RETA_SIZE)
		return -EINVAL;
	for (i = 0; i < size; i++) {
		struct rte_eth_rss_reta_entry64 *group = &groups[i / RTE_ETH_RETA_GROUP_SIZE];
		uint16_t place = i % RTE_ETH_RETA_GROUP_SIZE;

		if (group->mask & RTE_BIT64(place))
			group->reta[place] = port->rss.reta[i];
	}
	return 0;
}
