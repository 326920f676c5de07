/* SPDX-License-Identifier: Apache-2.0
 *
 * Winograd's convolutions on a GPU, whatever would be chosen, against the reference: edges, few and
 * many channels, slices that end within images, planes that no vector is aligned to. */
#include "table.h"
#include "test_support.h"

#include "cuda/conv2d_winograd.h"
#include "cuda/products.h"

#include "uwasa/backends.h"
#include "uwasa/rng.h"

#define ROUNDING 1e-5           /* of the sum of magnitudes */

static struct uw_rng rng;

/* A part by its way and by the reference: c, and tensors with the magnitudes behind the numbers. */
struct trial {
    struct uw_conv2d c;
    uint32_t batch_n;
    size_t x_n, w_n, y_n, skip;
    float *x, *w, *b, *y;
};

static uint32_t between(uint32_t lo, uint32_t hi)
{
    return lo + uw_rng_below(&rng, hi - lo + 1);
}

/* n numbers in [-1, 1), then their magnitudes. */
static float *numbers(size_t n)
{
    float *x = uw_test_floats(2 * n);
    for (size_t i = 0; i < n; i++) {
        x[i] = 2.0f * uw_rng_uniform(&rng) - 1.0f;
        x[n + i] = fabsf(x[i]);
    }
    return x;
}

static float *copy(const float *x, size_t n)
{
    float *y = uw_test_floats(n);
    memcpy(y, x, n * sizeof *y);
    return y;
}

static struct uw_conv2d shape(uint32_t in, uint32_t out, uint32_t h, uint32_t w, uint32_t pad_h,
                              uint32_t pad_w)
{
    return (struct uw_conv2d){.in_channels = in, .out_channels = out, .in_h = h, .in_w = w,
                              .out_h = h + 2 * pad_h - 2, .out_w = w + 2 * pad_w - 2,
                              .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1,
                              .pad_h = pad_h, .pad_w = pad_w, .dilation_h = 1, .dilation_w = 1,
                              .groups = 1};
}

static struct trial begin(struct uw_conv2d c, uint32_t batch_n)
{
    struct trial t = {.c = c, .batch_n = batch_n};
    t.x_n = (size_t)batch_n * c.in_channels * c.in_h * c.in_w;
    t.y_n = (size_t)batch_n * c.out_channels * c.out_h * c.out_w;
    t.w_n = (size_t)c.out_channels * c.in_channels * 9;
    t.x = numbers(t.x_n);
    t.w = numbers(t.w_n);
    t.b = numbers(c.out_channels);
    t.y = numbers(t.y_n);
    return t;
}

static void end(struct trial *t)
{
    uw_test_release(t->x);
    uw_test_release(t->w);
    uw_test_release(t->b);
    uw_test_release(t->y);
}

static void assert_near(const char *what, size_t n, const float *got, const float *want,
                        const float *size)
{
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)got[i] - (double)want[i]);
        if (!(off <= ROUNDING * (1.0 + fabs((double)size[i])))) {
            fail_msg("%s: element %zu of %zu is %.9g, the reference has %.9g", what, i, n,
                     (double)got[i], (double)want[i]);
        }
    }
}

/* The job by Winograd's way, in scratch of just the size that it asks for. Twice: the same bits. */
static void run(const struct trial *t, struct uw_conv2d_job job, size_t out_n)
{
    const struct uw_exec e = {.kernels = uw_gpu_table};
    struct uw_cuda *gpu = uw_cuda_of(&e);
    struct uw_conv2d_choice choice = {.algorithm = UW_CONV2D_WINOGRAD};
    struct uw_conv2d_shape *s = uw_conv2d_shape_of(gpu, &t->c);
    assert_true(uw_conv2d_takes(gpu, s, t->batch_n, job.part, choice.algorithm,
                                &choice.workspace_bytes));
    float *out = job.out, *again = copy(out, out_n);
    float *scratch = uw_test_floats(choice.workspace_bytes / sizeof(float));
    job.batch_n = t->batch_n;
    memset(scratch, 0xff, choice.workspace_bytes);
    assert_int_equal(uw_conv2d_run(&e, s, &job, &choice, NULL, scratch), UW_OK);
    job.out = again;
    assert_int_equal(uw_conv2d_run(&e, s, &job, &choice, NULL, scratch), UW_OK);
    if (job.dbias == NULL) {
        assert_memory_equal(out, again, out_n * sizeof *out);
    }
    uw_test_release(scratch);
    uw_test_release(again);
}

