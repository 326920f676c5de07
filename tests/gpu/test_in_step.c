/* SPDX-License-Identifier: Apache-2.0
 *
 * What the slots of an open GPU do inside of a step only: read its values, leave numbers on the
 * GPU, guard parameters, stop. */
#include "test_support.h"

#include "uwasa/backends.h"
#include "uwasa/cuda.h"
#include "uwasa/rng.h"

#define N 1500u

static struct uw_cuda *gpu;
static struct uw_exec on_gpu, on_cpu = {.kernels = &uw_kernels_ref};
static const struct uw_device_kernels *device;
static struct uw_rng rng;

static float *to_gpu(size_t n, const float *x)
{
    void *at;
    struct uw_error err;
    assert_int_equal(uw_cuda_take(gpu, UW_CUDA_KERNELS, (n + 1) * sizeof *x, &at, &err), UW_OK);
    assert_int_equal(device->write(&on_gpu, at, x, n * sizeof *x), UW_OK);
    return at;
}

static void assert_on_gpu(size_t n, const float *at, const float *want)
{
    float *got = uw_test_floats(n);
    assert_int_equal(device->read(&on_gpu, got, at, n * sizeof *got), UW_OK);
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)got[i] - (double)want[i]) <= 2e-6 * (1.0 + fabs((double)want[i])))) {
            fail_msg("%zu of %zu: %.9g, want %.9g", i, n, (double)got[i], (double)want[i]);
        }
    }
    uw_test_release(got);
}

static void fill(size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = uw_rng_normal(&rng);
    }
}

static bool begin(const struct uw_device_values *values, uint64_t key)
{
    bool recorded = false;
    const struct uw_device_step s = {.values = *values, .key = key};
    assert_int_equal(device->begin(&on_gpu, &s, &recorded), UW_OK);
    return recorded;
}

static struct uw_device_result end(void)
{
    struct uw_device_result r;
    assert_int_equal(device->end(&on_gpu, true), UW_OK);
    assert_int_equal(device->result(&on_gpu, &r), UW_OK);
    return r;
}

static const struct uw_device_values values = {.noise = 5, .loss_limit = INFINITY, .lr = 0.25f,
                                               .weight_decay = 0.03f, .correction1 = 0.1f,
                                               .correction2 = 0.3f};
static float g[N], w[N], a[N], b[N];

enum rule { SGD, MOMENTUM, NESTEROV, FROZEN, ADAM, ADAMW, RMSPROP, RMSPROP_MOMENTUM, RULES_N };

/* lr, weight_decay and corrections as arguments are wrong for the GPU: it has its own. */
static void update(const struct uw_exec *e, enum rule rule, const struct uw_device_values *v,
                   size_t n, const float *gs, float *ws, float *as, float *bs)
{
    const struct uw_sgd sgd = {.lr = v->lr, .weight_decay = v->weight_decay,
                               .momentum = rule == SGD ? 0.0f : 0.9f, .nesterov = rule == NESTEROV,
                               .frozen = rule == FROZEN};
    const struct uw_adam adam = {.lr = v->lr, .weight_decay = v->weight_decay, .beta1 = 0.9f,
                                 .beta2 = 0.99f, .epsilon = 1e-4f, .correction1 = v->correction1,
                                 .correction2 = v->correction2, .decoupled = rule == ADAMW};
    const struct uw_rmsprop rms = {.lr = v->lr, .weight_decay = v->weight_decay, .alpha = 0.9f,
                                   .epsilon = 1e-3f,
                                   .momentum = rule == RMSPROP_MOMENTUM ? 0.8f : 0.0f};
    int rc = rule <= FROZEN ? e->kernels->sgd_update(e, n, &sgd, gs, ws, as)
             : rule <= ADAMW ? e->kernels->update->adam(e, n, &adam, gs, ws, as, bs)
                             : e->kernels->update->rmsprop(e, n, &rms, gs, ws, bs, as);
    assert_int_equal(rc, UW_OK);
}

