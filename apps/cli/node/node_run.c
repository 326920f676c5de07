/* SPDX-License-Identifier: Apache-2.0 */
#include "node_work.h"

#include "base/events.h"
#include "base/progress.h"
#include "job/job_weights.h"
#include "job/recipe.h"
#include "job/results.h"

#include "uwasa/board.h"
#include "uwasa/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SENSORS_US 2000000u     /* some are behind a slow bus */

static bool stop_asked(void *arg)
{
    struct uw_node_work *r = arg;
    return uw_stop_asked(&r->stop);
}

/* The rule of a checkpoint's velocity, saved as a number: up to 8 letters. */
static uint64_t rule_code(const char *name)
{
    uint64_t code = 0;
    for (int i = 0; i < 8 && name[i] != '\0'; i++) {
        code |= (uint64_t)(unsigned char)name[i] << 8 * i;
    }
    return code;
}

static uint64_t rule_at_work(const struct uw_node_work *r)
{
    return rule_code(r->retreated ? uw_mix_qg.name : r->o->exchange.rule->name);
}

/* A velocity is useful only to the rule that made it. */
static int check_velocity(struct uw_node_work *r, const char *file, uint64_t code)
{
    struct uw_model *m = &r->job.model;
    if (code == rule_at_work(r) || m->velocity == NULL) {
        return UW_OK;
    }
    memset(m->velocity, 0, m->params.size_n * sizeof *m->velocity);
    uw_node_report_log(&r->report, "%s was saved under another momentum_rule than %s: its "
                                   "velocity starts at zero", file, r->o->exchange.rule->name);
    int rc = uw_model_push_velocity(m);
    return rc < 0 ? uw_error_set(&r->err, rc, "the GPU failed") : rc;
}

static int load_checkpoint(struct uw_node_work *r)
{
    struct uw_checkpoint state;
    uint64_t bytes;
    const char *file = r->o->checkpoint;
    if (file == NULL || r->files.base.ops->size(&r->files.base, file, &bytes) == UW_ERR_NOTFOUND) {
        return UW_OK;
    }
    struct uw_error why = {.text = ""};
    int rc = uw_checkpoint_load(&r->job.model, &state, &r->files.base, file, &why);
    if (rc < 0) {
        return uw_error_set(&r->err, rc, "checkpoint %.180s; remove the file to start from the "
                                         "beginning",
                            why.text);
    }
    rc = uw_job_check_state(&r->job, r->o->exact, "\"exact\"", &state, file, &r->err);
    if (rc < 0) {
        return rc;
    }
    r->step = r->begun = r->first_step = state.step;
    r->loader.epoch = state.epoch;
    r->loader.position = (uint32_t)(state.position % r->own->samples_n);
    if (state.user[0] >= r->incarnation && state.user[0] < UINT32_MAX) {   /* above: not a node's */
        r->incarnation = (uint32_t)state.user[0] + 1u;
    }
    uw_node_report_log(&r->report, "resuming from %s at step %llu", file,
                       (unsigned long long)r->step);
    return check_velocity(r, file, state.user[1]);
}

/* Pending updates must have been applied: uw_node_gradients_finish. */
static int save(struct uw_node_work *r)
{
    uint64_t before_us = r->saved_us = uw_board_now_us();
    if (r->o->checkpoint == NULL) {
        return UW_OK;
    }
    const struct uw_checkpoint state = {.step = r->step,
                                        .epoch = r->loader.epoch,
                                        .position = r->loader.position,
                                        .seed = r->o->seed,
                                        .batch_n = r->o->batch,
                                        .user = {r->incarnation, rule_at_work(r)},
                                        .exact = r->o->exact,
                                        .layers = uw_job_layers(&r->job),
                                        .data = r->job.columns};
    int rc = uw_checkpoint_save(&r->job.model, &state, &r->files.base, r->o->checkpoint, &r->err);
    uw_node_trace_part(r, "checkpoint", before_us, uw_board_now_us());
    return rc;
}

/* Once there is a checkpoint, a full disk does not end a node. */
static int save_on(struct uw_node_work *r)
{
    int rc = save(r);
    if (rc < 0 && r->step != 0) {
        uw_node_report_log(&r->report, "%s; training goes on", r->err.text);
        return UW_OK;
    }
    return rc;
}

/* What was assumed when model and weights were read, and how they are trained. */
static void log_model(struct uw_node_work *r)
{
    char note[UW_JOB_NOTE_BYTES];
    for (uint32_t i = 0; uw_job_note(&r->job, i, note) != NULL; i++) {
        uw_node_report_log(&r->report, "%s", note);
    }
    if (r->o->exact) {
        uw_node_report_log(&r->report, "exact: kernels %s, the same bits on every processor",
                           r->job.config.kernels->name);
    }
}

