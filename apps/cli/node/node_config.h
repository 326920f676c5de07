/* SPDX-License-Identifier: Apache-2.0
 *
 * node_config.h - what a node is told: a JSON file, keys of which --set may override
 *
 * The table in node_config.c documents every key; `uwasa node --help` prints it.
 *
 * Memory     texts live until uw_node_config_deinit      Context  one thread
 */
#ifndef UWASA_CLI_NODE_CONFIG_H
#define UWASA_CLI_NODE_CONFIG_H

#include "base/json_read.h"

#include "uwasa/sim_skew.h"

#define UW_NODE_TOGETHER_UNSAID UINT32_MAX
#define UW_NODE_ADDRESS_UNSAID UINT32_MAX
#define UW_NODE_CONSENSUS_UNSAID (-1.0)
#define UW_NODE_RANK_TEXTS 128u     /* that ranks may have of their own */

struct uw_node_options {
    const char *name, *run, *link, *listen, *advertise, *key;
    const char *link_serial, *link_bus, *link_radio;    /* then link is "serial", "bus", "radio" */
    const char *link_interface;
    uint32_t link_baud;                 /* 0: not given */
    uint32_t link_address;              /* UW_NODE_ADDRESS_UNSAID: not given */
    bool tls;
    struct uw_opt_list seeds;
    const char *membership;             /* "static": seeds are all peers */
    const char *model, *data, *shard, *skew;
    uint32_t batch, threads, period;
    uint32_t slices;                    /* of the model, one a round; 0: 1 */
    uint32_t pull_peers;                /* that a round asks at once; 0: 1 */
    bool code;                          /* of chunks on links of frames */
    double share;                       /* with period UW_AUTO; else 0 */
    double sleep_period, sleep_awake;   /* seconds; 0: it never sleeps */
    double lr, momentum, weight_decay;  /* momentum < 0: not given */
    const char *momentum_rule, *peer_schedule, *schedule, *backend;
    const char *exchange, *average, *cell, *algorithm;
    uint32_t head_weight, cell_first;
    uint32_t together;                  /* UW_NODE_TOGETHER_UNSAID: not given */
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
    double consensus_seconds;           /* UW_NODE_CONSENSUS_UNSAID: not given */
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
    const struct uw_opt_list *set;      /* borrowed; NULL: none */
    bool ranked;                        /* uw_node_config_rank was called */
    char *texts[UW_NODE_RANK_TEXTS];
    uint32_t texts_n;
};

/* The keys, for help and --set. */
extern const struct uw_opts uw_node_keys;

/* Read the file (NULL: defaults only), apply the assignments (a list given there replaces the
 * file's), check what belongs together. The assignments are borrowed until deinit.
 * Returns UW_OK, or what uw_json_open_file returns, or UW_ERR_INVALID; err names file and line,
 * or the assignment. Deinit in every case. */
int uw_node_config_load(struct uw_node_file *f, const char *file, const struct uw_opt_list *set,
                        struct uw_error *err);

/* The same from a text, for tests. */
int uw_node_config_parse(struct uw_node_file *f, const char *file, const char *text,
                         size_t text_bytes, struct uw_error *err);

/* Over MPI: make the configuration that of one rank. "{rank}" and "{size}" in texts become numbers;
 * without a {rank} the name gets it at its end, files that are written before their extension. All
 * ranks are seeds, and together unless that was said.
 * Returns UW_OK, UW_ERR_INVALID with err filled, UW_ERR_NOMEM. */
int uw_node_config_rank(struct uw_node_file *f, uint32_t rank, uint32_t size,
                        struct uw_error *err);

/* How long the average at the end waits for others, and what is mixed there goes on; 0: neither. */
uint64_t uw_node_consensus_us(const struct uw_node_options *o);

/* When mixing at the end is over that began at start_us and that parameters came to last at
 * came_us: so long after the one where it was given, else after the other, for what a model takes
 * on a link is not known beforehand. */
uint64_t uw_node_consensus_end_us(const struct uw_node_options *o, uint64_t start_us,
                                  uint64_t came_us);

/* Release the texts; safe after a failed load and twice. */
void uw_node_config_deinit(struct uw_node_file *f);

#endif
