/* SPDX-License-Identifier: Apache-2.0
 *
 * Group norm and layer norm. A group is one contiguous row of floats, processed by a warp if short,
 * by a block if long. It is read once for the sums, and again, from the cache, to apply them.
 * Gradients of the weights are computed per channel, or, with inner 1, per column. */
#include "norm.cuh"

#define WARP_ROW 2048u          /* longest row for one warp */
#define ROWS 8u                 /* rows (warps) of a block then */
#define IN_FLIGHT 8u            /* rows of a column that a thread loads at once */

struct rows {
    uint32_t all, groups, channels, inner;      /* rows; channels of a group */
    uint32_t vectors;           /* of a row */
    const float *x, *dy, *gamma, *beta, *stats_in;
    float *y, *stats;
    double each;                /* 1 over the values of a row */
    float epsilon;
    bool accumulate;
    bool fours;                 /* the weights of a vector are loaded as a vector */
};

/* One row, and this thread among the row's threads. */
struct row {
    uint32_t index, first;      /* first: its first channel */
    uint32_t thread, threads;
    size_t at;                  /* its first float */
};

template <bool WARP>
static __device__ __forceinline__ struct row row_of(const struct rows &r, int width)
{
    struct row w;
    w.index = WARP ? blockIdx.x * ROWS + threadIdx.y : blockIdx.x;
    w.first = w.index % r.groups * r.channels;
    w.thread = threadIdx.x;
    w.threads = blockDim.x;
    w.at = static_cast<size_t>(w.index) * r.vectors * static_cast<unsigned>(width);
    return w;
}

template <bool WARP, int N> static __device__ __forceinline__ void team_sums(double (&v)[N])
{
    if (WARP) {
        uw_warp_sums(v);
    } else {
        uw_block_sums(v);
    }
}

/* Call body.use(body.load(at), at, i) for each vector i of this thread. */
template <int W, typename Body>
static __device__ __forceinline__ void each_vector(const struct rows &r, const struct row &w,
                                                   Body &body)
{
    constexpr unsigned in_flight = W == 4 ? 4 : 8;
    for (uint32_t i = w.thread; i < r.vectors; i += in_flight * w.threads) {
        typename Body::item item[in_flight] = {};
#pragma unroll
        for (unsigned u = 0; u < in_flight; u++) {
            if (u * w.threads < r.vectors - i) {
                item[u] = body.load(w.at + static_cast<size_t>(i + u * w.threads) * W);
            }
        }
#pragma unroll
        for (unsigned u = 0; u < in_flight; u++) {
            if (u * w.threads < r.vectors - i) {
                body.use(item[u], w.at + static_cast<size_t>(i + u * w.threads) * W,
                         i + u * w.threads);
            }
        }
        body.fold();
    }
}

/* The channel of value k of a row's vector i. */
template <int W>
static __device__ __forceinline__ size_t channel_of(const struct rows &r, const struct row &w,
                                                    size_t i, int k)
{
    uint32_t value = static_cast<uint32_t>(i) * W;
    return w.first + (r.inner == 1 ? value + static_cast<unsigned>(k) : value / r.inner);
}

/* The weights for a row's vector i. */
template <int W>
static __device__ __forceinline__ uw_floats<W> weights_of(const struct rows &r, const struct row &w,
                                                          size_t i, const float *from,
                                                          float otherwise)
{
    uw_floats<W> v;
    if (W == 4 && r.fours && from != nullptr) {
        return uw_load<W>(from + channel_of<W>(r, w, i, 0));
    }
    for (int k = 0; k < W; k++) {
        v.v[k] = uw_or(from, channel_of<W>(r, w, i, k), otherwise);
    }
    return v;
}

template <int W> struct normalize_body {
    typedef uw_floats<W> item;
    const struct rows &r;
    const struct row &w;
    struct uw_norm_pair pair;

    __device__ __forceinline__ item load(size_t at) const
    {
        return uw_load<W>(r.x + at);
    }
    __device__ __forceinline__ void use(item v, size_t at, size_t i)
    {
        const uw_floats<W> gamma = weights_of<W>(r, w, i, r.gamma, 1.0f);
        const uw_floats<W> beta = weights_of<W>(r, w, i, r.beta, 0.0f);
        for (int k = 0; k < W; k++) {
            v.v[k] = fmaf(gamma.v[k], uw_xhat(pair, v.v[k]), beta.v[k]);
        }
        uw_store<W>(r.y + at, v);
    }
    __device__ __forceinline__ void fold()
    {
    }
};

