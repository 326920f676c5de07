/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel contract: elementwise losses, Adam and RMSprop, distances. */
#include "test_kernels.h"

static const struct uw_exec *plain(void)
{
    static struct uw_exec e;
    e.kernels = uw_test_table();
    return &e;
}

/* Updates run on three threads. */
static int update(const struct uw_adam *a, const struct uw_rmsprop *r, size_t n, const float *g,
                  float *w, float *m, float *v)
{
    const struct uw_update_kernels *k = uw_test_table()->update;
    struct uw_test_exec e;
    uw_test_exec_begin(&e, 3, 0);
    int rc = a != NULL ? k->adam(&e.exec, n, a, g, w, m, v) : k->rmsprop(&e.exec, n, r, g, w, v, m);
    uw_test_exec_end(&e);
    return rc;
}

static const size_t lengths[] = {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 33, 1000, 70001};
#define LENGTHS_N (sizeof lengths / sizeof *lengths)

static double loss_in_double(enum uw_elementwise_loss kind, double delta, double z, double t,
                             double *slope)
{
    double d = z - t, size = fabs(d), side = d > 0.0 ? 1.0 : d < 0.0 ? -1.0 : 0.0;

    switch (kind) {
    case UW_ELEMENTWISE_BCE:
        *slope = 1.0 / (1.0 + exp(-z)) - t;
        return fmax(z, 0.0) - z * t + log1p(exp(-fabs(z)));
    case UW_ELEMENTWISE_MSE:
        *slope = 2.0 * d;
        return d * d;
    case UW_ELEMENTWISE_L1:
        *slope = side;
        return size;
    default:
        *slope = size <= delta ? d : delta * side;
        return size <= delta ? 0.5 * d * d : delta * (size - 0.5 * delta);
    }
}

static void check_loss(enum uw_elementwise_loss kind, size_t n, float spread)
{
    const struct uw_loss_kernels *k = uw_test_table()->loss;
    float *z = uw_test_random_floats(n), *t = uw_test_random_floats(n), *dz = uw_test_floats(n);
    double sum = NAN, want = 0.0, slope;

    for (size_t i = 0; i < n; i++) {
        z[i] = i % 5 == 0 ? t[i] : z[i] * spread;
    }
    assert_int_equal(k->forward(plain(), kind, 0.5f, n, z, t, &sum), UW_OK);
    assert_int_equal(k->bw_input(plain(), kind, 0.5f, n, z, t, -0.25f, dz), UW_OK);
    for (size_t i = 0; i < n; i++) {
        /* Near |d| = delta, fp32 and double may take different sides: the value is continuous. */
        want += loss_in_double(kind, 0.5, (double)z[i], (double)t[i], &slope);
        uw_test_assert_near((double)dz[i], -0.25 * slope, 2e-7 * (1.0 + fabs(slope)));
    }
    uw_test_assert_near(sum, want, 1e-6 * (fabs(want) + (double)n));
    assert_int_equal(k->bw_input(plain(), kind, 0.5f, n, z, t, -0.25f, t), UW_OK);
    uw_test_assert_same_bits(n, t, dz);
    uw_test_release(z);
    uw_test_release(t);
    uw_test_release(dz);
}

static void test_elementwise_losses_match_definition(void **state)
{
    (void)state;
    for (int kind = UW_ELEMENTWISE_BCE; kind <= UW_ELEMENTWISE_HUBER; kind++) {
        for (size_t l = 0; l < LENGTHS_N; l++) {
            check_loss((enum uw_elementwise_loss)kind, lengths[l], 2.0f);
        }
        check_loss((enum uw_elementwise_loss)kind, 33, 200.0f);
    }
}

static void test_elementwise_losses_show_nan(void **state)
{
    (void)state;
    const struct uw_loss_kernels *k = uw_test_table()->loss;
    for (int kind = UW_ELEMENTWISE_BCE; kind <= UW_ELEMENTWISE_HUBER; kind++) {
        for (int in_target = 0; in_target < 2; in_target++) {
            const float nan_z[2] = {0.5f, in_target ? 0.0f : NAN};
            const float nan_t[2] = {0.0f, in_target ? NAN : 0.0f};
            float *z = uw_test_copy_floats(2, nan_z), *t = uw_test_copy_floats(2, nan_t);
            float *dz = uw_test_floats(2);
            double sum = 0.0;
            enum uw_elementwise_loss loss = (enum uw_elementwise_loss)kind;
            /* BCE's z t is NaN for z = 0 and t = NaN too. */
            assert_int_equal(k->forward(plain(), loss, 0.1f, 2, z, t, &sum), UW_OK);
            assert_int_equal(k->bw_input(plain(), loss, 0.1f, 2, z, t, 1.0f, dz), UW_OK);
            assert_true(isnan(sum) && isfinite(dz[0]) && isnan(dz[1]));
            uw_test_release(z);
            uw_test_release(t);
            uw_test_release(dz);
        }
    }
}

