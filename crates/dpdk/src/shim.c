/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wraps parts of DPDK that Rust cannot use: static inline functions, macros, and members that moved
 * between DPDK versions. Functions here are called per burst or at start, none per packet.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bindings.h"

int
shim_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int count)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, count);
}

/* Frees the mbufs in a ring that no thread uses any more. */
void
shim_ring_drain(struct rte_ring *ring)
{
	void *mbuf;

	while (rte_ring_dequeue(ring, &mbuf) == 0)
		rte_pktmbuf_free(mbuf);
}

/* Returns rte_errno and sets it to 0, so that it is not taken for that of a later failure. */
int
shim_take_errno(void)
{
	int number = rte_errno;

	rte_errno = 0;
	return number;
}

/* Wrapped because rte_eth_link has bit fields in 22.11, and a union of them in 24.11. */
int
shim_link_get(uint16_t port, struct shim_link *link)
{
	struct rte_eth_link state = { 0 };
	int ret = rte_eth_link_get_nowait(port, &state);

	link->up = ret == 0 && state.link_status == RTE_ETH_LINK_UP;
	link->speed = state.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : state.link_speed;
	return ret;
}

/*
 * Returns the state of a Linux interface. Some drivers on such interfaces always report the link as
 * up: af_packet of 22.11, and pcap. If the state cannot be read, the interface counts as up.
 */
unsigned int
shim_interface_state(unsigned int if_index)
{
	struct ifreq request = { .ifr_ifindex = (int)if_index };
	unsigned int state = BIND_INTERFACE_UP;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return state;
	if (ioctl(fd, SIOCGIFNAME, &request) < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		state = errno == ENODEV || errno == ENXIO ? BIND_INTERFACE_GONE : state;
	else if ((request.ifr_flags & IFF_RUNNING) == 0)
		state = BIND_INTERFACE_DOWN;
	close(fd);
	return state;
}

/* Selects the hash that sorts addresses and ports; false if DPDK or the port does not have it. */
bool
shim_rss_sort(const struct rte_eth_dev_info *info, struct rte_eth_rss_conf *conf)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
	const enum rte_eth_hash_function sort = RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ_SORT;

	if ((info->rss_algo_capa & RTE_ETH_HASH_ALGO_TO_CAPA(sort)) == 0)
		return false;
	conf->algorithm = sort;
	return true;
#else
	RTE_SET_USED(info);
	RTE_SET_USED(conf);
	return false;
#endif
}

static FILE *
stream_to(shim_write write)
{
	const cookie_io_functions_t functions = { .write = write };

	return fopencookie(NULL, "w", functions);
}

/* Sends every log line of DPDK to `write` instead of the standard error and syslog. */
int
shim_log_to(shim_write write)
{
	FILE *stream = stream_to(write);

	return stream == NULL ? -1 : rte_openlog_stream(stream);
}

/*
 * Starts EAL. About wrong arguments, EAL prints messages to the standard error, beside its log, and
 * a list of all options to the standard output. Here, the messages go to `write`, and the list is
 * dropped. Both streams are variables of glibc; only C code of this thread uses them meanwhile.
 */
int
shim_eal_init(int argc, char **argv, shim_write write)
{
	FILE *const out = stdout, *const err = stderr;
	FILE *nowhere = stream_to(NULL), *errors = stream_to(write);
	int ret;

	if (nowhere == NULL || errors == NULL) {
		rte_errno = ENOMEM;
		return -1;
	}
	setvbuf(errors, NULL, _IOLBF, BUFSIZ);
	stdout = nowhere;
	stderr = errors;
	ret = rte_eal_init(argc, argv);
	stdout = out;
	stderr = err;
	fclose(nowhere);
	fclose(errors);
	return ret;
}
