/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The twin's port, and the border to its model: what is declared here under "model" is written in
 * Rust, in ../src/ffi.rs.
 */
#ifndef TWIN_H
#define TWIN_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_kvargs.h>
#include <rte_ring.h>
#include <ethdev_driver.h>
#include <rte_flow_driver.h>

#include "twin_pace.h"

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
	TWIN_PROTO_IPV6_FRAG,
	TWIN_PROTO_VXLAN,
	TWIN_PROTO_GTPU,
	TWIN_PROTO_GRE,
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
	TWIN_ACTION_JUMP,
	TWIN_ACTION_AGE,
	TWIN_ACTION_PORT_ID,
	TWIN_ACTION_REPRESENTED_PORT,
	TWIN_ACTION_PORT_REPRESENTOR,
};

/* As the port of an action, that of the rule. */
#define TWIN_OWN_PORT UINT32_MAX

#define TWIN_GIVEN_SPEC 1u
#define TWIN_GIVEN_LAST 2u
#define TWIN_GIVEN_MASK 4u

/* A header and the bits of it that count. */
struct twin_item {
	/* Headers as in a packet, or NULL. Without a mask, it is that of rte_flow.h. */
	const void *spec;
	const void *last;
	const void *mask;
	uint16_t proto;
	uint8_t given; /* of TWIN_GIVEN_* */
	/* A tag behind Ethernet and VLAN, a fragment header behind IPv6. */
	uint8_t follower_matters;
	uint8_t is_followed;
};

struct twin_action {
	uint32_t kind;
	/*
	 * Of mark, queue and jump; types of rss, those of the port without any; seconds of age;
	 * number of a port.
	 */
	uint32_t value;
	uint64_t context; /* of age: what the application calls the rule, 0 for its handle */
	const uint16_t *queues; /* of rss */
	uint32_t queue_count;
};

#define TWIN_INGRESS 1u
#define TWIN_EGRESS 2u
#define TWIN_TRANSFER 4u
/* The pattern names the port that packets arrive at. */
#define TWIN_NAMES_PORT 8u

struct twin_rule {
	uint32_t group;
	uint32_t priority;
	uint32_t direction;
	uint32_t item_count;
	uint32_t action_count;
	const struct twin_item *items;
	const struct twin_action *actions;
};

#define TWIN_PLACE_RULE 0u
#define TWIN_PLACE_ITEM 1u
#define TWIN_PLACE_ACTION 2u

