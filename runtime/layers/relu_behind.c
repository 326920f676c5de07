/* SPDX-License-Identifier: Apache-2.0
 *
 * A ReLU behind a layer, done with its bias in one pass over the output; on the way back the mask
 * and the bias' gradient are one pass over dy, in place.
 *
 * That pass belongs to the layer's own step, since the ReLU may be of a later stage, whose backward
 * pass runs before the layer's output is computed again. So the output lives beside the gradients
 * of the layer's inputs, for one step longer than with a ReLU of its own: where the most memory is
 * in use just then it is that much more (resnet20: an output of its last blocks, 16 kB a sample,
 * 1 %), for one pass over memory less. */
#include "layers.h"

#include <math.h>

bool uw_take_relu_behind(struct uw_layer *l, const struct uw_kernels *k, float ceiling)
{
    if (uw_fused(k) == NULL || l->lora_rank != 0) {
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
        struct uw_layer_tensor bias;
        l->ops->tensor(l, 1, &bias);
        l->aux_bytes = (size_t)bias.dim[0] * sizeof(float);
    }
    return true;
}

float uw_relu_ceiling(const struct uw_layer *l)
{
    return l->relu6 ? 6.0f : INFINITY;
}

int uw_bias_relu(const struct uw_exec *e, const struct uw_layer *l, const struct uw_planes *s,
                 const float *b, float *y)
{
    return uw_fused(e->kernels)->bias_relu(e, s->n, s->channels, s->inner_n, b,
                                           uw_relu_ceiling(l), y);
}

int uw_relu_behind_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_planes *s,
                      bool sums)
{
    return uw_fused(e->kernels)->relu_bw(e, s->n, s->channels, s->inner_n, uw_relu_ceiling(l),
                                         l->y, l->dy, sums ? l->aux : NULL);
}

int uw_add_bias_sums(const struct uw_exec *e, const struct uw_layer *l, uint32_t channels,
                     float scale, float *db)
{
    return e->kernels->axpby(e, channels, scale, l->aux, 1.0f, db);
}

static struct uw_planes planes(const struct uw_layer *l, const struct uw_pass *p)
{
    const struct uw_conv2d *g = &l->geometry.conv2d;
    return (struct uw_planes){p->batch_n, g->out_channels, (size_t)g->out_h * g->out_w};
}

int uw_conv2d_bias_relu(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                        float *y)
{
    const struct uw_planes s = planes(l, p);
    return uw_bias_relu(e, l, &s, has_bias(l) ? l->param[1] : NULL, y);
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
    return l->relu_behind ? uw_relu_behind_bw(e, l, &s, uw_conv2d_bias_by_sums(e, l, p)) : UW_OK;
}

int uw_add_relu_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x)
{
    const struct uw_planes s = {p->batch_n, 1, l->out_n};
    (void)x;
    return l->relu_behind ? uw_relu_behind_bw(e, l, &s, false) : UW_OK;
}

int uw_add_relu(const struct uw_exec *e, const struct uw_layer *l, size_t n, const float *const *x,
                float *y)
{
    const struct uw_fused_kernels *k = uw_fused(e->kernels);
    const float *sum = x[0];
    int rc = UW_OK;

    for (uint32_t i = 1; i < l->inputs_n && rc == UW_OK; i++) {
        bool cut = l->relu_behind && i + 1u == l->inputs_n;
        rc = k->add_relu(e, n, sum, x[i], cut ? uw_relu_ceiling(l) : 0.0f, y);
        sum = y;
    }
    return rc;
}
