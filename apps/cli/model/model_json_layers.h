/* SPDX-License-Identifier: Apache-2.0
 *
 * model_json_layers.h - the keys of every layer type (private to model_json)
 *
 * One table serves reading and writing: a row says where in struct uw_layer_def a key's value is
 * and what it may be.
 *
 * Memory     constant      Context  any thread
 */
#ifndef UWASA_CLI_MODEL_JSON_LAYERS_H
#define UWASA_CLI_MODEL_JSON_LAYERS_H

#include "base/json_read.h"

#include "uwasa/layers.h"

enum uw_model_key_kind {
    UW_KEY_U32,                 /* uint32_t */
    UW_KEY_I32,                 /* int32_t */
    UW_KEY_PAIR,                /* uint32_t[2]: one number or [height, width] */
    UW_KEY_REAL,                /* float */
    UW_KEY_TRUE,                /* bool, set by true */
    UW_KEY_FALSE,               /* bool, set by false */
    UW_KEY_CHOICE,              /* bool, set by the second of two texts */
    UW_KEY_SHAPE,               /* struct uw_reshape_def: sizes, one of them may be -1 */
    UW_KEY_ORDER                /* uint32_t[3]: a permutation of 0 to 2, or of the first few */
};

/* 0 in the definition is the default of every key that need not be there. */
struct uw_model_key {
    const char *name;
    enum uw_model_key_kind kind;
    size_t offset;              /* in struct uw_layer_def */
    bool required;
    uint32_t min, max;          /* U32, PAIR */
    uint32_t same;              /* U32, PAIR: another number that means the same as 0 */
    enum uw_json_range range;   /* REAL */
    const char *choices;        /* CHOICE */
};

struct uw_model_type {
    enum uw_layer_kind kind;
    const char *name;           /* "conv2d" */
    bool several;               /* needs "inputs" */
    const struct uw_model_key *keys;
    size_t keys_n;
};

/* The row of a kind; NULL when there is none. */
const struct uw_model_type *uw_model_type_of(enum uw_layer_kind kind);

/* Read one element of "layers". Texts stay in the document. Mistakes are kept in j->err. */
void uw_model_read_layer(struct uw_json *j, const cJSON *layer, struct uw_layer_def *def);

#endif
