/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "bench_gemm.h"
#include "bench_kernels.h"
#include "bench_table.h"
#include "bench_train.h"
#include "commands.h"
#include "job.h"

#include "uwasa/board.h"

#include <stdio.h>
#include <string.h>

struct options {
    const char *backend, *work, *against, *table;
    uint32_t threads, windows;
    double seconds;             /* 0: not given */
    bool json, markdown, beside, exact;
};

static const struct uw_opt rows[] = {
    {"backend", UW_OPT_CHOICE, offsetof(struct options, backend), 0, 0, UW_BACKENDS,
     "kernels to measure (auto)"},
    {"exact", UW_OPT_FLAG, offsetof(struct options, exact), 0, 0, NULL, UW_EXACT_HELP},
    {"threads", UW_OPT_U32, offsetof(struct options, threads), 1, 256, "N",
     "threads that compute (one a core)"},
    {"seconds", UW_OPT_REAL, offsetof(struct options, seconds), 0.001, 60, "S",
     "for each kernel (0.2), for each window of train (1), beside a library (0.1)"},
    {"work", UW_OPT_TEXT, offsetof(struct options, work), 0, 0, "M:B,...",
     "train: models and minibatches (those of the README); M:B:BYTES with a memory budget"},
    {"windows", UW_OPT_U32, offsetof(struct options, windows), 1, UW_BENCH_WINDOWS_MAX, "N",
     "train, and beside a library: of each work or product (7)"},
    {"against", UW_OPT_TEXT, offsetof(struct options, against), 0, 0, "FILE",
     "train: the table of a file of tools/bench_pytorch, which measures both in turns; kernels: "
     "matrix products and those of CBLAS libraries, FILE,..., in turns"},
    {"beside-plain", UW_OPT_FLAG, offsetof(struct options, beside), 0, 0, NULL,
     "train: in turns with plain loops, as small C frameworks have them: im2col and a matrix "
     "product without blocks (plain), direct loops (ref)"},
    {"write-table", UW_OPT_TEXT, offsetof(struct options, table), 0, 0, "FILE",
     "kernels: find the blocks that suit this machine's caches, and write them into "
     "kernels/packed/blocking_table.h"},
    {"json", UW_OPT_FLAG, offsetof(struct options, json), 0, 0, NULL, "JSON lines"},
    {"markdown", UW_OPT_FLAG, offsetof(struct options, markdown), 0, 0, NULL,
     "train --against: the table of the README"},
};

static const struct uw_args_spec spec = {
    .command = "bench",
    .summary = "measure this machine",
    .usage = "kernels|train [flags]",
    .example = "uwasa bench train --work fedavg-cnn:20 --threads 1",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .positional_max = 1,
};

static int kernels(const struct options *o, struct uw_error *err)
{
    struct uw_workers *pool = NULL;
    const struct uw_kernels *k;
    int rc = uw_job_kernels(o->backend, o->exact, &k, err);
    if (rc < 0) {
        return rc;
    }
    rc = uw_board_workers_init(&pool, o->threads);
    if (rc < 0) {
        return uw_error_set(err, rc, "the threads could not be started");
    }
    if (o->table != NULL) {
        const struct uw_bench_table b = {
            .kernels = k, .workers = pool, .file = o->table, .windows = o->windows,
            .seconds = o->seconds > 0.0 ? o->seconds : 0.02};
        rc = uw_bench_table(stdout, &b, err);
    } else if (o->against != NULL) {
        const struct uw_bench_gemm b = {
            .kernels = k, .workers = pool, .against = o->against, .windows = o->windows,
            .seconds = o->seconds > 0.0 ? o->seconds : 0.1, .json = o->json};
        rc = uw_bench_gemm(stdout, &b, err);
    } else {
        rc = uw_bench_kernels(stdout, o->json, k, pool, o->seconds > 0.0 ? o->seconds : 0.2);
        rc = rc < 0 ? uw_error_set(err, rc, "%s", uw_status_text(rc)) : UW_OK;
    }
    uw_board_workers_deinit(&pool);
    return rc;
}

static int train(const struct options *o, struct uw_error *err)
{
    if (o->against != NULL) {
        return uw_bench_against(stdout, o->against, o->markdown, err);
    }
    const struct uw_bench_train b = {
        .work = o->work, .backend = o->backend, .exact = o->exact, .threads = o->threads,
        .windows = o->windows, .seconds = o->seconds > 0.0 ? o->seconds : 1.0,
        .beside = o->beside, .json = o->json};
    return uw_bench_train(stdout, &b, err);
}

int uw_cmd_bench(int argc, char **argv)
{
    struct options o = {.backend = "auto", .windows = 7};
    struct uw_error err = {.text = ""};
    const char *what = NULL;
    int status = uw_args_parse(&spec, argc, argv, &o, &what);
    if (status >= 0) {
        return status;
    }
    bool trains = what != NULL && strcmp(what, "train") == 0;
    if (what == NULL || (!trains && strcmp(what, "kernels") != 0)) {
        return uw_cli_error("bench", UW_EXIT_USAGE, "%s: needs kernels or train, what to measure",
                            what != NULL ? what : "WHAT");
    }
    if (!trains && o.work != NULL) {
        return uw_cli_error("bench", UW_EXIT_USAGE, "--work: belongs to bench train");
    }
    int rc = trains ? train(&o, &err) : kernels(&o, &err);
    return rc < 0 ? uw_cli_error("bench", uw_job_exit(rc), "%s", err.text) : UW_EXIT_DONE;
}
