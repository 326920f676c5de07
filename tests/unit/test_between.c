/* SPDX-License-Identifier: Apache-2.0
 *
 * m->between: how often it is called, and how much is computed from one call to the next. The
 * kernels count, so that the claim is about what they do, not about how the step is written. */
#include "test_support.h"

#include "unit/model_fixture.h"

#include <string.h>

static struct {
    uint32_t kernels;               /* since the last call */
    uint32_t most;                  /* of those, ever */
    uint32_t calls, forward, backward;
} seen;

static void count(uint32_t *part)
{
    (*part)++;
    seen.kernels++;
    seen.most = seen.kernels > seen.most ? seen.kernels : seen.most;
}

static void between(void *arg)
{
    assert_ptr_equal(arg, &seen);
    seen.calls++;
    seen.kernels = 0;
}

static int conv_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                   const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    count(&seen.forward);
    return uw_kernels_ref.conv2d_fw(e, c, batch_n, x, w, b, y, accumulate);
}

static int conv_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                         const float *dy, const float *w, float *dx, bool accumulate)
{
    count(&seen.backward);
    return uw_kernels_ref.conv2d_bw_input(e, c, batch_n, dy, w, dx, accumulate);
}

static int conv_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                         const float *x, const float *dy, float scale, float *dw, float *db)
{
    count(&seen.backward);
    return uw_kernels_ref.conv2d_bw_param(e, c, batch_n, x, dy, scale, dw, db);
}

static int dense_fw(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                    const float *x, const float *w, const float *b, float *y)
{
    count(&seen.forward);
    return uw_kernels_ref.dense_fw(e, d, batch_n, x, w, b, y);
}

/* The slots that it is made of are the reference's: one kernel. */
static int dense_bw_step(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                         const float *x, const float *dy, float keep, float scale, float *w,
                         float *b, float *dx, bool accumulate)
{
    const struct uw_exec ref = {.kernels = &uw_kernels_ref};
    (void)e;
    count(&seen.backward);
    return uw_kernels_ref.dense_bw_step(&ref, d, batch_n, x, dy, keep, scale, w, b, dx, accumulate);
}

static int dense_bw_input(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *dy, const float *w, float *dx, bool accumulate)
{
    count(&seen.backward);
    return uw_kernels_ref.dense_bw_input(e, d, batch_n, dy, w, dx, accumulate);
}

static int dense_bw_param(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *x, const float *dy, float scale, float *dw, float *db)
{
    count(&seen.backward);
    return uw_kernels_ref.dense_bw_param(e, d, batch_n, x, dy, scale, dw, db);
}

static int relu_fw(const struct uw_exec *e, size_t n, const float *x, float *y)
{
    count(&seen.forward);
    return uw_kernels_ref.relu_fw(e, n, x, y);
}

static int relu_bw(const struct uw_exec *e, size_t n, const float *y, const float *dy, float *dx,
                   bool accumulate)
{
    count(&seen.backward);
    return uw_kernels_ref.relu_bw_input(e, n, y, dy, dx, accumulate);
}

static int loss_fw(const struct uw_exec *e, uint32_t batch_n, uint32_t classes, float smoothing,
                   const float *logits, const uint32_t *label, float *p, double *loss_sum,
                   uint32_t *correct_n)
{
    count(&seen.forward);
    return uw_kernels_ref.softmax_xent_fw(e, batch_n, classes, smoothing, logits, label, p,
                                          loss_sum, correct_n);
}

static int loss_bw(const struct uw_exec *e, uint32_t batch_n, uint32_t classes, float smoothing,
                   const float *p, const uint32_t *label, float scale, float *dlogits)
{
    count(&seen.backward);
    return uw_kernels_ref.softmax_xent_bw_input(e, batch_n, classes, smoothing, p, label, scale,
                                                dlogits);
}

static int update(const struct uw_exec *e, size_t n, const struct uw_sgd *s, const float *g,
                  float *w, float *v)
{
    count(&seen.backward);
    return uw_kernels_ref.sgd_update(e, n, s, g, w, v);
}

static struct uw_kernels counting(void)
{
    struct uw_kernels k = uw_kernels_ref;
    k.conv2d_fw = conv_fw;
    k.conv2d_bw_input = conv_bw_input;
    k.conv2d_bw_param = conv_bw_param;
    k.dense_fw = dense_fw;
    k.dense_bw_step = dense_bw_step;
    k.dense_bw_input = dense_bw_input;
    k.dense_bw_param = dense_bw_param;
    k.relu_fw = relu_fw;
    k.relu_bw_input = relu_bw;
    k.softmax_xent_fw = loss_fw;
    k.softmax_xent_bw_input = loss_bw;
    k.sgd_update = update;
    return k;
}

