/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits the rate of a link. A thread that moves packets claims the wire time that has passed, and
 * returns the part that it did not use. Time that is not claimed for long is lost, so that no burst
 * is longer than the buffers of a NIC.
 */
#ifndef TWIN_PACE_H
#define TWIN_PACE_H

#include <stdint.h>

#include <rte_common.h>
#include <rte_cycles.h>

/* The claim of a link without a rate limit. */
#define TWIN_PACE_UNLIMITED INT64_MAX

struct twin_pace {
	uint32_t mbps; /* 0: no limit */
	uint64_t clear_at; /* time until which the wire is busy, in cycles */
};

/* Returns the bytes of a packet on the wire, with padding, FCS, preamble and gap. */
static inline int64_t
twin_pace_bytes(uint32_t frame_len)
{
	return RTE_MAX(frame_len, 60u) + 24;
}

void twin_pace_start(struct twin_pace *pace);
int64_t twin_pace_claim_time(struct twin_pace *pace);
void twin_pace_use_time(struct twin_pace *pace, int64_t claimed, int64_t used);

/* Claims the wire time that has passed, in bytes. No other thread gets it. */
static inline int64_t
twin_pace_claim(struct twin_pace *pace)
{
	return likely(pace->mbps == 0) ? TWIN_PACE_UNLIMITED : twin_pace_claim_time(pace);
}

/* Returns the unused part of a claim. If `used` is more, later claims get less. */
static inline void
twin_pace_use(struct twin_pace *pace, int64_t claimed, int64_t used)
{
	if (unlikely(pace->mbps != 0))
		twin_pace_use_time(pace, claimed, used);
}

#endif
