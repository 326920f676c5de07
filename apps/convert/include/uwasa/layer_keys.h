/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_keys.h - a table of the types of layers and their options, for models as JSON and as C
 *
 * A type is a kind of struct uw_layer_def, or one variant of a kind: "exp" is FUNCTION with
 * UW_FUNCTION_EXP. A new option is one row in layer_keys.c. */
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
    UW_KEY_SHAPE,               /* uint32_t[UW_AXES_MAX] sizes, then how many; with min 0 one of
                                   them may be -1: what is left */
    UW_KEY_ORDER,               /* uint32_t[UW_AXES_MAX]: a permutation of the first few axes */
    UW_KEY_INDEX,               /* take: the table of indices */
    UW_KEY_WEIGHTS              /* take: a number for each index */
};

enum uw_real_range {
    UW_REAL_POSITIVE,           /* above 0 */
    UW_REAL_SHARE,              /* from 0 to below 1 */
    UW_REAL_POSITIVE_SHARE,     /* above 0, at most 1 */
    UW_REAL_NOT_NEGATIVE,       /* 0 or above */
    UW_REAL_NOT_ZERO,
    UW_REAL_ANY
};

#define UW_LAYER_TAPS_MAX 16u           /* indices for one element */
#define UW_LAYER_INDICES_MAX 65536u     /* of a table */

/* The default of an optional key is 0 in the definition, or what `otherwise` says. */
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
    float otherwise;            /* REAL of a function: the default, which 0 means only if all reals
                                   of the layer are 0 */
};

enum uw_layer_wiring {
    UW_WIRING_ONE,              /* may have "inputs" */
    UW_WIRING_NONE,             /* has none */
    UW_WIRING_TWO,              /* needs two */
    UW_WIRING_SEVERAL           /* needs some */
};

struct uw_layer_type {
    enum uw_layer_kind kind;
    uint32_t variant;           /* of the kind: enum uw_function, uw_arithmetic_op, uw_reduction */
    const char *name;           /* in JSON: "conv2d" */
    const char *c;              /* in C, after ".kind = ": "UW_LAYER_CONV2D" */
    enum uw_layer_wiring wiring;
    const struct uw_layer_key *keys;
    size_t keys_n;
};

extern const struct uw_layer_type uw_layer_types[];
extern const size_t uw_layer_types_n;

/* The row of a layer's kind and variant, or NULL. */
const struct uw_layer_type *uw_layer_type_of(const struct uw_layer_def *def);

/* Set the kind and the variant of a definition. */
void uw_layer_set_type(struct uw_layer_def *def, const struct uw_layer_type *type);

/* Whether the value of a key has the meaning of the key's absence. */
bool uw_layer_key_is_default(const struct uw_layer_type *type, const struct uw_layer_key *key,
                             const struct uw_layer_def *def);

/* The numbers of a PAIR: a second number of 0 means the first one, except for padding. */
void uw_layer_key_pair(const struct uw_layer_key *key, const struct uw_layer_def *def,
                       uint32_t out[2]);

UW_C_END
#endif
