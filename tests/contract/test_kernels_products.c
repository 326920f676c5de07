/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel contract: gemm and dense. */
#include "test_kernels.h"

static float stored(const float *x, bool trans, uint32_t ld, uint32_t i, uint32_t k)
{
    return trans ? x[(size_t)k * ld + i] : x[(size_t)i * ld + k];
}

static void check_against_twin(const struct uw_gemm *g, const float *a, const float *b,
                               const float *before, const float *c)
{
    for (uint32_t i = 0; i < g->m; i++) {
        for (uint32_t j = 0; j < g->ldc && (i + 1 < g->m || j < g->n); j++) {
            size_t at = (size_t)i * g->ldc + j;
            if (j >= g->n) {
                assert_memory_equal(&c[at], &before[at], sizeof c[at]); /* between the rows */
                continue;
            }
            struct uw_sum s = {0};
            for (uint32_t k = 0; k < g->k; k++) {
                uw_sum_add(&s, (double)g->alpha * (double)stored(a, g->trans_a, g->lda, i, k) *
                                   (double)stored(b, g->trans_b, g->ldb, k, j));
            }
            if (g->beta != 0.0f) {
                uw_sum_add(&s, (double)g->beta * (double)before[at]);
            }
            uw_test_assert_sum(c[at], &s);
        }
    }
}

static size_t stored_n(uint32_t rows, uint32_t cols, uint32_t ld)
{
    return rows == 0 || cols == 0 ? 0 : (size_t)(rows - 1) * ld + cols;
}

/* Some rows of a product, computed alone, have the bits of the whole, c, which was c0 before. */
static void check_rows(const struct uw_gemm *whole, const float *a, const float *b, size_t c_n,
                       const float *c0, const float *c)
{
    const struct uw_kernels *k = uw_test_table();
    uint32_t cut = whole->m / 3;
    float *parts = uw_test_copy_floats(c_n, c0);
    for (uint32_t i = 0; i < whole->m; i += cut > 0 && i == 0 ? cut : whole->m) {
        struct uw_gemm g = *whole;
        struct uw_test_exec e;
        g.rows_of = whole->m;
        g.m = cut > 0 && i == 0 ? cut : whole->m - i;
        uw_test_exec_begin(&e, 1, k->gemm_scratch_bytes(k, &g, 1));
        assert_int_equal(k->gemm(&e.exec, &g, a + (g.trans_a ? i : (size_t)i * g.lda), b,
                                 parts + (size_t)i * g.ldc), UW_OK);
        uw_test_exec_end(&e);
    }
    uw_test_assert_same_bits(c_n, c, parts);
    uw_test_release(parts);
}

/* The same in products that follow each other, with room to keep B packed. */
static void check_rows_again(const struct uw_gemm *whole, const float *a, const float *b,
                             size_t c_n, const float *c0, const float *c)
{
    const struct uw_kernels *k = uw_test_table();
    struct uw_gemm g = *whole;
    float *parts = uw_test_copy_floats(c_n, c0);
    struct uw_test_exec e;
    g.rows_of = whole->m;
    g.m = whole->m / 3;
    g.b = UW_GEMM_B_FIRST;
    uw_test_exec_begin(&e, 1, k->gemm_scratch_bytes(k, &g, 1) +
                                  sizeof(float) * ((size_t)g.n + 100) * (g.k + 1));
    uint32_t i = 0;
    for (; i + g.m <= whole->m && g.m > 0; i += g.m, g.b = UW_GEMM_B_AGAIN) {
        assert_int_equal(k->gemm(&e.exec, &g, a + (g.trans_a ? i : (size_t)i * g.lda), b,
                                 parts + (size_t)i * g.ldc), UW_OK);
    }
    uw_test_assert_same_bits(stored_n(i, g.n, g.ldc), c, parts);
    uw_test_exec_end(&e);
    uw_test_release(parts);
}

