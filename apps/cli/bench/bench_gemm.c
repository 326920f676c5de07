/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_kernels.h"
#include "bench_train.h"

#include "uwasa/board.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define SIDES_MAX 6u            /* uwasa and the libraries */
#define NAME_BYTES 256u
#define SETTLE_NS 50000000L     /* until the previous library's threads stop spinning */

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);

struct side {
    char file[NAME_BYTES];
    void *library;
    sgemm_fn sgemm;             /* NULL: uwasa */
};

struct gemm_bench {
    const struct uw_bench_kernels *config;
    struct uw_exec exec;
    struct uw_gemm shape;
    struct side sides[SIDES_MAX];
    uint32_t sides_n;
    float *a, *b, *c, *other;
    size_t elements_n, memory_bytes;
    double peak[UW_BENCH_WINDOWS_MAX], speed[SIDES_MAX][UW_BENCH_WINDOWS_MAX];
};

static bool symbol(void *library, const char *name, void *function, size_t bytes)
{
    void *found = dlsym(library, name);
    if (found != NULL) {
        memcpy(function, &found, bytes); /* POSIX: a function's address fits */
    }
    return found != NULL;
}

static void set_threads(void *library, uint32_t threads)
{
    void (*with_int)(int) = NULL;
    void (*with_dim)(int64_t) = NULL;
    if (symbol(library, "openblas_set_num_threads", (void *)&with_int, sizeof with_int) ||
        symbol(library, "MKL_Set_Num_Threads", (void *)&with_int, sizeof with_int)) {
        with_int((int)threads);
    } else if (symbol(library, "bli_thread_set_num_threads", (void *)&with_dim,
                      sizeof with_dim)) {
        with_dim(threads);
    }
}

static int load_sides(struct gemm_bench *g, struct uw_error *err)
{
    g->sides_n = 1;
    for (const char *at = g->config->file; *at != '\0';) {
        size_t length = strcspn(at, ",");
        if (length >= NAME_BYTES || g->sides_n == SIDES_MAX) {
            return uw_error_set(err, UW_ERR_INVALID, "--against %.100s: at most %u files", at,
                                SIDES_MAX - 1);
        }
        struct side *s = &g->sides[g->sides_n++];
        memcpy(s->file, at, length);
        s->library = dlopen(s->file, RTLD_NOW | RTLD_LOCAL);
        if (s->library == NULL) {
            return uw_error_set(err, UW_ERR_NOTFOUND, "--against %.100s: %s", s->file, dlerror());
        }
        if (!symbol(s->library, "cblas_sgemm", (void *)&s->sgemm, sizeof s->sgemm)) {
            return uw_error_set(err, UW_ERR_NOTFOUND, "--against %.100s: has no cblas_sgemm",
                                s->file);
        }
        set_threads(s->library, uw_workers_threads(g->exec.workers));
        at += length + (at[length] == ',' ? 1 : 0);
    }
    return UW_OK;
}

static int multiply(const struct gemm_bench *g, const struct side *s, float *c)
{
    const struct uw_gemm *p = &g->shape;
    if (s->sgemm == NULL) {
        return g->exec.kernels->gemm(&g->exec, p, g->a, g->b, c);
    }
    s->sgemm(ROW_MAJOR, p->trans_a ? TRANSPOSED : PLAIN, p->trans_b ? TRANSPOSED : PLAIN,
             (int)p->m, (int)p->n, (int)p->k, p->alpha, g->a, (int)p->lda, g->b, (int)p->ldb,
             p->beta, c, (int)p->ldc);
    return UW_OK;
}

/* Warm up uwasa and the libraries, and check that their results agree. */
static int compare(struct gemm_bench *g, struct uw_error *err)
{
    int rc = multiply(g, &g->sides[0], g->c);
    for (uint32_t s = 1; s < g->sides_n && rc == UW_OK; s++) {
        rc = multiply(g, &g->sides[s], g->other);
        for (size_t i = 0; i < (size_t)g->shape.m * g->shape.n && rc == UW_OK; i++) {
            if (!(fabsf(g->c[i] - g->other[i]) <= 1e-5f * (float)g->shape.k)) {
                return uw_error_set(err, UW_ERR_MISMATCH,
                                    "--against %.100s: its product of %u x %u matrices is wrong",
                                    g->sides[s].file, g->shape.m, g->shape.n);
            }
        }
    }
    return rc < 0 ? uw_error_set(err, rc, "%s", uw_status_text(rc)) : UW_OK;
}

