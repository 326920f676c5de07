/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that are whole numbers. A Cast to whole numbers does nothing to those that are; others it
 * would round, which no layer does: then only the rows of an embedding may be found by it, which
 * takes no other numbers when it is trained. */
#include "import_parts.h"

#include <math.h>
#include <string.h>

/* What a node does to whole numbers. */
enum effect {
    EFFECT_OTHER = 0,
    EFFECT_SAME,                    /* has its input's elements */
    EFFECT_WHOLE,                   /* keeps them whole, rounded before or behind it */
    EFFECT_KEEPS,                   /* keeps them whole */
    EFFECT_TRUTH                    /* is 0 or 1 */
};

static enum effect effect_of(const struct uw_onnx_node *n)
{
    static const struct {
        const char *op;
        enum effect effect;
    } all[] = {{"Abs", EFFECT_KEEPS},         {"Add", EFFECT_WHOLE},
               {"And", EFFECT_TRUTH},         {"Cast", EFFECT_SAME},
               {"CastLike", EFFECT_SAME},     {"Clip", EFFECT_WHOLE},
               {"Concat", EFFECT_WHOLE},      {"Equal", EFFECT_TRUTH},
               {"Expand", EFFECT_SAME},       {"Flatten", EFFECT_SAME},
               {"Gather", EFFECT_SAME},       {"Greater", EFFECT_TRUTH},
               {"GreaterOrEqual", EFFECT_TRUTH}, {"Identity", EFFECT_SAME},
               {"Less", EFFECT_TRUTH},        {"LessOrEqual", EFFECT_TRUTH},
               {"Max", EFFECT_WHOLE},         {"Min", EFFECT_WHOLE},
               {"Mul", EFFECT_KEEPS},         {"Neg", EFFECT_KEEPS},
               {"Not", EFFECT_TRUTH},         {"Or", EFFECT_TRUTH},
               {"ReduceMax", EFFECT_KEEPS},   {"ReduceMin", EFFECT_KEEPS},
               {"ReduceSum", EFFECT_KEEPS},   {"Relu", EFFECT_KEEPS},
               {"Reshape", EFFECT_SAME},      {"Sign", EFFECT_KEEPS},
               {"Slice", EFFECT_SAME},        {"Split", EFFECT_SAME},
               {"Squeeze", EFFECT_SAME},      {"Sub", EFFECT_WHOLE},
               {"Tile", EFFECT_SAME},         {"Transpose", EFFECT_SAME},
               {"Unsqueeze", EFFECT_SAME},    {"Where", EFFECT_WHOLE}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(n->op, all[i].op) == 0) {
            return all[i].effect;
        }
    }
    return EFFECT_OTHER;
}

static bool is_whole(const struct uw_value *v)
{
    if (v->kind != UW_VALUE_CONST || !v->t.is_float) {
        return v->kind == UW_VALUE_CONST || v->whole;
    }
    uint64_t count = uw_onnx_tensor_size(&v->t);
    bool whole = count <= 4096;
    for (uint64_t i = 0; i < count && whole; i++) {
        double x = uw_import_number(&v->t, i);
        whole = x == floor(x);
    }
    return whole;
}

bool uw_import_is_whole_type(int64_t type)
{
    return (type >= UW_ONNX_UINT8 && type <= UW_ONNX_INT64) || type == UW_ONNX_BOOL ||
           type == UW_ONNX_UINT32 || type == UW_ONNX_UINT64;
}

int uw_import_refuse_rounding(struct uw_import *im, const struct uw_onnx_node *cast)
{
    return uw_import_refuse(im, cast, UW_ERR_UNSUPPORTED, "cuts numbers down to whole ones, which "
                            "has no gradient: only for the rows of an embedding");
}

int uw_import_check_whole(struct uw_import *im, const struct uw_onnx_node *n)
{
    enum effect effect = effect_of(n);
    bool divides = strcmp(n->op, "Div") == 0, rows = strcmp(n->op, "Gather") == 0;
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        const struct uw_value *v = uw_import_in(im, n, k);
        bool data = v != NULL && v->kind == UW_VALUE_DATA;
        bool passes = effect == EFFECT_SAME || effect == EFFECT_WHOLE || rows;
        if (data && v->rounds != NULL && !passes) {
            return uw_import_refuse_rounding(im, v->rounds);
        }
        if (divides && v != NULL && v->kind == UW_VALUE_CONST && !v->t.is_float) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "divides whole numbers, which has "
                                    "no gradient");
        }
    }
    return UW_OK;
}

void uw_import_note_whole(struct uw_import *im, const struct uw_onnx_node *n)
{
    enum effect effect = effect_of(n);
    const struct uw_value *x = uw_import_in(im, n, 0);
    const struct uw_onnx_node *rounds = NULL;
    bool rows = strcmp(n->op, "Gather") == 0, cast = strncmp(n->op, "Cast", 4) == 0;
    bool whole = effect != EFFECT_OTHER;
    for (uint32_t k = 0; k < n->inputs_n && (k == 0 || effect != EFFECT_SAME); k++) {
        const struct uw_value *v = uw_import_in(im, n, k);
        whole = whole && (v == NULL || is_whole(v));
        rounds = v != NULL && v->kind == UW_VALUE_DATA && v->rounds != NULL ? v->rounds : rounds;
    }
    bool truth = effect == EFFECT_SAME && x != NULL && x->truth && x->kind == UW_VALUE_DATA;
    for (uint32_t i = 0; i < n->outputs_n && effect != EFFECT_OTHER; i++) {
        struct uw_value *y = uw_import_out(im, n, i);
        if (y == NULL || y->kind != UW_VALUE_DATA) {
            continue;
        }
        y->truth = y->truth || truth || effect == EFFECT_TRUTH;
        y->whole = y->whole || whole || y->truth || strcmp(n->op, "Sign") == 0;
        y->rounds = cast || (rows && x->kind == UW_VALUE_CONST) ? y->rounds : rounds;
    }
}

/* What has another value than 0 is true. */
static int to_truth(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_value *x,
                    struct uw_value *y)
{
    int rc = uw_import_function(im, n, UW_FUNCTION_SIGN, 0.0f, 0.0f, x, y);
    y->truth = y->whole = true;
    return rc < 0 ? rc : uw_import_function(im, n, UW_FUNCTION_SQUARE, 0.0f, 0.0f, y, y);
}

int uw_op_cast(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *x = uw_import_data(im, n, 0);
    const struct uw_value *like = strcmp(n->op, "CastLike") == 0 ? uw_import_in(im, n, 1) : NULL;
    struct uw_value *y = uw_import_out(im, n, 0);
    int64_t to = like == NULL ? uw_onnx_int(n, "to", UW_ONNX_FLOAT)
                 : like->kind == UW_VALUE_CONST && !like->t.is_float ? UW_ONNX_INT64
                                                                     : UW_ONNX_FLOAT;
    if (x == NULL || y == NULL) {
        return x == NULL ? im->err->code : UW_OK;
    }
    if (to == UW_ONNX_BOOL && !x->truth) {
        return x->rounds != NULL ? uw_import_refuse_rounding(im, x->rounds)
                                 : to_truth(im, n, x, y);
    }
    y->rounds = !uw_import_is_whole_type(to) ? NULL
                : x->rounds != NULL ? x->rounds : x->whole ? NULL : n;
    if (x->rounds != NULL && y->rounds == NULL) {
        return uw_import_refuse_rounding(im, x->rounds);
    }
    return uw_op_identity(im, n);
}
