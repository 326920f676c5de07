/* SPDX-License-Identifier: Apache-2.0
 *
 * The axes of the input: one is the minibatch, the others have a size, from the file or from
 * --shape. */
#include "import_graph.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Names that exporters give to a minibatch, in small letters. */
static bool is_batch_name(const char *symbol)
{
    static const char *const names[] = {"n", "b", "bs", "minibatch", "mini_batch", "none"};
    char small[16] = "";
    for (size_t i = 0; symbol != NULL && symbol[i] != '\0' && i < sizeof small - 1; i++) {
        small[i] = (char)tolower((unsigned char)symbol[i]);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(small, names[i]) == 0) {
            return true;
        }
    }
    return strncmp(small, "batch", 5) == 0;
}

/* The axis that is the minibatch: of those without a size the one so named, or else the first; if
 * all have a size, axis 0. */
static uint32_t find_batch(const struct uw_onnx_value_info *x)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t a = 0; a < x->rank; a++) {
        if (x->dim[a] == 0 && is_batch_name(x->symbol[a])) {
            return a;
        }
        first = x->dim[a] == 0 && first == UINT32_MAX ? a : first;
    }
    return first != UINT32_MAX ? first : 0;
}

/* Read a size of --shape, which ends at a comma or at the end. Returns it, or 0. */
static int64_t read_size(const char *text, const char **end)
{
    int64_t size = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && size <= INT32_MAX; p++) {
        size = size * 10 + (*p - '0');
    }
    *end = p;
    return p != text && (*p == ',' || *p == '\0') && size <= INT32_MAX ? size : 0;
}

static int bad_shape(struct uw_import *im, const char *why)
{
    return uw_import_refuse(im, NULL, UW_ERR_INVALID, "--shape %.60s: %s: needs NAME=SIZE,.. or "
                            "all sizes of the input, SIZE,SIZE,..", im->options->shape, why);
}

/* --shape seq=128,width=64 */
static int name_sizes(struct uw_import *im, struct uw_onnx_value_info *x)
{
    const char *p = im->options->shape;
    while (*p != '\0') {
        size_t length = strcspn(p, "=,");
        const char *end;
        bool known = false;
        int64_t size = p[length] == '=' ? read_size(p + length + 1, &end) : 0;
        if (size == 0) {
            return bad_shape(im, "no size");
        }
        for (uint32_t a = 0; a < x->rank; a++) {
            const char *symbol = x->symbol[a];
            if (symbol != NULL && strlen(symbol) == length && strncmp(symbol, p, length) == 0) {
                x->dim[a] = size;
                known = true;
            }
        }
        if (!known) {
            return uw_import_refuse(im, NULL, UW_ERR_INVALID, "--shape %.60s: input '%.60s' has no "
                                    "axis named %.*s", im->options->shape, x->name,
                                    (int)(length < 40 ? length : 40), p);
        }
        p = *end == ',' ? end + 1 : end;
    }
    return UW_OK;
}

/* --shape 1,128,64: all axes, or all but the minibatch. */
static int list_sizes(struct uw_import *im, struct uw_onnx_value_info *x, uint32_t batch)
{
    int64_t size[UW_ONNX_RANK_MAX];
    uint32_t count = 0;
    const char *p = im->options->shape;
    while (*p != '\0') {
        const char *end;
        if (count == UW_ONNX_RANK_MAX) {
            return bad_shape(im, "more than 8 axes");
        }
        size[count] = read_size(p, &end);
        if (size[count++] == 0) {
            return bad_shape(im, "no size");
        }
        p = *end == ',' ? end + 1 : end;
    }
    if (!x->shaped) { /* it has the sizes of a sample, behind the minibatch */
        x->shaped = true;
        x->rank = count + 1;
    }
    if (count != x->rank && count + 1 != x->rank) {
        return uw_import_refuse(im, NULL, UW_ERR_INVALID, "--shape %.60s: %u sizes; input '%.60s' "
                                "has %u axes, one of them the minibatch", im->options->shape,
                                (unsigned)count, x->name, (unsigned)x->rank);
    }
    for (uint32_t a = 0; a < x->rank; a++) {
        uint32_t k = count == x->rank || a < batch ? a : a - 1;
        if (a != batch && x->dim[a] != 0 && x->dim[a] != size[k]) {
            return uw_import_refuse(im, NULL, UW_ERR_INVALID, "--shape %.60s: axis %u of input "
                                    "'%.60s' is %lld in the file, not %lld", im->options->shape,
                                    (unsigned)a, x->name, (long long)x->dim[a],
                                    (long long)size[k]);
        }
        x->dim[a] = a != batch ? size[k] : x->dim[a];
    }
    return UW_OK;
}

