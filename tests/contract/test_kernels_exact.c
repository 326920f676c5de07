/* SPDX-License-Identifier: Apache-2.0
 *
 * A table that calls itself exact gives the reference's bits, slot by slot, at sizes around each
 * block and tile, with zeros of both signs and subnormals, for one thread and for three. */
#include "test_kernels_conv.h"

/* Random cases of each kind. */
static uint32_t cases_n(void)
{
    return getenv("UWASA_TEST_QUICK") != NULL ? 10 : 40;
}

/* Random numbers, every seventh a zero, and some very small. */
static float *odd_floats(size_t n)
{
    float *x = uw_test_random_floats(n);
    for (size_t i = 0; i < n; i++) {
        uint32_t kind = uw_test_below(14);
        x[i] = kind == 0 ? 0.0f : kind == 1 ? -0.0f : kind == 2 ? x[i] * 0x1p-120f : x[i];
    }
    return x;
}

static uint32_t size_around(uint32_t most)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 31, 63, 64, 65, 97, 130};
    uint32_t size = sizes[uw_test_below(sizeof sizes / sizeof sizes[0])];
    return size <= most ? size : 1 + uw_test_below(most);
}

static bool is_exact(void)
{
    return uw_test_table()->exact && uw_test_table() != &uw_kernels_ref;
}

static void assert_bits(const char *what, size_t n, const float *want, const float *got)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&want[i], &got[i], sizeof *want) != 0) {
            fail_msg("%s: element %zu of %zu is %a, the reference has %a", what, i, n,
                     (double)got[i], (double)want[i]);
        }
    }
}

static void test_exact_gemm_gives_the_references_bits(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    for (uint32_t i = 0; i < 10 * cases_n() && is_exact(); i++) {
        struct uw_gemm g = {.trans_a = uw_test_below(2) != 0, .trans_b = uw_test_below(2) != 0,
                            .m = size_around(200), .n = size_around(200), .k = size_around(300),
                            .alpha = uw_test_below(2) != 0 ? 1.0f : -0.3f,
                            .beta = 0.5f * (float)uw_test_below(3)};
        uint32_t pad = uw_test_below(3), threads = 1 + 2 * uw_test_below(2);
        g.lda = (g.trans_a ? g.m : g.k) + pad;
        g.ldb = (g.trans_b ? g.k : g.n) + pad;
        g.ldc = g.n + pad;
        float *a = odd_floats((size_t)(g.trans_a ? g.k : g.m) * g.lda);
        float *b = odd_floats((size_t)(g.trans_b ? g.n : g.k) * g.ldb);
        float *want = odd_floats((size_t)g.m * g.ldc);
        float *got = uw_test_copy_floats((size_t)g.m * g.ldc, want);
        struct uw_test_exec e;
        uw_test_exec_begin(&e, threads, k->gemm_scratch_bytes(k, &g, threads));
        assert_int_equal(k->gemm(&e.exec, &g, a, b, got), UW_OK);
        assert_int_equal(uw_kernels_ref.gemm(&e.exec, &g, a, b, want), UW_OK);
        assert_bits("gemm", (size_t)g.m * g.ldc, want, got);
        uw_test_exec_end(&e);
        uw_test_release(a);
        uw_test_release(b);
        uw_test_release(want);
        uw_test_release(got);
    }
}

struct parts {
    float *y, *dx, *dw, *db;
};

static struct parts dense_parts(const struct uw_kernels *k, const struct uw_exec *e,
                                const struct uw_dense *d, uint32_t n, float *const in[5],
                                bool accumulate)
{
    struct parts p = {uw_test_floats((size_t)n * d->out),
                      uw_test_copy_floats((size_t)n * d->in, in[0]),
                      uw_test_copy_floats((size_t)d->out * d->in, in[1]),
                      uw_test_copy_floats(d->out, in[2])};
    k->dense_fw(e, d, n, in[0], in[1], accumulate ? in[2] : NULL, p.y);
    k->dense_bw_input(e, d, n, in[3], in[1], p.dx, accumulate);
    k->dense_bw_param(e, d, n, in[0], in[3], -0.3f, p.dw, p.db);
    return p;
}

static void compare_parts(const char *what, struct parts want, struct parts got, size_t y_n,
                          size_t x_n, size_t w_n, size_t b_n)
{
    assert_bits(what, y_n, want.y, got.y);
    assert_bits(what, x_n, want.dx, got.dx);
    assert_bits(what, w_n, want.dw, got.dw);
    assert_bits(what, b_n, want.db, got.db);
    float *const all[] = {want.y, want.dx, want.dw, want.db, got.y, got.dx, got.dw, got.db};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        uw_test_release(all[i]);
    }
}

