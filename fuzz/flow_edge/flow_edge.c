/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two twin ports on a wire, treated at random through the interface of DPDK as any program may,
 * under the sanitizers: rules, packets, queues, ports that come and go. What is left out, as the
 * interface does not allow it: missing lists and results, a handle behind which is another rule by
 * now, sending on a port that is stopped, several threads of control.
 *
 * usage: flow_edge SEED SECONDS CPU PERSONALITY...
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "draw.h"
#include "end.h"
#include "frame.h"
#include "rule.h"

#define MBUFS 8191
#define ROOM 2176
#define FRAMES 16
#define STEPS 150
#define BURST_MAX 64
/* A thread of the model has so long for a burst, on a machine with other work. */
#define PATIENCE_S 20

uint64_t draw_state;
struct effort effort;
static uint64_t seed;

/*
 * What the counters of a wire's two ends came to. Where it was received, dropped or missed may be
 * either end: rules send packets to and fro.
 */
struct account {
	uint64_t sent;
	uint64_t sent_bytes;
	uint64_t lost;
	uint64_t received;
	uint64_t received_bytes;
	uint64_t missed;
	uint64_t dropped;
	uint64_t switched; /* on the way */
};

void
wrong(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "flow_edge: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	abort();
}

static uint64_t
extended(const struct end *end, const char *name)
{
	uint64_t id, value;

	if (rte_eth_xstats_get_id_by_name(end->id, name, &id) != 0 ||
	    rte_eth_xstats_get_by_id(end->id, &id, &value, 1) != 1)
		wrong("%s has no %s", end->name, name);
	return value;
}

static struct account
account_of(const struct end *from, const struct end *to)
{
	struct rte_eth_stats out, in;

	if (rte_eth_stats_get(from->id, &out) != 0 || rte_eth_stats_get(to->id, &in) != 0)
		wrong("%s has no statistics", to->name);
	return (struct account){
		out.opackets, out.obytes, out.oerrors, in.ipackets + out.ipackets,
		in.ibytes + out.ibytes, in.imissed + out.imissed,
		extended(to, "rx_rule_drops") + extended(to, "rx_switch_drops") +
			extended(from, "rx_rule_drops") + extended(from, "rx_switch_drops"),
		extended(to, "rx_switch_packets") + extended(from, "rx_switch_packets"),
	};
}

/* Since an account before. */
static struct account
growth(const struct account *before, const struct end *from, const struct end *to)
{
	struct account now = account_of(from, to);

	return (struct account){
		now.sent - before->sent, now.sent_bytes - before->sent_bytes,
		now.lost - before->lost, now.received - before->received,
		now.received_bytes - before->received_bytes, now.missed - before->missed,
		now.dropped - before->dropped, now.switched - before->switched,
	};
}

static void
check_received(const struct end *to, const struct rte_mbuf *m)
{
	const char *reason;

	if (rte_mbuf_check(m, 1, &reason) != 0)
		wrong("%s delivers a packet with %s", to->name, reason);
	if (m->port != to->id)
		wrong("%s delivers a packet of port %u", to->name, m->port);
	if ((m->ol_flags & RTE_MBUF_F_RX_FDIR_ID) == 0)
		return;
	effort.marked++;
	if (!end_gives(to, m->hash.fdir.hi))
		wrong("%s delivers the mark 0x%x, which no rule gives", to->name, m->hash.fdir.hi);
}

/* All that waits, in bursts; how many. */
static uint64_t
receive(const struct end *to, uint16_t burst)
{
	struct rte_mbuf *packets[BURST_MAX];
	uint64_t received = 0;
	uint16_t queue, i, count;

	for (queue = 0; to->is_started && queue < to->queues; queue++) {
		while ((count = rte_eth_rx_burst(to->id, queue, packets, burst)) > 0) {
			for (i = 0; i < count; i++)
				check_received(to, packets[i]);
			rte_pktmbuf_free_bulk(packets, count);
			received += count;
		}
	}
	return received;
}

static uint16_t
make_packets(struct frame frames[], struct rte_mbuf **packets, struct rte_mempool *pool)
{
	uint16_t i, count = 0, wanted = 1 + draw(BURST_MAX);
	struct frame damaged;

	for (i = 0; i < wanted; i++) {
		const struct frame *frame = &frames[draw(FRAMES)];

		if (draw_percent(30)) {
			damaged = *frame;
			frame_damage(&damaged);
			frame = &damaged;
		}
		packets[count] = frame_to_mbuf(frame, pool);
		count += packets[count] != NULL;
	}
	return count;
}

/* Everything that is sent is received, dropped or missed, once. */
static void
exchange(const struct end *from, const struct end *to, struct frame frames[],
	 struct rte_mempool *pool)
{
	struct account before = account_of(from, to), came;
	struct rte_mbuf *packets[BURST_MAX];
	uint64_t received = 0, patience = rte_get_timer_cycles() + PATIENCE_S * rte_get_timer_hz();
	uint16_t count = make_packets(frames, packets, pool), burst = 1 + draw(BURST_MAX), sent;