/* Refuse an axis without a size, with the flag that gives it. */
static int ask_for_size(struct uw_import *im, const struct uw_onnx_value_info *x, uint32_t axis,
                        uint32_t batch)
{
    char all[128] = "";
    size_t used = 0;
    if (x->symbol[axis] != NULL) {
        snprintf(all, sizeof all, "%.60s=SIZE", x->symbol[axis]);
    }
    for (uint32_t a = 0; a < x->rank && x->symbol[axis] == NULL; a++) {
        const char *comma = a > 0 ? "," : "";
        used += (size_t)(a == batch ? snprintf(all + used, sizeof all - used, "%s1", comma)
                         : x->dim[a] != 0 ? snprintf(all + used, sizeof all - used, "%s%lld",
                                                     comma, (long long)x->dim[a])
                                          : snprintf(all + used, sizeof all - used, "%sSIZE",
                                                     comma));
    }
    return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED, "input '%.60s': axis %u has no fixed "
                            "size, beside the minibatch at axis %u: give it with --shape %s",
                            x->name, (unsigned)axis, (unsigned)batch, all);
}

/* Fill in the sizes of all axes but the minibatch. */
static int settle_sizes(struct uw_import *im, struct uw_onnx_value_info *x, uint32_t batch)
{
    const char *shape = im->options->shape;
    int64_t fixed = x->dim[batch];
    int rc = UW_OK;
    if (shape != NULL && x->rank <= UW_ONNX_RANK_MAX) {
        rc = strchr(shape, '=') != NULL ? name_sizes(im, x) : list_sizes(im, x, batch);
    }
    x->dim[batch] = fixed;
    if (rc < 0) {
        return rc;
    }
    if (!x->shaped || x->rank < 2 || x->rank > 4) {
        return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED,
                                "input '%.60s' has %u axes: needs the minibatch and 1 to 3 more%s",
                                x->name, x->shaped ? (unsigned)x->rank : 0,
                                x->shaped ? "" : "; --shape gives the sizes");
    }
    for (uint32_t a = 0; a < x->rank; a++) {
        if (x->dim[a] > INT32_MAX) {
            return uw_import_refuse(im, NULL, UW_ERR_TOOBIG, "input '%.60s' is too large",
                                    x->name);
        }
        if (x->dim[a] == 0 && a != batch) {
            return ask_for_size(im, x, a, batch);
        }
    }
    return UW_OK;
}

/* The input as the file has it: a value of the file's axes over a sample in the same order. */
static int set_view(struct uw_import *im, const struct uw_onnx_value_info *x, uint32_t batch,
                    struct uw_view *v)
{
    uint64_t stride = 1, dims[UW_ONNX_RANK_MAX];
    *v = (struct uw_view){.rank = x->rank - 1, .axes_n = x->rank, .atoms_n = x->rank,
                          .dim = {1, 1, 1, 1}};
    for (uint32_t a = x->rank; a-- > 0;) {
        uint64_t size = a == batch ? im->batch : (uint64_t)x->dim[a];
        v->axis_end[a] = a + 1;
        v->atom[a] = (struct uw_atom){size, a == batch ? 0 : stride, a == batch};
        if (a != batch) {
            v->dim[a > batch ? a - 1 : a] = size;
            stride *= size;
        }
        if (stride > UINT32_MAX) {
            return uw_import_refuse(im, NULL, UW_ERR_TOOBIG, "input '%.60s' is too large",
                                    x->name);
        }
    }
    v->n = stride;
    uw_view_dims(v, dims);
    uw_view_reshape(v, dims, x->rank);
    return UW_OK;
}

static void set_end(struct uw_import *im, const struct uw_onnx_value_info *x, uint32_t batch)
{
    im->out->input = (struct uw_convert_end){.name = x->name, .type = x->type, .rank = x->rank,
                                              .batch = batch, .symbol = x->symbol[batch]};
    for (uint32_t a = 0; a < x->rank; a++) {
        im->out->input.dim[a] = (uint32_t)x->dim[a];
    }
}

