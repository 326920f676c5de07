/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_kernels.h"
#include "bench_train.h"
#include "base/open_file.h"

#include "uwasa/board.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 1024u              /* of the matrices */
#define CHOICES_MAX 16u
#define TEXT_MAX 65536u
#define PATH_BYTES 1024u
#define WORTH 1.02
#define LAST_ROW "    {NULL, "

struct choice {
    struct uw_kernels_fitted fitted;
    const struct uw_kernels *kernels;
    uint32_t rows, columns;
    double ratio[3 * UW_BENCH_WINDOWS_MAX];     /* to the first choice, windows of all shapes */
    struct uw_spread gain;
};

struct table_bench {
    const struct uw_bench_kernels *config;
    struct uw_caches caches;
    struct choice choices[CHOICES_MAX];
    uint32_t choices_n;
    float *matrices;
    void *scratch;
    size_t scratch_bytes;
};

/* n times 1/2, 1, 2 or 4. */
static uint32_t scaled(uint32_t n, uint32_t power)
{
    return n / 2 << power;
}

/* The tile's own block sizes first, then those whose A fits well into the L2 cache and whose B fits
 * into a fair part of the last-level cache. */
static void list_choices(struct table_bench *t, const struct uw_blocks *own)
{
    size_t last = t->caches.l3_bytes / 4;
    last = last > t->caches.l2_bytes ? last : t->caches.l2_bytes;
    for (uint32_t i = 0; i < 17; i++) {
        uint32_t at = i - 1;
        uint32_t rows = i == 0 ? own->rows : scaled(own->rows, at % 4);
        uint32_t columns = i == 0 ? own->columns : scaled(own->columns, at / 4);
        bool again = i > 0 && rows == own->rows && columns == own->columns;
        size_t deep = own->depth * sizeof(float);
        bool fits = columns <= SIZE && rows * deep <= t->caches.l2_bytes / 4 * 3 &&
                    columns * deep <= last;
        if (i == 0 || (fits && !again)) {
            struct choice *c = &t->choices[t->choices_n++];
            c->kernels = uw_kernels_with_blocks(&c->fitted, t->config->kernels, rows, columns);
            struct uw_blocks real;
            (void)uw_kernels_blocks(c->kernels, &real);
            c->rows = real.rows;        /* whole register tiles */
            c->columns = real.columns;
        }
    }
}

static struct uw_gemm shape_of(uint32_t shape)
{
    return (struct uw_gemm){.trans_a = shape == 1, .trans_b = shape == 2, .m = SIZE, .n = SIZE,
                            .k = SIZE, .lda = SIZE, .ldb = SIZE, .ldc = SIZE, .alpha = 1.0f};
}

static int take_memory(struct table_bench *t)
{
    void *memory = NULL;
    int rc = uw_board_memory_take(3 * sizeof(float) * SIZE * SIZE, &memory);
    t->matrices = memory;
    for (uint32_t i = 0; i < 3 * SIZE * SIZE && rc == UW_OK; i++) {
        t->matrices[i] = (float)(i % 13) * 0.001f - 0.006f;
    }
    for (uint32_t i = 0; i < 3 * t->choices_n; i++) {
        const struct uw_kernels *k = t->choices[i / 3].kernels;
        struct uw_gemm g = shape_of(i % 3);
        size_t bytes = k->gemm_scratch_bytes(k, &g, uw_workers_threads(t->config->workers));
        t->scratch_bytes = bytes > t->scratch_bytes ? bytes : t->scratch_bytes;
    }
    return rc < 0 ? rc : uw_board_memory_take(t->scratch_bytes, &t->scratch);
}

/* Products in a second. */
static double speed_of(const struct table_bench *t, const struct uw_kernels *k, uint32_t shape)
{
    const struct uw_exec e = {.kernels = k, .workers = t->config->workers, .scratch = t->scratch,
                              .scratch_bytes = t->scratch_bytes};
    const struct uw_gemm g = shape_of(shape);
    const size_t n = (size_t)SIZE * SIZE;
    uint32_t calls = 0;
    uint64_t from = uw_board_now_us(), took;
    do {
        (void)k->gemm(&e, &g, t->matrices, t->matrices + n, t->matrices + 2 * n);
        calls++;
        took = uw_board_now_us() - from;
    } while ((double)took * 1e-6 < t->config->seconds || took == 0);
    return calls / ((double)took * 1e-6);
}

static void measure(struct table_bench *t)
{
    for (uint32_t i = 0; i < 3 * t->config->windows; i++) {
        double first = speed_of(t, t->choices[0].kernels, i % 3);
        for (uint32_t c = 0; c < t->choices_n; c++) {
            t->choices[c].ratio[i] =
                c == 0 ? 1.0 : speed_of(t, t->choices[c].kernels, i % 3) / first;
        }
    }
    for (uint32_t c = 0; c < t->choices_n; c++) {
        t->choices[c].gain = uw_spread_of(t->choices[c].ratio, 3 * t->config->windows);
    }
}

static bool is_same(const struct uw_table_row *row, const char *line)
{
    char name[32];
    unsigned l1, l2, l3;
    return sscanf(line, " {\"%31[^\"]\", {%u, %u, %u}", name, &l1, &l2, &l3) == 4 &&
           strcmp(name, row->kernels) == 0 && l1 == row->caches.l1_bytes &&
           l2 == row->caches.l2_bytes && l3 == row->caches.l3_bytes;
}