static void check_gemm(struct uw_gemm g, uint32_t pad)
{
    const struct uw_kernels *k = uw_test_table();
    g.lda = (g.trans_a ? g.m : g.k) + pad;
    g.ldb = (g.trans_b ? g.k : g.n) + pad;
    g.ldc = g.n + pad;
    float *a = uw_test_random_floats(g.trans_a ? stored_n(g.k, g.m, g.lda)
                                               : stored_n(g.m, g.k, g.lda));
    float *b = uw_test_random_floats(g.trans_b ? stored_n(g.n, g.k, g.ldb)
                                               : stored_n(g.k, g.n, g.ldb));
    size_t c_n = stored_n(g.m, g.n, g.ldc);
    float *c0 = g.beta == 0.0f ? uw_test_floats(c_n) : uw_test_random_floats(c_n);
    float *one = NULL;
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        float *c = uw_test_copy_floats(c_n, c0);
        struct uw_test_exec e;
        uw_test_exec_begin(&e, threads, k->gemm_scratch_bytes(k, &g, threads));
        assert_int_equal(k->gemm(&e.exec, &g, a, b, c), UW_OK);
        uw_test_exec_end(&e);
        if (one == NULL) {
            check_against_twin(&g, a, b, c0, c);
            one = c;
        } else {
            uw_test_assert_same_bits(c_n, one, c);
            uw_test_release(c);
        }
    }
    if (k->sequence->recurrence == NULL) {
        check_rows(&g, a, b, c_n, c0, one);
        check_rows_again(&g, a, b, c_n, c0, one);
    }
    uw_test_release(one);
    uw_test_release(c0);
    uw_test_release(b);
    uw_test_release(a);
}

static void test_gemm_around_every_tile_matches_twin(void **state)
{
    (void)state;
    const uint32_t m[] = {1, 5, 6, 7, 8, 13, 14, 15, 29};
    const uint32_t n[] = {1, 11, 12, 13, 15, 16, 17, 31, 32, 33, 65};
    const uint32_t k[] = {1, 3, 4, 5, 23};
    for (size_t i = 0; i < sizeof m / sizeof *m; i++) {
        for (size_t j = 0; j < sizeof n / sizeof *n; j++) {
            for (size_t l = 0; l < sizeof k / sizeof *k; l++) {
                uint32_t way = uw_test_below(4);
                check_gemm((struct uw_gemm){.trans_a = way & 1u, .trans_b = way & 2u, .m = m[i],
                                            .n = n[j], .k = k[l], .alpha = 1.0f}, way % 3u);
            }
        }
    }
}

static void test_gemm_around_every_block_matches_twin(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < 4; way++) {
        struct uw_gemm g = {.trans_a = way & 1u, .trans_b = way & 2u, .alpha = 1.0f};
        g.m = 97, g.n = 50, g.k = 257;
        check_gemm(g, 0);
        g.m = 20, g.n = 259, g.k = 256;
        check_gemm(g, 3);
        g.m = 100, g.n = 241, g.k = 31;
        check_gemm(g, 1);
        g.m = 7, g.n = 25, g.k = 3001;      /* long k: summed in parts */
        check_gemm(g, 0);
        g.m = 230, g.n = 61, g.k = 514;     /* each thread has rows of its own, */
        check_gemm(g, 0);
        g.m = 33, g.n = 530, g.k = 99;      /* or columns */
        check_gemm(g, 2);
        g.m = 201, g.n = 33, g.k = 300, g.beta = 1.0f;
        check_gemm(g, 5);
    }
}

static void test_gemm_blocks_that_fit_a_machine_change_no_bits(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    struct uw_kernels_fitted small, unknown;
    struct uw_blocks blocks;
    const struct uw_kernels *fitted = uw_kernels_with_blocks(&small, k, 1, 1);
    assert_ptr_equal(uw_kernels_fit(&unknown, k, &(struct uw_caches){1, 2, 3}), k);
    if (!uw_kernels_blocks(k, &blocks)) {
        assert_ptr_equal(fitted, k);
        return;
    }
    assert_true(uw_kernels_blocks(fitted, &blocks) && blocks.rows < 17 && blocks.columns < 33);
    struct uw_gemm g = {.m = 61, .n = 150, .k = 300, .lda = 300, .ldb = 150, .ldc = 150,
                        .alpha = 1.0f};
    float *a = uw_test_random_floats(61 * 300), *b = uw_test_random_floats(300 * 150);
    float *c[2] = {uw_test_floats(61 * 150), uw_test_floats(61 * 150)};
    for (uint32_t i = 0; i < 2; i++) {
        const struct uw_kernels *table = i == 0 ? k : fitted;
        struct uw_test_exec e;
        uw_test_exec_begin(&e, 1, table->gemm_scratch_bytes(table, &g, 1));
        e.exec.kernels = table;
        assert_int_equal(table->gemm(&e.exec, &g, a, b, c[i]), UW_OK);
        uw_test_exec_end(&e);
    }
    uw_test_assert_same_bits(61 * 150, c[0], c[1]);
    uw_test_release(c[1]);
    uw_test_release(c[0]);
    uw_test_release(b);
    uw_test_release(a);
}

