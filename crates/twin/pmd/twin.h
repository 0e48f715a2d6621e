/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The twin's port, and the border to its model: what is declared here under "model" is written in
 * Rust, in ../src/ffi.rs.
 */
#ifndef TWIN_H
#define TWIN_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ring.h>
#include <rte_rwlock.h>
#include <ethdev_driver.h>

/* Bytes of the longest header in an item: IPv6. */
#define TWIN_HEADER_MAX 40
/* Packets that are classified at once. */
#define TWIN_BURST 64
/* Descriptors of a queue; a power of two. */
#define TWIN_RXD_MIN 64
#define TWIN_RXD_MAX 32768
/* Of each direction. */
#define TWIN_QUEUES_MAX 64
#define TWIN_RSS_KEY_LEN 40
#define TWIN_RETA_SIZE 128

/* ---- model ------------------------------------------------------------------------------- */

struct twin_nic;

enum twin_proto {
	TWIN_PROTO_NONE,
	TWIN_PROTO_ETH,
	TWIN_PROTO_VLAN,
	TWIN_PROTO_IPV4,
	TWIN_PROTO_IPV6,
	TWIN_PROTO_TCP,
	TWIN_PROTO_UDP,
	TWIN_PROTO_SCTP,
	TWIN_PROTO_ICMP,
	TWIN_PROTO_ICMP6,
};

enum twin_action_kind {
	TWIN_ACTION_NONE,
	TWIN_ACTION_MARK,
	TWIN_ACTION_FLAG,
	TWIN_ACTION_QUEUE,
	TWIN_ACTION_DROP,
	TWIN_ACTION_PASSTHRU,
	TWIN_ACTION_COUNT,
	TWIN_ACTION_RSS,
};

/* A header and the bits of it that count, in network byte order. */
struct twin_item {
	uint16_t proto;
	uint8_t spec[TWIN_HEADER_MAX];
	uint8_t mask[TWIN_HEADER_MAX];
	/* Of Ethernet and VLAN: whether a tag follows, and whether that matters. */
	uint8_t has_vlan;
	uint8_t vlan_matters;
};

struct twin_action {
	uint32_t kind;
	uint32_t value; /* of mark and queue; types of rss, 0 for those of the port */
	const uint16_t *queues; /* of rss */
	uint32_t queue_count;
};

#define TWIN_INGRESS 1u
#define TWIN_EGRESS 2u
#define TWIN_TRANSFER 4u

struct twin_rule {
	uint32_t group;
	uint32_t priority;
	uint32_t direction;
	uint32_t item_count;
	uint32_t action_count;
	const struct twin_item *items;
	const struct twin_action *actions;
};

/* Why a rule was refused; the message is never freed. */
struct twin_refusal {
	int32_t error;
	uint32_t cause;
	uint32_t place; /* of the item or action */
	const char *message;
};

enum twin_cause {
	TWIN_CAUSE_UNSPECIFIED = 1,
	TWIN_CAUSE_HANDLE = 2,
	TWIN_CAUSE_GROUP = 3,
	TWIN_CAUSE_INGRESS = 5,
	TWIN_CAUSE_EGRESS = 6,
	TWIN_CAUSE_TRANSFER = 7,
	TWIN_CAUSE_ITEM = 8,
	TWIN_CAUSE_ACTIONS = 9,
	TWIN_CAUSE_ACTION = 10,
};

struct twin_frame {
	const uint8_t *bytes;
	uint32_t len; /* bytes there: the first segment */
	uint32_t frame_len;
};

#define TWIN_HAS_MARK 1u
#define TWIN_HAS_FLAG 2u
#define TWIN_HAS_HASH 4u
#define TWIN_DROPPED 8u

struct twin_verdict {
	uint32_t flags;
	uint32_t mark;
	uint32_t hash; /* of RSS */
	uint16_t queue;
	uint16_t network; /* of enum twin_proto, none where it is unknown */
	uint16_t transport;
};

/* What RSS hashes; the same of IPv6 TWIN_RSS_IPV6_SHIFT bits up. */
#define TWIN_RSS_IP 1u
#define TWIN_RSS_FRAGMENT 2u
#define TWIN_RSS_OTHER 4u
#define TWIN_RSS_TCP 8u
#define TWIN_RSS_UDP 16u
#define TWIN_RSS_SCTP 32u
#define TWIN_RSS_IPV6_SHIFT 8

