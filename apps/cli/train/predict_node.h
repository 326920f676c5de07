/* SPDX-License-Identifier: Apache-2.0
 *
 * predict_node.h - answers of a running node, over the network
 *
 * Memory     heap      Blocking  until an answer or the timeout      Context  one thread
 */
#ifndef UWASA_CLI_PREDICT_NODE_H
#define UWASA_CLI_PREDICT_NODE_H

#include "base/args.h"
#include "job/answer.h"
#include "job/job_columns.h"

struct uw_predict_node;

struct uw_predict_node_config {
    const char *address, *key, *run;    /* key NULL: no_tls */
    struct uw_choice link;              /* udp or tcp */
    bool no_tls;
    double timeout_s;
};

/* What the options of a node must keep. Returns UW_OK or UW_ERR_INVALID, err filled. */
int uw_predict_node_check(const struct uw_predict_node_config *config, struct uw_error *err);

/* Connect, and ask what samples and answers are.
 *   node       set; close it in every case
 *   answers    set to the node's
 *   columns    set to what the node tells of its data, if it does; NULL: not wanted
 *   sample_n   set to the floats of a sample
 *   threshold  set to that of anomalies; 0: none
 * Returns UW_OK or a code, err filled. */
int uw_predict_node_open(struct uw_predict_node **node,
                         const struct uw_predict_node_config *config, struct uw_answers *answers,
                         struct uw_job_columns *columns, uint32_t *sample_n, float *threshold,
                         struct uw_error *err);

/* Ask about a sample x [sample_n]; numbers [answers->numbers_n]. Returns UW_OK or a code, err
 * filled. */
int uw_predict_node_ask(struct uw_predict_node *n, const float *x, float *numbers,
                        struct uw_error *err);

/* NULL: nothing is open. */
void uw_predict_node_close(struct uw_predict_node *node);

#endif
