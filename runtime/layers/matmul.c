/* SPDX-License-Identifier: Apache-2.0
 *
 * y = scale a b over the last two axes; a and b may be transposed. The axes before them, and the
 * minibatch, are broadcast: a product is computed for each of their indices. An operand that stays
 * the same over the outermost of them, with the other's rows dense, is one product of more rows. */
#include "layer_shared.h"

/* The last two axes of a sample. */
static void matrix_of(const struct uw_shape *s, uint32_t *rows, uint32_t *n)
{
    uint32_t dim[UW_AXES_MAX];
    uw_axes_of(s, dim);
    *rows = s->rank > 1 ? dim[s->rank - 2] : 1;
    *n = dim[s->rank - 1];
}

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_matmul_def *d = &l->def->matmul;
    struct uw_products *g = &l->geometry.products;
    uint32_t a[2], b[2], stack[2][UW_PRODUCT_AXES];
    char left[UW_SHAPE_TEXT_BYTES], right[UW_SHAPE_TEXT_BYTES];

    if (l->inputs_n != 2 || in[0].rank < 2 || in[1].rank < 2) {
        return uw_error_set(err, UW_ERR_INVALID, "needs 2 inputs of 2 axes or more");
    }
    matrix_of(&in[0], &a[d->trans_a], &a[!d->trans_a]);
    matrix_of(&in[1], &b[d->trans_b], &b[!d->trans_b]);
    *g = (struct uw_products){.m = a[0], .k = a[1], .n = b[1]};
    bool fits = a[1] == b[0];
    for (uint32_t o = 0; o < 2; o++) {  /* the axes in front of the matrices */
        uw_axes_at_end(&in[o], in[o].rank - 2, UW_PRODUCT_AXES, stack[o]);
    }
    uint32_t n[2] = {a[0] * a[1], b[0] * b[1]};  /* within a value, which fits 32 bits */
    for (uint32_t i = UW_PRODUCT_AXES; i-- > 0;) {
        g->dim[i] = stack[0][i] > stack[1][i] ? stack[0][i] : stack[1][i];
        for (uint32_t o = 0; o < 2; o++) {
            fits = fits && (stack[o][i] == 1 || stack[o][i] == g->dim[i]);
            g->step[o][i] = stack[o][i] == 1 ? 0 : n[o];
            n[o] *= stack[o][i];
        }
    }
    if (!fits) {
        return uw_error_set(err, UW_ERR_SHAPE, "its inputs %s%s and %s%s do not multiply",
                            uw_shape_text(&in[0], left), d->trans_a ? " (transposed)" : "",
                            uw_shape_text(&in[1], right), d->trans_b ? " (transposed)" : "");
    }
    for (uint32_t o = 0; o < 2; o++) {
        g->sample[o] = (l->shared_inputs & 1u << o) != 0 ? 0 : n[o];
    }
    uint32_t rank = in[0].rank > in[1].rank ? in[0].rank : in[1].rank;
    uint32_t dim[UW_AXES_MAX] = {1, 1, 1, 1};
    for (uint32_t i = 0; i + 2 < rank; i++) {
        dim[i] = g->dim[UW_PRODUCT_AXES - (rank - 2) + i];
    }
    dim[rank - 2] = g->m;
    dim[rank - 1] = g->n;
    l->out = uw_shape_of_axes(rank, dim);
    return UW_OK;
}

/* Multiply-adds that take as long as packing one value. */
#define PACK_WORK 16.0

enum part { FORWARD, GRADIENT_A, GRADIENT_B, PARTS_N };

