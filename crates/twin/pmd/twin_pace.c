/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the rate limit of a link, in cycles of the time-stamp counter. */

#include "twin_pace.h"

/* Longest unused wire time that can be claimed later, like the buffers of a NIC. */
#define BUFFERED_US 1000
#define BITS 8
#define MEGA 1000000

/* Converts cycles to bytes, rounded down. */
static int64_t
bytes_of(const struct twin_pace *pace, uint64_t cycles)
{
	return (unsigned __int128)cycles * pace->mbps * MEGA / BITS / rte_get_tsc_hz();
}

/* Converts bytes to cycles, rounded up. */
static uint64_t
cycles_of(const struct twin_pace *pace, uint64_t bytes)
{
	uint64_t rate = (uint64_t)pace->mbps * MEGA / BITS;

	return ((unsigned __int128)bytes * rte_get_tsc_hz() + rate - 1) / rate;
}

void
twin_pace_start(struct twin_pace *pace)
{
	__atomic_store_n(&pace->clear_at, rte_rdtsc(), __ATOMIC_RELAXED);
}

int64_t
twin_pace_claim_time(struct twin_pace *pace)
{
	const uint64_t buffered = rte_get_tsc_hz() / MEGA * BUFFERED_US;
	uint64_t clear_at = __atomic_load_n(&pace->clear_at, __ATOMIC_RELAXED);
	uint64_t now = rte_rdtsc(), from;
	int64_t bytes;

	do {
		if (clear_at >= now)
			return 0;
		from = RTE_MAX(clear_at, now - buffered);
		bytes = bytes_of(pace, now - from);
		/* Advances by whole bytes, so that no part of a byte is lost. */
	} while (!__atomic_compare_exchange_n(&pace->clear_at, &clear_at,
					      from + cycles_of(pace, bytes), false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return bytes;
}

void
twin_pace_use_time(struct twin_pace *pace, int64_t claimed, int64_t used)
{
	/* Two conversions, so that a poll without packets gives back exactly what it claimed. */
	__atomic_fetch_add(&pace->clear_at, cycles_of(pace, used) - cycles_of(pace, claimed),
			   __ATOMIC_RELAXED);
}
