/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses are summed in double, in a fixed order. Inside a step the sums stay on the GPU. */
#include "map.cuh"
#include "reduce.cuh"
#include "rows.cuh"

#define ONE_BLOCK_N 4096u           /* up to this many values, one block adds the losses */
#define HEADS_MAX 8u

namespace {

/* A block's partial loss and count of correct rows. */
struct part {
    double loss;
    uint32_t correct;
};

/* Destination of a slot's results: in the step, or in struct uw_cuda_numbers. */
struct numbers {
    double *loss;
    uint32_t *correct;
};

struct numbers numbers_of(const struct uw_exec *e, double *loss, uint32_t *correct)
{
    struct uw_cuda *c = uw_cuda_of(e);
    if (c->in_step) {
        return {loss, correct};
    }
    return {&c->numbers_at->d[0], &c->numbers_at->u[0]};
}

/* Outside of a step: wait, and return the results to the caller. */
int return_results(const struct uw_exec *e, int rc, double *loss, uint32_t *correct)
{
    struct uw_cuda_numbers got;
    if (rc < 0 || uw_cuda_of(e)->in_step) {
        return rc;
    }
    rc = uw_cuda_numbers(e, &got);
    if (rc == UW_OK && loss != NULL) {
        *loss = got.d[0];
    }
    if (rc == UW_OK && correct != NULL) {
        *correct = got.u[0];
    }
    return rc;
}

/* Arguments of add_losses; step NULL: nothing to add. */
struct adding {
    struct uw_cuda_step *step;
    double weight[HEADS_MAX];
    uint32_t heads_n;
    double samples;
};

struct adding adding_of(const struct uw_exec *e, const float *weight, uint32_t heads_n,
                        uint32_t samples)
{
    struct adding a{};
    a.step = uw_cuda_of(e)->step;
    for (uint32_t i = 0; i < heads_n; i++) {
        a.weight[i] = static_cast<double>(weight[i]);
    }
    a.heads_n = heads_n;
    a.samples = static_cast<double>(samples);
    return a;
}

/* Add the heads' losses (at most eight), by one thread. */
__device__ inline void add_up(const struct adding &a)
{
    struct uw_device_sums *s = &a.step->sums;
    double total = s->total;
    if (s->stopped == UW_DEVICE_SKIP && total == 0.0) {
        s->stopped = UW_DEVICE_RUNS; /* the skip was for the previous step */
    }
#pragma unroll
    for (uint32_t i = 0; i < HEADS_MAX; i++) {
        if (i < a.heads_n) {
            total = fma(a.weight[i], s->loss[i], total); /* fma: same bits in both kernels */
            s->loss[i] = 0.0;
        }
    }
    s->total = total;
    s->correct_total += s->correct[0];
    s->correct[0] = 0;
    if (s->stopped != UW_DEVICE_RUNS) {
        return;
    }
    if (!(fabs(total) <= 1.7976931348623157e308)) {
        s->stopped = UW_DEVICE_STOP_LOSS;
    } else if (total > a.step->values.loss_limit * a.samples) {
        s->stopped = UW_DEVICE_SKIP;
    }
}

__global__ void add_losses(struct adding a)
{
    add_up(a);
}

/* Where a kernel puts its results. */
struct outcome {
    struct numbers to;
    struct adding add;
    struct part *parts;             /* of blocks */
    uint32_t *ticket;
};

struct outcome outcome_of(const struct uw_exec *e, const struct numbers &to,
                          const struct adding &add)
{
    struct uw_cuda *c = uw_cuda_of(e);
    return {to, add, static_cast<struct part *>(c->partials), c->tickets};
}

/* The last block adds the parts, writes the results, and adds them to the step's total. */
__device__ inline void finish(double loss, uint32_t correct, const struct outcome &out)
{
    __shared__ double losses[UW_WARPS];
    __shared__ uint32_t counts[UW_WARPS];
    loss = uw_block_sum(loss, losses);
    correct = uw_block_sum(correct, counts);
    if (gridDim.x > 1) {
        if (threadIdx.x == 0) {
            out.parts[blockIdx.x].loss = loss;
            out.parts[blockIdx.x].correct = correct;
        }
        if (!uw_last_block(out.ticket, gridDim.x)) {
            return;
        }
        loss = 0.0;
        correct = 0;
        for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
            loss += __ldcg(&out.parts[i].loss);
            correct += __ldcg(&out.parts[i].correct);
        }
        loss = uw_block_sum(loss, losses);
        correct = uw_block_sum(correct, counts);
    }
    if (threadIdx.x != 0) {
        return;
    }
    if (out.to.loss != NULL) {
        *out.to.loss = loss;
    }
    if (out.to.correct != NULL) {
        *out.to.correct = correct;
    }
    if (out.add.step != NULL) {
        add_up(out.add);
    }
}