/* The product of one index: y = a b, da = dy b^T, db = a^T dy, or transposed. */
static struct uw_gemm product(const struct uw_layer *l, enum part part)
{
    const struct uw_products *g = &l->geometry.products;
    const struct uw_matmul_def *d = &l->def->matmul;
    uint32_t lda = d->trans_a ? g->m : g->k, ldb = d->trans_b ? g->k : g->n;
    struct uw_gemm p = {.alpha = d->scale != 0.0f ? d->scale : 1.0f};
    if (part == FORWARD) {
        p.m = g->m, p.n = g->n, p.k = g->k;
        p.trans_a = d->trans_a, p.trans_b = d->trans_b;
        p.lda = lda, p.ldb = ldb, p.ldc = g->n;
    } else if (part == GRADIENT_A && !d->trans_a) {
        p.m = g->m, p.n = g->k, p.k = g->n;     /* [m][k] = dy [m][n] times b^T [n][k] */
        p.trans_b = !d->trans_b;
        p.lda = g->n, p.ldb = ldb, p.ldc = lda;
    } else if (part == GRADIENT_A) {
        p.m = g->k, p.n = g->m, p.k = g->n;     /* [k][m] = b [k][n] times dy^T [n][m] */
        p.trans_a = d->trans_b, p.trans_b = true;
        p.lda = ldb, p.ldb = g->n, p.ldc = lda;
    } else if (!d->trans_b) {
        p.m = g->k, p.n = g->n, p.k = g->m;     /* [k][n] = a^T [k][m] times dy [m][n] */
        p.trans_a = !d->trans_a;
        p.lda = lda, p.ldb = g->n, p.ldc = ldb;
    } else {
        p.m = g->n, p.n = g->k, p.k = g->m;     /* [n][k] = dy^T [n][m] times a [m][k] */
        p.trans_a = true, p.trans_b = d->trans_a;
        p.lda = g->n, p.ldb = lda, p.ldc = ldb;
    }
    return p;
}

/* Where an index of the minibatch and of the axes in front of the matrices is. */
struct place {
    size_t operand[2], y;
};

static struct place place_of(const struct uw_layer *l, uint32_t sample, uint32_t index)
{
    const struct uw_products *g = &l->geometry.products;
    struct place at = {.operand = {(size_t)sample * g->sample[0], (size_t)sample * g->sample[1]},
                       .y = (size_t)sample * l->out_n + (size_t)index * g->m * g->n};
    for (uint32_t i = UW_PRODUCT_AXES; i-- > 0;) {
        uint32_t k = index % g->dim[i];
        index /= g->dim[i];
        at.operand[0] += (size_t)k * g->step[0][i];
        at.operand[1] += (size_t)k * g->step[1][i];
    }
    return at;
}

static uint32_t stack_n(const struct uw_products *g)
{
    return g->dim[0] * g->dim[1];
}

/* One matrix b for all indices, and rows of a and y in one block: all of it is one product, of this
 * many times m rows; else 1. */
static uint32_t joined(const struct uw_layer *l, uint32_t batch_n)
{
    const struct uw_products *g = &l->geometry.products;
    bool one = !l->def->matmul.trans_a && g->sample[1] == 0 && g->step[1][0] == 0 &&
               g->step[1][1] == 0;
    for (uint32_t i = 0; i < UW_PRODUCT_AXES; i++) {
        one = one && (g->dim[i] == 1 || g->step[0][i] != 0);
    }
    uint32_t samples = g->sample[0] != 0 ? batch_n : 1;
    return one && (samples == batch_n) ? samples * stack_n(g) : 1;
}

/* The same for `times` indices at once. */
static struct uw_gemm scaled(const struct uw_layer *l, enum part part, uint32_t times)
{
    struct uw_gemm p = product(l, part);
    *(part == GRADIENT_B ? &p.k : &p.m) *= times;
    return p;
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    const uint32_t times[2] = {1, joined(l, batch_n)};
    size_t most = 0;
    for (int part = 0; part < PARTS_N; part++) {
        for (uint32_t i = 0; i < 2; i++) {
            struct uw_gemm p = scaled(l, (enum part)part, times[i]);
            size_t bytes = k->gemm_scratch_bytes(k, &p, threads);
            size_t each = uw_size_mul(uw_arena_padded(k->gemm_scratch_bytes(k, &p, 1)), threads);
            most = bytes > most ? bytes : most;
            most = times[i] == 1 && threads > 1 && each > most ? each : most;
        }
    }
    return most;
}