static void check_bw_input(const struct trial *t, bool accumulate)
{
    const struct uw_exec ref = {.kernels = &uw_kernels_ref};
    float *got = copy(t->x, t->x_n), *want = copy(t->x, t->x_n);
    float *size = copy(t->x + t->x_n, t->x_n);
    run(t, (struct uw_conv2d_job){.part = UW_CONV2D_BW_INPUT, .a = t->y, .b = t->w, .out = got,
                                  .scale = 1.0f, .accumulate = accumulate}, t->x_n);
    uw_kernels_ref.conv2d_bw_input(&ref, &t->c, t->batch_n, t->y, t->w, want, accumulate);
    uw_kernels_ref.conv2d_bw_input(&ref, &t->c, t->batch_n, t->y + t->y_n, t->w + t->w_n, size,
                                   true);
    assert_near("bw_input", t->x_n, got, want, size);
    uw_test_release(got);
    uw_test_release(want);
    uw_test_release(size);
}

static void check_bw_param(const struct trial *t, float scale)
{
    const struct uw_exec ref = {.kernels = &uw_kernels_ref};
    uint32_t channels = t->c.out_channels;
    float *got = copy(t->w, t->w_n), *want = copy(t->w, t->w_n);
    float *size = copy(t->w + t->w_n, t->w_n), *b = copy(t->b, channels);
    run(t, (struct uw_conv2d_job){.part = UW_CONV2D_BW_PARAM, .a = t->x, .b = t->y, .out = got,
                                  .scale = scale, .accumulate = true}, t->w_n);
    uw_kernels_ref.conv2d_bw_param(&ref, &t->c, t->batch_n, t->x, t->y, scale, want, b);
    uw_kernels_ref.conv2d_bw_param(&ref, &t->c, t->batch_n, t->x + t->x_n, t->y + t->y_n,
                                   fabsf(scale), size, b);
    assert_near("bw_param", t->w_n, got, want, size);
    uw_test_release(got);
    uw_test_release(want);
    uw_test_release(size);
    uw_test_release(b);
}

static void check(struct uw_conv2d c, uint32_t batch_n)
{
    struct trial t = begin(c, batch_n);
    check_bw_input(&t, false);
    check_bw_input(&t, true);
    check_bw_param(&t, 1.0f);
    check_bw_param(&t, -0.5f);
    end(&t);
}

static void test_winograd_random_shapes_match_ref(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t pad_h = between(0, 2), pad_w = between(0, 2);
        struct uw_conv2d c = shape(between(1, i % 8 == 0 ? 67 : 9), between(1, i % 8 == 4 ? 67 : 9),
                                   between(3 - (pad_h > 0 ? 2 : 0), 14),
                                   between(3 - (pad_w > 0 ? 2 : 0), 14), pad_h, pad_w);
        if (i % 5 == 0 && c.out_h > 2 && c.out_w > 1) {
            c.out_h -= 2;       /* less than fits */
            c.out_w -= 1;
        }
        check(c, between(1, 5));
    }
}

/* Rows of four floats that stand together, on both sides, or on one. */
static void test_winograd_whole_rows_match_ref(void **state)
{
    (void)state;
    check(shape(3, 5, 8, 8, 1, 1), 3);
    check(shape(16, 16, 7, 12, 1, 1), 2);
    check(shape(2, 3, 9, 16, 0, 1), 2);
    check(shape(4, 2, 5, 6, 0, 2), 2);  /* 8 wide results */
    check(shape(4, 2, 5, 10, 2, 0), 2);
    struct uw_conv2d c = shape(3, 4, 8, 12, 1, 1);
    c.out_w -= 4;                       /* a tile fewer than dx has */
    check(c, 2);
}

