/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor of the model as a value: one for all samples of a minibatch. */
#include "layer_shared.h"

#include <string.h>

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    (void)in;
    const struct uw_parameter_def *d = &l->def->parameter;
    uint32_t dim[UW_AXES_MAX] = {1, 1, 1, 1};

    if (d->rank < 1 || d->rank > UW_AXES_MAX) {
        return uw_error_set(err, UW_ERR_INVALID, "%u sizes: needs 1 to 4", (unsigned)d->rank);
    }
    for (uint32_t i = 0; i < d->rank; i++) {
        dim[i] = d->dim[i];
        if (dim[i] == 0) {
            return uw_error_set(err, UW_ERR_INVALID, "size %u is 0", (unsigned)i + 1);
        }
    }
    l->tensors_n = 1;
    l->out = l->in = uw_shape_of_axes(d->rank, dim);
    l->in_n = uw_shape_size(&l->in);
    return UW_OK;
}

static struct uw_layer_tensor tensor(const struct uw_layer *l, uint32_t t)
{
    (void)t;
    const struct uw_parameter_def *d = &l->def->parameter;
    struct uw_layer_tensor w = {.suffix = "", .rank = d->rank, .init = UW_INIT_NORMAL,
                                .value = d->value, .deviation = d->deviation,
                                .statistic = d->constant};
    memcpy(w.dim, d->dim, d->rank * sizeof d->dim[0]);
    return w;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    (void)p;
    (void)x;
    return e->kernels->axpby(e, l->out_n, 1.0f, l->param[0], 0.0f, y);
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d)
{
    (void)p;
    (void)x;
    return e->kernels->axpby(e, l->out_n, scale, l->dy, 1.0f, d[0]);
}

const struct uw_layer_ops uw_layer_parameter = {
    .name = "parameter",
    .processor_only = true,
    .infer = infer,
    .tensor = tensor,
    .forward = forward,
    .bw_param = bw_param,
};
