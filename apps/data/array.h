/* SPDX-License-Identifier: Apache-2.0
 *
 * array.h - arrays of NumPy: .npy files, and .npz archives of them (private)
 *
 * Memory     the array's bytes as in the file, in C's order, from the heap      Context  any thread
 * Source     NumPy's format, versions 1 to 3; ZIP, stored and deflated members
 */
#ifndef UWASA_DATA_ARRAY_H
#define UWASA_DATA_ARRAY_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UW_ARRAY_RANK_MAX 5u

struct uw_array {
    char name[80];              /* of the file, or of the array in the archive */
    uint8_t *memory;            /* the file's bytes */
    const uint8_t *data;        /* in memory */
    char kind;                  /* 'u', 'i', 'f' or 'b' (bool) */
    uint32_t item_bytes;
    bool swapped;               /* big-endian */
    uint32_t rank;
    uint64_t dim[UW_ARRAY_RANK_MAX];
    uint64_t n;                 /* all elements */
};

/* Read an array from the bytes of a .npy file, which then belong to it; one in Fortran's order is
 * turned to C's. Returns UW_OK, UW_ERR_CORRUPT, UW_ERR_UNSUPPORTED (a type that is no number),
 * UW_ERR_TOOBIG, UW_ERR_NOMEM; err names the file. Close in any case. */
int uw_array_parse(struct uw_array *a, uint8_t *memory, size_t bytes, const char *file,
                   struct uw_error *err);

/* Read a .npy file. Returns as uw_array_parse, and what uw_file_open returns. */
int uw_array_open_npy(struct uw_array *a, const char *path, struct uw_error *err);

/* Read one array of a .npz file: the first of `names`, a list "A|B", that it has.
 * Returns as uw_array_open_npy, or UW_ERR_NOTFOUND: none of them is there, err lists what is. */
int uw_array_open_npz(struct uw_array *a, const char *path, const char *names,
                      struct uw_error *err);

/* Element i as a float. */
float uw_array_at(const struct uw_array *a, uint64_t i);

/* "x_train [60000][28][28]". Returns text. */
const char *uw_array_text(const struct uw_array *a, char text[160]);

void uw_array_close(struct uw_array *a);

#endif
