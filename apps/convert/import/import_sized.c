/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants that depend on the size of the minibatch, which a file may leave open. They may give
 * shapes; as numbers of the network they are refused. */
#include "import_const.h"
#include "import_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool uw_import_is_open(const struct uw_import *im, uint64_t size)
{
    return im->batch == UW_BATCH_SYMBOL && size != 0 && size % UW_BATCH_SYMBOL == 0;
}

bool uw_const_is_sized_at(const struct uw_onnx_tensor *t, uint64_t i)
{
    return t->sized != NULL && t->sized[uw_const_offset(t, i)] != 0;
}

bool uw_const_is_sized(const struct uw_onnx_tensor *t)
{
    uint64_t count = t->sized != NULL ? uw_onnx_tensor_size(t) : 0;
    for (uint64_t i = 0; i < count && i < UW_FOLD_MAX; i++) {
        if (uw_const_is_sized_at(t, i)) {
            return true;
        }
    }
    return false;
}

int uw_const_mark(struct uw_import *im, struct uw_onnx_tensor *t, uint64_t i)
{
    if (t->sized == NULL) {
        t->sized = uw_pool_take(im->pool, t->stored_n, sizeof *t->sized);
        if (t->sized == NULL) {
            return uw_import_nomem(im);
        }
    }
    t->sized[i] = 1;
    return UW_OK;
}

int uw_const_mark_like(struct uw_import *im, struct uw_onnx_tensor *t,
                       const struct uw_onnx_tensor *from)
{
    uint64_t count = from->sized != NULL ? uw_onnx_tensor_size(t) : 0;
    int rc = UW_OK;
    for (uint64_t i = 0; i < count && rc == UW_OK; i++) {
        rc = uw_const_is_sized_at(from, i) ? uw_const_mark(im, t, i) : UW_OK;
    }
    return rc;
}

/* Whether input i gives a shape, a place or a number of repeats. */
static bool gives_shape(const struct uw_onnx_node *n, uint32_t i)
{
    static const struct {
        const char *op;
        uint32_t first, last;
    } all[] = {{"Reshape", 1, 1}, {"Expand", 1, 1},   {"Tile", 1, 1},   {"Slice", 1, 4},
               {"Resize", 1, 3},  {"Upsample", 1, 1}, {"Split", 1, 1},  {"SplitToSequence", 1, 1},
               {"Loop", 0, 99},   {"Scan", 0, 99},    {"If", 0, 0},     {"CastLike", 1, 1},
               {"SequenceConstruct", 0, 99}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        if (strcmp(n->op, all[k].op) == 0) {
            return i >= all[k].first && i <= all[k].last;
        }
    }
    return false;
}

int uw_import_refuse_sized(struct uw_import *im, const struct uw_onnx_node *n)
{
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        const struct uw_value *v = uw_import_in(im, n, k);
        if (v != NULL && v->kind == UW_VALUE_CONST && !gives_shape(n, k) &&
            uw_const_is_sized(&v->t)) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "uses the minibatch's size as a "
                                    "number: its layers see one sample, whatever the size");
        }
    }
    return UW_OK;
}

void uw_import_name_open_sizes(char *text, size_t text_n)
{
    char out[UW_ERROR_TEXT_BYTES];
    size_t used = 0;
    for (const char *p = text; *p != '\0' && used + 24 < sizeof out;) {
        bool word = p > text && (isalnum((unsigned char)p[-1]) || p[-1] == '_' || p[-1] == '.');
        size_t digits = word ? 0 : strspn(p, "0123456789");
        unsigned long long size = digits > 6 && digits < 20 ? strtoull(p, NULL, 10) : 0;
        if (size != 0 && size % UW_BATCH_SYMBOL == 0) {
            unsigned long long times = size / UW_BATCH_SYMBOL;
            used += (size_t)(times == 1 ? snprintf(out + used, sizeof out - used, "N")
                                        : snprintf(out + used, sizeof out - used, "%lluN", times));
            p += digits;
        } else {
            out[used++] = *p++;
        }
    }
    out[used] = '\0';
    snprintf(text, text_n, "%s", out);
}

