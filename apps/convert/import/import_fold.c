/* SPDX-License-Identifier: Apache-2.0 */
#include "import_const.h"
#include "import_parts.h"

#include <math.h>
#include <string.h>

/* Broadcast shape of two or more operands. */
static int broadcast(struct uw_import *im, const struct uw_onnx_node *n,
                     const struct uw_onnx_tensor *const *x, uint32_t count,
                     struct uw_onnx_tensor *out)
{
    for (uint32_t k = 0; k < count; k++) {
        out->rank = x[k]->rank > out->rank ? x[k]->rank : out->rank;
    }
    for (uint32_t a = 0; a < out->rank; a++) {
        out->dim[a] = 1;
        for (uint32_t k = 0; k < count; k++) {
            uint32_t skip = out->rank - x[k]->rank;
            uint64_t d = a >= skip ? x[k]->dim[a - skip] : 1;
            if (d != 1 && out->dim[a] != 1 && out->dim[a] != d) {
                return uw_import_refuse(im, n, UW_ERR_SHAPE, "constants of sizes %llu and %llu",
                                        (unsigned long long)d, (unsigned long long)out->dim[a]);
            }
            out->dim[a] = d != 1 ? d : out->dim[a];
        }
    }
    return UW_OK;
}

/* The same elements, repeated along axes of size 1 to that shape. */
static struct uw_onnx_tensor stretch(const struct uw_onnx_tensor *x,
                                     const struct uw_onnx_tensor *to)
{
    struct uw_onnx_tensor t = *x;
    t.rank = to->rank;
    for (uint32_t a = 0; a < to->rank; a++) {
        uint32_t skip = to->rank - x->rank;
        bool real = a >= skip && x->dim[a - skip] == to->dim[a];
        t.stride[a] = real ? x->stride[a - skip] : 0;
        t.dim[a] = to->dim[a];
    }
    return t;
}

/* Comparisons and logic. */
static bool logic(const char *op, double a, double b, double *y)
{
    const struct {
        const char *op;
        bool holds;
    } all[] = {{"Equal", a == b},         {"Greater", a > b},
               {"Less", a < b},           {"GreaterOrEqual", a >= b},
               {"LessOrEqual", a <= b},   {"Not", a == 0.0},
               {"And", a != 0.0 && b != 0.0}, {"Or", a != 0.0 || b != 0.0},
               {"Xor", (a != 0.0) != (b != 0.0)}, {"IsNaN", isnan(a) != 0}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(op, all[i].op) == 0) {
            *y = all[i].holds ? 1.0 : 0.0;
            return true;
        }
    }
    return false;
}

static double plus(double a, double b)
{
    return a + b;
}

static double minus(double a, double b)
{
    return a - b;
}

static double times(double a, double b)
{
    return a * b;
}

static double over(double a, double b)
{
    return a / b;
}

/* Python's remainder, with the sign of b. */
static double remainder_of(double a, double b)
{
    return a - b * floor(a / b);
}

static double sigmoid(double a)
{
    return 1.0 / (1.0 + exp(-a));
}

static double negative(double a)
{
    return -a;
}

static double inverse(double a)
{
    return 1.0 / a;
}

static bool arithmetic(const char *op, double a, double b, double *y)
{
    static const struct {
        const char *op;
        double (*of_two)(double a, double b);
        double (*of_one)(double a);
    } all[] = {
        {"Add", plus, NULL},    {"Sub", minus, NULL},  {"Mul", times, NULL},
        {"Div", over, NULL},    {"Pow", pow, NULL},    {"Min", fmin, NULL},
        {"Max", fmax, NULL},    {"Mod", remainder_of, NULL},
        {"Sqrt", NULL, sqrt},   {"Neg", NULL, negative}, {"Floor", NULL, floor},
        {"Ceil", NULL, ceil},   {"Round", NULL, nearbyint}, {"Abs", NULL, fabs},
        {"Exp", NULL, exp},     {"Log", NULL, log},    {"Sin", NULL, sin},
        {"Cos", NULL, cos},     {"Erf", NULL, erf},    {"Tanh", NULL, tanh},
        {"Sigmoid", NULL, sigmoid}, {"Reciprocal", NULL, inverse},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(op, all[i].op) == 0) {
            *y = all[i].of_two != NULL ? all[i].of_two(a, b) : all[i].of_one(a);
            return true;
        }
    }
    return logic(op, a, b, y);
}

