/* SPDX-License-Identifier: Apache-2.0
 *
 * What uwasa is measured beside computes the same as ref: a rival that is wrong is no rival. */
#include "test_support.h"

#include "bench/bench_train.h"
#include "uwasa/backends.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

#define N 6000u

struct fixture {
    struct uw_rng rng;
    float x[N], w[N], dy[N], want[N], got[N], db_want[64], db_got[64], scratch[N];
    struct uw_kernels plain;
    struct uw_exec ref_exec, exec;
};

static struct fixture f;

static int set_up(void **state)
{
    (void)state;
    uw_bench_plain_kernels(&f.plain);
    f.ref_exec = (struct uw_exec){.kernels = &uw_kernels_ref};
    f.exec = (struct uw_exec){.kernels = &f.plain, .scratch = f.scratch,
                              .scratch_bytes = sizeof f.scratch};
    uw_rng_seed(&f.rng, 5);
    for (uint32_t i = 0; i < N; i++) {
        f.x[i] = uw_rng_normal(&f.rng);
        f.w[i] = uw_rng_normal(&f.rng);
        f.dy[i] = uw_rng_normal(&f.rng);
    }
    return 0;
}

/* What results start from shows what is added and what is written. */
static void begin(void)
{
    for (uint32_t i = 0; i < N; i++) {
        f.want[i] = f.got[i] = 0.25f;
    }
    for (uint32_t i = 0; i < 64; i++) {
        f.db_want[i] = f.db_got[i] = 0.5f;
    }
}

static void check(int rc)
{
    assert_int_equal(rc, UW_OK);
    for (uint32_t i = 0; i < N; i++) {
        assert_true(fabsf(f.want[i] - f.got[i]) < 1e-4f);
    }
    for (uint32_t i = 0; i < 64; i++) {
        assert_true(fabsf(f.db_want[i] - f.db_got[i]) < 1e-4f);
    }
}

static void test_plain_convolutions_are_those_of_ref(void **state)
{
    (void)state;
    static const struct uw_conv2d shapes[] = {
        {4, 9, 8, 6, 5, 4, 3, 3, 2, 2, 1, 1, 1, 1, 2},      /* strides, groups */
        {3, 7, 9, 2, 3, 7, 3, 2, 1, 1, 0, 0, 2, 2, 1},      /* dilation */
        {2, 5, 5, 4, 5, 5, 5, 5, 1, 1, 2, 2, 1, 1, 1},
    };
    const struct uw_kernels *r = &uw_kernels_ref, *p = &f.plain;
    for (uint32_t i = 0; i < 6; i++) {
        const struct uw_conv2d *c = &shapes[i / 2];
        bool add = i % 2 != 0;
        assert_in_range(p->conv2d_scratch_bytes(p, c, 2, 1), 1, sizeof f.scratch);
        begin();
        r->conv2d_fw(&f.ref_exec, c, 2, f.x, f.w, add ? NULL : f.dy, f.want, add);
        check(p->conv2d_fw(&f.exec, c, 2, f.x, f.w, add ? NULL : f.dy, f.got, add));
        begin();
        r->conv2d_bw_input(&f.ref_exec, c, 2, f.dy, f.w, f.want, add);
        check(p->conv2d_bw_input(&f.exec, c, 2, f.dy, f.w, f.got, add));
        begin();
        r->conv2d_bw_param(&f.ref_exec, c, 2, f.x, f.dy, -0.5f, f.want, f.db_want);
        check(p->conv2d_bw_param(&f.exec, c, 2, f.x, f.dy, -0.5f, f.got, f.db_got));
    }
}

static void test_plain_dense_layers_are_those_of_ref(void **state)
{
    (void)state;
    const struct uw_dense d = {37, 11};
    const struct uw_kernels *r = &uw_kernels_ref, *p = &f.plain;
    for (uint32_t add = 0; add < 2; add++) {
        begin();
        r->dense_fw(&f.ref_exec, &d, 5, f.x, f.w, add ? NULL : f.dy, f.want);
        check(p->dense_fw(&f.exec, &d, 5, f.x, f.w, add ? NULL : f.dy, f.got));
        begin();
        r->dense_bw_input(&f.ref_exec, &d, 5, f.dy, f.w, f.want, add);
        check(p->dense_bw_input(&f.exec, &d, 5, f.dy, f.w, f.got, add));
        begin();
        r->dense_bw_param(&f.ref_exec, &d, 5, f.x, f.dy, -0.5f, f.want, f.db_want);
        check(p->dense_bw_param(&f.exec, &d, 5, f.x, f.dy, -0.5f, f.got, f.db_got));
    }
}

static void test_plain_products_are_those_of_ref(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < 8; way++) {
        const bool ta = way & 1u, tb = way & 2u;
        const struct uw_gemm g = {.trans_a = ta, .trans_b = tb, .m = 13, .n = 21, .k = 19,
                                  .lda = ta ? 13 : 19, .ldb = tb ? 19 : 21, .ldc = 22,
                                  .alpha = 0.5f, .beta = way & 4u ? -1.0f : 0.0f};
        begin();
        uw_kernels_ref.gemm(&f.ref_exec, &g, f.x, f.w, f.want);
        check(f.plain.gemm(&f.exec, &g, f.x, f.w, f.got));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_convolutions_are_those_of_ref),
        cmocka_unit_test(test_plain_dense_layers_are_those_of_ref),
        cmocka_unit_test(test_plain_products_are_those_of_ref),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
