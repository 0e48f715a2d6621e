/* SPDX-License-Identifier: BSD-3-Clause */
/* The border to the model of a NIC: all of this is written in Rust, in ../src/ffi.rs. */
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

static inline uint32_t
twin_directions(bool ingress, bool egress, bool transfer)
{
	return (ingress ? TWIN_INGRESS : 0) | (egress ? TWIN_EGRESS : 0) |
	       (transfer ? TWIN_TRANSFER : 0);
}

/* Items and actions that a rule has at most: more than any of sense. */
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
	uint32_t len; /* bytes there; more than all headers, or the whole frame */
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
/* Resets itself: its rules are gone, and calls about rules fail until it is brought back. */
void twin_nic_go_down(const struct twin_nic *nic);
/* As new; false if that fails. */
bool twin_nic_bring_back(const struct twin_nic *nic);
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
/* Whether the handle names a rule: one that was asked to go is none, be it still in effect. */
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
/*
 * Another number than before: what was foreseen may not come true. Read it before foreseeing.
 */
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
/*
 * Told of packets of a capture whose verdicts an exact rule may have changed, in their order, and
 * before the call returns that made it or destroyed it. Those that are alike have one verdict but
 * for their checksums.
 */
typedef void twin_update(void *context, const uint32_t *packets, uint32_t count, bool are_alike);
/*
 * From now on, exact rules begin no generation: `update` is called instead, by any thread that
 * changes rules, one at a time. It may foresee.
 */
void twin_nic_follow(const struct twin_nic *nic, const struct twin_capture *capture,
		     twin_update *update, void *context);

#endif