static void test_exact_dense_gives_the_references_bits(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    for (uint32_t i = 0; i < cases_n() && is_exact(); i++) {
        struct uw_dense d = {.in = size_around(300), .out = size_around(200)};
        uint32_t n = size_around(70), threads = 1 + 2 * uw_test_below(2);
        float *in[5] = {odd_floats((size_t)n * d.in), odd_floats((size_t)d.out * d.in),
                        odd_floats(d.out), odd_floats((size_t)n * d.out), NULL};
        bool accumulate = uw_test_below(2) != 0;
        struct uw_test_exec e;
        uw_test_exec_begin(&e, threads, k->dense_scratch_bytes(k, &d, n, threads));
        compare_parts("dense", dense_parts(&uw_kernels_ref, &e.exec, &d, n, in, accumulate),
                      dense_parts(k, &e.exec, &d, n, in, accumulate), (size_t)n * d.out,
                      (size_t)n * d.in, (size_t)d.out * d.in, d.out);
        uw_test_exec_end(&e);
        for (uint32_t j = 0; j < 4; j++) {
            uw_test_release(in[j]);
        }
    }
}

static struct parts conv_parts(const struct uw_kernels *k, const struct uw_exec *e,
                               const struct uw_test_conv *t, bool accumulate)
{
    const struct uw_conv2d *c = &t->c;
    struct parts p = {uw_test_copy_floats(t->y_n, t->dy), uw_test_copy_floats(t->x_n, t->x),
                      uw_test_copy_floats(t->w_n, t->w),
                      uw_test_copy_floats(c->out_channels, t->b)};
    k->conv2d_fw(e, c, t->batch_n, t->x, t->w, t->b, p.y, accumulate);
    k->conv2d_bw_input(e, c, t->batch_n, t->dy, t->w, p.dx, accumulate);
    k->conv2d_bw_param(e, c, t->batch_n, t->x, t->dy, -0.3f, p.dw, p.db);
    return p;
}

static void test_exact_conv2d_gives_the_references_bits(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    for (uint32_t i = 0; i < 10 * cases_n() && is_exact(); i++) {
        uint32_t groups = uw_test_below(4) == 0 ? 2 : 1, kernel = 1 + uw_test_below(5);
        uint32_t dilation = 1 + uw_test_below(2), least = (kernel - 1) * dilation + 1;
        struct uw_conv2d c = uw_test_conv_shape(
            groups * (1 + uw_test_below(9)), groups * (1 + uw_test_below(20)),
            least + uw_test_below(20), least + uw_test_below(70), kernel, kernel,
            1 + uw_test_below(3), uw_test_below(4), dilation, groups);
        uint32_t threads = 1 + 2 * uw_test_below(2), n = 1 + uw_test_below(3);
        struct uw_test_conv t;
        uw_test_conv_begin(&t, &c, n);
        for (size_t j = 0; j < t.y_n; j += 5) {
            t.dy[j] = j % 2 == 0 ? 0.0f : -0.0f;
        }
        for (uint32_t j = 0; j < c.out_channels; j += 2) {
            t.b[j] = -0.0f;
        }
        bool accumulate = uw_test_below(2) != 0;
        struct uw_test_exec e;
        uw_test_exec_begin(&e, threads, k->conv2d_scratch_bytes(k, &c, n, threads));
        compare_parts("conv2d", conv_parts(&uw_kernels_ref, &e.exec, &t, accumulate),
                      conv_parts(k, &e.exec, &t, accumulate), t.y_n, t.x_n, t.w_n,
                      c.out_channels);
        uw_test_exec_end(&e);
        uw_test_conv_end(&t);
    }
}

static void test_exact_activations_give_the_references_bits(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    enum { N = 40009 };
    const uint32_t last = UW_ACTIVATION_FUNCTION + UW_FUNCTION_QUICK_GELU;
    for (uint32_t kind = 0; kind <= last && is_exact(); kind++) {
        if (kind > UW_ACTIVATION_SILU && kind < UW_ACTIVATION_FUNCTION) {
            continue;
        }
        const struct uw_activation a = {kind, .slope = 0.01f, .a = 0.7f, .b = 0.9f};
        const struct uw_exec e = {.kernels = k};
        float *x = odd_floats(N), *dy = odd_floats(N), *want = odd_floats(N);
        float *got = uw_test_floats(N);
        for (uint32_t i = 0; i < N; i++) {
            x[i] *= i % 3 == 0 ? 120.0f : i % 3 == 1 ? 9.0f : 1.0f;
        }
        memcpy(got, want, N * sizeof *got);
        k->activation->bw_input(&e, &a, N, x, dy, got, true);
        uw_kernels_ref.activation->bw_input(&e, &a, N, x, dy, want, true);
        assert_bits("activation bw_input", N, want, got);
        k->activation->forward(&e, &a, N, x, got);
        uw_kernels_ref.activation->forward(&e, &a, N, x, want);
        assert_bits("activation forward", N, want, got);
        uw_test_release(x);
        uw_test_release(dy);
        uw_test_release(want);
        uw_test_release(got);
    }
}

