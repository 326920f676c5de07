/* SPDX-License-Identifier: Apache-2.0
 *
 * The axes of the input: one is the minibatch, the others have a size, from the file or from
 * --shape. */
#include "import_graph.h"
#include "import_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define AXES_MAX 4u                 /* of the input, with the minibatch */

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

/* The axis without a size whose name is a minibatch's; UINT32_MAX: none. */
static uint32_t named_batch(const struct uw_onnx_value_info *x)
{
    for (uint32_t a = 0; a < x->rank; a++) {
        if (x->dim[a] == 0 && is_batch_name(x->symbol[a])) {
            return a;
        }
    }
    return UINT32_MAX;
}

/* Without such a name the minibatch is the only axis without a size, or else axis 0. */
static uint32_t guessed_batch(const struct uw_onnx_value_info *x)
{
    uint32_t open = 0, last = 0;
    for (uint32_t a = 0; a < x->rank; a++) {
        open += x->dim[a] == 0 ? 1 : 0;
        last = x->dim[a] == 0 ? a : last;
    }
    return open == 1 ? last : 0;
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
        int64_t size = p[length] == '=' ? read_size(p + length + 1, &end) : 0;
        if (size == 0) {
            return bad_shape(im, "no size");
        }
        for (uint32_t a = 0; a < x->rank; a++) {
            const char *symbol = x->symbol[a];
            if (symbol != NULL && strlen(symbol) == length && strncmp(symbol, p, length) == 0) {
                x->dim[a] = size;
            }
        }
        p = *end == ',' ? end + 1 : end;
    }
    return UW_OK;
}

