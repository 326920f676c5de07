/* SPDX-License-Identifier: Apache-2.0
 *
 * One kernel per kind of activation, so that there is no branch on the kind inside. */
#include "map.cuh"

namespace {

__device__ inline float sigmoid(float x)
{
    float small = expf(-fabsf(x)); /* no overflow on either side */
    return (x < 0.0f ? small : 1.0f) / (1.0f + small);
}

/* The normal distribution function and density. */
__device__ inline float normal_below(float x)
{
    return 0.5f * (1.0f + erff(x * 0.707106781f));
}

__device__ inline float normal_density(float x)
{
    return 0.398942280f * expf(-0.5f * x * x);
}

__device__ inline float gelu_argument(float x)
{
    return 0.797884561f * (x + 0.044715f * x * x * x);
}

template <int KIND> __device__ inline float value_of(float x, float slope)
{
    switch (KIND) {
    case UW_ACTIVATION_RELU6:
        return x <= 0.0f ? 0.0f : x >= 6.0f ? 6.0f : x; /* NaN stays */
    case UW_ACTIVATION_LEAKY_RELU:
        return x < 0.0f ? slope * x : x;
    case UW_ACTIVATION_SIGMOID:
        return sigmoid(x);
    case UW_ACTIVATION_TANH:
        return tanhf(x);
    case UW_ACTIVATION_GELU:
        return x * normal_below(x);
    case UW_ACTIVATION_GELU_TANH:
        return 0.5f * x * (1.0f + tanhf(gelu_argument(x)));
    default:
        return x * sigmoid(x);
    }
}

__device__ inline float gelu_tanh_slope(float v)
{
    float s = tanhf(gelu_argument(v));
    return 0.5f * (1.0f + s) +
           0.5f * v * (1.0f - s * s) * 0.797884561f * (1.0f + 0.134145f * v * v);
}

/* f'(x) dy; v as in the slot. */
template <int KIND> __device__ inline float slope_of(float v, float dy, float slope)
{
    float s;
    switch (KIND) {
    case UW_ACTIVATION_RELU6:
        return v > 0.0f && v < 6.0f ? dy : 0.0f;
    case UW_ACTIVATION_LEAKY_RELU:
        return v > 0.0f ? dy : slope * dy;
    case UW_ACTIVATION_SIGMOID:
        return v * (1.0f - v) * dy;
    case UW_ACTIVATION_TANH:
        return (1.0f - v * v) * dy;
    case UW_ACTIVATION_GELU:
        return (normal_below(v) + v * normal_density(v)) * dy;
    case UW_ACTIVATION_GELU_TANH:
        return gelu_tanh_slope(v) * dy;
    default:
        s = sigmoid(v);
        return s * (1.0f + v * (1.0f - s)) * dy;
    }
}

template <int KIND> struct value : uw_map_plain {
    float slope;
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        out[0] = value_of<KIND>(in[0], slope);
    }
};

/* in: v, dy, and dx to add to */
template <int KIND, bool ADD> struct gradient : uw_map_plain {
    float slope;
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        float d = slope_of<KIND>(in[0], in[1], slope);
        out[0] = ADD ? in[2] + d : d;
    }
};

struct call {
    const struct uw_exec *e;
    size_t n;
    float slope;
    const float *x, *dy;
    float *y;
    bool accumulate;
};

template <int KIND> int run_forward(const struct call &c)
{
    value<KIND> f;
    f.slope = c.slope;
    return uw_map(c.e, c.n, uw_arrays<1, 1>{{c.x}, {c.y}}, f);
}

template <int KIND> int run_backward(const struct call &c)
{
    if (c.accumulate) {
        gradient<KIND, true> f;
        f.slope = c.slope;
        return uw_map(c.e, c.n, uw_arrays<3, 1>{{c.x, c.dy, c.y}, {c.y}}, f);
    }
    gradient<KIND, false> f;
    f.slope = c.slope;
    return uw_map(c.e, c.n, uw_arrays<2, 1>{{c.x, c.dy}, {c.y}}, f);
}

template <int KIND> int run(const struct call &c)
{
    return c.dy != NULL ? run_backward<KIND>(c) : run_forward<KIND>(c);
}

