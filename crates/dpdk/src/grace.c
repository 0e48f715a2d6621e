/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces munmap: memory that a driver unmaps stays mapped until no lcore is within a burst.
 *
 * When the peer of a memif port leaves, net_memif marks the port as not connected. Then it unmaps
 * the shared memory, on DPDK's interrupt thread (memif_disconnect in memif_socket.c,
 * memif_free_regions in rte_eth_memif.c, 22.11 and 24.11). An lcore that checked the port before
 * would then read unmapped memory, most likely if that thread interrupted it. So munmap waits for
 * bursts that have begun; later bursts see that the port is not connected. One case remains: an
 * lcore takes the address of a ring just before munmap, and is held up until another peer connects.
 *
 * This munmap replaces that of the C library in the whole program, as allocators replace malloc.
 * Calls inside the C library do not come here. Other callers wait a millisecond or two while lcores
 * are busy.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bindings.h"

/* Number of begins and ends of bursts of an lcore; odd within a burst. */
static struct {
	alignas(RTE_CACHE_LINE_SIZE) atomic_uint count;
} bursts[RTE_MAX_LCORE];

/* Longest wait for all bursts, because a burst may hang in its driver. */
enum { PATIENCE_MS = 1000 };

/* Counts the begin or end of a burst. Only the lcore itself writes to its counter. */
static inline void
count_for(unsigned int lcore)
{
	if (lcore < RTE_MAX_LCORE) {
		atomic_uint *count = &bursts[lcore].count;

		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
			memory_order_release);
		/* Pairs with the memory barrier of munmap. */
		atomic_signal_fence(memory_order_seq_cst);
	}
}

uint16_t
shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	const unsigned int lcore = rte_lcore_id();
	uint16_t received;

	count_for(lcore);
	received = rte_eth_rx_burst(port, queue, mbufs, count);
	count_for(lcore);
	return received;
}

int
shim_rx_queue_count(uint16_t port, uint16_t queue)
{
	const unsigned int lcore = rte_lcore_id();
	int waiting;

	count_for(lcore);
	waiting = rte_eth_rx_queue_count(port, queue);
	count_for(lcore);
	return waiting;
}

uint16_t
shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	const unsigned int lcore = rte_lcore_id();
	uint16_t sent;

	count_for(lcore);
	sent = rte_eth_tx_burst(port, queue, mbufs, count);
	count_for(lcore);
	return sent;
}

/*
 * Makes earlier stores of this thread visible to lcores: one whose burst is not counted yet will
 * see them. If the kernel refuses membarrier, the time since the driver's store has to be enough.
 */
static void
wait_for_stores_of_lcores(void)
{
	/* Registers each time, which is cheap after the first and needs no state. */
	atomic_thread_fence(memory_order_seq_cst);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

static void
wait_for_bursts(void)
{
	const struct timespec millisecond = { .tv_nsec = 1000 * 1000 };
	const unsigned int own = rte_lcore_id();
	int waited_ms = 0;

	wait_for_stores_of_lcores();
	for (unsigned int lcore = 0; lcore < RTE_MAX_LCORE; lcore++) {
		atomic_uint *count = &bursts[lcore].count;
		const unsigned int before = atomic_load_explicit(count, memory_order_acquire);

		if (before % 2 == 0 || lcore == own)
			continue;
		while (atomic_load_explicit(count, memory_order_acquire) == before &&
				waited_ms++ < PATIENCE_MS) {
			/* nanosleep of the C library is a cancellation point; munmap is none. */
			syscall(SYS_nanosleep, &millisecond, NULL);
		}
	}
}

int
munmap(void *address, size_t length)
{
	const int number = errno;

	wait_for_bursts();
	errno = number;
	return (int)syscall(SYS_munmap, address, length);
}