/* Products of a pass; an item is one of them. */
struct products {
    const struct uw_layer *l;
    struct uw_gemm m;
    uint32_t times;             /* indices of a product */
    uint32_t a, b, c;           /* which are multiplied into which; RESULT: y, or dy */
    const float *in[3];
    float *out;
};

enum { RESULT = 2 };

static int product_item(const struct uw_exec *e, const void *arg, uint32_t item)
{
    const struct products *p = arg;
    uint32_t stack = stack_n(&p->l->geometry.products), i = item * p->times;
    const struct place at = place_of(p->l, i / stack, i % stack);
    const size_t to[3] = {at.operand[0], at.operand[1], at.y};
    return e->kernels->gemm(e, &p->m, p->in[p->a] + to[p->a], p->in[p->b] + to[p->b],
                            p->out + to[p->c]);
}

/* All products; `divided`: over the threads, as no two have the same result. */
static int run_products(const struct uw_exec *e, const struct products *p, uint32_t batch_n,
                        bool divided)
{
    const struct uw_gemm *m = &p->m;
    uint32_t n = batch_n * stack_n(&p->l->geometry.products) / p->times;
    double sides = (double)m->m * m->k + (double)m->n * m->k + (double)m->m * m->n;
    int rc = UW_OK;
    if (divided) {
        return uw_run_items(e, n * ((double)m->m * m->n * m->k + PACK_WORK * sides),
                            n * sides * sizeof(float), n, product_item, p);
    }
    for (uint32_t i = 0; i < n && rc == UW_OK; i++) {
        rc = product_item(e, p, i);
    }
    return rc;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    uint32_t times = joined(l, p->batch_n);
    const struct products all = {.l = l, .m = scaled(l, FORWARD, times), .times = times, .a = 0,
                                 .b = 1, .c = RESULT, .in = {x[0], x[1]}, .out = y};
    return run_products(e, &all, p->batch_n, true);
}

/* An operand that is the same for several indices gets the sum of their gradients. */
static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    const struct uw_products *g = &l->geometry.products;
    const struct uw_matmul_def *d = &l->def->matmul;
    uint32_t times = joined(l, p->batch_n), all = p->batch_n * stack_n(g);
    struct uw_gemm m = scaled(l, which == 0 ? GRADIENT_A : GRADIENT_B, times);
    bool dy_first = which == 0 ? !d->trans_a : d->trans_b;
    bool repeated = g->sample[which] == 0 || (g->dim[0] > 1 && g->step[which][0] == 0) ||
                    (g->dim[1] > 1 && g->step[which][1] == 0);
    int rc = UW_OK;

    if (repeated && !accumulate && times < all) {
        size_t samples = g->sample[which] == 0 ? 1 : p->batch_n;
        size_t n = (size_t)g->k * (which == 0 ? g->m : g->n);
        for (uint32_t i = 0; i < UW_PRODUCT_AXES; i++) {
            n *= g->step[which][i] != 0 ? g->dim[i] : 1;
        }
        rc = uw_zero(e, dx, samples * n * sizeof *dx);
        accumulate = true;
    }
    m.beta = accumulate ? 1.0f : 0.0f;
    const struct products products = {
        .l = l, .m = m, .times = times, .a = dy_first ? RESULT : 1 - which,
        .b = dy_first ? 1 - which : RESULT, .c = which, .in = {x[0], x[1], l->dy}, .out = dx};
    return rc < 0 ? rc : run_products(e, &products, p->batch_n, !repeated);
}

const struct uw_layer_ops uw_layer_matmul = {
    .name = "matmul",
    .processor_only = true,
    .input_reads_x = true,
    .several = true,
    .repeats = true,
    .infer = infer,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_input = bw_input,
};
