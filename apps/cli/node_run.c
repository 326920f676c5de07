/* SPDX-License-Identifier: Apache-2.0 */
#include "node_work.h"

#include "events.h"
#include "keyfile.h"
#include "lr.h"
#include "progress.h"

#include "uwasa/board.h"
#include "uwasa/checkpoint.h"
#include "uwasa/hash.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEP_EVENT_US 250000u
#define SCRATCH_N 65536u            /* 256 KiB: smaller models may be averaged by doubling */

static bool stop_asked(void *arg)
{
    struct uw_node_work *r = arg;
    return uw_stop_asked(&r->stop);
}

static uint64_t name_hash(const char *name)
{
    return uw_hash64(UW_HASH64_START, name, strlen(name));
}

static int open_data(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    const struct uw_data_config config = {.seed = o->seed,
                                          .classes_mask = o->classes_mask,
                                          .shard = o->shard_i,
                                          .shards_n = o->shards_n};
    int rc = uw_data_open(&r->data, o->data, &config, &r->err);
    rc = rc < 0 ? rc : uw_data_open(&r->test, o->data,
                                    &(struct uw_data_config){.seed = o->seed, .test = true},
                                    &r->err);
    rc = rc < 0 ? rc : uw_job_check_data(&r->job, r->data.base, o->data, &r->err);
    if (rc < 0) {
        return rc;
    }
    rc = uw_loader_init(&r->loader,
                        &(struct uw_loader_config){.dataset = r->data.base,
                                                   .batch_n = o->batch,
                                                   .seed = uw_rng_mix(o->seed,
                                                                      name_hash(o->name))});
    uint64_t per_epoch = ((uint64_t)r->data.base->samples_n + o->batch - 1u) / o->batch;
    r->steps = o->steps != 0 ? o->steps : o->epochs != 0 ? per_epoch * o->epochs : UINT64_MAX;
    return rc;
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
        return uw_error_set(&r->err, rc, "checkpoint %.180s; remove the file to start afresh",
                            why.text);
    }
    rc = uw_job_check_exact(&r->job, r->o->exact, "\"exact\"", &state, file, &r->err);
    if (rc < 0) {
        return rc;
    }
    r->fresh = false;
    r->step = r->first_step = state.step;
    r->loader.epoch = state.epoch;
    r->loader.position = (uint32_t)(state.position % r->data.base->samples_n);
    if (state.user[0] >= r->incarnation) {
        r->incarnation = (uint32_t)state.user[0] + 1u;
    }
    uw_node_report_say(&r->report, "going on from %s at step %llu", file,
                       (unsigned long long)r->step);
    return UW_OK;
}

static int save(struct uw_node_work *r)
{
    uint64_t before_us = r->saved_us = uw_board_now_us();
    if (r->o->checkpoint == NULL) {
        return UW_OK;
    }
    int rc = uw_node_gradients_finish(r);
    if (rc < 0) {
        return rc;
    }
    const struct uw_checkpoint state = {.step = r->step,
                                        .epoch = r->loader.epoch,
                                        .position = r->loader.position,
                                        .seed = r->o->seed,
                                        .batch_n = r->o->batch,
                                        .user = {r->incarnation},
                                        .exact = r->o->exact};
    rc = uw_checkpoint_save(&r->job.model, &state, &r->files.base, r->o->checkpoint, &r->err);
    uw_node_trace_part(r, "checkpoint", before_us, uw_board_now_us());
    return rc;
}

static enum uw_node_mode mode_of(const char *exchange)
{
    return strcmp(exchange, "allreduce") == 0      ? UW_NODE_ALLREDUCE
           : strcmp(exchange, "hierarchical") == 0 ? UW_NODE_HIERARCHICAL
           : strcmp(exchange, "auto") == 0         ? UW_NODE_AUTO
                                                   : UW_NODE_GOSSIP;
}

static void on_event(void *arg, const struct uw_node_event *event)
{
    struct uw_node_work *r = arg;
    uw_node_report_event(&r->report, event);
    uw_node_trace_event(r, event);
}