/* The whole file, or NULL with err filled. */
static char *read_table(const char *file, struct uw_error *err)
{
    size_t bytes;
    char *text = uw_read_file(file, TEXT_MAX, &bytes);
    if (text == NULL && errno != EFBIG) {
        uw_error_set(err, UW_ERR_NOTFOUND, "%s: cannot be read", file);
    } else if (text == NULL || strstr(text, "\n" LAST_ROW) == NULL) {
        uw_error_set(err, UW_ERR_CORRUPT, "%s: needs the form of kernels/packed/blocking_table.h",
                     file);
        free(text);
        text = NULL;
    }
    return text;
}

/* Open the file of the new table; it replaces the old one when complete. NULL with err filled. */
static FILE *open_part(const char *file, char *part, size_t part_bytes, struct uw_error *err)
{
    int n = snprintf(part, part_bytes, "%s.part", file);
    bool may = n > 0 && (size_t)n < part_bytes && access(file, W_OK) == 0;
    FILE *f = may ? uw_open_file(part, true) : NULL;
    if (f == NULL) {
        uw_error_set(err, UW_ERR_IO, "%s: cannot be written", file);
    }
    return f;
}

static void print_table(FILE *f, const char *text, const struct uw_table_row *row)
{
    for (const char *line = text, *next; *line != '\0'; line = next) {
        next = line + strcspn(line, "\n");
        next += *next != '\0';
        if (strncmp(line, LAST_ROW, strlen(LAST_ROW)) == 0 && row != NULL && row->rows > 0) {
            fprintf(f, "    {\"%s\", {%u, %u, %u}, %u, %u},\n", row->kernels,
                    (unsigned)row->caches.l1_bytes, (unsigned)row->caches.l2_bytes,
                    (unsigned)row->caches.l3_bytes, (unsigned)row->rows, (unsigned)row->columns);
        }
        if (row == NULL || !is_same(row, line)) {
            fwrite(line, 1, (size_t)(next - line), f);
        }
    }
}

int uw_bench_table_put(const char *file, const struct uw_table_row *row, struct uw_error *err)
{
    char part[PATH_BYTES];
    char *text = read_table(file, err);
    FILE *f = text != NULL ? open_part(file, part, sizeof part, err) : NULL;
    if (f == NULL) {
        free(text);
        return err->code;
    }
    print_table(f, text, row);
    free(text);
    bool bad = ferror(f) != 0;
    bad = fflush(f) != 0 || fsync(fileno(f)) != 0 || bad;
    bad = fclose(f) != 0 || bad;
    if (row == NULL) {
        unlink(part);
    } else if (bad || rename(part, file) != 0) {
        unlink(part);
        return uw_error_set(err, UW_ERR_IO, "%s: cannot be written", file);
    }
    return UW_OK;
}

static int run(FILE *out, struct table_bench *t, struct uw_error *err)
{
    struct uw_blocks own;
    t->caches = (struct uw_caches){uw_board_cache_bytes(1), uw_board_cache_bytes(2),
                                   uw_board_cache_bytes(3)};
    if (!uw_kernels_blocks(t->config->kernels, &own) || t->caches.l2_bytes == 0) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "kernels %s: no register tile, or the system "
                            "does not report its caches", t->config->kernels->name);
    }
    fprintf(out, "kernels %s, caches of %u, %u and %u bytes, blocks %u deep\n",
            t->config->kernels->name, (unsigned)t->caches.l1_bytes, (unsigned)t->caches.l2_bytes,
            (unsigned)t->caches.l3_bytes, (unsigned)own.depth);
    list_choices(t, &own);
    int rc = take_memory(t);
    if (rc < 0) {
        return uw_error_set(err, rc, "%s", uw_status_text(rc));
    }
    measure(t);
    const struct choice *best = NULL;
    for (uint32_t i = 0; i < t->choices_n; i++) {
        const struct choice *c = &t->choices[i];
        fprintf(out, "%6u rows %6u columns  %.3fx (%.3f to %.3f)%s\n", (unsigned)c->rows,
                (unsigned)c->columns, c->gain.median, c->gain.low, c->gain.high,
                i == 0 ? ", the tile's own" : "");
        if (c->gain.low > 1.0 && c->gain.median >= (best != NULL ? best->gain.median : WORTH)) {
            best = c;
        }
    }
    if (best != NULL) {
        fprintf(out, "row: %u, %u, in %s; a build with it uses it\n", (unsigned)best->rows,
                (unsigned)best->columns, t->config->file);
    } else {
        fprintf(out, "no row in %s: nothing is 2 %% faster, and never slower\n", t->config->file);
    }
    const struct uw_table_row row = {t->config->kernels->name, t->caches,
                                     best != NULL ? best->rows : 0,
                                     best != NULL ? best->columns : 0};
    return uw_bench_table_put(t->config->file, &row, err);
}

int uw_bench_table(FILE *out, const struct uw_bench_kernels *b, struct uw_error *err)
{
    struct table_bench *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%s", uw_status_text(UW_ERR_NOMEM));
    }
    t->config = b;
    int rc = uw_bench_table_put(b->file, NULL, err);    /* check before minutes of measuring */
    rc = rc < 0 ? rc : run(out, t, err);
    uw_board_memory_release(t->scratch, t->scratch_bytes);
    uw_board_memory_release(t->matrices, 3 * sizeof(float) * SIZE * SIZE);
    free(t);
    return rc;
}
