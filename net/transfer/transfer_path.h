/* SPDX-License-Identifier: Apache-2.0
 *
 * transfer_path.h - what a pull knows of the path, and how much it may ask for: see "Congestion" in
 * transfer.h. Works on the fields of struct uw_pull below "the path".
 *
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_TRANSFER_PATH_H
#define UW_NET_TRANSFER_PATH_H

#include "transfer.h"

#define UW_PATH_REORDER_MIN 3u          /* answers may always overtake so many others */

/* Forget what was measured; begin with what is known from before. */
void uw_path_start(struct uw_pull *p, const struct uw_path *path);

/* A chunk of the question in the log arrived, rtt_us after its server should have sent it. */
void uw_path_answered(struct uw_pull *p, const struct uw_want_log *log, uint64_t rtt_us,
                      uint64_t now_us);

/* The question at the front of the queue came to an end; lost: 1 or 0. */
void uw_path_ended(struct uw_pull *p, uint32_t lost);

/* Nothing was answered for one more timeout. */
void uw_path_timed_out(struct uw_pull *p);

/* How long to wait for an answer before it counts as lost. */
uint32_t uw_path_rto_us(const struct uw_pull *p);

/* Time over which n chunks are to be sent. */
uint32_t uw_path_spread_us(const struct uw_pull *p, uint32_t n);

#endif