/* GFLOP/s of one window. */
static double run_window(const struct gemm_bench *g, const struct side *s)
{
    const struct timespec settle = {.tv_nsec = SETTLE_NS};
    if (uw_workers_threads(g->exec.workers) > 1) {
        nanosleep(&settle, NULL);
    }
    double flop = 0.0, took;
    (void)multiply(g, s, g->c);
    uint64_t from = uw_board_now_us();
    do {
        (void)multiply(g, s, g->c);
        flop += 2.0 * g->shape.m * g->shape.n * g->shape.k;
        took = uw_seconds_since(from);
    } while (took < g->config->seconds);
    return took > 0.0 ? flop / took * 1e-9 : 0.0;
}

static void run_peak_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)task, (void)thread;
    const struct gemm_bench *g = arg;
    (void)uw_kernels_fma_flop(g->exec.kernels, 100000);
}

static double run_peak(struct gemm_bench *g)
{
    uint32_t threads = uw_workers_threads(g->exec.workers);
    double each = uw_kernels_fma_flop(g->exec.kernels, 1) * 100000.0, flop = 0.0, took;
    uint64_t from = uw_board_now_us();
    do {
        uw_workers_run(g->exec.workers, run_peak_task, g, threads);
        flop += each * threads;
        took = uw_seconds_since(from);
    } while (took < g->config->seconds && each > 0.0);
    return took > 0.0 ? flop / took * 1e-9 : 0.0;
}

static double median_of(const struct gemm_bench *g, const double *x)
{
    return uw_spread_ratio(x, NULL, g->config->windows).median;
}

static struct uw_spread ratio_to(const struct gemm_bench *g, const double *other)
{
    return uw_spread_ratio(g->speed[0], other, g->config->windows);
}

static void print_json(FILE *out, const struct gemm_bench *g, const char *shape)
{
    struct uw_spread share = ratio_to(g, g->peak);
    fprintf(out, "{\"event\":\"gemm\",\"shape\":\"%s\",\"size\":%u,\"threads\":%u,\"gflops\":[",
            shape, g->shape.m, uw_workers_threads(g->exec.workers));
    for (uint32_t s = 0; s < g->sides_n; s++) {
        fprintf(out, "%s%.6g", s > 0 ? "," : "", median_of(g, g->speed[s]));
    }
    fprintf(out, "],\"peak_gflops\":%.6g,\"peak_share\":[%.6g,%.6g,%.6g],\"ratios\":[",
            median_of(g, g->peak), share.low, share.median, share.high);
    for (uint32_t s = 1; s < g->sides_n; s++) {
        struct uw_spread r = ratio_to(g, g->speed[s]);
        fprintf(out, "%s[%.6g,%.6g,%.6g]", s > 1 ? "," : "", r.low, r.median, r.high);
    }
    fprintf(out, "]}\n");
    fflush(out);
}

static void print_row(FILE *out, const struct gemm_bench *g, const char *shape)
{
    double peak = median_of(g, g->peak), own = median_of(g, g->speed[0]);
    if (peak > 0.0) {
        fprintf(out, "%s %-8u %8.1f %8.1f %6.1f%%", shape, g->shape.m, peak, own,
                100.0 * ratio_to(g, g->peak).median);
    } else {
        fprintf(out, "%s %-8u %8s %8.1f %7s", shape, g->shape.m, "-", own, "-");
    }
    for (uint32_t s = 1; s < g->sides_n; s++) {
        struct uw_spread r = ratio_to(g, g->speed[s]);
        fprintf(out, "  | %8.1f %5.2fx %5.2f %5.2f", median_of(g, g->speed[s]), r.median, r.low,
                r.high);
    }
    fputc('\n', out);
    fflush(out);
}

