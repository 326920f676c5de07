/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/sample_pool.h - a dataset that lends samples to other devices
 *
 * A pool wraps a source. Samples of even index are movable: while one is lent, the pool returns a
 * sample borrowed in exchange, or, if there is none, the next sample of odd index. The number of
 * samples, and a loader's epoch, do not change.
 *
 *     uw_sample_pool_bind(&pool, &config, &arena);
 *     uw_loader_init(&loader, &(struct uw_loader_config){.dataset = &pool.base, ...});
 *     ... the lender (net/shuffle/shuffle.h) calls the functions below ...
 *
 * The lender's thread and reading threads share a table of atomic numbers: no thread waits, and
 * readers get complete samples only.
 *
 * Units      _n counts samples or floats, _us microseconds
 * Memory     one arena: 4 bytes for every second sample, and the borrowed samples. The source is
 *            borrowed. No heap
 * Blocking   as the source's read      Context  "lender": one thread; base.ops->read: any thread
 */
#ifndef UWASA_SAMPLE_POOL_H
#define UWASA_SAMPLE_POOL_H

#include "uwasa/arena.h"
#include "uwasa/cplusplus.h"
#include "uwasa/dataset.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

struct uw_sample_pool_config {
    struct uw_dataset *source;      /* of an endless source, the first epoch is used */
    uint32_t slots_n;               /* borrowed samples, at most: 1 .. samples_n / 2 */
    uint64_t (*now_us)(void);       /* any thread. Makes leases expire even if the lender's thread
                                       does not run; may be NULL */
};

struct uw_pool_slot {
    uw_atomic_u32 readers;
    uint32_t label;
    uint64_t until_us;
};

struct uw_sample_pool {
    struct uw_dataset base;         /* the dataset to train on */
    struct uw_sample_pool_config config;
    uint32_t movable_n;             /* movable sample j is the source's sample 2 j */
    uint32_t sample_n;              /* floats of a sample */
    uw_atomic_u32 *place;           /* [movable_n] the sample returned in its place */
    struct uw_pool_slot *slots;     /* [slots_n] */
    float *borrowed;                /* [slots_n][sample_n] */
    float *copy;                    /* [sample_n] */
};

/* Allocate from an arena, or measure. All samples are home afterwards.
 * Returns UW_OK, UW_ERR_INVALID (slots_n), UW_ERR_NOMEM, UW_ERR_SEALED. */
int uw_sample_pool_bind(struct uw_sample_pool *p, const struct uw_sample_pool_config *config,
                        struct uw_arena *arena);

/* Context lender. Does the pool return movable sample j itself? */
bool uw_sample_pool_is_home(const struct uw_sample_pool *p, uint32_t j);

/* Context lender. Stop returning movable sample j, and the one borrowed for it. */
void uw_sample_pool_rest(struct uw_sample_pool *p, uint32_t j);

/* Context lender. Return movable sample j again. */
void uw_sample_pool_restore(struct uw_sample_pool *p, uint32_t j);

/* Context lender. Return slot k instead of movable sample j.
 *   label     0 .. classes-1
 *   until_us  end of the lease, on the clock config.now_us */
void uw_sample_pool_borrow(struct uw_sample_pool *p, uint32_t j, uint32_t k, uint32_t label,
                           uint64_t until_us);

/* Context lender. Memory for the next sample of slot k, which must not be in use for a sample.
 * Returns [sample_n] floats, or NULL while a reader still reads the old sample. */
float *uw_sample_pool_room(struct uw_sample_pool *p, uint32_t k);

/* Context lender. Read movable sample j from the source, to send it.
 *   x      set to [sample_n] floats, valid until the next call
 *   label  set
 * Returns what the source's read returns. */
int uw_sample_pool_home(struct uw_sample_pool *p, uint32_t j, const float **x, uint32_t *label);

UW_C_END
#endif
