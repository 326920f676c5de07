/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_kernels.h"
#include "bench_train.h"
#include "base/args.h"
#include "base/commands.h"
#include "job/job.h"

#include "uwasa/board.h"

#include <stdio.h>
#include <string.h>

#define WINDOWS_DEFAULT 7u

struct options {
    struct uw_choice backend;
    const char *work, *against, *table;
    uint32_t threads, windows;
    double seconds;             /* 0: not given */
    double momentum;
    bool json, markdown, beside, exact, tf32;
};

#define ROW(...) UW_OPT_ROW(struct options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("backend", UW_OPT_CHOICE, backend, 0, 0, UW_BACKENDS_GPU, UW_BACKENDS_GPU_HELP),
    ROW("tf32", UW_OPT_FLAG, tf32, 0, 0, NULL, UW_TF32_HELP),
    ROW("exact", UW_OPT_FLAG, exact, 0, 0, NULL, UW_EXACT_HELP),
    ROW("threads", UW_OPT_U32, threads, 1, 256, "N", "threads that compute (one a core)"),
    ROW("seconds", UW_OPT_REAL, seconds, 0.001, 60, "S",
        "time for each kernel (0.2), for a window of train (1), or beside a library (0.1)"),
    ROW("work", UW_OPT_TEXT, work, 0, 0, "M:B,...",
        "train: models and minibatches, M:B:BYTES with a budget (those of the README)"),
    ROW("momentum", UW_OPT_REAL, momentum, 0, 1, "X", "train: momentum of SGD (0)"),
    ROW("windows", UW_OPT_U32, windows, 1, UW_BENCH_WINDOWS_MAX, "N",
        "windows of each workload, or of each product beside a library (7)"),
    ROW("against", UW_OPT_TEXT, against, 0, 0, "FILE",
        "train: print the table of a file that tools/bench_pytorch made; kernels: matrix "
        "products and those of CBLAS libraries, FILE,..., in turns"),
    ROW("beside-plain", UW_OPT_FLAG, beside, 0, 0, NULL,
        "train: in turns with plain loops, as small C frameworks have them: im2col and a matrix "
        "product without blocks (plain), direct loops (ref)"),
    ROW("write-table", UW_OPT_TEXT, table, 0, 0, "FILE",
        "kernels: find the blocks that suit the caches of this machine, and write them to FILE, "
        "which is kernels/packed/blocking_table.h or has its form"),
    ROW("json", UW_OPT_FLAG, json, 0, 0, NULL, "write JSON lines"),
    ROW("markdown", UW_OPT_FLAG, markdown, 0, 0, NULL,
        "train --against: print the table of the README"),
};

static const struct uw_args_spec spec = {
    .command = "bench",
    .summary = "measure this machine",
    .usage = "kernels|train|allreduce|link [flags]",
    .example = "uwasa bench train --work fedavg-cnn:20 --threads 1",
    .epilogue = "`uwasa bench allreduce --help` and `uwasa bench link --help` list the flags of\n"
                "these two.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .positional_max = 1,
};

/* The kinds of measurement. */
enum use { TRAIN, TRAIN_AGAINST, KERNELS, KERNELS_AGAINST, WRITE_TABLE };

static const char *const use_name[] = {"train", "train --against", "kernels", "kernels --against",
                                       "kernels --write-table"};

static enum use use_of(const struct options *o, bool trains)
{
    if (trains) {
        return o->against != NULL ? TRAIN_AGAINST : TRAIN;
    }
    return o->table != NULL ? WRITE_TABLE : o->against != NULL ? KERNELS_AGAINST : KERNELS;
}

/* The first given flag that has no effect on this measurement, as a broken rule. */
static struct uw_rule idle_flag(const struct options *o, enum use use)
{
    static const char nothing[] = "means nothing to bench";
    bool prints = use == TRAIN_AGAINST, table = use == WRITE_TABLE, train = use == TRAIN;
    return uw_rule_broken(UW_RULES(
        {o->backend.word != NULL && prints, "backend", nothing},
        {o->exact && prints, "exact", nothing},
        {o->tf32 && !train && use != KERNELS, "tf32", nothing},
        {o->threads != 0 && prints, "threads", nothing},
        {o->seconds > 0.0 && prints, "seconds", nothing},
        {o->windows != 0 && (prints || use == KERNELS), "windows", nothing},
        {o->work != NULL && !train, "work", nothing},
        {o->momentum > 0.0 && !train, "momentum", nothing},
        {o->beside && !train, "beside-plain", nothing},
        {o->against != NULL && !prints && use != KERNELS_AGAINST, "against", nothing},
        {o->table != NULL && !table, "write-table", nothing},
        {o->json && (prints || table), "json", nothing},
        {o->markdown && !prints, "markdown", nothing}));
}

/* Open the GPU, if one is asked for. Comparisons with a library and tables of caches use the
 * processor. */
