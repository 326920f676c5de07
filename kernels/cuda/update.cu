/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside a step, values that change from step to step are read from the GPU's memory. An element
 * with a non-finite gradient is not changed, and stops the step: later launches change nothing;
 * which other elements the same launch still changes depends on timing. Outside of a step the slots
 * behave as on the processor.
 *
 * Segments with contiguous gradients but separate parameters are updated in one launch; a block
 * belongs to one segment. */
#include "map.cuh"
#include "reduce.cuh"

namespace {

/* The open step; step is NULL outside of one. */
struct guard {
    struct uw_cuda_step *step;
    uint32_t segment;

    __device__ bool runs(void) const
    {
        return step == NULL || uw_racing(&step->sums.stopped) == UW_DEVICE_RUNS;
    }

    /* May g change its parameter? */
    __device__ bool takes(float g) const
    {
        if (step == NULL || uw_is_finite(g)) {
            return true;
        }
        if (atomicCAS(&step->sums.stopped, static_cast<unsigned>(UW_DEVICE_RUNS),
                      static_cast<unsigned>(UW_DEVICE_STOP_GRADIENT)) == UW_DEVICE_RUNS) {
            step->sums.where = segment;
        }
        return false;
    }
};

struct guard guard_of(const struct uw_exec *e)
{
    struct uw_cuda *c = uw_cuda_of(e);
    return {c->in_step ? c->step : NULL, c->segments[0].index};
}

/* in: g, w, v where there is one; out: w, v where it changes */
template <bool MOMENTUM, bool FROZEN> struct sgd {
    struct uw_sgd s;
    struct guard guard;

    __device__ bool begin(void)
    {
        if (guard.step != NULL) {
            s.lr = guard.step->values.lr;
            s.weight_decay = guard.step->values.weight_decay;
        }
        return guard.runs();
    }

    __device__ void operator()(size_t, const float *in, float *out) const
    {
        float w = in[1], d = in[0] + s.weight_decay * w, v = MOMENTUM ? in[MOMENTUM ? 2 : 0] : 0.0f;
        bool takes = guard.takes(in[0]);
        if (FROZEN) {
            d += s.momentum * v;
        } else if (MOMENTUM) {
            float next = s.momentum * v + d;
            d = s.nesterov ? d + s.momentum * next : next;
            out[1] = takes ? next : v;
        }
        out[0] = takes ? w - s.lr * d : w;
    }
};

/* in: g, w, m, v; out: w, m, v */
struct adam_step {
    struct uw_adam a;
    struct guard guard;
    float shrink, decay, step, root;

    __device__ bool begin(void)
    {
        if (guard.step != NULL) {
            a.lr = guard.step->values.lr;
            a.weight_decay = guard.step->values.weight_decay;
            a.correction1 = guard.step->values.correction1;
            a.correction2 = guard.step->values.correction2;
        }
        shrink = a.decoupled ? 1.0f - a.lr * a.weight_decay : 1.0f;
        decay = a.decoupled ? 0.0f : a.weight_decay;
        step = a.lr / a.correction1;
        root = sqrtf(a.correction2);
        return guard.runs();
    }

    __device__ void operator()(size_t, const float *in, float *out) const
    {
        bool takes = guard.takes(in[0]);
        float g = in[0] + decay * in[1];
        float m = in[2] + (1.0f - a.beta1) * (g - in[2]);
        float v = a.beta2 * in[3] + (1.0f - a.beta2) * g * g;
        float w = shrink * in[1] - step * m / (sqrtf(v) / root + a.epsilon);
        out[0] = takes ? w : in[1];
        out[1] = takes ? m : in[2];
        out[2] = takes ? v : in[3];
    }
};

/* in: g, w, v, and b with momentum; out: w, v, b */
template <bool MOMENTUM> struct rmsprop_step {
    struct uw_rmsprop r;
    struct guard guard;

    __device__ bool begin(void)
    {
        if (guard.step != NULL) {
            r.lr = guard.step->values.lr;
            r.weight_decay = guard.step->values.weight_decay;
        }
        return guard.runs();
    }

    __device__ void operator()(size_t, const float *in, float *out) const
    {
        bool takes = guard.takes(in[0]);
        float g = in[0] + r.weight_decay * in[1];
        float v = r.alpha * in[2] + (1.0f - r.alpha) * g * g;
        float d = g / (sqrtf(v) + r.epsilon);
        if (MOMENTUM) {
            float b = in[MOMENTUM ? 3 : 0];
            d += r.momentum * b;
            out[MOMENTUM ? 2 : 0] = takes ? d : b;
        }
        out[0] = takes ? in[1] - r.lr * d : in[1];
        out[1] = takes ? v : in[2];
    }
};

#define BLOCK_N (UW_BLOCK * 8u)     /* parameters of a block, unless the segment is very large */

/* Segments of one launch; the blocks of segment i begin at first[i]. */
struct segments {
    struct uw_device_segment of[UW_DEVICE_SEGMENTS_MAX];
    uint32_t first[UW_DEVICE_SEGMENTS_MAX + 1];
    uint32_t n;
};

/* A segment's offset is w_n for w (in[1] and out[0]), state_n for the other arrays. */
template <int IN, int OUT, typename F>
__global__ void update_segments(struct segments s, uw_arrays<IN, OUT> a, F f)
{
    uint32_t low = 0, high = s.n;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        low = s.first[middle] <= blockIdx.x ? middle : low;
        high = s.first[middle] <= blockIdx.x ? high : middle;
    }
    const struct uw_device_segment of = s.of[low];
    size_t block = blockIdx.x - s.first[low], blocks = s.first[low + 1] - s.first[low];
    size_t head, quads;
#pragma unroll
    for (int k = 0; k < IN; k++) {
        a.in[k] += k == 1 ? of.w_n : of.state_n;
    }
#pragma unroll
    for (int k = 0; k < OUT; k++) {
        a.out[k] += k == 0 ? of.w_n : of.state_n;
    }
    uw_map_cut(of.size_n, a, &head, &quads);
    f.guard.segment = of.index;
    if (f.begin()) {
        uw_map_share(of.size_n, head, quads, a, f, block * blockDim.x + threadIdx.x,
                     blocks * blockDim.x);
    }
}

