/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_kernels.h"

#include "base/progress.h"

#include "uwasa/board.h"

#include <string.h>

enum part { GEMM, CONV_FW, CONV_BW_INPUT, CONV_BW_PARAM, DENSE_FW, DENSE_BW_INPUT, DENSE_BW_PARAM,
            POOL_FW, POOL_BW, RELU_FW, AXPBY, SGD, PARTS_N };

static const char *const part_name[PARTS_N] = {
    "gemm", "conv2d_fw", "conv2d_bw_input", "conv2d_bw_param", "dense_fw", "dense_bw_input",
    "dense_bw_param", "maxpool2d_fw", "maxpool2d_bw_input", "relu_fw", "axpby", "sgd_update",
};

/* One kernel to time, `part`, with its shape. */
struct subject {
    enum part part;
    uint32_t batch_n;
    struct uw_gemm gemm;
    struct uw_conv2d conv;
    struct uw_dense dense;
    struct uw_pool2d pool;
    size_t n;               /* length of a vector slot */
    size_t x_n, w_n, y_n;   /* elements of the operands */
    double flop, bytes;     /* of one call; one of the two is 0 */
    char shape[96];
};

struct buffers {
    float *x, *w, *y;
    uint8_t *winner;
    void *memory;
    size_t memory_bytes;
};

/* GPU memory for the largest subject, and the pattern written into it. */
struct lent {
    void *memory, *scratch;
    float *pattern;             /* the processor's */
    size_t memory_bytes, scratch_bytes, pattern_n;
};

struct bench {
    FILE *out;
    bool json;
    struct uw_exec exec;
    const struct uw_device_kernels *device; /* NULL: the processor's kernels */
    struct lent lent;
    double seconds_each;
    int rc;
};

static void describe_gemm(struct subject *s, bool trans_a, bool trans_b, uint32_t n)
{
    s->part = GEMM;
    s->gemm = (struct uw_gemm){.trans_a = trans_a, .trans_b = trans_b, .m = n, .n = n, .k = n,
                               .lda = n, .ldb = n, .ldc = n, .alpha = 1.0f};
    s->x_n = s->w_n = s->y_n = (size_t)n * n;
    s->flop = 2.0 * n * n * n;
    snprintf(s->shape, sizeof s->shape, "%c%c %ux%ux%u", trans_a ? 'T' : 'N', trans_b ? 'T' : 'N',
             n, n, n);
}

/* A square convolution of square images. */
struct conv {
    uint32_t batch_n, in, out, kernel, size, pad, stride, groups;
};

static const struct conv convs[] = {
    {20, 1, 32, 5, 28, 2, 1, 1}, {20, 32, 64, 5, 14, 2, 1, 1},      /* fedavg-cnn */
    {20, 1, 6, 5, 28, 2, 1, 1}, {20, 6, 16, 5, 14, 0, 1, 1},        /* lenet5 */
    {1, 32, 64, 5, 14, 2, 1, 1},                                    /* fedavg-cnn */
    {64, 16, 16, 3, 32, 1, 1, 1}, {64, 32, 32, 3, 16, 1, 1, 1},     /* resnet20 */
    {64, 64, 64, 3, 32, 1, 1, 1}, {64, 128, 128, 3, 16, 1, 1, 1},   /* vgg16 */
    {64, 256, 256, 3, 8, 1, 1, 1}, {64, 512, 512, 3, 4, 1, 1, 1}, {64, 512, 512, 3, 2, 1, 1, 1},
    {20, 96, 96, 3, 32, 1, 1, 96}, {20, 96, 96, 3, 32, 1, 2, 96},   /* mobilenetv2 */
};

static void describe_conv(struct subject *s, enum part part, const struct conv *c)
{
    uint32_t out_size = (c->size + 2 * c->pad - c->kernel) / c->stride + 1;
    uint32_t taps = c->in / c->groups * c->kernel * c->kernel;      /* of one output */
    s->part = part;
    s->batch_n = c->batch_n;
    s->conv = (struct uw_conv2d){
        .in_channels = c->in, .in_h = c->size, .in_w = c->size, .out_channels = c->out,
        .out_h = out_size, .out_w = out_size, .kernel_h = c->kernel, .kernel_w = c->kernel,
        .stride_h = c->stride, .stride_w = c->stride, .pad_h = c->pad, .pad_w = c->pad,
        .dilation_h = 1, .dilation_w = 1, .groups = c->groups,
    };
    s->x_n = (size_t)c->batch_n * c->in * c->size * c->size;
    s->w_n = (size_t)c->out * taps;
    s->y_n = (size_t)c->batch_n * c->out * out_size * out_size;
    s->flop = 2.0 * (double)s->y_n * taps;
    if (c->groups == 1) {
        snprintf(s->shape, sizeof s->shape, "batch %u, %u->%u, %ux%u pad %u on %ux%u", c->batch_n,
                 c->in, c->out, c->kernel, c->kernel, c->pad, c->size, c->size);
    } else {
        snprintf(s->shape, sizeof s->shape, "batch %u, %u depthwise, %ux%u stride %u on %ux%u",
                 c->batch_n, c->in, c->kernel, c->kernel, c->stride, c->size, c->size);
    }
}