/* Convert a number to a size. Sizes fit 53 bits; anything else is not a size. */
static int64_t whole(double d)
{
    return d > -9e15 && d < 9e15 ? (int64_t)d : 0;
}

/* Axes along which all operands repeat have size 1, to be computed once. */
static void repeat_once(struct uw_onnx_tensor *x, uint32_t count, struct uw_onnx_tensor *out)
{
    for (uint32_t a = 0; a < out->rank; a++) {
        bool repeats = out->dim[a] > 1;
        for (uint32_t k = 0; k < count; k++) {
            repeats = repeats && x[k].stride[a] == 0;
        }
        for (uint32_t k = 0; k < count && repeats; k++) {
            x[k].dim[a] = 1;
        }
        out->dim[a] = repeats ? 1 : out->dim[a];
    }
}

/* The sizes again, of a result that was computed once. */
static void unrepeat(struct uw_onnx_tensor *out, const uint64_t *dim)
{
    for (uint32_t a = 0; a < out->rank; a++) {
        out->stride[a] = out->dim[a] == dim[a] ? out->stride[a] : 0;
        out->dim[a] = dim[a];
    }
}

static int fold_arithmetic(struct uw_import *im, const struct uw_onnx_node *n,
                           const struct uw_onnx_tensor *const *x, struct uw_onnx_tensor *out)
{
    uint32_t count = n->inputs_n;
    bool where = count == 3;
    double unused;
    bool logical = logic(n->op, 0.0, 0.0, &unused);
    int rc = broadcast(im, n, x, count, out);
    out->is_float = x[where ? 1 : 0]->is_float && !logical;
    const struct uw_onnx_tensor shape = *out;
    struct uw_onnx_tensor s[3] = {stretch(x[0], out), stretch(x[count > 1 ? 1 : 0], out),
                                  stretch(x[count - 1], out)};
    repeat_once(s, 3, out);
    void *data = rc == UW_OK ? uw_const_fresh(im, n, out, 0) : NULL;
    if (data == NULL) {
        return im->err->code;
    }
    uint64_t total = uw_onnx_tensor_size(out);
    for (uint64_t i = 0; i < total; i++) {
        double y = 0.0;
        double a = uw_import_number(&s[0], i);
        double b = uw_import_number(&s[1], i);
        if (where) {
            y = a != 0.0 ? b : uw_import_number(&s[2], i);
        } else {
            arithmetic(n->op, a, b, &y);
        }
        uw_const_put(out, data, i, y, whole(y));
        for (uint32_t k = 0; k < 3; k++) {
            if (uw_const_is_sized_at(&s[k], i) && uw_const_mark(im, out, i) < 0) {
                return im->err->code;
            }
        }
    }
    unrepeat(out, shape.dim);
    return UW_OK;
}

int uw_const_masked(struct uw_import *im, const struct uw_onnx_node *n,
                    const struct uw_onnx_tensor *c, const struct uw_onnx_tensor *x, bool keep,
                    struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *both[2] = {c, x};
    *out = (struct uw_onnx_tensor){.name = "", .is_float = true};
    int rc = broadcast(im, n, both, 2, out);
    float *data = rc == UW_OK ? uw_const_fresh(im, n, out, 0) : NULL;
    if (data == NULL) {
        return im->err->code;
    }
    const struct uw_onnx_tensor condition = stretch(c, out), value = stretch(x, out);
    uint64_t total = uw_onnx_tensor_size(out);
    for (uint64_t i = 0; i < total; i++) {
        bool holds = uw_import_number(&condition, i) != 0.0;
        data[i] = holds == keep ? (float)uw_import_number(&value, i) : 0.0f;
    }
    return UW_OK;
}

