/* SPDX-License-Identifier: Apache-2.0
 *
 * ReLU, ReLU6, leaky ReLU, sigmoid and tanh compute their gradient from their output and work in
 * place; the others need their input. ReLU has kernels of its own. */
#include "layer_shared.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    (void)in;
    const struct uw_activation_def *d = &l->def->activation;
    struct uw_activation *a = &l->geometry.activation;

    *a = (struct uw_activation){.slope = d->slope != 0.0f ? d->slope : 0.01f};
    switch (l->def->kind) {
    case UW_LAYER_RELU6:
        a->kind = UW_ACTIVATION_RELU6;
        break;
    case UW_LAYER_LEAKY_RELU:
        a->kind = UW_ACTIVATION_LEAKY_RELU;
        break;
    case UW_LAYER_SIGMOID:
        a->kind = UW_ACTIVATION_SIGMOID;
        break;
    case UW_LAYER_TANH:
        a->kind = UW_ACTIVATION_TANH;
        break;
    case UW_LAYER_GELU:
        a->kind = d->tanh ? UW_ACTIVATION_GELU_TANH : UW_ACTIVATION_GELU;
        break;
    case UW_LAYER_SILU:
        a->kind = UW_ACTIVATION_SILU;
        break;
    default:
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "no such activation");
    }
    if (!(a->slope > 0.0f && a->slope <= 3.0e38f)) {
        return uw_error_set(err, UW_ERR_INVALID, "slope %g: needs to be above 0",
                            (double)a->slope);
    }
    return UW_OK;
}

void uw_function_numbers(const struct uw_function_def *d, float *a, float *b)
{
    static const float defaults[][2] = {
        [UW_FUNCTION_SCALE] = {1.0f, 0.0f},
        [UW_FUNCTION_CLIP] = {-1.0f, 1.0f},
        [UW_FUNCTION_ELU] = {1.0f, 0.0f},
        [UW_FUNCTION_SELU] = {1.67326324f, 1.05070099f},
        [UW_FUNCTION_CELU] = {1.0f, 0.0f},
        [UW_FUNCTION_SOFTPLUS] = {1.0f, 0.0f},
        [UW_FUNCTION_HARDSIGMOID] = {1.0f / 6.0f, 0.5f},
        [UW_FUNCTION_QUICK_GELU] = {1.702f, 0.0f},
    };
    bool given = d->a != 0.0f || d->b != 0.0f ||
                 (uint32_t)d->function >= sizeof defaults / sizeof defaults[0];
    *a = given ? d->a : defaults[d->function][0];
    *b = given ? d->b : defaults[d->function][1];
}

static int function_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    (void)in;
    const struct uw_function_def *d = &l->def->function;
    struct uw_activation *g = &l->geometry.activation;
    *g = (struct uw_activation){.kind = UW_ACTIVATION_FUNCTION + (uint32_t)d->function};
    uw_function_numbers(d, &g->a, &g->b);
    return d->function <= UW_FUNCTION_STEP
               ? UW_OK
               : uw_error_set(err, UW_ERR_UNSUPPORTED, "no such function");
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    return e->kernels->activation->forward(e, &l->geometry.activation,
                                           (size_t)p->batch_n * l->out_n, x[0], y);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)which;
    return e->kernels->activation->bw_input(e, &l->geometry.activation,
                                            (size_t)p->batch_n * l->out_n,
                                            l->ops->reads_y ? l->y : x[0], l->dy, dx, accumulate);
}

static int relu_forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                        const float *const *x, float *y)
{
    return e->kernels->relu_fw(e, (size_t)p->batch_n * l->out_n, x[0], y);
}

static int relu_bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                         const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    return e->kernels->relu_bw_input(e, (size_t)p->batch_n * l->out_n, l->y, l->dy, dx, accumulate);
}

#define FROM_OUTPUT .reads_y = true, .in_place = true, .gradient_in_place = true
#define FROM_INPUT .input_reads_x = true
#define REST .infer = infer, .forward = forward, .bw_input = bw_input

const struct uw_layer_ops uw_layer_relu = {
    .name = "relu", FROM_OUTPUT, .forward = relu_forward, .bw_input = relu_bw_input};
const struct uw_layer_ops uw_layer_relu6 = {.name = "relu6", FROM_OUTPUT, REST};
const struct uw_layer_ops uw_layer_leaky_relu = {.name = "leaky_relu", FROM_OUTPUT, REST};
const struct uw_layer_ops uw_layer_sigmoid = {.name = "sigmoid", FROM_OUTPUT, REST};
const struct uw_layer_ops uw_layer_tanh = {.name = "tanh", FROM_OUTPUT, REST};
const struct uw_layer_ops uw_layer_gelu = {.name = "gelu", FROM_INPUT, REST};
const struct uw_layer_ops uw_layer_silu = {.name = "silu", FROM_INPUT, REST};
const struct uw_layer_ops uw_layer_function = {.name = "function", FROM_INPUT,
                                               .processor_only = true,
                                               .infer = function_infer, .forward = forward,
                                               .bw_input = bw_input};
