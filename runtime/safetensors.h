/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors.h - read and write the safetensors header without a heap (private)
 *
 * Each look-up reads the header again, as a stream through a small window: headers are short, and
 * the reader needs no table.
 *
 * Source     the safetensors format: u64 little-endian header size, JSON header, tensor data
 */
#ifndef UWASA_SAFETENSORS_H
#define UWASA_SAFETENSORS_H

#include "uwasa/params.h"
#include "uwasa/storage.h"

#include <stdbool.h>

#define UW_SAFETENSORS_NAME_BYTES 144u
#define UW_SAFETENSORS_HEADER_MAX_BYTES 100000000u

/* Strings of __metadata__: a checksum by uw_hash64_words, as decimal digits, of the header with
 * zeros in place of these digits, the data, and the header's size. Both are there or none, so that
 * no damage to a name makes it a file without. */
#define UW_SUM_KEY "uwasa.sum"
#define UW_SUM_OF_KEY "uwasa.sum_of"
#define UW_SUM_DIGITS 20u

/* How to read tensors of other types than F32 as floats. */
struct uw_widening {
    uint32_t (*bytes)(const char *dtype);   /* of an element; 0: a type that cannot be read */
    void (*widen)(const char *dtype, const void *from, uint32_t n, float *to);
};

struct uw_weights_names;
struct uw_weights_report;

struct uw_safetensors {
    struct uw_storage *storage;
    const char *object;
    const struct uw_widening *widening;     /* NULL: only F32 is read */
    struct uw_weights_report *report;       /* gets what does not fit, which is left out; NULL: all
                                               must fit */
    const struct uw_weights_names *names;   /* tried where a parameter's own is not there; or
                                               NULL */
    uint64_t header_bytes;
    uint64_t data_offset;           /* of the first tensor byte in the object */
    uint64_t data_bytes;            /* to the end of the object */
};

struct uw_safetensors_entry {
    char name[UW_SAFETENSORS_NAME_BYTES];
    char dtype[8];
    uint64_t dim[UW_SHAPE_RANK_MAX];
    uint32_t rank;                  /* UW_SHAPE_RANK_MAX + 1 stands for any higher rank */
    uint64_t begin, end;            /* bytes relative to data_offset */
};

/* Check size and header size of an object.
 * Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_CORRUPT, UW_ERR_IO. */
int uw_safetensors_open(struct uw_safetensors *st, struct uw_storage *storage, const char *object,
                        struct uw_error *err);

/* Parse the whole header, check that its tensors end where the object ends, and look up the tensor
 * `name` (NULL: only check).
 * Returns 1 (found, entry written), 0 (not there), UW_ERR_CORRUPT naming the byte, UW_ERR_IO. */
int uw_safetensors_find(const struct uw_safetensors *st, const char *name,
                        struct uw_safetensors_entry *entry, struct uw_error *err);

/* Call `visit` for every tensor, in the order of the header.
 * Returns UW_OK, or an error as uw_safetensors_find. */
int uw_safetensors_each(const struct uw_safetensors *st,
                        void (*visit)(void *arg, const struct uw_safetensors_entry *entry),
                        void *arg, struct uw_error *err);

/* Check that the tensors fill the data without holes, each byte in one of them. A header in the
 * order of the data is read once, one in another order up to once for each tensor.
 * Returns UW_OK, UW_ERR_CORRUPT naming two tensors, or an error as uw_safetensors_find. */
int uw_safetensors_check_data(const struct uw_safetensors *st, struct uw_error *err);

/* The digits of a checksum. */
void uw_sum_text(uint64_t sum, char text[UW_SUM_DIGITS + 1]);

/* Read the whole object and compare it to its checksum, if it has one.
 * Returns UW_OK, UW_ERR_CORRUPT, UW_ERR_IO, or an error as uw_safetensors_find. */
int uw_safetensors_check_sum(const struct uw_safetensors *st, struct uw_error *err);

/* Look up a string of __metadata__ that holds a decimal number.
 * Returns 1 (found), 0 (not there), UW_ERR_CORRUPT (no number, or a bad header), UW_ERR_IO. */
int uw_safetensors_number(const struct uw_safetensors *st, const char *key, uint64_t *value,
                          struct uw_error *err);

#endif