/* Sizes of constants that are joined along an axis. Returns the axis, or -1. */
static int64_t concat_dims(struct uw_import *im, const struct uw_onnx_node *n,
                           struct uw_onnx_tensor *out, uint64_t *stored)
{
    const struct uw_onnx_tensor *first = &uw_import_in(im, n, 0)->t;
    int64_t axis = uw_onnx_int(n, "axis", 0);
    axis = axis < 0 ? axis + first->rank : axis;
    *out = *first;
    out->name = "";
    *stored = 0;
    if (axis < 0 || axis >= first->rank) {
        return -1;
    }
    out->dim[axis] = 0;
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        const struct uw_onnx_tensor *t = &uw_import_in(im, n, k)->t;
        if (t->rank != first->rank || t->is_float != first->is_float) {
            return -1;
        }
        for (uint32_t a = 0; a < t->rank; a++) {
            if (a != axis && t->dim[a] != first->dim[a]) {
                return -1;
            }
        }
        out->dim[axis] += t->dim[axis];
        *stored += t->stored_n;
    }
    return axis;
}

/* Whether all that is joined repeats the same number, as states of zeros of two directions. */
static bool is_one_number(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_onnx_tensor *first = &uw_import_in(im, n, 0)->t;
    bool same = first->is_float;
    for (uint32_t k = 0; k < n->inputs_n && same; k++) {
        const struct uw_onnx_tensor *t = &uw_import_in(im, n, k)->t;
        same = uw_onnx_tensor_size(t) > 0 && t->sized == NULL;
        for (uint32_t a = 0; a < t->rank && same; a++) {
            same = t->dim[a] == 1 || t->stride[a] == 0;
        }
        same = same && uw_import_number(t, 0) == uw_import_number(first, 0);
    }
    return same;
}

/* What is joined, axes along which all of it repeats once; NULL with err set. */
static struct uw_onnx_tensor *joined_once(struct uw_import *im, const struct uw_onnx_node *n,
                                          uint32_t axis, struct uw_onnx_tensor *out)
{
    struct uw_onnx_tensor *all = uw_pool_take(im->pool, n->inputs_n, sizeof *all);
    if (all == NULL) {
        uw_import_nomem(im);
        return NULL;
    }
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        all[k] = uw_import_in(im, n, k)->t;
    }
    uint64_t length = out->dim[axis];
    out->dim[axis] = 1; /* it does not repeat */
    repeat_once(all, n->inputs_n, out);
    out->dim[axis] = length;
    return all;
}

static int fold_concat(struct uw_import *im, const struct uw_onnx_node *n,
                       const struct uw_onnx_tensor *const *x, struct uw_onnx_tensor *out)
{
    (void)x; /* there may be more inputs than x holds */
    uint64_t stored;
    uint64_t inner = 1;
    uint64_t before = 0;
    int64_t axis = concat_dims(im, n, out, &stored);
    if (axis < 0) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "joins constants of different shapes");
    }
    if (is_one_number(im, n)) {
        memset(out->stride, 0, sizeof out->stride);
        return UW_OK;
    }
    const struct uw_onnx_tensor shape = *out;
    struct uw_onnx_tensor *once = joined_once(im, n, (uint32_t)axis, out);
    void *data = once != NULL ? uw_const_fresh(im, n, out, stored) : NULL;
    for (uint32_t a = (uint32_t)axis + 1; a < out->rank; a++) {
        inner *= out->dim[a];
    }
    for (uint32_t k = 0; data != NULL && k < n->inputs_n; k++) {
        const struct uw_onnx_tensor *t = &once[k];
        uint64_t run = t->dim[axis] * inner;
        uint64_t count = uw_onnx_tensor_size(t);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t at = i / run * out->dim[axis] * inner + before * inner + i % run;
            uw_const_put(out, data, at, uw_import_number(t, i), uw_import_integer(t, i));
            if (uw_const_is_sized_at(t, i) && uw_const_mark(im, out, at) < 0) {
                return im->err->code;
            }
        }
        before += t->dim[axis];
    }
    unrepeat(out, shape.dim);
    return data != NULL ? UW_OK : im->err->code;
}