/* Everything before the first step. *status is the exit status when it fails. */
static int prepare(struct uw_node_work *r, int *status)
{
    const struct uw_node_options *o = r->o;
    const struct uw_mix_rule *rule = o->exchange.rule;
    bool gradients = o->average.at == UW_AVERAGE_GRADIENTS;
    const struct uw_optimizer optimizer = {.momentum = uw_exchange_momentum(&o->exchange),
                                           .nesterov = o->exchange.nesterov,
                                           .weight_decay = (float)o->weight_decay,
                                           .frozen = rule->frozen};
    const struct uw_job_config config = {.model = o->model,
                                         .onnx = o->onnx,
                                         .backend = o->backend,
                                         .exact = o->exact,
                                         .gpu = true,
                                         .tf32 = o->tf32,
                                         .waits = true,
                                         .threads = o->threads,
                                         .plan = {.batch_n = o->batch,
                                                  .mode = gradients ? UW_PLAN_BUCKETS
                                                                    : UW_PLAN_IMMEDIATE,
                                                  .bucket_n = UW_GRADIENTS_BUCKET_N,
                                                  .late_updates = gradients,
                                                  .hand_out = gradients,
                                                  .optimizer = optimizer,
                                                  .mixing_velocity = rule->velocity,
                                                  .snapshot = true}};
    uw_lr_parse(o->schedule, &r->schedule);
    r->incarnation = (uint32_t)time(NULL);
    int rc = uw_job_plan(&r->job, &config, &r->err);
    *status = uw_job_exit(rc);
    if (rc < 0) {
        return rc;
    }
    rc = uw_storage_file_init(&r->files, NULL);
    r->sends_vitals = uw_board_sensors_find(&r->sensors, o->sensors) > 0;
    rc = rc < 0 ? rc : uw_node_report_open(&r->report, o->events, o->name, &r->err);
    rc = rc < 0 ? rc : uw_node_work_open_data(r);
    rc = rc < 0 ? rc : uw_job_bind(&r->job, &r->err);
    uw_node_work_log_backend(r);
    rc = rc < 0 ? rc : uw_node_work_warm(r);
    rc = rc < 0 ? rc : uw_node_trace_open(r);
    rc = rc < 0 || !gradients ? rc : uw_node_gradients_open(r);
    *status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED;
    if (rc == UW_OK) {
        rc = uw_job_init_weights(&r->job, o->seed, &r->err);
        rc = rc < 0 || o->weights == NULL ? rc
                                          : uw_job_load_weights(&r->job, o->weights, &r->err);
    }
    if (rc == UW_OK) {
        log_model(r);
    }
    rc = rc < 0 ? rc : uw_job_hold_save(&r->files, "checkpoint", o->checkpoint, &r->err);
    rc = rc < 0 ? rc : load_checkpoint(r);
    rc = rc < 0 ? rc : save_on(r);
    if (rc == UW_OK) {
        rc = uw_node_work_open(r);
        *status = rc == UW_ERR_TOOBIG ? UW_EXIT_USAGE : UW_EXIT_FAILED;
    }
    return rc < 0 ? rc : uw_node_net_start(&r->net, &r->err);
}

static int evaluate(struct uw_node_work *r, uint32_t limit, bool final)
{
    struct uw_score score;
    uint64_t before_us = uw_board_now_us();
    uint32_t samples_n = r->test.base->samples_n;
    if (final) {
        uw_node_report_log(&r->report, "testing on %u samples",
                           (unsigned)(limit != 0 && limit < samples_n ? limit : samples_n));
    }
    int rc = uw_job_evaluate(&r->job, r->test.base, limit, stop_asked, r, &score);
    r->scored_us = uw_board_now_us();
    uw_node_trace_part(r, "eval", before_us, r->scored_us);
    if (rc == UW_OK) {
        r->score = score;
        r->scored = true;
        uw_node_report_eval(&r->report, r->step, &score, final);
    } else if (rc != UW_ERR_AGAIN) {
        return uw_error_set(&r->err, rc, "%.120s: test set: %s", r->o->data, uw_status_text(rc));
    }
    return UW_OK;
}

static void read_sensors(struct uw_node_work *r, uint64_t now_us)
{
    if (r->sensors_us == 0 || now_us - r->sensors_us >= SENSORS_US) {
        r->sensors_us = now_us;
        r->vitals = uw_board_sensors_read(&r->sensors);
    }
}

