/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_keys.h - a table of the options of each layer kind, for models as JSON and as C
 *
 * A new option is one row in layer_keys.c. */
#ifndef UW_LAYER_KEYS_H
#define UW_LAYER_KEYS_H

#include "uwasa/cplusplus.h"
#include "uwasa/layers.h"

#include <stddef.h>

UW_C_BEGIN

#define UW_LAYER_SIZE_LIMIT 16777216u   /* channels, features, rows */

enum uw_layer_key_kind {
    UW_KEY_U32,                 /* uint32_t */
    UW_KEY_I32,                 /* int32_t */
    UW_KEY_PAIR,                /* uint32_t[2]: one number or [height, width] */
    UW_KEY_REAL,                /* float */
    UW_KEY_TRUE,                /* bool, set by true */
    UW_KEY_FALSE,               /* bool, set by false */
    UW_KEY_CHOICE,              /* bool, true for the second of two texts */
    UW_KEY_SHAPE,               /* struct uw_reshape_def: sizes, of which one may be -1 */
    UW_KEY_ORDER                /* uint32_t[3]: a permutation of 0 to 2, or of the first few */
};

enum uw_real_range {
    UW_REAL_POSITIVE,           /* above 0 */
    UW_REAL_SHARE,              /* from 0 to below 1 */
    UW_REAL_POSITIVE_SHARE      /* above 0, at most 1 */
};

/* The default of every optional key is 0 in the definition. */
struct uw_layer_key {
    const char *name;           /* in JSON: "kernel" */
    enum uw_layer_key_kind kind;
    size_t offset;              /* in struct uw_layer_def */
    const char *member;         /* in C: "conv2d.kernel_h"; a PAIR also has _w, after _h */
    bool required;
    uint32_t min, max;          /* U32, PAIR */
    uint32_t same;              /* U32, PAIR: a number with the same meaning as 0 */
    enum uw_real_range range;   /* REAL */
    const char *choices;        /* CHOICE */
};

struct uw_layer_type {
    enum uw_layer_kind kind;
    const char *name;           /* in JSON: "conv2d"; in C: UW_LAYER_CONV2D */
    bool several;               /* needs "inputs" */
    const struct uw_layer_key *keys;
    size_t keys_n;
};

extern const struct uw_layer_type uw_layer_types[];
extern const size_t uw_layer_types_n;

/* The row of a kind, or NULL. */
const struct uw_layer_type *uw_layer_type_of(enum uw_layer_kind kind);

UW_C_END
#endif