/* x repeated to the shape that an input holds. */
static int expand(struct uw_import *im, const struct uw_onnx_node *n,
                  const struct uw_onnx_tensor *x, uint32_t shape_input,
                  struct uw_onnx_tensor *out)
{
    int64_t want[UW_ONNX_RANK_MAX];
    struct uw_onnx_tensor shape = {.name = ""};
    const struct uw_onnx_tensor *both[2] = {x, &shape};
    int count = uw_import_ints(im, n, "", shape_input, want);
    if (count < 0) {
        return im->err->code;
    }
    shape.rank = (uint32_t)count;
    for (int a = 0; a < count; a++) {
        if (want[a] < 0 || want[a] > UINT32_MAX) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "no size: %lld", (long long)want[a]);
        }
        shape.dim[a] = (uint64_t)want[a];
    }
    struct uw_onnx_tensor to = {.name = ""};
    int rc = broadcast(im, n, both, 2, &to);
    *out = stretch(x, &to);
    return rc;
}

static int fold_expand(struct uw_import *im, const struct uw_onnx_node *n,
                       const struct uw_onnx_tensor *const *x, struct uw_onnx_tensor *out)
{
    return expand(im, n, x[0], 1, out);
}

static int fold_constant_of_shape(struct uw_import *im, const struct uw_onnx_node *n,
                                  const struct uw_onnx_tensor *const *x,
                                  struct uw_onnx_tensor *out)
{
    (void)x; /* the shape, which expand reads */
    static const float zero = 0.0f;
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, "value");
    struct uw_onnx_tensor one = {.name = "", .is_float = true, .data = (const uint8_t *)&zero,
                                 .stored_n = 1};
    if (a != NULL && a->t != NULL && a->t->stored_n == 1) {
        one = *a->t;
        one.rank = 0;
    }
    return expand(im, n, &one, 0, out);
}

static int fold_cast(struct uw_import *im, const struct uw_onnx_node *n,
                     const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *x = in[0];
    int64_t to = uw_onnx_int(n, "to", UW_ONNX_FLOAT);
    bool is_float = to == UW_ONNX_FLOAT || to == UW_ONNX_DOUBLE ||
                    to == UW_ONNX_FLOAT16 || to == UW_ONNX_BFLOAT16;
    *out = *x;
    if (is_float == x->is_float && to != UW_ONNX_BOOL) {
        return UW_OK;
    }
    out->is_float = is_float;
    void *data = uw_const_fresh(im, n, out, 0);
    uint64_t count = uw_onnx_tensor_size(out);
    for (uint64_t i = 0; data != NULL && i < count; i++) {
        double d = uw_import_number(x, i);
        int64_t v = uw_import_integer(x, i);
        uw_const_put(out, data, i, d, to == UW_ONNX_BOOL ? d != 0.0 : v);
    }
    return data != NULL ? uw_const_mark_like(im, out, x) : im->err->code;
}

static int fold_identity(struct uw_import *im, const struct uw_onnx_node *n,
                         const struct uw_onnx_tensor *const *x, struct uw_onnx_tensor *out)
{
    (void)im;
    *out = *x[0];
    out->name = n->output[0];
    return UW_OK;
}

/* start, start + delta, ... up to but not limit */
static int fold_range(struct uw_import *im, const struct uw_onnx_node *n,
                      const struct uw_onnx_tensor *const *x, struct uw_onnx_tensor *out)
{
    if (uw_onnx_tensor_size(x[0]) != 1 || uw_onnx_tensor_size(x[1]) != 1 ||
        uw_onnx_tensor_size(x[2]) != 1) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "start, limit and delta are not one number "
                                "each");
    }
    double start = uw_import_number(x[0], 0), delta = uw_import_number(x[2], 0);
    double count = ceil((uw_import_number(x[1], 0) - start) / delta);
    bool sized = uw_const_is_sized(x[0]) || uw_const_is_sized(x[1]) || uw_const_is_sized(x[2]);
    if (sized && start == 0.0 && delta == 1.0 && count == (double)UW_BATCH_SYMBOL) {
        *out = (struct uw_onnx_tensor){.name = "", .rank = 1, .dim = {1}, .rise = 1,
                                       .is_float = x[0]->is_float};
        void *zero = uw_const_fresh(im, n, out, 0);
        out->dim[0] = UW_BATCH_SYMBOL;
        out->stride[0] = 0;
        return zero != NULL ? UW_OK : im->err->code;
    }
    if (sized && count >= (double)UW_BATCH_SYMBOL) {
        return uw_import_refuse_rise(im, n);
    }
    if (!(fabs(count) <= UW_FOLD_MAX)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "a range of %g elements", count);
    }
    *out = (struct uw_onnx_tensor){.name = "", .rank = 1, .is_float = x[0]->is_float};
    out->dim[0] = count > 0.0 ? (uint64_t)count : 0;
    void *data = uw_const_fresh(im, n, out, 0);
    for (uint64_t i = 0; data != NULL && i < out->dim[0]; i++) {
        double y = start + (double)i * delta;
        uw_const_put(out, data, i, y, whole(y));
        if (sized && uw_const_mark(im, out, i) < 0) {
            return im->err->code;
        }
    }
    return data != NULL ? UW_OK : im->err->code;
}