static struct uw_node_config node_config(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    struct uw_model *m = &r->job.model;
    return (struct uw_node_config){
        .name = o->name,
        .run = o->run,
        .address = o->advertise,
        .seeds = o->seeds.item,
        .seeds_n = o->seeds.n,
        .incarnation = r->incarnation,
        .params = &m->params,
        .snapshot = &m->snapshot,
        .velocity = m->velocity,
        .newcomer = r->fresh,
        .mode = mode_of(o->exchange),
        .cell = o->cell,
        .head_weight = o->head_weight,
        .cell_first_n = o->cell_first,
        .algorithm = r->fixed ? &r->algorithm : NULL,
        .gradients = r->gradients.bucket_n != NULL ? &r->gradients.config : NULL,
        .gather_us = (uint64_t)(o->gather_seconds * 1e6),
        .round_us = (uint64_t)(o->round_seconds * 1e6),
        .agree = true,
        .agree_us = (uint64_t)(o->consensus_seconds * 1e6),
        .scratch_n = SCRATCH_N,
        .spare = r->spare.at,
        .rule = uw_mix_find(o->momentum_rule),
        .constants = {.beta = m->optimizer.frozen ? m->optimizer.momentum : 0.0f},
        .schedule = uw_peer_schedule_find(o->peer_schedule),
        .period_steps = o->period,
        .seed = uw_rng_mix(o->seed, name_hash(o->name) + r->incarnation),
        .window_bytes = (size_t)o->pull_window,
        .members_max = o->members,
        .on_event = on_event,
        .event_arg = r};
}

static int take_spare(struct uw_node_work *r)
{
    const struct uw_mix_rule *rule = uw_mix_find(r->o->momentum_rule);
    if (mode_of(r->o->exchange) == UW_NODE_GOSSIP || !uw_node_needs_spare(rule)) {
        return UW_OK;
    }
    r->spare.bytes = r->job.model.params.size_n * sizeof(float);
    int rc = uw_board_memory_take(r->spare.bytes, &r->spare.at);
    return rc < 0 ? uw_error_set(&r->err, rc, "momentum rule %s: %zu bytes are not to be had",
                                 rule->name, r->spare.bytes)
                  : UW_OK;
}

static int open_net(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    uint8_t key[UW_KEY_BYTES];
    bool exposed;
    int rc = uw_keyfile_read(o->key, key, &exposed, &r->err);
    if (rc < 0) {
        return rc;
    }
    if (exposed) {
        uw_node_report_say(&r->report, "key %s can be read by others: chmod 600 it", o->key);
    }
    const struct uw_impairment bad = {.loss = (float)o->emulate_loss,
                                      .duplicate = (float)o->emulate_duplicate,
                                      .reorder = (float)o->emulate_reorder,
                                      .corrupt = (float)o->emulate_corrupt,
                                      .delay_us = (uint64_t)(o->emulate_delay_ms * 1e3),
                                      .jitter_us = (uint64_t)(o->emulate_jitter_ms * 1e3),
                                      .rate_bits_per_s = o->emulate_rate};
    const struct uw_stack_config stack = {.listen = o->listen,
                                          .run = o->run,
                                          .key = key,
                                          .mtu_bytes = o->mtu,
                                          .peers_n = (uint16_t)o->members,
                                          .bad = &bad,
                                          .bad_seed = uw_rng_mix(o->emulate_seed,
                                                                 name_hash(o->name)),
                                          .far = o->emulate_far.item,
                                          .far_n = o->emulate_far.n,
                                          .cut_from_us = (uint64_t)(o->emulate_cut_after * 1e6),
                                          .cut_us = (uint64_t)(o->emulate_cut_seconds * 1e6),
                                          .event = uw_node_report_secure,
                                          .user = &r->report};
    r->fixed = uw_allreduce_find(o->algorithm, &r->algorithm);
    rc = take_spare(r);
    if (rc < 0) {
        uw_key_wipe(key, sizeof key);
        return rc;
    }
    const struct uw_node_config node = node_config(r);
    rc = uw_node_net_open(&r->net, &stack, &node, &r->err);
    uw_key_wipe(key, sizeof key);
    char address[UW_LINK_ADDRESS_BYTES];
    if (rc == UW_OK && uw_link_udp_local(&r->net.stack.udp, address) == UW_OK) {
        uw_node_report_listening(&r->report, address, &o->seeds);
    }
    return rc;
}

