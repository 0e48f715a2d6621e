/* SPDX-License-Identifier: BSD-3-Clause */
/* Declares the port of the software NIC, and the functions that files of the driver share. */
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

/* ethdev calls some operations without a check. Their layout is known for 22.11 and from 24.03. */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0) && RTE_VERSION < RTE_VERSION_NUM(24, 3, 0, 0)
#error "DPDK 23.03 to 23.11 is not supported; 22.11 and 24.11 are"
#endif

/* Maximum number of packets that are classified together. */
#define TWIN_BURST 64
/* Descriptors of a queue; a power of two. */
#define TWIN_RXD_MIN 64
#define TWIN_RXD_MAX 32768
/* Maximum for each direction. */
#define TWIN_QUEUES_MAX 64
#define TWIN_RSS_KEY_LEN 40
#define TWIN_RETA_SIZE 128
/* Most packets that a port holds to reorder them, and most others that pass a held one. */
#define TWIN_HELD_MAX 8
#define TWIN_OTHERS_MAX 8

struct twin_port;

/* The parsed devargs. */
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
	int cpu; /* where the thread runs */
	uint16_t queues; /* maximum for each direction */
	uint16_t rxd; /* maximum of receive descriptors of a queue */
	int64_t reset_after; /* packets; 0: never */
	/* Memory of the strings above. */
	char *text;
	struct rte_kvargs *strings;
};

#define TWIN_FOREVER UINT64_MAX

/* Operations of a port that depend on what it is connected to. */
struct twin_source {
	/* Called when all queues are set up. */
	int (*start)(struct twin_port *port);
	void (*stop)(struct twin_port *port);
	/* Called also after an open that failed. */
	void (*close)(struct twin_port *port);
	eth_rx_burst_t rx;
	eth_tx_burst_t tx;
	/*
	 * Sends packets that rules of other ports send out here, from any thread, and frees the
	 * others. Returns the number of packets sent. If it is NULL, such packets are lost.
	 */
	uint16_t (*carry)(struct twin_port *port, struct rte_mbuf **packets, uint16_t count);
	/* Receives packets for all queues; returns their number. NULL if senders deliver them. */
	uint16_t (*poll)(struct twin_port *port);
	/* Optional operations; NULL if there is nothing to do. */
	int (*update_link)(struct twin_port *port);
	void (*add_stats)(struct twin_port *port, struct rte_eth_stats *stats);
	void (*reset_stats)(struct twin_port *port);
	void (*info)(struct twin_port *port, struct rte_eth_dev_info *info);
	int (*set_mtu)(struct twin_port *port, uint16_t mtu);
	int (*set_mac)(struct twin_port *port, struct rte_ether_addr *addr);
};

/* A thread that classifies packets. */
struct twin_pipeline {
	bool is_wanted;
	bool is_running;
	int cpu;
	pthread_t thread;
	struct rte_ring *inbox; /* packets that senders deliver */
};

/* Position of a queue in the replayed capture. */
struct twin_cursor {
	uint32_t block;
	uint64_t ahead; /* packets of the block that are not played yet, as bits */
	uint64_t passes; /* remaining passes, this one included */
};

struct twin_rxq {
	struct twin_port *port;
	/* Packets that wait to be received, as in the descriptors of a NIC. */
	struct rte_ring *ring;
	struct rte_mempool *pool;
	uint32_t room; /* bytes of a packet that one mbuf holds, in whole cache lines */
	bool is_far_timed; /* the other end of the wire sends frames at set times */
	uint64_t packets;
	uint64_t bytes;
	struct twin_cursor cursor;
	/* Written by all threads that send to this queue. */
	uint64_t missed __rte_cache_aligned;
};

struct twin_txq {
	struct twin_port *port;
	bool is_of_one_pool; /* RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE is set */
	struct twin_timed *timed; /* NULL: frames have no times */
	uint64_t packets;
	uint64_t bytes;
	uint64_t errors;
} __rte_cache_aligned;

struct twin_rss {
	uint64_t hash_functions; /* RTE_ETH_RSS_* */
	enum rte_eth_hash_function algorithm;
	uint8_t key[TWIN_RSS_KEY_LEN];
	uint16_t reta[TWIN_RETA_SIZE];
};

