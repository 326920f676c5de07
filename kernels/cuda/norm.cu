/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch norm. A channel of up to ONE_BLOCK values, or any channel if they are enough to fill the
 * GPU, is processed by one block in one launch: it reads x for the sums, and again, from the cache,
 * to apply them. Otherwise blocks write partial sums, and a second launch adds and applies them.
 * Slots for half of the work divide channels in the same way, which gives the same bits. */
#include "norm.cuh"

#define ONE_BLOCK 32768u

struct job {
    struct uw_channel_cut cut;
    const float *x, *dy, *gamma, *beta, *stats_in, *sums_in;
    float *y;                   /* y, or dx */
    float *stats, *running_mean, *running_var;
    float *plain, *projected;   /* [channels] sums of the backward pass */
    double *partials;           /* NULL: stats_in, sums_in */
    double count, each;         /* values of a channel, and 1 over that */
    float epsilon, momentum, ceiling;
    bool accumulate;
};

struct channel {
    struct uw_norm_pair pair;
    float gamma, beta, ceiling;
};

static __device__ __forceinline__ struct channel channel_of(const struct job &j,
                                                            struct uw_norm_pair pair)
{
    return {pair, uw_or(j.gamma, blockIdx.x, 1.0f), uw_or(j.beta, blockIdx.x, 0.0f), j.ceiling};
}

static __device__ __forceinline__ struct uw_norm_pair given_pair(const struct job &j)
{
    return {j.stats_in[2 * static_cast<size_t>(blockIdx.x)],
            j.stats_in[2 * static_cast<size_t>(blockIdx.x) + 1]};
}

static __device__ __forceinline__ float normed(const struct channel &c, float x)
{
    return fmaf(c.gamma, uw_xhat(c.pair, x), c.beta);
}

/* dy after the backward pass of the ReLU. */
static __device__ __forceinline__ float passed(const struct channel &c, float xhat, float dy)
{
    float v = fmaf(c.gamma, xhat, c.beta);
    return c.ceiling == 0.0f || (v > 0.0f && v < c.ceiling) ? dy : 0.0f;
}

/* Store a channel's statistics, by one thread. */
static __device__ void set_stats(const struct job &j, const struct uw_moments &m,
                                 const struct uw_norm_pair &pair)
{
    size_t c = blockIdx.x;
    j.stats[2 * c] = pair.mean;
    j.stats[2 * c + 1] = pair.second;
    if (j.running_mean != nullptr) {
        float mean = j.running_mean[c];
        j.running_mean[c] = fmaf(j.momentum, static_cast<float>(m.mean) - mean, mean);
    }
    if (j.running_var != nullptr && j.count > 1.0) {
        float now = static_cast<float>(m.spread / (j.count - 1.0)), before = j.running_var[c];
        j.running_var[c] = fmaf(j.momentum, now - before, before);
    }
}

template <int W> struct normalize_body {
    typedef uw_floats<W> item;
    const float *x;
    float *y;
    struct channel c;

    __device__ __forceinline__ item load(size_t at) const
    {
        return uw_load<W>(x + at);
    }
    __device__ __forceinline__ void use(item v, size_t at, size_t n)
    {
        (void)n;
        for (int k = 0; k < W; k++) {
            float r = normed(c, v.v[k]);
            if (c.ceiling > 0.0f) {
                r = r <= 0.0f ? 0.0f : r >= c.ceiling ? c.ceiling : r; /* NaN stays */
            }
            v.v[k] = r;
        }
        uw_store<W>(y + at, v);
    }
    __device__ __forceinline__ void fold()
    {
    }
};

template <int W, bool APPLY>
static __global__ void __launch_bounds__(1024) stats_kernel(struct job j)
{
    uw_moments_body<W> body(j.x);
    uw_each_vector<W>(j.cut, body);
    struct uw_moments m = uw_block_moments(body, j.each);
    struct uw_norm_pair pair = uw_pair_of(m, j.each, j.epsilon);
    if (threadIdx.x == 0) {
        set_stats(j, m, pair);
    }
    if (APPLY) {
        normalize_body<W> apply = {j.x, j.y, channel_of(j, pair)};
        uw_each_vector<W>(j.cut, apply);
    }
}

