/* SPDX-License-Identifier: Apache-2.0
 *
 * node_work.h - a running node, from bottom to top: node_work.c (progress, exchange, steps),
 * node_gpu.c (a GPU's parameters, averages between GPUs), node_open.c (data, network), node_end.c
 * (the end), node_run.c (set-up, training) */
#ifndef UWASA_CLI_NODE_WORK_H
#define UWASA_CLI_NODE_WORK_H

#include "node_config.h"
#include "node_net.h"
#include "node_report.h"
#include "rank_gradients.h"
#include "base/stop.h"
#include "base/trace.h"
#include "job/answer.h"
#include "job/job_data.h"
#include "job/job_score.h"

#include "uwasa/cuda_group.h"
#include "uwasa/data.h"
#include "uwasa/describe.h"
#include "uwasa/node_direct.h"
#include "uwasa/node_image.h"
#include "uwasa/queries.h"
#include "uwasa/sample_pool.h"
#include "uwasa/schedule.h"
#include "uwasa/sensors.h"
#include "uwasa/storage_file.h"

#define UW_NODE_BEGUN_MAX 2u

/* A step that has begun. */
struct uw_node_begun {
    uint32_t n;                         /* samples */
    float lr;
};

struct uw_node_work {
    const struct uw_node_options *o;
    struct uw_job job;
    struct uw_data data, test;
    struct uw_deal deal;                /* with "skew" only; share is then this node's part */
    struct uw_share share;
    struct uw_dataset *own;             /* this node's training samples */
    struct uw_sample_pool pool;         /* with "shuffle" only; in pool_block */
    struct uw_stack_block pool_block;
    struct uw_loader loader;
    struct uw_schedule schedule;
    struct uw_storage_file files;
    struct uw_stop stop;
    struct uw_board_sensors sensors;
    struct uw_vitals vitals;            /* as read at sensors_us */
    bool sends_vitals;
    uint64_t sensors_us;                /* 0: never */
    struct uw_keyfile key;          /* file NULL: none is needed */
    struct uw_node_net net;
    struct uw_node_report report;
    uint32_t incarnation;
    bool all_shown;                     /* by broadcast: others have all of the training's result */
    bool retreated;                     /* averaging in pairs was given up: the rule is qg */
    uint64_t step, steps;               /* done; to do, UINT64_MAX: no limit */
    uint64_t first_step;                /* steps of the loaded checkpoint */
    uint64_t begun;                     /* steps begun: step, or more on a GPU */
    struct uw_node_begun flight[UW_NODE_BEGUN_MAX];
    uint64_t start_us, samples;
    uint64_t moved_us;                  /* last step, or the begin of the training */
    bool still;                         /* it stands still since, and has said so */
    uint64_t train_us, trained_us;      /* start and end of the training; 0: not yet */
    uint64_t step_event_us, saved_us, scored_us;
    double step_loss;                   /* of the last step */
    double loss;                        /* running mean */
    struct uw_score score;
    bool scored;
    bool averaging;                     /* the network owns the parameters */
    struct uw_answers answers;
    struct uw_queries queries;          /* of predict --node; sample NULL: not open */
    char *queries_text;
    struct uw_stack_block spare;        /* for rules that need it */
    struct uw_gradients gradients;      /* empty: parameters are averaged instead */
    char kernels[UW_GPU_TEXT_BYTES];    /* for the status */
    struct uw_node_image image;         /* with a GPU only */
    bool image_failed;                  /* a copy from or to the image failed */
    struct uw_cuda_group *group;        /* NULL: averages use the network */
    struct uw_node_direct direct;
    struct uw_trace trace;
    uint64_t pulls_traced;
    struct uw_error err;
};

/* Hash of the node's name, so that nodes draw different numbers from one seed. */
uint64_t uw_node_work_name(const struct uw_node_work *r);

/* Whether the node averages by broadcast. */
static inline bool uw_node_work_broadcasts(const struct uw_node_options *o)
{
    return o->exchange.mode.at == UW_NODE_BROADCAST;
}

/* Open links and node as configured, and report the address. Returns UW_OK or a code, r->err
 * filled. */
int uw_node_work_open(struct uw_node_work *r);

/* Called while the training waits for the network: say so if it stands still, here and to peers. */
void uw_node_work_watch(struct uw_node_work *r);

/* Prepare for questions about samples, of a bound model. Returns UW_OK or UW_ERR_NOMEM, r->err
 * filled. */
int uw_node_work_open_queries(struct uw_node_work *r);
void uw_node_work_close_queries(struct uw_node_work *r);

/* Answer a question that has arrived. Call it when training may read the parameters. Returns UW_OK
 * or a code, r->err filled. */
