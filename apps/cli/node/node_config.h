/* SPDX-License-Identifier: Apache-2.0
 *
 * node_config.h - the options of a node: a JSON file whose keys flags may override
 *
 * The table in node_keys.c documents every key; `uwasa node --help` prints it.
 *
 * Memory     texts live until uw_node_config_deinit      Context  one thread
 */
#ifndef UWASA_CLI_NODE_CONFIG_H
#define UWASA_CLI_NODE_CONFIG_H

#include "base/json_read.h"
#include "job/exchange.h"
#include "job/job.h"
#include "links/link_stack.h"

#include "uwasa/sim_skew.h"

#define UW_NODE_TOGETHER_UNSET UINT32_MAX
#define UW_NODE_ADDRESS_UNSET UINT32_MAX
#define UW_NODE_CONSENSUS_UNSET (-1.0)
#define UW_NODE_RANK_TEXTS 128u     /* limit of texts that differ between ranks */

enum uw_node_membership { UW_MEMBERSHIP_SWIM, UW_MEMBERSHIP_STATIC };
enum uw_node_average { UW_AVERAGE_PARAMETERS, UW_AVERAGE_GRADIENTS };

struct uw_node_options {
    const char *name, *run, *listen, *advertise, *key;
    struct uw_choice link;              /* one of the first carriers; word NULL: not given */
    const char *link_serial, *link_bus, *link_radio;
    enum uw_stack_carrier carrier;      /* derived from these */
    const char *link_interface;
    uint32_t link_baud;                 /* 0: not given */
    uint32_t link_address;              /* UW_NODE_ADDRESS_UNSET: not given */
    bool tls;
    struct uw_opt_list seeds;
    struct uw_choice membership;        /* enum uw_node_membership */
    const char *model, *data, *shard, *skew;
    uint32_t batch, threads;
    struct uw_exchange exchange;
    uint32_t pull_peers;                /* peers pulled from in a round; 0: 1 */
    bool code;                          /* use the lossless code for chunks on links of frames */
    double sleep_period, sleep_awake;   /* seconds; 0: never sleeps */
    double lr, weight_decay;
    const char *schedule, *cell;        /* schedule: of lr */
    struct uw_choice backend, algorithm;
    struct uw_choice loss;              /* enum uw_loss_word */
    struct uw_choice average;           /* enum uw_node_average */
    bool fixed;                         /* algorithm is not "auto": kind is set */
    enum uw_allreduce_kind kind;
    uint32_t head_weight, cell_first;
    uint32_t together;                  /* UW_NODE_TOGETHER_UNSET: not given */
    double gather_seconds, round_seconds;
    uint64_t steps, seed;
    uint32_t epochs;
    double seconds;                     /* 0: no limit */
    double elapsed;                     /* part of seconds that was over at the start */
    double step_seconds;                /* least time of a step; 0: no limit */
    const char *weights, *checkpoint;
    struct uw_job_onnx onnx;
    double checkpoint_seconds;
    double shuffle, shuffle_seconds;    /* share of the samples that may be lent; lease time */
    double eval_seconds;
    uint32_t eval_samples, final_eval_samples;
    uint32_t consensus_rounds;
    double consensus_seconds;           /* UW_NODE_CONSENSUS_UNSET: not given */
    double linger_seconds;
    uint32_t mtu, members, membership_rate;     /* membership_rate 0: not given */
    uint64_t pull_window;
    double emulate_loss, emulate_duplicate, emulate_reorder, emulate_corrupt;
    double emulate_delay_ms, emulate_jitter_ms;
    uint64_t emulate_rate, emulate_seed;
    uint32_t emulate_mtu;
    struct uw_opt_list emulate_far;
    double emulate_cut_after, emulate_cut_seconds;
    bool exact, tf32, nccl;
    const char *events, *trace, *pcap, *sensors;
    double events_seconds;              /* least time between frequent events of a kind; 0: none */
    uint32_t classes_mask;              /* 0: all */
    uint32_t shard_i, shards_n;         /* parsed from shard */
    struct uw_skew dealt;               /* parsed from skew */
};

struct uw_node_file {
    struct uw_node_options o;
    struct uw_json json;
    const struct uw_opt_sets *set;      /* borrowed; NULL: none */
    bool ranked;                        /* uw_node_config_rank was called */
    char *texts[UW_NODE_RANK_TEXTS];
    uint32_t texts_n;
};

/* node_keys.c: the keys, for help and the command line; the defaults. */
extern const struct uw_opts uw_node_keys;
extern const struct uw_node_options uw_node_defaults;

/* Read the file (NULL: defaults only), apply the assignments (a list among them replaces the
 * file's), check combinations. The assignments are borrowed until deinit.
 * Returns UW_OK, an error of uw_json_open_file or UW_ERR_INVALID; err names file and line, or the
 * assignment. Deinit in every case. */
int uw_node_config_load(struct uw_node_file *f, const char *file, const struct uw_opt_sets *set,
                        struct uw_error *err);

/* The same from a text, for tests. */
int uw_node_config_parse(struct uw_node_file *f, const char *file, const char *text,
                         size_t text_bytes, struct uw_error *err);

/* Over MPI: turn the configuration into that of one rank. "{rank}" and "{size}" in texts become
 * numbers. Without {rank}, the rank is appended to the name, and put before the extension of files
 * that are written. All ranks are seeds; `together` is their number unless it was given.
 * Returns UW_OK, UW_ERR_INVALID with err filled, UW_ERR_NOMEM. */
int uw_node_config_rank(struct uw_node_file *f, uint32_t rank, uint32_t size,
                        struct uw_error *err);

/* Fill in the fields that options determine. The caller sets the rest before or after: link, seeds,
 * memory, callbacks, and what it measures. */
void uw_node_config_fill(const struct uw_node_options *o, struct uw_node_config *c);

/* Whether the node averages exactly at the end: not with static peers, sleep or small frames. */
bool uw_node_config_agrees(const struct uw_node_options *o);

/* How long the average at the end waits for others, and mixing at the end continues; 0: neither. */
uint64_t uw_node_consensus_us(const struct uw_node_options *o);

/* When mixing at the end is over. If consensus_seconds was given, it counts from the start
 * (start_us); otherwise from the last arrival of parameters (came_us), since the time that a model
 * takes on a link is not known in advance. */
uint64_t uw_node_consensus_end_us(const struct uw_node_options *o, uint64_t start_us,
                                  uint64_t came_us);

/* Run a node as configured; over MPI the configuration becomes this rank's. Prints progress and
 * errors. Returns the exit status.
 *
 * Events, besides step, eval and done: "start"; "listening" with the address; "status", once a
 * second, with peers and counters; "member", "pull" and "average" as they happen, with a "kind"
 * (uwasa/node_event.h); "refused", a peer without the key. samples_per_s is by wall-clock time: it
 * includes waiting for others. */
int uw_node_run(struct uw_node_file *file);

/* Release the texts; safe after a failed load and twice. */
void uw_node_config_deinit(struct uw_node_file *f);

#endif