	sent = rte_eth_tx_burst(from->id, draw(from->queues), packets, count);
	rte_pktmbuf_free_bulk(packets + sent, count - sent);
	do {
		received += receive(to, burst) + receive(from, burst);
		came = growth(&before, from, to);
	} while (came.received + came.dropped + came.missed < came.sent &&
		 rte_get_timer_cycles() < patience);
	received += receive(to, burst) + receive(from, burst);
	came = growth(&before, from, to);
	if (came.sent + came.lost != sent || came.received != received ||
	    came.received + came.dropped + came.missed != came.sent ||
	    came.received_bytes > came.sent_bytes)
		wrong("%u sent: %s counts %" PRIu64 " sent, %" PRIu64 " lost; %" PRIu64
		      " received: %s counts %" PRIu64 " received, %" PRIu64 " dropped, %" PRIu64
		      " missed", sent, from->name, came.sent, came.lost, received, to->name,
		      came.received, came.dropped, came.missed);
	effort.sent += sent;
	effort.received += received;
	effort.switched += came.switched;
}

static void
step(struct end *end, struct end *other, struct frame frames[], struct rte_mempool *pool)
{
	uint32_t kind = draw(100);
	struct rule rule;

	if (kind < 50) {
		rule_draw(&rule, &frames[draw(FRAMES)], end->queues);
		end_create(end, &rule);
		rule_free(&rule);
	} else if (kind < 58) {
		end_destroy(end);
	} else if (kind < 64) {
		end_destroy_none(end, other);
	} else if (kind < 70) {
		end_query(end);
	} else if (kind < 90) {
		if (!end->is_started)
			end_start(end);
		exchange(end, other, frames, pool);
	} else if (kind < 95) {
		end_ask(end);
	} else if (kind < 96) {
		end_flush(end);
	} else if (kind < 97) {
		end_configure(end, pool);
	} else if (end->is_started) {
		end_stop(end);
	} else {
		end_start(end);
	}
}

static void
draw_devargs(struct end *end, const char *personality, int cpu)
{
	const char *both = draw_percent(70) ? ",switch=s" : "";
	char more[32] = "";

	if (draw_percent(20))
		snprintf(more, sizeof(more), ",pipeline=thread@%d", cpu);
	else if (draw_percent(20))
		snprintf(more, sizeof(more), ",speed=%u%c", 1 + draw(100), draw(2) ? 'G' : 'M');
	snprintf(end->devargs, sizeof(end->devargs), "wire=w,personality=%s,seed=%u%s%s",
		 personality, draw_bits(), more, both);
}

/* Two ports, from plugging them in to pulling them out. */
static void
episode(const char *personalities[2], int cpu, struct rte_mempool *pool)
{
	static struct end ends[2];
	static struct frame frames[FRAMES];
	uint32_t i, side, steps = draw(STEPS);

	for (side = 0; side < 2; side++) {
		snprintf(ends[side].name, sizeof(ends[side].name), "net_twin%u", side);
		draw_devargs(&ends[side], personalities[side], cpu);
		end_open(&ends[side], pool);
	}
	for (i = 0; i < FRAMES; i++)
		frame_draw(&frames[i]);
	for (i = 0; i < steps; i++) {
		side = draw(2);
		frame_draw(&frames[draw(FRAMES)]);
		step(&ends[side], &ends[!side], frames, pool);
		if (draw_percent(1)) {
			end_close(&ends[side]);
			end_open(&ends[side], pool);
		}
	}
	side = draw(2);
	end_close(&ends[side]);
	end_close(&ends[!side]);
	if (rte_mempool_avail_count(pool) != pool->size)
		wrong("%u packets did not come back", pool->size - rte_mempool_avail_count(pool));
}

static void
start_eal(char *program, char *cpu)
{
	char *args[] = {
		program, "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "256",
		"-l", cpu, "--log-level=*:critical", NULL,
	};

	if (rte_eal_init(RTE_DIM(args) - 1, args) < 0)
		wrong("EAL does not start: %s", rte_strerror(rte_errno));
}

int
main(int argc, char **argv)
{
	struct rte_mempool *pool;
	const char *played[2];
	uint64_t episodes = 0;
	time_t end;

	if (argc < 5) {
		fprintf(stderr, "usage: flow_edge SEED SECONDS CPU PERSONALITY...\n");
		return 2;
	}
	seed = strtoull(argv[1], NULL, 10);
	end = time(NULL) + atoi(argv[2]);
	fprintf(stderr, "flow_edge: seed %" PRIu64 "\n", seed);
	start_eal(argv[0], argv[3]);
	pool = rte_pktmbuf_pool_create("packets", MBUFS, 64, 0, ROOM, SOCKET_ID_ANY);
	if (pool == NULL)
		wrong("there is no memory for packets");
	for (draw_state = seed | 1ull << 63; time(NULL) < end; episodes++) {
		played[0] = argv[4 + episodes % (argc - 4)];
		played[1] = argv[4 + draw(argc - 4)];
		episode(played, atoi(argv[3]), pool);
	}
	printf("flow_edge: seed %" PRIu64 ": %" PRIu64 " rules tried, %" PRIu64 " taken; %" PRIu64
	       " packets sent, %" PRIu64 " received, %" PRIu64 " of them marked, %" PRIu64
	       " sent on by rules; %" PRIu64 " ports\n", seed, effort.tried, effort.taken, effort.sent,
	       effort.received, effort.marked, effort.switched, effort.ports);
	rte_mempool_free(pool);
	return rte_eal_cleanup() != 0;
}
