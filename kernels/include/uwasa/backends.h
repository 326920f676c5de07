/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/backends.h - choose a kernel table of this build
 *
 * A table is a complete implementation of uwasa/kernels.h. `ref` is in every build. Tuned tables
 * are in builds for their processor, and usable if the processor has their instructions. Choose one
 * at start-up and pass its pointer.
 *
 *     const struct uw_kernels *k = uw_kernels_best();
 *     const struct uw_kernels *k = uw_kernels_find("ref");
 *
 * Memory     tables are constant
 * Blocking   never          Context  any thread
 */
#ifndef UWASA_BACKENDS_H
#define UWASA_BACKENDS_H

#include "uwasa/cplusplus.h"
#include "uwasa/kernels.h"

UW_C_BEGIN

/* The portable definition of every slot. Needs no scratch, runs on the calling thread. */
extern const struct uw_kernels uw_kernels_ref;

/* Same bits as the reference, for boards: small minibatches, little code, no scratch. In every
 * build; uw_kernels_at and uw_kernels_find return it on boards and on x86-64 with AVX2. */
extern const struct uw_kernels uw_kernels_lean;

/* Usable tables, fastest first; the last one is always ref.
 *
 * Returns NULL when index is beyond the last one. */
const struct uw_kernels *uw_kernels_at(uint32_t index);

/* The fastest table that this processor can run. */
const struct uw_kernels *uw_kernels_best(void);

/* The table called `name`: "ref", "fpu" (plain C for a scalar FPU), "avx2", "avx512", "neon",
 * "helium", "exact", "lean".
 *
 * Returns NULL when this build or this processor lacks it. */
const struct uw_kernels *uw_kernels_find(const char *name);

/* Set how the calling thread, and threads that it creates later, treat subnormal numbers (below
 * 1.2e-38). With tuned tables they count as 0, because many processors are a hundred times slower
 * with them, and gradients through many time steps have them. With ref, lean and exact they are
 * kept; on boards nothing changes. Call it once, after the choice of k. */
void uw_kernels_enter(const struct uw_kernels *k);

/* Bytes of a core's caches, shared ones included; 0: none, or unknown. */
struct uw_caches {
    uint32_t l1_bytes, l2_bytes, l3_bytes;
};

/* Blocks of matrix products: rows of A, columns of B, and their common depth. */
struct uw_blocks {
    uint32_t rows, columns, depth;
};

/* Memory for a table adapted to a machine; the caller's, not to be moved. */
struct uw_kernels_fitted {
    struct uw_kernels kernels;
    void *tile[40];                     /* private */
};

/* k with blocks for these caches, from a built-in table of measured machines
 * (packed/blocking_table.h). Sums do not depend on blocks: results are the same bits, only scratch
 * differs.
 *
 * Returns &f->kernels, valid as long as f; k itself for caches that are not in the table. */
const struct uw_kernels *uw_kernels_fit(struct uw_kernels_fitted *f, const struct uw_kernels *k,
                                        const struct uw_caches *c);

/* The same with given blocks, rounded up to whole register tiles, for measurements.
 * Returns &f->kernels; k itself when it has no register tile, or rows or columns are 0. */
const struct uw_kernels *uw_kernels_with_blocks(struct uw_kernels_fitted *f,
                                                const struct uw_kernels *k, uint32_t rows,
                                                uint32_t columns);

/* The blocks of k. Returns false, b unchanged, when it has no register tile. */
bool uw_kernels_blocks(const struct uw_kernels *k, struct uw_blocks *b);

/* Run the table's register tile `steps` times on panels in the first-level cache, for a benchmark
 * of the upper limit of this table's speed.
 *
 * Returns the floating point operations done; 0 when the table has no tile. */
double uw_kernels_tile_flop(const struct uw_kernels *k, uint32_t steps);

/* The same with multiply-adds in registers only, as many at a time as the register tile has sums:
 * the limit of the core itself. */
double uw_kernels_fma_flop(const struct uw_kernels *k, uint32_t steps);

UW_C_END
#endif