template <int W, bool WARP> static __global__ void __launch_bounds__(1024) fw_kernel(struct rows r)
{
    const struct row w = row_of<WARP>(r, W);
    if (w.index >= r.all) {
        return;                 /* the whole warp */
    }
    uw_moments_body<W> body(r.x);
    each_vector<W>(r, w, body);
    double v[1] = {body.total()};
    team_sums<WARP>(v);
    struct uw_moments m = {__dmul_rn(v[0], r.each), 0.0};
    v[0] = body.spread(m.mean);
    team_sums<WARP>(v);
    m.spread = v[0];
    const struct uw_norm_pair pair = uw_pair_of(m, r.each, r.epsilon);
    if (w.thread == 0 && r.stats != nullptr) {
        r.stats[2 * static_cast<size_t>(w.index)] = pair.mean;
        r.stats[2 * static_cast<size_t>(w.index) + 1] = pair.second;
    }
    normalize_body<W> apply = {r, w, pair};
    each_vector<W>(r, w, apply);
}

template <int W> struct pair_of_floats {
    uw_floats<W> x, dy;
};

/* Sums of gamma * dy and of gamma * dy * xhat. */
template <int W> struct sums_body {
    typedef pair_of_floats<W> item;
    const struct rows &r;
    const struct row &w;
    struct uw_norm_pair pair;
    float chunk[2];
    double sum[2];

    __device__ __forceinline__ item load(size_t at) const
    {
        return {uw_load<W>(r.x + at), uw_load<W>(r.dy + at)};
    }
    __device__ __forceinline__ void use(const item &v, size_t at, size_t i)
    {
        (void)at;
        const uw_floats<W> gamma = weights_of<W>(r, w, i, r.gamma, 1.0f);
        for (int k = 0; k < W; k++) {
            float d = gamma.v[k] * v.dy.v[k];
            chunk[0] += d;
            chunk[1] += d * uw_xhat(pair, v.x.v[k]);
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
    const struct rows &r;
    const struct row &w;
    struct uw_norm_pair pair;
    float a, b;

    __device__ __forceinline__ item load(size_t at) const
    {
        return {uw_load<W>(r.x + at), uw_load<W>(r.dy + at)};
    }
    __device__ __forceinline__ void use(const item &v, size_t at, size_t i)
    {
        uw_floats<W> out;
        if (r.accumulate) {
            out = uw_load<W>(r.y + at);
        }
        const uw_floats<W> gamma = weights_of<W>(r, w, i, r.gamma, 1.0f);
        for (int k = 0; k < W; k++) {
            float d = pair.second * (gamma.v[k] * v.dy.v[k] - a - uw_xhat(pair, v.x.v[k]) * b);
            out.v[k] = r.accumulate ? out.v[k] + d : d;
        }
        uw_store<W>(r.y + at, out);
    }
    __device__ __forceinline__ void fold()
    {
    }
};

template <int W, bool WARP> static __global__ void __launch_bounds__(1024) bw_kernel(struct rows r)
{
    const struct row w = row_of<WARP>(r, W);
    if (w.index >= r.all) {
        return;                 /* the whole warp */
    }
    const float *stats = r.stats_in + 2 * static_cast<size_t>(w.index);
    const struct uw_norm_pair pair = {stats[0], stats[1]};
    sums_body<W> body = {r, w, pair, {0.0f, 0.0f}, {0.0, 0.0}};
    each_vector<W>(r, w, body);
    team_sums<WARP>(body.sum);
    denormalize_body<W> apply = {r, w, pair, static_cast<float>(body.sum[0] * r.each),
                                 static_cast<float>(body.sum[1] * r.each)};
    each_vector<W>(r, w, apply);
}

static struct rows rows_of(const struct uw_norm *n, uint32_t batch_n, bool aligned, unsigned *width)
{
    struct rows r = {};
    r.all = batch_n * n->groups;
    r.groups = n->groups;
    r.channels = n->channels / n->groups;
    r.inner = n->inner;
    uint32_t values = r.channels * r.inner;
    bool four = aligned && (r.inner == 1 ? values : r.inner) % 4 == 0;
    *width = four ? 4 : 1;
    r.vectors = values / *width;
    r.each = 1.0 / static_cast<double>(values);
    return r;
}

static bool nothing(const struct uw_norm *n, uint32_t batch_n)
{
    return batch_n == 0 || n->channels == 0 || n->inner == 0;
}

/* warps[0] and blocks[0] are for vectors of four, [1] for single values. */
static int launch(const struct uw_exec *e, const struct rows &r, unsigned width,
                  void (*const warps[2])(struct rows), void (*const blocks[2])(struct rows))
{
    unsigned which = width == 4 ? 0 : 1, threads = 128, each = width == 4 ? 4 : 8;
    if (r.vectors * width <= WARP_ROW) {
        return uw_launch(e, (r.all - 1) / ROWS + 1, dim3(UW_LANES, ROWS), warps[which], r);
    }
    while (threads < 1024 && threads * each < r.vectors) {
        threads *= 2;
    }
    return uw_launch(e, r.all, threads, blocks[which], r);
}

int uw_groupnorm_fw_cuda(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                         const float *x, const float *gamma, const float *beta, float *y,
                         float *stats)
{
    static void (*const warps[2])(struct rows) = {fw_kernel<4, true>, fw_kernel<1, true>};
    static void (*const blocks[2])(struct rows) = {fw_kernel<4, false>, fw_kernel<1, false>};
    if (nothing(n, batch_n)) {
        return UW_OK;
    }
    unsigned width;
    struct rows r = rows_of(n, batch_n, uw_aligned(x) && uw_aligned(y), &width);
    r.x = x;
    r.gamma = gamma;
    r.beta = beta;
    r.fours = n->inner == 1 && uw_aligned(gamma) && uw_aligned(beta);
    r.y = y;
    r.stats = stats;
    r.epsilon = n->epsilon;
    return launch(e, r, width, warps, blocks);
}

int uw_groupnorm_bw_input_cuda(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                               const float *x, const float *gamma, const float *stats,
                               const float *dy, float *dx, bool accumulate)
{
    static void (*const warps[2])(struct rows) = {bw_kernel<4, true>, bw_kernel<1, true>};
    static void (*const blocks[2])(struct rows) = {bw_kernel<4, false>, bw_kernel<1, false>};
    if (nothing(n, batch_n)) {
        return UW_OK;
    }
    unsigned width;
    struct rows r = rows_of(n, batch_n, uw_aligned(x) && uw_aligned(dy) && uw_aligned(dx), &width);
    r.x = x;
    r.dy = dy;
    r.gamma = gamma;
    r.fours = n->inner == 1 && uw_aligned(gamma);
    r.stats_in = stats;
    r.y = dx;
    r.accumulate = accumulate;
    return launch(e, r, width, warps, blocks);
}

/* Gradients of gamma and beta. */
struct weights {
    struct uw_channel_cut cut;  /* by channels */
    uint32_t batch_n, per_split, channels, group_channels, groups, splits;
    const float *x, *dy, *stats;
    float *dgamma, *dbeta;
    double *partials;           /* [channels][splits][2] */
    float scale;
};

static __device__ __forceinline__ struct uw_norm_pair pair_at(const struct weights &g, size_t n,
                                                              uint32_t c)
{
    const float *stats = g.stats + 2 * (n * g.groups + c / g.group_channels);
    return {stats[0], stats[1]};
}

/* Store v, the sums of dy and of dy * xhat of channel c, or of one split of it. */
static __device__ __forceinline__ void store_sums(const struct weights &g, uint32_t c,
                                                  uint32_t split, const double *v)
{
    double *out = g.partials + 2 * (static_cast<size_t>(c) * g.splits + split);
    if (g.splits > 1) {
        out[0] = v[0];
        out[1] = v[1];
        return;
    }
    if (g.dbeta != nullptr) {
        g.dbeta[c] += g.scale * static_cast<float>(v[0]);
    }
    if (g.dgamma != nullptr) {
        g.dgamma[c] += g.scale * static_cast<float>(v[1]);
    }
}

template <int W> struct weights_body {
    typedef pair_of_floats<W> item;
    const struct weights &g;
    float chunk[2];
    double sum[2];

    __device__ __forceinline__ item load(size_t at) const
    {
        return {uw_load<W>(g.x + at), uw_load<W>(g.dy + at)};
    }
    __device__ __forceinline__ void use(const item &v, size_t at, size_t n)
    {
        (void)at;
        const struct uw_norm_pair pair = pair_at(g, n, blockIdx.x);
        for (int k = 0; k < W; k++) {
            chunk[0] += v.dy.v[k];
            chunk[1] += v.dy.v[k] * uw_xhat(pair, v.x.v[k]);
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

template <int W>
static __global__ void __launch_bounds__(1024) weights_kernel(struct weights g)
{
    weights_body<W> body = {g, {0.0f, 0.0f}, {0.0, 0.0}};
    uw_each_vector<W>(g.cut, body);
    uw_block_sums(body.sum);
    if (threadIdx.x == 0) {
        store_sums(g, blockIdx.x, blockIdx.y, body.sum);
    }
}

/* Add every ROWS-th of rows begin .. end - 1 to the sums of column c. Each IN_FLIGHT rows are
 * loaded together and summed in fp32, then added in double, which is slow on small GPUs. */
static __device__ __forceinline__ void add_column(const struct weights &g, size_t begin, size_t end,
                                                  uint32_t c, double *v)
{
    for (size_t r = begin; r < end; r += ROWS * IN_FLIGHT) {
        float x[IN_FLIGHT], dy[IN_FLIGHT], chunk[2] = {0.0f, 0.0f};
        struct uw_norm_pair pair[IN_FLIGHT];
#pragma unroll
        for (unsigned u = 0; u < IN_FLIGHT; u++) {
            size_t row = r + u * ROWS < end ? r + u * ROWS : r;
            x[u] = g.x[row * g.channels + c];
            dy[u] = g.dy[row * g.channels + c];
            pair[u] = pair_at(g, row, c);
        }
#pragma unroll
        for (unsigned u = 0; u < IN_FLIGHT; u++) {
            chunk[0] += r + u * ROWS < end ? dy[u] : 0.0f;
            chunk[1] += r + u * ROWS < end ? dy[u] * uw_xhat(pair[u], x[u]) : 0.0f;
        }
        v[0] += static_cast<double>(chunk[0]);
        v[1] += static_cast<double>(chunk[1]);
    }
}

/* A block has 32 columns and a share of the rows; inner is 1. */
static __global__ void __launch_bounds__(ROWS *UW_LANES) weight_columns_kernel(struct weights g)
{
    __shared__ double part[ROWS][2][UW_LANES];
    uint32_t c = blockIdx.x * UW_LANES + threadIdx.x;
    size_t begin = static_cast<size_t>(blockIdx.y) * g.per_split;
    size_t end = begin + g.per_split < g.batch_n ? begin + g.per_split : g.batch_n;
    double v[2] = {0.0, 0.0};
    if (c < g.channels) {
        add_column(g, begin + threadIdx.y, end, c, v);
    }
    part[threadIdx.y][0][threadIdx.x] = v[0];
    part[threadIdx.y][1][threadIdx.x] = v[1];
    __syncthreads();
    if (threadIdx.y != 0 || c >= g.channels) {
        return;
    }
    for (unsigned i = 1; i < ROWS; i++) {
        v[0] += part[i][0][threadIdx.x];
        v[1] += part[i][1][threadIdx.x];
    }
    store_sums(g, c, blockIdx.y, v);
}

static __global__ void finish_weights_kernel(struct weights g)
{
    double v[2];
    uw_add_splits(g.partials, blockIdx.x, g.splits, v);
    g.splits = 1;
    if (threadIdx.x == 0) {
        store_sums(g, blockIdx.x, 0, v);
    }
}

static int launch_weights(const struct uw_exec *e, struct weights g, uint32_t inner)
{
    int rc;
    if (inner == 1) {
        uint32_t blocks = (g.channels - 1) / UW_LANES + 1;
        g.splits = 1;
        while (g.batch_n / g.splits > 256 && g.splits < 16 &&
               blocks * g.splits < 2 * uw_cuda_of(e)->multiprocessors) {
            g.splits *= 2;
        }
        g.per_split = (g.batch_n - 1) / g.splits + 1;
        rc = uw_launch(e, dim3(blocks, g.splits), dim3(UW_LANES, ROWS), weight_columns_kernel, g);
    } else {
        g.cut = uw_cut_channels(e, g.batch_n, g.channels, inner,
                                uw_aligned(g.x) && uw_aligned(g.dy), 16384, UW_SPLITS_MAX);
        g.splits = g.cut.splits;
        rc = uw_launch(e, uw_channel_grid(g.cut), g.cut.threads,
                       g.cut.width == 4 ? weights_kernel<4> : weights_kernel<1>, g);
    }
    return rc < 0 || g.splits == 1
               ? rc
               : uw_launch(e, g.channels, UW_LANES, finish_weights_kernel, g);
}

int uw_groupnorm_bw_param_cuda(const struct uw_exec *e, const struct uw_norm *n, uint32_t batch_n,
                               const float *x, const float *stats, const float *dy, float scale,
                               float *dgamma, float *dbeta)
{
    if (nothing(n, batch_n)) {
        return UW_OK;
    }
    struct weights g = {};
    g.batch_n = batch_n;
    g.channels = n->channels;
    g.group_channels = n->channels / n->groups;
    g.groups = n->groups;
    g.x = x;
    g.dy = dy;
    g.stats = stats;
    g.dgamma = dgamma;
    g.dbeta = dbeta;
    g.partials = static_cast<double *>(uw_cuda_of(e)->partials);
    g.scale = scale;
    return launch_weights(e, g, n->inner);
}
