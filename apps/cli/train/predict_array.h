/* SPDX-License-Identifier: Apache-2.0
 *
 * predict_array.h - answers as an array of NumPy, FILE.npy, version 1.0 of its format
 *
 * Blocking   file access      Context  one thread
 */
#ifndef UWASA_CLI_PREDICT_ARRAY_H
#define UWASA_CLI_PREDICT_ARRAY_H

#include "uwasa/model.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct uw_predict_array {
    FILE *file;                     /* NULL: there is none */
    const char *path;
    char *part;                     /* PATH.part, which becomes PATH; NULL: PATH is no plain file */
    uint32_t dim[UW_AXES_MAX], rank;    /* of an answer; rank 0: it is one number */
    bool bytes;                     /* classes below 256 */
    uint64_t n;                     /* answers so far */
};

/* Begin a file PATH.part beside it.
 *   path  borrowed until close
 * Returns UW_OK, UW_ERR_IO or UW_ERR_NOMEM with err filled. */
int uw_predict_array_open(struct uw_predict_array *a, const char *path, const uint32_t *dim,
                          uint32_t rank, bool bytes, struct uw_error *err);

/* Append an answer, its numbers in order. What fails is told by close. */
void uw_predict_array_add(struct uw_predict_array *a, const float *numbers);

/* Write how many there are, and put the file in place. Without any answer, or if it cannot be
 * written, an earlier file stays. Returns UW_OK, or UW_ERR_IO with err filled. Safe on a zeroed
 * struct, and twice. */
int uw_predict_array_close(struct uw_predict_array *a, struct uw_error *err);

#endif
