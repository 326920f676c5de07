/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/board.h - clock, entropy, memory and threads of a Linux host
 *
 * The libraries never call the operating system; a program passes them what its board provides.
 * Functions are independent of each other.
 *
 *     struct uw_workers *pool;
 *     uw_board_workers_init(&pool, 0);                  one thread a core
 *     uw_board_memory_take(need.total_bytes, &memory);  the arena of a model
 *     ...
 *     uw_board_memory_release(memory, need.total_bytes);
 *     uw_board_workers_deinit(&pool);
 *
 * Units      bytes; _us are microseconds, monotonic
 * Memory     only uw_board_memory_take allocates large memory from the system
 * Blocking   never, unless said       Context  any thread, unless said
 */
#ifndef UWASA_BOARD_H
#define UWASA_BOARD_H

#include "uwasa/cplusplus.h"
#include "uwasa/status.h"
#include "uwasa/workers.h"

#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

/* Most threads of a pool. */
#define UW_BOARD_WORKERS_MAX 256u

/* Monotonic time in microseconds; stops during suspend only. */
uint64_t uw_board_now_us(void);

/* Fill buf with random bytes for keys. Waits for the system's generator on a newly booted machine.
 * Returns UW_OK or UW_ERR_IO (buf is then unspecified). */
int uw_board_entropy(void *buf, size_t bytes);

/* Cores that this process may run on, 1 or more. */
uint32_t uw_board_cores(void);

/* Bytes of the first core's data cache of level 1, 2 or 3; 0: none or unknown. */
uint32_t uw_board_cache_bytes(uint32_t level);

/* Peak resident memory of this process; 0: unknown. */
uint64_t uw_board_peak_rss_bytes(void);

/* The system's estimate of memory available without swapping; 0: unknown. */
uint64_t uw_board_free_bytes(void);

/* Allocate zero-filled memory, aligned to a page.
 *
 *   out  set on success, NULL otherwise; bytes == 0 gives a valid, empty block
 *
 * Returns UW_OK or UW_ERR_NOMEM. */
int uw_board_memory_take(size_t bytes, void **out);

/* Free memory; `bytes` as allocated. p == NULL does nothing. */
void uw_board_memory_release(void *p, size_t bytes);

/* Start a pool of threads.
 *
 *   out      set to the pool on success, NULL otherwise
 *   threads  including the one that calls run; 0: uw_board_cores(); at most
 *            UW_BOARD_WORKERS_MAX
 *
 * An idle helper thread polls for some microseconds and then sleeps. One thread at a time may call
 * `run`, which returns when every task has ended; it does not wait for helper threads that the
 * system does not schedule in time. Helper threads block all signals.
 *
 * Returns UW_OK, UW_ERR_INVALID (too many threads), UW_ERR_NOMEM (no thread or memory left). */
int uw_board_workers_init(struct uw_workers **out, uint32_t threads);

/* End the helper threads, wait for them, and set *pool to NULL. Does nothing when it is NULL. */
void uw_board_workers_deinit(struct uw_workers **pool);

UW_C_END
#endif
