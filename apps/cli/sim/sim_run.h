/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_run.h - the inside of a simulated run (private to the files below)
 *
 *     sim_run.c      set-up, the loop over the world's clock, a dry run
 *     sim_learn.c    the nodes' steps: begun in virtual time, computed by any thread
 *     sim_eval.c     tests of the nodes' models: how good and how far apart they are
 *     sim_state.c    checkpoints: saving and resuming a run
 *
 * The world decides when a local step ends. Until then nothing else uses the node's parameters,
 * velocity and optimizer state, and often not at the end of the step either, namely between two
 * mixings of a round of T steps. So steps are delayed until the world will use the vectors
 * (uw_world_touches), then submitted to the threads together, and awaited at the end of the last
 * one. The nodes' vectors do not fit into the cache, so fetching them once for several steps saves
 * time. The result of a step depends on the node alone, not on when and on which thread it is
 * computed. All consequences happen on the main thread, in the order of virtual time.
 *
 * Context    main thread, unless said
 */
#ifndef UWASA_CLI_SIM_RUN_H
#define UWASA_CLI_SIM_RUN_H

#include "sim.h"
#include "base/futures.h"
#include "base/stop.h"
#include "job/job_data.h"

#include "uwasa/replica.h"
#include "uwasa/schedule.h"
#include "uwasa/storage_file.h"

struct uw_sim;

#define UW_SIM_TENSORS_MAX (3u + UW_OPTIMIZER_VECTORS_MAX)

/* The training of a node, apart from its network. */
struct uw_sim_learner {
    struct uw_future future;        /* computes delayed steps and the one in progress */
    struct uw_sim *sim;
    uint32_t place;
    struct uw_share share;
    struct uw_loader loader;
    struct uw_replica replica;      /* x and velocity are the world's */
    uint64_t step;                  /* steps ended in virtual time */
    uint64_t ended_us;              /* of training, at the end of its last step; 0: not yet */
    uint64_t agree_until_us;        /* 0: still training */
    uint32_t agreed;                /* rounds since its last step */
    bool trains;                    /* a step is in progress ... */
    bool held;                      /* ... and must not be submitted yet */
    bool handed;                    /* it was submitted */
    float lr;                       /* of the step in progress, else of the last */
    float momentum;

    /* written by the thread that computes the steps */
    uint32_t behind;                /* steps that ended in virtual time but are not computed */
    double loss;                    /* running mean over steps that ended and are computed */
    double step_loss;
    bool computed;                  /* the step in progress is computed */
    int rc;
    char *why;                      /* it failed: the sentence, from the heap; may be NULL */
};

/* The file from which a run is resumed. */
struct uw_sim_saved {
    struct uw_storage_file files;
    uint64_t data;                  /* offset of its tensors */
    uint64_t begin[UW_SIM_TENSORS_MAX]; /* of each tensor, relative to data */
    uint64_t fleet;                 /* hash of its devices */
};

struct uw_sim {
    const struct uw_sim_options *o;
    uint32_t threads;
    struct uw_job *jobs;            /* [threads]: a model for each, on one thread */
    struct uw_futures *futures;
    struct uw_sim_inputs own, *in;  /* in: these, or a trial's */
    struct uw_sim_learner *learners;    /* [o->nodes] */
    float *states;                  /* all optimizer state */
    uint32_t vectors;               /* of optimizer state, per node */
    uint32_t behind_max;            /* limit of delayed steps per node */
    char name[32];                  /* of the run, as in the messages of nodes */
    struct uw_params fresh;         /* the first values */
    struct uw_sim_draw draw;        /* the devices */
    struct uw_world world;
    struct uw_schedule schedule;    /* of the learning rate */
    struct uw_stop stop;
    struct uw_sim_report report;
    struct uw_sim_profile profile;
    struct uw_sim_score score;
    bool scored, ended;
    bool due;                       /* a test is, when no node waits for an exchange any more */
    uint64_t step_us;               /* of a device whose step is measured */
    struct uw_world_past past;      /* when it was last saved */
    uint64_t *left_us;              /* [o->nodes] see struct uw_world_past; NULL: it begins */
    struct uw_sim_saved saved;
    uint64_t saved_us;              /* of this process's clock */
    bool stopped;
    bool interrupted;               /* the world returned only to check for a stop */
    uint64_t look_us;               /* see uw_sim_looks */
    uint64_t least;                 /* steps that the slowest nodes have ended ... */
    uint32_t least_n;               /* ... and the number of these nodes */
    uint32_t *held;                 /* [held_n] nodes whose steps wait for a test */
    uint32_t held_n;
    uint32_t *tested;               /* [tested_n] nodes whose models are tested */
    uint32_t tested_n;
    float *mean;                    /* [params.size_n] the nodes' mean model */
    double *accuracies;             /* [tested_n] in the last test */
    struct uw_error err;
};