static void test_gemm_alpha_beta_match_twin(void **state)
{
    (void)state;
    const float beta[] = {0.0f, 1.0f, -0.5f};
    const float alpha[] = {1.0f, -2.0f, 0.0f};
    for (uint32_t i = 0; i < 9; i++) {
        struct uw_gemm g = {.m = 15, .n = 34, .k = 9, .alpha = alpha[i / 3], .beta = beta[i % 3]};
        check_gemm(g, 2);
        g.m = 14, g.n = 20, g.k = 2500;
        check_gemm(g, 0);
        g.m = 2, g.n = 3, g.k = 4;
        check_gemm(g, 1);
    }
}

static void test_gemm_empty_sizes_scale_or_do_nothing(void **state)
{
    (void)state;
    check_gemm((struct uw_gemm){.m = 5, .n = 7, .k = 0, .alpha = 1.0f}, 1);
    check_gemm((struct uw_gemm){.m = 5, .n = 7, .k = 0, .alpha = 1.0f, .beta = 0.5f}, 0);
    check_gemm((struct uw_gemm){.m = 0, .n = 7, .k = 3, .alpha = 1.0f}, 0);
    check_gemm((struct uw_gemm){.m = 5, .n = 0, .k = 3, .alpha = 1.0f}, 0);
}

static void test_gemm_nan_and_infinity_reach_their_row_only(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    struct uw_gemm g = {.m = 20, .n = 40, .k = 30, .lda = 30, .ldb = 40, .ldc = 40, .alpha = 1.0f};
    float *a = uw_test_random_floats(600), *b = uw_test_random_floats(1200);
    float *c = uw_test_floats(800);
    a[7 * 30 + 11] = NAN;
    a[19 * 30 + 29] = INFINITY;
    struct uw_test_exec e;
    uw_test_exec_begin(&e, 1, k->gemm_scratch_bytes(k, &g, 1));
    assert_int_equal(k->gemm(&e.exec, &g, a, b, c), UW_OK);
    for (uint32_t i = 0; i < 20; i++) {
        for (uint32_t j = 0; j < 40; j++) {
            float v = c[i * 40 + j];
            assert_true(i == 7 ? isnan(v) : i == 19 ? isinf(v) : isfinite(v));
        }
    }
    uw_test_exec_end(&e);
    uw_test_release(c);
    uw_test_release(b);
    uw_test_release(a);
}

static void test_gemm_too_little_scratch_is_refused(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    struct uw_gemm g = {.m = 64, .n = 64, .k = 64, .lda = 64, .ldb = 64, .ldc = 64, .alpha = 1.0f};
    size_t bytes = k->gemm_scratch_bytes(k, &g, 1);
    if (bytes == 0) {
        return; /* nothing to lack */
    }
    float *a = uw_test_random_floats(4096), *b = uw_test_random_floats(4096);
    float *c = uw_test_random_floats(4096), *before = uw_test_copy_floats(4096, c);
    struct uw_test_exec e;
    uw_test_exec_begin(&e, 1, bytes - 1);
    assert_int_equal(k->gemm(&e.exec, &g, a, b, c), UW_ERR_NOMEM);
    uw_test_assert_same_bits(4096, c, before);
    uw_test_exec_end(&e);
    uw_test_release(before);
    uw_test_release(c);
    uw_test_release(b);
    uw_test_release(a);
}

struct dense {
    struct uw_dense d;
    uint32_t batch_n;
    float *x, *w, *b, *dy, *y, *dx, *dw, *db;
};

static void dense_begin(struct dense *t, uint32_t in, uint32_t out, uint32_t batch_n)
{
    t->d = (struct uw_dense){in, out};
    t->batch_n = batch_n;
    t->x = uw_test_random_floats((size_t)batch_n * in);
    t->w = uw_test_random_floats((size_t)out * in);
    t->b = uw_test_random_floats(out);
    t->dy = uw_test_random_floats((size_t)batch_n * out);
    t->y = uw_test_floats((size_t)batch_n * out);
    t->dx = uw_test_floats((size_t)batch_n * in);
    t->dw = uw_test_random_floats((size_t)out * in);
    t->db = uw_test_random_floats(out);
}