static void test_exact_tensors_give_the_references_bits(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    for (uint32_t i = 0; i < 10 * cases_n() && is_exact(); i++) {
        const uint32_t n = 1 + uw_test_below(7), m = size_around(130), last = size_around(700);
        const bool row = uw_test_below(2) != 0;
        const struct uw_arithmetic g = {
            .op = (enum uw_arithmetic_op)(i % (UW_ARITHMETIC_MASK + 1)), .dim = {n, 1, 1, m, last},
            .step = {{m * last, 0, 0, last, 1}, {0, 0, 0, row ? 0 : 1, row ? 1 : 0}}};
        const struct uw_reduce r = {.op = (enum uw_reduction)(i % (UW_REDUCE_NORM + 1)),
                                    .outer = n, .n = m, .inner = last};
        const uint32_t which = i % 2;
        size_t all = (size_t)n * m * last;
        float *x = odd_floats(all), *dy = odd_floats(all), *b = odd_floats(row ? last : m);
        float *out[2] = {odd_floats(6 * all), NULL};
        out[1] = uw_test_copy_floats(6 * all, out[0]);
        struct uw_test_exec e;
        uw_test_exec_begin(&e, 1 + 2 * uw_test_below(2), 0);
        for (uint32_t j = 0; j < 2; j++) {
            const struct uw_tensor_kernels *t = j == 0 ? uw_kernels_ref.tensor : k->tensor;
            float *y = out[j], *dx = y + all, *reduced = y + 2 * all;
            t->arithmetic_fw(&e.exec, &g, x, b, y);
            t->arithmetic_bw(&e.exec, &g, which, x, b, dy, dx, true);
            t->reduce_fw(&e.exec, &r, x, reduced);
            t->reduce_bw(&e.exec, &r, x, reduced, dy, y + 3 * all, true);
            t->log_softmax_fw(&e.exec, (size_t)n * m, last, x, y + 4 * all);
            t->log_softmax_bw(&e.exec, (size_t)n * m, last, y + 4 * all, dy, y + 5 * all);
        }
        assert_bits("tensor", 6 * all, out[0], out[1]);
        uw_test_exec_end(&e);
        float *const blocks[] = {x, dy, b, out[0], out[1]};
        for (size_t j = 0; j < sizeof blocks / sizeof *blocks; j++) {
            uw_test_release(blocks[j]);
        }
    }
}

/* Every slot of norm with weights; stats, sums and gradients into one array. */
static void norm_results(const struct uw_kernels *k, const struct uw_exec *e,
                         const struct uw_norm *n, uint32_t batch_n, float *const in[4], float *out)
{
    const struct uw_norm_kernels *s = k->norm;
    size_t all = (size_t)batch_n * n->channels * n->inner;
    float *stats = out + 6 * all, *sums = stats + 2 * (size_t)batch_n * n->channels;
    float *running = sums + 2 * (size_t)n->channels;
    s->groupnorm_fw(e, n, batch_n, in[0], in[2], in[3], out, stats);
    s->groupnorm_bw_input(e, n, batch_n, in[0], in[2], stats, in[1], out + all, false);
    s->groupnorm_bw_param(e, n, batch_n, in[0], stats, in[1], -0.3f, running,
                          running + n->channels);
    s->batchnorm_stats(e, n, batch_n, in[0], stats, running, running + n->channels);
    s->batchnorm_fw(e, n, batch_n, in[0], stats, in[2], in[3], out + 2 * all);
    s->batchnorm_bw_sums(e, n, batch_n, in[0], stats, in[2], in[3], in[1], sums);
    s->batchnorm_bw_input(e, n, batch_n, in[0], stats, in[2], in[3], sums, in[1], out + 3 * all,
                          false);
    s->batchnorm_stats_fw(e, n, batch_n, in[0], stats, running, running + n->channels, in[2],
                          in[3], out + 4 * all);
    s->batchnorm_bw_sums_input(e, n, batch_n, in[0], stats, in[2], in[3], in[1], sums,
                               out + 5 * all, true);
}