/* Launch an update, for the segments set by struct uw_device_kernels's `segments`, which are then
 * cleared. */
template <int IN, int OUT, typename F>
int update(const struct uw_exec *e, size_t n, const uw_arrays<IN, OUT> &a, const F &f)
{
    struct uw_cuda *c = uw_cuda_of(e);
    struct segments s;
    s.n = c->segments_n;
    c->segments_n = 0;
    if (s.n < 2) {
        return uw_map(e, n, a, f);
    }
    uint32_t blocks = 0, most = c->multiprocessors * 16u;
    for (uint32_t i = 0; i < s.n; i++) {
        uint32_t own = (c->segments[i].size_n + BLOCK_N - 1u) / BLOCK_N;
        s.of[i] = c->segments[i];
        s.first[i] = blocks;
        blocks += own < most ? own : most;
    }
    s.first[s.n] = blocks;
    return uw_launch(e, blocks, UW_BLOCK, update_segments<IN, OUT, F>, s, a, f);
}

int adam(const struct uw_exec *e, size_t n, const struct uw_adam *a, const float *g, float *w,
         float *m, float *v)
{
    adam_step f{};
    f.a = *a;
    f.guard = guard_of(e);
    return update(e, n, uw_arrays<4, 3>{{g, w, m, v}, {w, m, v}}, f);
}

int rmsprop(const struct uw_exec *e, size_t n, const struct uw_rmsprop *r, const float *g,
            float *w, float *v, float *b)
{
    if (r->momentum != 0.0f) {
        return update(e, n, uw_arrays<4, 3>{{g, w, v, b}, {w, v, b}},
                      rmsprop_step<true>{*r, guard_of(e)});
    }
    return update(e, n, uw_arrays<3, 2>{{g, w, v}, {w, v}},
                  rmsprop_step<false>{*r, guard_of(e)});
}

} // namespace

extern const struct uw_update_kernels uw_update_cuda = {adam, rmsprop};

int uw_sgd_update_cuda(const struct uw_exec *e, size_t n, const struct uw_sgd *s, const float *g,
                       float *w, float *v)
{
    if (s->momentum == 0.0f) {
        return update(e, n, uw_arrays<2, 1>{{g, w}, {w}}, sgd<false, false>{*s, guard_of(e)});
    }
    if (s->frozen) {
        return update(e, n, uw_arrays<3, 1>{{g, w, v}, {w}}, sgd<true, true>{*s, guard_of(e)});
    }
    return update(e, n, uw_arrays<3, 2>{{g, w, v}, {w, v}}, sgd<true, false>{*s, guard_of(e)});
}

/* parts[block] = the block's sum of squares. */
static __global__ void squares(size_t n, const float *g, double *parts)
{
    __shared__ double shared[UW_WARPS];
    double sum = uw_block_sum(uw_squares_share(n, g, NULL), shared);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
    }
}

/* Every block adds the parts in the same order, so that all use the same factor. */
static __global__ void shrink(size_t n, float *g, double most, unsigned parts_n,
                              const double *parts)
{
    __shared__ double shared[UW_WARPS];
    double norm = sqrt(uw_parts_sum(parts, parts_n, shared));
    double factor = most / (norm + 1e-6);
    if (!(factor < 1.0)) {
        return; /* if the norm is NaN, the update will stop */
    }
    UW_EACH(i, n) {
        g[i] *= static_cast<float>(factor);
    }
}

void uw_segments_cuda(const struct uw_exec *e, const struct uw_device_segment *s, uint32_t n)
{
    struct uw_cuda *c = uw_cuda_of(e);
    c->segments_n = n < UW_DEVICE_SEGMENTS_MAX ? n : UW_DEVICE_SEGMENTS_MAX;
    for (uint32_t i = 0; i < c->segments_n; i++) {
        c->segments[i] = s[i];
    }
}

int uw_clip_cuda(const struct uw_exec *e, float most, size_t n, float *g)
{
    double *parts = static_cast<double *>(uw_cuda_of(e)->partials);
    unsigned blocks = uw_parts_of(e, n, 16);
    int rc = uw_launch(e, blocks, UW_BLOCK, squares, n, g, parts);
    return rc < 0 ? rc : uw_launch(e, uw_grid(e, n, 8), UW_BLOCK, shrink, n, g,
                                   static_cast<double>(most), blocks, parts);
}