/* Slices as small as they get: they end within images, rows and minibatches. */
static void test_winograd_slices_match_ref(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table};
    struct uw_cuda_products *p = uw_cuda_of(&e)->products;
    size_t bytes = p->slice_bytes;
    p->slice_bytes = 1;
    check(shape(2, 3, 9, 10, 1, 1), 43);        /* 387 tiles: three slices and a bit */
    check(shape(1, 2, 4, 4, 1, 1), 129);
    check(shape(3, 2, 48, 50, 1, 1), 1);
    check(shape(2, 2, 21, 25, 0, 2), 7);
    p->slice_bytes = bytes;
}

/* A GPU of many multiprocessors: sums over tiles are of several parts, some of them not full. */
static void test_winograd_parts_match_ref(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table};
    struct uw_cuda *gpu = uw_cuda_of(&e);
    uint32_t multiprocessors = gpu->multiprocessors;
    size_t bytes = gpu->products->slice_bytes;
    gpu->multiprocessors = 132;
    check(shape(2, 3, 9, 10, 1, 1), 43);        /* 387 tiles: three parts */
    check(shape(7, 5, 4, 4, 1, 1), 389);        /* one is empty */
    gpu->products->slice_bytes = (size_t)36 * sizeof(float) * 5 * 288;
    check(shape(3, 2, 9, 10, 1, 0), 67);        /* 402: two slices of two parts */
    check(shape(2, 3, 4, 4, 1, 1), 403);        /* one is empty in the second */
    check(shape(2, 3, 32, 33, 1, 1), 8);        /* 576: two slices */
    gpu->multiprocessors = multiprocessors;
    gpu->products->slice_bytes = bytes;
}

/* The whole slots, where the file of choices says so, with the bias' gradient. */
static void test_winograd_slots_match_ref(void **state)
{
    (void)state;
    const struct uw_conv2d c = shape(33, 34, 9, 8, 1, 1);
    struct trial t = begin(c, 3);
    const struct uw_exec gpu_exec = {.kernels = uw_gpu_table}, ref = {.kernels = &uw_kernels_ref};
    struct uw_cuda *gpu = uw_cuda_of(&gpu_exec);
    struct uw_cuda_choice choice = {.batch_n = 3, .algorithm = UW_CONV2D_WINOGRAD};
    memcpy(choice.shape, uw_conv2d_shape_of(gpu, &c)->key, sizeof choice.shape);
    for (choice.part = UW_CONV2D_BW_INPUT; choice.part < UW_CONV2D_PARTS; choice.part++) {
        assert_true(uw_conv2d_winograd_worth(&c, (enum uw_conv2d_part)choice.part));
        uw_cuda_choices_put(&gpu->products->choices, &choice);
    }
    size_t bytes = uw_gpu_table->conv2d_scratch_bytes(uw_gpu_table, &c, 3, 1);
    void *scratch = uw_test_block(bytes);
    const struct uw_exec e = {.kernels = uw_gpu_table, .scratch = scratch, .scratch_bytes = bytes};
    for (uint32_t n = 1; n <= 3; n += 2) {      /* a smaller minibatch takes the same way */
        float *dw = copy(t.w, t.w_n), *want = copy(t.w, t.w_n), *db = copy(t.b, c.out_channels);
        float *db_want = copy(t.b, c.out_channels);
        assert_int_equal(uw_gpu_table->conv2d_bw_param(&e, &c, n, t.x, t.y, 0.5f, dw, db), UW_OK);
        uw_kernels_ref.conv2d_bw_param(&ref, &c, n, t.x, t.y, 0.5f, want, db_want);
        const struct uw_conv2d_plan *p = uw_conv2d_plan_of(gpu, uw_conv2d_shape_of(gpu, &c), n);
        assert_int_equal(p->part[UW_CONV2D_BW_PARAM].algorithm, UW_CONV2D_WINOGRAD);
        for (size_t i = 0; i < t.w_n; i++) {
            assert_true(fabsf(dw[i] - want[i]) <= 1e-3f);
        }
        for (size_t i = 0; i < c.out_channels; i++) {
            assert_true(fabsf(db[i] - db_want[i]) <= 1e-4f);
        }
        uw_test_release(dw);
        uw_test_release(want);
        uw_test_release(db);
        uw_test_release(db_want);
    }
    uw_test_release(scratch);
    end(&t);
}