/* A call to the model: when it is made, and what became of it beside its value. */
struct twin_call {
	uint64_t now_us; /* of any clock that never goes back */
	uint32_t wait_us; /* how long the NIC needs, and holds the caller */
	/* Why it was refused, as in rte_flow_error; the message is never freed. */
	int32_t error;
	uint32_t type; /* of enum rte_flow_error_type; none leaves the application's untouched */
	uint32_t place_kind; /* of TWIN_PLACE_* */
	uint32_t place; /* of the item or action; that behind the last is the end */
	const char *message; /* or NULL */
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
/* Checksums, of those that are checked; neither bit where nobody can know. */
#define TWIN_NETWORK_GOOD 16u
#define TWIN_NETWORK_BAD 32u
#define TWIN_TRANSPORT_GOOD 64u
#define TWIN_TRANSPORT_BAD 128u
/* To the wire of the port in `queue`; to that port itself. */
#define TWIN_TO_WIRE 256u
#define TWIN_TO_PORT 512u
/* By several rules: only twin_nic_classify counts it. */
#define TWIN_COUNTED_OFTEN UINT32_MAX

struct twin_verdict {
	uint32_t flags;
	uint32_t mark;
	uint32_t hash; /* of RSS */
	uint16_t queue;
	uint16_t network; /* of enum twin_proto, none where it is unknown */
	uint16_t transport;
	/* For twin_nic_count, 0 where nothing is to be counted; or TWIN_COUNTED_OFTEN. */
	uint32_t counter;
};

/* A packet of a verdict that was foreseen. */
struct twin_count {
	uint32_t counter;
	uint32_t bytes;
};

struct twin_idle {
	uint64_t idle_us;
	uint8_t is_aged;
};

struct twin_tally {
	uint64_t hits;
	uint64_t bytes;
	uint8_t has_bytes;
};

/* As in ../src/ffi.rs. */
static_assert(sizeof(struct twin_item) == 8 + 3 * sizeof(void *), "twin_item");
static_assert(sizeof(struct twin_action) == 24 + sizeof(void *), "twin_action");
static_assert(sizeof(struct twin_rule) == 24 + 2 * sizeof(void *), "twin_rule");
static_assert(sizeof(struct twin_call) == 32 + sizeof(void *), "twin_call");
static_assert(sizeof(struct twin_frame) == 8 + sizeof(void *), "twin_frame");
static_assert(sizeof(struct twin_verdict) == 24, "twin_verdict");
static_assert(sizeof(struct twin_tally) == 24, "twin_tally");
static_assert(sizeof(struct twin_idle) == 16, "twin_idle");

/* What RSS hashes; the same of IPv6 TWIN_RSS_IPV6_SHIFT bits up. */
#define TWIN_RSS_IP 1u
#define TWIN_RSS_FRAGMENT 2u
#define TWIN_RSS_OTHER 4u
#define TWIN_RSS_TCP 8u
#define TWIN_RSS_UDP 16u
#define TWIN_RSS_SCTP 32u
#define TWIN_RSS_IPV6_SHIFT 8
/* The smaller address and the smaller port are hashed first. */
#define TWIN_RSS_SORTED 0x10000u

/* Checksums that are checked: of the header of IPv4, and of transports. */
#define TWIN_CHECK_IPV4 1u
#define TWIN_CHECK_TCP 2u
#define TWIN_CHECK_UDP 4u
#define TWIN_CHECK_SCTP 8u

/*
 * A NIC without rules; NULL, and a message, if there is no such personality or fault. Ends the
 * process where there is no memory.
 */
struct twin_nic *twin_nic_new(const char *personality, uint64_t seed, const char *faults,
			      char *message, uint32_t message_len);
/* Nobody may use it any more. */
void twin_nic_free(struct twin_nic *nic);
/* Whether it has templates and flow queues. */
bool twin_nic_has_async(const struct twin_nic *nic);
void twin_nic_set_started(const struct twin_nic *nic, bool is_started);
/* Whether the port is one of several that packets can be sent between. */
void twin_nic_set_switch(const struct twin_nic *nic, bool has_switch);
/* Receive queues that rules may name. */
void twin_nic_set_queues(const struct twin_nic *nic, uint16_t queues);
/* Of TWIN_CHECK_*. */
void twin_nic_set_checks(const struct twin_nic *nic, uint8_t checks);

/*
 * Those that return a number return 0 for a refusal, and write it. Any thread may call them, at any
 * time, beside twin_nic_classify.
 */
uint64_t twin_flow_validate(const struct twin_nic *nic, const struct twin_rule *rule,
			    struct twin_call *call);
/* Returns the rule's handle. */
uint64_t twin_flow_create(const struct twin_nic *nic, const struct twin_rule *rule,
			  struct twin_call *call);
uint64_t twin_flow_destroy(const struct twin_nic *nic, uint64_t handle, struct twin_call *call);
/* Whether a rule is there that was, or is asked to go and still in effect. */
bool twin_flow_exists(const struct twin_nic *nic, uint64_t handle);
uint64_t twin_flow_flush(const struct twin_nic *nic, struct twin_call *call);
/* Only rules bring packets to queues; others count as dropped. */
uint64_t twin_flow_isolate(const struct twin_nic *nic, bool is_isolated, struct twin_call *call);
uint64_t twin_flow_query(const struct twin_nic *nic, uint64_t handle, bool reset,
			 struct twin_tally *tally, struct twin_call *call);
uint64_t twin_flow_idle(const struct twin_nic *nic, uint64_t handle, struct twin_idle *idle,
			struct twin_call *call);
/* How many rules are aged; writes their contexts, as many as there is room for. */
uint32_t twin_flow_aged(const struct twin_nic *nic, uint64_t now_us, uint64_t *contexts,
			uint32_t room);
/* Whether rules are aged that neither this nor twin_flow_aged has told of. */
bool twin_nic_is_ageing_news(const struct twin_nic *nic, uint64_t now_us);
/* A line for a rule, or for each if the handle is 0; NULL for a refusal. */
char *twin_flow_dump(const struct twin_nic *nic, uint64_t handle, struct twin_call *call);
void twin_text_free(char *text);
/* The queue of a hash is reta[hash % reta_len]; without types all packets go to the first queue. */
void twin_nic_set_rss(const struct twin_nic *nic, uint32_t types, const uint8_t *key,
		      const uint16_t *reta, uint32_t reta_len);
/* One verdict for each frame. */
void twin_nic_classify(const struct twin_nic *nic, const struct twin_frame *frames,
		       uint32_t count, uint64_t now_us, struct twin_verdict *verdicts);
/* The same without counting: verdicts of packets that are still to come. */
void twin_nic_foresee(const struct twin_nic *nic, const struct twin_frame *frames, uint32_t count,
		      uint64_t now_us, struct twin_verdict *verdicts);
/* Another number than before: what was foreseen may not come true. Read it before foreseeing. */
const uint64_t *twin_nic_generation(const struct twin_nic *nic);
/* When rules come into effect or go by themselves, and twin_nic_settle is called. 0: never. */
const uint64_t *twin_nic_change_us(const struct twin_nic *nic);
/* Begins a generation. */
void twin_nic_settle(const struct twin_nic *nic, uint64_t now_us);
void twin_nic_count(const struct twin_nic *nic, const struct twin_count *counts, uint32_t count,
		    uint64_t now_us);

struct twin_capture;

/* Returns NULL where there is nothing to replay, and writes why. */
struct twin_capture *twin_capture_read(const char *path, char *error, size_t room);
void twin_capture_free(struct twin_capture *capture);
size_t twin_capture_count(const struct twin_capture *capture);
void twin_capture_frame(const struct twin_capture *capture, size_t place, struct twin_frame *frame);

/* ---- port -------------------------------------------------------------------------------- */

struct twin_port;

/* What the devargs say. */
struct twin_args {
	const char *personality;
	const char *faults;
	uint64_t seed;
	const char *wire;
	const char *replay;
	const char *lower;
	const char *eswitch;
	uint64_t loops;
	uint32_t mbps; /* 0: no limit */
	bool has_thread;
	int cpu; /* of the thread */
	/* Where the strings are. */
	char *text;
	struct rte_kvargs *strings;
};

#define TWIN_FOREVER UINT64_MAX

/* Where packets of a port come from and where they go. */
struct twin_source {
	/* All queues are set up. */
	int (*start)(struct twin_port *port);
	void (*stop)(struct twin_port *port);
	/* Also after an open that failed. */
	void (*close)(struct twin_port *port);
	eth_rx_burst_t rx;
	eth_tx_burst_t tx;
	/*
	 * Sends what the switch brings, by any thread, and takes it; how many packets went out.
	 * Without it, they are lost.
	 */
	uint16_t (*carry)(struct twin_port *port, struct rte_mbuf **packets, uint16_t count);
	/* Fetches packets for all queues; how many. Without it, they are brought. */
	uint16_t (*poll)(struct twin_port *port);
	/* Those that have nothing to add leave these out. */
	int (*update_link)(struct twin_port *port);
	void (*add_stats)(struct twin_port *port, struct rte_eth_stats *stats);
	void (*reset_stats)(struct twin_port *port);
	void (*info)(struct twin_port *port, struct rte_eth_dev_info *info);
	int (*set_mtu)(struct twin_port *port, uint16_t mtu);
	int (*set_mac)(struct twin_port *port, struct rte_ether_addr *addr);
};

/* A thread for the work of the model. */
struct twin_pipeline {
	bool is_wanted;
	bool is_running;
	int cpu;
	pthread_t thread;
	struct rte_ring *inbox; /* of packets that are brought */
};

/* How far a queue has played. */
struct twin_cursor {
	uint32_t block;
	uint64_t ahead; /* packets of the block that are still to come */
	uint64_t passes; /* that are still to come, this one included */
};

struct twin_rxq {
	struct twin_port *port;
	/* Packets wait in a ring, as in the descriptors of a NIC. */
	struct rte_ring *ring;
	struct rte_mempool *pool;
	uint32_t room; /* bytes of a packet that one mbuf holds, in whole cache lines */
	uint64_t packets;
	uint64_t bytes;
	struct twin_cursor cursor;
	/* By whoever sends, which may be several. */
	uint64_t missed __rte_cache_aligned;
};

struct twin_txq {
	struct twin_port *port;
	bool is_of_one_pool; /* the application promised */
	uint64_t packets;
	uint64_t bytes;
	uint64_t errors;
} __rte_cache_aligned;

struct twin_rss {
	uint64_t hash_functions; /* as ethdev names them */
	enum rte_eth_hash_function algorithm;
	uint8_t key[TWIN_RSS_KEY_LEN];
	uint16_t reta[TWIN_RETA_SIZE];
};

struct twin_port {
	struct rte_eth_dev *dev;
	struct twin_nic *nic;
	struct rte_flow_ops flow_ops; /* those that this NIC has */
	struct twin_async *async; /* or NULL */
	const struct twin_source *source;
	struct twin_wire *wire;
	unsigned int side; /* of the wire */
	bool started; /* under the lock of the wire */
	struct twin_replay *replay;
	struct twin_lower *lower;
	struct twin_switch *eswitch; /* or NULL */
	bool is_reachable; /* for what the switch brings; under its lock */
	struct twin_pipeline pipeline;
	struct twin_pace pace;
	struct rte_ether_addr mac;
	struct twin_rss rss;
	bool is_ageing; /* rules may be */
	struct twin_rxq *rxq;
	struct twin_txq *txq;
	/*
	 * By whoever does the work of the model, which may be several: what rules dropped, what
	 * they sent to queues that are not there, and what the work cost.
	 */
	uint64_t rule_drops __rte_cache_aligned;
	uint64_t no_queue;
	uint64_t no_room; /* on the way to the model */
	uint64_t model_cycles;
	uint64_t model_packets;
	/* What its rules sent to other ports, and what found no way there. */
	uint64_t switched;
	uint64_t switch_drops;
	/* What the rules of others sent out here. */
	uint64_t carried;
	uint64_t carried_bytes;
};

int twin_log_type(void);
/* Microseconds since some time. */
uint64_t twin_now_us(void);
#define TWIN_LOG(level, ...) rte_log(RTE_LOG_##level, twin_log_type(), "net_twin: " __VA_ARGS__)

static inline void
twin_add(uint64_t *counter, uint64_t more)
{
	if (more != 0)
		__atomic_fetch_add(counter, more, __ATOMIC_RELAXED);
}

/* twin_args.c */
int twin_args_parse(const char *devargs, struct twin_args *args);
void twin_args_free(struct twin_args *args);

/* twin_ethdev.c */
/* Whether it changed; twin_tell_link tells who is interested. */
bool twin_set_link(struct twin_port *port, bool is_up);
void twin_tell_link(struct rte_eth_dev *dev);
uint32_t twin_drain(struct rte_ring *ring);

/* twin_rxtx.c */
extern const struct twin_source twin_no_source;
uint16_t twin_rx(void *queue, struct rte_mbuf **packets, uint16_t count);
uint16_t twin_rx_polling(void *queue, struct rte_mbuf **packets, uint16_t count);
uint16_t twin_tx_swallow(void *queue, struct rte_mbuf **packets, uint16_t count);
void twin_deliver(struct twin_port *to, struct rte_mbuf **packets, uint16_t count);

/* twin_wire.c */
extern const struct twin_source twin_wire_source;
int twin_wire_open(struct twin_port *port, const struct twin_args *args);

/* twin_replay.c */
extern const struct twin_source twin_replay_source;
int twin_replay_open(struct twin_port *port, const struct twin_args *args);

/* twin_switch.c */
int twin_switch_open(struct twin_port *port, const struct twin_args *args);
void twin_switch_close(struct twin_port *port);
void twin_switch_set_started(struct twin_port *port, bool is_started);
void twin_switch_info(const struct twin_port *port, struct rte_eth_dev_info *info);
/* What is wrong with the port that an action names, or an item; NULL if nothing is. */
const char *twin_switch_action_trouble(const struct twin_port *port,
				       const struct rte_flow_action *action);
const char *twin_switch_item_trouble(const struct twin_port *port,
				     const struct rte_flow_item *item);
void twin_switch_take_action(const struct twin_port *port, const struct rte_flow_action *action,
			     struct twin_action *to);
bool twin_switch_knows(enum rte_flow_item_type type);
void twin_switch_count(struct twin_port *port, uint64_t packets, uint64_t bytes);
void twin_switch_send(struct twin_port *from, uint32_t to, struct rte_mbuf **packets,
		      uint16_t count);

/* In the number of a port: to that port, not to its wire. */
#define TWIN_TO_PORT_BIT 0x10000u

static inline bool
twin_is_elsewhere(const struct twin_verdict *verdict)
{
	return (verdict->flags & (TWIN_TO_WIRE | TWIN_TO_PORT)) != 0;
}

/* For twin_switch_send. */
static inline uint32_t
twin_target(const struct twin_verdict *verdict)
{
	return verdict->queue | ((verdict->flags & TWIN_TO_PORT) != 0 ? TWIN_TO_PORT_BIT : 0);
}

/* twin_lower.c */
extern const struct twin_source twin_lower_source;
int twin_lower_open(struct twin_port *port, const struct twin_args *args);

/* twin_pipeline.c */
int twin_pipeline_open(struct twin_port *port);
int twin_pipeline_start(struct twin_port *port);
void twin_pipeline_stop(struct twin_port *port);
void twin_pipeline_close(struct twin_port *port);
void twin_hand_over(struct twin_port *to, struct rte_mbuf **packets, uint16_t count);

/* twin_stats.c */
int twin_stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats);
int twin_stats_reset(struct rte_eth_dev *dev);
int twin_xstats_get_names(struct rte_eth_dev *dev, struct rte_eth_xstat_name *names,
			  unsigned int size);
