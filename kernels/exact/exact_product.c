/* SPDX-License-Identifier: Apache-2.0
 *
 * Register tile: MR rows of accumulators and one row of a panel. Multiplication and addition stay
 * separate, since the build forbids contraction. */
#include "exact/exact_product.h"

#include "packed/sizes.h"

#include "uwasa/status.h"

#include <string.h>

#define MR 6u
#define BAND 96u                    /* rows of a task, a multiple of MR */
#define NR UW_EXACT_NR
#ifdef __AVX__
#define VEC_N 8u
#else
#define VEC_N 4u
#endif
#define VECS (NR / VEC_N)
#define UNROLLED _Pragma("GCC unroll 16") for

typedef float vec __attribute__((vector_size(VEC_N * sizeof(float))));

static inline vec load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

static inline vec all(float f)
{
#ifdef __AVX__
    return (vec){f, f, f, f, f, f, f, f};
#else
    return (vec){f, f, f, f};
#endif
}

struct block {
    uint32_t k;
    const float *a;
    size_t row_a;
    const size_t *step;             /* [k] offsets in A */
    float alpha;
    const float *panel;
    bool chained;
};

static inline __attribute__((always_inline)) void tile(uint32_t rows, bool scaled,
                                                       const struct block *b, const float *a,
                                                       float *sums)
{
    vec s[MR][VECS];
    const float *row[MR], *panel = b->panel;
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        row[i] = a + i * b->row_a;
        UNROLLED (uint32_t v = 0; v < VECS; v++) {
            s[i][v] = b->chained ? load(sums + i * NR + v * VEC_N) : all(0.0f);
        }
    }
    for (uint32_t k = 0; k < b->k; k++, panel += NR) {
        size_t step = b->step[k];
        UNROLLED (uint32_t i = 0; i < rows; i++) {
            vec x = all(scaled ? b->alpha * row[i][step] : row[i][step]);
            UNROLLED (uint32_t v = 0; v < VECS; v++) {
                s[i][v] += x * load(panel + v * VEC_N);
            }
        }
    }
    UNROLLED (uint32_t i = 0; i < rows; i++) {
        UNROLLED (uint32_t v = 0; v < VECS; v++) {
            float *to = sums + i * NR + v * VEC_N;
            store(to, b->chained ? s[i][v] : load(to) + s[i][v]);
        }
    }
}

static void rows_of_tile(uint32_t rows, const struct block *b, const float *a, float *sums)
{
    bool scaled = b->alpha != 1.0f;
    switch (rows) {
#define ROWS(r) \
    case r: \
        if (scaled) { \
            tile(r, true, b, a, sums); \
        } else { \
            tile(r, false, b, a, sums); \
        } \
        break;
    ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#undef ROWS
    }
}

struct job {
    const struct uw_exact_product *p;
    uint32_t bands, panels;
    uint8_t *scratch;
    size_t area_bytes;              /* scratch of one thread */
};

/* A row of C; copied to room if it has fewer columns than a panel. */
static const float *row_of(const float *c, uint32_t n, float room[NR])
{
    if (n == NR) {
        return c;
    }
    memset(room, 0, NR * sizeof *room);
    memcpy(room, c, n * sizeof *c);
    return room;
}

/* Set the initial sums of a band. */
static void begin(const struct uw_exact_product *p, const float *c, const float *bias,
                  uint32_t rows, uint32_t n, float *sums)
{
    if (p->scale != 0.0f || (p->beta == 0.0f && bias == NULL)) {
        memset(sums, 0, (size_t)rows * NR * sizeof *sums);
        return;
    }
    for (uint32_t i = 0; i < rows; i++, c += p->row_c, sums += NR) {
        float room[NR], start = bias != NULL ? bias[i] : 0.0f;
        const float *old = p->beta != 0.0f ? row_of(c, n, room) : NULL;
        UNROLLED (uint32_t v = 0; v < NR; v += VEC_N) {
            vec first = old != NULL ? all(p->beta) * load(old + v) : all(0.0f);
            store(sums + v, (first + all(start)) + all(0.0f));
        }
    }
}