static void print_head(FILE *out, const struct gemm_bench *g)
{
    fprintf(out, "backend %s, threads %u, %u windows in turns; GFLOP/s of all threads, medians\n",
            g->exec.kernels->name, uw_workers_threads(g->exec.workers), g->config->windows);
    for (uint32_t s = 1; s < g->sides_n; s++) {
        fprintf(out, "library %u: %s\n", s, g->sides[s].file);
    }
    fprintf(out, "%-11s %8s %8s %7s", "shape, size", "peak", "uwasa", "of peak");
    for (uint32_t s = 1; s < g->sides_n; s++) {
        fprintf(out, "  | %7s%u %6s %5s %5s", "library ", s, "median", "low", "high");
    }
    fputc('\n', out);
}

static int measure(FILE *out, struct gemm_bench *g, uint32_t size, bool trans_a, bool trans_b,
                   struct uw_error *err)
{
    const char shape[3] = {trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', '\0'};
    g->shape = (struct uw_gemm){.trans_a = trans_a, .trans_b = trans_b, .m = size, .n = size,
                                .k = size, .lda = size, .ldb = size, .ldc = size, .alpha = 1.0f};
    uint32_t threads = uw_workers_threads(g->exec.workers);
    struct uw_exec *e = &g->exec;
    e->scratch_bytes = e->kernels->gemm_scratch_bytes(e->kernels, &g->shape, threads);
    int rc = uw_board_memory_take(e->scratch_bytes, &e->scratch);
    if (rc < 0) {
        return uw_error_set(err, rc, "%s", uw_status_text(rc));
    }
    rc = compare(g, err);
    for (uint32_t i = 0; i < g->config->windows && rc == UW_OK; i++) {
        g->peak[i] = run_peak(g);
        for (uint32_t s = 0; s < g->sides_n; s++) {
            g->speed[s][i] = run_window(g, &g->sides[s]);
        }
    }
    if (rc == UW_OK && g->config->json) {
        print_json(out, g, shape);
    } else if (rc == UW_OK) {
        print_row(out, g, shape);
    }
    uw_board_memory_release(e->scratch, e->scratch_bytes);
    return rc;
}

static int take_matrices(struct gemm_bench *g, uint32_t size, struct uw_error *err)
{
    g->elements_n = (size_t)size * size;
    g->memory_bytes = 4 * g->elements_n * sizeof(float);
    void *memory = NULL;
    int rc = uw_board_memory_take(g->memory_bytes, &memory);
    if (rc < 0) {
        return uw_error_set(err, rc, "%s", uw_status_text(rc));
    }
    g->a = memory;
    g->b = g->a + g->elements_n;
    g->c = g->b + g->elements_n;
    g->other = g->c + g->elements_n;
    for (size_t i = 0; i < 2 * g->elements_n; i++) {
        g->a[i] = (float)((uint32_t)i * 2654435761u >> 16) / 65536.0f - 0.5f;
    }
    return UW_OK;
}

int uw_bench_gemm(FILE *out, const struct uw_bench_kernels *b, struct uw_error *err)
{
    static const uint32_t sizes[] = {256, 384, 512, 768, 1024, 1536, 2048};
    static const bool shapes[][2] = {{false, false}, {true, false}, {false, true}};
    const uint32_t sizes_n = sizeof sizes / sizeof sizes[0];
    struct gemm_bench g = {.config = b, .exec = {.kernels = b->kernels, .workers = b->workers}};
    int rc = load_sides(&g, err);
    rc = rc < 0 ? rc : take_matrices(&g, sizes[sizes_n - 1], err);
    if (rc == UW_OK && !b->json) {
        print_head(out, &g);
    }
    for (uint32_t i = 0; i < 3 * sizes_n && rc == UW_OK; i++) {
        rc = measure(out, &g, sizes[i / 3], shapes[i % 3][0], shapes[i % 3][1], err);
    }
    if (g.a != NULL) {
        uw_board_memory_release(g.a, g.memory_bytes);
    }
    /* The libraries stay loaded: their threads may still run. */
    return rc;
}
