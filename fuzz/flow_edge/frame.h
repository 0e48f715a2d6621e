/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that NICs parse, and what is left of them after some damage. */
#ifndef FRAME_H
#define FRAME_H

#include <stdint.h>

#include <rte_flow.h>
#include <rte_mbuf.h>

#define FRAME_MAX 9000
#define LAYERS_MAX 24

/* A header: which item names it, and where it is. */
struct layer {
	enum rte_flow_item_type type;
	uint32_t offset;
	uint32_t len;
};

struct frame {
	uint8_t bytes[FRAME_MAX];
	uint32_t len;
	struct layer layers[LAYERS_MAX];
	uint32_t layer_count;
};

/* With headers in an order that makes sense. */
void frame_draw(struct frame *frame);
/* Cut off, overwritten, stretched; its layers are of before. */
void frame_damage(struct frame *frame);
/*
 * In one segment, or many, some of them empty, or in a heap buffer of its size, so that whoever
 * reads behind its end is seen. NULL where there is no mbuf.
 */
struct rte_mbuf *frame_to_mbuf(const struct frame *frame, struct rte_mempool *pool);

#endif