static void end(const struct uw_exact_product *p, float *c, uint32_t rows, uint32_t n,
                const float *sums)
{
    for (uint32_t i = 0; i < rows; i++, sums += NR, c += p->row_c) {
        float room[NR];
        if (p->scale != 0.0f) {
            const float *old = row_of(c, n, room);
            UNROLLED (uint32_t v = 0; v < NR; v += VEC_N) {
                store(room + v, load(old + v) + all(p->scale) * load(sums + v));
            }
        } else {
            memcpy(room, sums, sizeof room);
        }
        if (n == NR) {
            memcpy(c, room, sizeof room);
        } else {
            memcpy(c, room, n * sizeof *c);
        }
    }
}

static size_t offset_a(const struct uw_exact_product *p, uint32_t k)
{
    return k / p->inner_a * p->outer_a + k % p->inner_a * p->step_a;
}

static uint32_t block_of(const struct uw_exact_product *p, uint32_t k)
{
    uint32_t left = p->period != 0 ? p->period - k % p->period : p->k - k;
    return min_u32(left, p->block);
}

static void task_of(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    const struct uw_exact_product *p = j->p;
    uint32_t panel = task % j->panels, unit = task / j->panels, band = unit % j->bands;
    uint32_t image = unit / j->bands % p->images, group = unit / j->bands / p->images;
    uint32_t first = band * BAND, rows = min_u32(p->m - first, BAND);
    uint32_t column = panel * NR, n = min_u32(p->n - column, NR);
    float *c = p->c + image * p->image_c + group * p->group_c + first * p->row_c + column;
    const float *a = p->a + image * p->image_a + group * p->group_a + first * p->row_a;
    const float *bias = p->bias != NULL ? p->bias + (size_t)group * p->m + first : NULL;
    float *sums = (void *)(j->scratch + thread * j->area_bytes);
    float *packed = sums + BAND * NR;
    size_t *step = (void *)((uint8_t *)packed + area_bytes((size_t)p->block * NR));

    begin(p, c, bias, rows, n, sums);
    for (uint32_t k = 0, k_n; k < p->k; k += k_n) {
        k_n = block_of(p, k);
        size_t base = offset_a(p, k);
        for (uint32_t i = 0; i < k_n; i++) {
            step[i] = offset_a(p, k + i) - base;
        }
        p->pack(p, image, group, k, k_n, column, n, packed);
        const struct block b = {k_n, a + base, p->row_a, step, p->alpha, packed, p->chained};
        for (uint32_t i = 0; i < rows; i += MR) {
            rows_of_tile(min_u32(rows - i, MR), &b, b.a + i * p->row_a, sums + i * NR);
        }
    }
    end(p, c, rows, n, sums);
}

static size_t thread_bytes(uint32_t block)
{
    return area_bytes(BAND * NR) + area_bytes((size_t)block * NR) +
           uw_arena_padded(uw_size_mul(block, sizeof(size_t)));
}

size_t uw_exact_product_scratch(uint32_t block, uint32_t threads)
{
    return uw_size_mul(thread_bytes(block), threads);
}

int uw_exact_product_run(const struct uw_exec *e, const struct uw_exact_product *p)
{
    if (p->m == 0 || p->n == 0 || p->images == 0) {
        return UW_OK;
    }
    struct job j = {.p = p, .bands = div_up(p->m, BAND), .panels = div_up(p->n, NR),
                    .scratch = e->scratch, .area_bytes = thread_bytes(p->block)};
    if (e->scratch_bytes < uw_exact_product_scratch(p->block, uw_workers_threads(e->workers))) {
        return UW_ERR_NOMEM;
    }
    uw_workers_run(e->workers, task_of, &j, j.bands * j.panels * p->images * p->groups);
    return UW_OK;
}