static void dense_end(struct dense *t)
{
    float *all[] = {t->x, t->w, t->b, t->dy, t->y, t->dx, t->dw, t->db};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uw_test_release(all[i]);
    }
}

static void check_dense_fw(const struct dense *t, const float *b)
{
    for (uint32_t n = 0; n < t->batch_n; n++) {
        for (uint32_t o = 0; o < t->d.out; o++) {
            struct uw_sum s = {0};
            for (uint32_t i = 0; i < t->d.in; i++) {
                uw_sum_add(&s, (double)t->x[n * t->d.in + i] * (double)t->w[o * t->d.in + i]);
            }
            uw_sum_add(&s, b != NULL ? (double)b[o] : 0.0);
            uw_test_assert_sum(t->y[n * t->d.out + o], &s);
        }
    }
}

static void check_dense_bw_input(const struct dense *t, const float *before)
{
    for (uint32_t n = 0; n < t->batch_n; n++) {
        for (uint32_t i = 0; i < t->d.in; i++) {
            struct uw_sum s = {0};
            for (uint32_t o = 0; o < t->d.out; o++) {
                uw_sum_add(&s, (double)t->dy[n * t->d.out + o] * (double)t->w[o * t->d.in + i]);
            }
            uw_sum_add(&s, before != NULL ? (double)before[n * t->d.in + i] : 0.0);
            uw_test_assert_sum(t->dx[n * t->d.in + i], &s);
        }
    }
}

static void check_dense_bw_param(const struct dense *t, float scale, const float *dw0,
                                 const float *db0)
{
    for (uint32_t o = 0; o < t->d.out; o++) {
        struct uw_sum bias = {0};
        uw_sum_add(&bias, (double)db0[o]);
        for (uint32_t n = 0; n < t->batch_n; n++) {
            uw_sum_add(&bias, (double)scale * (double)t->dy[n * t->d.out + o]);
        }
        uw_test_assert_sum(t->db[o], &bias);
        for (uint32_t i = 0; i < t->d.in; i++) {
            struct uw_sum s = {0};
            uw_sum_add(&s, (double)dw0[o * t->d.in + i]);
            for (uint32_t n = 0; n < t->batch_n; n++) {
                uw_sum_add(&s, (double)scale * (double)t->dy[n * t->d.out + o] *
                                   (double)t->x[n * t->d.in + i]);
            }
            uw_test_assert_sum(t->dw[o * t->d.in + i], &s);
        }
    }
}

static void check_dense(uint32_t in, uint32_t out, uint32_t batch_n, uint32_t threads)
{
    const struct uw_kernels *k = uw_test_table();
    struct dense t;
    struct uw_test_exec e;
    dense_begin(&t, in, out, batch_n);
    uw_test_exec_begin(&e, threads, k->dense_scratch_bytes(k, &t.d, batch_n, threads));
    assert_int_equal(k->dense_fw(&e.exec, &t.d, batch_n, t.x, t.w, NULL, t.y), UW_OK);
    check_dense_fw(&t, NULL);
    assert_int_equal(k->dense_fw(&e.exec, &t.d, batch_n, t.x, t.w, t.b, t.y), UW_OK);
    check_dense_fw(&t, t.b);

    assert_int_equal(k->dense_bw_input(&e.exec, &t.d, batch_n, t.dy, t.w, t.dx, false), UW_OK);
    check_dense_bw_input(&t, NULL);
    float *dx0 = uw_test_copy_floats((size_t)batch_n * in, t.dx);
    assert_int_equal(k->dense_bw_input(&e.exec, &t.d, batch_n, t.dy, t.w, t.dx, true), UW_OK);
    check_dense_bw_input(&t, dx0);

    float *dw0 = uw_test_copy_floats((size_t)out * in, t.dw);
    float *db0 = uw_test_copy_floats(out, t.db);
    assert_int_equal(k->dense_bw_param(&e.exec, &t.d, batch_n, t.x, t.dy, -0.25f, t.dw, t.db),
                     UW_OK);
    check_dense_bw_param(&t, -0.25f, dw0, db0);
    memcpy(t.dw, dw0, (size_t)out * in * sizeof(float));
    assert_int_equal(k->dense_bw_param(&e.exec, &t.d, batch_n, t.x, t.dy, 2.0f, t.dw, NULL),
                     UW_OK);
    memcpy(t.db, db0, out * sizeof(float));
    for (uint32_t o = 0; o < out; o++) {    /* what a db would have become */
        for (uint32_t n = 0; n < batch_n; n++) {
            t.db[o] += 2.0f * t.dy[n * out + o];
        }
    }
    check_dense_bw_param(&t, 2.0f, dw0, db0);
    memcpy(t.db, db0, out * sizeof(float));
    assert_int_equal(k->dense_bw_param(&e.exec, &t.d, batch_n, NULL, t.dy, 2.0f, NULL, t.db),
                     UW_OK);
    check_dense_bw_param(&t, 2.0f, dw0, db0);
    uw_test_release(db0);
    uw_test_release(dw0);
    uw_test_release(dx0);
    uw_test_exec_end(&e);
    dense_end(&t);
}