/* One more element of a reduction. */
static double gather_up(const char *what, double sum, double x, bool first)
{
    if (strcmp(what, "Max") == 0 || strcmp(what, "Min") == 0) {
        bool better = what[1] == 'a' ? x > sum : x < sum;
        return first || better ? x : sum;
    }
    if (strcmp(what, "Prod") == 0) {
        return first ? x : sum * x;
    }
    bool squares = strcmp(what, "L2") == 0 || strcmp(what, "SumSquare") == 0;
    return (first ? 0.0 : sum) + (squares ? x * x : x);
}

/* Whether a reduction over these axes depends on how many samples the minibatch has. */
static bool reduces_minibatch(const struct uw_import *im, const struct uw_onnx_tensor *x,
                              uint32_t axes, const char *what)
{
    bool found = false;
    for (uint32_t a = 0; a < x->rank; a++) {
        found = found || ((axes & 1u << a) != 0 && uw_import_is_open(im, x->dim[a]));
    }
    return found && what[0] != 'M'; /* Max, Mean, Min: of equal numbers */
}

/* Elements of out = x reduced; axis a of x that stays is kept[a] of out. Returns 1: too many. */
static int reduce_all(struct uw_import *im, const char *what, const struct uw_onnx_tensor *x,
                      uint32_t axes, const uint32_t *kept, struct uw_onnx_tensor *out, void *data)
{
    uint64_t total = uw_onnx_tensor_size(x), size = uw_onnx_tensor_size(out);
    double *sum = uw_pool_take(im->pool, 2 * size, sizeof *sum);
    if (sum == NULL || total > UW_FOLD_MAX * 16u || size == 0) {
        return sum == NULL ? uw_import_nomem(im) : 1;
    }
    bool sized = reduces_minibatch(im, x, axes, what);
    if (uw_import_count(im, NULL, total) < 0) {
        return im->err->code;
    }
    for (uint64_t i = 0; i < total; i++) {
        uint64_t left = i, at = 0;
        for (uint32_t a = x->rank; a-- > 0;) {
            uint64_t k = left % x->dim[a];
            left /= x->dim[a];
            at += (axes & 1u << a) != 0 ? 0 : k * (uint64_t)out->stride[kept[a]];
        }
        sum[at] = gather_up(what, sum[at], uw_import_number(x, i), sum[size + at] == 0.0);
        sum[size + at] += 1.0;
        if ((sized || uw_const_is_sized_at(x, i)) && uw_const_mark(im, out, at) < 0) {
            return im->err->code;
        }
    }
    for (uint64_t i = 0; i < size; i++) {
        double y = strcmp(what, "Mean") == 0 ? sum[i] / sum[size + i]
                   : strcmp(what, "L2") == 0 ? sqrt(sum[i]) : sum[i];
        uw_const_put(out, data, i, y, whole(y));
    }
    return UW_OK;
}

