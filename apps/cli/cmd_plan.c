/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "job.h"
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *model, *optimizer, *mode, *backend;
    double momentum;
    uint32_t batch, threads;
    uint64_t budget;
    bool snapshot, json;
};

static const struct uw_opt rows[] = {
    {"model", UW_OPT_TEXT, offsetof(struct options, model), 0, 0, "M", "built-in name or file"},
    {"batch", UW_OPT_U32, offsetof(struct options, batch), 1, 0, "B",
     "samples in a minibatch (32)"},
    {"optimizer", UW_OPT_CHOICE, offsetof(struct options, optimizer), 0, 0, "sgd|momentum",
     "momentum keeps a velocity (sgd)"},
    {"momentum", UW_OPT_REAL, offsetof(struct options, momentum), 0, 1, "X",
     "above 0 keeps a velocity, as with train"},
    {"mode", UW_OPT_CHOICE, offsetof(struct options, mode), 0, 0, "immediate|full|inference",
     "immediate: no gradient array (immediate)"},
    {"snapshot", UW_OPT_FLAG, offsetof(struct options, snapshot), 0, 0, NULL,
     "with the copy that a node shares"},
    {"threads", UW_OPT_U32, offsetof(struct options, threads), 1, 256, "N",
     "threads that compute (one a core)"},
    {"backend", UW_OPT_CHOICE, offsetof(struct options, backend), 0, 0, UW_BACKENDS,
     "kernels (auto)"},
    {"budget", UW_OPT_BYTES, offsetof(struct options, budget), 1, 0, "BYTES",
     "does it fit? exit status 1 if not"},
    {"json", UW_OPT_FLAG, offsetof(struct options, json), 0, 0, NULL, "one JSON object"},
};

static const struct uw_args_spec spec = {
    .command = "plan",
    .summary = "tell the memory of a model, before anything runs",
    .usage = "--model M [flags]",
    .example = "uwasa plan --model lenet5 --batch 4 --threads 1 --budget 1M",
    .epilogue = "train with the same flags takes exactly the total. A dataset read from files has "
                "memory of\nits own. Fewer threads need less scratch; for a board: --threads 1 "
                "--backend ref.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

#define BATCH_MAX (1u << 30)

struct answer {
    bool fits;
    uint32_t largest_batch;     /* 0: none fits */
    size_t smallest_bytes;      /* batch 1, no velocity, no gradient array */
};

static size_t total(const struct uw_job *job, uint32_t batch_n, enum uw_plan_mode mode,
                    const struct uw_optimizer *optimizer)
{
    struct uw_model_need need;
    return uw_job_measure(job, batch_n, mode, optimizer, &need, NULL) == UW_OK ? need.total_bytes
                                                                              : SIZE_MAX;
}

static struct answer ask(const struct uw_job *job, uint64_t budget)
{
    const struct uw_model_config *c = &job->config;
    enum uw_plan_mode least = c->mode == UW_PLAN_FULL ? UW_PLAN_IMMEDIATE : c->mode;
    struct answer a = {.fits = job->need.total_bytes <= budget,
                       .smallest_bytes = total(job, 1, least, &(struct uw_optimizer){.lr = 0.0f})};
    uint32_t low = 0;
    uint32_t high = 1;
    while (high < BATCH_MAX && total(job, high, c->mode, &c->optimizer) <= budget) {
        low = high;
        high *= 2;
    }
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (total(job, middle, c->mode, &c->optimizer) <= budget) {
            low = middle;
        } else {
            high = middle;
        }
    }
    a.largest_batch = low;
    return a;
}

static void print_json(const struct uw_job *job, const struct options *o, const struct answer *a)
{
    cJSON *plan = cJSON_CreateObject();
    cJSON_AddStringToObject(plan, "model", job->file.def.name);
    cJSON_AddNumberToObject(plan, "params", job->need.parameters_n);
    cJSON_AddNumberToObject(plan, "batch", job->config.batch_n);
    cJSON_AddNumberToObject(plan, "threads", job->planned.threads);
    cJSON_AddStringToObject(plan, "backend", job->config.kernels->name);
    cJSON_AddStringToObject(plan, "mode", o->mode);
    uw_job_bytes_json(&job->need, cJSON_AddObjectToObject(plan, "bytes"));
    cJSON_AddNumberToObject(plan, "total_bytes", (double)job->need.total_bytes);
    if (o->budget != 0) {
        cJSON_AddNumberToObject(plan, "budget_bytes", (double)o->budget);
        cJSON_AddBoolToObject(plan, "fits", a->fits);
        cJSON_AddNumberToObject(plan, "largest_batch", a->largest_batch);
        cJSON_AddNumberToObject(plan, "smallest_bytes", (double)a->smallest_bytes);
    }
    char *text = cJSON_PrintUnformatted(plan);
    if (text != NULL) {
        puts(text);
    }
    cJSON_free(text);
    cJSON_Delete(plan);
}

