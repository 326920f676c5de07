/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "bench_kernels.h"
#include "commands.h"
#include "job.h"

#include "uwasa/backends.h"
#include "uwasa/board.h"

#include <stdio.h>
#include <string.h>

struct options {
    const char *backend;
    uint32_t threads;
    double seconds;
    bool json;
};

static const struct uw_opt rows[] = {
    {"backend", UW_OPT_CHOICE, offsetof(struct options, backend), 0, 0, UW_BACKENDS,
     "kernels to measure (auto)"},
    {"threads", UW_OPT_U32, offsetof(struct options, threads), 1, 256, "N",
     "threads that compute (one a core)"},
    {"seconds", UW_OPT_REAL, offsetof(struct options, seconds), 0.001, 60, "S",
     "for each kernel (0.2)"},
    {"json", UW_OPT_FLAG, offsetof(struct options, json), 0, 0, NULL, "JSON lines"},
};

static const struct uw_args_spec spec = {
    .command = "bench",
    .summary = "measure this machine",
    .usage = "kernels [flags]",
    .example = "uwasa bench kernels --backend auto --threads 1",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .positional_max = 1,
};

int uw_cmd_bench(int argc, char **argv)
{
    struct options o = {.backend = "auto", .seconds = 0.2};
    const char *what = NULL;
    struct uw_workers *pool = NULL;
    int status = uw_args_parse(&spec, argc, argv, &o, &what);
    if (status >= 0) {
        return status;
    }
    if (what == NULL || strcmp(what, "kernels") != 0) {
        return uw_cli_error("bench", UW_EXIT_USAGE, "%s: needs kernels, what to measure",
                            what != NULL ? what : "WHAT");
    }
    const struct uw_kernels *k = strcmp(o.backend, "auto") == 0 ? uw_kernels_best()
                                                                : uw_kernels_find(o.backend);
    if (k == NULL) {
        return uw_cli_error("bench", UW_EXIT_USAGE,
                            "--backend %s: not in this build or not on this processor", o.backend);
    }
    if (uw_board_workers_init(&pool, o.threads) < 0) {
        return uw_cli_error("bench", UW_EXIT_FAILED, "the threads could not be started");
    }
    int rc = uw_bench_kernels(stdout, o.json, k, pool, o.seconds);
    uw_board_workers_deinit(&pool);
    return rc < 0 ? uw_cli_error("bench", UW_EXIT_FAILED, "%s", uw_status_text(rc))
                  : UW_EXIT_DONE;
}