int run_kind(enum uw_activation_kind kind, const struct call &c)
{
    switch (kind) {
    case UW_ACTIVATION_RELU6:
        return run<UW_ACTIVATION_RELU6>(c);
    case UW_ACTIVATION_LEAKY_RELU:
        return run<UW_ACTIVATION_LEAKY_RELU>(c);
    case UW_ACTIVATION_SIGMOID:
        return run<UW_ACTIVATION_SIGMOID>(c);
    case UW_ACTIVATION_TANH:
        return run<UW_ACTIVATION_TANH>(c);
    case UW_ACTIVATION_GELU:
        return run<UW_ACTIVATION_GELU>(c);
    case UW_ACTIVATION_GELU_TANH:
        return run<UW_ACTIVATION_GELU_TANH>(c);
    case UW_ACTIVATION_SILU:
        break;
    }
    return run<UW_ACTIVATION_SILU>(c);
}

int forward(const struct uw_exec *e, const struct uw_activation *a, size_t n, const float *x,
            float *y)
{
    if (a->kind >= UW_ACTIVATION_FUNCTION) {
        return UW_ERR_UNSUPPORTED;
    }
    const enum uw_activation_kind kind = static_cast<enum uw_activation_kind>(a->kind);
    return run_kind(kind, {e, n, a->slope, x, NULL, y, false});
}

int bw_input(const struct uw_exec *e, const struct uw_activation *a, size_t n, const float *v,
             const float *dy, float *dx, bool accumulate)
{
    if (a->kind >= UW_ACTIVATION_FUNCTION) {
        return UW_ERR_UNSUPPORTED;
    }
    const enum uw_activation_kind kind = static_cast<enum uw_activation_kind>(a->kind);
    return n == 0 ? UW_OK : run_kind(kind, {e, n, a->slope, v, dy, dx, accumulate});
}

/* The two halves of uw_rng_mix (runtime/rng.c): a thread computes what depends on the seed once. */
__device__ inline uint64_t finalize(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

__device__ inline uint64_t of_seed(uint64_t seed)
{
    return finalize(seed + 0x9e3779b97f4a7c15u);
}

__device__ inline uint64_t of_stream(uint64_t seeded, uint64_t stream)
{
    return finalize(seeded + (stream + 1) * 0x9e3779b97f4a7c15u);
}

/* in: x, and y to add to */
template <bool ADD> struct dropout {
    const struct uw_cuda_step *step;
    uint64_t noise, first;
    uint32_t layer;
    float rate, scale;
    __device__ bool begin(void)
    {
        noise = step != NULL ? step->values.noise : noise;
        noise = of_seed(of_stream(of_seed(noise), layer));
        return true;
    }
    /* Always multiplies, also by 0, so that NaN stays NaN. */
    __device__ void operator()(size_t i, const float *in, float *out) const
    {
        float u = static_cast<float>(of_stream(noise, first + i) >> 40) * 5.9604644775390625e-8f;
        float y = in[0] * (u >= rate ? scale : 0.0f);
        out[0] = ADD ? in[1] + y : y;
    }
};

template <bool ADD>
dropout<ADD> dropout_of(const struct uw_exec *e, const struct uw_dropout *d, uint64_t first)
{
    dropout<ADD> f;
    f.step = uw_cuda_open_step(e);
    f.noise = d->noise;
    f.first = first;
    f.layer = d->layer;
    f.rate = d->rate;
    f.scale = 1.0f / (1.0f - d->rate);
    return f;
}

int run_dropout(const struct uw_exec *e, const struct uw_dropout *d, uint64_t first, size_t n,
                const float *x, float *y, bool accumulate)
{
    if (accumulate) {
        return uw_map(e, n, uw_arrays<2, 1>{{x, y}, {y}}, dropout_of<true>(e, d, first));
    }
    return uw_map(e, n, uw_arrays<1, 1>{{x}, {y}}, dropout_of<false>(e, d, first));
}

} // namespace

extern const struct uw_activation_kernels uw_activation_cuda = {forward, bw_input, run_dropout};
