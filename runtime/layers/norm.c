/* SPDX-License-Identifier: Apache-2.0
 *
 * Group norm and layer norm: aux keeps the statistics of every group. */
#include "layer_shared.h"

#include <string.h>

int uw_norm_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_norm_def *d = &l->def->norm;
    struct uw_norm *g = &l->geometry.norm;

    *g = (struct uw_norm){.channels = in->c, .inner = l->in_n / in->c, .groups = 1,
                          .epsilon = d->epsilon != 0.0f ? d->epsilon : 1e-5f,
                          .momentum = d->momentum != 0.0f ? d->momentum : 0.1f};
    if (!(g->epsilon > 0.0f) || !(g->momentum > 0.0f && g->momentum <= 1.0f)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "epsilon needs to be above 0, momentum above 0 and at most 1");
    }
    l->tensors_n = d->no_affine ? 0 : 2;
    return UW_OK;
}

struct uw_layer_tensor uw_norm_tensor(const struct uw_layer *l, uint32_t t)
{
    static const struct uw_layer_tensor tensors[4] = {
        {.suffix = "weight", .init = UW_INIT_ONE},
        {.suffix = "bias", .bias = true},
        {.suffix = "running_mean", .statistic = true},
        {.suffix = "running_var", .init = UW_INIT_ONE, .statistic = true,
         .variance = true}};

    struct uw_layer_tensor tensor = tensors[l->def->norm.no_affine ? t + 2 : t];
    tensor.rank = 1;
    tensor.dim[0] = l->geometry.norm.channels;
    return tensor;
}

static int groupnorm_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    uint32_t groups = l->def->norm.groups;
    int rc = uw_norm_infer(l, in, err);

    if (rc == UW_OK && (groups == 0 || in->c % groups != 0)) {
        return uw_error_set(err, groups == 0 ? UW_ERR_INVALID : UW_ERR_SHAPE,
                            "groups %u: needs 1 or more that divide the %u channels",
                            (unsigned)groups, (unsigned)in->c);
    }
    l->geometry.norm.groups = groups;
    l->aux_sample_bytes = (size_t)groups * 2 * sizeof(float);
    return rc;
}

/* To the kernels, each row that is normalized is a sample. */
static uint32_t rows_of(const struct uw_layer *l)
{
    return l->in_n / (l->geometry.norm.channels * l->geometry.norm.inner);
}

static int layernorm_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    uint32_t axes = l->def->norm.axes != 0 ? l->def->norm.axes : 1;
    struct uw_norm *g = &l->geometry.norm;
    int rc = uw_norm_infer(l, in, err);

    if (rc < 0) {
        return rc;
    }
    if (axes > in->rank) {
        return uw_error_set(err, UW_ERR_SHAPE, "axes %u: its input has %u", (unsigned)axes,
                            (unsigned)in->rank);
    }
    g->inner = 1;
    uint32_t dim[UW_AXES_MAX];
    uw_axes_of(in, dim);
    g->channels = 1;
    for (uint32_t i = in->rank - axes; i < in->rank; i++) {
        g->channels *= dim[i];
    }
    l->aux_sample_bytes = (size_t)rows_of(l) * 2 * sizeof(float);
    return UW_OK;
}

static struct uw_layer_tensor layernorm_tensor(const struct uw_layer *l, uint32_t t)
{
    uint32_t axes = l->def->norm.axes != 0 ? l->def->norm.axes : 1;
    struct uw_layer_tensor tensor = uw_norm_tensor(l, t);
    uint32_t dim[UW_AXES_MAX];

    uw_axes_of(&l->in, dim);
    tensor.rank = axes;
    memcpy(tensor.dim, dim + l->in.rank - axes, axes * sizeof dim[0]);
    return tensor;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    return e->kernels->norm->groupnorm_fw(e, &l->geometry.norm, p->batch_n * rows_of(l), x[0],
                                          l->param[0], l->param[1], y, l->aux);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)which;
    return e->kernels->norm->groupnorm_bw_input(e, &l->geometry.norm, p->batch_n * rows_of(l),
                                                x[0], l->param[0], l->aux, l->dy, dx, accumulate);
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d)
{
    return e->kernels->norm->groupnorm_bw_param(e, &l->geometry.norm, p->batch_n * rows_of(l),
                                                x[0], l->aux, l->dy, scale, d[0], d[1]);
}

#define REST .input_reads_x = true, .param_reads_x = true, \
    .forward = forward, .bw_input = bw_input, .bw_param = bw_param

const struct uw_layer_ops uw_layer_groupnorm = {
    .name = "groupnorm", .infer = groupnorm_infer, .tensor = uw_norm_tensor, REST};
const struct uw_layer_ops uw_layer_layernorm = {
    .name = "layernorm", .infer = layernorm_infer, .tensor = layernorm_tensor, REST};
