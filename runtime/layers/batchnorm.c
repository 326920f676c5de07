/* SPDX-License-Identifier: Apache-2.0
 *
 * aux keeps [channels][2] statistics of the forward pass, then [2][channels] sums of the backward
 * pass. Without a backward pass there is no aux, and the statistics are in scratch. Recomputation
 * reads the statistics in aux.
 *
 * A deferred batch norm only computes statistics; the convolution that reads it does the rest. */
#include "layer_shared.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    int rc = uw_norm_infer(l, in, err);

    l->tensors_n += 2;
    l->aux_bytes = (size_t)l->geometry.norm.channels * 4 * sizeof(float);
    return rc;
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    (void)k;
    (void)batch_n;
    (void)threads;
    return (size_t)l->geometry.norm.channels * 2 * sizeof(float);
}

static const float *gamma_of(const struct uw_layer *l)
{
    return l->def->norm.no_affine ? NULL : l->param[0];
}

static const float *beta_of(const struct uw_layer *l)
{
    return l->def->norm.no_affine ? NULL : l->param[1];
}

static float *sums_of(const struct uw_layer *l)
{
    return (float *)l->aux + 2 * (size_t)l->geometry.norm.channels;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    const struct uw_norm_kernels *k = e->kernels->norm;
    const struct uw_norm *g = &l->geometry.norm;
    float *mean = l->param[l->tensors_n - 2], *var = l->param[l->tensors_n - 1];
    float *stats = l->aux != NULL ? l->aux : e->scratch;
    bool of_minibatch = p->training && !l->def->frozen;
    int rc;

    if (of_minibatch && l->deferred) {
        return k->batchnorm_stats(e, g, p->batch_n, x[0], stats, p->again ? NULL : mean,
                                  p->again ? NULL : var);
    }
    if (of_minibatch && p->again && l->aux != NULL) {
        return k->batchnorm_fw(e, g, p->batch_n, x[0], stats, gamma_of(l), beta_of(l), y);
    }
    if (of_minibatch) {
        return k->batchnorm_stats_fw(e, g, p->batch_n, x[0], stats, p->again ? NULL : mean,
                                     p->again ? NULL : var, gamma_of(l), beta_of(l), y);
    }
    rc = k->batchnorm_running(e, g, mean, var, stats);
    if (rc < 0 || l->deferred) {
        return rc;
    }
    return k->batchnorm_fw(e, g, p->batch_n, x[0], stats, gamma_of(l), beta_of(l), y);
}

struct uw_input_norm uw_deferred_norm(const struct uw_layer *batchnorm)
{
    return (struct uw_input_norm){.stats = batchnorm->aux, .gamma = gamma_of(batchnorm),
                                  .beta = beta_of(batchnorm),
                                  .ceiling = batchnorm->geometry.norm.ceiling};
}

/* A frozen layer needs no sums: its statistics are constants and its parameters have no gradient.
 * If earlier layers need a gradient, bw_input computes the sums. */
static int bw_prepare(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                      const float *const *x)
{
    if (l->def->frozen || l->passes_down) {
        return UW_OK;
    }
    if (uw_gradient_of(p) != NULL) {
        const struct uw_input_norm norm = uw_deferred_norm(l);
        return uw_batchnorm_bw(e, l, p, x[0], &norm, NULL, false);
    }
    return e->kernels->norm->batchnorm_bw_sums(e, &l->geometry.norm, p->batch_n, x[0], l->aux,
                                               gamma_of(l), beta_of(l), l->dy, sums_of(l));
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    const struct uw_norm_kernels *k = e->kernels->norm;

    (void)which;
    if (l->def->frozen) {
        return k->batchnorm_bw_input(e, &l->geometry.norm, p->batch_n, x[0], l->aux, gamma_of(l),
                                     beta_of(l), NULL, l->dy, dx, accumulate);
    }
    if (uw_gradient_of(p) != NULL) {
        const struct uw_input_norm norm = uw_deferred_norm(l);
        return uw_batchnorm_bw(e, l, p, x[0], &norm, dx, accumulate);
    }
    return k->batchnorm_bw_sums_input(e, &l->geometry.norm, p->batch_n, x[0], l->aux, gamma_of(l),
                                      beta_of(l), l->dy, sums_of(l), dx, accumulate);
}

/* Checks the sums rather than dy: where a ReLU is closed, dy may be anything. */
static bool bw_finite(const struct uw_exec *e, const struct uw_layer *l)
{
    return e->kernels->all_finite(e, 2 * (size_t)l->geometry.norm.channels, sums_of(l));
}

static bool take_relu(struct uw_layer *l, const struct uw_kernels *k, float ceiling)
{
    (void)k;
    l->geometry.norm.ceiling = ceiling;
    return true;
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d)
{
    size_t n = l->geometry.norm.channels;
    const float *sums = sums_of(l);
    int rc = UW_OK;

    (void)x;
    if (uw_gradient_of(p) != NULL) {
        return UW_OK; /* bw_prepare or bw_input computed it */
    }
    if (d[0] != NULL) {
        rc = e->kernels->axpby(e, n, scale, sums + n, 1.0f, d[0]);
    }
    if (d[1] != NULL && rc == UW_OK) {
        rc = e->kernels->axpby(e, n, scale, sums, 1.0f, d[1]);
    }
    return rc;
}

const struct uw_layer_ops uw_layer_batchnorm = {
    .name = "batchnorm",
    .input_reads_x = true,
    .param_reads_x = true,
    .gradient_in_place = true,
    .again_reads_aux = true,
    .infer = infer,
    .take_relu_behind = take_relu,
    .tensor = uw_norm_tensor,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_prepare = bw_prepare,
    .bw_finite = bw_finite,
    .bw_input = bw_input,
    .bw_param = bw_param,
};
