/* SPDX-License-Identifier: Apache-2.0
 *
 * Which algorithm computes a convolution or a dense layer: measured, kept in a file, and right
 * whichever it is. */
#include "test_support.h"

#include "cuda/products.h"
#include "uwasa/backends.h"

#include <unistd.h>

#define FLOATS ((size_t)1 << 16)        /* of one tensor */
#define SCRATCH_BYTES ((size_t)8 << 20)
#define SKIPPED 77

static char folder[64], path[96];
static struct uw_cuda *gpu;
static float *x, *w, *y, *dx, *dw;      /* both see them */
static void *scratch;
static float want[FLOATS];

static int open_gpu(void **state)
{
    (void)state;
    const struct uw_cuda_config config = {.blocking = true, .choices = path};
    struct uw_error err;
    float **all[] = {&x, &w, &y, &dx, &dw};
    if (uw_cuda_open(&gpu, &config, &err) < 0) {
        printf("skipped: %s\n", err.text);
        exit(SKIPPED);
    }
    for (size_t i = 0; i < 5; i++) {
        void *block;
        assert_int_equal(uw_cuda_take(gpu, UW_CUDA_SHARED, FLOATS * sizeof(float), &block, &err),
                         UW_OK);
        *all[i] = block;
        for (size_t k = 0; k < FLOATS; k++) {
            (*all[i])[k] = (float)((k * 37 + i) % 29) / 29.0f - 0.5f;
        }
    }
    assert_int_equal(uw_cuda_take(gpu, UW_CUDA_SHARED, SCRATCH_BYTES, &scratch, &err), UW_OK);
    gpu->products->conv2d_limit = SCRATCH_BYTES - UW_CONV2D_ALIGN;  /* whatever a card likes best */
    return 0;
}

static int begin(void **state)
{
    snprintf(folder, sizeof folder, "plan-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/choices", folder);
    return open_gpu(state);
}

static int end(void **state)
{
    (void)state;
    uw_cuda_close(gpu);
    (void)unlink(path);
    return rmdir(folder);
}

static void open_again(void)
{
    uw_cuda_close(gpu);
    (void)open_gpu(NULL);
}

static struct uw_conv2d shape(uint32_t in, uint32_t out, uint32_t size, uint32_t kernel,
                              uint32_t stride)
{
    uint32_t pad = kernel / 2, out_size = (size + 2 * pad - kernel) / stride + 1;
    return (struct uw_conv2d){.in_channels = in, .out_channels = out, .in_h = size, .in_w = size,
                              .out_h = out_size, .out_w = out_size, .kernel_h = kernel,
                              .kernel_w = kernel, .stride_h = stride, .stride_w = stride,
                              .pad_h = pad, .pad_w = pad, .dilation_h = 1, .dilation_w = 1,
                              .groups = 1};
}

static void assert_near(const float *got, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_true(fabsf(got[i] - want[i]) <= 1e-4f * (1.0f + fabsf(want[i])));
    }
}

