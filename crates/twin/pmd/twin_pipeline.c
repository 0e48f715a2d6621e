/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipeline=thread@CPU: runs the model in a thread of its own, so that it costs neither senders nor
 * receivers time. The thread takes packets from the source or from its inbox, classifies them, and
 * puts them into the rings of their queues.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_pause.h>

#include "twin.h"

/* Size of the inbox in packets; a power of two. */
#define INBOX 4096

static uint16_t
open_inbox(struct twin_port *port)
{
	struct rte_mbuf *packets[TWIN_BURST];
	uint16_t count;

	count = rte_ring_sc_dequeue_burst(port->pipeline.inbox, (void **)packets, TWIN_BURST, NULL);
	twin_deliver(port, packets, count);
	return count;
}

static void *
work(void *argument)
{
	struct twin_port *port = argument;
	uint16_t (*poll)(struct twin_port *port) = port->source->poll;
	bool is_known = rte_thread_register() == 0; /* for a cache of mbufs */
	sigset_t all;

	/* Threads of the application handle signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);

	if (poll == NULL)
		poll = open_inbox;
	while (__atomic_load_n(&port->pipeline.is_running, __ATOMIC_ACQUIRE)) {
		if (poll(port) == 0)
			rte_pause();
	}
	if (is_known)
		rte_thread_unregister();
	return NULL;
}

static int
start_thread(struct twin_port *port)
{
	struct twin_pipeline *pipeline = &port->pipeline;
	pthread_attr_t attributes;
	cpu_set_t cpus;
	int ret;

	CPU_ZERO(&cpus);
	CPU_SET(pipeline->cpu, &cpus);
	pthread_attr_init(&attributes);
	pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
	pipeline->is_running = true;
	ret = pthread_create(&pipeline->thread, &attributes, work, port);
	pthread_attr_destroy(&attributes);
	if (ret == 0) {
		pthread_setname_np(pipeline->thread, "twin-model");
		return 0;
	}
	pipeline->is_running = false;
	TWIN_LOG(ERR, "pipeline=thread@%d: the thread cannot run there: %s\n", pipeline->cpu,
		 strerror(ret));
	return -ret;
}

/* Creates the inbox; called before packets can arrive. */
int
twin_pipeline_open(struct twin_port *port)
{
	struct twin_pipeline *pipeline = &port->pipeline;
	char name[RTE_RING_NAMESIZE];

	if (!pipeline->is_wanted || port->source->poll != NULL)
		return 0;
	snprintf(name, sizeof(name), "twin_%u_inbox", port->dev->data->port_id);
	pipeline->inbox = rte_ring_create(name, INBOX, port->dev->data->numa_node, RING_F_SC_DEQ);
	return pipeline->inbox != NULL ? 0 : -rte_errno;
}

/* Starts the thread; called when the source can be polled. */
int
twin_pipeline_start(struct twin_port *port)
{
	return port->pipeline.is_wanted ? start_thread(port) : 0;
}

void
twin_pipeline_stop(struct twin_port *port)
{
	struct twin_pipeline *pipeline = &port->pipeline;

	if (!pipeline->is_running)
		return;
	__atomic_store_n(&pipeline->is_running, false, __ATOMIC_RELEASE);
	pthread_join(pipeline->thread, NULL);
}

/* Frees the inbox and the packets in it; called when no more can arrive. */
void
twin_pipeline_close(struct twin_port *port)
{
	struct twin_pipeline *pipeline = &port->pipeline;

	if (pipeline->inbox == NULL)
		return;
	twin_add(&port->no_room, twin_drain(pipeline->inbox));
	rte_ring_free(pipeline->inbox);
	pipeline->inbox = NULL;
}

/* Hands packets to the thread, or classifies them if there is none. */
void
twin_hand_over(struct twin_port *to, struct rte_mbuf **packets, uint16_t count)
{
	struct rte_ring *inbox = to->pipeline.inbox;
	uint16_t room;

	if (likely(inbox == NULL)) {
		twin_deliver(to, packets, count);
		return;
	}
	room = rte_ring_enqueue_burst(inbox, (void **)packets, count, NULL);
	if (unlikely(room < count)) {
		rte_pktmbuf_free_bulk(packets + room, count - room);
		twin_add(&to->no_room, count - room);
	}
}