/* Partial moments of a block: count, mean, spread. */
template <int W> static __global__ void __launch_bounds__(512) moments_kernel(struct job j)
{
    uw_moments_body<W> body(j.x);
    uw_each_vector<W>(j.cut, body);
    size_t left = j.cut.all - j.cut.per_split * blockIdx.y;
    double count = static_cast<double>((left < j.cut.per_split ? left : j.cut.per_split) * W);
    struct uw_moments m = uw_block_moments(body, 1.0 / count);
    if (threadIdx.x == 0) {
        double *out = j.partials +
                      3 * (static_cast<size_t>(blockIdx.x) * j.cut.splits + blockIdx.y);
        out[0] = count;
        out[1] = m.mean;
        out[2] = m.spread;
    }
}

/* Combine a channel's partial moments; each warp does it for itself. */
static __device__ struct uw_moments add_moments(const struct job &j)
{
    const double *from = j.partials + 3 * static_cast<size_t>(blockIdx.x) * j.cut.splits;
    const unsigned lane = threadIdx.x % UW_LANES;
    double v[1] = {0.0};
    for (uint32_t s = lane; s < j.cut.splits; s += UW_LANES) {
        v[0] = fma(from[3 * s], from[3 * s + 1], v[0]);
    }
    uw_warp_sums(v);
    double mean = __dmul_rn(v[0], j.each);
    v[0] = 0.0;
    for (uint32_t s = lane; s < j.cut.splits; s += UW_LANES) {
        double d = from[3 * s + 1] - mean;
        v[0] += fma(from[3 * s] * d, d, from[3 * s + 2]);
    }
    uw_warp_sums(v);
    return {mean, v[0]};
}

static __global__ void finish_stats_kernel(struct job j)
{
    struct uw_moments m = add_moments(j);
    if (threadIdx.x == 0) {
        set_stats(j, m, uw_pair_of(m, j.each, j.epsilon));
    }
}

template <int W> static __global__ void __launch_bounds__(1024) normalize_kernel(struct job j)
{
    struct uw_norm_pair pair;
    if (j.partials != nullptr) {
        struct uw_moments m = add_moments(j);
        pair = uw_pair_of(m, j.each, j.epsilon);
        if (threadIdx.x == 0 && blockIdx.y == 0) {
            set_stats(j, m, pair);
        }
    } else {
        pair = given_pair(j);
    }
    normalize_body<W> apply = {j.x, j.y, channel_of(j, pair)};
    uw_each_vector<W>(j.cut, apply);
}

template <int W> struct pair_of_floats {
    uw_floats<W> x, dy;
};

template <int W> struct sums_body {
    typedef pair_of_floats<W> item;
    const float *x, *dy;
    struct channel c;
    float chunk[2];
    double sum[2];

    __device__ __forceinline__ item load(size_t at) const
    {
        return {uw_load<W>(x + at), uw_load<W>(dy + at)};
    }
    __device__ __forceinline__ void use(const item &v, size_t at, size_t n)
    {
        (void)at;
        (void)n;
        for (int k = 0; k < W; k++) {
            float xhat = uw_xhat(c.pair, v.x.v[k]), d = passed(c, xhat, v.dy.v[k]);
            chunk[0] += d;
            chunk[1] = fmaf(d, xhat, chunk[1]);
        }
    }
    __device__ __forceinline__ void fold()
    {
        for (int k = 0; k < 2; k++) {
            sum[k] += static_cast<double>(chunk[k]);
            chunk[k] = 0.0f;
        }
    }
};