/* All parts against the reference, with scratch of so many bytes. */
static void check(const struct uw_conv2d *c, uint32_t batch_n, size_t bytes)
{
    const struct uw_kernels *k = uw_cuda_kernels(gpu), *ref = &uw_kernels_ref;
    const struct uw_exec e = {.kernels = k, .scratch = scratch, .scratch_bytes = bytes};
    const struct uw_exec plain = {.kernels = ref};
    size_t x_n = (size_t)batch_n * c->in_channels * c->in_h * c->in_w;
    size_t y_n = (size_t)batch_n * c->out_channels * c->out_h * c->out_w;
    size_t w_n = (size_t)c->out_channels * c->in_channels * c->kernel_h * c->kernel_w;
    assert_true(x_n <= FLOATS && y_n <= FLOATS && w_n <= FLOATS);
    assert_int_equal(k->conv2d_fw(&e, c, batch_n, x, w, w, y, false), UW_OK);
    ref->conv2d_fw(&plain, c, batch_n, x, w, w, want, false);
    assert_near(y, y_n);
    const float ceilings[] = {INFINITY, 0.25f};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(k->fused->conv2d_bias_relu(&e, c, batch_n, x, w, i == 0 ? w : NULL,
                                                    ceilings[i], y), UW_OK);
        ref->conv2d_fw(&plain, c, batch_n, x, w, i == 0 ? w : NULL, want, false);
        for (size_t at = 0; at < y_n; at++) {
            want[at] = fminf(fmaxf(want[at], 0.0f), ceilings[i]);
        }
        assert_near(y, y_n);
    }
    for (uint32_t adds = 0; adds < 2; adds++) {
        memcpy(want, dx, x_n * sizeof *want);
        assert_int_equal(k->conv2d_bw_input(&e, c, batch_n, y, w, dx, adds != 0), UW_OK);
        ref->conv2d_bw_input(&plain, c, batch_n, y, w, want, adds != 0);
        assert_near(dx, x_n);
    }
    for (float scale = 1.0f; scale >= -0.01f; scale -= 1.01f) {
        memcpy(want, dw, w_n * sizeof *want);
        assert_int_equal(k->conv2d_bw_param(&e, c, batch_n, x, y, scale, dw, NULL), UW_OK);
        ref->conv2d_bw_param(&plain, c, batch_n, x, y, scale, want, NULL);
        assert_near(dw, w_n);
    }
}

static size_t planned(const struct uw_conv2d *c, uint32_t batch_n)
{
    const struct uw_kernels *k = uw_cuda_kernels(gpu);
    size_t bytes = k->conv2d_scratch_bytes(k, c, batch_n, 1);
    assert_true(bytes <= SCRATCH_BYTES);
    return bytes;
}

static const struct uw_conv2d_plan *plan(const struct uw_conv2d *c, uint32_t batch_n)
{
    return uw_conv2d_plan_of(gpu, uw_conv2d_shape_of(gpu, c), batch_n);
}

static void test_plan_smaller_minibatches_fit_and_match_ref(void **state)
{
    (void)state;
    const struct uw_conv2d all[] = {shape(2, 3, 5, 3, 1), shape(4, 6, 6, 1, 1),
                                    shape(1, 2, 7, 5, 2)};
    for (size_t i = 0; i < 3; i++) {
        size_t bytes = planned(&all[i], 6);
        for (uint32_t batch_n = 1; batch_n <= 6; batch_n++) {
            assert_true(planned(&all[i], batch_n) <= bytes);
            check(&all[i], batch_n, bytes);
        }
        check(&all[i], 5, 0);           /* none at all: what nobody planned finds a way */
        assert_true(plan(&all[i], 6)->settled && !plan(&all[i], 5)->settled);
    }
}

/* As training does after an evaluation of few samples at a time. */
static void test_plan_of_a_larger_minibatch_covers_one_planned_before(void **state)
{
    (void)state;
    const struct uw_conv2d c = shape(2, 3, 5, 3, 1);
    (void)planned(&c, 2);
    size_t bytes = planned(&c, 6);
    check(&c, 2, bytes);
    check(&c, 6, bytes);
    for (uint32_t batch_n = 1; batch_n <= 6; batch_n++) {
        check(&c, batch_n, bytes);      /* more sizes than there are places for plans */
    }
}

static void test_plan_is_kept_in_the_file_and_taken_from_it(void **state)
{
    (void)state;
    const struct uw_conv2d c = shape(2, 3, 5, 3, 1);
    (void)planned(&c, 4);
    struct uw_conv2d_plan first = *plan(&c, 4);
    open_again();
    assert_int_equal(gpu->products->choices.n, 3);
    (void)planned(&c, 4);
    for (uint32_t i = 0; i < UW_CONV2D_PARTS; i++) {
        assert_int_equal(plan(&c, 4)->part[i].algorithm, first.part[i].algorithm);
    }
}

