/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Input of bindgen: the DPDK headers that this crate uses, constants that bindgen cannot evaluate
 * from macros, and the prototypes of the C files of this crate.
 *
 * rte_mbuf stays opaque, because its anonymous unions get other names in every DPDK version.
 * mbuf.rs reads its fields at the offsets below, which come from the installed header.
 */
#ifndef MILLRACE_BINDINGS_H
#define MILLRACE_BINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

#define BIND_OFFSET(field) offsetof(struct rte_mbuf, field)
#define BIND_SIZE(field) sizeof(((struct rte_mbuf *)0)->field)

static const size_t BIND_MBUF_BUF_ADDR = BIND_OFFSET(buf_addr);
static const size_t BIND_MBUF_DATA_OFF = BIND_OFFSET(data_off);
static const size_t BIND_MBUF_PKT_LEN = BIND_OFFSET(pkt_len);
static const size_t BIND_MBUF_DATA_LEN = BIND_OFFSET(data_len);
static const size_t BIND_MBUF_BUF_LEN = BIND_OFFSET(buf_len);
static const size_t BIND_MBUF_NEXT = BIND_OFFSET(next);
static const size_t BIND_MBUF_FLAGS = BIND_OFFSET(ol_flags);
static const size_t BIND_MBUF_MARK = BIND_OFFSET(hash.fdir.hi);

/* mbuf.rs reads fields of these widths. */
_Static_assert(BIND_SIZE(buf_addr) == sizeof(void *), "buf_addr");
_Static_assert(BIND_SIZE(data_off) == 2, "data_off");
_Static_assert(BIND_SIZE(pkt_len) == 4, "pkt_len");
_Static_assert(BIND_SIZE(data_len) == 2, "data_len");
_Static_assert(BIND_SIZE(buf_len) == 2, "buf_len");
_Static_assert(BIND_SIZE(next) == sizeof(void *), "next");
_Static_assert(BIND_SIZE(ol_flags) == 8, "ol_flags");
_Static_assert(BIND_SIZE(hash.fdir.hi) == 4, "hash.fdir.hi");

static const uint64_t BIND_FLAG_MATCHED = RTE_MBUF_F_RX_FDIR;
static const uint64_t BIND_FLAG_MARKED = RTE_MBUF_F_RX_FDIR_ID;
static const uint64_t BIND_FLAGS_CHECKSUMS =
	RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK;
static const uint64_t BIND_FLAGS_CHECKSUMS_GOOD =
	RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
static const uint64_t BIND_METADATA_MARKS =
	RTE_ETH_RX_METADATA_USER_FLAG | RTE_ETH_RX_METADATA_USER_MARK;
static const uint64_t BIND_RX_SCATTER = RTE_ETH_RX_OFFLOAD_SCATTER;
static const uint64_t BIND_RX_CHECKSUMS = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM |
	RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
static const uint64_t BIND_TX_MULTI_SEGS = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
static const uint64_t BIND_TX_ON_TIME = RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP;
static const uint64_t BIND_RSS_FIELDS =
	RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP;
static const uint32_t BIND_MQ_RX_RSS = RTE_ETH_MQ_RX_RSS;
static const uint32_t BIND_EVENT_REMOVED = RTE_ETH_EVENT_INTR_RMV;
static const uint32_t BIND_EVENT_RESET = RTE_ETH_EVENT_INTR_RESET;
static const uint32_t BIND_DEVICE_REMOVED = RTE_DEV_EVENT_REMOVE;
static const uint32_t BIND_FLAG_REMOVED = RTE_ETH_DEV_INTR_RMV;
static const uint32_t BIND_LCORE_WAIT = WAIT;
static const uint32_t BIND_RING_ONE_TO_ONE =
	RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ;
static const size_t BIND_MODIFY_FIELD_LEN = sizeof(struct rte_flow_action_modify_field);
/* Before 23.03, the item for ARP is no packet header: addresses of IP are aligned. */
static const bool BIND_ARP_IS_PADDED = RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0);
static const int BIND_SOCKET_ANY = SOCKET_ID_ANY;

/* State of a Linux interface. */
enum { BIND_INTERFACE_GONE, BIND_INTERFACE_DOWN, BIND_INTERFACE_UP };

/* Receives text, as the write function of fopencookie. */
typedef ssize_t shim_write(void *cookie, const char *text, size_t length);

struct shim_link {
	bool up;
	/* Speed in Mb/s; 0 if the driver does not know it. */
	uint32_t speed;
};

/* A field of packets or a value beside them, for shim_modify_field. */
struct shim_field {
	uint32_t field;
	uint8_t level;
	uint8_t tag_index;
	uint8_t type;
	uint16_t class_id;
	uint32_t offset;
};

/* struct rte_flow_action_modify_field of any DPDK. */
struct shim_modify {
	uint32_t operation;
	struct shim_field dst;
	struct shim_field src;
	uint8_t value[16];
	/* What a source of type `pointer` points to; NULL if the source is `value`, or a field. */
	const uint8_t *pointer;
	uint32_t width;
};

/* Offloads of a Linux interface that change frames. */
enum shim_offload { SHIM_GRO, SHIM_LRO, SHIM_TX_CHECKSUMS };

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
int shim_rx_queue_count(uint16_t port, uint16_t queue);
int shim_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int count);
void shim_ring_drain(struct rte_ring *ring);
int shim_take_errno(void);
int shim_link_get(uint16_t port, struct shim_link *link);
unsigned int shim_interface_state(unsigned int if_index);
bool shim_rss_sort(const struct rte_eth_dev_info *info, struct rte_eth_rss_conf *conf);
int shim_log_to(shim_write write);
int shim_limit_privileges(uint64_t capabilities);
int shim_close_on_exec(void);
int shim_block_driver_signals(void);
int shim_offload(const char *interface, enum shim_offload offload, int wanted);
int shim_hold_promiscuous(unsigned int if_index);
void shim_modify_field(void *room, const struct shim_modify *modify);
int shim_eal_init(int argc, char **argv, shim_write write);

#endif