int uw_node_work_answer(struct uw_node_work *r);

/* Log which GPU trains, or why none does, and report the backend as an event. */
void uw_node_work_log_backend(struct uw_node_work *r);

/* How the network reaches the parameters of a bound model: NULL where the processor trains. */
const struct uw_node_image *uw_node_work_image(struct uw_node_work *r);

/* How its GPU averages directly with other GPUs; NULL: it does not, and if it could, the reason is
 * logged. Closed after the network and before the job. */
const struct uw_node_direct *uw_node_work_direct(struct uw_node_work *r);
void uw_node_work_close_direct(struct uw_node_work *r);

/* The training thread's side of the network. Returns enum uw_node_after bits or an error. */
int uw_node_work_exchange(struct uw_node_work *r, float lr);

/* Make a GPU load and allocate now what steps need. Call it before weights are set and gradients
 * are handed out. Returns UW_OK or a code, r->err filled. */
int uw_node_work_warm(struct uw_node_work *r);

/* Do one more local step. lr: set to its learning rate. Returns UW_OK or a code, r->err filled. */
int uw_node_work_train(struct uw_node_work *r, float *lr);

/* The progress of the training, for peers. */
struct uw_node_progress uw_node_work_progress(const struct uw_node_work *r, float lr);

/* Set r->err to the reason and the consequence of a GPU failure. Returns UW_ERR_IO. */
int uw_node_work_name_failed_gpu(struct uw_node_work *r, const char *why);

/* Whether a checkpoint, or a test, is due between two steps. */
bool uw_node_work_saves(const struct uw_node_work *r, uint64_t now_us);
bool uw_node_work_evaluates(const struct uw_node_work *r, uint64_t now_us);

/* Seconds since the start. */
double uw_node_work_elapsed_s(const struct uw_node_work *r);

/* By wall-clock time since the training began: includes waiting for others. */
float uw_node_work_samples_per_s(const struct uw_node_work *r);

/* Seconds of training left; below 0: no limit, not known yet, or over. */
double uw_node_work_left_s(const struct uw_node_work *r);

/* How long the average at the end waits for others; if all are waited for, as long as any needs. */
uint64_t uw_node_work_agree_us(const struct uw_node_options *o);

/* Make the models of the run agree: one exact average over all reachable nodes that have finished.
 * If nodes gossip and some took no part, or there is no node to average with, then pulls from
 * several peers. Averages by broadcast continue until no node trains and all have the same model;
 * the number of those nodes is reported, or that it is unknown. */
int uw_node_work_agree(struct uw_node_work *r);

/* Keep serving the finished model while peers train or pull it, so that nodes that finish later can
 * agree, too. With averages by broadcast, others would wait for this node: serve only nodes that
 * still ask, and none if all have the same model. Returns UW_OK or a code, r->err filled. */
int uw_node_work_linger(struct uw_node_work *r);

/* Whether numbers are means of columns: without any the scale is a divisor. mean NULL: they are
 * none. */
bool uw_node_work_has_means(const float *mean, uint32_t n);

/* Open the samples, this node's part of them and the test set, and begin an epoch.
 * Returns UW_OK or a code, r->err filled. */
int uw_node_work_open_data(struct uw_node_work *r);

/* Elapsed part of "seconds". */
uint64_t uw_node_work_over_us(const struct uw_node_work *r);

/* Whether "seconds" are not over yet. */
bool uw_node_work_time_left(const struct uw_node_work *r);

/* ---- node_trace.c: traces of the training and network threads; do nothing without --trace ----
 *
 * Rows: layers, updates, waits and buckets of the training; averages of the network. Fragments and
 * pulls overlap, so they are asynchronous events. Each comment begins with the calling thread. */

/* Training. Open the file if one is asked for; the model is bound.
 * Returns UW_OK, UW_ERR_IO or UW_ERR_NOMEM, r->err filled. */
int uw_node_trace_open(struct uw_node_work *r);

/* Training. Add a span for a part of a step; what NULL: "step N". */
void uw_node_trace_part(struct uw_node_work *r, const char *what, uint64_t from_us,
                        uint64_t until_us);

/* Training. A bucket is handed to the network. */
void uw_node_trace_ready(struct uw_node_work *r, uint32_t bucket);

/* Network. A fragment of a bucket begins or ends; arg is the struct uw_node_work. */
void uw_node_trace_fragment(void *arg, uint32_t bucket, uint32_t fragment, bool end,
                            uint64_t now_us);

/* Network. An event of the node. */
void uw_node_trace_event(struct uw_node_work *r, const struct uw_node_event *event);

#endif