static void print_row(const char *purpose, size_t bytes)
{
    char text[UW_TEXT_BYTES];
    if (bytes != 0) {
        printf("%-14s %14zu %12s\n", purpose, bytes, uw_text_bytes((double)bytes, text));
    }
}

static void print_table(const struct uw_job *job, const struct options *o, const struct answer *a)
{
    const struct uw_model_need *n = &job->need;
    char text[UW_TEXT_BYTES];
    printf("%s, %u parameters, batch %u, %s, %u thread%s, %s kernels\n\n", job->file.def.name,
           (unsigned)n->parameters_n, (unsigned)job->config.batch_n, o->mode,
           (unsigned)job->planned.threads, job->planned.threads == 1 ? "" : "s",
           job->config.kernels->name);
    print_row("parameters", n->parameters_bytes);
    print_row("gradients", n->gradients_bytes);
    print_row("optimizer", n->optimizer_bytes);
    print_row("activations", n->activations_bytes);
    print_row("scratch", n->scratch_bytes);
    print_row("snapshot", n->snapshot_bytes);
    print_row("input", n->input_bytes);
    print_row("graph", n->graph_bytes);
    print_row("total", n->total_bytes);
    if (o->budget != 0 && a->fits) {
        printf("\nfits into %s; the largest batch that does is %u\n",
               uw_text_bytes((double)o->budget, text), (unsigned)a->largest_batch);
    }
}

/* Says what would fit. Returns the exit status. */
static int does_not_fit(const struct options *o, const struct answer *a)
{
    char text[UW_TEXT_BYTES];
    char smallest[UW_TEXT_BYTES];
    uw_text_bytes((double)o->budget, text);
    if (a->largest_batch > 0) {
        return uw_cli_error("plan", UW_EXIT_FAILED, "does not fit into %s; batch %u does", text,
                            (unsigned)a->largest_batch);
    }
    return uw_cli_error("plan", UW_EXIT_FAILED,
                        "does not fit into %s; the smallest plan (batch 1%s) takes %s", text,
                        strcmp(o->mode, "inference") == 0 ? "" : ", sgd, immediate",
                        uw_text_bytes((double)a->smallest_bytes, smallest));
}

int uw_cmd_plan(int argc, char **argv)
{
    struct options o = {.optimizer = "sgd", .mode = "immediate", .backend = "auto",
                        .momentum = -1.0, .batch = 32};
    struct uw_error err = {.text = ""};
    struct uw_job job;
    struct answer a = {.fits = true};
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    if (status >= 0) {
        return status;
    }
    if (o.model == NULL) {
        return uw_cli_error("plan", UW_EXIT_USAGE, "--model: is needed, uwasa models lists some");
    }
    const struct uw_job_config config = {
        .model = o.model,
        .backend = o.backend,
        .threads = o.threads,
        .batch_n = o.batch,
        .mode = strcmp(o.mode, "full") == 0        ? UW_PLAN_FULL
                : strcmp(o.mode, "inference") == 0 ? UW_PLAN_INFERENCE
                                                   : UW_PLAN_IMMEDIATE,
        .optimizer = {.momentum = (float)uw_job_momentum(o.optimizer, o.momentum)},
        .snapshot = o.snapshot};
    int rc = uw_job_plan(&job, &config, &err);
    if (rc < 0) {
        uw_job_deinit(&job);
        return uw_cli_error("plan", uw_job_exit(rc), "%s", err.text);
    }
    if (o.budget != 0) {
        a = ask(&job, o.budget);
    }
    (o.json ? print_json : print_table)(&job, &o, &a);
    uw_job_deinit(&job);
    return a.fits ? UW_EXIT_DONE : does_not_fit(&o, &a);
}
