/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of a model against central differences of the same model in double. */
#ifndef UWASA_TEST_GRADIENT_CHECK_H
#define UWASA_TEST_GRADIENT_CHECK_H

#include "test_support.h"

#include "double_model.h"
#include "model_fixture.h"

/* Where the gradient of float i of the flat vector stands; UINT32_MAX: it is not trained. */
static inline uint32_t gradient_index(const struct uw_model *m, uint32_t i)
{
    const struct uw_segment *s = m->params.segments;
    while (i >= s->offset_n + s->size_n) {
        s++;
    }
    return s->state_n != UINT32_MAX ? s->state_n + (i - s->offset_n) : UINT32_MAX;
}

/* Sampled gradients of m against central differences of d. A kink (ReLU, max) inside the difference
 * makes one-sided slopes disagree; such points are no judge and are skipped, but most must be
 * good. */
static inline void check_slopes(const struct uw_model *m, struct double_model *d,
                                const uint32_t *label, uint32_t n, struct uw_rng *r)
{
    const uint32_t slopes_n = uw_test_slow() ? 40 : 120;
    uint32_t judged = 0, skipped = 0;

    for (uint32_t t = 0; t < slopes_n && m->params.size_n > 0; t++) {
        uint32_t i = t < m->params.segments_n ? m->params.segments[t].offset_n
                                               : uw_rng_below(r, m->params.size_n);
        uint32_t g = gradient_index(m, i);
        if (g == UINT32_MAX) {
            continue;
        }
        double h = 1e-5, keep = d->params[i];
        double middle = double_model_loss(d, label, n);
        d->params[i] = keep + h;
        double up = double_model_loss(d, label, n);
        d->params[i] = keep - h;
        double down = double_model_loss(d, label, n);
        d->params[i] = keep;
        double want = (up - down) / (2 * h);
        if (fabs((up - middle) - (middle - down)) / h > 1e-4 + 1e-3 * fabs(want)) {
            skipped++;
            continue;
        }
        judged++;
        if (fabs((double)m->gradients[g] - want) > 2e-5 + 2e-4 * fabs(want)) {
            fail_msg("%s, parameter %u: gradient %g, central difference %g", m->config.def->name,
                     (unsigned)i, (double)m->gradients[g], want);
        }
    }
    assert_true(judged >= 4 * skipped);
}

/* Values for n samples; where a class is wanted one of them, or one that does not count. */
static inline void random_targets(struct uw_rng *r, const struct uw_model *m, uint32_t n, float *t)
{
    for (size_t i = 0; i < (size_t)n * m->target_n; i++) {
        t[i] = uw_rng_uniform(r);
        for (uint32_t h = 0; h < m->heads_n; h++) {
            const struct uw_head *head = &m->heads[h];
            bool classes = head->def->kind == UW_LOSS_CROSS_ENTROPY &&
                           head->def->target == UW_TARGET_VALUES;
            uint32_t at = (uint32_t)(i % m->target_n) - head->def->first;
            uint32_t values_n = uw_head_values(m->layers, head);
            if (classes && at < values_n) {
                t[i] = i % 3 == 2 ? -1.0f : (float)uw_rng_below(r, head->n / values_n);
            }
        }
    }
}

/* Loss and gradients of a step on n random samples. What the configuration does not train is not
 * judged; minibatch, mode and optimizer are set here. */
static inline void check_gradients_with(const struct uw_model_config *config, uint32_t n,
                                        uint64_t seed)
{
    struct fixture f = {.config = *config};
    struct uw_rng r;
    struct uw_step_result result;
    struct double_model d;

    f.config.batch_n = n + 1;
    f.config.mode = UW_PLAN_FULL;
    f.config.optimizer = (struct uw_optimizer){.lr = 0.0f};
    if (open_config(&f) != UW_OK) {
        fail_msg("%s: %s", config->def->name, f.err.text);
    }
    uw_model_init_weights(&f.m, seed);
    uw_rng_seed(&r, seed);
    for (uint32_t i = 0; i < f.m.params.size_n; i++) {
        f.m.params.x[i] += 0.1f * uw_rng_normal(&r); /* biases too */
    }
    float *x = uw_test_floats((size_t)n * f.m.input_n);
    uint32_t *label = uw_test_block(n * sizeof *label);
    random_batch(&r, &f.m, n, x, label);
    float *target = uw_test_floats((size_t)n * f.m.target_n);
    random_targets(&r, &f.m, n, target);
    const struct uw_minibatch batch = {.x = x, .label = label, .target = target, .n = n};
    int rc = uw_model_train_step(&f.m, &batch, &result, &f.err);
    if (rc != UW_OK) {
        fail_msg("%s: %s", config->def->name, f.err.text);
    }
    double_model_init(&d, &f.m, n, x, target);
    assert_true(fabs(double_model_loss(&d, label, n) - result.loss) < 1e-4 * (1 + result.loss));
    check_slopes(&f.m, &d, label, n, &r);
    double_model_deinit(&d);
    uw_test_release(x);
    uw_test_release(label);
    uw_test_release(target);
    close_model(&f);
}

static inline void check_gradients(const struct uw_model_def *def, uint32_t n, uint64_t seed)
{
    const struct uw_model_config config = {.def = def, .kernels = &uw_kernels_ref};
    check_gradients_with(&config, n, seed);
}

#endif
