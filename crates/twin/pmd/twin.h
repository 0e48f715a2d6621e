/* SPDX-License-Identifier: BSD-3-Clause */
/* The twin's port, as the files of the driver share it. */
#ifndef TWIN_H
#define TWIN_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_kvargs.h>
#include <rte_ring.h>
#include <rte_spinlock.h>
#include <ethdev_driver.h>
#include <rte_flow_driver.h>

#include <rte_version.h>

#include "twin_model.h"
#include "twin_pace.h"

/* What ethdev calls without a look is known of these: 22.11, and 24.11 as it is since 24.03. */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0) && RTE_VERSION < RTE_VERSION_NUM(24, 3, 0, 0)
#error "DPDK 23.03 to 23.11 is not supported; 22.11 and 24.11 are"
#endif

/* Packets that are classified at once. */
#define TWIN_BURST 64
/* Descriptors of a queue; a power of two. */
#define TWIN_RXD_MIN 64
#define TWIN_RXD_MAX 32768
/* Of each direction. */
#define TWIN_QUEUES_MAX 64
#define TWIN_RSS_KEY_LEN 40
#define TWIN_RETA_SIZE 128

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
	uint16_t queues; /* at most, of each direction */
	uint16_t rxd; /* of a queue, at most */
	int64_t reset_after; /* packets; 0: never */
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
	bool is_far_timed; /* the other end of the wire has frames that wait for their time */
	uint64_t packets;
	uint64_t bytes;
	struct twin_cursor cursor;
	/* By whoever sends, which may be several. */
	uint64_t missed __rte_cache_aligned;
};

struct twin_txq {
	struct twin_port *port;
	bool is_of_one_pool; /* the application promised */
	struct twin_timed *timed; /* NULL: frames have no times */
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
	uint16_t queues_max; /* of each direction */
	uint16_t rxd_max;
	struct twin_rss rss;
	bool is_ageing; /* rules may be */
	int64_t reset_after; /* packets; 0: never */
	int64_t left; /* packets until then */
	bool is_down; /* it has reset itself */
	bool goes_on; /* the next start is that after a reset */
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
	/* Held by who changes rules, or queues, of a port that replays; by nobody who receives. */
	rte_spinlock_t changing;
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
void twin_rx_queue_release(struct rte_eth_dev *dev, uint16_t queue);

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

/* twin_reset.c */
uint16_t twin_reset_rx(void *queue, struct rte_mbuf **packets, uint16_t count);
uint16_t twin_reset_tx(void *queue, struct rte_mbuf **packets, uint16_t count);
int twin_reset(struct rte_eth_dev *dev);
/* Nobody will be told any more when it returns. */
void twin_reset_stop(struct twin_port *port);

/* twin_async.c */
int twin_async_open(struct twin_port *port);
/* Parts with tables, templates, queues and what is in them, as a reset does. */
void twin_async_forget(struct twin_port *port);
void twin_async_close(struct twin_port *port);
/* The model's handle of any rule that an application has; 0 where there is no such rule. */
uint64_t twin_async_rule(const struct rte_eth_dev *dev, const struct rte_flow *flow);
/* Rules may have gone otherwise than through a queue. */
void twin_async_note_strays(const struct twin_port *port);

#endif
