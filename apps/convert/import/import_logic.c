/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons and conditions. What holds is 1, what does not is 0; neither has a gradient. */
#include "import_parts.h"

#include <string.h>

/* y = 1 - y */
static int turn(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *y)
{
    return uw_import_function(im, n, UW_FUNCTION_SCALE, -1.0f, 1.0f, y, y);
}

/* Greater, Less, GreaterOrEqual, LessOrEqual, Equal: of a - b */
int uw_op_compare(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *a = uw_import_any(im, n, 0), *b = uw_import_any(im, n, 1);
    struct uw_value *y = uw_import_out(im, n, 0);
    if (a == NULL || b == NULL || y == NULL) {
        return a == NULL || b == NULL ? im->err->code : UW_OK;
    }
    bool less = n->op[0] == 'L', equal = n->op[0] == 'E', or_equal = strstr(n->op, "Or") != NULL;
    struct uw_value difference = {.name = ""};
    bool turned = less != or_equal; /* a < b is b - a > 0; a >= b is not b - a > 0 */
    int rc = uw_import_combine(im, n, UW_ARITHMETIC_SUB, turned ? b : a, turned ? a : b,
                               &difference);
    rc = rc < 0 ? rc
                : uw_import_function(im, n, equal ? UW_FUNCTION_SIGN : UW_FUNCTION_STEP, 0.0f,
                                     0.0f, &difference, y);
    rc = rc < 0 || !equal ? rc
                          : uw_import_function(im, n, UW_FUNCTION_SQUARE, 0.0f, 0.0f, y, y);
    return rc < 0 || !(equal || or_equal) ? rc : turn(im, n, y);
}

/* And, Or, Not */
int uw_op_logic(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *a = uw_import_any(im, n, 0);
    const struct uw_value *b = n->inputs_n > 1 ? uw_import_any(im, n, 1) : a;
    struct uw_value *y = uw_import_out(im, n, 0);
    if (a == NULL || b == NULL || y == NULL) {
        return a == NULL || b == NULL ? im->err->code : UW_OK;
    }
    if (n->op[0] == 'N') {
        return uw_import_function(im, n, UW_FUNCTION_SCALE, -1.0f, 1.0f, a, y);
    }
    return uw_import_combine(im, n, n->op[0] == 'A' ? UW_ARITHMETIC_MUL : UW_ARITHMETIC_MAX, a, b,
                             y);
}

/* A constant condition as the numbers 1 and 0, or the other way round. */
static int constant_mask(struct uw_import *im, const struct uw_onnx_tensor *c, bool keep,
                         struct uw_value *mask)
{
    uint64_t size = uw_onnx_tensor_size(c);
    float *data = size <= INT32_MAX ? uw_pool_take(im->pool, size, sizeof *data) : NULL;
    if (data == NULL) {
        return uw_import_nomem(im);
    }
    *mask = (struct uw_value){.name = "", .kind = UW_VALUE_CONST, .t = *c};
    mask->t.name = "";
    mask->t.is_float = true;
    uw_onnx_set_strides(&mask->t);
    for (uint64_t i = 0; i < size; i++) {
        data[i] = (uw_import_number(c, i) != 0.0) == keep ? 1.0f : 0.0f;
    }
    mask->t.data = (const uint8_t *)data;
    mask->t.stored_n = size;
    return UW_OK;
}

/* x where the condition is `keep`, else 0. */
static int masked(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_value *c,
                  const struct uw_value *x, bool keep, struct uw_value *y)
{
    struct uw_value mask = *c;
    int rc = UW_OK;
    if (c->kind == UW_VALUE_CONST && x->kind == UW_VALUE_CONST) {
        *y = (struct uw_value){.name = "", .kind = UW_VALUE_CONST};
        return uw_const_masked(im, n, &c->t, &x->t, keep, &y->t);
    }
    if (c->kind == UW_VALUE_CONST) {
        rc = constant_mask(im, &c->t, keep, &mask);
    } else if (!keep) {
        rc = turn(im, n, &mask);
    }
    *y = (struct uw_value){.name = ""};
    return rc < 0 ? rc : uw_import_arithmetic(im, n, UW_ARITHMETIC_MASK, x, &mask, y);
}

/* x where the condition holds, else z. */
int uw_op_where(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *c = uw_import_any(im, n, 0);
    const struct uw_value *x[2] = {uw_import_any(im, n, 1), uw_import_any(im, n, 2)};
    struct uw_value *y = uw_import_out(im, n, 0);
    struct uw_value part[2];
    double holds, unused;
    int rc = c != NULL && x[0] != NULL && x[1] != NULL ? UW_OK : im->err->code;
    if (rc == UW_OK && y != NULL && uw_import_scalar(c, &holds)) {
        const struct uw_value *one = x[holds != 0.0 ? 0 : 1], *other = x[holds != 0.0 ? 1 : 0];
        if (one->kind == UW_VALUE_DATA && uw_import_scalar(other, &unused)) {
            return uw_import_rename(y, one);
        }
    }
    for (uint32_t k = 0; k < 2 && rc == UW_OK; k++) {
        rc = masked(im, n, c, x[k], k == 0, &part[k]);
    }
    return rc < 0 || y == NULL ? rc
                               : uw_import_arithmetic(im, n, UW_ARITHMETIC_ADD, &part[0], &part[1],
                                                      y);
}