static void check_adam(size_t n, const struct uw_adam *a)
{
    float *g = uw_test_random_floats(n), *w = uw_test_random_floats(n);
    float *m = uw_test_random_floats(n), *v = uw_test_random_floats(n);
    float *w0 = uw_test_copy_floats(n, w), *m0 = uw_test_copy_floats(n, m);

    for (size_t i = 0; i < n; i++) {
        v[i] = fabsf(v[i]) + 0.01f;
    }
    float *v0 = uw_test_copy_floats(n, v);
    assert_int_equal(update(a, NULL, n, g, w, m, v), UW_OK);
    for (size_t i = 0; i < n; i++) {
        double lr = (double)a->lr, decay = (double)a->weight_decay, b1 = (double)a->beta1;
        double b2 = (double)a->beta2, wi = (double)w0[i];
        double gi = (double)g[i] + (a->decoupled ? 0.0 : decay * wi);
        double mi = b1 * (double)m0[i] + (1.0 - b1) * gi;
        double vi = b2 * (double)v0[i] + (1.0 - b2) * gi * gi;
        wi -= a->decoupled ? lr * decay * wi : 0.0;
        wi -= lr * (mi / (double)a->correction1) /
              (sqrt(vi / (double)a->correction2) + (double)a->epsilon);
        uw_test_assert_near((double)m[i], mi, 1e-6);
        uw_test_assert_near((double)v[i], vi, 1e-6);
        uw_test_assert_near((double)w[i], wi, 2e-6 * (1.0 + fabs(wi)));
    }
    float *const blocks[] = {g, w, m, v, w0, m0, v0};
    for (size_t i = 0; i < 7; i++) {
        uw_test_release(blocks[i]);
    }
}

static void test_adam_matches_definition(void **state)
{
    (void)state;
    struct uw_adam a = {.lr = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f,
                        .correction1 = 0.1f, .correction2 = 0.3f};
    for (size_t l = 0; l < LENGTHS_N; l++) {
        a.decoupled = false;
        a.weight_decay = 0.0f;
        check_adam(lengths[l], &a);
        a.weight_decay = 0.1f;
        check_adam(lengths[l], &a);
        a.decoupled = true;
        check_adam(lengths[l], &a);
    }
}

static void check_rmsprop(size_t n, const struct uw_rmsprop *r)
{
    float *g = uw_test_random_floats(n), *w = uw_test_random_floats(n);
    float *v = uw_test_random_floats(n), *b = uw_test_random_floats(n);
    float *w0 = uw_test_copy_floats(n, w), *b0 = uw_test_copy_floats(n, b);

    for (size_t i = 0; i < n; i++) {
        v[i] = fabsf(v[i]) + 0.01f;
    }
    float *v0 = uw_test_copy_floats(n, v);
    float *momentum = r->momentum != 0.0f ? b : NULL;
    assert_int_equal(update(NULL, r, n, g, w, momentum, v), UW_OK);
    for (size_t i = 0; i < n; i++) {
        double gi = (double)g[i] + (double)r->weight_decay * (double)w0[i];
        double vi = (double)r->alpha * (double)v0[i] + (1.0 - (double)r->alpha) * gi * gi;
        double d = gi / (sqrt(vi) + (double)r->epsilon);
        d += momentum != NULL ? (double)r->momentum * (double)b0[i] : 0.0;
        double wi = (double)w0[i] - (double)r->lr * d;
        uw_test_assert_near((double)v[i], vi, 1e-6);
        uw_test_assert_near((double)w[i], wi, 2e-6 * (1.0 + fabs(wi)));
        uw_test_assert_near((double)b[i], momentum != NULL ? d : (double)b0[i],
                            4e-6 * (1.0 + fabs(d)));
    }
    float *const blocks[] = {g, w, v, b, w0, b0, v0};
    for (size_t i = 0; i < 7; i++) {
        uw_test_release(blocks[i]);
    }
}

static void test_rmsprop_matches_definition(void **state)
{
    (void)state;
    struct uw_rmsprop r = {.lr = 0.1f, .alpha = 0.9f, .epsilon = 1e-6f, .weight_decay = 0.1f};
    for (size_t l = 0; l < LENGTHS_N; l++) {
        r.momentum = 0.0f;
        check_rmsprop(lengths[l], &r);
        r.momentum = 0.9f;
        check_rmsprop(lengths[l], &r);
    }
}

static void test_distance_matches_sum_in_double(void **state)
{
    (void)state;
    const struct uw_kernels *k = uw_test_table();
    for (size_t l = 0; l < LENGTHS_N; l++) {
        size_t n = lengths[l];
        float *x = uw_test_random_floats(n), *y = uw_test_random_floats(n);
        double between = 0.0, norm = 0.0;
        for (size_t i = 0; i < n; i++) {
            double d = (double)x[i] - (double)y[i];
            between += d * d;
            norm += (double)x[i] * (double)x[i];
        }
        uw_test_assert_near(k->distance_sq(plain(), n, x, y), between, 1e-12 * between);
        uw_test_assert_near(k->distance_sq(plain(), n, x, NULL), norm, 1e-12 * norm);
        if (n > 0) {
            x[n / 2] = NAN;
            assert_true(isnan(k->distance_sq(plain(), n, x, y)));
        }
        uw_test_release(y);
        uw_test_release(x);
    }
}

const struct CMUnitTest uw_test_training[] = {
    cmocka_unit_test(test_elementwise_losses_match_definition),
    cmocka_unit_test(test_elementwise_losses_show_nan),
    cmocka_unit_test(test_adam_matches_definition),
    cmocka_unit_test(test_rmsprop_matches_definition),
    cmocka_unit_test(test_distance_matches_sum_in_double),
};
const size_t uw_test_training_n = sizeof uw_test_training / sizeof *uw_test_training;