struct twin_port {
	struct rte_eth_dev *dev;
	struct twin_nic *nic;
	struct rte_flow_ops flow_ops; /* operations that this NIC supports */
	struct twin_async *async; /* or NULL */
	const struct twin_source *source;
	struct twin_wire *wire;
	unsigned int side; /* index of this end of the wire */
	bool started; /* under the lock of the wire */
	struct twin_replay *replay;
	struct twin_lower *lower;
	struct twin_switch *eswitch; /* or NULL */
	bool is_reachable; /* for packets of the switch; under its lock */
	struct twin_reorder *reorder; /* or NULL */
	struct twin_pipeline pipeline;
	struct twin_pace pace;
	struct rte_ether_addr mac;
	uint16_t queues_max; /* for each direction */
	uint16_t rxd_max;
	struct twin_rss rss;
	bool is_ageing; /* there may be rules with an age */
	int64_t reset_after; /* packets; 0: never */
	int64_t left; /* packets until the port resets itself */
	bool is_down; /* the port has reset itself */
	bool goes_on; /* the next start follows a reset: replay continues */
	struct twin_rxq *rxq;
	struct twin_txq *txq;
	/*
	 * Written by all threads that classify: packets that rules dropped, packets for queues
	 * that do not exist, and the cost of classifying.
	 */
	uint64_t rule_drops __rte_cache_aligned;
	uint64_t no_queue;
	uint64_t no_room; /* packets lost because the inbox was full, or without an mbuf */
	uint64_t model_cycles;
	uint64_t model_packets;
	/* Replay: held while rules or queues change. Receivers never take it. */
	rte_spinlock_t changing;
	/* Packets that rules of this port sent to other ports, and packets lost on that way. */
	uint64_t switched;
	uint64_t switch_drops;
	/* Packets that rules of other ports sent out here. */
	uint64_t carried;
	uint64_t carried_bytes;
};

int twin_log_type(void);
/* Returns the time in microseconds, of a clock with an arbitrary start. */
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
/* Sets the link; true if it changed. twin_tell_link then reports it to the application. */
bool twin_set_link(struct twin_port *port, bool is_up);
void twin_tell_link(struct rte_eth_dev *dev);
uint32_t twin_drain(struct rte_ring *ring);
void twin_rx_queue_release(struct rte_eth_dev *dev, uint16_t queue);

/* twin_rxtx.c */
extern const struct twin_source twin_no_source;
uint16_t twin_rx(void *queue, struct rte_mbuf **packets, uint16_t count);
uint16_t twin_rx_polling(void *queue, struct rte_mbuf **packets, uint16_t count);
uint16_t twin_tx_swallow(void *queue, struct rte_mbuf **packets, uint16_t count);
uint16_t twin_carry_swallow(struct twin_port *port, struct rte_mbuf **packets, uint16_t count);
void twin_deliver(struct twin_port *to, struct rte_mbuf **packets, uint16_t count);

/* twin_reorder.c */
int twin_reorder_open(struct twin_port *port, const struct twin_args *args);
uint16_t twin_reorder(struct twin_reorder *reorder, struct rte_mbuf **packets, uint16_t count,
		      struct rte_mbuf **out);
uint16_t twin_reorder_held(const struct twin_port *port);
void twin_reorder_stop(struct twin_port *port);
void twin_reorder_close(struct twin_port *port);

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
/* Return an error message about the port in an action or an item; NULL if it is valid. */
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

/* Set in a target: packets go to the port with that number, not out on its wire. */
#define TWIN_TO_PORT_BIT 0x10000u

static inline bool
twin_is_elsewhere(const struct twin_verdict *verdict)
{
	return (verdict->flags & (TWIN_TO_WIRE | TWIN_TO_PORT)) != 0;
}

/* Returns the target of a verdict, for twin_switch_send. */
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
/* Converts hash functions of ethdev into types of the model. */
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
/* Creates a rule without waiting as the NIC would. Returns its handle, or 0 and the error. */
uint64_t twin_flow_make(const struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
			const struct rte_flow_item pattern[],
			const struct rte_flow_action actions[], struct twin_call *call,
			struct rte_flow_error *error);

/* twin_reset.c */
uint16_t twin_reset_rx(void *queue, struct rte_mbuf **packets, uint16_t count);
uint16_t twin_reset_tx(void *queue, struct rte_mbuf **packets, uint16_t count);
int twin_reset(struct rte_eth_dev *dev);
/* When it returns, no reset event is pending. */
void twin_reset_stop(struct twin_port *port);

/* twin_async.c */
int twin_async_open(struct twin_port *port);
/* Frees all tables, templates, queues and their contents, as a reset does. */
void twin_async_forget(struct twin_port *port);
void twin_async_close(struct twin_port *port);
/* Returns the model's handle of a rule; 0 if there is no such rule. */
uint64_t twin_async_rule(const struct rte_eth_dev *dev, const struct rte_flow *flow);
/* Notes that rules may have ended without an operation of a queue, such as by a flush. */
void twin_async_note_strays(const struct twin_port *port);

#endif