/* Check that every name of --shape is that of an axis of an input. */
static int check_names(struct uw_import *im, const struct uw_onnx_value_info *const *info,
                       uint32_t inputs_n)
{
    const char *p = im->options->shape;
    while (p != NULL && strchr(p, '=') != NULL) {
        size_t length = strcspn(p, "=,");
        bool known = false;
        for (uint32_t i = 0; i < inputs_n; i++) {
            for (uint32_t a = 0; a < info[i]->rank && a < UW_ONNX_RANK_MAX; a++) {
                const char *symbol = info[i]->symbol[a];
                known = known || (symbol != NULL && strlen(symbol) == length &&
                                  strncmp(symbol, p, length) == 0);
            }
        }
        if (!known && p[length] == '=') {
            return uw_import_refuse(im, NULL, UW_ERR_INVALID, "--shape %.60s: input '%.60s' has no "
                                    "axis named %.*s", im->options->shape, info[0]->name,
                                    (int)(length < 40 ? length : 40), p);
        }
        p = strchr(p, ',') != NULL ? strchr(p, ',') + 1 : NULL;
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
    if (!x->shaped && count >= AXES_MAX) {
        return bad_shape(im, "a sample of more than 3 axes");
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

/* Refuse axes without a size, with the flag that gives them. */
static int ask_for_sizes(struct uw_import *im, const struct uw_onnx_value_info *x, uint32_t axis,
                         uint32_t batch)
{
    char names[128] = "", all[128] = "";
    size_t names_n = 0, all_n = 0;
    bool named = true;
    for (uint32_t a = 0; a < x->rank && names_n < sizeof names && all_n < sizeof all; a++) {
        const char *comma = a > 0 ? "," : "";
        bool open = a != batch && x->dim[a] == 0;
        if (open && x->symbol[a] != NULL) {
            names_n += (size_t)snprintf(names + names_n, sizeof names - names_n, "%s%.40s=SIZE",
                                        names_n > 0 ? "," : "", x->symbol[a]);
        }
        named = named && (!open || x->symbol[a] != NULL);
        all_n += (size_t)(a == batch ? snprintf(all + all_n, sizeof all - all_n, "%s1", comma)
                          : open     ? snprintf(all + all_n, sizeof all - all_n, "%sSIZE", comma)
                                     : snprintf(all + all_n, sizeof all - all_n, "%s%lld", comma,
                                                (long long)x->dim[a]));
    }
    return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED, "input '%.60s': axis %u has no fixed "
                            "size, beside the minibatch at axis %u: give it with --shape %s",
                            x->name, (unsigned)axis, (unsigned)batch, named ? names : all);
}

/* Choose the minibatch and fill in the sizes of all other axes. */
static int settle_sizes(struct uw_import *im, struct uw_onnx_value_info *x, uint32_t *batch)
{
    const char *shape = im->options->shape;
    bool ranked = x->shaped && x->rank >= 2 && x->rank <= AXES_MAX;
    bool names = shape != NULL && strchr(shape, '=') != NULL;
    uint32_t named = ranked ? named_batch(x) : UINT32_MAX;
    int rc = ranked && names ? name_sizes(im, x) : UW_OK;
    *batch = named != UINT32_MAX ? named : ranked ? guessed_batch(x) : 0;
    if (rc == UW_OK && shape != NULL && !names && (ranked || !x->shaped)) {
        rc = list_sizes(im, x, *batch);
        ranked = true;
    }
    if (rc < 0) {
        return rc;
    }
    if (!ranked) {
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
        if (x->dim[a] == 0 && a != *batch) {
            return ask_for_sizes(im, x, a, *batch);
        }
    }
    return UW_OK;
}

/* Tell of a minibatch that is not the first axis and is not so named, and of other numbers. */
static int tell_input(struct uw_import *im, const struct uw_onnx_value_info *x, uint32_t batch)
{
    const char *type = x->type == UW_ONNX_FLOAT16    ? "float16"
                       : x->type == UW_ONNX_BFLOAT16 ? "bfloat16"
                       : x->type == UW_ONNX_DOUBLE   ? "double"
                                                     : NULL;
    const char *symbol = x->symbol[batch] != NULL ? x->symbol[batch] : "no name";
    const char *note = batch == 0 || is_batch_name(symbol)
                           ? ""
                           : uw_pool_format(im->pool, "axis %u (%s) of input '%.60s' is taken for "
                                            "the minibatch", (unsigned)batch, symbol, x->name);
    const char *other = type == NULL ? ""
                                     : uw_pool_format(im->pool, "input '%.60s' is %s: trained in "
                                                      "float32", x->name, type);
    if (note == NULL || other == NULL) {
        return uw_import_nomem(im);
    }
    if (note[0] != '\0') {
        uw_import_note(im, note);
    }
    if (other[0] != '\0') {
        uw_import_note(im, other);
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

static void set_end(struct uw_convert_end *end, const struct uw_onnx_value_info *x, uint32_t batch)
{
    *end = (struct uw_convert_end){.name = x->name, .type = x->type, .rank = x->rank,
                                   .batch = batch, .symbol = x->symbol[batch]};
    for (uint32_t a = 0; a < x->rank; a++) {
        end->dim[a] = (uint32_t)x->dim[a];
    }
}

/* The inputs as the file has them, for who writes it again. */
static int keep_columns(struct uw_import *im, const struct uw_onnx_value_info *x,
                        uint32_t inputs_n, const uint32_t *batch)
{
    struct uw_convert_end *columns = uw_pool_take(im->pool, inputs_n, sizeof *columns);
    if (columns == NULL) {
        return uw_import_nomem(im);
    }
    for (uint32_t i = 0; i < inputs_n; i++) {
        set_end(&columns[i], &x[i], batch[i]);
    }
    im->out->columns = columns;
    im->out->columns_n = inputs_n;
    return UW_OK;
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
        v[i]->whole = uw_import_is_whole_type(x[i].type);
        v[i]->truth = x[i].type == UW_ONNX_BOOL;
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
    set_end(&im->out->input, &row, 0);
    rc = rc < 0 ? rc : keep_columns(im, x, inputs_n, batch);
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
    if (check_names(im, info, inputs_n) < 0) {
        return im->err->code;
    }
    for (uint32_t i = 0; i < inputs_n; i++) {
        copy[i] = *info[i];
        int rc = settle_sizes(im, &copy[i], &batch[i]);
        if (rc == UW_OK) {
            copy[i].dim[batch[i]] = info[i]->dim[batch[i]];
            rc = tell_input(im, &copy[i], batch[i]);
        }
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
    rc = rc < 0 ? rc : set_view(im, &copy[0], batch[0], &im->input->view);
    if (rc == UW_OK) {
        im->input->kind = UW_VALUE_DATA;
        im->input->whole = uw_import_is_whole_type(copy[0].type);
        im->input->truth = copy[0].type == UW_ONNX_BOOL;
        set_end(&im->out->input, &copy[0], batch[0]);
    }
    return rc;
}