static void test_dense_every_path_matches_twin(void **state)
{
    (void)state;
    const uint32_t batch[] = {0, 1, 2, 3, 4, 5, 20, 32, 33};
    for (size_t i = 0; i < sizeof batch / sizeof *batch; i++) {
        check_dense(1, 1, batch[i], 1);
        check_dense(37, 10, batch[i], 1);
        check_dense(64, 9, batch[i], 3);
        check_dense(530, 67, batch[i], 3);
    }
}

static void test_dense_threads_give_the_same_bits(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    const size_t weights_n = 700 * 150;
    for (uint32_t batch_n = 1; batch_n <= 41; batch_n += 10) {
        struct dense t;
        dense_begin(&t, 700, 150, batch_n);
        float *y[2], *dx[2], *dw[2];
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t threads = i == 0 ? 1 : 4;
            y[i] = uw_test_floats((size_t)batch_n * 150);
            dx[i] = uw_test_floats((size_t)batch_n * 700);
            dw[i] = uw_test_copy_floats(weights_n, t.dw);
            struct uw_test_exec e;
            uw_test_exec_begin(&e, threads, k->dense_scratch_bytes(k, &t.d, batch_n, threads));
            k->dense_fw(&e.exec, &t.d, batch_n, t.x, t.w, t.b, y[i]);
            k->dense_bw_input(&e.exec, &t.d, batch_n, t.dy, t.w, dx[i], false);
            k->dense_bw_param(&e.exec, &t.d, batch_n, t.x, t.dy, 0.5f, dw[i], NULL);
            uw_test_exec_end(&e);
        }
        uw_test_assert_same_bits((size_t)batch_n * 150, y[0], y[1]);
        uw_test_assert_same_bits((size_t)batch_n * 700, dx[0], dx[1]);
        uw_test_assert_same_bits(weights_n, dw[0], dw[1]);
        for (uint32_t i = 0; i < 2; i++) {
            uw_test_release(y[i]);
            uw_test_release(dx[i]);
            uw_test_release(dw[i]);
        }
        dense_end(&t);
    }
}

/* dense_bw_step against the slots that it stands for: the same bits. */
static void check_dense_step(uint32_t in, uint32_t out, uint32_t batch_n, float keep, bool want_dx,
                             bool accumulate)
{
    const struct uw_kernels *k = uw_test_table();
    size_t weights_n = (size_t)in * out, x_n = (size_t)batch_n * in;
    struct dense t;
    struct uw_test_exec e;
    dense_begin(&t, in, out, batch_n);
    float *w = uw_test_copy_floats(weights_n, t.w), *b = uw_test_copy_floats(out, t.b);
    float *dx0 = accumulate ? uw_test_random_floats(x_n) : uw_test_floats(x_n);
    float *dx = uw_test_copy_floats(x_n, dx0);
    uw_test_exec_begin(&e, 1, k->dense_scratch_bytes(k, &t.d, batch_n, 1));
    assert_int_equal(k->dense_bw_input(&e.exec, &t.d, batch_n, t.dy, w, dx, accumulate), UW_OK);
    for (size_t i = 0; i < weights_n; i++) {
        w[i] *= keep;
    }
    for (uint32_t o = 0; o < out; o++) {
        b[o] *= keep;
    }
    assert_int_equal(k->dense_bw_param(&e.exec, &t.d, batch_n, t.x, t.dy, -0.25f, w, b), UW_OK);
    uw_test_exec_end(&e);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        float *w1 = uw_test_copy_floats(weights_n, t.w), *b1 = uw_test_copy_floats(out, t.b);
        float *dx1 = uw_test_copy_floats(x_n, dx0);
        uw_test_exec_begin(&e, threads, k->dense_scratch_bytes(k, &t.d, batch_n, threads));
        assert_int_equal(k->dense_bw_step(&e.exec, &t.d, batch_n, t.x, t.dy, keep, -0.25f, w1,
                                          threads == 1 ? b1 : NULL, want_dx ? dx1 : NULL,
                                          accumulate), UW_OK);
        uw_test_exec_end(&e);
        uw_test_assert_same_bits(weights_n, w, w1);
        uw_test_assert_same_bits(out, threads == 1 ? b : t.b, b1);
        uw_test_assert_same_bits(x_n, want_dx ? dx : dx0, dx1);
        uw_test_release(dx1);
        uw_test_release(b1);
        uw_test_release(w1);
    }
    uw_test_release(dx);
    uw_test_release(dx0);
    uw_test_release(b);
    uw_test_release(w);
    dense_end(&t);
}

