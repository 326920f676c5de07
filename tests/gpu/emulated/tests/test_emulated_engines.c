/* SPDX-License-Identifier: Apache-2.0
 *
 * Engines of cuDNN's graph API as the stand-in lists them: which are taken, what happens without
 * them, and that nothing is taken while they run. */
#include "fixture.h"

#include "products.h"
#include "uwasa/backends.h"

#include <unistd.h>

#define FLOATS 4096u
#define SCRATCH_BYTES ((size_t)1 << 20)
#define BATCH 4u

static char folder[64], path[96];
static struct uw_cuda *gpu;
static float *x, *w, *y, *dx, *dw, want[FLOATS];
static void *scratch;

/* What every engine takes, and with groups, strides and dilation what most of them do. */
static const struct uw_conv2d plain = {.in_channels = 2, .in_h = 5, .in_w = 4, .out_channels = 4,
                                       .out_h = 5, .out_w = 4, .kernel_h = 3, .kernel_w = 3,
                                       .stride_h = 1, .stride_w = 1, .pad_h = 1, .pad_w = 1,
                                       .dilation_h = 1, .dilation_w = 1, .groups = 1};
static const struct uw_conv2d grouped = {.in_channels = 4, .in_h = 6, .in_w = 5, .out_channels = 6,
                                         .out_h = 2, .out_w = 3, .kernel_h = 3, .kernel_w = 2,
                                         .stride_h = 2, .stride_w = 1, .pad_h = 1, .pad_w = 0,
                                         .dilation_h = 2, .dilation_w = 2, .groups = 2};
static const struct uw_conv2d wide = {.in_channels = 32, .in_h = 5, .in_w = 4, .out_channels = 33,
                                      .out_h = 5, .out_w = 4, .kernel_h = 3, .kernel_w = 3,
                                      .stride_h = 1, .stride_w = 1, .pad_h = 1, .pad_w = 1,
                                      .dilation_h = 1, .dilation_w = 1, .groups = 1};

static void open_gpu(const char *settings, bool tf32)
{
    char all[96];
    const struct uw_cuda_config config = {.blocking = true, .choices = path, .tf32 = tf32};
    struct uw_error err;
    float **arrays[] = {&x, &w, &y, &dx, &dw};
    snprintf(all, sizeof all, "integrated%s%s", *settings == '\0' ? "" : ",", settings);
    uw_emulated_settings(all);
    assert_int_equal(uw_cuda_open(&gpu, &config, &err), UW_OK);
    for (uint32_t i = 0; i < 5; i++) {
        void *block;
        assert_int_equal(uw_cuda_take(gpu, UW_CUDA_SHARED, FLOATS * sizeof(float), &block, &err),
                         UW_OK);
        *arrays[i] = block;
        for (uint32_t k = 0; k < FLOATS; k++) {
            (*arrays[i])[k] = (float)((k * 37 + i) % 29) / 29.0f - 0.5f;
        }
    }
    assert_int_equal(uw_cuda_take(gpu, UW_CUDA_SHARED, SCRATCH_BYTES, &scratch, &err), UW_OK);
}

static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "engines-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/choices", folder);
    gpu = NULL;
    return 0;
}

static int end(void **state)
{
    (void)state;
    uw_cuda_close(gpu);
    gpu = NULL;
    (void)unlink(path);
    return rmdir(folder) != 0 || uw_emulated_descriptors() != 0;
}

static void reopen(const char *settings)
{
    uw_cuda_close(gpu);
    assert_int_equal(uw_emulated_descriptors(), 0);
    open_gpu(settings, false);
}

static struct uw_conv2d_graph graph_of(const struct uw_conv2d *c, enum uw_conv2d_part part,
                                       bool accumulate)
{
    struct uw_conv2d_graph g;
    (void)uw_conv2d_graph_open(gpu, c, BATCH, part, accumulate, gpu->products->conv2d_limit, 0, &g);
    return g;
}

static uint32_t engines_n(const struct uw_conv2d *c, enum uw_conv2d_part part, bool accumulate)
{
    struct uw_conv2d_graph g = graph_of(c, part, accumulate);
    uint32_t n = g.engines_n;
    uw_conv2d_graph_close(&gpu->products->libraries, &g);
    return n;
}

/* Each part's engine number i is what the file says. */
static void choose(const struct uw_conv2d *c, uint32_t i)
{
    struct uw_cuda_choice known = {.batch_n = BATCH, .algorithm = UW_CONV2D_GRAPH};
    memcpy(known.shape, uw_conv2d_shape_of(gpu, c)->key, sizeof known.shape);
    for (known.part = 0; known.part < UW_CONV2D_PARTS; known.part++) {
        enum uw_conv2d_part part = (enum uw_conv2d_part)known.part;
        struct uw_conv2d_graph g = graph_of(c, part, part == UW_CONV2D_BW_PARAM);
        assert_true(g.engines_n > i);
        known.engine = g.engines[i].key;
        uw_conv2d_graph_close(&gpu->products->libraries, &g);
        uw_cuda_choices_put(&gpu->products->choices, &known);
    }
    assert_int_equal(uw_cuda_choices_save(&gpu->products->choices), UW_OK);
}

