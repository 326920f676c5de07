/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/backends.h - the kernel tables of this build, and the choice among them
 *
 * A table here is one complete implementation of uwasa/kernels.h. `ref` is in every build; the
 * tuned ones are there when the build is for their processor, and usable when the processor that
 * runs has their instructions. Pick one at start-up, hand its pointer around.
 *
 *     const struct uw_kernels *k = uw_kernels_best();
 *     const struct uw_kernels *k = uw_kernels_find("ref");
 *
 * Memory     tables are constant and live for ever
 * Blocking   never          Context  any thread
 */
#ifndef UWASA_BACKENDS_H
#define UWASA_BACKENDS_H

#include "uwasa/kernels.h"

/* The portable meaning of every slot. Asks for no scratch, runs on the calling thread. */
extern const struct uw_kernels uw_kernels_ref;

/* Usable tables, fastest first; the last one is always ref.
 *
 * Returns NULL when index is beyond the last one. */
const struct uw_kernels *uw_kernels_at(uint32_t index);

/* The fastest table that this processor can run. */
const struct uw_kernels *uw_kernels_best(void);

/* The table called `name`: "ref", "fpu" (plain C for a scalar FPU), "avx2", "avx512", "neon".
 *
 * Returns NULL when this build or this processor lacks it. */
const struct uw_kernels *uw_kernels_find(const char *name);

/* Work the table's register tile on panels that stay in the first cache, `steps` times: what a
 * benchmark times to learn the speed that no kernel of this table can pass.
 *
 * Returns the floating point operations done; 0 when the table has no tile. */
double uw_kernels_tile_flop(const struct uw_kernels *k, uint32_t steps);

/* The same of multiply-adds that touch no memory, as many at a time as the register tile has sums:
 * the speed of the core itself. */
double uw_kernels_fma_flop(const struct uw_kernels *k, uint32_t steps);

#endif