static int fold_reduce(struct uw_import *im, const struct uw_onnx_node *n,
                       const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    struct uw_onnx_tensor x = *in[0];
    uint32_t axes = 0, kept[UW_ONNX_RANK_MAX];
    uint64_t dim[UW_ONNX_RANK_MAX] = {0};
    bool keep = uw_onnx_int(n, "keepdims", 1) != 0;
    int count = uw_import_axes(im, n, x.rank, false, &axes);
    if (im->err->code != UW_OK) {
        return im->err->code;
    }
    axes = count < 1 ? (1u << x.rank) - 1 : axes;
    *out = (struct uw_onnx_tensor){.name = "", .is_float = x.is_float};
    for (uint32_t a = 0; a < x.rank; a++) {
        bool gone = (axes & 1u << a) != 0;
        kept[a] = out->rank;
        if (!gone || keep) {
            dim[out->rank] = gone ? 1 : x.dim[a];
            x.dim[a] = !gone && x.dim[a] > 1 && x.stride[a] == 0 ? 1 : x.dim[a];
            out->dim[out->rank++] = gone ? 1 : x.dim[a];
        }
    }
    void *data = uw_const_fresh(im, n, out, 0);
    int rc = data != NULL ? reduce_all(im, n->op + strlen("Reduce"), &x, axes, kept, out, data)
                          : im->err->code;
    unrepeat(out, dim);
    return rc;
}

/* Parts of a constant along an axis. Returns 1 (done), 0 (no Split of a constant), or a code. */
static int fold_split(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *x = uw_import_in(im, n, 0);
    int64_t part[UW_ONNX_RANK_MAX], axis = uw_onnx_int(n, "axis", 0), at = 0;
    if (strcmp(n->op, "Split") != 0 || x == NULL || x->kind != UW_VALUE_CONST) {
        return 0;
    }
    axis = axis < 0 ? axis + x->t.rank : axis;
    int parts = uw_import_ints(im, n, "split", 1, part);
    if (axis < 0 || axis >= x->t.rank || im->err->code != UW_OK) {
        return uw_import_lacks(im, n, "an axis and constant sizes");
    }
    int64_t size = (int64_t)x->t.dim[axis];
    for (uint32_t i = 0; i < n->outputs_n; i++) {
        int64_t length = parts < 0 ? (size + n->outputs_n - 1) / n->outputs_n
                         : i < (uint32_t)parts ? part[i] : 0;
        length = parts < 0 && length > size - at ? size - at : length;
        if (length < 1 || length > size - at) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "its parts do not fit %lld values",
                                    (long long)size);
        }
        struct uw_value *y = uw_import_out(im, n, i);
        if (y != NULL) {
            y->kind = UW_VALUE_CONST;
            y->t = x->t;
            y->t.dim[axis] = (uint64_t)length;
            uw_const_move_start(&y->t, at * x->t.stride[axis]);
            y->derived = x->derived;
        }
        at += length;
    }
    return 1;
}

/* A constant between limits, which may be left out. Returns 1 (done), 0 (none, or a parameter,
 * which is taken as a value), or a code. */
static int fold_clip(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *x = uw_import_in(im, n, 0);
    struct uw_value *y = uw_import_out(im, n, 0);
    double limit[2] = {-INFINITY, INFINITY};
    if (strcmp(n->op, "Clip") != 0 || x == NULL || x->kind != UW_VALUE_CONST || x->derived ||
        uw_import_learns(im, &x->t) || n->attributes_n > 0) {
        return 0;
    }
    for (uint32_t k = 1; k < 3; k++) {
        const struct uw_value *v = uw_import_in(im, n, k);
        if (v != NULL && !uw_import_scalar(v, &limit[k - 1])) {
            return 0;
        }
    }
    struct uw_onnx_tensor out = x->t;
    out.name = "";
    void *data = uw_const_fresh(im, n, &out, x->t.stored_n);
    uint64_t count = data != NULL ? uw_onnx_tensor_size(&out) : 0;
    for (uint64_t i = 0; i < count; i++) {
        double v = fmin(fmax(uw_import_number(&x->t, i), limit[0]), limit[1]);
        uw_const_put(&out, data, i, v, whole(v));
    }
    int rc = data != NULL ? uw_const_mark_like(im, &out, &x->t) : im->err->code;
    y->kind = rc == UW_OK ? UW_VALUE_CONST : y->kind;
    y->t = out;
    return rc < 0 ? rc : 1;
}

