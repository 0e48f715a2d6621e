/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses devargs, and logs what is wrong with them. */

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "twin.h"

#define ARG_PERSONALITY "personality"
#define ARG_SEED "seed"
#define ARG_FAULTS "faults"
#define ARG_WIRE "wire"
#define ARG_REPLAY "replay"
#define ARG_LOOPS "loops"
#define ARG_LOWER "lower"
#define ARG_SWITCH "switch"
#define ARG_SPEED "speed"
#define ARG_PIPELINE "pipeline"
#define ARG_QUEUES "queues"
#define ARG_RXD "rxd"
#define ARG_RESET_AFTER "reset_after"

/* All keys except lower=, which split() takes out: its value has commas and equals signs. */
static const char *const known[] = {
	ARG_PERSONALITY, ARG_SEED, ARG_FAULTS, ARG_WIRE, ARG_REPLAY, ARG_LOOPS, ARG_SWITCH,
	ARG_SPEED, ARG_PIPELINE, ARG_QUEUES, ARG_RXD, ARG_RESET_AFTER, NULL,
};

#define THERE_IS "personality=NAME|FILE, seed=N, " \
	"faults=NAME:CHANCE+..., wire=NAME, " \
	"replay=FILE with loops=N|forever, lower=(DEVARGS), switch=NAME, " \
	"speed=10G|25G|...|none, pipeline=inline|thread@CPU, queues=N, rxd=N, reset_after=N"
#define MBPS_MAX 400000

static int
take_string(const char *key, const char *value, void *to)
{
	if (value == NULL || value[0] == '\0') {
		TWIN_LOG(ERR, "%s= has no value\n", key);
		return -EINVAL;
	}
	if (*(const char **)to != NULL) {
		TWIN_LOG(ERR, "%s= is given twice\n", key);
		return -EINVAL;
	}
	*(const char **)to = value;
	return 0;
}

/* Returns the end of a part, at a comma outside of parentheses; NULL if they are not closed. */
static char *
end_of_part(char *part)
{
	int depth = 0;

	for (; *part != '\0' && (*part != ',' || depth > 0); part++)
		depth += (*part == '(') - (*part == ')');
	return depth == 0 ? part : NULL;
}

static int
take_lower(char *value, const char **lower)
{
	size_t len = strlen(value);

	if (value[0] == '(' && value[len - 1] == ')') {
		value[len - 1] = '\0';
		value++;
	}
	return take_string(ARG_LOWER, value, lower);
}

/* Copies all parts except lower=(DEVARGS) into `rest`. */
static int
split(char *text, char *rest, const char **lower)
{
	const size_t key_len = strlen(ARG_LOWER "=");
	bool is_last = false;
	char *part, *end;

	for (part = text; !is_last; part = end + 1) {
		end = end_of_part(part);
		if (end == NULL) {
			TWIN_LOG(ERR, "a parenthesis is not closed in '%s'\n", part);
			return -EINVAL;
		}
		is_last = *end == '\0';
		*end = '\0';
		if (strncmp(part, ARG_LOWER "=", key_len) == 0) {
			if (take_lower(part + key_len, lower) != 0)
				return -EINVAL;
			continue;
		}
		if (rest[0] != '\0')
			strcat(rest, ",");
		strcat(rest, part);
	}
	return 0;
}

static int
take_loops(const char *value, uint64_t *loops)
{
	char *end;

	if (strcmp(value, "forever") == 0) {
		*loops = TWIN_FOREVER;
		return 0;
	}
	errno = 0;
	*loops = strtoull(value, &end, 10);
	if (errno == 0 && *end == '\0' && *loops != 0 && value[0] != '-')
		return 0;
	TWIN_LOG(ERR, "loops=%s is neither a number from 1 up nor 'forever'\n", value);
	return -EINVAL;
}