static int open_gpu(const struct options *o, struct uw_job_gpu *gpu, struct uw_error *err)
{
    const struct uw_job_gpu_config config = {.backend = o->backend, .exact = o->exact,
                                             .tf32 = o->tf32};
    const char *here = o->table != NULL ? "write-table" : o->against != NULL ? "against" : NULL;
    if (here != NULL) {
        return o->backend.at == UW_BACKEND_CUDA
                   ? uw_error_set(err, UW_ERR_INVALID,
                                  "--%s: measures the processor, not --backend cuda", here)
                   : UW_OK;
    }
    return uw_job_gpu_open(gpu, &config, err);
}

static int kernels_of_gpu(const struct options *o, struct uw_job_gpu *gpu, struct uw_error *err)
{
    char text[UW_GPU_TEXT_BYTES];
    if (!o->json) {
        printf("%s%s\n", uw_job_gpu_text(gpu, text), o->tf32 ? ", TF32 products" : "");
        fflush(stdout);
    }
    const struct uw_bench_kernels b = {.kernels = uw_cuda_kernels(gpu->cuda), .gpu = gpu->cuda,
                                       .json = o->json,
                                       .seconds = o->seconds > 0.0 ? o->seconds : 0.2};
    int rc = uw_bench_kernels(stdout, &b, err);
    const char *why = rc < 0 ? uw_cuda_failure(gpu->cuda) : NULL;
    return why != NULL ? uw_job_gpu_error(err, why, "computes") : rc;
}

static int kernels_here(const struct options *o, struct uw_error *err)
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
    const struct uw_bench_kernels b = {
        .kernels = k, .workers = pool, .file = o->table != NULL ? o->table : o->against,
        .windows = o->windows, .json = o->json,
        .seconds = o->seconds > 0.0     ? o->seconds
                   : o->table != NULL   ? 0.02
                   : o->against != NULL ? 0.1
                                        : 0.2};
    rc = (o->table != NULL     ? uw_bench_table
          : o->against != NULL ? uw_bench_gemm
                               : uw_bench_kernels)(stdout, &b, err);
    uw_board_workers_deinit(&pool);
    return rc;
}

static int kernels(const struct options *o, struct uw_error *err)
{
    struct uw_job_gpu gpu = {.cuda = NULL};
    int rc = open_gpu(o, &gpu, err);
    if (rc == UW_OK) {
        uw_job_gpu_log(&gpu, "bench");
        rc = gpu.cuda != NULL ? kernels_of_gpu(o, &gpu, err) : kernels_here(o, err);
    }
    uw_job_gpu_close(&gpu);
    return rc;
}

static int train(const struct options *o, struct uw_error *err)
{
    if (o->against != NULL) {
        return uw_bench_against(stdout, o->against, o->markdown, err);
    }
    const struct uw_bench_train b = {
        .work = o->work, .backend = o->backend, .exact = o->exact, .threads = o->threads,
        .tf32 = o->tf32, .windows = o->windows,
        .seconds = o->seconds > 0.0 ? o->seconds : 1.0, .momentum = o->momentum,
        .beside = o->beside, .json = o->json};
    return uw_bench_train(stdout, &b, err);
}

int uw_cmd_bench(int argc, char **argv)
{
    struct options o = {.work = NULL};
    struct uw_error err = {.text = ""};
    const char *what = NULL;
    if (argc > 1 && strcmp(argv[1], "allreduce") == 0) {
        return uw_cmd_bench_allreduce(argc - 1, argv + 1);
    }
    if (argc > 1 && strcmp(argv[1], "link") == 0) {
        return uw_cmd_bench_link(argc - 1, argv + 1);
    }
    int status = uw_args_parse(&spec, argc, argv, &o, &what);
    if (status >= 0) {
        return status;
    }
    bool trains = what != NULL && strcmp(what, "train") == 0;
    if (what == NULL || (!trains && strcmp(what, "kernels") != 0)) {
        return uw_cli_error("bench", UW_EXIT_USAGE,
                            "%s: needs kernels, train, allreduce or link, what to measure",
                            what != NULL ? what : "WHAT");
    }
    enum use use = use_of(&o, trains);
    struct uw_rule idle = idle_flag(&o, use);
    if (idle.broken) {
        return uw_cli_error("bench", UW_EXIT_USAGE, "--%s: %s %s", idle.name, idle.sentence,
                            use_name[use]);
    }
    o.backend = o.backend.word != NULL ? o.backend : (struct uw_choice){"auto", UW_BACKEND_AUTO};
    o.windows = o.windows != 0 ? o.windows : WINDOWS_DEFAULT;
    int rc = trains ? train(&o, &err) : kernels(&o, &err);
    if (rc == UW_OK && ferror(stdout) != 0) {
        rc = uw_error_set(&err, UW_ERR_IO, "the results cannot be written");
    }
    return rc < 0 ? uw_cli_error("bench", uw_job_exit(rc), "%s", err.text) : UW_EXIT_DONE;
}