static void fill_all(void)
{
    fill(N, g);
    fill(N, w);
    fill(N, a);
    for (size_t i = 0; i < N; i++) {
        b[i] = 0.1f + fabsf(a[i]);
    }
}

static void test_updates_read_values_guard_and_stop(void **state)
{
    (void)state;
    const struct uw_device_values wrong = {.lr = NAN, .weight_decay = NAN, .correction1 = NAN,
                                           .correction2 = NAN};
    for (int rule = SGD; rule < RULES_N; rule++) {
        fill_all();
        float *gs = to_gpu(N, g), *ws = to_gpu(N, w), *as = to_gpu(N, a), *bs = to_gpu(N, b);
        begin(&values, 0);
        update(&on_gpu, (enum rule)rule, &wrong, N, gs, ws, as, bs);
        assert_int_equal(end().stopped, UW_DEVICE_RUNS);
        update(&on_cpu, (enum rule)rule, &values, N, g, w, a, b);
        assert_on_gpu(N, ws, w);
        assert_on_gpu(N, as, a);
        assert_on_gpu(N, bs, b);

        float bad[2] = {NAN, INFINITY}, kept[3] = {w[1021], a[1021], b[1021]};
        bool second = rule % 2 != 0;
        device->write(&on_gpu, gs + 1021, &bad[second], sizeof *bad);
        begin(&values, 0);
        device->segments(&on_gpu, &(struct uw_device_segment){.index = 3, .size_n = N}, 1);
        update(&on_gpu, (enum rule)rule, &wrong, N, gs, ws, as, bs);
        struct uw_device_result r = end();
        assert_int_equal(r.stopped, UW_DEVICE_STOP_GRADIENT);
        assert_int_equal(r.where, 3);
        float got[3];
        device->read(&on_gpu, &got[0], ws + 1021, sizeof *got);
        device->read(&on_gpu, &got[1], as + 1021, sizeof *got);
        device->read(&on_gpu, &got[2], bs + 1021, sizeof *got);
        for (int i = 0; i < 3; i++) {
            assert_true(fabsf(got[i] - kept[i]) <= 2e-6f * (1.0f + fabsf(kept[i])));
        }

        float *before = uw_test_floats(N); /* stopped: nothing changes, good gradients or not */
        device->read(&on_gpu, before, ws, N * sizeof *before);
        device->write(&on_gpu, gs, g, sizeof g);
        begin(&values, 0);
        update(&on_gpu, (enum rule)rule, &wrong, N, gs, ws, as, bs);
        assert_int_equal(end().stopped, UW_DEVICE_STOP_GRADIENT);
        assert_on_gpu(N, ws, before);
        assert_int_equal(device->resume(&on_gpu), UW_OK);
        uw_test_release(before);
    }
}

/* Sizes 1, 2, .. with holes in w, so that no two arrays of a segment are aligned alike. */
static void test_updates_of_many_segments_are_one(void **state)
{
    (void)state;
    struct uw_device_segment of[40];
    uint32_t sum = 0, n = sizeof of / sizeof *of;
    for (uint32_t i = 0; i < n; i++) {
        of[i] = (struct uw_device_segment){.index = 2 * i, .w_n = sum + i, .state_n = sum,
                                           .size_n = i + 1};
        sum += i + 1;
    }
    for (int rule = SGD; rule < RULES_N; rule++) {
        if (rule == FROZEN) {
            continue;
        }
        fill_all();
        float *gs = to_gpu(N, g), *ws = to_gpu(N, w), *as = to_gpu(N, a), *bs = to_gpu(N, b);
        begin(&values, 0);
        device->segments(&on_gpu, of, n);
        update(&on_gpu, (enum rule)rule, &values, sum, gs, ws, as, bs);
        assert_int_equal(end().stopped, UW_DEVICE_RUNS);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t s = of[i].state_n;
            update(&on_cpu, (enum rule)rule, &values, of[i].size_n, g + s, w + of[i].w_n, a + s,
                   b + s);
        }
        assert_on_gpu(N, ws, w); /* the holes too */
        assert_on_gpu(N, as, a);
        assert_on_gpu(N, bs, b);
        device->write(&on_gpu, gs + of[n - 2].state_n, &(float){NAN}, sizeof(float));
        begin(&values, 0);
        device->segments(&on_gpu, of, n);
        update(&on_gpu, (enum rule)rule, &values, sum, gs, ws, as, bs);
        assert_int_equal(end().where, of[n - 2].index);
        assert_int_equal(device->resume(&on_gpu), UW_OK);
    }
}