/* Checkpoint, test and reports between steps. */
static int housekeeping(struct uw_node_work *r)
{
    uint64_t now_us = uw_board_now_us();
    int rc = UW_OK;
    char text[320];
    read_sensors(r, now_us);
    while (uw_data_news(&r->data, text, sizeof text)) {
        uw_node_report_log(&r->report, "%s", text);
    }
    uw_node_report_status(&r->report, &r->net, now_us, r->step, r->steps, uw_node_work_left_s(r));
    if (r->begun != r->step) {
        return UW_OK;
    }
    if (uw_node_work_saves(r, now_us)) {
        rc = uw_node_gradients_finish(r);
        rc = rc == UW_OK ? save_on(r) : rc;
    }
    if (rc == UW_OK && uw_node_work_evaluates(r, now_us)) {
        rc = evaluate(r, r->o->eval_samples, false);
    }
    return rc;
}

/* Wait while the network owns the parameters or has mixed in only a part of another's model. */
static int wait_for_network(struct uw_node_work *r)
{
    uw_node_net_wait(&r->net);
    uw_node_work_watch(r);
    uw_node_report_status(&r->report, &r->net, uw_board_now_us(), r->step, r->steps,
                          uw_node_work_left_s(r));
    if (r->averaging && r->o->cell_first > 1) {
        uw_node_report_waiting(&r->report, &r->net, uw_board_now_us(), r->o->cell_first);
    }
    if (uw_stop_asked(&r->stop) || !uw_node_work_time_left(r)) {
        uw_node_recall(&r->net.node);
    }
    return uw_node_work_exchange(r, 0.0f);
}

static int run_steps(struct uw_node_work *r)
{
    r->train_us = r->moved_us = uw_board_now_us();
    if (r->step >= r->steps || !uw_node_work_time_left(r)) {
        uw_node_report_log(&r->report, "nothing is left to train: steps or seconds are over");
    }
    int rc = uw_node_work_exchange(r, 0.0f);
    while (rc >= 0 && ((rc & UW_NODE_AVERAGING) != 0 ||
                       r->begun != r->step ||
                       (r->step < r->steps && uw_node_work_time_left(r) &&
                        !uw_stop_asked(&r->stop)))) {
        if ((rc & (UW_NODE_ADOPTING | UW_NODE_AVERAGING)) != 0) {
            rc = wait_for_network(r);
            continue;
        }
        float lr = 0.0f;
        rc = uw_node_work_train(r, &lr);
        rc = rc < 0 ? rc : uw_node_work_exchange(r, lr);
        int kept = rc < 0 || (rc & UW_NODE_AVERAGING) != 0 ? UW_OK : housekeeping(r);
        bool whole = rc >= 0 && (rc & (UW_NODE_AVERAGING | UW_NODE_ADOPTING)) == 0;
        kept = kept < 0 || !whole ? kept : uw_node_work_answer(r);
        rc = kept < 0 ? kept : rc;
    }
    r->trained_us = uw_board_now_us();
    const struct uw_node_progress p = uw_node_work_progress(r, 0.0f);
    uw_node_tell(&r->net.node, &p);
    return rc < 0 ? rc : UW_OK;
}

static int work(struct uw_node_work *r)
{
    int rc = run_steps(r);
    rc = rc < 0 ? rc : uw_node_gradients_finish(r);
    rc = rc < 0 ? rc : uw_node_work_agree(r);
    rc = rc < 0 ? rc : save(r);
    if (rc == UW_OK && uw_stop_asked(&r->stop)) {
        uw_node_report_log(&r->report, "interrupted at step %llu%s%s", (unsigned long long)r->step,
                           r->o->checkpoint != NULL ? ", saved in " : ", not saved",
                           r->o->checkpoint != NULL ? r->o->checkpoint : "");
    }
    uint32_t still_s = r->still ? (uint32_t)((r->trained_us - r->moved_us) / 1000000u) : 0;
    bool waited_for = uw_node_work_broadcasts(r->o);
    if (rc == UW_OK && !uw_stop_asked(&r->stop) && waited_for) {
        rc = uw_node_work_linger(r);
        uw_node_net_stop(&r->net);
    }
    if (rc == UW_OK && !uw_stop_asked(&r->stop)) {
        rc = evaluate(r, r->o->final_eval_samples, true);
    }
    if (rc == UW_OK && !uw_stop_asked(&r->stop) && !waited_for) {
        rc = uw_node_work_linger(r);
    }
    uw_node_net_stop(&r->net);
    if (rc == UW_OK) {
        struct uw_node_summary s = {.step = r->step,
                                    .samples = r->samples,
                                    .samples_per_s = (double)uw_node_work_samples_per_s(r),
                                    .seconds = uw_node_work_elapsed_s(r),
                                    .arena_bytes = r->job.arena.used_bytes,
                                    .network_bytes = uw_stack_bytes(&r->net.stack) +
                                                     r->net.block.bytes + r->spare.bytes +
                                                     r->pool_block.bytes,
                                    .score = r->scored ? &r->score : NULL,
                                    .interrupted = r->stop.asked,
                                    .still_s = still_s};
        uw_node_net_members(&r->net, NULL, &s.counters);
        uw_node_report_done(&r->report, &s);
    }
    return rc;
}

