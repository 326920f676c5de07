/* SPDX-License-Identifier: Apache-2.0
 *
 * The file:
 *
 *   {"machine": "AMD EPYC, 2 cores", "date": "2026-11-21",     (optional)
 *    "peers": ["PyTorch 2.1, MKL", ..],
 *    "rows": [{"work": "mlp:32", "threads": 1, "windows": [[U, P, ..], ..],
 *              "rss_bytes": [U, P, ..]}, ..]}
 *
 * A window holds samples per second of uwasa and each peer, measured in turns; 0: not measured. */
#include "bench_train.h"

#include "base/json_read.h"

#define PEERS_MAX 8
#define NUMBER_MAX 1e15

/* Element k of an array of numbers; a mistake when it is none. */
static double number_at(struct uw_json *j, const cJSON *array, uint32_t k)
{
    const cJSON *v = cJSON_GetArrayItem(array, (int)k);
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0.0 && v->valuedouble <= NUMBER_MAX)) {
        uw_json_fail(j, array, "needs a number of 0 or more at place %u", (unsigned)k + 1);
        return 0.0;
    }
    return v->valuedouble;
}

/* Samples per second over the windows; peer 0 is uwasa. */
static struct uw_spread speed_of(struct uw_json *j, const cJSON *windows, uint32_t n, uint32_t peer)
{
    double x[UW_BENCH_WINDOWS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        x[i] = number_at(j, cJSON_GetArrayItem(windows, (int)i), peer);
    }
    return uw_spread_of(x, n);
}

static struct uw_spread ratio_of(struct uw_json *j, const cJSON *windows, uint32_t n, uint32_t peer)
{
    double x[UW_BENCH_WINDOWS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        const cJSON *w = cJSON_GetArrayItem(windows, (int)i);
        double other = number_at(j, w, peer);
        x[i] = other > 0.0 ? number_at(j, w, 0) / other : 0.0;
    }
    return uw_spread_of(x, n);
}

/* A work with a number of threads: uwasa, and the peer with the highest median. */
struct row {
    const char *work, *peer;
    uint32_t threads, windows;
    struct uw_spread own, other, ratio;
    double own_rss, other_rss;      /* other: of the peer with the least memory */
};

static struct row read_row(struct uw_json *j, const cJSON *row, const cJSON *peers)
{
    uw_json_keys(j, row, "a row", "work|threads|windows|rss_bytes");
    struct row r = {.work = uw_json_text(j, row, "work", NULL)};
    r.threads = uw_json_u32(j, uw_json_member(j, row, "threads", true), "threads", 1, 256);
    const cJSON *windows = uw_json_member(j, row, "windows", true);
    const cJSON *rss = uw_json_member(j, row, "rss_bytes", true);
    r.windows = windows != NULL ? (uint32_t)cJSON_GetArraySize(windows) : 0;
    if (r.windows == 0 || r.windows > UW_BENCH_WINDOWS_MAX) {
        uw_json_fail(j, windows, "windows: needs 1 to %u", UW_BENCH_WINDOWS_MAX);
        return r;
    }
    uint32_t best = 0;
    for (uint32_t p = 1; p <= (uint32_t)cJSON_GetArraySize(peers); p++) {
        struct uw_spread s = speed_of(j, windows, r.windows, p);
        double bytes = number_at(j, rss, p);
        if (best == 0 || s.median > r.other.median) {
            best = p;
            r.other = s;
        }
        r.other_rss = p == 1 || bytes < r.other_rss ? bytes : r.other_rss;
    }
    r.peer = cJSON_GetStringValue(cJSON_GetArrayItem(peers, (int)best - 1));
    r.own = speed_of(j, windows, r.windows, 0);
    r.ratio = ratio_of(j, windows, r.windows, best);
    r.own_rss = number_at(j, rss, 0);
    return r;
}

static void print_row(FILE *out, const struct row *r)
{
    fprintf(out, "%-16s %7u %11.1f %11.1f  %6.2fx %6.2f %6.2f %8.1f %10.1f %6.1fx  %s\n", r->work,
            r->threads, r->own.median, r->other.median, r->ratio.median, r->ratio.low,
            r->ratio.high, r->own_rss * 1e-6, r->other_rss * 1e-6,
            r->own_rss > 0.0 ? r->other_rss / r->own_rss : 0.0, r->peer);
}