/* Does it take this, and run? A library may tell workspace for what it refuses when it has to. */
static bool runs(struct uw_conv2d_shape *s, uint32_t batch_n, uint32_t part, int32_t algorithm)
{
    struct uw_conv2d_choice one = {.algorithm = algorithm};
    double us;
    return uw_conv2d_takes(gpu, s, batch_n, (enum uw_conv2d_part)part, algorithm,
                           &one.workspace_bytes) &&
           one.workspace_bytes <= gpu->products->conv2d_limit &&
           uw_conv2d_measure(gpu, s, batch_n, (enum uw_conv2d_part)part, NULL, &one, 1, &one,
                             &us) != UW_ERR_IO;
}

/* What the file says is taken if it can be: each algorithm in turn, and numbers of none. */
static void test_plan_from_any_file_gives_right_results(void **state)
{
    (void)state;
    const struct uw_conv2d all[] = {shape(2, 3, 5, 3, 1), shape(4, 6, 6, 1, 1),
                                    shape(31, 3, 3, 3, 1), shape(3, 31, 3, 3, 1)};
    const struct uw_exec e = {.kernels = uw_cuda_kernels(gpu)};
    assert_true(uw_conv2d_own_splits(&e, &all[2], 4, UW_CONV2D_FW));
    assert_true(uw_conv2d_own_splits(&e, &all[3], 4, UW_CONV2D_BW_INPUT));
    for (int32_t a = 0; a < UW_CUDA_CHOICES_ALGORITHMS; a = a < 20 ? a + 1 : a + 11) {
        for (size_t i = 0; i < 4; i++) {
            struct uw_conv2d_shape *s = uw_conv2d_shape_of(gpu, &all[i]);
            struct uw_cuda_choice c = {.batch_n = 4, .algorithm = a};
            bool takes[UW_CONV2D_PARTS];
            memcpy(c.shape, s->key, sizeof c.shape);
            for (c.part = 0; c.part < UW_CONV2D_PARTS; c.part++) {
                takes[c.part] = runs(s, 4, c.part, a);
                uw_cuda_choices_put(&gpu->products->choices, &c);
            }
            size_t bytes = planned(&all[i], 4);
            for (uint32_t part = 0; part < UW_CONV2D_PARTS; part++) {
                if (takes[part]) {
                    assert_int_equal(plan(&all[i], 4)->part[part].algorithm, a);
                }
            }
            check(&all[i], 4, bytes);
        }
        open_again();
    }
}

/* Algorithms of a part that go by tiles; large: those of 4 x 4 results. */
static uint32_t tiled(const struct uw_conv2d *c, uint32_t part, bool large)
{
    static const int32_t tiles[UW_CONV2D_PARTS] = {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
                                                   CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, -1};
    static const int32_t large_tiles[UW_CONV2D_PARTS] = {
        CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED};
    struct uw_conv2d_choice all[UW_CONV2D_CANDIDATES_MAX];
    uint32_t n = uw_conv2d_candidates(gpu, uw_conv2d_shape_of(gpu, c), 3,
                                      (enum uw_conv2d_part)part, SIZE_MAX, NULL, all);
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        int32_t dnn = all[i].algorithm - UW_CONV2D_DNN;
        found += large ? dnn == large_tiles[part] || all[i].algorithm == UW_CONV2D_WINOGRAD
                       : dnn == tiles[part];
    }
    return found;
}

static void test_plan_tiles_are_for_many_channels_and_small_ones_for_fw(void **state)
{
    (void)state;
    const struct uw_conv2d few = shape(8, 40, 9, 3, 1), many = shape(40, 40, 9, 3, 1);
    for (uint32_t part = 0; part < UW_CONV2D_PARTS; part++) {
        assert_int_equal(tiled(&few, part, false) + tiled(&few, part, true), 0);
        if (part == UW_CONV2D_FW) {
            assert_int_equal(tiled(&many, part, true), 0);
        } else {
            assert_true(tiled(&many, part, true) > 0);  /* ours at least */
        }
    }
}

