/* SPDX-License-Identifier: Apache-2.0
 *
 * The file:
 *
 *   {"peers": ["PyTorch 2.1, MKL", ..],
 *    "rows": [{"work": "mlp:32", "threads": 1, "windows": [[U, P, ..], ..],
 *              "rss_bytes": [U, P, ..]}, ..]}
 *
 * A window holds samples per second of uwasa and of each peer, measured in turns; 0: was not. */
#include "bench_train.h"

#include "json_read.h"

#define PEERS_MAX 8

/* Element k of an array of numbers; a mistake when it is none. */
static double number_at(struct uw_json *j, const cJSON *array, uint32_t k)
{
    const cJSON *v = cJSON_GetArrayItem(array, (int)k);
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0.0)) {
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

static void print_row(FILE *out, struct uw_json *j, const cJSON *row, const cJSON *peers)
{
    uw_json_keys(j, row, "a row", "work|threads|windows|rss_bytes");
    const char *work = uw_json_text(j, row, "work", NULL);
    uint32_t threads = uw_json_u32(j, uw_json_member(j, row, "threads", true), "threads", 1, 256);
    const cJSON *windows = uw_json_member(j, row, "windows", true);
    const cJSON *rss = uw_json_member(j, row, "rss_bytes", true);
    uint32_t n = windows != NULL ? (uint32_t)cJSON_GetArraySize(windows) : 0;
    if (n == 0 || n > UW_BENCH_WINDOWS_MAX) {
        uw_json_fail(j, windows, "windows: needs 1 to %u", UW_BENCH_WINDOWS_MAX);
        return;
    }
    uint32_t best = 1;
    struct uw_spread peer = speed_of(j, windows, n, 1);
    for (uint32_t p = 2; p <= (uint32_t)cJSON_GetArraySize(peers); p++) {
        struct uw_spread s = speed_of(j, windows, n, p);
        if (s.median > peer.median) {
            best = p;
            peer = s;
        }
    }
    struct uw_spread own = speed_of(j, windows, n, 0);
    struct uw_spread ratio = ratio_of(j, windows, n, best);
    double own_rss = number_at(j, rss, 0), peer_rss = number_at(j, rss, best);
    if (j->err.code != UW_OK) {
        return;
    }
    fprintf(out, "%-15s %7u %11.1f %11.1f  %6.2fx %6.2f %6.2f %8.1f %8.1f %6.1fx  %s\n", work,
            threads, own.median, peer.median, ratio.median, ratio.low, ratio.high, own_rss * 1e-6,
            peer_rss * 1e-6, own_rss > 0.0 ? peer_rss / own_rss : 0.0,
            cJSON_GetStringValue(cJSON_GetArrayItem(peers, (int)best - 1)));
}

static bool are_names(const cJSON *peers)
{
    const cJSON *one;
    int n = cJSON_GetArraySize(peers);
    cJSON_ArrayForEach(one, peers) {
        n = cJSON_IsString(one) ? n : 0;
    }
    return n > 0 && n <= PEERS_MAX;
}

int uw_bench_against(FILE *out, const char *file, struct uw_error *err)
{
    struct uw_json j;
    int rc = uw_json_open_file(&j, file);
    if (rc == UW_OK) {
        uw_json_keys(&j, j.root, "the file", "peers|rows");
        const cJSON *peers = uw_json_member(&j, j.root, "peers", true);
        const cJSON *rows = uw_json_member(&j, j.root, "rows", true);
        const cJSON *row;
        if (j.err.code == UW_OK && !are_names(peers)) {
            uw_json_fail(&j, peers, "peers: needs 1 to %d names", PEERS_MAX);
        }
        fprintf(out, "%-15s %7s %11s %11s  %7s %6s %6s %8s %8s %7s  %s\n", "model:minibatch",
                "threads", "uwasa", "fastest", "median", "low", "high", "RSS MB", "its", "ratio",
                "samples/s, the peer that is fastest");
        cJSON_ArrayForEach(row, rows) {
            if (j.err.code == UW_OK) {
                print_row(out, &j, row, peers);
            }
        }
        rc = j.err.code;
    }
    *err = j.err;
    uw_json_close(&j);
    return rc;
}