static void describe_dense(struct subject *s, enum part part, uint32_t batch_n, uint32_t in,
                           uint32_t out)
{
    s->part = part;
    s->batch_n = batch_n;
    s->dense = (struct uw_dense){in, out};
    s->x_n = (size_t)batch_n * in;
    s->w_n = (size_t)out * in;
    s->y_n = (size_t)batch_n * out;
    s->flop = 2.0 * batch_n * (double)s->w_n;
    snprintf(s->shape, sizeof s->shape, "batch %u, %u->%u", batch_n, in, out);
}

static void describe_pool(struct subject *s, enum part part)
{
    s->part = part;
    s->batch_n = 20;
    s->pool = (struct uw_pool2d){.channels = 32, .in_h = 28, .in_w = 28, .out_h = 14,
                                 .out_w = 14, .kernel_h = 2, .kernel_w = 2, .stride_h = 2,
                                 .stride_w = 2};
    s->x_n = (size_t)20 * 32 * 28 * 28;
    s->y_n = s->x_n / 4;
    s->bytes = 4.0 * (double)(s->x_n + s->y_n) + (double)s->y_n;
    snprintf(s->shape, sizeof s->shape, "batch 20, 32 channels, 2x2 on 28x28");
}

static void describe_vector(struct subject *s, enum part part)
{
    s->part = part;
    s->n = 1u << 20;
    s->x_n = s->w_n = s->y_n = s->n;
    s->bytes = 4.0 * (double)s->n * (part == SGD ? 5.0 : part == AXPBY ? 3.0 : 2.0);
    snprintf(s->shape, sizeof s->shape, "%zu", s->n);
}

static size_t floats_of(const struct subject *s)
{
    return s->x_n + s->w_n + s->y_n + 48;
}

static size_t bytes_of(const struct subject *s)
{
    return floats_of(s) * sizeof(float) + s->y_n;
}

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(i % 13) * 0.001f - 0.006f;
    }
}

static int take_buffers(const struct bench *b, struct buffers *buf, const struct subject *s)
{
    const struct uw_exec *e = &b->exec;
    int rc = UW_OK;
    if (b->device == NULL) {
        buf->memory_bytes = bytes_of(s);
        rc = uw_board_memory_take(buf->memory_bytes, &buf->memory);
    } else {
        buf->memory = b->lent.memory;
    }
    if (rc != UW_OK) {
        return rc;
    }
    buf->x = buf->memory;
    buf->w = buf->x + s->x_n + 16;
    buf->y = buf->w + s->w_n + 16;
    buf->winner = (uint8_t *)(buf->y + s->y_n + 16);
    if (b->device == NULL) {
        fill(buf->x, floats_of(s));
        return UW_OK;
    }
    rc = b->device->write(e, buf->x, b->lent.pattern, floats_of(s) * sizeof(float));
    return rc < 0 ? rc : b->device->zero(e, buf->winner, s->y_n);
}

static void release_buffers(const struct bench *b, struct buffers *buf)
{
    if (b->device == NULL) {
        uw_board_memory_release(buf->memory, buf->memory_bytes);
    }
}

static size_t scratch_bytes(const struct uw_kernels *k, const struct subject *s, uint32_t threads)
{
    switch (s->part) {
    case GEMM:
        return k->gemm_scratch_bytes(k, &s->gemm, threads);
    case CONV_FW: case CONV_BW_INPUT: case CONV_BW_PARAM:
        return k->conv2d_scratch_bytes(k, &s->conv, s->batch_n, threads);
    case DENSE_FW: case DENSE_BW_INPUT: case DENSE_BW_PARAM:
        return k->dense_scratch_bytes(k, &s->dense, s->batch_n, threads);
    default:
        return 0;
    }
}