/* Everything before the first step. *status is the exit status when it fails. */
static int prepare(struct uw_node_work *r, int *status)
{
    const struct uw_node_options *o = r->o;
    const struct uw_mix_rule *rule = uw_mix_find(o->momentum_rule);
    bool gradients = strcmp(o->average, "gradients") == 0;
    double momentum = o->momentum >= 0.0 ? o->momentum : rule->frozen ? 0.9 : 0.0;
    const struct uw_optimizer optimizer = {.momentum = (float)momentum,
                                           .weight_decay = (float)o->weight_decay,
                                           .frozen = rule->frozen};
    const struct uw_job_config config = {.model = o->model,
                                         .backend = o->backend,
                                         .exact = o->exact,
                                         .threads = o->threads,
                                         .plan = {.batch_n = o->batch,
                                                  .mode = gradients ? UW_PLAN_BUCKETS
                                                                    : UW_PLAN_IMMEDIATE,
                                                  .bucket_n = UW_GRADIENTS_BUCKET_N,
                                                  .late_updates = gradients,
                                                  .optimizer = optimizer,
                                                  .mixing_velocity = rule->velocity,
                                                  .snapshot = true}};
    uw_lr_parse(o->schedule, &r->schedule);
    r->incarnation = (uint32_t)time(NULL);
    r->fresh = o->weights == NULL;
    int rc = uw_job_plan(&r->job, &config, &r->err);
    *status = uw_job_exit(rc);
    if (rc < 0) {
        return rc;
    }
    rc = uw_storage_file_init(&r->files, NULL);
    rc = rc < 0 ? rc : uw_node_report_open(&r->report, o->events, o->name, &r->err);
    rc = rc < 0 ? rc : uw_job_bind(&r->job, &r->err);
    rc = rc < 0 ? rc : uw_node_trace_open(r);
    rc = rc < 0 || !gradients ? rc : uw_node_gradients_open(r);
    rc = rc < 0 ? rc : open_data(r);
    *status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED;
    if (rc == UW_OK) {
        rc = uw_job_init_weights(&r->job, o->seed, &r->err);
        rc = rc < 0 || o->weights == NULL ? rc
                                          : uw_job_load_weights(&r->job, o->weights, &r->err);
    }
    if (rc == UW_OK && o->exact) {
        uw_node_report_say(&r->report, "exact: kernels %s, the same bits on every processor",
                           r->job.config.kernels->name);
    }
    rc = rc < 0 ? rc : uw_job_try_save(&r->files.base, "checkpoint", o->checkpoint, &r->err);
    rc = rc < 0 ? rc : load_checkpoint(r);
    rc = rc < 0 ? rc : save(r);
    rc = rc < 0 ? rc : open_net(r);
    *status = rc < 0 ? *status : UW_EXIT_FAILED;
    return rc < 0 ? rc : uw_node_net_start(&r->net, &r->err);
}

static double elapsed_s(const struct uw_node_work *r)
{
    return (double)(uw_board_now_us() - r->start_us) / 1e6;
}

static float samples_per_s(const struct uw_node_work *r)
{
    return r->computing_us > 0 ? (float)((double)r->samples * 1e6 / (double)r->computing_us) : 0;
}

int uw_node_work_exchange(struct uw_node_work *r, float lr)
{
    const struct uw_node_progress p = {.step = (uint32_t)r->step,
                                       .lr = lr,
                                       .loss = (float)r->loss,
                                       .accuracy = r->scored ? (float)r->score.accuracy : -1.0f,
                                       .samples_per_s = samples_per_s(r)};
    int rc = uw_node_gradients_settle(r);
    if (rc < 0) {
        return rc;
    }
    rc = uw_node_after_step(&r->net.node, &p);
    bool averaging = rc > 0 && (rc & UW_NODE_AVERAGING) != 0;
    if (rc > 0 && !(averaging && r->averaging)) {
        uw_node_net_wake(&r->net);
    }
    r->averaging = averaging;
    if (rc < 0) {
        return uw_error_set(&r->err, rc, "the exchange with peers: %s", uw_status_text(rc));
    }
    uw_node_gradients_meet(r);
    return rc;
}