/* Parses a number of packets, from 1. */
static int
take_packets(const char *key, const char *value, int64_t *packets)
{
	char *end;

	errno = 0;
	*packets = strtoll(value, &end, 10);
	if (errno == 0 && *end == '\0' && *packets > 0)
		return 0;
	TWIN_LOG(ERR, "%s=%s is no number from 1 up\n", key, value);
	return -EINVAL;
}

static int
take_seed(const char *value, uint64_t *seed)
{
	char *end;

	errno = 0;
	*seed = strtoull(value, &end, 0);
	if (errno == 0 && *end == '\0')
		return 0;
	TWIN_LOG(ERR, "seed=%s is no number\n", value);
	return -EINVAL;
}

static int
take_count(const char *key, const char *value, uint16_t min, uint16_t max, uint16_t *count)
{
	char *end;
	long number = strtol(value, &end, 10);

	if (end != value && *end == '\0' && number >= min && number <= max) {
		*count = number;
		return 0;
	}
	TWIN_LOG(ERR, "%s=%s is no number from %u to %u\n", key, value, min, max);
	return -EINVAL;
}

/* Parses a link rate such as 10G, 2.5G, 100M; "none" leaves it unlimited. */
static int
take_speed(const char *value, uint32_t *mbps)
{
	char *unit;
	double number = strtod(value, &unit);

	if (strcmp(value, "none") == 0)
		return 0;
	if (unit != value && (strcmp(unit, "G") == 0 || strcmp(unit, "M") == 0)) {
		number *= unit[0] == 'G' ? 1000 : 1;
		if (number >= 1 && number <= MBPS_MAX) {
			*mbps = number;
			return 0;
		}
	}
	TWIN_LOG(ERR, "speed=%s is neither a rate from 1M to 400G, such as 10G, nor 'none'\n",
		 value);
	return -EINVAL;
}

static int
take_pipeline(const char *value, struct twin_args *args)
{
	const size_t key_len = strlen("thread@");
	char *end;

	if (strcmp(value, "inline") == 0)
		return 0;
	if (strncmp(value, "thread@", key_len) == 0) {
		args->cpu = strtol(value + key_len, &end, 10);
		args->has_thread = end != value + key_len && *end == '\0' && args->cpu >= 0 &&
				   args->cpu < CPU_SETSIZE;
	}
	if (args->has_thread)
		return 0;
	TWIN_LOG(ERR, "pipeline=%s is neither 'inline' nor thread@CPU\n", value);
	return -EINVAL;
}

static int
refuse_both(const char *one, const char *one_value, const char *other, const char *other_value)
{
	if (one_value == NULL || other_value == NULL)
		return 0;
	TWIN_LOG(ERR, "%s=%s and %s=%s exclude each other: a port is connected to one thing\n",
		 one, one_value, other, other_value);
	return -EINVAL;
}

static int
refuse_without(const char *key, const char *value, bool has_it, const char *needed)
{
	if (value == NULL || has_it)
		return 0;
	TWIN_LOG(ERR, "%s=%s makes sense with %s only\n", key, value, needed);
	return -EINVAL;
}

/* Values that are parsed after all of them were found. */
struct values {
	const char *seed;
	const char *loops;
	const char *speed;
	const char *pipeline;
	const char *queues;
	const char *rxd;
	const char *reset_after;
};

static int
check(const struct twin_args *args, const struct values *values)
{
	const char *rate = args->mbps != 0 ? values->speed : NULL;
	const char *thread = args->has_thread ? values->pipeline : NULL;
	int bad = 0;

	bad |= refuse_both(ARG_WIRE, args->wire, ARG_REPLAY, args->replay);
	bad |= refuse_both(ARG_WIRE, args->wire, ARG_LOWER, args->lower);
	bad |= refuse_both(ARG_REPLAY, args->replay, ARG_LOWER, args->lower);
	bad |= refuse_without(ARG_LOOPS, values->loops, args->replay, "replay=FILE");
	bad |= refuse_without(ARG_SPEED, rate, args->replay || args->wire,
			      "replay=FILE or wire=NAME");
	bad |= refuse_without(ARG_PIPELINE, thread, args->lower || args->wire,
			      "lower=(DEVARGS) or wire=NAME");
	return bad;
}