static void test_clip_scales_what_is_longer(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= N; n = n * 5 + 1) {
        fill(n, g);
        float *gs = to_gpu(n, g);
        double norm = sqrt(uw_kernels_ref.distance_sq(&on_cpu, n, g, NULL));
        for (int half = 0; half < 2; half++) {
            float most = (float)(half != 0 ? 0.5 * norm : 1.5 * norm);
            begin(&values, 0);
            assert_int_equal(device->clip(&on_gpu, most, n, gs), UW_OK);
            assert_int_equal(end().stopped, UW_DEVICE_RUNS);
            float factor = half != 0 ? (float)((double)most / (norm + 1e-6)) : 1.0f;
            for (uint32_t i = 0; i < n; i++) {
                g[i] *= factor;
            }
            assert_on_gpu(n, gs, g);
        }
    }
}

static void test_losses_stay_on_the_gpu_and_stop(void **state)
{
    (void)state;
    const float z[6] = {1.0f, 2.0f, -1.0f, 3.0f, 0.0f, 3.0f}, weight[2] = {1.0f, 0.5f};
    const float nan_z[6] = {NAN, 2.0f, -1.0f, 3.0f, 0.0f, 3.0f};
    const uint32_t label[2] = {1, 2};
    float p[6], *zs = to_gpu(6, z), *bad = to_gpu(6, nan_z), *ps = to_gpu(6, z);
    uint32_t *labels = (uint32_t *)(void *)to_gpu(2, (const float *)(const void *)label);
    double xent, mse;
    uint32_t correct;
    uw_kernels_ref.softmax_xent_fw(&on_cpu, 2, 3, 0.0f, z, label, p, &xent, &correct);
    uw_kernels_ref.loss->forward(&on_cpu, UW_ELEMENTWISE_MSE, 1.0f, 6, z, p, &mse);
    const double limits[4] = {INFINITY, (xent + 0.5 * mse) * 1.01, (xent + 0.5 * mse) * 0.99, 1.0};
    const enum uw_device_stop stops[4] = {UW_DEVICE_RUNS, UW_DEVICE_RUNS, UW_DEVICE_SKIP,
                                          UW_DEVICE_STOP_LOSS};
    for (int i = 0; i < 4; i++) {
        struct uw_device_values v = values;
        struct uw_device_sums *sums = device->sums(&on_gpu);
        v.loss_limit = limits[i];
        begin(&v, 0);
        for (int micro = 0; micro < 2; micro++) {
            on_gpu.kernels->softmax_xent_fw(&on_gpu, 2, 3, 0.0f, i == 3 ? bad : zs, labels, ps,
                                            &sums->loss[0], &sums->correct[0]);
            on_gpu.kernels->loss->forward(&on_gpu, UW_ELEMENTWISE_MSE, 1.0f, 6, zs, ps,
                                          &sums->loss[1]);
            assert_int_equal(device->add_losses(&on_gpu, weight, 2, 2), UW_OK);
        }
        struct uw_device_result r = end();
        assert_int_equal(r.stopped, stops[i]);
        if (i < 3) {
            assert_true(fabs(r.loss - 2.0 * (xent + 0.5 * mse)) < 1e-5);
            assert_int_equal(r.correct_n, 2 * correct);
        }
        assert_int_equal(device->resume(&on_gpu), UW_OK);
    }
    float t[6], want[6] = {0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 1.0f};
    assert_int_equal(device->onehot(&on_gpu, 2, 3, labels, zs, ps, &correct), UW_OK);
    device->read(&on_gpu, t, ps, sizeof t);
    assert_memory_equal(t, want, sizeof t);
    assert_int_equal(correct, 1); /* 3 and 3: the first of equals */
}

