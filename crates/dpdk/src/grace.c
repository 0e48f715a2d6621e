/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a driver gives back stays mapped until no lcore is in the middle of a burst.
 *
 * When the peer of a memif port leaves, net_memif says that the port is not connected any more and
 * unmaps what both shared, on DPDK's interrupt thread (memif_disconnect in memif_socket.c and
 * memif_free_regions in rte_eth_memif.c, 22.11 and 24.11). A lcore that had looked before that then
 * reads what is gone, above all if it was interrupted by that very thread. So munmap waits for
 * bursts that have begun: later ones find the port as it is now. (Not one that took the address of
 * a ring just before munmap and is held up until another peer has connected.)
 *
 * The munmap here takes the place of the C library's in the whole program, as allocators take the
 * place of malloc; what the C library unmaps by itself does not come here. Whoever else calls it
 * waits for a millisecond or two while lcores are busy.
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

/* Bursts that a lcore has begun and ended: odd in the middle of one. */
static struct {
	alignas(RTE_CACHE_LINE_SIZE) atomic_uint count;
} bursts[RTE_MAX_LCORE];

/* A burst may hang in its driver; nobody waits longer for all of them. */
enum { PATIENCE_MS = 1000 };

/* Only the lcore itself writes to its counter. Threads without a number have none. */
static inline void
count_for(unsigned int lcore)
{
	if (lcore < RTE_MAX_LCORE) {
		atomic_uint *count = &bursts[lcore].count;

		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
			memory_order_release);
		/* The other half is the barrier in munmap. */
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
 * After this, a lcore that has not counted its burst yet sees all that was written before. Where
 * the kernel refuses it, what the driver did since it wrote that took longer than a store does.
 */
static void
wait_for_stores_of_lcores(void)
{
	/* Registered each time, which is cheap from the second on: so there is no state. */
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
			/* The C library's would let the thread be cancelled, which munmap does not. */
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