int twin_xstats_get(struct rte_eth_dev *dev, struct rte_eth_xstat *xstats, unsigned int size);

/* twin_rss.c */
uint64_t twin_rss_supported(void);
/* In the model's terms. */
uint32_t twin_rss_types(uint64_t hash_functions, enum rte_eth_hash_function algorithm);
bool twin_rss_knows(enum rte_eth_hash_function algorithm);
void twin_rss_info(struct rte_eth_dev_info *info);
int twin_rss_configure(struct rte_eth_dev *dev);
int twin_rss_hash_update(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int twin_rss_hash_conf_get(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int twin_rss_reta_update(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups,
			 uint16_t size);
int twin_rss_reta_query(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups,
			uint16_t size);

/* twin_age.c */
void twin_age_start(struct twin_port *port);
void twin_age_stop(struct twin_port *port);
int twin_age_list(struct rte_eth_dev *dev, void **contexts, uint32_t room,
		  struct rte_flow_error *error);

/* twin_flow.c */
extern const struct rte_flow_ops twin_flow_ops;
bool twin_flow_knows(const struct rte_flow_item *item);
/* Makes a rule, and waits for nobody; its handle, or 0 and the error. */
uint64_t twin_flow_make(const struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
			const struct rte_flow_item pattern[],
			const struct rte_flow_action actions[], struct twin_call *call,
			struct rte_flow_error *error);

/* twin_async.c */
int twin_async_open(struct twin_port *port);
void twin_async_close(struct twin_port *port);
/* The model's handle of any rule that an application has; 0 where there is no such rule. */
uint64_t twin_async_rule(const struct rte_eth_dev *dev, const struct rte_flow *flow);
/* Rules may have gone otherwise than through a queue. */
void twin_async_note_strays(const struct twin_port *port);

#endif