/* Under a time limit alone the schedule goes by the time. */
static float learning_rate(const struct uw_node_work *r)
{
    bool by_time = r->steps == UINT64_MAX && r->o->seconds > 0.0;
    uint64_t end = by_time ? (uint64_t)(r->o->seconds * 1e6) : r->steps;
    uint64_t at = by_time ? uw_board_now_us() - r->start_us : r->step;
    const struct uw_schedule_at where = {.step = r->step, .epoch = r->loader.epoch,
                                         .progress = at < end ? (double)at / (double)end : 1.0};
    return uw_schedule_lr(&r->schedule, r->o->lr, &where);
}

static int train_one(struct uw_node_work *r)
{
    struct uw_model *m = &r->job.model;
    struct uw_step_result result;
    struct uw_error why = {.text = ""};
    uint64_t before_us = uw_board_now_us();
    m->optimizer.lr = learning_rate(r);
    int n = uw_loader_next(&r->loader, m->input, m->label);
    if (n < 0) {
        return uw_error_set(&r->err, n, "%.180s: %s", r->o->data, uw_status_text(n));
    }
    int rc = uw_model_train_step(m, &(struct uw_minibatch){.n = (uint32_t)n}, &result, &why);
    if (rc < 0) {
        return uw_error_set(&r->err, rc, "step %llu: %.200s", (unsigned long long)r->step + 1u,
                            why.text[0] != '\0' ? why.text : uw_status_text(rc));
    }
    uint64_t now_us = uw_board_now_us();
    r->step++;
    r->samples += (uint64_t)n;
    r->computing_us += now_us - before_us;
    uw_node_trace_part(r, NULL, before_us, now_us);
    r->loss = r->samples == (uint64_t)n ? result.loss : 0.95 * r->loss + 0.05 * result.loss;
    if (now_us - r->step_event_us >= STEP_EVENT_US || r->step == r->steps) {
        uw_node_report_step(&r->report, r->step, r->loss, (double)r->samples,
                            (double)samples_per_s(r));
        r->step_event_us = now_us;
    }
    return UW_OK;
}

