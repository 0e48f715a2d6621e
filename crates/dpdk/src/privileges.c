/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drops capabilities in every thread of the process. In Linux, each thread has its own, and DPDK
 * and its drivers have started threads that run no code of this project. So each thread gets a
 * signal, whose handler makes the system calls, as the C library does for setuid (nptl's setxid).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bindings.h"

/* A thread that does not respond within this time blocks the signal. */
enum { PATIENCE_MS = 1000, THREADS_MAX = 4096 };

static uint64_t kept;
static atomic_int answers, failures;

/* Drops the capabilities of this thread that are not in `kept`. It runs in a signal handler. */
static int
limit_this_thread(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &header, data) < 0)
		return -1;
	for (int word = 0; word < 2; word++) {
		const __u32 mask = (__u32)(kept >> (32 * word));

		data[word].permitted &= mask;
		data[word].effective = data[word].permitted;
		data[word].inheritable = 0;
	}
	return (int)syscall(SYS_capset, &header, data);
}

static void
answer(int signal)
{
	const int number = errno;

	(void)signal;
	if (limit_this_thread() < 0)
		atomic_fetch_add(&failures, 1);
	atomic_fetch_add(&answers, 1);
	errno = number;
}

/* Takes a real-time signal without a handler; net_tap takes one too. Returns it, or -1. */
static int
take_signal(struct sigaction *before)
{
	const struct sigaction action = { .sa_handler = answer, .sa_flags = SA_RESTART };

	for (int signal = SIGRTMAX; signal > SIGRTMIN; signal--) {
		if (sigaction(signal, NULL, before) == 0 && before->sa_handler == SIG_DFL)
			return sigaction(signal, &action, NULL) == 0 ? signal : -1;
	}
	return -1;
}

static bool
is_in(const int *list, int count, int thread)
{
	for (int i = 0; i < count; i++) {
		if (list[i] == thread)
			return true;
	}
	return false;
}

static bool
ask(int thread, int signal)
{
	const struct timespec nap = { .tv_nsec = 100 * 1000 };
	const int before = atomic_load(&answers);

	if (syscall(SYS_tgkill, getpid(), thread, signal) < 0)
		return errno == ESRCH;
	for (int waited = 0; atomic_load(&answers) == before; waited++) {
		if (waited == 10 * PATIENCE_MS)
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

/*
 * Drops, in every thread, all capabilities whose bits are not set, and prevents that exec adds any.
 * Threads that start later inherit that. Returns 0, or -1 if a thread did not respond or the kernel
 * refused. One call at a time.
 */
int
shim_limit_privileges(uint64_t capabilities)
{
	static int asked[THREADS_MAX];
	struct sigaction before;
	int count = 0, signal;
	bool is_good, is_new;

	kept = capabilities;
	atomic_store(&failures, 0);
	is_good = limit_this_thread() == 0;
	asked[count++] = (int)syscall(SYS_gettid);
	signal = take_signal(&before);
	/* Repeats while there are new threads, which others may have started meanwhile. */
	do {
		DIR *threads = opendir("/proc/self/task");
		struct dirent *entry;

		is_new = false;
		while (threads != NULL && (entry = readdir(threads)) != NULL) {
			const int thread = atoi(entry->d_name);

			if (thread <= 0 || is_in(asked, count, thread) || count == THREADS_MAX)
				continue;
			asked[count++] = thread;
			is_new = true;
			is_good &= signal > 0 && ask(thread, signal);
		}
		is_good &= threads != NULL;
		if (threads != NULL)
			closedir(threads);
	} while (is_new);
	/* The handler stays if a thread has not responded: the default action would kill. */
	if (signal > 0 && is_good)
		sigaction(signal, &before, NULL);
	return is_good && atomic_load(&failures) == 0 ? 0 : -1;
}
