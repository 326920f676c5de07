/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_shared.h"

static int reshape(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_reshape_def *d = &l->def->reshape;
    uint32_t dim[UW_AXES_MAX] = {1, 1, 1, 1}, open = UW_AXES_MAX;
    uint64_t known = 1;
    char text[UW_SHAPE_TEXT_BYTES];

    if (d->rank < 1 || d->rank > UW_AXES_MAX) {
        return uw_error_set(err, UW_ERR_INVALID, "%u sizes: needs 1 to 4", (unsigned)d->rank);
    }
    for (uint32_t i = 0; i < d->rank; i++) {
        dim[i] = d->dim[i];
        if (dim[i] == 0 && open != UW_AXES_MAX) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "sizes %u and %u are 0: at most one may be 0",
                                (unsigned)open + 1, (unsigned)i + 1);
        }
        open = dim[i] == 0 ? i : open;
        known *= dim[i] != 0 && known <= UINT32_MAX ? dim[i] : 1;
    }
    if (open != UW_AXES_MAX && l->in_n % known == 0) {
        dim[open] = (uint32_t)(l->in_n / known);
        known = l->in_n;
    }
    if (known != l->in_n) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "its input %s has %u values: they do not make %llu%s",
                            uw_shape_text(in, text), (unsigned)l->in_n,
                            (unsigned long long)known,
                            open != UW_AXES_MAX ? " times a whole number" : "");
    }
    l->out = uw_shape_of_axes(d->rank, dim);
    return UW_OK;
}

static int flatten(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    (void)err;
    l->out = uw_shape_row(uw_shape_size(in));
    return UW_OK;
}

const struct uw_layer_ops uw_layer_reshape = {.name = "reshape", .view = true, .infer = reshape};
const struct uw_layer_ops uw_layer_flatten = {.name = "flatten", .view = true, .infer = flatten};