/* Several inputs are the columns of one row, in the file's order: each is cut from it. */
static int cut_inputs(struct uw_import *im, struct uw_onnx_value_info *x, uint32_t inputs_n,
                      const uint32_t *batch)
{
    struct uw_value *v[UW_IMPORT_INPUTS_MAX];
    uint64_t total = 0;
    for (uint32_t i = 0; i < inputs_n; i++) {
        int rc = uw_import_declare(im, x[i].name, NULL, &v[i]);
        rc = rc < 0 ? rc : set_view(im, &x[i], batch[i], &v[i]->view);
        if (rc < 0) {
            return rc;
        }
        total += v[i]->view.n;
        v[i]->kind = UW_VALUE_DATA;
    }
    struct uw_value *all = uw_pool_take(im->pool, 1, sizeof *all);
    if (all == NULL || total > INT32_MAX) {
        return all == NULL ? uw_import_nomem(im)
                           : uw_import_refuse(im, NULL, UW_ERR_TOOBIG, "its inputs are too large");
    }
    struct uw_onnx_value_info row = {.name = "input", .shaped = true, .rank = 2,
                                     .type = x[0].type, .dim = {x[0].dim[batch[0]],
                                                                (int64_t)total},
                                     .symbol = {x[0].symbol[batch[0]]}};
    *all = (struct uw_value){.name = "input", .kind = UW_VALUE_DATA};
    int rc = set_view(im, &row, 0, &all->view);
    im->input = all;
    set_end(im, &row, 0);
    uint64_t at = 0;
    im->inputs_node = (struct uw_onnx_node){.name = "columns", .op = "", .domain = ""};
    for (uint32_t i = 0; i < inputs_n && rc == UW_OK; i++) {
        struct uw_view *view = &v[i]->view;
        const uint64_t shape[UW_AXES_MAX] = {view->dim[0], view->dim[1], view->dim[2],
                                             view->dim[3]};
        uint32_t rank = view->rank;
        struct uw_import_layer *l = uw_import_emit(im, &im->inputs_node, UW_LAYER_SLICE, 0);
        if (l == NULL) {
            return im->err->code;
        }
        l->def.slice = (struct uw_slice_def){.start = (int32_t)at, .length = (uint32_t)view->n};
        uw_import_dims(l, 1, view->n, 1, 1);
        view->layer = im->layers_n;
        view->rank = 1;
        memcpy(view->dim, l->dim, sizeof view->dim);
        rc = uw_import_shape(im, &im->inputs_node, view, rank, shape);
        at += view->n;
    }
    const char *note = uw_pool_format(im->pool, "%u inputs: a row of the data has the values of "
                                      "'%.40s' first, then those of '%.40s'%s",
                                      (unsigned)inputs_n, x[0].name, x[1].name,
                                      inputs_n > 2 ? " and so on" : "");
    if (note != NULL) {
        uw_import_note(im, note);
    }
    return rc;
}

int uw_import_inputs(struct uw_import *im, const struct uw_onnx_value_info *const *info,
                     uint32_t inputs_n)
{
    struct uw_onnx_value_info copy[UW_IMPORT_INPUTS_MAX];
    uint32_t batch[UW_IMPORT_INPUTS_MAX];
    for (uint32_t i = 0; i < inputs_n; i++) {
        copy[i] = *info[i];
        batch[i] = info[i]->shaped && info[i]->rank <= UW_ONNX_RANK_MAX ? find_batch(info[i]) : 0;
        int rc = settle_sizes(im, &copy[i], batch[i]);
        if (rc < 0) {
            return rc;
        }
        uint64_t size = copy[i].dim[batch[i]] != 0 ? (uint64_t)copy[i].dim[batch[i]]
                                                   : UW_BATCH_SYMBOL;
        if (i > 0 && size != im->batch) {
            return uw_import_refuse(im, NULL, UW_ERR_SHAPE, "inputs '%.60s' and '%.60s' have "
                                    "different minibatches", copy[0].name, copy[i].name);
        }
        im->batch = size;
    }
    if (inputs_n > 1) {
        return cut_inputs(im, copy, inputs_n, batch);
    }
    int rc = uw_import_declare(im, copy[0].name, NULL, &im->input);
    im->input = rc < 0 ? NULL : im->input;
    rc = rc < 0 ? rc : set_view(im, &copy[0], batch[0], &im->input->view);
    if (rc == UW_OK) {
        im->input->kind = UW_VALUE_DATA;
        set_end(im, &copy[0], batch[0]);
    }
    return rc;
}
