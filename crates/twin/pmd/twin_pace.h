/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rate of a link: who moves packets takes the time of the wire that has gone by, and gives back
 * what it did not need. Time that nobody takes for long is lost, so that no burst is longer than
 * what the buffers of a NIC would hold.
 */
#ifndef TWIN_PACE_H
#define TWIN_PACE_H

#include <stdint.h>

#include <rte_common.h>
#include <rte_cycles.h>

/* Of a rate that is limited by nothing. */
#define TWIN_PACE_UNLIMITED INT64_MAX

struct twin_pace {
	uint32_t mbps; /* 0: as fast as it can be */
	uint64_t clear_at; /* until then the wire is busy */
};

/* Bytes of the wire that a packet takes: padding, check sequence, preamble and gap included. */
static inline int64_t
twin_pace_bytes(uint32_t frame_len)
{
	return RTE_MAX(frame_len, 60u) + 24;
}

void twin_pace_start(struct twin_pace *pace);
int64_t twin_pace_claim_time(struct twin_pace *pace);
void twin_pace_use_time(struct twin_pace *pace, int64_t claimed, int64_t used);

/* Bytes that the wire has had time for. Nobody else gets them. */
static inline int64_t
twin_pace_claim(struct twin_pace *pace)
{
	return likely(pace->mbps == 0) ? TWIN_PACE_UNLIMITED : twin_pace_claim_time(pace);
}

/* Of those, so many were used, which may be more; the others are given back. */
static inline void
twin_pace_use(struct twin_pace *pace, int64_t claimed, int64_t used)
{
	if (unlikely(pace->mbps != 0))
		twin_pace_use_time(pace, claimed, used);
}

#endif
