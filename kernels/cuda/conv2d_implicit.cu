/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution of any shape as an implicit GEMM (no im2col in memory): tiles of BK x BM and BK x BN
 * floats in shared memory, the next ones being loaded meanwhile; TM x TN accumulators per thread.
 *
 *   part       rows m              columns n               depth k
 *   fw         output channels     image, oh, ow           ci, kh, kw
 *   bw_input   input channels      image, ih, iw           co, kh, kw
 *   bw_param   output channels     ci, kh, kw              image, oh, ow
 *
 * Each group is a separate product. bw_param splits its depth among blocks until they fill the GPU,
 * the others if asked to (uw_conv2d_own_splits): partial sums are in the partials until the last
 * block of a tile adds them, in the order of the splits. */
#include "channels.cuh"
#include "conv2d_own.cuh"
#include "reduce.cuh"

#define THREADS 256u
#define SPLITS 32u
#define SPLIT_UNIT 32u         /* splits begin at multiples of it */
#define SPLIT_SHORT 96u         /* fw, bw_input: depth per split */

struct product {
    struct uw_conv c;
    uint32_t m, n, k;           /* of one group */
    uint32_t tiles_n, per_split;
    uint32_t all;               /* outputs of all groups, if the depth is split */
    struct uw_divisor taps, kernel_w, hw, w;    /* hw, w: of the images in columns or depth */
    struct uw_divisor stride_h, stride_w;
    float *partials;            /* [splits][all] */
    uint32_t *tickets;          /* one per tile */
};

struct tap {
    uint32_t channel;
    int32_t kh, kw;             /* times the dilation */
    uint32_t index;             /* kh * kernel_w + kw */
};

static __device__ __forceinline__ struct tap tap_of(const struct product &p, uint32_t k)
{
    struct tap t;
    t.channel = uw_quotient(p.taps, k);
    t.index = k - t.channel * p.taps.by;
    uint32_t row = uw_quotient(p.kernel_w, t.index);
    t.kh = static_cast<int32_t>(row) * p.c.dilation_h;
    t.kw = static_cast<int32_t>(t.index - row * p.kernel_w.by) * p.c.dilation_w;
    return t;
}

struct pixel {
    uint32_t image, at;         /* at: row * w + column */
    int32_t row, column;
};

static __device__ __forceinline__ struct pixel pixel_of(const struct product &p, uint32_t i)
{
    struct pixel q;
    q.image = uw_quotient(p.hw, i);
    q.at = i - q.image * p.hw.by;
    uint32_t row = uw_quotient(p.w, q.at);
    q.row = static_cast<int32_t>(row);
    q.column = static_cast<int32_t>(q.at - row * p.w.by);
    return q;
}

static __device__ __forceinline__ size_t x_plane(const struct product &p, uint32_t image,
                                                 uint32_t channel)
{
    return (static_cast<size_t>(image) * p.c.groups * p.c.group_in + channel) * p.c.in_hw;
}

static __device__ __forceinline__ size_t y_plane(const struct product &p, uint32_t image,
                                                 uint32_t channel)
{
    return (static_cast<size_t>(image) * p.c.groups * p.c.group_out + channel) * p.c.out_hw;
}

/* The element of x for tap t of the output at q; 0 outside. */
static __device__ __forceinline__ float x_at(const struct product &p, size_t plane,
                                             const struct pixel &q, const struct tap &t)
{
    int32_t ih = q.row * p.c.stride_h + t.kh - p.c.pad_h;
    int32_t iw = q.column * p.c.stride_w + t.kw - p.c.pad_w;
    bool inside = ih >= 0 && ih < p.c.in_h && iw >= 0 && iw < p.c.in_w;
    return inside ? p.c.x[plane + static_cast<size_t>(ih) * p.c.in_w + iw] : 0.0f;
}

/* Store an output of fw or bw_input, of channel co. */
static __device__ __forceinline__ void store_output(const struct product &p, size_t at,
                                                    uint32_t co, float v)
{
    v = uw_conv_cut(p.c, v + (p.c.b != nullptr ? p.c.b[co] : 0.0f));
    p.c.y[at] = p.c.accumulate ? p.c.y[at] + v : v;
}

/* Operands and result of each part. depth: position of an inner index k; column: that of a column
 * n. by_depth: adjacent threads load elements of B adjacent in k, else in n. place: offset of the
 * output in row m of group g and column n, at q; store: write v there. */
struct taps_by_pixels {
    static constexpr bool by_depth = false;
    typedef struct tap depth;
    typedef struct pixel column;

