/* SPDX-License-Identifier: Apache-2.0
 *
 * A view if only axes of size 1 change places. Axes that stay neighbours are one to the kernels,
 * and those that stay in front belong to the minibatch. */
#include "layer_shared.h"

static int check_order(const struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const uint32_t *order = l->def->transpose.order;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < in->rank; i++) {
        if (order[i] >= in->rank || (seen & 1u << order[i]) != 0) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "order names axis %u at place %u: needs each of 0 to %u once",
                                (unsigned)order[i], (unsigned)i + 1, (unsigned)in->rank - 1);
        }
        seen |= 1u << order[i];
    }
    return UW_OK;
}

/* Blocks of input axes that stay together, in the output's order. Returns how many. */
static uint32_t find_blocks(const struct uw_layer *l, const uint32_t dim[UW_AXES_MAX],
                            uint32_t rank, uint32_t first[UW_AXES_MAX], uint32_t size[UW_AXES_MAX])
{
    uint32_t n = 0, last = 0;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t axis = l->def->transpose.order[i];
        if (dim[axis] == 1) {
            continue;
        }
        bool joins = n > 0 && axis > last;
        for (uint32_t k = last + 1; k < axis && joins; k++) {
            joins = dim[k] == 1;
        }
        if (joins) {
            size[n - 1] *= dim[axis];
        } else {
            first[n] = axis;
            size[n++] = dim[axis];
        }
        last = axis;
    }
    return n;
}

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    struct uw_permute *g = &l->geometry.transpose.permute;
    uint32_t dim[UW_AXES_MAX], out[UW_AXES_MAX] = {1, 1, 1, 1};
    uint32_t first[UW_AXES_MAX], size[UW_AXES_MAX];
    int rc = check_order(l, in, err);

    if (rc < 0) {
        return rc;
    }
    uw_axes_of(in, dim);
    for (uint32_t i = 0; i < in->rank; i++) {
        out[i] = dim[l->def->transpose.order[i]];
    }
    l->out = uw_shape_of_axes(in->rank, out);
    uint32_t n = find_blocks(l, dim, in->rank, first, size), in_front = 0;
    l->view = n <= 1;
    l->geometry.transpose.outer = 1;
    for (uint32_t i = 1; i < n; i++) {
        in_front += first[i] > first[0] ? 1 : 0;
    }
    bool stays = n > 3 && in_front == n - 1; /* the first block stays the first */
    if (n > 3 && !stays) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "four axes change places: write it as two "
                            "transposes");
    }
    if (stays) {
        l->geometry.transpose.outer = size[0];
    }
    /* Without a third block an axis of size 1 is in front, so that the kernels see what they are
     * fast with: the last two axes change places. */
    uint32_t base = stays ? 1 : 0, spare = n - base < 3 ? 3 - (n - base) : 0;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t from = base + i - spare, place = spare;
        for (uint32_t k = base; k < n && i >= spare; k++) {
            place += first[k] < first[from] ? 1 : 0;
        }
        g->order[i] = i < spare ? i : place;
        g->dim[g->order[i]] = i < spare ? 1 : size[from];
    }
    return UW_OK;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    return e->kernels->copy->permute(e, &l->geometry.transpose.permute,
                                     p->batch_n * l->geometry.transpose.outer, x[0], y, false);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    const struct uw_permute *g = &l->geometry.transpose.permute;
    struct uw_permute back;

    for (uint32_t i = 0; i < 3; i++) {
        back.dim[i] = g->dim[g->order[i]];
        back.order[g->order[i]] = i;
    }
    return e->kernels->copy->permute(e, &back, p->batch_n * l->geometry.transpose.outer, l->dy, dx,
                                     accumulate);
}

const struct uw_layer_ops uw_layer_transpose = {
    .name = "transpose",
    .infer = infer,
    .forward = forward,
    .bw_input = bw_input,
};
