/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface to the model of a NIC, which is written in Rust: ../src/ffi.rs. */
#ifndef TWIN_MODEL_H
#define TWIN_MODEL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* In an action: the port of the rule. */
#define TWIN_OWN_PORT UINT32_MAX

#define TWIN_GIVEN_SPEC 1u
#define TWIN_GIVEN_LAST 2u
#define TWIN_GIVEN_MASK 4u

/* A header, and its bits that a rule matches. */
struct twin_item {
	/* Headers as in a packet, or NULL. If no mask was given, `mask` is that of rte_flow.h. */
	const void *spec;
	const void *last;
	const void *mask;
	uint16_t proto;
	uint8_t given; /* TWIN_GIVEN_* */
	/* Whether a tag must follow Ethernet or VLAN, or a fragment header IPv6. */
	uint8_t follower_matters;
	uint8_t is_followed;
};

struct twin_action {
	uint32_t kind;
	/*
	 * Number of mark, queue, group or port; types of rss, 0 for those of the port; seconds
	 * of age.
	 */
	uint32_t value;
	uint64_t context; /* age: value that reports the rule, 0 for its handle */
	const uint16_t *queues; /* rss */
	uint32_t queue_count;
};

#define TWIN_INGRESS 1u
#define TWIN_EGRESS 2u
#define TWIN_TRANSFER 4u
/* The pattern names the port at which packets arrive. */
#define TWIN_NAMES_PORT 8u

static inline uint32_t
twin_directions(bool ingress, bool egress, bool transfer)
{
	return (ingress ? TWIN_INGRESS : 0) | (egress ? TWIN_EGRESS : 0) |
	       (transfer ? TWIN_TRANSFER : 0);
}

/* Maximum number of items, and of actions, of a rule. Useful rules have fewer. */
#define TWIN_PARTS_MAX 32

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

/* A call to the model: its time, and its results beside the return value. */
struct twin_call {
	uint64_t now_us; /* time, of any clock that never goes back */
	uint32_t wait_us; /* time that the NIC needs, for which the caller waits */
	/* The refusal, as in rte_flow_error. The message is never freed. */
	int32_t error;
	uint32_t type; /* enum rte_flow_error_type; NONE: leave the application's error as it was */
	uint32_t place_kind; /* TWIN_PLACE_* */
	uint32_t place; /* index of the item or action; END has the index behind the last */
	const char *message; /* or NULL */
};

struct twin_frame {
	const uint8_t *bytes;
	uint32_t len; /* readable bytes: the whole frame, or more than all headers */
	uint32_t frame_len;
};

#define TWIN_HAS_MARK 1u
#define TWIN_HAS_FLAG 2u
#define TWIN_HAS_HASH 4u
#define TWIN_DROPPED 8u
/* Results of checksums. Neither bit is set if a checksum was not, or cannot be, verified. */
#define TWIN_NETWORK_GOOD 16u
#define TWIN_NETWORK_BAD 32u
#define TWIN_TRANSPORT_GOOD 64u
#define TWIN_TRANSPORT_BAD 128u
/* The packet goes out on the wire of the port in `queue`, or to that port itself. */
#define TWIN_TO_WIRE 256u
#define TWIN_TO_PORT 512u
/* Several rules count the packet, so only twin_nic_classify can count it. */
#define TWIN_COUNTED_OFTEN UINT32_MAX

struct twin_verdict {
	uint32_t flags;
	uint32_t mark;
	uint32_t hash; /* RSS hash */
	uint16_t queue;
	uint16_t network; /* enum twin_proto; NONE if unknown */
	uint16_t transport;
	/* Argument of twin_nic_count; 0 if no rule counts; or TWIN_COUNTED_OFTEN. */
	uint32_t counter;
};

/* A packet to count, whose verdict was computed ahead. */
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

/* ../src/ffi.rs asserts the same sizes. */
static_assert(sizeof(struct twin_item) == 8 + 3 * sizeof(void *), "twin_item");
static_assert(sizeof(struct twin_action) == 24 + sizeof(void *), "twin_action");
static_assert(sizeof(struct twin_rule) == 24 + 2 * sizeof(void *), "twin_rule");
static_assert(sizeof(struct twin_call) == 32 + sizeof(void *), "twin_call");
static_assert(sizeof(struct twin_frame) == 8 + sizeof(void *), "twin_frame");
static_assert(sizeof(struct twin_verdict) == 24, "twin_verdict");
static_assert(sizeof(struct twin_tally) == 24, "twin_tally");
static_assert(sizeof(struct twin_idle) == 16, "twin_idle");

/* Packets that RSS hashes: bits for IPv4; those for IPv6 are TWIN_RSS_IPV6_SHIFT bits higher. */
#define TWIN_RSS_IP 1u
#define TWIN_RSS_FRAGMENT 2u
#define TWIN_RSS_OTHER 4u
#define TWIN_RSS_TCP 8u
#define TWIN_RSS_UDP 16u
#define TWIN_RSS_SCTP 32u
#define TWIN_RSS_IPV6_SHIFT 8
/* The smaller address and the smaller port are hashed first, so both directions are equal. */
#define TWIN_RSS_SORTED 0x10000u

/* Checksums to verify: those of the IPv4 header, and of transports. */
#define TWIN_CHECK_IPV4 1u
#define TWIN_CHECK_TCP 2u
#define TWIN_CHECK_UDP 4u
#define TWIN_CHECK_SCTP 8u

/*
 * Returns a NIC without rules; NULL, and a message, if there is no such personality or fault. Ends
 * the process if there is no memory.
 */