/* Over MPI, join the other ranks: the configuration becomes this one's. */
static int join_ranks(struct uw_node_work *r, struct uw_node_file *file, int *status)
{
    uint16_t rank, ranks_n;
    if (file->o.carrier != UW_STACK_MPI) {
        return UW_OK;
    }
    int rc = uw_link_mpi_begin(&rank, &ranks_n, &r->err);
    *status = rc == UW_ERR_UNSUPPORTED ? UW_EXIT_USAGE : UW_EXIT_FAILED;
    if (rc == UW_OK) {
        rc = uw_node_config_rank(file, rank, ranks_n, &r->err);
        *status = uw_job_exit(rc);
    }
    if (rc == UW_OK && ranks_n > 1) {
        uw_node_report_rank(&r->report, file->o.name);
    }
    return rc;
}

/* Check that no output file is an input file or another output file. */
static int check_files(struct uw_node_work *r, const struct uw_node_file *file, int *status)
{
    const struct uw_node_options *o = r->o;
    const struct uw_named_file results[] = {{"checkpoint", o->checkpoint, .goes_on = "weights"},
                                            {.flag = "--json", .file = o->events},
                                            {.flag = "--trace", .file = o->trace},
                                            {.flag = "--pcap", .file = o->pcap}};
    const struct uw_named_file read[] = {{.flag = "key", .file = o->key},
                                         {.flag = "--config", .file = file->json.file},
                                         {.flag = "weights", .file = o->weights},
                                         {.flag = "model", .file = uw_files_of_model(o->model)},
                                         {.flag = "data", .file = uw_files_of_data(o->data)}};
    *status = UW_EXIT_USAGE;
    return uw_check_results(results, sizeof results / sizeof results[0], read,
                            sizeof read / sizeof read[0], &r->err);
}

/* Failures to write at the end set the exit status, but no rank ends the others because of them. */
static int finish(struct uw_node_work *r, int rc, int status)
{
    struct uw_error late = {.text = ""};
    uw_node_net_stop(&r->net);
    int closed = uw_trace_close(&r->trace, &late);
    int told = uw_capture_file_check(&r->net.stack.capture, closed < 0 ? NULL : &late);
    closed = closed < 0 ? closed : told;
    told = uw_node_report_close(&r->report, closed < 0 ? NULL : &late);
    closed = closed < 0 ? closed : told;
    const char *why = rc < 0 ? uw_job_gpu_failure(&r->job) : NULL;
    if (why != NULL) {                              /* whatever came of it */
        status = UW_EXIT_FAILED;
        uw_node_work_name_failed_gpu(r, why);
    }
    if (rc < 0) {
        uw_cli_error("node", status, "%s", uw_error_sentence(&r->err, rc));
    } else {
        status = closed < 0 ? uw_cli_error("node", UW_EXIT_FAILED, "%s", late.text)
             : r->still ? UW_EXIT_STILL
                        : UW_EXIT_DONE;
    }
    return status;
}

int uw_node_run(struct uw_node_file *file)
{
    struct uw_node_work *r = calloc(1, sizeof *r);
    int status = UW_EXIT_FAILED;
    if (r == NULL) {
        return uw_cli_error("node", status, "out of memory");
    }
    r->o = &file->o;
    r->start_us = r->scored_us = uw_board_now_us();
    uw_node_report_init(&r->report);
    r->report.broadcasts = uw_node_work_broadcasts(r->o);
    r->report.every_us = (uint64_t)(r->o->events_seconds * 1e6);
    uw_stop_init(&r->stop);
    bool to_file = r->o->events != NULL && strcmp(r->o->events, "-") != 0;
    if (to_file || isatty(STDIN_FILENO) == 0) {     /* else the end of a terminal is the node's */
        uw_stop_keep_hangup();
    }
    int rc = join_ranks(r, file, &status);
    rc = rc < 0 ? rc : check_files(r, file, &status);
    rc = rc < 0 ? rc : prepare(r, &status);
    rc = rc < 0 ? rc : work(r);
    status = finish(r, rc, status);
    if (rc < 0) {
        uw_link_mpi_end(status);        /* of all ranks; this does not return then */
    }
    uw_node_net_close(&r->net);
    uw_keyfile_close(&r->key);
    uw_node_work_close_direct(r);
    uw_link_mpi_end(0);
    uw_node_work_close_queries(r);
    uw_node_gradients_close(r);
    uw_board_memory_release(r->spare.at, r->spare.bytes);
    uw_deal_close(&r->deal);
    uw_data_close(&r->test);
    uw_data_close(&r->data);
    uw_storage_file_deinit(&r->files);
    uw_job_deinit(&r->job);
    free(r);
    return status;
}