static const struct uw_model_def net = {
    "net", 1, 8, 8,
    LAYERS(CONV("a", 3, 3, 1, 1), RELU("ra"), CONV("b", 4, 3, 1, 0), RELU("rb"), FLATTEN("f"),
           DENSE("c", 7), RELU("rc"), DENSE("d", 3)), 8};
#define COMPUTING 7u                /* all but flatten */

/* Maps that are large beside the weights. */
static const struct uw_model_def maps = {
    "maps", 1, 16, 16,
    LAYERS(CONV("a", 2, 3, 1, 1), CONV("b", 2, 3, 1, 1), CONV("c", 2, 3, 1, 1),
           CONV("d", 2, 3, 1, 1), CONV("e", 2, 3, 1, 1), CONV("f", 2, 3, 1, 1), FLATTEN("g"),
           DENSE("h", 3)), 8};

static void open_counted(struct fixture *f, struct uw_kernels *k, const struct uw_model_def *def,
                         enum uw_plan_mode mode, float momentum, size_t budget_bytes)
{
    *k = counting();
    *f = (struct fixture){.config = {.def = def, .kernels = k, .batch_n = 2, .mode = mode,
                                     .optimizer = {.lr = 0.1f, .momentum = momentum},
                                     .budget_bytes = budget_bytes, .input = true}};
    assert_int_equal(open_config(f), UW_OK);
    uw_model_init_weights(&f->m, 1);
    struct uw_rng rng;
    uw_rng_seed(&rng, 7);
    random_batch(&rng, &f->m, 2, f->m.input, f->m.label);
    f->m.between = between;
    f->m.between_arg = &seen;
    memset(&seen, 0, sizeof seen);
}

static const struct uw_minibatch both = {.n = 2};

static void train(struct fixture *f)
{
    struct uw_step_result r;
    assert_int_equal(uw_model_train_step(&f->m, &both, &r, &f->err), UW_OK);
}

static void test_between_is_called_after_every_kernel_of_a_step(void **state)
{
    (void)state;
    static const enum uw_plan_mode modes[] = {UW_PLAN_IMMEDIATE, UW_PLAN_BUCKETS, UW_PLAN_FULL};
    for (size_t i = 0; i < 6; i++) {
        struct fixture f;
        struct uw_kernels k;
        open_counted(&f, &k, &net, modes[i / 2], i % 2 != 0 ? 0.9f : 0.0f, 0);
        train(&f);
        assert_int_equal(seen.forward, COMPUTING + 1);      /* and the loss */
        assert_true(seen.backward > COMPUTING + 1);         /* conv in two halves */
        assert_true(seen.calls >= seen.forward + seen.backward);
        assert_int_equal(seen.most, 1);
        assert_int_equal(seen.kernels, 0);
        close_model(&f);
    }
}

static void test_between_is_called_when_layers_are_computed_again(void **state)
{
    (void)state;
    struct fixture f;
    struct uw_kernels k;
    open_counted(&f, &k, &maps, UW_PLAN_IMMEDIATE, 0.0f, 0);
    size_t whole = f.need.total_bytes;
    close_model(&f);
    open_counted(&f, &k, &maps, UW_PLAN_IMMEDIATE, 0.0f, whole - 16);
    assert_true(f.need.recomputed_n > 0);
    train(&f);
    assert_true(seen.forward > COMPUTING + 1);
    assert_int_equal(seen.most, 1);
    close_model(&f);
}

static void test_between_is_called_in_forward_and_evaluate(void **state)
{
    (void)state;
    struct fixture f;
    struct uw_kernels k;
    double loss = 0.0;
    uint32_t correct = 0;
    open_counted(&f, &k, &net, UW_PLAN_IMMEDIATE, 0.0f, 0);
    assert_int_equal(uw_model_forward(&f.m, f.m.input, 2, NULL), UW_OK);
    assert_int_equal(seen.calls, COMPUTING);
    assert_int_equal(uw_model_evaluate(&f.m, &both, &loss, &correct), UW_OK);
    assert_int_equal(seen.calls, 2 * COMPUTING + 1);
    assert_int_equal(seen.most, 1);
    close_model(&f);
}

static void test_between_changes_no_result(void **state)
{
    (void)state;
    struct fixture f[2];
    struct uw_kernels k[2];
    for (int i = 0; i < 2; i++) {
        open_counted(&f[i], &k[i], &net, UW_PLAN_IMMEDIATE, 0.0f, 0);
        f[i].m.between = i == 0 ? between : NULL;
        train(&f[i]);
        train(&f[i]);
    }
    assert_memory_equal(f[0].m.params.x, f[1].m.params.x, f[0].m.params.size_n * sizeof(float));
    close_model(&f[0]);
    close_model(&f[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between_is_called_after_every_kernel_of_a_step),
        cmocka_unit_test(test_between_is_called_when_layers_are_computed_again),
        cmocka_unit_test(test_between_is_called_in_forward_and_evaluate),
        cmocka_unit_test(test_between_changes_no_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
