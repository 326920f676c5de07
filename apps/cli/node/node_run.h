/* SPDX-License-Identifier: Apache-2.0
 *
 * node_run.h - a node at work: train, mix in what peers have learned, keep checkpoints, end well
 *
 * Events, beside step, eval and done: "start"; "listening", the address; "status", once a second,
 * what the node knows of its peers and has moved; "member", "pull" and "average", as they happen,
 * "kind" says what (uwasa/node_event.h); "refused", a peer without the key. samples_per_s is by the
 * clock of the training: waiting for others counts.
 *
 * Blocking   until the node ends      Context  main thread
 */
#ifndef UWASA_CLI_NODE_RUN_H
#define UWASA_CLI_NODE_RUN_H

#include "node_config.h"

/* Run a node as configured; over MPI the configuration becomes this rank's. Prints progress and
 * mistakes. Returns the exit status. */
int uw_node_run(struct uw_node_file *file);

#endif