static int call(const struct uw_exec *e, const struct subject *s, const struct buffers *b)
{
    static const struct uw_sgd sgd = {.lr = 1e-6f, .momentum = 0.9f};
    const struct uw_kernels *k = e->kernels;
    uint32_t n = s->batch_n;
    switch (s->part) {
    case GEMM: return k->gemm(e, &s->gemm, b->x, b->w, b->y);
    case CONV_FW: return k->conv2d_fw(e, &s->conv, n, b->x, b->w, NULL, b->y, false);
    case CONV_BW_INPUT: return k->conv2d_bw_input(e, &s->conv, n, b->y, b->w, b->x, false);
    case CONV_BW_PARAM:
        return k->conv2d_bw_param(e, &s->conv, n, b->x, b->y, 1e-9f, b->w, NULL);
    case DENSE_FW: return k->dense_fw(e, &s->dense, n, b->x, b->w, NULL, b->y);
    case DENSE_BW_INPUT: return k->dense_bw_input(e, &s->dense, n, b->y, b->w, b->x, false);
    case DENSE_BW_PARAM:
        return k->dense_bw_param(e, &s->dense, n, b->x, b->y, 1e-9f, b->w, NULL);
    case POOL_FW: return k->maxpool2d_fw(e, &s->pool, n, b->x, b->y, b->winner);
    case POOL_BW: return k->maxpool2d_bw_input(e, &s->pool, n, b->y, b->winner, b->x, false);
    case RELU_FW: return k->relu_fw(e, s->n, b->x, b->y);
    case AXPBY: return k->axpby(e, s->n, 0.5f, b->x, 0.5f, b->y);
    default: return k->sgd_update(e, s->n, &sgd, b->x, b->w, b->y);
    }
}

static void print_result(const struct bench *b, const struct subject *s, double ms)
{
    double gflops = s->flop / ms * 1e-6, gbytes = s->bytes / ms * 1e-6;
    if (b->json) {
        fprintf(b->out,
                "{\"event\":\"kernel\",\"name\":\"%s\",\"shape\":\"%s\",\"ms\":%.6g,"
                "\"gflops\":%.6g,\"gbytes_per_s\":%.6g}\n",
                part_name[s->part], s->shape, ms, gflops, gbytes);
    } else {
        fprintf(b->out, "%-19s %-38s %10.4f ms %9.2f %s\n", part_name[s->part], s->shape, ms,
                s->flop > 0.0 ? gflops : gbytes, s->flop > 0.0 ? "GFLOP/s" : "GB/s");
    }
    fflush(b->out);
}

/* Call a kernel repeatedly, until its device reports the end. */
static int call_often(const struct bench *b, const struct uw_exec *e, const struct subject *s,
                      const struct buffers *buf, uint32_t calls)
{
    int rc = UW_OK;
    for (uint32_t i = 0; i < calls && rc == UW_OK; i++) {
        rc = call(e, s, buf);
    }
    return rc == UW_OK && b->device != NULL ? b->device->wait(e) : rc;
}

/* Call until the share of time is used up, in groups of about a millisecond, much longer than the
 * clock's resolution; keep the fastest group. */
static double fastest_ms(struct bench *b, const struct uw_exec *e, const struct subject *s,
                         const struct buffers *buf)
{
    double best_ms = 0.0;
    uint32_t calls = 1;
    uint64_t begin = uw_board_now_us();
    while (b->rc == UW_OK) {
        uint64_t from = uw_board_now_us();
        b->rc = call_often(b, e, s, buf, calls);
        uint64_t now = uw_board_now_us();
        double ms = (double)(now - from) * 1e-3 / calls;
        if (now - from < 1000 && calls < (1u << 20)) {
            calls *= 2;
        } else if (best_ms <= 0.0 || ms < best_ms) {
            best_ms = ms;
        }
        if (best_ms > 0.0 && (double)(now - begin) * 1e-6 >= b->seconds_each) {
            break;
        }
    }
    return best_ms;
}

static void measure(struct bench *b, const struct subject *s)
{
    struct buffers buf = {0};
    struct uw_exec e = b->exec;
    e.scratch_bytes = scratch_bytes(e.kernels, s, uw_workers_threads(e.workers));
    size_t scratch = e.scratch_bytes;
    b->rc = b->rc == UW_OK ? take_buffers(b, &buf, s) : b->rc;
    if (b->device != NULL) {
        e.scratch = b->lent.scratch;
    } else if (b->rc == UW_OK) {
        b->rc = uw_board_memory_take(scratch, &e.scratch);
    }
    double best_ms = fastest_ms(b, &e, s, &buf);
    if (b->rc == UW_OK) {
        print_result(b, s, best_ms);
    }
    if (b->device == NULL) {
        uw_board_memory_release(e.scratch, scratch);
    }
    release_buffers(b, &buf);
}