template <int W> struct denormalize_body {
    typedef pair_of_floats<W> item;
    const float *x, *dy;
    float *dx;
    struct channel c;
    float a, b, bad;            /* bad: 0, or NaN once a dx was not finite */
    bool accumulate;

    __device__ __forceinline__ item load(size_t at) const
    {
        return {uw_load<W>(x + at), uw_load<W>(dy + at)};
    }
    __device__ __forceinline__ void use(const item &v, size_t at, size_t n)
    {
        (void)n;
        uw_floats<W> out;
        if (accumulate) {
            out = uw_load<W>(dx + at);
        }
        for (int k = 0; k < W; k++) {
            float xhat = uw_xhat(c.pair, v.x.v[k]);
            float d = fmaf(-xhat, b, fmaf(c.gamma, passed(c, xhat, v.dy.v[k]), -a));
            d = accumulate ? fmaf(c.pair.second, d, out.v[k]) : c.pair.second * d;
            bad += d * 0.0f;
            out.v[k] = d;
        }
        uw_store<W>(dx + at, out);
    }
    __device__ __forceinline__ void fold()
    {
    }
};

/* Compute dx for this block's share. Returns whether any dx is not finite. */
template <int W>
static __device__ __forceinline__ bool denormalize(const struct job &j, const struct channel &c,
                                                   float plain, float projected)
{
    float count = static_cast<float>(j.count);
    denormalize_body<W> body = {j.x, j.dy, j.y, c, c.gamma * (plain / count),
                                c.gamma * (projected / count), 0.0f, j.accumulate};
    uw_each_vector<W>(j.cut, body);
    return body.bad != 0.0f; /* NaN is not 0 */
}

template <int W, bool APPLY>
static __global__ void __launch_bounds__(1024) sums_kernel(struct job j)
{
    struct channel c = channel_of(j, given_pair(j));
    sums_body<W> body = {j.x, j.dy, c, {0.0f, 0.0f}, {0.0, 0.0}};
    uw_each_vector<W>(j.cut, body);
    uw_block_sums(body.sum);
    float plain = static_cast<float>(body.sum[0]), projected = static_cast<float>(body.sum[1]);
    bool bad = APPLY && denormalize<W>(j, c, plain, projected);
    if (APPLY) {
        bad = __syncthreads_or(bad) != 0;
    }
    if (threadIdx.x == 0) {
        j.plain[blockIdx.x] = bad ? nanf("") : plain;
        j.projected[blockIdx.x] = projected;
    }
}

template <int W> static __global__ void __launch_bounds__(512) share_kernel(struct job j)
{
    sums_body<W> body = {j.x, j.dy, channel_of(j, given_pair(j)), {0.0f, 0.0f}, {0.0, 0.0}};
    uw_each_vector<W>(j.cut, body);
    uw_block_sums(body.sum);
    if (threadIdx.x == 0) {
        double *out = j.partials +
                      2 * (static_cast<size_t>(blockIdx.x) * j.cut.splits + blockIdx.y);
        out[0] = body.sum[0];
        out[1] = body.sum[1];
    }
    if (threadIdx.x == 0 && blockIdx.y == 0) {
        j.plain[blockIdx.x] = 0.0f; /* denormalize_kernel sets its bits */
    }
}

static __global__ void finish_sums_kernel(struct job j)
{
    double v[2];
    uw_add_splits(j.partials, blockIdx.x, j.cut.splits, v);
    if (threadIdx.x == 0) {
        j.plain[blockIdx.x] = static_cast<float>(v[0]);
        j.projected[blockIdx.x] = static_cast<float>(v[1]);
    }
}

/* After share_kernel, the blocks of a channel set its first sum together, by atomic OR on a 0: one
 * sets the bits of the sum, and each block with a non-finite dx sets all bits, which is a NaN. */