int uw_import_refuse_rise(struct uw_import *im, const struct uw_onnx_node *n)
{
    return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "a number for each sample of the minibatch: "
                            "its layers see one sample");
}

int uw_import_check_rise(struct uw_import *im, const struct uw_onnx_node *n)
{
    static const char *const folded[] = {"Add", "Cast",    "Concat", "Expand", "Identity",
                                         "Mul", "Reshape", "Shape",  "Slice",  "Unsqueeze"};
    static const char *const placed[] = {"Gather", "GatherND", "ScatterND"};
    bool constant = true, rises = false, takes = false;
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        const struct uw_value *v = uw_import_in(im, n, k);
        constant = constant && v != NULL && v->kind == UW_VALUE_CONST;
        rises = rises || (v != NULL && v->kind == UW_VALUE_CONST && v->t.rise != 0);
    }
    for (size_t i = 0; i < sizeof folded / sizeof folded[0] && rises; i++) {
        takes = takes || (constant && strcmp(n->op, folded[i]) == 0);
    }
    for (size_t i = 0; i < sizeof placed / sizeof placed[0] && rises; i++) {
        const struct uw_value *at = uw_import_in(im, n, 1);
        takes = takes || (at != NULL && at->kind == UW_VALUE_CONST && at->t.rise != 0 &&
                          strcmp(n->op, placed[i]) == 0);
    }
    return rises && !takes ? uw_import_refuse_rise(im, n) : UW_OK;
}

/* A Slice of all samples, in their order. */
static bool keeps_samples(struct uw_import *im, const struct uw_onnx_node *n,
                          const struct uw_onnx_tensor *x, const struct uw_onnx_tensor *out)
{
    struct uw_import_cuts c;
    bool keeps = uw_import_cuts(im, n, &c) >= 0 && out->dim[0] == x->dim[0] && !x->rise_first;
    for (int k = 0; k < c.steps_n && keeps; k++) {
        keeps = c.step[k] > 0;
    }
    return keeps;
}

/* Whether what rises is a whole number, and axis 0 of it is that of out. */
static bool is_along(const struct uw_onnx_tensor *x, const struct uw_onnx_tensor *out, bool moves)
{
    return x->rise == 0 || (!x->is_float && (moves || x->rank == out->rank));
}

int uw_fold_rise(struct uw_import *im, const struct uw_onnx_node *n,
                 const struct uw_onnx_tensor *const *x, struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *a = x[0], *b = n->inputs_n > 1 ? x[1] : x[0];
    bool moves = strcmp(n->op, "Reshape") == 0 || strcmp(n->op, "Unsqueeze") == 0, fits = true;
    uint32_t rising = 0;
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        rising += uw_import_in(im, n, k)->t.rise != 0 ? 1 : 0;
    }
    if (rising == 0 || strcmp(n->op, "Range") == 0) {
        return UW_OK;
    }
    if (strcmp(n->op, "Concat") == 0) { /* of the numbers of an index: only the sample's rises */
        int64_t axis = uw_onnx_int(n, "axis", 0);
        fits = a->rise != 0 && rising == 1 && (axis == -1 || axis == a->rank - 1) &&
               a->dim[a->rank - 1] == 1;
        out->rise = a->rise;
        out->rise_first = true;
    } else if (strcmp(n->op, "Slice") == 0) {
        fits = keeps_samples(im, n, a, out);
    } else if (a->rise_first || (b != a && b->rise_first)) {
        fits = false;
    } else if (strcmp(n->op, "Add") == 0) {
        out->rise = a->rise + b->rise;
    } else if (strcmp(n->op, "Mul") == 0) {
        const struct uw_onnx_tensor *by = a->rise != 0 ? b : a;
        int64_t times = uw_onnx_tensor_size(by) == 1 ? uw_import_integer(by, 0) : 0;
        fits = by->rise == 0 && times > 0 && times <= INT32_MAX;
        out->rise = fits ? (a->rise + b->rise) * times : 0;
    }
    fits = fits && is_along(a, out, moves) && is_along(b, out, moves) && out->rise <= INT32_MAX &&
           out->rank > 0 && out->dim[0] == im->batch;
    return fits ? UW_OK : uw_import_refuse_rise(im, n);
}
