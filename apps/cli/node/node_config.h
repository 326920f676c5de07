/* SPDX-License-Identifier: Apache-2.0
 *
 * node_config.h - the options of a node: a JSON file, keys of which flags may override
 *
 * The table in node_keys.c documents every key; `uwasa node --help` prints it.
 *
 * Memory     texts live until uw_node_config_deinit      Context  one thread
 */
#ifndef UWASA_CLI_NODE_CONFIG_H
#define UWASA_CLI_NODE_CONFIG_H

#include "base/json_read.h"
#include "job/exchange.h"
#include "links/link_stack.h"

#include "uwasa/sim_skew.h"

#define UW_NODE_TOGETHER_UNSET UINT32_MAX
#define UW_NODE_ADDRESS_UNSET UINT32_MAX
#define UW_NODE_CONSENSUS_UNSET (-1.0)
#define UW_NODE_RANK_TEXTS 128u     /* that ranks may have of their own */

enum uw_node_membership { UW_MEMBERSHIP_SWIM, UW_MEMBERSHIP_STATIC };
enum uw_node_average { UW_AVERAGE_PARAMETERS, UW_AVERAGE_GRADIENTS };

struct uw_node_options {
    const char *name, *run, *listen, *advertise, *key;
    struct uw_choice link;              /* the first carriers; word NULL: not given */
    const char *link_serial, *link_bus, *link_radio;
    enum uw_stack_carrier carrier;      /* from those */
    const char *link_interface;
    uint32_t link_baud;                 /* 0: not given */
    uint32_t link_address;              /* UW_NODE_ADDRESS_UNSET: not given */
    bool tls;
    struct uw_opt_list seeds;
    struct uw_choice membership;        /* enum uw_node_membership */
    const char *model, *data, *shard, *skew;
    uint32_t batch, threads;
    struct uw_exchange exchange;
    uint32_t pull_peers;                /* that a round asks at once; 0: 1 */
    bool code;                          /* of chunks on links of frames */
    double sleep_period, sleep_awake;   /* seconds; 0: it never sleeps */
    double lr, weight_decay;
    const char *schedule, *cell;        /* schedule of lr */
    struct uw_choice backend, algorithm;
    struct uw_choice average;           /* enum uw_node_average */
    bool fixed;                         /* algorithm is one, and not auto: kind */
    enum uw_allreduce_kind kind;
    uint32_t head_weight, cell_first;
    uint32_t together;                  /* UW_NODE_TOGETHER_UNSET: not given */
    double gather_seconds, round_seconds;
    uint64_t steps, seed;
    uint32_t epochs;
    double seconds;                     /* 0: no limit */
    double elapsed;                     /* of them, before the start */
    double step_seconds;                /* 0: as fast as it can */
    const char *weights, *checkpoint;
    double checkpoint_seconds;
    double shuffle, shuffle_seconds;    /* share of the samples that may be away */
    double eval_seconds;
    uint32_t eval_samples, final_eval_samples;
    uint32_t consensus_rounds;
    double consensus_seconds;           /* UW_NODE_CONSENSUS_UNSET: not given */
    double linger_seconds;
    uint32_t mtu, members, membership_rate;     /* a rate of 0: not given */
    uint64_t pull_window;
    double emulate_loss, emulate_duplicate, emulate_reorder, emulate_corrupt;
    double emulate_delay_ms, emulate_jitter_ms;
    uint64_t emulate_rate, emulate_seed;
    struct uw_opt_list emulate_far;
    double emulate_cut_after, emulate_cut_seconds;
    bool exact, tf32, nccl;
    const char *events, *trace, *pcap, *sensors;
    uint32_t classes_mask;              /* 0: all */
    uint32_t shard_i, shards_n;         /* from shard, once it is checked */
    struct uw_skew dealt;               /* from skew */
};

struct uw_node_file {
    struct uw_node_options o;
    struct uw_json json;
    const struct uw_opt_sets *set;      /* borrowed; NULL: none */
    bool ranked;                        /* uw_node_config_rank was called */
    char *texts[UW_NODE_RANK_TEXTS];
    uint32_t texts_n;
};

/* node_keys.c: for help and the command line; what holds where nothing is given. */
extern const struct uw_opts uw_node_keys;
extern const struct uw_node_options uw_node_defaults;

/* Read the file (NULL: defaults only), apply the assignments (a list given there replaces the
 * file's), check what belongs together. The assignments are borrowed until deinit.
 * Returns UW_OK, or what uw_json_open_file returns, or UW_ERR_INVALID; err names file and line,
 * or the assignment. Deinit in every case. */
int uw_node_config_load(struct uw_node_file *f, const char *file, const struct uw_opt_sets *set,
                        struct uw_error *err);

/* The same from a text, for tests. */
int uw_node_config_parse(struct uw_node_file *f, const char *file, const char *text,
                         size_t text_bytes, struct uw_error *err);

/* Over MPI: make the configuration that of one rank. "{rank}" and "{size}" in texts become
 * numbers; without a {rank} the name gets it at its end, files that are written before their
 * extension. All ranks are seeds, and together unless that was given.
 * Returns UW_OK, UW_ERR_INVALID with err filled, UW_ERR_NOMEM. */
int uw_node_config_rank(struct uw_node_file *f, uint32_t rank, uint32_t size,
                        struct uw_error *err);

/* Fill in the fields that options decide. The caller adds the rest before or after: link, seeds,
 * memory, callbacks, and what it measures. */
void uw_node_config_fill(const struct uw_node_options *o, struct uw_node_config *c);

/* Does it average exactly at the end? Not with static peers, sleep or narrow frames. */
bool uw_node_config_agrees(const struct uw_node_options *o);

/* How long the average at the end waits for others, and what is mixed there goes on; 0: neither. */
uint64_t uw_node_consensus_us(const struct uw_node_options *o);

/* When mixing at the end is over that began at start_us and that parameters came to last at
 * came_us: so long after the one where it was given, else after the other, for what a model takes
 * on a link is not known beforehand. */
uint64_t uw_node_consensus_end_us(const struct uw_node_options *o, uint64_t start_us,
                                  uint64_t came_us);

/* Run a node as configured; over MPI the configuration becomes this rank's. Prints progress and
 * mistakes. Returns the exit status.
 *
 * Events, beside step, eval and done: "start"; "listening", the address; "status", once a second,
 * what the node knows of its peers and has moved; "member", "pull" and "average", as they happen,
 * "kind" says what (uwasa/node_event.h); "refused", a peer without the key. samples_per_s is by the
 * clock of the training: waiting for others counts. */
int uw_node_run(struct uw_node_file *file);

/* Release the texts; safe after a failed load and twice. */
void uw_node_config_deinit(struct uw_node_file *f);

#endif
