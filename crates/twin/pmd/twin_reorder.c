/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults=reorder:CHANCE: holds some packets that arrive until a few others have passed. Packets are
 * held before they are classified, so those that rules send to another port are reordered too.
 */

#include <errno.h>
#include <stdlib.h>

#include <rte_mbuf.h>
#include <rte_spinlock.h>

#include "twin.h"

/* A packet that is held, and how many others pass it. */
struct held {
	struct rte_mbuf *packet;
	uint16_t others;
};

struct twin_reorder {
	/* Several threads may send to a wire. It is not held while packets are delivered. */
	rte_spinlock_t lock;
	double chance;
	uint64_t random;
	uint16_t count;
	struct held held[TWIN_HELD_MAX];
};

/* Creates the fault if the devargs have it. Captures keep their order. */
int
twin_reorder_open(struct twin_port *port, const struct twin_args *args)
{
	const double chance = twin_nic_reorder_chance(port->nic);

	if (chance == 0 || args->replay != NULL)
		return 0;
	port->reorder = calloc(1, sizeof(*port->reorder));
	if (port->reorder == NULL)
		return -ENOMEM;
	rte_spinlock_init(&port->reorder->lock);
	port->reorder->chance = chance;
	port->reorder->random = args->seed;
	return 0;
}

/* As in ../src/random.rs, but without a call per packet. */
static uint64_t
draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static bool
is_chosen(struct twin_reorder *reorder)
{
	return (draw(&reorder->random) >> 11) * 0x1p-53 < reorder->chance;
}

/* Notes that a packet has passed the held ones. Writes those that no other is to pass. */
static uint16_t
let_pass(struct twin_reorder *reorder, struct rte_mbuf **packets)
{
	uint16_t i, kept = 0, count = 0;

	for (i = 0; i < reorder->count; i++) {
		struct held *held = &reorder->held[i];

		if (--held->others == 0)
			packets[count++] = held->packet;
		else
			reorder->held[kept++] = *held;
	}
	reorder->count = kept;
	return count;
}

/* Writes all held packets. */
static uint16_t
let_all_pass(struct twin_reorder *reorder, struct rte_mbuf **packets)
{
	uint16_t i, count = reorder->count;

	for (i = 0; i < count; i++)
		packets[i] = reorder->held[i].packet;
	reorder->count = 0;
	return count;
}

/*
 * Writes the packets that are to be delivered now, of those that arrive and those that are held.
 * If none arrives, these are all held ones. `out` has room for TWIN_HELD_MAX more than arrive.
 */
uint16_t
twin_reorder(struct twin_reorder *reorder, struct rte_mbuf **packets, uint16_t count,
	     struct rte_mbuf **out)
{
	uint16_t i, passed = 0;

	rte_spinlock_lock(&reorder->lock);
	for (i = 0; i < count; i++) {
		if (reorder->count < TWIN_HELD_MAX && is_chosen(reorder)) {
			reorder->held[reorder->count++] = (struct held){
				.packet = packets[i],
				.others = 1 + draw(&reorder->random) % TWIN_OTHERS_MAX,
			};
			continue;
		}
		out[passed++] = packets[i];
		passed += let_pass(reorder, out + passed);
	}
	if (count == 0)
		passed = let_all_pass(reorder, out);
	rte_spinlock_unlock(&reorder->lock);
	return passed;
}

/* Returns the number of held packets, which may be delivered beside those that arrive. */
uint16_t
twin_reorder_held(const struct twin_port *port)
{
	return port->reorder != NULL ? __atomic_load_n(&port->reorder->count, __ATOMIC_RELAXED) : 0;
}

/* Frees the held packets of a port that has stopped, and counts them as missed. */
void
twin_reorder_stop(struct twin_port *port)
{
	struct rte_mbuf *packets[TWIN_HELD_MAX];
	uint16_t count;

	if (port->reorder == NULL)
		return;
	count = let_all_pass(port->reorder, packets);
	rte_pktmbuf_free_bulk(packets, count);
	twin_add(&port->no_room, count);
}

void
twin_reorder_close(struct twin_port *port)
{
	free(port->reorder);
	port->reorder = NULL;
}