/* Keys of the engines of a part that run; returns how many, 0 where cuDNN has no graph API. */
static uint32_t keys_of(const struct uw_conv2d *c, uint32_t batch_n, uint32_t part, uint64_t *keys)
{
    struct uw_conv2d_graph g;
    (void)uw_conv2d_graph_open(gpu, c, batch_n, (enum uw_conv2d_part)part,
                               part == UW_CONV2D_BW_PARAM, gpu->products->conv2d_limit, 0, &g);
    uint32_t n = 0;
    for (uint32_t i = 0; i < g.engines_n; i++) {
        struct uw_conv2d_choice one = {UW_CONV2D_GRAPH, g.engines[i].workspace_bytes,
                                       g.engines[i].key};
        double us;
        if (uw_conv2d_measure(gpu, uw_conv2d_shape_of(gpu, c), batch_n, (enum uw_conv2d_part)part,
                              &g, &one, 1, &one, &us) == UW_OK) {
            keys[n++] = g.engines[i].key;
        }
        for (uint32_t k = 0; k < i; k++) {
            assert_true(g.engines[k].key != g.engines[i].key);
        }
    }
    uw_conv2d_graph_close(&gpu->products->libraries, &g);
    return n;
}

/* Each engine in turn as the file's choice, found in the list of a GPU that is opened anew. */
static void check_engines(struct uw_conv2d *c, uint32_t batch_n)
{
    for (uint32_t i = 0; i < UW_CONV2D_ENGINES_MAX; i++) {
        uint64_t keys[UW_CONV2D_PARTS][UW_CONV2D_ENGINES_MAX], chosen[UW_CONV2D_PARTS] = {0};
        struct uw_conv2d_shape *s = uw_conv2d_shape_of(gpu, c);
        for (uint32_t part = 0; part < UW_CONV2D_PARTS; part++) {
            struct uw_cuda_choice known = {.part = part, .batch_n = batch_n,
                                           .algorithm = UW_CONV2D_GRAPH};
            uint32_t n = keys_of(c, batch_n, part, keys[part]);
            if (i >= n) {
                continue;
            }
            chosen[part] = known.engine = keys[part][i];
            memcpy(known.shape, s->key, sizeof known.shape);
            uw_cuda_choices_put(&gpu->products->choices, &known);
        }
        assert_int_equal(uw_cuda_choices_save(&gpu->products->choices), UW_OK);
        open_again();
        size_t bytes = planned(c, batch_n);
        for (uint32_t part = 0; part < UW_CONV2D_PARTS; part++) {
            if (chosen[part] != 0) {
                assert_int_equal(plan(c, batch_n)->part[part].algorithm, UW_CONV2D_GRAPH);
                assert_true(plan(c, batch_n)->part[part].engine == chosen[part]);
            }
        }
        check(c, batch_n, bytes);
        check(c, batch_n - 1, bytes);   /* a smaller minibatch takes another way */
        w += 1;                         /* addresses that no engine takes */
        check(c, batch_n, bytes);
        w -= 1;
    }
}

static void test_plan_engines_of_the_file_are_found_again_and_match_ref(void **state)
{
    (void)state;
    struct uw_conv2d all[] = {shape(2, 4, 5, 3, 1), shape(2, 3, 7, 5, 2), shape(4, 6, 5, 1, 1)};
    for (size_t i = 0; i < 3; i++) {
        check_engines(&all[i], 3);
    }
}

/* As after cuDNN was exchanged for another build of its version: what took the engine's place is in
 * the file from then on. */