static void test_dense_step_equals_its_parts_bit_for_bit(void **state)
{
    (void)state;
    const uint32_t in[] = {1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 33, 400};
    const uint32_t out[] = {1, 3, 4, 7, 8, 9, 17};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
        for (size_t o = 0; o < sizeof out / sizeof *out; o++) {
            for (uint32_t way = 0; way < 6; way++) {
                check_dense_step(in[i], out[o], 1, way % 2 == 0 ? 1.0f : 0.75f, way < 4, way < 2);
            }
        }
    }
    check_dense_step(700, 123, 1, 1.0f, true, false);     /* several tasks */
    check_dense_step(4099, 20, 1, 0.99f, true, true);
    check_dense_step(1030, 40, 1, 0.99f, false, false);
    for (uint32_t batch_n = 0; batch_n <= 6; batch_n += 2) {
        check_dense_step(37, 21, batch_n, 1.0f, true, true);
        check_dense_step(37, 21, batch_n, 0.5f, true, false);
        check_dense_step(37, 21, batch_n, 0.5f, false, false);
    }
}

static void test_dense_step_nan_stays_where_it_belongs(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    struct dense t;
    struct uw_test_exec e;
    dense_begin(&t, 37, 11, 1);
    t.w[5 * 37 + 20] = NAN;
    t.x[36] = INFINITY;
    uw_test_exec_begin(&e, 1, k->dense_scratch_bytes(k, &t.d, 1, 1));
    assert_int_equal(k->dense_bw_step(&e.exec, &t.d, 1, t.x, t.dy, 1.0f, -0.25f, t.w, t.b, t.dx,
                                      false), UW_OK);
    for (uint32_t i = 0; i < 37; i++) {
        assert_true(isnan(t.dx[i]) == (i == 20));
        for (uint32_t o = 0; o < 11; o++) {
            float v = t.w[o * 37 + i];
            assert_true(i == 36 ? isinf(v) : i == 20 && o == 5 ? isnan(v) : isfinite(v));
        }
    }
    uw_test_exec_end(&e);
    dense_end(&t);
}

const struct CMUnitTest uw_test_products[] = {
    cmocka_unit_test(test_gemm_around_every_tile_matches_twin),
    cmocka_unit_test(test_gemm_around_every_block_matches_twin),
    cmocka_unit_test(test_gemm_blocks_that_fit_a_machine_change_no_bits),
    cmocka_unit_test(test_gemm_alpha_beta_match_twin),
    cmocka_unit_test(test_gemm_empty_sizes_scale_or_do_nothing),
    cmocka_unit_test(test_gemm_nan_and_infinity_reach_their_row_only),
    cmocka_unit_test(test_gemm_too_little_scratch_is_refused),
    cmocka_unit_test(test_dense_every_path_matches_twin),
    cmocka_unit_test(test_dense_threads_give_the_same_bits),
    cmocka_unit_test(test_dense_step_equals_its_parts_bit_for_bit),
    cmocka_unit_test(test_dense_step_nan_stays_where_it_belongs),
};
const size_t uw_test_products_n = sizeof uw_test_products / sizeof *uw_test_products;