/* A NIC without rules. Ends the process where there is no memory. */
struct twin_nic *twin_nic_new(void);
/* Nobody may use it any more. */
void twin_nic_free(struct twin_nic *nic);

/*
 * Those that return a number return 0 for a refusal, and write it. Any thread may call them, at any
 * time, beside twin_nic_classify.
 */
uint64_t twin_flow_validate(const struct twin_nic *nic, const struct twin_rule *rule,
			    struct twin_refusal *refusal);
/* Returns the rule's handle. */
uint64_t twin_flow_create(const struct twin_nic *nic, const struct twin_rule *rule,
			  struct twin_refusal *refusal);
uint64_t twin_flow_destroy(const struct twin_nic *nic, uint64_t handle,
			   struct twin_refusal *refusal);
void twin_flow_flush(const struct twin_nic *nic);
/* Writes packets and bytes. */
uint64_t twin_flow_query(const struct twin_nic *nic, uint64_t handle, bool reset,
			 uint64_t tally[2], struct twin_refusal *refusal);
/* The queue of a hash is reta[hash % reta_len]; without types all packets go to the first queue. */
void twin_nic_set_rss(const struct twin_nic *nic, uint16_t types, const uint8_t *key,
		      const uint16_t *reta, uint32_t reta_len);
/* One verdict for each frame. */
void twin_nic_classify(const struct twin_nic *nic, const struct twin_frame *frames,
		       uint32_t count, struct twin_verdict *verdicts);

/* ---- port -------------------------------------------------------------------------------- */

struct twin_port;

/* Packets wait in a ring, as in the descriptors of a NIC. */
struct twin_rxq {
	struct twin_port *port;
	struct rte_ring *ring;
	uint64_t packets;
	uint64_t bytes;
	/* By whoever sends, which may be several. */
	uint64_t missed __rte_cache_aligned;
};

struct twin_txq {
	struct twin_port *port;
	uint64_t packets;
	uint64_t bytes;
	uint64_t errors;
} __rte_cache_aligned;

struct twin_rss {
	uint64_t hash_functions; /* as ethdev names them */
	uint8_t key[TWIN_RSS_KEY_LEN];
	uint16_t reta[TWIN_RETA_SIZE];
};

/* A cable: what one end sends, the other receives. */
struct twin_wire {
	LIST_ENTRY(twin_wire) next;
	char name[64];
	/* For reading by who sends, for writing by who plugs in, starts or stops. */
	rte_rwlock_t lock;
	struct twin_port *end[2];
};

struct twin_port {
	struct rte_eth_dev *dev;
	struct twin_nic *nic;
	struct twin_wire *wire;
	unsigned int side; /* of the wire */
	bool started; /* under the lock of the wire */
	struct rte_ether_addr mac;
	struct twin_rss rss;
	struct twin_rxq *rxq;
	struct twin_txq *txq;
	/* By whoever sends: what rules dropped, and what they sent to queues that are not there. */
	uint64_t rule_drops __rte_cache_aligned;
	uint64_t no_queue;
};

int twin_log_type(void);
#define TWIN_LOG(level, ...) rte_log(RTE_LOG_##level, twin_log_type(), "net_twin: " __VA_ARGS__)

/* twin_rxtx.c */
uint16_t twin_rx(void *queue, struct rte_mbuf **packets, uint16_t count);
uint16_t twin_tx(void *queue, struct rte_mbuf **packets, uint16_t count);

/* twin_wire.c */
struct twin_wire *twin_wire_plug(const char *name, struct twin_port *port);
void twin_wire_unplug(struct twin_port *port);
void twin_wire_set_started(struct twin_port *port, bool started);

/* twin_rss.c */
uint64_t twin_rss_supported(void);
uint16_t twin_rss_types(uint64_t hash_functions);
int twin_rss_configure(struct rte_eth_dev *dev);
int twin_rss_hash_update(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int twin_rss_hash_conf_get(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int twin_rss_reta_update(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups,
			 uint16_t size);
int twin_rss_reta_query(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups,
			uint16_t size);

/* twin_flow.c */
extern const struct rte_flow_ops twin_flow_ops;

#endif