static void test_plan_engine_that_is_gone_is_measured_anew_and_replaced(void **state)
{
    (void)state;
    const struct uw_conv2d all[] = {shape(2, 4, 5, 3, 1), shape(8, 8, 5, 3, 1)};
    for (size_t i = 0; i < 2; i++) {
        struct uw_cuda_choice gone = {.batch_n = 3, .algorithm = UW_CONV2D_GRAPH,
                                      .engine = 0x00c0ffee12345678u};
        memcpy(gone.shape, uw_conv2d_shape_of(gpu, &all[i])->key, sizeof gone.shape);
        for (gone.part = 0; gone.part < UW_CONV2D_PARTS; gone.part++) {
            uw_cuda_choices_put(&gpu->products->choices, &gone);
        }
        assert_int_equal(uw_cuda_choices_save(&gpu->products->choices), UW_OK);
        open_again();
        (void)planned(&all[i], 3);
        open_again();
        for (gone.part = 0; gone.part < UW_CONV2D_PARTS; gone.part++) {
            const struct uw_cuda_choice *now = uw_cuda_choices_find(
                &gpu->products->choices, gone.part, gone.batch_n, gone.shape);
            assert_true(now == NULL || now->engine != gone.engine);
        }
    }
}

static void test_failure_of_a_library_is_kept_and_that_of_a_trial_is_not(void **state)
{
    (void)state;
    const struct uw_exec e = {.kernels = uw_cuda_kernels(gpu)};
    const struct uw_conv2d c = shape(2, 3, 5, 3, 1);
    assert_null(uw_cuda_failure(gpu));
    assert_int_equal(uw_cuda_dnn_done(&e, CUDNN_STATUS_NOT_SUPPORTED), UW_ERR_UNSUPPORTED);
    assert_null(uw_cuda_failure(gpu));
    assert_int_equal(uw_cuda_blas_done(&e, CUBLAS_STATUS_EXECUTION_FAILED), UW_ERR_IO);
    assert_int_equal(uw_cuda_dnn_done(&e, CUDNN_STATUS_EXECUTION_FAILED), UW_ERR_IO);
    assert_string_equal(uw_cuda_failure(gpu), "cuBLAS: status 13");     /* the first */
    (void)planned(&c, 4);
    assert_null(uw_cuda_failure(gpu));
}

static void test_plan_more_shapes_than_there_is_room_for(void **state)
{
    (void)state;
    const struct uw_conv2d first = shape(1, 1, 3, 3, 1);
    size_t bytes = planned(&first, 2);
    for (uint32_t i = 0; i < UW_CONV2D_SHAPES_MAX + 4; i++) {
        const struct uw_conv2d c = shape(1, 1, 4 + i, 1, 4 + i);
        (void)uw_conv2d_shape_of(gpu, &c);
    }
    check(&first, 2, bytes);
}

/* Either way of a dense layer, for every number of samples that both take. */
static void check_dense(const struct uw_dense *d, uint32_t batch_n, bool small)
{
    const struct uw_kernels *ref = &uw_kernels_ref;
    const struct uw_exec e = {.kernels = uw_cuda_kernels(gpu)}, plain = {.kernels = ref};
    size_t x_n = (size_t)batch_n * d->in, y_n = (size_t)batch_n * d->out;
    size_t w_n = (size_t)d->in * d->out;
    struct uw_dense_job j = {.part = UW_CONV2D_FW, .batch_n = batch_n, .a = x, .b = w, .out = y,
                             .bias = w};
    assert_true(x_n <= FLOATS && y_n <= FLOATS && w_n <= FLOATS);
    assert_int_equal(uw_dense_run(&e, d, &j, small), UW_OK);
    ref->dense_fw(&plain, d, batch_n, x, w, w, want);
    assert_near(y, y_n);
    j = (struct uw_dense_job){.part = UW_CONV2D_BW_INPUT, .batch_n = batch_n, .a = y, .b = w,
                              .out = dx, .accumulate = true};
    memcpy(want, dx, x_n * sizeof *want);
    ref->dense_bw_input(&plain, d, batch_n, y, w, want, true);
    assert_int_equal(uw_dense_run(&e, d, &j, small), UW_OK);
    assert_near(dx, x_n);
    j = (struct uw_dense_job){.part = UW_CONV2D_BW_PARAM, .batch_n = batch_n, .a = x, .b = y,
                              .out = dw, .keep = 0.5f, .scale = -0.01f, .dbias = dx};
    static float bias[FLOATS];
    memcpy(want, dw, w_n * sizeof *want);
    memcpy(bias, dx, d->out * sizeof *bias);
    ref->dense_bw_step(&plain, d, batch_n, x, y, 0.5f, -0.01f, want, bias, NULL, false);
    assert_int_equal(uw_dense_run(&e, d, &j, small), UW_OK);
    assert_near(dw, w_n);
    memcpy(want, bias, d->out * sizeof *bias);
    assert_near(dx, d->out);
}