    static __device__ __forceinline__ depth depth_of(const struct product &p, uint32_t k)
    {
        return tap_of(p, k);
    }
    static __device__ __forceinline__ column column_of(const struct product &p, uint32_t n)
    {
        return pixel_of(p, n);
    }
};

struct fw_part : taps_by_pixels {
    static __device__ __forceinline__ float a(const struct product &p, uint32_t g, uint32_t m,
                                              uint32_t k, const depth &d)
    {
        (void)d;
        return p.c.w[(static_cast<size_t>(g) * p.c.group_out + m) * p.k + k];
    }
    static __device__ __forceinline__ float b(const struct product &p, uint32_t g, const depth &d,
                                              const column &q)
    {
        return x_at(p, x_plane(p, q.image, g * p.c.group_in + d.channel), q, d);
    }
    static __device__ __forceinline__ size_t place(const struct product &p, uint32_t g, uint32_t m,
                                                   uint32_t n, const column &q)
    {
        (void)n;
        return y_plane(p, q.image, g * p.c.group_out + m) + q.at;
    }
    static __device__ __forceinline__ void store(const struct product &p, size_t at, uint32_t g,
                                                 uint32_t m, float v)
    {
        store_output(p, at, g * p.c.group_out + m, v);
    }
};

struct bw_input_part : taps_by_pixels {
    static __device__ __forceinline__ float a(const struct product &p, uint32_t g, uint32_t m,
                                              uint32_t k, const depth &d)
    {
        (void)k;
        size_t co = static_cast<size_t>(g) * p.c.group_out + d.channel;
        return p.c.w[(co * p.c.group_in + m) * p.taps.by + d.index];
    }
    /* The element of dy whose tap d reads q; 0 if there is none. */
    static __device__ __forceinline__ float b(const struct product &p, uint32_t g, const depth &d,
                                              const column &q)
    {
        int32_t row = q.row + p.c.pad_h - d.kh, column_at = q.column + p.c.pad_w - d.kw;
        if (row < 0 || column_at < 0) {
            return 0.0f;
        }
        int32_t oh = static_cast<int32_t>(uw_quotient(p.stride_h, static_cast<uint32_t>(row)));
        int32_t ow =
            static_cast<int32_t>(uw_quotient(p.stride_w, static_cast<uint32_t>(column_at)));
        bool is = oh * p.c.stride_h == row && ow * p.c.stride_w == column_at && oh < p.c.out_h &&
                  ow < p.c.out_w;
        size_t plane = y_plane(p, q.image, g * p.c.group_out + d.channel);
        return is ? p.c.dy[plane + static_cast<size_t>(oh) * p.c.out_w + ow] : 0.0f;
    }
    static __device__ __forceinline__ size_t place(const struct product &p, uint32_t g, uint32_t m,
                                                   uint32_t n, const column &q)
    {
        (void)n;
        return x_plane(p, q.image, g * p.c.group_in + m) + q.at;
    }
    static __device__ __forceinline__ void store(const struct product &p, size_t at, uint32_t g,
                                                 uint32_t m, float v)
    {
        store_output(p, at, g * p.c.group_in + m, v);
    }
};

struct bw_param_part {
    static constexpr bool by_depth = true;
    typedef struct pixel depth;
    typedef struct tap column;

    static __device__ __forceinline__ depth depth_of(const struct product &p, uint32_t k)
    {
        return pixel_of(p, k);
    }
    static __device__ __forceinline__ column column_of(const struct product &p, uint32_t n)
    {
        return tap_of(p, n);
    }
    static __device__ __forceinline__ float a(const struct product &p, uint32_t g, uint32_t m,
                                              uint32_t k, const depth &d)
    {
        (void)k;
        return p.c.dy[y_plane(p, d.image, g * p.c.group_out + m) + d.at];
    }
    static __device__ __forceinline__ float b(const struct product &p, uint32_t g, const depth &d,
                                              const column &t)
    {
        return x_at(p, x_plane(p, d.image, g * p.c.group_in + t.channel), d, t);
    }
    static __device__ __forceinline__ size_t place(const struct product &p, uint32_t g, uint32_t m,
                                                   uint32_t n, const column &t)
    {
        (void)t;
        return (static_cast<size_t>(g) * p.m + m) * p.n + n;
    }
    static __device__ __forceinline__ void store(const struct product &p, size_t at, uint32_t g,
                                                 uint32_t m, float v)
    {
        (void)g;
        (void)m;
        p.c.y[at] += p.c.scale * v;
    }
};