struct twin_nic *twin_nic_new(const char *personality, uint64_t seed, const char *faults,
			      char *message, uint32_t message_len);
/* No thread may use the NIC any more. */
void twin_nic_free(struct twin_nic *nic);
/* True if the NIC has templates and flow queues. */
bool twin_nic_has_async(const struct twin_nic *nic);
void twin_nic_set_started(const struct twin_nic *nic, bool is_started);
/* Makes the NIC reset itself: it loses its rules, and refuses rules until it is brought back. */
void twin_nic_go_down(const struct twin_nic *nic);
/* Brings the NIC back as new; false if that fails. */
bool twin_nic_bring_back(const struct twin_nic *nic);
/* Returns the probability that an arriving packet is held, and others pass it. */
double twin_nic_reorder_chance(const struct twin_nic *nic);
/* Sets whether the port is part of a switch. */
void twin_nic_set_switch(const struct twin_nic *nic, bool has_switch);
/* Sets the number of receive queues. */
void twin_nic_set_queues(const struct twin_nic *nic, uint16_t queues);
/* Sets which checksums are verified: TWIN_CHECK_*. */
void twin_nic_set_checks(const struct twin_nic *nic, uint8_t checks);

/*
 * Functions with a `call` return 0 or NULL if the NIC refuses, and write the refusal into `call`.
 * Any thread may call them at any time, also while others classify.
 */
uint64_t twin_flow_validate(const struct twin_nic *nic, const struct twin_rule *rule,
			    struct twin_call *call);
/* Returns the rule's handle. */
uint64_t twin_flow_create(const struct twin_nic *nic, const struct twin_rule *rule,
			  struct twin_call *call);
uint64_t twin_flow_destroy(const struct twin_nic *nic, uint64_t handle, struct twin_call *call);
/* True if the rule exists. A destroyed rule does not, even if it is still in effect. */
bool twin_flow_exists(const struct twin_nic *nic, uint64_t handle);
uint64_t twin_flow_flush(const struct twin_nic *nic, struct twin_call *call);
/* Sets isolated mode: packets that no rule sends to a queue are dropped. */
uint64_t twin_flow_isolate(const struct twin_nic *nic, bool is_isolated, struct twin_call *call);
uint64_t twin_flow_query(const struct twin_nic *nic, uint64_t handle, bool reset,
			 struct twin_tally *tally, struct twin_call *call);
uint64_t twin_flow_idle(const struct twin_nic *nic, uint64_t handle, struct twin_idle *idle,
			struct twin_call *call);
/* Returns the number of aged rules; writes the contexts of at most `room` of them. */
uint32_t twin_flow_aged(const struct twin_nic *nic, uint64_t now_us, uint64_t *contexts,
			uint32_t room);
/* True if rules have aged that neither this function nor twin_flow_aged has reported. */
bool twin_nic_is_ageing_news(const struct twin_nic *nic, uint64_t now_us);
/* Returns a line of text for a rule, or for each rule if the handle is 0. */
char *twin_flow_dump(const struct twin_nic *nic, uint64_t handle, struct twin_call *call);
void twin_text_free(char *text);
/* Sets RSS: the queue is reta[hash % reta_len]. Without types, all packets go to queue 0. */
void twin_nic_set_rss(const struct twin_nic *nic, uint32_t types, const uint8_t *key,
		      const uint16_t *reta, uint32_t reta_len);
/* Classifies frames and counts them. Writes one verdict for each frame. */
void twin_nic_classify(const struct twin_nic *nic, const struct twin_frame *frames,
		       uint32_t count, uint64_t now_us, struct twin_verdict *verdicts);
/* Classifies frames ahead, without counting them. Writes one verdict for each frame. */
void twin_nic_foresee(const struct twin_nic *nic, const struct twin_frame *frames, uint32_t count,
		      uint64_t now_us, struct twin_verdict *verdicts);
/*
 * Returns where the generation of the rules is. Verdicts computed ahead are valid as long as the
 * generation that was read before them does not change.
 */
const uint64_t *twin_nic_generation(const struct twin_nic *nic);
/*
 * Returns where the time is at which a rule comes into effect or ends by the clock. twin_nic_settle
 * is due then. 0: never.
 */
const uint64_t *twin_nic_change_us(const struct twin_nic *nic);
/* Begins a generation, because verdicts have changed by the clock. */
void twin_nic_settle(const struct twin_nic *nic, uint64_t now_us);
void twin_nic_count(const struct twin_nic *nic, const struct twin_count *counts, uint32_t count,
		    uint64_t now_us);

struct twin_capture;

/* Reads a capture; NULL, and the reason in `error`, if it cannot be replayed. */
struct twin_capture *twin_capture_read(const char *path, char *error, size_t room);
void twin_capture_free(struct twin_capture *capture);
size_t twin_capture_count(const struct twin_capture *capture);
void twin_capture_frame(const struct twin_capture *capture, size_t place, struct twin_frame *frame);
/*
 * Called with the packets of a capture, in order, whose verdicts an exact rule may have changed. It
 * returns before the call that creates or destroys the rule does. Packets that are alike have the
 * same verdict, except for checksums.
 */
typedef void twin_update(void *context, const uint32_t *packets, uint32_t count, bool are_alike);
/*
 * From now on, a change of an exact rule calls `update` instead of beginning a generation. Any
 * thread that changes rules calls it, one at a time. `update` may call twin_nic_foresee.
 */
void twin_nic_follow(const struct twin_nic *nic, const struct twin_capture *capture,
		     twin_update *update, void *context);

#endif