static int
take_all(struct twin_args *args)
{
	struct values values = { 0 };
	const struct {
		const char *key;
		const char **to;
	} texts[] = {
		{ ARG_PERSONALITY, &args->personality },
		{ ARG_SEED, &values.seed },
		{ ARG_FAULTS, &args->faults },
		{ ARG_WIRE, &args->wire },
		{ ARG_REPLAY, &args->replay },
		{ ARG_LOOPS, &values.loops },
		{ ARG_SWITCH, &args->eswitch },
		{ ARG_SPEED, &values.speed },
		{ ARG_PIPELINE, &values.pipeline },
		{ ARG_QUEUES, &values.queues },
		{ ARG_RXD, &values.rxd },
		{ ARG_RESET_AFTER, &values.reset_after },
	};
	unsigned int i;

	for (i = 0; i < RTE_DIM(texts); i++) {
		if (rte_kvargs_process(args->strings, texts[i].key, take_string, texts[i].to) != 0)
			return -EINVAL;
	}
	if (values.seed != NULL && take_seed(values.seed, &args->seed) != 0)
		return -EINVAL;
	if (values.loops != NULL && take_loops(values.loops, &args->loops) != 0)
		return -EINVAL;
	if (values.speed != NULL && take_speed(values.speed, &args->mbps) != 0)
		return -EINVAL;
	if (values.pipeline != NULL && take_pipeline(values.pipeline, args) != 0)
		return -EINVAL;
	if (values.queues != NULL &&
	    take_count(ARG_QUEUES, values.queues, 1, TWIN_QUEUES_MAX, &args->queues) != 0)
		return -EINVAL;
	if (values.rxd != NULL &&
	    take_count(ARG_RXD, values.rxd, TWIN_RXD_MIN, TWIN_RXD_MAX, &args->rxd) != 0)
		return -EINVAL;
	if (values.reset_after != NULL &&
	    take_packets(ARG_RESET_AFTER, values.reset_after, &args->reset_after) != 0)
		return -EINVAL;
	return check(args, &values);
}

/* The caller frees `args` with twin_args_free, also after an error. */
int
twin_args_parse(const char *devargs, struct twin_args *args)
{
	char *rest;

	*args = (struct twin_args){
		.seed = 1, .loops = 1, .queues = TWIN_QUEUES_MAX, .rxd = TWIN_RXD_MAX,
	};
	args->text = strdup(devargs);
	rest = calloc(1, strlen(devargs) + 1);
	if (args->text == NULL || rest == NULL) {
		free(rest);
		return -ENOMEM;
	}
	if (split(args->text, rest, &args->lower) != 0) {
		free(rest);
		return -EINVAL;
	}
	args->strings = rte_kvargs_parse(rest, known);
	free(rest);
	if (args->strings == NULL) {
		TWIN_LOG(ERR, "unknown parameter in '%s'; known are: %s\n", devargs, THERE_IS);
		return -EINVAL;
	}
	return take_all(args);
}

void
twin_args_free(struct twin_args *args)
{
	rte_kvargs_free(args->strings);
	free(args->text);
}

RTE_PMD_REGISTER_PARAM_STRING(net_twin,
	ARG_PERSONALITY "=<name or file> "
	ARG_SEED "=<number> "
	ARG_FAULTS "=<name>:<chance>+... "
	ARG_WIRE "=<name> "
	ARG_REPLAY "=<file> "
	ARG_LOOPS "=<number>|forever "
	ARG_LOWER "=(<devargs>) "
	ARG_SWITCH "=<name> "
	ARG_SPEED "=<rate>|none "
	ARG_PIPELINE "=inline|thread@<cpu> "
	ARG_QUEUES "=<number> "
	ARG_RXD "=<number> "
	ARG_RESET_AFTER "=<number>");