static void test_winograd_refuses_what_it_cannot(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table};
    const struct uw_cuda *gpu = uw_cuda_of(&e);
    struct uw_conv2d c = shape(16, 16, 9, 9, 1, 1);
    struct uw_cuda tf32 = *gpu;
    tf32.config.tf32 = true;
    size_t bytes = 1;
    assert_true(uw_conv2d_winograd_takes(gpu, &c, 2, UW_CONV2D_BW_PARAM, &bytes) && bytes > 0);
    assert_false(uw_conv2d_winograd_takes(&tf32, &c, 2, UW_CONV2D_BW_PARAM, &bytes));
    assert_int_equal(bytes, 0);
    assert_false(uw_conv2d_winograd_takes(gpu, &c, 2, UW_CONV2D_FW, &bytes));
    uint32_t *const fields[] = {&c.stride_h, &c.stride_w, &c.dilation_h, &c.dilation_w, &c.groups};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        *fields[i] = 2;
        assert_false(uw_conv2d_winograd_takes(gpu, &c, 2, UW_CONV2D_BW_PARAM, &bytes));
        *fields[i] = 1;
    }
    c.pad_w = 3;
    assert_false(uw_conv2d_winograd_takes(gpu, &c, 2, UW_CONV2D_BW_INPUT, &bytes));
}

/* What rounds too much, and what gains nothing. */
static void test_winograd_is_worth_it_for_large_sums(void **state)
{
    (void)state;
    const struct {
        struct uw_conv2d c;
        bool input, param;
    } all[] = {{shape(32, 32, 9, 9, 1, 1), true, true},
               {shape(16, 32, 9, 9, 1, 1), true, true},
               {shape(32, 16, 9, 9, 1, 1), false, true},
               {shape(15, 32, 9, 9, 1, 1), false, false},
               {shape(64, 64, 9, 9, 0, 1), false, true},
               {shape(64, 64, 9, 9, 1, 2), true, true},
               {shape(64, 64, 9, 3, 1, 1), false, false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(uw_conv2d_winograd_worth(&all[i].c, UW_CONV2D_BW_INPUT), all[i].input);
        assert_int_equal(uw_conv2d_winograd_worth(&all[i].c, UW_CONV2D_BW_PARAM), all[i].param);
    }
}

static void test_winograd_is_a_candidate_for_gradients(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_gpu_table};
    struct uw_cuda *gpu = uw_cuda_of(&e);
    const struct uw_conv2d c = shape(32, 32, 9, 9, 1, 1);
    struct uw_conv2d_shape *s = uw_conv2d_shape_of(gpu, &c);
    for (uint32_t part = 0; part < UW_CONV2D_PARTS; part++) {
        struct uw_conv2d_choice all[UW_CONV2D_CANDIDATES_MAX];
        uint32_t found = 0, n = uw_conv2d_candidates(gpu, s, 2, (enum uw_conv2d_part)part,
                                                     gpu->products->conv2d_limit, NULL, all);
        for (uint32_t i = 0; i < n; i++) {
            found += all[i].algorithm == UW_CONV2D_WINOGRAD ? 1 : 0;
        }
        assert_int_equal(found, part == UW_CONV2D_FW ? 0 : 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_winograd_random_shapes_match_ref),
        cmocka_unit_test(test_winograd_whole_rows_match_ref),
        cmocka_unit_test(test_winograd_slices_match_ref),
        cmocka_unit_test(test_winograd_parts_match_ref),
        cmocka_unit_test(test_winograd_slots_match_ref),
        cmocka_unit_test(test_winograd_refuses_what_it_cannot),
        cmocka_unit_test(test_winograd_is_worth_it_for_large_sums),
        cmocka_unit_test(test_winograd_is_a_candidate_for_gradients),
    };
    uw_rng_seed(&rng, uw_test_seed(20261123));
    return cmocka_run_group_tests_name("winograd", tests, NULL, NULL);
}