template <int W> static __global__ void __launch_bounds__(512) denormalize_kernel(struct job j)
{
    float plain = 0.0f, projected = 0.0f;
    if (j.partials != nullptr) {
        double v[2];
        uw_add_splits(j.partials, blockIdx.x, j.cut.splits, v);
        plain = static_cast<float>(v[0]);
        projected = static_cast<float>(v[1]);
    } else if (j.sums_in != nullptr) {
        plain = j.sums_in[blockIdx.x];
        projected = j.sums_in[j.cut.channels + blockIdx.x];
    }
    bool bad = denormalize<W>(j, channel_of(j, given_pair(j)), plain, projected);
    if (j.partials == nullptr) {
        return;
    }
    bad = __syncthreads_or(bad) != 0;
    unsigned *bits = reinterpret_cast<unsigned *>(j.plain + blockIdx.x);
    if (threadIdx.x == 0 && bad) {
        atomicOr(bits, 0x7fffffffu);
    }
    if (threadIdx.x == 0 && blockIdx.y == 0) {
        atomicOr(bits, __float_as_uint(plain));
        j.projected[blockIdx.x] = projected;
    }
}

/* each: elementwise, with any number of blocks; else with sums, see above. */
static struct job job_of(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                         const float *x, const float *dy, float *y, bool each)
{
    struct job j = {};
    bool aligned = uw_aligned(x) && uw_aligned(dy) && uw_aligned(y); /* NULL is aligned */
    bool whole = n->channels >= 2 * uw_cuda_of(e)->multiprocessors;
    unsigned splits_max = each ? 65535u : whole ? 1u : UW_SPLITS_MAX;
    j.cut = uw_cut_channels(e, batch_n, n->channels, n->inner, aligned, each ? 4096 : ONE_BLOCK,
                            splits_max);
    j.x = x;
    j.dy = dy;
    j.y = y;
    j.partials = each || j.cut.splits == 1 ? nullptr
                                           : static_cast<double *>(uw_cuda_of(e)->partials);
    j.count = static_cast<double>(batch_n) * static_cast<double>(n->inner);
    j.each = 1.0 / j.count;
    j.epsilon = n->epsilon;
    j.momentum = n->momentum;
    j.ceiling = n->ceiling;
    return j;
}

static bool nothing(const struct uw_norm *n, uint32_t batch_n)
{
    return batch_n == 0 || n->channels == 0 || n->inner == 0;
}

/* Launch the kernel for vectors of four, or for single values. */
static int launch(const struct uw_exec *e, const struct job &j, void (*four)(struct job),
                  void (*one)(struct job))
{
    return uw_launch(e, uw_channel_grid(j.cut), j.cut.threads, j.cut.width == 4 ? four : one, j);
}

static int batchnorm_stats(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                           const float *x, float *stats, float *running_mean, float *running_var)
{
    if (nothing(n, batch_n)) {
        return UW_OK;
    }
    struct job j = job_of(e, n, batch_n, x, nullptr, nullptr, false);
    j.stats = stats;
    j.running_mean = running_mean;
    j.running_var = running_var;
    if (j.partials == nullptr) {
        return launch(e, j, stats_kernel<4, false>, stats_kernel<1, false>);
    }
    int rc = launch(e, j, moments_kernel<4>, moments_kernel<1>);
    return rc < 0 ? rc : uw_launch(e, n->channels, UW_LANES, finish_stats_kernel, j);
}

static int batchnorm_stats_fw(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                              const float *x, float *stats, float *running_mean,
                              float *running_var, const float *gamma, const float *beta, float *y)
{
    if (nothing(n, batch_n)) {
        return UW_OK;
    }
    struct job j = job_of(e, n, batch_n, x, nullptr, y, false);
    j.stats = stats;
    j.running_mean = running_mean;
    j.running_var = running_var;
    j.gamma = gamma;
    j.beta = beta;
    if (j.partials == nullptr) {
        return launch(e, j, stats_kernel<4, true>, stats_kernel<1, true>);
    }
    int rc = launch(e, j, moments_kernel<4>, moments_kernel<1>);
    return rc < 0 ? rc : launch(e, j, normalize_kernel<4>, normalize_kernel<1>);
}

static __global__ void running_kernel(struct job j)
{
    UW_EACH(c, j.cut.channels) {
        j.stats[2 * c] = j.running_mean[c];
        j.stats[2 * c + 1] = 1.0f / sqrtf(j.running_var[c] + j.epsilon);
    }
}