static const struct uw_conv2d_plan *planned(const struct uw_conv2d *c)
{
    const struct uw_kernels *k = uw_cuda_kernels(gpu);
    assert_true(k->conv2d_scratch_bytes(k, c, BATCH, 1) <= SCRATCH_BYTES);
    return uw_conv2d_plan_of(gpu, uw_conv2d_shape_of(gpu, c), BATCH);
}

static void assert_near(const float *got, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_true(fabsf(got[i] - want[i]) <= 1e-4f * (1.0f + fabsf(want[i])));
    }
}

static void check(const struct uw_conv2d *c)
{
    const struct uw_kernels *k = uw_cuda_kernels(gpu), *ref = &uw_kernels_ref;
    const struct uw_exec e = {.kernels = k, .scratch = scratch, .scratch_bytes = SCRATCH_BYTES};
    const struct uw_exec r = {.kernels = ref};
    size_t x_n = (size_t)BATCH * c->in_channels * c->in_h * c->in_w;
    size_t y_n = (size_t)BATCH * c->out_channels * c->out_h * c->out_w;
    size_t w_n = (size_t)c->out_channels * c->in_channels / c->groups * c->kernel_h * c->kernel_w;
    for (uint32_t adds = 0; adds < 2; adds++) {
        memcpy(want, y, y_n * sizeof *want);
        assert_int_equal(k->conv2d_fw(&e, c, BATCH, x, w, w, y, adds != 0), UW_OK);
        ref->conv2d_fw(&r, c, BATCH, x, w, w, want, adds != 0);
        assert_near(y, y_n);
        memcpy(want, dx, x_n * sizeof *want);
        assert_int_equal(k->conv2d_bw_input(&e, c, BATCH, y, w, dx, adds != 0), UW_OK);
        ref->conv2d_bw_input(&r, c, BATCH, y, w, want, adds != 0);
        assert_near(dx, x_n);
        memcpy(want, dw, w_n * sizeof *want);
        assert_int_equal(k->conv2d_bw_param(&e, c, BATCH, x, y, 1.0f, dw, NULL), UW_OK);
        ref->conv2d_bw_param(&r, c, BATCH, x, y, 1.0f, want, NULL);
        assert_near(dw, w_n);
    }
}

static bool any_engine(const struct uw_conv2d_plan *p)
{
    bool any = false;
    for (uint32_t i = 0; i < UW_CONV2D_PARTS; i++) {
        any = any || p->part[i].algorithm == UW_CONV2D_GRAPH;
    }
    return any;
}

/* Of fifteen likely ones and two that take anything: one that fails when it runs, three that
 * compute, and two by tiles, where channels are many, the larger tiles for gradients only; these
 * neither add nor know groups. Those of narrower factors with TF32 only. */
static void test_engines_by_their_notes(void **state)
{
    (void)state;
    open_gpu("", false);
    assert_int_equal(engines_n(&plain, UW_CONV2D_FW, false), 4);
    assert_int_equal(engines_n(&plain, UW_CONV2D_BW_INPUT, false), 4);
    assert_int_equal(engines_n(&wide, UW_CONV2D_FW, false), 5);
    assert_int_equal(engines_n(&wide, UW_CONV2D_BW_INPUT, false), 6);
    assert_int_equal(engines_n(&wide, UW_CONV2D_BW_INPUT, true), 4);
    assert_int_equal(engines_n(&wide, UW_CONV2D_BW_PARAM, true), 4);
    assert_int_equal(engines_n(&plain, UW_CONV2D_BW_INPUT, true), 4);
    assert_int_equal(engines_n(&plain, UW_CONV2D_BW_PARAM, true), 4);
    assert_int_equal(engines_n(&grouped, UW_CONV2D_FW, false), 4);
    uw_cuda_close(gpu);
    open_gpu("", true);
    assert_int_equal(engines_n(&plain, UW_CONV2D_FW, false), 6);
}

static void test_engines_compute_every_part(void **state)
{
    (void)state;
    const struct uw_conv2d *all[] = {&plain, &grouped};
    open_gpu("", false);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 1; k < 4; k++) {  /* the first one fails */
            choose(all[i], k);
            reopen("");
            const struct uw_conv2d_plan *p = planned(all[i]);
            for (uint32_t part = 0; part < UW_CONV2D_PARTS; part++) {
                assert_int_equal(p->part[part].algorithm, UW_CONV2D_GRAPH);
            }
            assert_int_equal(p->graphs[UW_CONV2D_BW_INPUT_ADDS].engines_n, 1);
            assert_true(p->part[UW_CONV2D_BW_INPUT].workspace_bytes >=
                        p->graphs[UW_CONV2D_BW_INPUT_ADDS].engines[0].workspace_bytes);
            check(all[i]);
        }
    }
}