/* A thread's share of the next tiles, in registers on the way to shared memory. Adjacent threads
 * load elements of A adjacent in k, and of B adjacent in k or n. */
template <typename Part, int BM, int BN, int BK> struct loads {
    static constexpr int step = THREADS / BK;   /* rows or columns that threads load at once */
    static constexpr int a_n = (BM + step - 1) / step, b_n = BN / step;
    static constexpr unsigned rows_b = THREADS / BN;
    float a[a_n], b[b_n];

    __device__ __forceinline__ void fetch(const struct product &p, uint32_t g, uint32_t m0,
                                          uint32_t n0, uint32_t k0, uint32_t k_end,
                                          const typename Part::column *columns)
    {
        const uint32_t k_own = k0 + threadIdx.x % BK, m_own = m0 + threadIdx.x / BK;
        const bool k_in = k_own < k_end;
        const typename Part::depth d = Part::depth_of(p, k_in ? k_own : 0);
#pragma unroll
        for (int i = 0; i < a_n; i++) {
            uint32_t m = m_own + static_cast<unsigned>(i) * step;
            bool in = k_in && m < p.m && (BM % step == 0 || m < m0 + BM);
            a[i] = in ? Part::a(p, g, m, k_own, d) : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < b_n; i++) {
            if (Part::by_depth) {
                uint32_t n = n0 + threadIdx.x / BK + static_cast<unsigned>(i) * step;
                b[i] = k_in && n < p.n ? Part::b(p, g, d, columns[i]) : 0.0f;
            } else {
                uint32_t k = k0 + threadIdx.x / BN + static_cast<unsigned>(i) * rows_b;
                bool in = k < k_end && n0 + threadIdx.x % BN < p.n;
                b[i] = in ? Part::b(p, g, Part::depth_of(p, k), columns[0]) : 0.0f;
            }
        }
    }
    template <int A, int B>
    __device__ __forceinline__ void put(float (*as)[A], float (*bs)[B]) const
    {
#pragma unroll
        for (int i = 0; i < a_n; i++) {
            unsigned m = threadIdx.x / BK + static_cast<unsigned>(i) * step;
            if (BM % step == 0 || m < BM) {
                as[threadIdx.x % BK][m] = a[i];
            }
        }
#pragma unroll
        for (int i = 0; i < b_n; i++) {
            unsigned at = static_cast<unsigned>(i);
            if (Part::by_depth) {
                bs[threadIdx.x % BK][threadIdx.x / BK + at * step] = b[i];
            } else {
                bs[threadIdx.x / BN + at * rows_b][threadIdx.x % BN] = b[i];
            }
        }
    }
};

template <int BM, int BN, int BK, int TM, int TN>
static __device__ __forceinline__ void multiply(const float (*as)[BM + TM],
                                                const float (*bs)[BN + TN], float (&sum)[TM][TN])
{
    const unsigned row = threadIdx.x / (BN / TN) * TM, column = threadIdx.x % (BN / TN) * TN;
#pragma unroll
    for (int k = 0; k < BK; k++) {
        const uw_floats<TM> a = uw_load<TM>(&as[k][row]);
        const uw_floats<TN> b = uw_load<TN>(&bs[k][column]);
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TN; j++) {
                sum[i][j] = fmaf(a.v[i], b.v[j], sum[i][j]);
            }
        }
    }
}

/* Call use(offset, row, sum) for every output of a thread. */
template <typename Part, int BN, int TM, int TN, typename Use>
static __device__ __forceinline__ void each_output(const struct product &p, uint32_t g, uint32_t m0,
                                                   uint32_t n0, const float (&sum)[TM][TN],
                                                   const Use &use)
{
#pragma unroll
    for (int j = 0; j < TN; j++) {
        uint32_t n = n0 + threadIdx.x % (BN / TN) * TN + static_cast<unsigned>(j);
        if (n >= p.n) {
            break;
        }
        const typename Part::column q = Part::column_of(p, n);
#pragma unroll
        for (int i = 0; i < TM; i++) {
            uint32_t m = m0 + threadIdx.x / (BN / TN) * TM + static_cast<unsigned>(i);
            if (m < p.m) {
                use(Part::place(p, g, m, n, q), m, sum[i][j]);
            }
        }
    }
}

/* Store this block's partial sum of an output. */
struct store_part {
    const struct product &p;
    __device__ __forceinline__ void operator()(size_t at, uint32_t m, float v) const
    {
        (void)m;
        p.partials[static_cast<size_t>(blockIdx.z) * p.all + at] = v;
    }
};