/* One of few rows, and one of several blocks. */
static void check_xent_step(uint32_t rows, uint32_t classes, bool in_place)
{
    const float weight = 0.5f;
    const size_t n = (size_t)rows * classes;
    float *z = uw_test_floats(n), *p = uw_test_floats(n);
    uint32_t *label = (uint32_t *)(void *)uw_test_floats(rows);
    fill(n, z);
    for (uint32_t i = 0; i < rows; i++) {
        label[i] = uw_rng_below(&rng, classes);
    }
    float *zs = to_gpu(n, z), *ps = to_gpu(n, z), *labels = to_gpu(rows, (const float *)label);
    struct uw_device_sums *sums = device->sums(&on_gpu);
    begin(&values, 0);
    on_gpu.kernels->softmax_xent_fw(&on_gpu, rows, classes, 0.1f, zs, (const uint32_t *)labels, ps,
                                    &sums->loss[0], &sums->correct[0]);
    assert_int_equal(device->add_losses(&on_gpu, &weight, 1, rows), UW_OK);
    on_gpu.kernels->softmax_xent_bw_input(&on_gpu, rows, classes, 0.1f, ps,
                                          (const uint32_t *)labels, 0.25f, ps);
    const struct uw_device_result want = end();
    assert_int_equal(device->read(&on_gpu, p, ps, n * sizeof *p), UW_OK);
    float *ds = in_place ? zs : ps;
    const struct uw_device_xent x = {
        .batch_n = rows, .classes = classes, .logits = zs, .label = (const uint32_t *)labels,
        .dlogits = ds, .smoothing = 0.1f, .scale = 0.25f, .weight = weight, .samples = rows};
    begin(&values, 0);
    assert_int_equal(device->xent_step(&on_gpu, &x), UW_OK);
    const struct uw_device_result got = end();
    assert_int_equal(device->read(&on_gpu, z, ds, n * sizeof *z), UW_OK);
    assert_memory_equal(z, p, n * sizeof *z);
    assert_true(got.loss == want.loss && got.loss > 0.0);
    assert_int_equal(got.correct_n, want.correct_n);
    uw_test_release(z);
    uw_test_release(p);
    uw_test_release((float *)(void *)label);
}

static void test_cross_entropy_in_one_has_the_bits_of_its_parts(void **state)
{
    (void)state;
    check_xent_step(1, 2, false);
    check_xent_step(64, 10, true);
    check_xent_step(300, 32, false);
    check_xent_step(70, 33, true);
    check_xent_step(9, 300, false);
}

static void test_a_skipped_step_is_the_only_one(void **state)
{
    (void)state;
    const float z[2] = {1.0f, 3.0f}, t[2] = {0.0f, 0.0f}, one = 1.0f;
    const double limits[4] = {1.0, INFINITY, 4.9, 5.1}; /* the loss of a sample is 5 */
    float *zs = to_gpu(2, z), *ts = to_gpu(2, t);
    fill_all();
    float *gs = to_gpu(N, g), *ws = to_gpu(N, w);
    struct uw_device_result r[4];
    for (int i = 0; i < 5; i++) {           /* two in flight */
        if (i < 4) {
            struct uw_device_values v = values;
            v.loss_limit = limits[i];
            begin(&v, 0);
            on_gpu.kernels->loss->forward(&on_gpu, UW_ELEMENTWISE_MSE, 1.0f, 2, zs, ts,
                                          &device->sums(&on_gpu)->loss[0]);
            assert_int_equal(device->add_losses(&on_gpu, &one, 1, 2), UW_OK);
            update(&on_gpu, SGD, &v, N, gs, ws, NULL, NULL);
            assert_int_equal(device->end(&on_gpu, true), UW_OK);
        }
        if (i > 0) {
            assert_int_equal(device->result(&on_gpu, &r[i - 1]), UW_OK);
        }
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(r[i].stopped, i % 2 == 0 ? UW_DEVICE_SKIP : UW_DEVICE_RUNS);
        assert_true(fabs(r[i].loss - 10.0) < 1e-9);
    }
    update(&on_cpu, SGD, &values, N, g, w, NULL, NULL);
    update(&on_cpu, SGD, &values, N, g, w, NULL, NULL);
    assert_on_gpu(N, ws, w);
}