static void test_exact_norms_give_the_references_bits(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    for (uint32_t i = 0; i < cases_n() && is_exact(); i++) {
        uint32_t groups = 1 + uw_test_below(3), batch_n = 1 + uw_test_below(5);
        const float ceilings[] = {0.0f, 6.0f, INFINITY};
        const struct uw_norm n = {.channels = groups * size_around(70), .groups = groups,
                                  .ceiling = ceilings[i % 3],
                                  .inner = i % 4 == 0 ? 1 : size_around(130), .epsilon = 1e-5f,
                                  .momentum = 0.1f};
        size_t all = (size_t)batch_n * n.channels * n.inner;
        size_t out_n = 6 * all + 2 * (size_t)batch_n * n.channels + 4 * (size_t)n.channels;
        float *in[4] = {odd_floats(all), odd_floats(all), odd_floats(n.channels),
                        odd_floats(n.channels)};
        float *want = odd_floats(out_n), *got = uw_test_copy_floats(out_n, want);
        struct uw_test_exec e;
        uw_test_exec_begin(&e, 3, 0);
        norm_results(&uw_kernels_ref, &e.exec, &n, batch_n, in, want);
        norm_results(k, &e.exec, &n, batch_n, in, got);
        assert_bits("norm", out_n, want, got);
        uw_test_exec_end(&e);
        for (uint32_t j = 0; j < 4; j++) {
            uw_test_release(in[j]);
        }
        uw_test_release(want);
        uw_test_release(got);
    }
}

/* The pointwise slots and the updates, one after the other on w, v and m. */
static void update_results(const struct uw_kernels *k, const struct uw_exec *e, size_t n,
                           const float *g, float *w)
{
    float *v = w + n, *m = v + n;
    const struct uw_adam adam = {.lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f,
                                 .weight_decay = 0.01f, .correction1 = 0.19f,
                                 .correction2 = 0.02f, .decoupled = true};
    const struct uw_rmsprop rmsprop = {.lr = 0.01f, .alpha = 0.9f, .epsilon = 1e-8f,
                                       .weight_decay = 0.01f, .momentum = 0.5f};
    struct uw_sgd sgd = {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f, .nesterov = true};
    for (size_t i = 0; i < n; i++) {
        m[i] = m[i] * m[i];
    }
    k->sgd_update(e, n, &sgd, g, w, v);
    sgd.frozen = true;
    k->sgd_update(e, n, &sgd, g, w, v);
    sgd.momentum = 0.0f;
    k->sgd_update(e, n, &sgd, g, w, NULL);
    k->update->adam(e, n, &adam, g, w, v, m);
    k->update->rmsprop(e, n, &rmsprop, g, w, m, v);
    k->axpby(e, n, 0.3f, g, 0.7f, w);
    k->axpby(e, n, 0.3f, w, 0.0f, v);
    k->relu_bw_input(e, n, w, g, v, true);
    k->relu_fw(e, n, v, m);
    k->add_channels(e, 1, (uint32_t)n, 1, g, m);
    k->copy->sum_rows(e, n / 7, 7, 7, g, -0.3f, w);
}

static void test_exact_updates_give_the_references_bits(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    static const size_t sizes[] = {7, 8, 15, 17, 1000, 70001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && is_exact(); i++) {
        size_t n = sizes[i];
        float *g = odd_floats(n), *want = odd_floats(3 * n);
        float *got = uw_test_copy_floats(3 * n, want);
        struct uw_test_exec e;
        uw_test_exec_begin(&e, 3, 0);
        update_results(&uw_kernels_ref, &e.exec, n, g, want);
        update_results(k, &e.exec, n, g, got);
        assert_bits("updates", 3 * n, want, got);
        uw_test_exec_end(&e);
        uw_test_release(g);
        uw_test_release(want);
        uw_test_release(got);
    }
}

const struct CMUnitTest uw_test_exact[] = {
    cmocka_unit_test(test_exact_gemm_gives_the_references_bits),
    cmocka_unit_test(test_exact_dense_gives_the_references_bits),
    cmocka_unit_test(test_exact_conv2d_gives_the_references_bits),
    cmocka_unit_test(test_exact_activations_give_the_references_bits),
    cmocka_unit_test(test_exact_tensors_give_the_references_bits),
    cmocka_unit_test(test_exact_norms_give_the_references_bits),
    cmocka_unit_test(test_exact_updates_give_the_references_bits),
};
const size_t uw_test_exact_n = sizeof uw_test_exact / sizeof uw_test_exact[0];