/* Store an output, from all partial sums if the depth is split. */
template <typename Part> struct store_whole {
    const struct product &p;
    uint32_t g;
    __device__ __forceinline__ void operator()(size_t at, uint32_t m, float v) const
    {
        if (gridDim.z > 1) {
            v = 0.0f;
            for (uint32_t s = 0; s < gridDim.z; s++) {
                v += __ldcg(p.partials + static_cast<size_t>(s) * p.all + at);
            }
        }
        Part::store(p, at, g, m, v);
    }
};

/* grid = (tiles in n * groups, tiles in m, splits); BM / TM * BN / TN threads. */
template <typename Part, int BM, int BN, int BK, int TM, int TN>
static __global__ void __launch_bounds__(THREADS) product_kernel(struct product p)
{
    static_assert(BM / TM * (BN / TN) == THREADS, "a thread has TM x TN sums");
    typedef loads<Part, BM, BN, BK> tile_loads;
    constexpr int kept = Part::by_depth ? tile_loads::b_n : 1;
    __shared__ __align__(16) float as[BK][BM + TM];
    __shared__ __align__(16) float bs[BK][BN + TN];
    const uint32_t g = blockIdx.x / p.tiles_n;
    const uint32_t n0 = (blockIdx.x - g * p.tiles_n) * BN, m0 = blockIdx.y * BM;
    const uint32_t k_begin = blockIdx.z * p.per_split;
    const uint32_t k_end = p.k - k_begin < p.per_split ? p.k : k_begin + p.per_split;
    typename Part::column columns[kept];
#pragma unroll
    for (int i = 0; i < kept; i++) {
        uint32_t n = n0 + (Part::by_depth ? threadIdx.x / BK +
                                                static_cast<unsigned>(i) * tile_loads::step
                                          : threadIdx.x % BN);
        columns[i] = Part::column_of(p, n < p.n ? n : 0);
    }
    float sum[TM][TN] = {};
    tile_loads next;
    next.fetch(p, g, m0, n0, k_begin, k_end, columns);
    for (uint32_t k = k_begin; k < k_end; k += BK) {
        __syncthreads(); /* the previous tiles have been used */
        next.put(as, bs);
        __syncthreads();
        if (k + BK < k_end) {
            next.fetch(p, g, m0, n0, k + BK, k_end, columns);
        }
        multiply<BM, BN, BK, TM, TN>(as, bs, sum);
    }
    if (gridDim.z > 1) {
        each_output<Part, BN, TM, TN>(p, g, m0, n0, sum, store_part{p});
        if (!uw_last_block(p.tickets + blockIdx.y * gridDim.x + blockIdx.x, gridDim.z)) {
            return;
        }
    }
    each_output<Part, BN, TM, TN>(p, g, m0, n0, sum, store_whole<Part>{p, g});
}

template <typename Part, int BM, int BN, int BK, int TM, int TN>
static int run_tiles(const struct uw_exec *e, struct product p, uint32_t splits)
{
    p.tiles_n = (p.n - 1) / BN + 1;
    return uw_launch(e, dim3(p.tiles_n * p.c.groups, (p.m - 1) / BM + 1, splits), THREADS,
                     product_kernel<Part, BM, BN, BK, TM, TN>, p);
}

/* Choose the tile size: no higher than the matrix, and smaller if there are too few tiles. */
template <typename Part> static int run(const struct uw_exec *e, const struct product &p,
                                        uint32_t splits)
{
    size_t large = static_cast<size_t>((p.m - 1) / 64 + 1) * ((p.n - 1) / 64 + 1) * p.c.groups *
                   splits;
    if (p.m <= 8) {
        return run_tiles<Part, 8, 64, 32, 1, 2>(e, p, splits);
    }
    if (p.m <= 16) {
        return run_tiles<Part, 16, 64, 32, 2, 2>(e, p, splits);
    }
    if (p.m <= 32 || large < uw_cuda_of(e)->multiprocessors) {
        return run_tiles<Part, 32, 32, 32, 2, 2>(e, p, splits);
    }
    return run_tiles<Part, 64, 64, 16, 4, 4>(e, p, splits);
}

static struct product product_of(const struct uw_exec *e, const struct uw_conv &c, uint32_t hw,
                                 int32_t w)
{
    struct product p = {};
    p.c = c;
    p.taps = uw_divisor_of(c.taps);
    p.kernel_w = uw_divisor_of(static_cast<uint32_t>(c.kernel_w));
    p.hw = uw_divisor_of(hw);
    p.w = uw_divisor_of(static_cast<uint32_t>(w));
    p.stride_h = uw_divisor_of(static_cast<uint32_t>(c.stride_h));
    p.stride_w = uw_divisor_of(static_cast<uint32_t>(c.stride_w));
    p.partials = static_cast<float *>(uw_cuda_of(e)->partials);
    p.tickets = uw_cuda_of(e)->tickets;
    return p;
}

