/* SPDX-License-Identifier: Apache-2.0
 *
 * Which algorithm computes a convolution: measured, kept in a file, and right whichever it is. */
#include "plan_fixture.h"

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

/* While others have the GPU's memory the file's engine goes without a trial, what needs no
 * workspace is taken, and the file stays. */
static void test_plan_engine_that_lacks_memory_stays_in_the_file(void **state)
{
    (void)state;
    const struct uw_conv2d other = shape(2, 4, 5, 1, 1);
    const struct uw_conv2d c = shape(2, 4, 5, 3, 1);
    struct uw_cuda_choice known = {.batch_n = 4, .algorithm = UW_CONV2D_GRAPH};
    struct uw_conv2d_graph g;
    size_t free_bytes = 0, all_bytes, most = 0, tensors = 1024 + 1792 + 512; /* in 256 bytes each */
    void *others = NULL;
    memcpy(known.shape, uw_conv2d_shape_of(gpu, &c)->key, sizeof known.shape);
    (void)uw_conv2d_graph_open(gpu, &c, 4, UW_CONV2D_FW, false, gpu->products->conv2d_limit, 0, &g);
    for (uint32_t i = 0; i < g.engines_n; i++) {
        known.engine = g.engines[i].workspace_bytes > most ? g.engines[i].key : known.engine;
        most = g.engines[i].workspace_bytes > most ? g.engines[i].workspace_bytes : most;
    }
    uw_conv2d_graph_close(&gpu->products->libraries, &g);
    if (most == 0) {
        return;
    }
    uw_cuda_choices_put(&gpu->products->choices, &known);
    assert_int_equal(uw_cuda_choices_save(&gpu->products->choices), UW_OK);
    open_again();
    (void)planned(&other, 4);                           /* cuBLAS has what it takes */
    assert_int_equal(cudaMemGetInfo(&free_bytes, &all_bytes), cudaSuccess);
    assert_int_equal(cudaMalloc(&others, free_bytes - tensors), cudaSuccess);
    (void)planned(&c, 4);
    assert_int_equal(cudaFree(others), cudaSuccess);
    open_again();
    const struct uw_cuda_choice *now =
        uw_cuda_choices_find(&gpu->products->choices, UW_CONV2D_FW, 4, known.shape);
    assert_true(now != NULL && now->engine == known.engine);
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
            test_plan_engine_that_lacks_memory_stays_in_the_file, begin, end),
        cmocka_unit_test_setup_teardown(
            test_failure_of_a_library_is_kept_and_that_of_a_trial_is_not, begin, end),
        cmocka_unit_test_setup_teardown(
            test_plan_tiles_are_for_many_channels_and_small_ones_for_fw, begin, end),
        cmocka_unit_test_setup_teardown(test_plan_more_shapes_than_there_is_room_for, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