/* Softmax cross-entropy of rows; back: p becomes the gradient, scale * (p - q), q being `on` at the
 * label and `off` elsewhere. */
struct xent {
    uint32_t batch_n, classes;
    float smoothing;
    const float *logits;
    const uint32_t *label;
    float *p;
    bool back;
    float scale, on, off;
};

struct xent xent_of(uint32_t batch_n, uint32_t classes, float smoothing, const float *logits,
                    const uint32_t *label, float *p)
{
    struct xent x{};
    x.batch_n = batch_n;
    x.classes = classes;
    x.smoothing = smoothing;
    x.logits = logits;
    x.label = label;
    x.p = p;
    x.off = smoothing / static_cast<float>(classes);
    x.on = 1.0f - smoothing + x.off;
    return x;
}

/* Compute one row with LANES lanes: p, its loss, and whether it is correct. Lane 0 adds to *loss
 * and *correct. */
template <unsigned LANES>
__device__ inline void row_forward(const struct xent &x, uint32_t row_n, unsigned lane,
                                   float *shared, double *loss, uint32_t *correct)
{
    const size_t at = static_cast<size_t>(row_n) * x.classes;
    const float *logits = x.logits + at;
    float *p = x.p + at;
    const uint32_t label = x.label[row_n];
    struct uw_top top = uw_row_top<LANES>(x.classes, logits, lane, shared);
    float label_logit = logits[label] - top.value, sum = 0.0f;
    double shifted = 0.0;
    uw_row_wait<LANES>(); /* p may be logits */
    for (uint32_t i = lane; i < x.classes; i += LANES) {
        float z = logits[i] - top.value;
        float small = expf(z);
        if (x.smoothing != 0.0f) { /* double is slow on small GPUs */
            shifted += static_cast<double>(z);
        }
        p[i] = small;
        sum += small;
    }
    sum = uw_row_sum<LANES>(sum, shared);
    for (uint32_t i = lane; i < x.classes; i += LANES) {
        float of = p[i] / sum;
        p[i] = x.back ? x.scale * (of - (i == label ? x.on : x.off)) : of;
    }
    double row = 0.0;
    if (x.smoothing != 0.0f) {
        row = -static_cast<double>(x.smoothing) *
              uw_row_sum<LANES>(shifted, reinterpret_cast<double *>(shared)) / x.classes;
    }
    if (lane == 0) {
        /* log of the sum, not of p: p may have underflowed to 0. */
        *loss += row + static_cast<double>(logf(sum)) -
                 static_cast<double>(1.0f - x.smoothing) * static_cast<double>(label_logit);
        *correct += top.index == label ? 1u : 0u;
    }
}

template <unsigned LANES>
__global__ void xent_forward(struct xent x, struct outcome out)
{
    __shared__ double shared[UW_WARPS];
    uint32_t per_block = blockDim.x / LANES, correct = 0;
    double loss = 0.0;
    for (uint32_t row = blockIdx.x * per_block + threadIdx.x / LANES; row < x.batch_n;
         row += gridDim.x * per_block) {
        row_forward<LANES>(x, row, threadIdx.x % LANES, reinterpret_cast<float *>(shared), &loss,
                           &correct);
    }
    finish(loss, correct, out);
}

/* in: p; one division gives the row and the class of element i. */
struct xent_slope : uw_map_plain {
    const uint32_t *label;
    uint32_t classes;
    float scale, on, off;
    __device__ void operator()(size_t i, const float *in, float *out) const
    {
        uint32_t row, column;
        if (i <= UINT32_MAX) {
            row = static_cast<uint32_t>(i) / classes;
            column = static_cast<uint32_t>(i) - row * classes;
        } else {
            row = static_cast<uint32_t>(i / classes);
            column = static_cast<uint32_t>(i % classes);
        }
        out[0] = scale * (in[0] - (column == label[row] ? on : off));
    }
};

