/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/queries.h - questions about samples that a node's program answers
 *
 * Whoever has the key of a run may send a sample to a node (uwasa/query_client.h), which answers
 * with a few numbers: what its model says of the sample. The network receives the sample in parts
 * and sends the numbers in parts; what they mean only the program knows. One question at a time:
 * others wait until the numbers are sent, or its asker has been silent for two seconds.
 *
 *     struct uw_queries q = {.sample_n = 784, .numbers_n = 10, .sample = x, .numbers = p};
 *     config.queries = &q;                             before uw_node_bind
 *     if (uw_queries_next(&q)) {                       training, between two steps
 *         ... compute p from x ...
 *         uw_queries_answer(&q);
 *     }
 *
 * Memory     the program's      Blocking  never
 * Context    the program's part: one thread; the network's: that of uw_node_step
 */
#ifndef UWASA_QUERIES_H
#define UWASA_QUERIES_H

#include "uwasa/cplusplus.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

struct uw_queries {
    uint32_t sample_n, numbers_n;   /* floats of a sample and of an answer, 1 or more */
    uint32_t form;                  /* what the numbers mean: the program's and the asker's */
    float threshold;                /* the same */
    const char *text;               /* what the program tells of samples, as names of columns;
                                       borrowed, NULL: nothing */
    uint32_t text_n;                /* its bytes */
    float *sample;                  /* [sample_n] written by the network */
    float *numbers;                 /* [numbers_n] written by the program */

    /* private, zero at first */
    uw_atomic_u32 state;
    uint16_t station;
    uint32_t number, arrived_n;
    uint64_t until_us;
};

/* Whether a sample waits for its answer. The network leaves it alone until uw_queries_answer. */
bool uw_queries_next(const struct uw_queries *q);

/* The numbers are written: the network may send them. */
void uw_queries_answer(struct uw_queries *q);

UW_C_END
#endif