static void measure_peak(const struct bench *b)
{
    double best = 0.0, flop = 0.0;
    uint64_t begin = uw_board_now_us(), now = begin;
    do {
        uint64_t from = now;
        flop = uw_kernels_tile_flop(b->exec.kernels, 2000);
        now = uw_board_now_us();
        double rate = now > from ? flop / (double)(now - from) * 1e-3 : 0.0;
        best = rate > best ? rate : best;
    } while (flop > 0.0 && (double)(now - begin) * 1e-6 < b->seconds_each);
    if (flop > 0.0) {
        fprintf(b->out,
                b->json ? "{\"event\":\"peak\",\"gflops\":%.6g}\n"
                        : "peak of one core, register tile in the first cache: %.1f GFLOP/s\n",
                best);
    }
}

#define SUBJECTS_MAX 96u

static uint32_t list_subjects(struct subject *s)
{
    uint32_t n = 0;
    for (uint32_t size = 64; size <= 1024; size *= 2) {
        describe_gemm(&s[n++], false, false, size);
        describe_gemm(&s[n++], true, false, size);
        describe_gemm(&s[n++], false, true, size);
    }
    for (int part = CONV_FW; part <= CONV_BW_PARAM; part++) {
        for (size_t i = 0; i < sizeof convs / sizeof convs[0]; i++) {
            describe_conv(&s[n++], (enum part)part, &convs[i]);
        }
    }
    for (int part = DENSE_FW; part <= DENSE_BW_PARAM; part++) {
        describe_dense(&s[n++], (enum part)part, 20, 3136, 512);        /* fedavg-cnn */
        describe_dense(&s[n++], (enum part)part, 20, 512, 10);
        describe_dense(&s[n++], (enum part)part, 20, 784, 128);         /* mlp */
        describe_dense(&s[n++], (enum part)part, 1, 3136, 512);
        describe_dense(&s[n++], (enum part)part, 128, 784, 128);
    }
    describe_pool(&s[n++], POOL_FW);
    describe_pool(&s[n++], POOL_BW);
    describe_vector(&s[n++], RELU_FW);
    describe_vector(&s[n++], AXPBY);
    describe_vector(&s[n++], SGD);
    return n;
}

/* Allocate GPU memory once for all subjects; closing the GPU frees it. */
static int lend(struct bench *b, struct uw_cuda *gpu, const struct subject *s, uint32_t n,
                struct uw_error *err)
{
    struct lent *l = &b->lent;
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = bytes_of(&s[i]), scratch = scratch_bytes(b->exec.kernels, &s[i], 1);
        l->memory_bytes = bytes > l->memory_bytes ? bytes : l->memory_bytes;
        l->scratch_bytes = scratch > l->scratch_bytes ? scratch : l->scratch_bytes;
        l->pattern_n = floats_of(&s[i]) > l->pattern_n ? floats_of(&s[i]) : l->pattern_n;
    }
    void *pattern = NULL;
    int rc = uw_cuda_take(gpu, UW_CUDA_KERNELS, l->memory_bytes, &l->memory, err);
    rc = rc < 0 ? rc : uw_cuda_take(gpu, UW_CUDA_KERNELS, l->scratch_bytes, &l->scratch, err);
    rc = rc < 0 ? rc : uw_cuda_take(gpu, UW_CUDA_PINNED, l->pattern_n * sizeof(float), &pattern,
                                    err);
    if (rc == UW_OK) {
        l->pattern = pattern;
        fill(l->pattern, l->pattern_n);
        b->device = b->exec.kernels->device;
    }
    return rc;
}

int uw_bench_kernels(FILE *out, const struct uw_bench_kernels *config, struct uw_error *err)
{
    struct subject subjects[SUBJECTS_MAX];
    memset(subjects, 0, sizeof subjects);
    uint32_t n = list_subjects(subjects);
    struct bench b = {.out = out, .json = config->json,
                      .exec = {.kernels = config->kernels, .workers = config->workers},
                      .seconds_each = config->seconds, .rc = UW_OK};
    uint64_t begin = uw_board_now_us();
    if (config->gpu != NULL) {
        int rc = lend(&b, config->gpu, subjects, n, err);
        if (rc < 0) {
            return rc;
        }
    } else {
        measure_peak(&b);
    }
    for (uint32_t i = 0; i < n && b.rc == UW_OK; i++) {
        measure(&b, &subjects[i]);
    }
    if (b.rc != UW_OK) {
        return uw_error_set(err, b.rc, "%s", uw_status_text(b.rc));
    }
    double took = uw_seconds_since(begin);
    fprintf(out,
            config->json
                ? "{\"event\":\"done\",\"backend\":\"%s\",\"threads\":%u,\"seconds\":%.3f}\n"
                : "backend %s, threads %u, %.1f s\n",
            config->kernels->name, uw_workers_threads(config->workers), took);
    return UW_OK;
}