template <int KIND> __device__ inline float loss_at(float delta, float z, float t)
{
    float d = z - t;
    float size = fabsf(d);
    switch (KIND) {
    case UW_ELEMENTWISE_BCE:
        return (z > 0.0f ? z : 0.0f) - z * t + log1pf(expf(-fabsf(z)));
    case UW_ELEMENTWISE_MSE:
        return d * d;
    case UW_ELEMENTWISE_L1:
        return size;
    default:
        return size <= delta ? 0.5f * d * d : delta * (size - 0.5f * delta);
    }
}

__device__ inline float sign_of(float d)
{
    return d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : d; /* 0 and NaN stay */
}

template <int KIND> __device__ inline float slope_at(float delta, float z, float t)
{
    float d = z - t, small;
    switch (KIND) {
    case UW_ELEMENTWISE_BCE:
        small = expf(-fabsf(z));
        return (z >= 0.0f ? 1.0f : small) / (1.0f + small) - t;
    case UW_ELEMENTWISE_MSE:
        return 2.0f * d;
    case UW_ELEMENTWISE_L1:
        return sign_of(d);
    default:
        return fabsf(d) <= delta ? d : delta * sign_of(d);
    }
}

template <int KIND>
__global__ void elementwise_forward(size_t n, float delta, const float *z, const float *t,
                                    struct outcome out)
{
    double loss = 0.0;
    UW_EACH(i, n) {
        loss += static_cast<double>(loss_at<KIND>(delta, z[i], t[i]));
    }
    finish(loss, 0, out);
}

/* in: z, t */
template <int KIND> struct elementwise_slope : uw_map_plain {
    float delta, scale;
    __device__ void operator()(size_t, const float *in, float *out) const
    {
        out[0] = scale * slope_at<KIND>(delta, in[0], in[1]);
    }
};

struct elementwise_call {
    const struct uw_exec *e;
    float delta, scale;
    size_t n;
    const float *z, *t;
    double *sum;                    /* NULL: the gradient */
    float *dz;
};

template <int KIND> int run(const struct elementwise_call &c)
{
    if (c.sum == NULL) {
        elementwise_slope<KIND> f;
        f.delta = c.delta;
        f.scale = c.scale;
        return uw_map(c.e, c.n, uw_arrays<2, 1>{{c.z, c.t}, {c.dz}}, f);
    }
    unsigned blocks = c.n <= ONE_BLOCK_N ? 1 : uw_parts_of(c.e, c.n, 8);
    int rc = uw_launch(c.e, blocks, UW_BLOCK, elementwise_forward<KIND>, c.n, c.delta, c.z, c.t,
                       outcome_of(c.e, numbers_of(c.e, c.sum, NULL), adding{}));
    return return_results(c.e, rc, c.sum, NULL);
}

int run_kind(enum uw_elementwise_loss kind, const struct elementwise_call &c)
{
    switch (kind) {
    case UW_ELEMENTWISE_BCE:
        return run<UW_ELEMENTWISE_BCE>(c);
    case UW_ELEMENTWISE_MSE:
        return run<UW_ELEMENTWISE_MSE>(c);
    case UW_ELEMENTWISE_L1:
        return run<UW_ELEMENTWISE_L1>(c);
    case UW_ELEMENTWISE_HUBER:
        break;
    }
    return run<UW_ELEMENTWISE_HUBER>(c);
}

int forward(const struct uw_exec *e, enum uw_elementwise_loss kind, float delta, size_t n,
            const float *z, const float *t, double *sum)
{
    return run_kind(kind, {e, delta, 0.0f, n, z, t, sum, NULL});
}

int bw_input(const struct uw_exec *e, enum uw_elementwise_loss kind, float delta, size_t n,
             const float *z, const float *t, float scale, float *dz)
{
    return run_kind(kind, {e, delta, scale, n, z, t, NULL, dz});
}

