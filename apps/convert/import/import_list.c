/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of values, as PyTorch's exporter writes chunk and split. */
#include "import_parts.h"

#include <string.h>

static struct uw_value *new_list(struct uw_import *im, const struct uw_onnx_node *n, uint64_t items)
{
    struct uw_value *y = uw_import_out(im, n, 0);
    struct uw_value *list = items < UW_BATCH_SYMBOL
                                ? uw_pool_take(im->pool, items, sizeof *list) : NULL;
    if (list == NULL || y == NULL) {
        uw_import_nomem(im);
        return NULL;
    }
    y->kind = UW_VALUE_LIST;
    y->item = list;
    y->items_n = (uint32_t)items;
    return list;
}

int uw_op_split_to_list(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    const struct uw_value *split = uw_import_in(im, n, 1);
    int axis = x != NULL ? uw_view_axis(im, n, &x->view, uw_onnx_int(n, "axis", 0)) : -1;
    if (axis < 0 || uw_import_order_axis(im, n, &x->view, (uint32_t)axis) < 0) {
        return im->err->code;
    }
    uint64_t size = uw_view_dim(&x->view, (uint32_t)axis), at = 0;
    bool sizes = split != NULL && split->kind == UW_VALUE_CONST && split->t.rank == 1;
    uint64_t each = split == NULL || sizes ? 1 : (uint64_t)uw_import_integer(&split->t, 0);
    if (each == 0 || (split != NULL && split->kind != UW_VALUE_CONST)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its parts have no constant size");
    }
    uint64_t parts = sizes ? uw_onnx_tensor_size(&split->t) : (size + each - 1) / each;
    struct uw_value *list = new_list(im, n, parts);
    int rc = list != NULL ? UW_OK : im->err->code;
    for (uint64_t i = 0; i < parts && rc == UW_OK; i++) {
        uint64_t length = sizes ? (uint64_t)uw_import_integer(&split->t, i)
                          : size - at < each ? size - at : each;
        if (length == 0 && sizes) { /* as chunk of one value has: nothing reads it */
            uw_import_refuse(im, n, UW_ERR_SHAPE, "a part that is read is empty");
            list[i] = (struct uw_value){.name = n->output[0], .node = n, .code = UW_ERR_SHAPE,
                                        .why = uw_pool_text(im->pool, im->err->text,
                                                            strlen(im->err->text))};
            *im->err = (struct uw_error){.code = UW_OK};
            rc = list[i].why != NULL ? UW_OK : uw_import_nomem(im);
            continue;
        }
        if (length == 0 || length > size - at) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "its parts do not fit %llu values",
                                    (unsigned long long)size);
        }
        list[i].name = n->output[0];
        rc = uw_import_cut(im, n, &list[i], &x->view, (uint32_t)axis, at, length);
        at += length;
        if (rc == UW_OK && split == NULL && uw_onnx_int(n, "keepdims", 1) == 0 &&
            !uw_view_remove(&list[i].view, (uint32_t)axis)) {
            rc = uw_import_refuse(im, n, UW_ERR_SHAPE, "its parts keep their axis");
        }
    }
    return rc;
}

int uw_op_make_list(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *list = new_list(im, n, n->inputs_n);
    for (uint32_t i = 0; i < n->inputs_n && list != NULL; i++) {
        const struct uw_value *x = uw_import_any(im, n, i);
        if (x == NULL) {
            return im->err->code;
        }
        list[i] = *x;
    }
    return list != NULL ? UW_OK : im->err->code;
}

int uw_op_list_at(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *list = uw_import_in(im, n, 0), *at = uw_import_in(im, n, 1);
    struct uw_value *y = uw_import_out(im, n, 0);
    double place;
    if (uw_import_opaque_input(im, n) || y == NULL) {
        return im->err->code;
    }
    if (list == NULL || list->kind != UW_VALUE_LIST || !uw_import_scalar(at, &place)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "only a constant place of a list");
    }
    place += place < 0.0 ? list->items_n : 0;
    if (!(place >= 0.0 && place < list->items_n)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "place %g of %u", place,
                                (unsigned)list->items_n);
    }
    const struct uw_value *item = &list->item[(uint32_t)place];
    y->kind = item->kind;
    y->why = item->why;
    y->code = item->code;
    y->view = item->view;
    y->t = item->t;
    return UW_OK;
}
