/* SPDX-License-Identifier: Apache-2.0
 *
 * The ReLU after a layer, done together with the layer's bias in at most one pass over the output.
 * In the backward pass, mask and bias gradient are one pass over dy, in place. Also the other calls
 * of layers to uw_fused.
 *
 * The backward pass over dy is part of the layer's step: the ReLU may be in a later stage, whose
 * backward pass runs before the layer's output is recomputed. So the output is needed one step
 * longer than with a ReLU layer, at the same time as the gradients of the layer's inputs. If memory
 * use peaks there, it grows by that output (resnet20: 16 kB per sample, 1 %). */
#include "layer_shared.h"

#include "graph.h"

#include <math.h>

bool uw_take_relu_behind(struct uw_layer *l, const struct uw_kernels *k, float ceiling)
{
    if (uw_fused(k) == NULL || l->lora) {
        return false;
    }
    l->relu_behind = true;
    l->relu6 = ceiling < INFINITY;
    l->reads_y = true;
    return true;
}

static bool has_bias(const struct uw_layer *l)
{
    return l->tensors_n == 2;
}

bool uw_take_bias_relu(struct uw_layer *l, const struct uw_kernels *k, float ceiling)
{
    if (!uw_take_relu_behind(l, k, ceiling)) {
        return false;
    }
    if (has_bias(l)) {
        l->aux_bytes = (size_t)l->ops->tensor(l, 1).dim[0] * sizeof(float);
    }
    return true;
}

/* Upper limit of the layer's output. */
static float ceiling_of(const struct uw_layer *l)
{
    return l->relu6 ? 6.0f : INFINITY;
}

int uw_relu_behind_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_planes *s,
                      const struct uw_pass *p, bool sums)
{
    float *const *gradient = uw_gradient_of(p);
    float *to = gradient != NULL ? gradient[1] : l->aux;
    return uw_fused(e->kernels)->relu_bw(e, s->n, s->channels, s->inner_n, ceiling_of(l),
                                         l->y, l->dy, sums ? to : NULL);
}

int uw_add_bias_sums(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                     uint32_t channels, float scale, float *db)
{
    return uw_gradient_of(p) != NULL ? UW_OK
                                     : e->kernels->axpby(e, channels, scale, l->aux, 1.0f, db);
}

int uw_dense_relu(const struct uw_exec *e, const struct uw_layer *l, uint32_t rows, const float *x,
                  const float *b, float *y)
{
    return uw_fused(e->kernels)->dense_relu(e, &l->geometry.dense, rows, x, l->param[0], b,
                                            ceiling_of(l), y);
}

bool uw_dense_bw_is_one(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                        uint32_t rows)
{
    float *const *gradient = uw_gradient_of(p);
    return gradient != NULL && gradient[0] != NULL && !l->lora &&
           uw_fused(e->kernels) != NULL &&
           uw_fused(e->kernels)->dense_bw_takes(e->kernels, &l->geometry.dense, rows);
}

int uw_dense_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                uint32_t rows, const float *x, float *dx, bool accumulate)
{
    float *const *gradient = p->gradient;
    const struct uw_dense_back b = {
        .batch_n = rows, .x = x, .w = l->param[0], .dy = l->dy,
        .y = l->relu_behind ? l->y : NULL, .ceiling = ceiling_of(l), .dx = dx,
        .accumulate = accumulate, .dw = gradient[0], .db = has_bias(l) ? gradient[1] : NULL};
    return uw_fused(e->kernels)->dense_bw(e, &l->geometry.dense, &b);
}

int uw_batchnorm_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *x, const struct uw_input_norm *norm, float *dx, bool accumulate)
{
    const size_t channels = l->geometry.norm.channels;
    float *const *gradient = p->gradient;
    float *unwanted = (float *)l->aux + 2 * channels;   /* gradient of an untrained tensor */
    return uw_fused(e->kernels)->batchnorm_bw(e, &l->geometry.norm, p->batch_n, x, norm, l->dy,
                                              gradient[0] != NULL ? gradient[0]
                                                                  : unwanted + channels,
                                              gradient[1] != NULL ? gradient[1] : unwanted, dx,
                                              accumulate);
}

static struct uw_planes planes(const struct uw_layer *l, const struct uw_pass *p)
{
    const struct uw_conv2d *g = &l->geometry.conv2d;
    return (struct uw_planes){p->batch_n, g->out_channels, (size_t)g->out_h * g->out_w};
}

int uw_conv2d_bias_relu(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                        const float *x, float *y)
{
    return uw_fused(e->kernels)->conv2d_bias_relu(e, &l->geometry.conv2d, p->batch_n, x,
                                                  l->param[0], has_bias(l) ? l->param[1] : NULL,
                                                  ceiling_of(l), y);
}

bool uw_conv2d_bias_by_sums(const struct uw_exec *e, const struct uw_layer *l,
                            const struct uw_pass *p)
{
    return has_bias(l) && (l->trained & 2u) != 0 &&
           uw_fused(e->kernels)->conv2d_bias_apart(e->kernels, &l->geometry.conv2d, p->batch_n);
}

int uw_conv2d_relu_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                      const float *const *x)
{
    const struct uw_planes s = planes(l, p);
    (void)x;
    return l->relu_behind ? uw_relu_behind_bw(e, l, &s, p, uw_conv2d_bias_by_sums(e, l, p))
                          : UW_OK;
}

int uw_add_relu_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x)
{
    const struct uw_planes s = {p->batch_n, 1, l->out_n};
    (void)x;
    return l->relu_behind && !uw_add_cuts_in_input(l) ? uw_relu_behind_bw(e, l, &s, p, false)
                                                      : UW_OK;
}

/* Where to write the gradient of input `which`; l is an element of the array of all layers. */
static const float *gradient_below(const struct uw_layer *l, uint32_t which)
{
    const struct uw_layer *all = l - l->index;
    uint32_t base = uw_graph_base(all, l->input[which]);
    return base != UW_VALUE_INPUT && all[base - 1].needs_gradient ? all[base - 1].dy : NULL;
}

bool uw_add_cuts_in_input(const struct uw_layer *l)
{
    const float *first = gradient_below(l, 0), *second = gradient_below(l, 1);
    return l->relu_behind && l->inputs_n == 2 && first != NULL && second != NULL &&
           second != l->dy;
}

int uw_add_relu_bw_input(const struct uw_exec *e, const struct uw_layer *l, size_t n,
                         uint32_t which, float *dx, bool accumulate)
{
    bool in_place = gradient_below(l, 0) == l->dy;
    if (which == 0 && in_place) {
        return UW_OK; /* done together with the second input */
    }
    if (which == 0 || in_place) {
        return uw_fused(e->kernels)->relu_bw_copy(e, n, ceiling_of(l), l->y, l->dy, dx,
                                                  accumulate);
    }
    return e->kernels->axpby(e, n, 1.0f, l->dy, accumulate ? 1.0f : 0.0f, dx);
}

int uw_add_relu(const struct uw_exec *e, const struct uw_layer *l, size_t n, const float *const *x,
                float *y)
{
    const struct uw_fused_kernels *k = uw_fused(e->kernels);
    const float *sum = x[0];
    int rc = UW_OK;

    for (uint32_t i = 1; i < l->inputs_n && rc == UW_OK; i++) {
        bool cut = l->relu_behind && i + 1u == l->inputs_n;
        rc = k->add_relu(e, n, sum, x[i], cut ? ceiling_of(l) : 0.0f, y);
        sum = y;
    }
    return rc;
}