static int batchnorm_running(const struct uw_exec *e, const struct uw_norm *n,
                             const float *running_mean, const float *running_var, float *stats)
{
    struct job j = {};
    j.cut.channels = n->channels;
    j.running_mean = const_cast<float *>(running_mean);
    j.running_var = const_cast<float *>(running_var);
    j.stats = stats;
    j.epsilon = n->epsilon;
    return uw_launch(e, uw_grid(e, n->channels, 1), UW_BLOCK, running_kernel, j);
}

static int batchnorm_fw(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                        const float *x, const float *stats, const float *gamma, const float *beta,
                        float *y)
{
    if (nothing(n, batch_n)) {
        return UW_OK;
    }
    struct job j = job_of(e, n, batch_n, x, nullptr, y, true);
    j.stats_in = stats;
    j.gamma = gamma;
    j.beta = beta;
    return launch(e, j, normalize_kernel<4>, normalize_kernel<1>);
}

int uw_batchnorm_bw_cuda(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                         const float *x, const struct uw_input_norm *norm, const float *dy,
                         float *dgamma, float *dbeta, float *dx, bool accumulate)
{
    if (nothing(n, batch_n)) {
        return UW_OK;
    }
    struct job j = job_of(e, n, batch_n, x, dy, dx, false);
    j.stats_in = norm->stats;
    j.gamma = norm->gamma;
    j.beta = norm->beta;
    j.plain = dbeta;
    j.projected = dgamma;
    j.accumulate = accumulate;
    if (j.partials == nullptr) {
        return dx != nullptr ? launch(e, j, sums_kernel<4, true>, sums_kernel<1, true>)
                             : launch(e, j, sums_kernel<4, false>, sums_kernel<1, false>);
    }
    int rc = launch(e, j, share_kernel<4>, share_kernel<1>);
    return rc < 0          ? rc
           : dx != nullptr ? launch(e, j, denormalize_kernel<4>, denormalize_kernel<1>)
                           : uw_launch(e, n->channels, UW_LANES, finish_sums_kernel, j);
}

static int batchnorm_bw_sums_input(const struct uw_exec *e, const struct uw_norm *n,
                                   uint32_t batch_n, const float *x, const float *stats,
                                   const float *gamma, const float *beta, const float *dy,
                                   float *sums, float *dx, bool accumulate)
{
    const struct uw_input_norm norm = {stats, gamma, beta, n->ceiling};
    return uw_batchnorm_bw_cuda(e, n, batch_n, x, &norm, dy, sums + n->channels, sums, dx,
                                accumulate);
}

static int batchnorm_bw_sums(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                             const float *x, const float *stats, const float *gamma,
                             const float *beta, const float *dy, float *sums)
{
    return batchnorm_bw_sums_input(e, n, batch_n, x, stats, gamma, beta, dy, sums, nullptr, false);
}

static int batchnorm_bw_input(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                              const float *x, const float *stats, const float *gamma,
                              const float *beta, const float *sums, const float *dy, float *dx,
                              bool accumulate)
{
    if (nothing(n, batch_n)) {
        return UW_OK;
    }
    struct job j = job_of(e, n, batch_n, x, dy, dx, true);
    j.stats_in = stats;
    j.sums_in = sums;
    j.gamma = gamma;
    j.beta = beta;
    j.accumulate = accumulate;
    return launch(e, j, denormalize_kernel<4>, denormalize_kernel<1>);
}

const struct uw_norm_kernels uw_norm_cuda = {
    uw_groupnorm_fw_cuda,
    uw_groupnorm_bw_input_cuda,
    uw_groupnorm_bw_param_cuda,
    batchnorm_stats,
    batchnorm_running,
    batchnorm_fw,
    batchnorm_bw_sums,
    batchnorm_bw_input,
    batchnorm_stats_fw,
    batchnorm_bw_sums_input,
    uw_lrn_fw_cuda,
    uw_lrn_bw_input_cuda,
    uw_lrn_scratch_bytes_cuda,
};
