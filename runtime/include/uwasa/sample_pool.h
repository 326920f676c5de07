/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/sample_pool.h - a dataset some of whose samples are lent to other devices
 *
 * A pool stands in front of a source. Every second sample, those of even index, may move: while it
 * is lent, its place is taken by a sample borrowed for it, or by its neighbour of odd index when
 * there is none. The number of samples, and so a loader's epoch, stays what it is.
 *
 *     uw_sample_pool_bind(&pool, &config, &arena);
 *     uw_loader_init(&loader, &(struct uw_loader_config){.dataset = &pool.base, ...});
 *     ... who lends and borrows (net/shuffle/shuffle.h) calls the functions below ...
 *
 * The thread that lends and the threads that read share a table of atomic numbers: nobody waits,
 * and no reader ever sees a sample that is not whole.
 *
 * Units      _n counts samples or floats, _us microseconds
 * Memory     one arena: 4 bytes for every second sample, and room for what is borrowed. The source
 *            is borrowed. No heap
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
    struct uw_dataset *source;      /* an endless one counts as the samples of its first epoch */
    uint32_t slots_n;               /* samples borrowed at once at most: 1 .. samples_n / 2 */
    uint64_t (*now_us)(void);       /* any thread. With it a borrowed sample is not read after its
                                       time, even if the lender's thread did not run; may be NULL */
};

struct uw_pool_slot {
    uw_atomic_u32 readers;
    uint32_t label;
    uint64_t until_us;
};

struct uw_sample_pool {
    struct uw_dataset base;         /* what to train on */
    struct uw_sample_pool_config config;
    uint32_t movable_n;             /* movable sample j is the source's sample 2 j */
    uint32_t sample_n;              /* floats of a sample */
    uw_atomic_u32 *place;           /* [movable_n] what is in its place */
    struct uw_pool_slot *slots;     /* [slots_n] */
    float *borrowed;                /* [slots_n][sample_n] */
    float *copy;                    /* [sample_n] */
};

/* Take the memory; on a measuring arena only count it. All samples are at home then.
 * Returns UW_OK, UW_ERR_INVALID (slots_n), UW_ERR_NOMEM, UW_ERR_SEALED. */
int uw_sample_pool_bind(struct uw_sample_pool *p, const struct uw_sample_pool_config *config,
                        struct uw_arena *arena);

/* Context lender. Is movable sample j drawn here now, as itself? */
bool uw_sample_pool_is_home(const struct uw_sample_pool *p, uint32_t j);

/* Context lender. Draw movable sample j no more; nor what was borrowed for it. */
void uw_sample_pool_rest(struct uw_sample_pool *p, uint32_t j);

/* Context lender. Draw movable sample j again. */
void uw_sample_pool_restore(struct uw_sample_pool *p, uint32_t j);

/* Context lender. Draw slot k in the place of movable sample j.
 *   label     0 .. classes-1
 *   until_us  on the clock config.now_us: not after that */
void uw_sample_pool_borrow(struct uw_sample_pool *p, uint32_t j, uint32_t k, uint32_t label,
                           uint64_t until_us);

/* Context lender. Where to write the next sample of slot k, which is in no sample's place.
 * Returns [sample_n] floats, or NULL while somebody still reads what was there. */
float *uw_sample_pool_room(struct uw_sample_pool *p, uint32_t k);

/* Context lender. Movable sample j as the source has it, to be sent.
 *   x      set to [sample_n] floats, valid until the next call
 *   label  set
 * Returns what the source's read returns. */
int uw_sample_pool_home(struct uw_sample_pool *p, uint32_t j, const float **x, uint32_t *label);

UW_C_END
#endif
