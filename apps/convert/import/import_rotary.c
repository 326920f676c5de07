/* SPDX-License-Identifier: Apache-2.0
 *
 * RotaryEmbedding: pairs of elements of each head are turned by an angle that its step has. As
 * y = x C + partner(x) S, where C and S hold the cosines and the sines with the partner's sign. */
#include "import_const.h"
#include "import_parts.h"

struct rotary {
    uint64_t steps, size, turned;   /* of each head the first `turned` of `size` elements turn */
    bool flat;                      /* [N][steps][heads][size], or [N][heads][steps][size] */
    bool pairs;                     /* neighbours are partners; else those half a head apart */
};

/* Which angle of a step element i has. */
static uint64_t angle_of(const struct rotary *r, uint64_t i)
{
    return r->pairs ? i / 2 : i % (r->turned / 2);
}

static bool is_first(const struct rotary *r, uint64_t i)
{
    return r->pairs ? i % 2 == 0 : i < r->turned / 2;
}

static uint64_t partner_of(const struct rotary *r, uint64_t i)
{
    uint64_t apart = r->pairs ? 1 : r->turned / 2;
    return i >= r->turned ? i : is_first(r, i) ? i + apart : i - apart;
}

/* Whether a constant has the same for each sample: its first axis, of `rank`, repeats. */
static bool is_same_for_all(const struct uw_onnx_tensor *t, uint32_t rank)
{
    return t->rank == rank && (t->dim[0] == 1 || t->stride[0] == 0);
}

/* Input i, the cosines or sines, as a constant of the shape that x is multiplied by. */
static int spread(struct uw_import *im, const struct uw_onnx_node *n, const struct rotary *r,
                  uint32_t i, struct uw_value *out)
{
    const struct uw_value *places = uw_import_in(im, n, 3);
    const struct uw_onnx_tensor *t = uw_import_const(im, n, i);
    const struct uw_onnx_tensor *at = places != NULL ? uw_import_const(im, n, 3) : NULL;
    if (t == NULL || (places != NULL && at == NULL)) {
        return im->err->code;
    }
    uint64_t angles = r->turned / 2, rows = places != NULL ? t->dim[0] : r->steps;
    bool fits = places != NULL ? t->rank == 2 && is_same_for_all(at, 2) && at->dim[1] == r->steps
                               : is_same_for_all(t, 3) && t->dim[1] == r->steps;
    if (!fits || t->dim[t->rank - 1] != angles || uw_onnx_tensor_size(t) == 0) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "needs %llu angles for each of %llu steps, "
                                "the same for all samples", (unsigned long long)angles,
                                (unsigned long long)r->steps);
    }
    *out = (struct uw_value){.name = "", .kind = UW_VALUE_CONST,
                             .t = {.name = "", .is_float = true, .rank = r->flat ? 3 : 2,
                                   .dim = {r->steps, r->flat ? 1 : r->size, r->size},
                                   .role = UW_ONNX_ROLE_FIXED}};
    float *data = uw_const_fresh(im, n, &out->t, t->stored_n);
    for (uint64_t s = 0; s < r->steps && data != NULL; s++) {
        int64_t row = at != NULL ? uw_import_integer(at, s) : (int64_t)s;
        if (row < 0 || (uint64_t)row >= rows) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "position %lld of %llu", (long long)row,
                                    (unsigned long long)rows);
        }
        for (uint64_t k = 0; k < r->size; k++) {
            float sign = i == 2 && is_first(r, k) ? -1.0f : 1.0f;
            data[s * r->size + k] =
                k < r->turned ? sign * (float)uw_import_number(t, (uint64_t)row * angles +
                                                                      angle_of(r, k))
                              : i == 2 ? 0.0f : 1.0f;
        }
    }
    return data != NULL ? UW_OK : im->err->code;
}

/* y = the partner of each element of x, along its last axis */
static int exchange(struct uw_import *im, const struct uw_onnx_node *n, const struct rotary *r,
                    const struct uw_value *x, struct uw_value *y)
{
    struct uw_import_picks p;
    int rc = uw_import_picks(im, &p, r->size, 1);
    for (uint64_t i = 0; i < r->size && rc == UW_OK; i++) {
        p.index[i] = (int32_t)partner_of(r, i);
    }
    *y = *x;
    return rc < 0 ? rc : uw_import_take(im, n, &y->view, 3, &p);
}

int uw_op_rotary(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *in = uw_import_data(im, n, 0);
    struct uw_value *y = uw_import_out(im, n, 0), x, other, cosine, sine, part[2] = {{0}, {0}};
    uint64_t dims[UW_ONNX_RANK_MAX] = {0}, cut[4], heads = (uint64_t)uw_onnx_int(n, "num_heads", 0);
    if (in == NULL || y == NULL) {
        return in == NULL ? im->err->code : UW_OK;
    }
    x = *in;
    uw_view_dims(&x.view, dims);
    struct rotary r = {.flat = x.view.axes_n == 3, .pairs = uw_onnx_int(n, "interleaved", 0) != 0};
    bool fits = r.flat ? heads > 0 && heads <= dims[2] && dims[2] % heads == 0
                       : x.view.axes_n == 4;
    if (fits && r.flat) {
        cut[0] = dims[0];
        cut[1] = dims[1];
        cut[2] = heads;
        cut[3] = dims[2] / heads;
        fits = uw_import_reshape(im, n, &x.view, cut, 4) > 0;
    }
    r.steps = r.flat ? dims[1] : dims[2];
    r.size = fits ? uw_view_dim(&x.view, 3) : 0;
    r.turned = (uint64_t)uw_onnx_int(n, "rotary_embedding_dim", 0);
    r.turned = r.turned != 0 ? r.turned : r.size;
    if (!fits || r.turned % 2 != 0 || r.turned > r.size) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "needs [N][heads][steps][size], or "
                                "[N][steps][features] and num_heads, and an even part to turn");
    }
    int rc = spread(im, n, &r, 1, &cosine);
    rc = rc < 0 ? rc : spread(im, n, &r, 2, &sine);
    rc = rc < 0 ? rc : exchange(im, n, &r, &x, &other);
    rc = rc < 0 ? rc : uw_import_arithmetic(im, n, UW_ARITHMETIC_MUL, &x, &cosine, &part[0]);
    rc = rc < 0 ? rc : uw_import_arithmetic(im, n, UW_ARITHMETIC_MUL, &other, &sine, &part[1]);
    rc = rc < 0 ? rc : uw_import_arithmetic(im, n, UW_ARITHMETIC_ADD, &part[0], &part[1], y);
    int joined = rc == UW_OK && r.flat ? uw_import_reshape(im, n, &y->view, dims, 3) : 1;
    return rc < 0 || joined < 0 ? im->err->code
           : joined > 0 ? UW_OK
                        : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
}