static struct product fw_of(const struct uw_exec *e, const struct uw_conv &c)
{
    struct product p = product_of(e, c, c.out_hw, c.out_w);
    p.m = c.group_out;
    p.n = c.batch_n * c.out_hw;
    p.k = p.per_split = c.group_in * c.taps;
    p.all = p.m * p.n * c.groups;
    return p;
}

static struct product bw_input_of(const struct uw_exec *e, const struct uw_conv &c)
{
    struct product p = product_of(e, c, c.in_hw, c.in_w);
    p.m = c.group_in;
    p.n = c.batch_n * c.in_hw;
    p.k = p.per_split = c.group_out * c.taps;
    p.all = p.m * p.n * c.groups;
    return p;
}

/* fw or bw_input: splits for two blocks per multiprocessor, as far as the partials have room. */
static uint32_t short_splits_of(const struct uw_exec *e, const struct product &p)
{
    uint32_t high = p.m <= 8 ? 8 : p.m <= 16 ? 16 : 32, wide = p.m <= 16 ? 64 : 32;
    size_t tiles =
        static_cast<size_t>((p.m - 1) / high + 1) * ((p.n - 1) / wide + 1) * p.c.groups;
    size_t splits = tiles > UW_CUDA_TICKETS ? 1 : 2u * uw_cuda_of(e)->multiprocessors / tiles;
    size_t room = UW_CUDA_PARTIALS_BYTES / sizeof(float) / p.all, useful = p.k / SPLIT_SHORT;
    splits = splits < useful ? splits : useful;
    splits = splits < room ? splits : room;
    splits = splits < SPLITS ? splits : SPLITS;
    return static_cast<uint32_t>(splits > 1 ? splits : 1);
}

uint32_t uw_implicit_splits(const struct uw_exec *e, const struct uw_conv &c,
                            enum uw_conv2d_part part)
{
    return short_splits_of(e, part == UW_CONV2D_FW ? fw_of(e, c) : bw_input_of(e, c));
}

/* Set the depth of a split. Returns the number of splits. */
static uint32_t split(struct product *p, uint32_t splits)
{
    p->per_split = ((p->k - 1) / splits / SPLIT_UNIT + 1) * SPLIT_UNIT;
    return (p->k - 1) / p->per_split + 1;
}

template <typename Part> static int run_whole_or_split(const struct uw_exec *e, struct product p)
{
    uint32_t splits = p.c.split ? split(&p, short_splits_of(e, p)) : 1;
    return run<Part>(e, p, splits);
}

int uw_implicit_fw(const struct uw_exec *e, const struct uw_conv &c)
{
    return run_whole_or_split<fw_part>(e, fw_of(e, c));
}

int uw_implicit_bw_input(const struct uw_exec *e, const struct uw_conv &c)
{
    return run_whole_or_split<bw_input_part>(e, bw_input_of(e, c));
}

/* bw_param: splits that fill the GPU, fit in the partials, and have a depth of at least eight
 * SPLIT_UNIT each. */
static uint32_t splits_of(const struct uw_exec *e, const struct product &p)
{
    size_t weights = static_cast<size_t>(p.c.groups) * p.m * p.n;
    size_t room = UW_CUDA_PARTIALS_BYTES / sizeof(float) / weights;
    size_t tiles = static_cast<size_t>((p.m - 1) / 32 + 1) * ((p.n - 1) / 32 + 1) * p.c.groups;
    size_t splits = tiles > UW_CUDA_TICKETS ? 1 : 4u * uw_cuda_of(e)->multiprocessors / tiles;
    size_t useful = p.k / (8 * SPLIT_UNIT);
    splits = splits < useful ? splits : useful;
    splits = splits < room ? splits : room;
    splits = splits < SPLITS ? splits : SPLITS;
    return static_cast<uint32_t>(splits > 1 ? splits : 1);
}

int uw_implicit_bw_param(const struct uw_exec *e, const struct uw_conv &c)
{
    struct product p = product_of(e, c, c.out_hw, c.out_w);
    p.m = c.group_out;
    p.n = c.group_in * c.taps;
    p.k = c.batch_n * c.out_hw;
    p.all = p.c.groups * p.m * p.n;
    return run<bw_param_part>(e, p, split(&p, splits_of(e, p)));
}