/* By operator; `inputs` is how many it must have, 0 any number. */
static const struct {
    const char *op;
    uint32_t inputs;
    uw_fold_op *fold;
} table[] = {
    {"Attention", 1, uw_fold_attention_mask}, /* the part of one that is its mask */
    {"Cast", 1, fold_cast},
    {"Concat", 0, fold_concat},
    {"ConstantOfShape", 0, fold_constant_of_shape},
    {"Expand", 2, fold_expand},
    {"Flatten", 1, uw_fold_flatten},
    {"Gather", 2, uw_fold_gather},
    {"GatherND", 2, uw_fold_gather_nd},
    {"Identity", 1, fold_identity},
    {"Range", 3, fold_range},
    {"ReduceL2", 0, fold_reduce},
    {"ReduceMax", 0, fold_reduce},
    {"ReduceMean", 0, fold_reduce},
    {"ReduceMin", 0, fold_reduce},
    {"ReduceProd", 0, fold_reduce},
    {"ReduceSum", 0, fold_reduce},
    {"ReduceSumSquare", 0, fold_reduce},
    {"Reshape", 2, uw_fold_reshape},
    {"ScatterElements", 3, uw_fold_scatter},
    {"ScatterND", 3, uw_fold_scatter},
    {"Slice", 0, uw_fold_slice},
    {"Squeeze", 0, uw_fold_axes},
    {"Transpose", 1, uw_fold_transpose},
    {"Trilu", 0, uw_fold_trilu},
    {"Unsqueeze", 0, uw_fold_axes},
    {"Where", 3, fold_arithmetic},
};

/* Returns 1: no operator on constants. */
static int compute(struct uw_import *im, const struct uw_onnx_node *n,
                   const struct uw_onnx_tensor *const *x, struct uw_onnx_tensor *out)
{
    double y;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].op, n->op) == 0 &&
            (table[i].inputs == 0 || table[i].inputs == n->inputs_n)) {
            return table[i].fold(im, n, x, out);
        }
    }
    return n->inputs_n <= 2 && arithmetic(n->op, 1.0, 1.0, &y) ? fold_arithmetic(im, n, x, out) : 1;
}

/* Whether the node computes with parameters. To move or cut one is no computation, and integers, as
 * those of a shape, have no gradient. */
static bool is_derived(struct uw_import *im, const struct uw_onnx_node *n)
{
    double unused;
    bool computes = (arithmetic(n->op, 1.0, 1.0, &unused) && strcmp(n->op, "Equal") != 0) ||
                    strncmp(n->op, "Reduce", 6) == 0 || strcmp(n->op, "Trilu") == 0;
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        const struct uw_value *v = uw_import_in(im, n, k);
        if (v != NULL && v->kind == UW_VALUE_CONST &&
            (v->derived || (computes && uw_import_learns(im, &v->t)))) {
            return true;
        }
    }
    return false;
}

int uw_import_fold(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_onnx_tensor *x[4] = {NULL};
    struct uw_onnx_tensor out = {.name = ""};
    struct uw_value *y = uw_import_out(im, n, 0);

    if (y == NULL) {
        return 0;
    }
    int rc = fold_split(im, n);
    rc = rc == 0 ? fold_clip(im, n) : rc;
    if (rc != 0) {
        return rc;
    }
    rc = 1;
    struct uw_value *shaped = strcmp(n->op, "Shape") == 0 ? uw_import_in(im, n, 0) : NULL;
    if (strcmp(n->op, "Constant") == 0) {
        rc = uw_fold_constant(im, n, &out);
    } else if (shaped != NULL && shaped->kind != UW_VALUE_OPAQUE) {
        rc = uw_fold_shape(im, n, shaped, &out);
    } else if (n->inputs_n > 0) {
        for (uint32_t k = 0; k < n->inputs_n; k++) {
            struct uw_value *v = uw_import_in(im, n, k);
            if (v == NULL || v->kind != UW_VALUE_CONST) {
                return 0;
            }
            x[k < 4 ? k : 3] = &v->t;
        }
        rc = compute(im, n, x, &out);
    }
    if (rc == UW_OK && n->inputs_n > 0 && x[0] != NULL) {
        rc = uw_fold_rise(im, n, x, &out);
    }
    if (rc == UW_OK) {
        y->kind = UW_VALUE_CONST;
        out.apart = out.apart || y->t.apart;
        out.one = out.one || y->t.one;
        y->t = out;
        y->derived = out.is_float && is_derived(im, n);
        return 1;
    }
    return rc > 0 ? 0 : rc;
}