/* Whether to check for a stop now: every 20 ms, since a check costs as much as a step of a small
 * model. Any thread, with its own next_us. */
bool uw_sim_looks(uint64_t *next_us);

/* ---- sim_learn.c ---- */

/* A model for each thread: planned, and when the data is open, bound. Returns the status, s->err
 * filled. */
int uw_sim_plan_jobs(struct uw_sim *s);
int uw_sim_bind_jobs(struct uw_sim *s);

/* A learner for each node, before the world is open. Returns the status, s->err filled. */
int uw_sim_open_learners(struct uw_sim *s);

/* Give the learners the vectors that they work on; the world is open. Returns as above. */
int uw_sim_bind_learners(struct uw_sim *s);

/* Measure a step on this machine, without keeping its effect. */
int uw_sim_measure_step(struct uw_sim *s, uint64_t *step_us);

/* T of the learner's next step; 0: it does not change during the run. */
uint32_t uw_sim_period(const struct uw_sim *s, const struct uw_sim_learner *l);

/* Begin the learner's next step. The first step after one that makes a test due is held back until
 * the test is over or the step must end: so the test sees the model before it. */
void uw_sim_begin_step(struct uw_sim *s, struct uw_sim_learner *l);

/* As struct uw_world_config.on_touch; arg is the run. */
void uw_sim_touch(void *arg, uint32_t place);

/* Submit the steps that are held back. */
void uw_sim_release(struct uw_sim *s);

/* Compute all delayed steps and the steps in progress, except those held back. */
void uw_sim_catch_up(struct uw_sim *s);

/* The learner's step has ended. Returns UW_OK or an error, s->err filled. */
int uw_sim_end_step(struct uw_sim *s, struct uw_sim_learner *l);

/* The node has restarted: the step in progress and the optimizer's state are lost. */
void uw_sim_forget(struct uw_sim *s, struct uw_sim_learner *l);

/* Find the slowest nodes again: s->least and s->least_n. */
void uw_sim_find_slowest(struct uw_sim *s);

/* Safe after a failed open, and twice. */
void uw_sim_close_learners(struct uw_sim *s);

/* ---- sim_eval.c ---- */

/* Choose the nodes to test. Returns UW_OK or UW_ERR_NOMEM. */
int uw_sim_open_eval(struct uw_sim *s);
void uw_sim_close_eval(struct uw_sim *s);

/* Test the nodes' models and the mean of all. Nodes ahead of the slowest may be in a step that was
 * submitted: they are tested with its result.
 *   limit  samples of the test set; 0: all
 * Returns UW_OK (s->score is new), UW_ERR_AGAIN (stopped), or what failed, s->err filled. */
int uw_sim_evaluate(struct uw_sim *s, uint32_t limit);

/* Sums over some of the parameters and all nodes. The sums over all parameters give the consensus
 * distance sqrt(sum_i |x_i - mean|^2 / nodes) / |mean| = sqrt(apart / nodes / length); 0 if |mean|
 * is 0. */
struct uw_sim_apart {
    double apart, length;           /* of (x_i - mean)^2, of mean^2 */
};

/* Write the mean of all nodes' parameters from .. from + n - 1 to mean [n], which overlaps none of
 * them, and add their sums. Any thread. */
void uw_sim_mean_model(const struct uw_world *w, uint32_t from, uint32_t n, float *mean,
                       struct uw_sim_apart *sums);

/* ---- sim_state.c ---- */

/* Write the whole state of the run to --checkpoint, if given. First computes the steps that have
 * ended; the threads are then idle. Writes nothing if a step has failed. Returns UW_OK or an error,
 * s->err filled. */
int uw_sim_save(struct uw_sim *s);

/* Whether any node's parameters are being averaged. */
bool uw_sim_some_average(const struct uw_sim *s);

/* Resume from --resume, if given: everything but the vectors, before the world is open.
 * Returns UW_OK, UW_ERR_CORRUPT, UW_ERR_MISMATCH (other flags, model or program), UW_ERR_NOMEM or
 * an error of reading, s->err filled. */
int uw_sim_resume(struct uw_sim *s);

/* Resume the vectors, before the nodes' first contact. Returns as uw_sim_resume. */
int uw_sim_resume_vectors(struct uw_sim *s);

/* Safe on a zeroed struct and twice. */
void uw_sim_close_state(struct uw_sim *s);

#endif