/* Recorded into a graph and timed, as every candidate is. */
static void test_engines_are_measured(void **state)
{
    (void)state;
    open_gpu("", false);
    struct uw_conv2d_shape *s = uw_conv2d_shape_of(gpu, &plain);
    struct uw_conv2d_graph g = graph_of(&plain, UW_CONV2D_FW, false);
    struct uw_conv2d_choice all[UW_CONV2D_CANDIDATES_MAX], best = {.algorithm = -1};
    uint32_t n = uw_conv2d_candidates(gpu, s, BATCH, UW_CONV2D_FW, SCRATCH_BYTES, &g, all);
    double us;
    assert_true(n > g.engines_n);
    assert_int_equal(uw_conv2d_measure(gpu, s, BATCH, UW_CONV2D_FW, &g, all + n - g.engines_n,
                                       g.engines_n, &best, &us), UW_OK);
    assert_int_equal(best.algorithm, UW_CONV2D_GRAPH);
    assert_true(us > 0.0);
    uw_conv2d_graph_keep(&gpu->products->libraries, &g, best.engine);
    assert_int_equal(g.engines_n, 1);
    uw_conv2d_graph_keep(&gpu->products->libraries, &g, 0);
    assert_int_equal(g.engines_n + g.made_n, 0);
}

/* None listed, none that runs, the file's one not there any more, a key of none. */
static void test_engines_that_are_not_there_leave_other_algorithms(void **state)
{
    (void)state;
    static const char *const settings[] = {"engines=1", "engines=2", "engines=3", ""};
    for (uint32_t i = 0; i < 4; i++) {
        (void)unlink(path);
        uw_cuda_close(gpu);
        open_gpu("", false);
        choose(&plain, 1);
        if (i == 3) {
            gpu->products->choices.at[0].engine = 12345;
            assert_int_equal(uw_cuda_choices_save(&gpu->products->choices), UW_OK);
        }
        reopen(settings[i]);
        const struct uw_conv2d_plan *p = planned(&plain);
        assert_false(i < 2 && any_engine(p));
        check(&plain);
    }
}

static void test_engines_without_the_api(void **state)
{
    (void)state;
    open_gpu("", false);
    gpu->products->libraries.cudnnBackendExecute = NULL;
    assert_int_equal(engines_n(&plain, UW_CONV2D_FW, false), 0);
    assert_false(any_engine(planned(&plain)));
    check(&plain);
}

static void test_engines_take_nothing_while_they_run(void **state)
{
    (void)state;
    open_gpu("", false);
    choose(&plain, 1);
    (void)planned(&plain);
    check(&plain);
    uint64_t taken = uw_emulated_taken(), descriptors = uw_emulated_descriptors();
    check(&plain);
    assert_int_equal(uw_emulated_taken(), taken);
    assert_int_equal(uw_emulated_descriptors(), descriptors);
}

/* What is left takes the tensors and no workspace: then those without are measured. */
static void test_engines_and_others_are_measured_in_little_memory(void **state)
{
    (void)state;
    char settings[96];
    open_gpu("", false);
    size_t tensors = 0, n[] = {BATCH * 2 * 20, BATCH * 4 * 20, 4 * 2 * 9};
    for (size_t i = 0; i < 3; i++) {
        tensors += (n[i] * sizeof(float) + UW_CONV2D_ALIGN - 1) / UW_CONV2D_ALIGN * UW_CONV2D_ALIGN;
    }
    snprintf(settings, sizeof settings, "integrated,memory=%zu",
             uw_emulated_used_bytes() + tensors + 64);
    uw_emulated_settings(settings);
    const struct uw_conv2d_plan *p = planned(&plain);
    for (uint32_t part = 0; part < UW_CONV2D_PARTS; part++) {
        assert_int_equal(p->part[part].workspace_bytes, 0);
    }
    assert_int_equal(gpu->products->choices.n, UW_CONV2D_PARTS);
    check(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_engines_by_their_notes, begin, end),
        cmocka_unit_test_setup_teardown(test_engines_compute_every_part, begin, end),
        cmocka_unit_test_setup_teardown(test_engines_are_measured, begin, end),
        cmocka_unit_test_setup_teardown(test_engines_that_are_not_there_leave_other_algorithms,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_engines_without_the_api, begin, end),
        cmocka_unit_test_setup_teardown(test_engines_take_nothing_while_they_run, begin, end),
        cmocka_unit_test_setup_teardown(test_engines_and_others_are_measured_in_little_memory,
                                        begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
