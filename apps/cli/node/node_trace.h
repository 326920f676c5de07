/* SPDX-License-Identifier: Apache-2.0
 *
 * node_trace.h - what a node does when: trace.h for the training and the network thread
 *
 * Rows: the training's layers, updates, waits and buckets; the network's averages. Fragments and
 * pulls, which overlap, are asynchronous events.
 *
 * Blocking   the file's      Context  each function names its thread; any without --trace: nothing
 *            is done
 */
#ifndef UWASA_CLI_NODE_TRACE_H
#define UWASA_CLI_NODE_TRACE_H

#include "uwasa/node_event.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

struct uw_node_work;

/* Training. Open the file if one is asked for; the model is bound.
 * Returns UW_OK, UW_ERR_IO or UW_ERR_NOMEM, r->err filled. */
int uw_node_trace_open(struct uw_node_work *r);

/* Training. Something of a step lasted from one moment to another; NULL: "step N". */
void uw_node_trace_part(struct uw_node_work *r, const char *what, uint64_t from_us,
                        uint64_t until_us);

/* Training. A bucket is handed to the network. */
void uw_node_trace_ready(struct uw_node_work *r, uint32_t bucket);

/* Network. A fragment of a bucket begins or ends; arg is the struct uw_node_work. */
void uw_node_trace_fragment(void *arg, uint32_t bucket, uint32_t fragment, bool end,
                            uint64_t now_us);

/* Network. An event of the node. */
void uw_node_trace_event(struct uw_node_work *r, const struct uw_node_event *event);

/* Training. Write what is left. Safe when it was never opened, and twice.
 * Returns UW_OK, or UW_ERR_IO, err filled. */
int uw_node_trace_close(struct uw_node_work *r, struct uw_error *err);

#endif