static int evaluate(struct uw_node_work *r, uint32_t limit, bool final)
{
    struct uw_score score;
    uint64_t before_us = uw_board_now_us();
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

double uw_node_work_left_s(const struct uw_node_work *r)
{
    double left = r->o->seconds > 0.0 ? r->o->seconds - elapsed_s(r) : -1.0;
    left = r->o->seconds > 0.0 && left < 0.0 ? 0.0 : left;
    if (r->steps != UINT64_MAX && r->step > r->first_step) {
        double by_steps = r->step >= r->steps
                              ? 0.0
                              : elapsed_s(r) * (double)(r->steps - r->step) /
                                    (double)(r->step - r->first_step);
        left = left < 0.0 || by_steps < left ? by_steps : left;
    }
    return left;
}

/* What is due between steps: status event, checkpoint, test. A full disk does not end a node. */
static int housekeeping(struct uw_node_work *r)
{
    uint64_t now_us = uw_board_now_us();
    int rc = UW_OK;
    uw_node_report_status(&r->report, &r->net, now_us, r->step, r->steps, uw_node_work_left_s(r));
    if ((double)(now_us - r->saved_us) >= r->o->checkpoint_seconds * 1e6 && save(r) < 0) {
        uw_node_report_say(&r->report, "%s; training goes on", r->err.text);
    }
    if (r->o->eval_seconds > 0.0 &&
        (double)(now_us - r->scored_us) >= r->o->eval_seconds * 1e6) {
        rc = evaluate(r, r->o->eval_samples, false);
    }
    return rc;
}

static bool time_left(const struct uw_node_work *r)
{
    return r->o->seconds <= 0.0 || elapsed_s(r) < r->o->seconds;
}

/* While the network has the parameters, or half of another's model is in them, nothing is done with
 * them here. */
static int wait_for_network(struct uw_node_work *r)
{
    uw_node_net_wait(&r->net);
    uw_node_report_status(&r->report, &r->net, uw_board_now_us(), r->step, r->steps,
                          uw_node_work_left_s(r));
    if (uw_stop_asked(&r->stop) || !time_left(r)) {
        uw_node_recall(&r->net.node);
    }
    return uw_node_work_exchange(r, 0.0f);
}

static int run_steps(struct uw_node_work *r)
{
    int rc = uw_node_work_exchange(r, 0.0f);
    while (rc >= 0 && ((rc & UW_NODE_AVERAGING) != 0 ||
                       (r->step < r->steps && time_left(r) && !uw_stop_asked(&r->stop)))) {
        if ((rc & (UW_NODE_ADOPTING | UW_NODE_AVERAGING)) != 0) {
            rc = wait_for_network(r);
            continue;
        }
        rc = train_one(r);
        rc = rc < 0 ? rc : uw_node_work_exchange(r, r->job.model.optimizer.lr);
        int kept = rc < 0 || (rc & UW_NODE_AVERAGING) != 0 ? UW_OK : housekeeping(r);
        rc = kept < 0 ? kept : rc;
    }
    return rc < 0 ? rc : UW_OK;
}

static int work(struct uw_node_work *r)
{
    int rc = run_steps(r);
    rc = rc < 0 ? rc : uw_node_gradients_finish(r);
    rc = rc < 0 ? rc : uw_node_work_agree(r);
    rc = rc < 0 ? rc : save(r);
    if (rc == UW_OK && !uw_stop_asked(&r->stop)) {
        rc = evaluate(r, r->o->final_eval_samples, true);
        uw_node_work_linger(r);
    }
    uw_node_net_stop(&r->net);
    if (rc == UW_OK) {
        struct uw_node_summary s = {.step = r->step,
                                    .samples = r->samples,
                                    .samples_per_s = (double)samples_per_s(r),
                                    .seconds = elapsed_s(r),
                                    .arena_bytes = r->job.arena.used_bytes,
                                    .network_bytes = uw_stack_bytes(&r->net.stack) +
                                                     r->net.block.bytes + r->spare.bytes,
                                    .score = r->scored ? &r->score : NULL,
                                    .interrupted = r->stop.asked};
        uw_node_net_members(&r->net, NULL, 0, &s.counters);
        uw_node_report_done(&r->report, &s);
    }
    return rc;
}

int uw_node_run(const struct uw_node_options *o)
{
    struct uw_node_work *r = calloc(1, sizeof *r);
    int status = UW_EXIT_FAILED;
    if (r == NULL) {
        return uw_cli_error("node", status, "out of memory");
    }
    r->o = o;
    r->start_us = r->scored_us = uw_board_now_us();
    uw_node_report_init(&r->report);
    uw_stop_init(&r->stop);
    int rc = prepare(r, &status);
    rc = rc < 0 ? rc : work(r);
    uw_node_net_close(&r->net);
    uw_board_memory_release(r->spare.at, r->spare.bytes);
    rc = rc < 0 ? rc : uw_node_trace_close(r);
    (void)uw_node_trace_close(r);
    uw_node_gradients_close(r);
    struct uw_error late = {.text = ""};
    int closed = uw_node_report_close(&r->report, rc < 0 ? NULL : &late);
    if (rc < 0) {
        uw_cli_error("node", status, "%s", r->err.text[0] != '\0' ? r->err.text
                                                                   : uw_status_text(rc));
    } else {
        status = closed < 0 ? uw_cli_error("node", UW_EXIT_FAILED, "%s", late.text)
                            : UW_EXIT_DONE;
    }
    uw_data_close(&r->test);
    uw_data_close(&r->data);
    uw_storage_file_deinit(&r->files);
    uw_job_deinit(&r->job);
    free(r);
    return (int)status;
}