/* Three digits: the measurement is not more precise. */
static const char *three_digits(char *text, size_t bytes, double x)
{
    snprintf(text, bytes, "%.*f", x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x);
    return text;
}

static void print_cell(FILE *out, const struct uw_spread *s, const char *unit)
{
    char median[32], low[32], high[32];
    fprintf(out, " %s%s (%s to %s) |", three_digits(median, sizeof median, s->median), unit,
            three_digits(low, sizeof low, s->low), three_digits(high, sizeof high, s->high));
}

static void print_markdown_row(FILE *out, const struct row *r)
{
    fprintf(out, "| %s | %u |", r->work, r->threads);
    print_cell(out, &r->own, "");
    print_cell(out, &r->other, "");
    print_cell(out, &r->ratio, "x");
    fprintf(out, " %.1f | %.0f | %.1fx |\n", r->own_rss * 1e-6, r->other_rss * 1e-6,
            r->own_rss > 0.0 ? r->other_rss / r->own_rss : 0.0);
}

static void print_head(FILE *out, struct uw_json *j, const cJSON *peers, bool markdown)
{
    if (!markdown) {
        fprintf(out, "%-16s %7s %11s %11s  %7s %6s %6s %8s %10s %7s  %s\n", "", "", "samples/s",
                "", "ratio", "", "", "RSS MB", "", "ratio", "");
        fprintf(out, "%-16s %7s %11s %11s  %7s %6s %6s %8s %10s %7s  %s\n", "model:minibatch",
                "threads", "uwasa", "fastest", "median", "low", "high", "uwasa", "least", "",
                "the fastest");
        return;
    }
    const cJSON *one;
    const char *between = ": ";
    fprintf(out, "%s, %s. Beside", uw_json_text(j, j->root, "date", "No date"),
            uw_json_text(j, j->root, "machine", "some machine"));
    cJSON_ArrayForEach(one, peers) {
        fprintf(out, "%s%s", between, cJSON_GetStringValue(one));
        between = "; ";
    }
    fputs(".\n\n| Model:minibatch | Threads | uwasa, samples/s | PyTorch, the fastest | Faster | "
          "uwasa, peak MB | PyTorch, the least | Smaller |\n"
          "|---|---|---|---|---|---|---|---|\n", out);
}

static bool are_names(const cJSON *peers)
{
    const cJSON *one;
    int n = cJSON_GetArraySize(peers);
    cJSON_ArrayForEach(one, peers) {
        n = cJSON_IsString(one) ? n : 0;
    }
    return cJSON_IsArray(peers) && n > 0 && n <= PEERS_MAX;
}

int uw_bench_against(FILE *out, const char *file, bool markdown, struct uw_error *err)
{
    struct uw_json j;
    int rc = uw_json_open_file(&j, file);
    if (rc == UW_OK) {
        uw_json_keys(&j, j.root, "the file", "peers|rows|machine|date");
        const cJSON *peers = uw_json_member(&j, j.root, "peers", true);
        const cJSON *rows = uw_json_member(&j, j.root, "rows", true);
        const cJSON *row;
        if (j.err.code == UW_OK && !are_names(peers)) {
            uw_json_fail(&j, peers, "peers: needs 1 to %d names", PEERS_MAX);
        }
        if (j.err.code == UW_OK && (!cJSON_IsArray(rows) || cJSON_GetArraySize(rows) == 0)) {
            uw_json_fail(&j, rows, "rows: needs an array of 1 or more");
        }
        if (j.err.code == UW_OK) {
            print_head(out, &j, peers, markdown);
        }
        cJSON_ArrayForEach(row, rows) {
            struct row r = read_row(&j, row, peers);
            if (j.err.code != UW_OK) {
                break;
            }
            (markdown ? print_markdown_row : print_row)(out, &r);
        }
        rc = j.err.code;
    }
    *err = j.err;
    uw_json_close(&j);
    return rc;
}
