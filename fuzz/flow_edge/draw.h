/* SPDX-License-Identifier: BSD-3-Clause */
/* What is left to chance. One seed, one thread: the same seed draws the same. */
#ifndef DRAW_H
#define DRAW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

extern uint64_t draw_state; /* not zero */

/* xorshift64*, Vigna 2016. */
static inline uint32_t
draw_bits(void)
{
	draw_state ^= draw_state >> 12;
	draw_state ^= draw_state << 25;
	draw_state ^= draw_state >> 27;
	return (draw_state * 0x2545f4914f6cdd1dull) >> 32;
}

/* Below count, which is not zero. */
static inline uint32_t
draw(uint32_t count)
{
	return ((uint64_t)draw_bits() * count) >> 32;
}

static inline bool
draw_percent(uint32_t percent)
{
	return draw(100) < percent;
}

/* Mostly few. */
static inline uint32_t
draw_few(uint32_t most)
{
	uint32_t count = 0;

	while (count < most && draw_percent(40))
		count++;
	return count;
}

static inline void
draw_bytes(void *to, uint32_t len)
{
	uint8_t *bytes = to;
	uint32_t i;

	for (i = 0; i < len; i++)
		bytes[i] = draw(256);
}

/* A number that borders on something, or any. */
static inline uint32_t
draw_number(void)
{
	static const uint32_t borders[] = {
		0, 1, 2, 0xff, 0x100, 0xffff, 0x10000, 0xfffff0, 0xffffff, 0x1000000, 0x7fffffff,
		0x80000000, 0xfffffffe, 0xffffffff,
	};

	return draw_percent(80) ? borders[draw(sizeof(borders) / sizeof(borders[0]))] : draw_bits();
}

#endif