/* A warp per row: write its targets, and count whether it is correct. */
__global__ void onehot(uint32_t rows, uint32_t n, const uint32_t *label, const float *z, float *t,
                       struct outcome out)
{
    unsigned lane = threadIdx.x % UW_LANES, per_block = blockDim.x / UW_LANES;
    uint32_t correct = 0;
    for (uint32_t row = blockIdx.x * per_block + threadIdx.x / UW_LANES; row < rows;
         row += gridDim.x * per_block) {
        size_t at = static_cast<size_t>(row) * n;
        struct uw_top top = uw_row_top<UW_LANES>(n, z + at, lane, NULL);
        for (uint32_t i = lane; i < n; i += UW_LANES) {
            t[at + i] = i == label[row] ? 1.0f : 0.0f;
        }
        correct += lane == 0 && top.index == label[row] ? 1u : 0u;
    }
    finish(0.0, correct, out);
}

/* The number of blocks, for per_block rows per block and iteration. */
unsigned blocks_of(const struct uw_exec *e, uint32_t rows, unsigned per_block)
{
    size_t blocks = (static_cast<size_t>(rows) + per_block - 1u) / per_block;
    return blocks == 0 ? 1 : uw_parts_of(e, blocks * UW_BLOCK, 1);
}

template <unsigned LANES>
int run_rows(const struct uw_exec *e, const struct xent &x, const struct outcome &out)
{
    bool together = LANES < UW_LANES && x.batch_n <= UW_BLOCK;
    unsigned blocks = together ? 1 : blocks_of(e, x.batch_n, UW_BLOCK / LANES);
    return uw_launch(e, blocks, UW_BLOCK, xent_forward<LANES>, x, out);
}

int run_xent(const struct uw_exec *e, const struct xent &x, const struct numbers &to,
             const struct adding &add)
{
    const struct outcome out = outcome_of(e, to, add);
    return x.classes <= UW_LANES   ? run_rows<4>(e, x, out)
           : x.classes <= UW_BLOCK ? run_rows<UW_LANES>(e, x, out)
                                   : run_rows<UW_BLOCK>(e, x, out);
}

} // namespace

extern const struct uw_loss_kernels uw_loss_cuda = {forward, bw_input};

int uw_softmax_xent_fw_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,
                            float smoothing, const float *logits, const uint32_t *label, float *p,
                            double *loss_sum, uint32_t *correct_n)
{
    struct numbers to = numbers_of(e, loss_sum, correct_n);
    int rc = run_xent(e, xent_of(batch_n, classes, smoothing, logits, label, p), to, adding{});
    return return_results(e, rc, loss_sum, correct_n);
}

int uw_softmax_xent_bw_input_cuda(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,
                                  float smoothing, const float *p, const uint32_t *label,
                                  float scale, float *dlogits)
{
    const struct xent x = xent_of(batch_n, classes, smoothing, NULL, label, NULL);
    xent_slope f;
    f.label = label;
    f.classes = classes;
    f.scale = scale;
    f.on = x.on;
    f.off = x.off;
    return uw_map(e, static_cast<size_t>(batch_n) * classes, uw_arrays<1, 1>{{p}, {dlogits}}, f);
}

int uw_add_losses_cuda(const struct uw_exec *e, const float *weight, uint32_t heads_n,
                       uint32_t samples)
{
    if (heads_n > HEADS_MAX) {
        return UW_ERR_UNSUPPORTED;
    }
    return uw_launch(e, 1, 1, add_losses, adding_of(e, weight, heads_n, samples));
}

int uw_xent_step_cuda(const struct uw_exec *e, const struct uw_device_xent *x)
{
    struct uw_device_sums *sums = &uw_cuda_of(e)->step->sums;
    struct xent rows = xent_of(x->batch_n, x->classes, x->smoothing, x->logits, x->label,
                               x->dlogits);
    rows.back = true;
    rows.scale = x->scale;
    return run_xent(e, rows, {&sums->loss[0], &sums->correct[0]},
                    adding_of(e, &x->weight, 1, x->samples));
}

int uw_onehot_cuda(const struct uw_exec *e, uint32_t rows, uint32_t n, const uint32_t *label,
                   const float *z, float *t, uint32_t *correct_n)
{
    unsigned blocks = blocks_of(e, rows, UW_BLOCK / UW_LANES);
    int rc = uw_launch(e, blocks, UW_BLOCK, onehot, rows, n, label, z, t,
                       outcome_of(e, numbers_of(e, NULL, correct_n), adding{}));
    return return_results(e, rc, NULL, correct_n);
}
