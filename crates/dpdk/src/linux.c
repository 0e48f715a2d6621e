/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls of Linux whose arguments are pointers: descriptors across exec, signals, and
 * offloads of interfaces. Called at start and at the end.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bindings.h"

/* From linux/close_range.h (Linux 5.11), which older systems do not have. */
#define CLOSE_RANGE_CLOEXEC (1U << 2)

/* Marks every descriptor above 2 as close-on-exec. Returns 0, or a negative errno. */
int
shim_close_on_exec(void)
{
	struct dirent *entry;
	DIR *all;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, STDERR_FILENO + 1U, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
		return 0;
#endif
	all = opendir("/proc/self/fd");
	if (all == NULL)
		return -errno;
	while ((entry = readdir(all)) != NULL) {
		int fd = atoi(entry->d_name);

		if (fd > STDERR_FILENO)
			fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
	closedir(all);
	return 0;
}

/*
 * Blocks the lower half of the real-time signals in this thread, and in threads that it starts
 * later. Returns 0, or a negative errno.
 */
int
shim_block_driver_signals(void)
{
	sigset_t lower;

	sigemptyset(&lower);
	for (int signal = SIGRTMIN; signal <= (SIGRTMIN + SIGRTMAX) / 2; signal++)
		sigaddset(&lower, signal);
	return -pthread_sigmask(SIG_BLOCK, &lower, NULL);
}

static int
ethtool(const char *interface, struct ethtool_value *value)
{
	struct ifreq request = { .ifr_data = (char *)value };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret;

	if (fd < 0)
		return -errno;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	ret = ioctl(fd, SIOCETHTOOL, &request) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

/*
 * Switches an offload of an interface on (1) or off (0), unless `wanted` is -1. Returns its state,
 * or a negative errno if the kernel refuses.
 */
int
shim_offload(const char *interface, enum shim_offload offload, int wanted)
{
	static const struct {
		__u32 get, set, bit;
	} commands[] = {
		[SHIM_GRO] = { ETHTOOL_GGRO, ETHTOOL_SGRO, 1 },
		[SHIM_LRO] = { ETHTOOL_GFLAGS, ETHTOOL_SFLAGS, ETH_FLAG_LRO },
		[SHIM_TX_CHECKSUMS] = { ETHTOOL_GTXCSUM, ETHTOOL_STXCSUM, 1 },
	};
	const __u32 bit = commands[offload].bit;
	struct ethtool_value value = { .cmd = commands[offload].get };
	int ret = ethtool(interface, &value);

	if (ret < 0 || wanted < 0)
		return ret < 0 ? ret : (value.data & bit) != 0;
	value.cmd = commands[offload].set;
	value.data = wanted ? value.data | bit : value.data & ~bit;
	ret = ethtool(interface, &value);
	return ret < 0 ? ret : wanted;
}

/*
 * Makes an interface promiscuous until the returned descriptor is closed, also by the end of the
 * process. Returns a negative errno on failure.
 */
int
shim_hold_promiscuous(unsigned int if_index)
{
	const struct packet_mreq all = { .mr_ifindex = (int)if_index, .mr_type = PACKET_MR_PROMISC };
	/* With protocol 0, the socket receives nothing. */
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	int error;

	if (fd >= 0 && setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) == 0)
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	return -error;
}

/*
 * Replaces setsockopt of the C library in the whole program, because of one call. net_af_packet
 * joins its sockets to a fanout group with a flag for reassembly of IPv4 fragments
 * (rte_eth_af_packet.c, 22.11 and 24.11). A reassembled packet is longer than the MTU of the other
 * interface, so the kernel would refuse to send it, and fragments would not pass. The flag is
 * removed here.
 */
int
setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	int fanout;

	if (level == SOL_PACKET && name == PACKET_FANOUT && length == sizeof(fanout)) {
		memcpy(&fanout, value, sizeof(fanout));
		fanout &= ~(PACKET_FANOUT_FLAG_DEFRAG << 16);
		value = &fanout;
	}
	return (int)syscall(SYS_setsockopt, fd, level, name, value, length);
}
