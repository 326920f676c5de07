/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/packed.h"
#include "packed/product.h"
#include "ref/ref.h"

#include <string.h>

/* Below this many multiplications packing costs more than it saves: the reference is called. */
#define SMALL 2048.0

/* The m that decides how a product is computed. */
static uint32_t rows_of(const struct uw_gemm *g)
{
    return g->rows_of > g->m ? g->rows_of : g->m;
}

static bool is_small(const struct uw_gemm *g)
{
    return g->k == 0 || (double)rows_of(g) * g->n * g->k < SMALL;
}

struct matrix {
    const float *base;
    size_t stride;
    bool trans;
    float alpha;                /* factor of every element */
};

static void pack_rows(const struct uw_product *p, const struct uw_block *b, uint32_t k,
                      uint32_t rows, float *panels)
{
    const struct uw_tile *t = p->tile;
    const struct matrix *m = p->b.source;
    const float *from = m->base + (size_t)(b->k0 + k) * m->stride + b->j0;
    for (uint32_t j = 0; j < b->jn; j += t->nr) {
        uint32_t cols = b->jn - j < t->nr ? b->jn - j : t->nr;
        t->pack_copy(cols, rows, m->alpha, from + j, m->stride,
                     panels + (size_t)j * b->kn + (size_t)k * t->nr, t->nr);
    }
}

static void pack_matrix(const struct uw_product *p, const struct uw_block *b, float *panels,
                        void *work)
{
    (void)work;
    const struct uw_tile *t = p->tile;
    const struct matrix *m = p->b.source;
    if (!m->trans) {
        for (uint32_t k = 0; k < b->kn; k += UW_ROWS_AT_ONCE) {
            pack_rows(p, b, k, b->kn - k < UW_ROWS_AT_ONCE ? b->kn - k : UW_ROWS_AT_ONCE, panels);
        }
        return;
    }
    for (uint32_t j = 0; j < b->jn; j += t->nr) {
        uint32_t cols = b->jn - j < t->nr ? b->jn - j : t->nr;
        t->pack_transposed(cols, b->kn, m->alpha, m->base + ((size_t)b->j0 + j) * m->stride + b->k0,
                           m->stride, panels + (size_t)j * b->kn, t->nr);
    }
}

static struct uw_product product_of(const struct uw_tile *t, const struct uw_gemm *g,
                                    uint32_t threads)
{
    struct uw_product p = {.groups = 1, .m = rows_of(g), .n = g->n, .k = g->k, .threads = threads,
                           .beta = g->beta};
    p.a = (struct uw_left){
        .trans = g->trans_a, .alpha = 1.0f, .row_stride = g->lda, .segment_n = g->k};
    p.b.pack = pack_matrix;
    p.c = (struct uw_sink){.row_stride = g->ldc, .image_cols = g->n};
    uw_product_cut(&p, t, 1, true);
    p.m = g->m;
    return p;
}

static void start_all(const struct uw_gemm *g, const float *start, float *c)
{
    for (uint32_t i = 0; i < g->m; i++) {
        memcpy(c + (size_t)i * g->ldc, start, g->n * sizeof(float));
    }
}

int uw_gemm_from_packed(const struct uw_exec *e, const struct uw_gemm *g, const float *start,
                        const float *a, const float *b, float *c)
{
    if (is_small(g)) {
        if (start != NULL) {
            start_all(g, start, c);
        }
        return uw_gemm_ref(e, g, a, b, c);
    }
    struct matrix m = {b, g->ldb, g->trans_b, g->alpha};
    struct uw_product p = product_of(e->kernels->tile, g, uw_workers_threads(e->workers));
    p.a.base = a;
    p.b.source = &m;
    p.c.base = c;
    if (g->b != UW_GEMM_B_ONCE && p.threads == 1) {
        struct uw_product keeping = p;
        uw_product_keep(&keeping);
        keeping.b.kept = g->b == UW_GEMM_B_AGAIN;
        if (uw_product_scratch_bytes(&keeping, 1) <= e->scratch_bytes) {
            p = keeping;
        }
    }
    p.start = start;
    if (start != NULL && p.k_parts > 1) {
        start_all(g, start, c);
        p.start = NULL;
    }
    return uw_product_run(e, &p);
}

int uw_gemm_packed(const struct uw_exec *e, const struct uw_gemm *g, const float *a, const float *b,
                   float *c)
{
    return uw_gemm_from_packed(e, g, NULL, a, b, c);
}

size_t uw_gemm_scratch_bytes_packed(const struct uw_kernels *k, const struct uw_gemm *g,
                                    uint32_t threads)
{
    if (is_small(g)) {
        return 0;
    }
    struct uw_product p = product_of(k->tile, g, threads);
    return uw_product_scratch_bytes(&p, threads);
}