static void test_dense_ways_match_ref_for_every_number_of_samples(void **state)
{
    (void)state;
    const struct uw_dense all[] = {{37, 10}, {64, 33}, {300, 5}, {8, 140}, {1, 1}};
    const uint32_t batch[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 64};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (size_t k = 0; k < sizeof batch / sizeof *batch; k++) {
            assert_true(uw_dense_small_takes(&all[i], batch[k]));
            check_dense(&all[i], batch[k], true);
            check_dense(&all[i], batch[k], false);
        }
        assert_false(uw_dense_small_takes(&all[i], 0));
        assert_false(uw_dense_small_takes(&all[i], 65));
    }
}

static void test_dense_choice_is_kept_and_covers_smaller_minibatches(void **state)
{
    (void)state;
    const struct uw_dense d = {20, 10};
    const struct uw_kernels *k = uw_cuda_kernels(gpu);
    for (int32_t way = 0; way < 2; way++) {
        for (uint32_t part = 0; part < UW_DENSE_PARTS; part++) {
            struct uw_cuda_choice c = {.part = UW_CONV2D_PARTS + part, .batch_n = 32,
                                       .shape = {d.in, d.out}, .algorithm = way};
            uw_cuda_choices_put(&gpu->products->choices, &c);
        }
        assert_int_equal(uw_cuda_choices_save(&gpu->products->choices), UW_OK);
        open_again();
        k = uw_cuda_kernels(gpu);
        assert_int_equal(k->dense_scratch_bytes(k, &d, 32, 1), 0);
        assert_int_equal(uw_dense_is_small(gpu, &d, 32, UW_CONV2D_BW_INPUT), way);
        assert_int_equal(uw_dense_is_small(gpu, &d, 12, UW_CONV2D_FW), way);
        assert_true(uw_dense_is_small(gpu, &d, 1, UW_CONV2D_FW));
        assert_false(uw_dense_is_small(gpu, &d, 33, UW_CONV2D_FW));
    }
    uw_cuda_choices_load(&gpu->products->choices, path, "another machine");
    const struct uw_dense fresh = {12, 7};
    (void)k->dense_scratch_bytes(k, &fresh, 8, 1);
    assert_int_equal(gpu->products->choices.n, UW_DENSE_PARTS);     /* measured */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plan_smaller_minibatches_fit_and_match_ref, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_plan_of_a_larger_minibatch_covers_one_planned_before,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_plan_is_kept_in_the_file_and_taken_from_it, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_plan_from_any_file_gives_right_results, begin, end),
        cmocka_unit_test_setup_teardown(
            test_plan_engines_of_the_file_are_found_again_and_match_ref, begin, end),
        cmocka_unit_test_setup_teardown(
            test_plan_engine_that_is_gone_is_measured_anew_and_replaced, begin, end),
        cmocka_unit_test_setup_teardown(
            test_failure_of_a_library_is_kept_and_that_of_a_trial_is_not, begin, end),
        cmocka_unit_test_setup_teardown(
            test_plan_tiles_are_for_many_channels_and_small_ones_for_fw, begin, end),
        cmocka_unit_test_setup_teardown(test_plan_more_shapes_than_there_is_room_for, begin, end),
        cmocka_unit_test_setup_teardown(test_dense_ways_match_ref_for_every_number_of_samples,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_dense_choice_is_kept_and_covers_smaller_minibatches,
                                        begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