static void test_gather_of_no_row_stops(void **state)
{
    (void)state;
    const float x[3] = {1.0f, 7.0f, 0.0f}, rows[6] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
    const float want[6] = {3.0f, 4.0f, 1.0f, 2.0f, 1.0f, 2.0f};
    float *xs = to_gpu(3, x), *rs = to_gpu(6, rows), *ys = to_gpu(6, rows);
    begin(&values, 0);
    assert_int_equal(on_gpu.kernels->copy->gather(&on_gpu, 3, 3, 2, xs, rs, ys), UW_OK);
    assert_int_equal(end().stopped, UW_DEVICE_STOP_LOSS);
    assert_on_gpu(6, ys, want);
    assert_int_equal(device->resume(&on_gpu), UW_OK);
    assert_int_equal(on_gpu.kernels->copy->gather(&on_gpu, 3, 3, 2, xs, rs, ys), UW_ERR_INVALID);
}

/* The third time a key is played: values are that step's. */
static void test_played_steps_have_values_of_their_own(void **state)
{
    (void)state;
    const struct uw_dropout wrong = {.noise = 99, .layer = 4, .rate = 0.5f};
    fill_all();
    float *gs = to_gpu(N, g), *ws = to_gpu(N, w), *as = to_gpu(N, a);
    for (uint32_t step = 0; step < 5; step++) {
        struct uw_device_values v = values;
        struct uw_dropout d = wrong;
        v.noise = d.noise = 1000 + step;
        v.lr = 0.1f / (float)(1 + step);
        bool recorded = begin(&v, 77);
        assert_true(recorded == (step >= 2));
        if (!recorded) {
            on_gpu.kernels->activation->dropout(&on_gpu, &wrong, 12, N, gs, as, false);
            update(&on_gpu, SGD, &values, N, as, ws, NULL, NULL);
        }
        assert_int_equal(end().stopped, UW_DEVICE_RUNS);
        uw_kernels_ref.activation->dropout(&on_cpu, &d, 12, N, g, a, false);
        update(&on_cpu, SGD, &v, N, a, w, NULL, NULL);
        assert_on_gpu(N, as, a);
        assert_on_gpu(N, ws, w);
    }
}

static int open_gpu(void **state)
{
    (void)state;
    struct uw_error err;
    if (uw_cuda_open(&gpu, &(struct uw_cuda_config){.device = 0}, &err) < 0) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    on_gpu.kernels = uw_cuda_kernels(gpu);
    device = on_gpu.kernels->device;
    return 0;
}

static int close_gpu(void **state)
{
    (void)state;
    uw_cuda_close(gpu);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_updates_read_values_guard_and_stop, open_gpu,
                                        close_gpu),
        cmocka_unit_test_setup_teardown(test_updates_of_many_segments_are_one, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_clip_scales_what_is_longer, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_losses_stay_on_the_gpu_and_stop, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_cross_entropy_in_one_has_the_bits_of_its_parts,
                                        open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_a_skipped_step_is_the_only_one, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_gather_of_no_row_stops, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_played_steps_have_values_of_their_own, open_gpu,
                                        close_gpu),
    };
    uw_rng_seed(&rng, uw_test_seed(20261124));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
