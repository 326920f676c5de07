/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/board.h - what a Linux host offers: clock, entropy, memory, threads
 *
 * The libraries never call the operating system; a program takes these things from its board and
 * hands them in. Each can be used alone and in any order.
 *
 *     struct uw_workers *pool;
 *     uw_board_workers_init(&pool, 0);                  one thread a core
 *     uw_board_memory_take(need.total_bytes, &memory);  the arena of a model
 *     ...
 *     uw_board_memory_release(memory, need.total_bytes);
 *     uw_board_workers_deinit(&pool);
 *
 * Units      bytes; _us are microseconds, monotonic
 * Memory     uw_board_memory_take is the one place that asks the system for large memory
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

/* Threads that a pool may have. */
#define UW_BOARD_WORKERS_MAX 256u

/* Microseconds since some fixed moment in the past. Never goes back; stops for nothing but
 * suspend. */
uint64_t uw_board_now_us(void);

/* Fill buf with bytes fit for keys. Waits for the system's generator on a freshly booted machine.
 * Returns UW_OK or UW_ERR_IO (buf is then unspecified). */
int uw_board_entropy(void *buf, size_t bytes);

/* Cores that this process may run on, 1 or more. */
uint32_t uw_board_cores(void);

/* Bytes of the data cache of level 1, 2 or 3 as the first core sees it; 0 when there is none or the
 * system does not say. */
uint32_t uw_board_cache_bytes(uint32_t level);

/* Largest resident memory of this process so far, 0 when the system does not say. */
uint64_t uw_board_peak_rss_bytes(void);

/* Memory that programs may still take without swapping, as the system estimates it; 0 when it does
 * not say. */
uint64_t uw_board_free_bytes(void);

/* Take zero-filled memory, aligned to a page.
 *
 *   out  set on success, NULL otherwise; bytes == 0 gives a valid, empty block
 *
 * Returns UW_OK or UW_ERR_NOMEM. */
int uw_board_memory_take(size_t bytes, void **out);

/* Give memory back; `bytes` as taken. p == NULL does nothing. */
void uw_board_memory_release(void *p, size_t bytes);

/* Start a pool of threads.
 *
 *   out      set to the pool on success, NULL otherwise
 *   threads  including the one that calls run; 0: uw_board_cores(); at most
 *            UW_BOARD_WORKERS_MAX
 *
 * An idle helper looks for work for some microseconds and then sleeps. `run` belongs to one
 * thread at a time and returns when every task has ended; a helper that the system does not
 * schedule in time is not waited for. Helpers take no signals.
 *
 * Returns UW_OK, UW_ERR_INVALID (too many threads), UW_ERR_NOMEM (no thread or memory left). */
int uw_board_workers_init(struct uw_workers **out, uint32_t threads);

/* End the helpers, wait for them, and set *pool to NULL. Does nothing when it is NULL already. */
void uw_board_workers_deinit(struct uw_workers **pool);

UW_C_END
#endif
