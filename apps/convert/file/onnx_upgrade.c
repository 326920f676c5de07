/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between opsets in a way that an operator's reader would have to know. Lists that are
 * an attribute in one opset and an input in another (axes, shape, starts, split) need nothing here:
 * uw_import_ints reads either. Operators that stand for several others (Attention and
 * RMSNormalization of opset 23; linear models of scikit-learn) become those. */
#include "onnx_reader.h"

#include <float.h>
#include <string.h>

struct upgrade {
    struct uw_pool *pool;
    struct uw_onnx_node *out;
    uint32_t n, cap;
    int64_t opset;
    bool failed;                    /* out of memory */
};

static void add(struct upgrade *u, const struct uw_onnx_node *node)
{
    u->out = uw_pool_grow(u->pool, u->out, u->n, &u->cap, sizeof *u->out);
    u->failed = u->failed || u->out == NULL;
    if (!u->failed) {
        u->out[u->n++] = *node;
    }
}

/* The node reads its first input and these two. */
static void set_inputs(struct upgrade *u, struct uw_onnx_node *n, const char *second,
                       const char *third)
{
    const char **in = uw_pool_take(u->pool, 3, sizeof *in);
    u->failed = u->failed || in == NULL;
    if (in != NULL) {
        in[0] = n->inputs_n > 0 ? n->input[0] : "";
        in[1] = second;
        in[2] = third;
        n->input = in;
        n->inputs_n = 3;
    }
}

/* A Constant with that attribute of `n`, under a new name. The attribute becomes `as`: value_float,
 * value_ints and so on. Returns the name of its value; "" when n has no such attribute. */
static const char *constant(struct upgrade *u, const struct uw_onnx_node *n, const char *attribute,
                            const char *as)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, attribute);
    struct uw_onnx_node c = {.op = "Constant", .domain = "", .overload = "", .attributes_n = 1,
                             .outputs_n = 1};
    if (a == NULL || n->outputs_n == 0) {
        return "";
    }
    c.name = uw_pool_format(u->pool, "%s/%s", n->output[0], attribute);
    c.attribute = uw_pool_take(u->pool, 1, sizeof *c.attribute);
    c.output = uw_pool_take(u->pool, 1, sizeof *c.output);
    if (c.name == NULL || c.attribute == NULL || c.output == NULL) {
        u->failed = true;
        return "";
    }
    c.attribute[0] = *a;
    c.attribute[0].name = as;
    c.output[0] = c.name;
    add(u, &c);
    return c.name;
}

/* An attribute more, of text. */
static void text(struct upgrade *u, struct uw_onnx_node *n, const char *name, const char *value)
{
    struct uw_onnx_attribute *all =
        uw_pool_take(u->pool, (uint64_t)n->attributes_n + 1, sizeof *all);
    if (all == NULL) {
        u->failed = true;
        return;
    }
    if (n->attributes_n > 0) {
        memcpy(all, n->attribute, n->attributes_n * sizeof *all);
    }
    all[n->attributes_n++] =
        (struct uw_onnx_attribute){.name = name, .reference = "", .s = value};
    n->attribute = all;
}

/* Clip 6: min and max are attributes. */
static void clip(struct upgrade *u, struct uw_onnx_node *n)
{
    const char *low = constant(u, n, "min", "value_float");
    set_inputs(u, n, low, constant(u, n, "max", "value_float"));
}

/* Pad 2: pads and value are attributes. */
static void pad(struct upgrade *u, struct uw_onnx_node *n)
{
    const char *pads = constant(u, n, "pads", "value_ints");
    set_inputs(u, n, pads, constant(u, n, "value", "value_float"));
}

/* Upsample 7 and 9, Resize 10: a Resize that takes the nearest element in front. */
static void resize(struct upgrade *u, struct uw_onnx_node *n)
{
    set_inputs(u, n, "", n->inputs_n > 1 ? n->input[1]
                                         : constant(u, n, "scales", "value_floats"));
    n->op = "Resize";
    text(u, n, "coordinate_transformation_mode", "asymmetric");
    text(u, n, "nearest_mode", "floor");
}

/* A node `op` of n's, which reads x and y (NULL: only x). Its attribute is an integer, where it has
 * a name. Returns the name of its output. */
static const char *part(struct upgrade *u, const struct uw_onnx_node *n, const char *op,
                        const char *x, const char *y, const char *attribute, int64_t value)
{
    struct uw_onnx_node p = {.op = op, .domain = "", .overload = "", .inputs_n = y != NULL ? 2 : 1,
                             .outputs_n = 1, .attributes_n = attribute != NULL ? 1 : 0};
    p.name = uw_pool_format(u->pool, "%s/%s%u", n->output[0], op, (unsigned)u->n);
    p.module = n->module;
    p.input = uw_pool_take(u->pool, 2, sizeof *p.input);
    p.output = uw_pool_take(u->pool, 1, sizeof *p.output);
    p.attribute = uw_pool_take(u->pool, 1, sizeof *p.attribute);
    if (p.name == NULL || p.input == NULL || p.output == NULL || p.attribute == NULL) {
        u->failed = true;
        return "";
    }
    p.input[0] = x;
    p.input[1] = y;
    p.output[0] = p.name;
    p.attribute[0] = (struct uw_onnx_attribute){.name = attribute, .reference = "", .i = value};
    add(u, &p);
    return p.name;
}

/* The last node that was added makes output 0 of n. */
static void end_parts(struct upgrade *u, const struct uw_onnx_node *n)
{
    if (!u->failed && u->n > 0) {
        u->out[u->n - 1].output[0] = n->output[0];
    }
}

static const char *number(struct upgrade *u, const struct uw_onnx_node *n, const char *name,
                          float value)
{
    struct uw_onnx_attribute a = {.name = name, .reference = "", .f = value};
    const struct uw_onnx_node with = {.output = n->output, .outputs_n = 1, .attribute = &a,
                                      .attributes_n = 1};
    return constant(u, &with, name, "value_float");
}

/* The scores with what a mask and is_causal add to them. An Attention of one input is its mask as
 * numbers to add. */
static const char *masked(struct upgrade *u, const struct uw_onnx_node *n, const char *scores)
{
    if (n->inputs_n > 3 && n->input[3][0] != '\0') {
        scores = part(u, n, "Add", scores, part(u, n, "Attention", n->input[3], NULL, NULL, 0),
                      NULL, 0);
    }
    if (uw_onnx_int(n, "is_causal", 0) != 0) {
        const char *size = part(u, n, "Shape", scores, NULL, "start", 2);
        const char *hidden = part(u, n, "Add", part(u, n, "ConstantOfShape", size, NULL, NULL, 0),
                                  number(u, n, "hidden", -FLT_MAX), NULL, 0);
        hidden = part(u, n, "Trilu", hidden, number(u, n, "diagonal", 1.0f), NULL, 0);
        scores = part(u, n, "Add", scores, hidden, NULL, 0);
    }
    return scores;
}

/* A node that reads x and has a list as its attribute. Returns the name of its output. */
static const char *listed(struct upgrade *u, const struct uw_onnx_node *n, const char *op,
                          const char *x, const char *attribute, const int64_t *list,
                          uint32_t list_n)
{
    const char *y = part(u, n, op, x, NULL, attribute, 0);
    if (!u->failed) {
        u->out[u->n - 1].attribute[0].ints = list;
        u->out[u->n - 1].attribute[0].ints_n = list_n;
        u->out[u->n - 1].inputs_n = x[0] != '\0' ? 1 : 0;
    }
    return y;
}

/* The size of an axis of x, as a list of one. */
static const char *size_of(struct upgrade *u, const struct uw_onnx_node *n, const char *x,
                           int64_t axis)
{
    static const int64_t first[1] = {0};
    const char *sizes = part(u, n, "Shape", x, NULL, "start", axis);
    return part(u, n, "Gather", sizes, listed(u, n, "Constant", "", "value_ints", first, 1),
                "axis", 0);
}

/* x as [N][heads of `like`][rows][last]: queries of heads that share a key are its rows. */
static const char *grouped(struct upgrade *u, const struct uw_onnx_node *n, const char *x,
                           const char *like, const char *last)
{
    static const int64_t keep[1] = {0}, rest[1] = {-1};
    const char *shape = listed(u, n, "Constant", "", "value_ints", keep, 1);
    shape = part(u, n, "Concat", shape, size_of(u, n, like, 1), "axis", 0);
    shape = part(u, n, "Concat", shape, listed(u, n, "Constant", "", "value_ints", rest, 1),
                 "axis", 0);
    return part(u, n, "Reshape", x, part(u, n, "Concat", shape, last, "axis", 0), NULL, 0);
}

/* [N][steps][heads * size] as [N][heads][steps][size]. */
static const char *split_heads(struct upgrade *u, const struct uw_onnx_node *n, const char *x,
                               int64_t heads)
{
    static const int64_t three[3] = {0, 1, 2}, heads_first[4] = {0, 2, 1, 3};
    int64_t *shape = uw_pool_take(u->pool, 4, sizeof *shape);
    if (shape == NULL) {
        u->failed = true;
        return "";
    }
    shape[0] = shape[1] = 0;
    shape[2] = heads;
    shape[3] = -1;
    x = listed(u, n, "Transpose", x, "perm", three, 3); /* other than three axes are refused */
    x = listed(u, n, "Reshape", x, "shape", shape, 4);
    return listed(u, n, "Transpose", x, "perm", heads_first, 4);
}

/* softmax(scale Q K^T + mask) V, of [N][heads][steps][size]; scale is by default 1 / sqrt(size).
 * Several heads of Q, one after the other, may share one of K and V. */
static void attend(struct upgrade *u, const struct uw_onnx_node *n, const char *const in[3])
{
    static const int64_t swap[4] = {0, 1, 3, 2};
    bool scaled = uw_onnx_attribute(n, "scale") != NULL;
    const char *steps = size_of(u, n, in[1], 2);
    const char *turned = listed(u, n, "Transpose", in[1], "perm", swap, 4);
    const char *rows = grouped(u, n, in[0], in[1], size_of(u, n, in[0], 3));
    const char *scores = part(u, n, "MatMul", rows, turned, NULL, 0);
    scores = grouped(u, n, scores, in[0], steps);
    if (scaled) {
        scores = part(u, n, "Mul", scores, constant(u, n, "scale", "value_float"), NULL, 0);
    } else {
        const char *size = part(u, n, "Shape", in[0], NULL, "start", 3);
        size = part(u, n, "Cast", size, NULL, "to", UW_ONNX_FLOAT);
        scores = part(u, n, "Div", scores, part(u, n, "Sqrt", size, NULL, NULL, 0), NULL, 0);
    }
    const char *share = part(u, n, "Softmax", masked(u, n, scores), NULL, "axis", -1);
    share = grouped(u, n, share, in[1], steps);
    grouped(u, n, part(u, n, "MatMul", share, in[2], NULL, 0), in[0], size_of(u, n, in[2], 3));
}

static bool attention(struct upgrade *u, struct uw_onnx_node *n)
{
    static const int64_t steps_first[4] = {0, 2, 1, 3}, joined[3] = {0, 0, -1};
    int64_t heads = uw_onnx_int(n, "q_num_heads", 0), shared = uw_onnx_int(n, "kv_num_heads", 0);
    bool simple = n->inputs_n >= 3 && n->outputs_n >= 1 && (heads != 0) == (shared != 0);
    for (uint32_t i = 4; i < n->inputs_n; i++) {
        simple = simple && n->input[i][0] == '\0';
    }
    for (uint32_t i = 1; i < n->outputs_n; i++) {
        simple = simple && n->output[i][0] == '\0';
    }
    if (!simple || uw_onnx_float(n, "softcap", 0.0f) != 0.0f || heads < 0 || shared < 0 ||
        uw_onnx_int(n, "left_window_size", -1) >= 0 ||
        uw_onnx_int(n, "right_window_size", -1) >= 0) {
        n->refused = "only Q, K and V of [N][heads][steps][size], or of [N][steps][features] with "
                     "the numbers of heads, are known, without cache, softcap and windows";
        return false;
    }
    const char *in[3] = {n->input[0], n->input[1], n->input[2]};
    for (uint32_t k = 0; k < 3 && heads != 0; k++) {
        in[k] = split_heads(u, n, in[k], k == 0 ? heads : shared);
    }
    attend(u, n, in);
    if (heads != 0 && !u->failed) {
        const char *y = u->out[u->n - 1].output[0];
        y = listed(u, n, "Transpose", y, "perm", steps_first, 4);
        listed(u, n, "Reshape", y, "shape", joined, 3);
    }
    end_parts(u, n);
    return true;
}

/* x / sqrt(mean(x^2) + epsilon) * scale over the last axis. */
static bool rms_norm(struct upgrade *u, struct uw_onnx_node *n)
{
    if (n->inputs_n != 2 || n->outputs_n == 0 || uw_onnx_int(n, "axis", -1) != -1) {
        n->refused = "only over the last axis (axis -1), with a scale";
        return false;
    }
    static const int64_t last[1] = {-1};
    const char *x = n->input[0];
    const char *mean = listed(u, n, "ReduceMean", part(u, n, "Mul", x, x, NULL, 0), "axes", last,
                              1);
    float epsilon = uw_onnx_float(n, "epsilon", 1e-5f);
    const char *sum = part(u, n, "Add", mean, number(u, n, "epsilon", epsilon), NULL, 0);
    const char *y = part(u, n, "Div", x, part(u, n, "Sqrt", sum, NULL, NULL, 0), NULL, 0);
    part(u, n, "Mul", y, n->input[1], NULL, 0);
    end_parts(u, n);
    return true;
}

/* ---- ai.onnx.ml, as scikit-learn's exporter writes it ---- */

/* (x - offset) * scale */
static bool scaler(struct upgrade *u, const struct uw_onnx_node *n)
{
    const char *offset = constant(u, n, "offset", "value_floats");
    const char *scale = constant(u, n, "scale", "value_floats");
    if (n->inputs_n != 1 || offset[0] == '\0' || scale[0] == '\0') {
        return false;
    }
    part(u, n, "Mul", part(u, n, "Sub", n->input[0], offset, NULL, 0), scale, NULL, 0);
    end_parts(u, n);
    return true;
}

/* x W^T + b, with a row of W for each of `rows` outputs. Returns its name; "": it has no such
 * numbers. */
static const char *linear(struct upgrade *u, const struct uw_onnx_node *n, uint32_t rows)
{
    const struct uw_onnx_attribute *w = uw_onnx_attribute(n, "coefficients");
    const struct uw_onnx_attribute *b = uw_onnx_attribute(n, "intercepts");
    int64_t *shape = uw_pool_take(u->pool, 2, sizeof *shape);
    const char **in = uw_pool_take(u->pool, 3, sizeof *in);
    if (shape == NULL || in == NULL) {
        u->failed = true;
        return "";
    }
    if (w == NULL || rows == 0 || w->floats_n == 0 || w->floats_n % rows != 0 ||
        n->inputs_n != 1 || (b != NULL && b->floats_n != rows)) {
        return "";
    }
    shape[0] = rows;
    shape[1] = w->floats_n / rows;
    const struct uw_onnx_attribute sizes = {.name = "shape", .reference = "", .ints = shape,
                                            .ints_n = 2};
    const struct uw_onnx_node with = {.output = n->output, .outputs_n = 1, .attributes_n = 1,
                                      .attribute = (struct uw_onnx_attribute *)&sizes};
    const char *flat = constant(u, n, "coefficients", "value_floats");
    in[0] = n->input[0];
    in[1] = part(u, n, "Reshape", flat, constant(u, &with, "shape", "value_ints"), NULL, 0);
    in[2] = constant(u, n, "intercepts", "value_floats");
    const char *y = part(u, n, "Gemm", in[0], in[1], "transB", 1);
    if (!u->failed) {
        u->out[u->n - 1].input = in;
        u->out[u->n - 1].inputs_n = b != NULL ? 3 : 2;
    }
    return y;
}

static bool linear_regressor(struct upgrade *u, struct uw_onnx_node *n)
{
    if (strcmp(uw_onnx_text(n, "post_transform", "NONE"), "NONE") != 0) {
        n->refused = "only with post_transform NONE";
        return false;
    }
    if (linear(u, n, (uint32_t)uw_onnx_int(n, "targets", 1))[0] == '\0') {
        return false;
    }
    end_parts(u, n);
    return true;
}

/* Half of the difference of two rows of which one is the other's opposite: the logistic function of
 * z is the softmax of -z/2 and z/2. Returns the attribute; NULL: they are not. */
static const struct uw_onnx_attribute *halves(struct upgrade *u, const struct uw_onnx_attribute *a)
{
    struct uw_onnx_attribute *half = uw_pool_take(u->pool, 1, sizeof *half);
    uint32_t rows = a != NULL && a->floats_n % 2 == 0 ? a->floats_n / 2 : 0;
    float *x = uw_pool_take(u->pool, 2 * (uint64_t)rows, sizeof *x);
    u->failed = u->failed || half == NULL || x == NULL;
    for (uint32_t i = 0; i < rows && !u->failed; i++) {
        if (a->floats[i] != -a->floats[rows + i]) {
            return NULL;
        }
        x[i] = a->floats[i] / 2.0f;
        x[rows + i] = -x[i];
    }
    if (u->failed || rows == 0) {
        return NULL;
    }
    *half = *a;
    half->floats = x;
    return half;
}

/* The class, and a value or probability for each of them. */
static bool linear_classifier(struct upgrade *u, struct uw_onnx_node *n)
{
    const struct uw_onnx_attribute *labels = uw_onnx_attribute(n, "classlabels_ints");
    const struct uw_onnx_attribute *names = uw_onnx_attribute(n, "classlabels_strings");
    const char *ends = uw_onnx_text(n, "post_transform", "NONE");
    uint32_t classes = labels != NULL && labels->ints_n > 0 ? labels->ints_n
                       : names != NULL                      ? names->strings_n : 0;
    struct uw_onnx_node m = *n;
    bool logistic = strcmp(ends, "LOGISTIC") == 0, softmax = strcmp(ends, "SOFTMAX") == 0;
    if (logistic) {
        struct uw_onnx_attribute *both = uw_pool_take(u->pool, 2, sizeof *both);
        const struct uw_onnx_attribute *w = halves(u, uw_onnx_attribute(n, "coefficients"));
        const struct uw_onnx_attribute *b = halves(u, uw_onnx_attribute(n, "intercepts"));
        if (classes != 2 || both == NULL || w == NULL || b == NULL) {
            n->refused = "post_transform LOGISTIC only of two classes: more need one model of all "
                         "classes, as LogisticRegression without OneVsRest";
            return false;
        }
        both[0] = *w;
        both[1] = *b;
        m.attribute = both;
        m.attributes_n = 2;
    }
    if (n->outputs_n < 2 || (!logistic && !softmax && strcmp(ends, "NONE") != 0)) {
        n->refused = "only with values of the classes, post_transform NONE, SOFTMAX or LOGISTIC";
        return false;
    }
    const char *scores = linear(u, &m, classes);
    if (scores[0] == '\0') {
        return false;
    }
    if (logistic || softmax) {
        scores = part(u, n, "Softmax", scores, NULL, "axis", 1);
    }
    part(u, n, "ArgMax", scores, NULL, "axis", 1); /* the class: only to name it */
    end_parts(u, n);
    part(u, n, "Identity", scores, NULL, NULL, 0);
    if (!u->failed) {
        u->out[u->n - 1].output[0] = n->output[1];
    }
    return true;
}

/* Whether a node of scikit-learn's domain has become others. */
static bool classic(struct upgrade *u, struct uw_onnx_node *n)
{
    if (n->outputs_n == 0) {
        return false;
    }
    if (strcmp(n->op, "Scaler") == 0) {
        return scaler(u, n);
    }
    if (strcmp(n->op, "LinearRegressor") == 0) {
        return linear_regressor(u, n);
    }
    return strcmp(n->op, "LinearClassifier") == 0 && linear_classifier(u, n);
}

static void upgrade(struct upgrade *u, const struct uw_onnx_node *from)
{
    struct uw_onnx_node n = *from;
    bool own = n.domain[0] != '\0' && strcmp(n.domain, "ai.onnx") != 0;
    if (own) {
        if (strcmp(n.domain, "ai.onnx.ml") != 0 || !classic(u, &n)) {
            add(u, &n);
        }
        return;
    }
    if (u->opset >= 23 && ((strcmp(n.op, "Attention") == 0 && attention(u, &n)) ||
                           (strcmp(n.op, "RMSNormalization") == 0 && rms_norm(u, &n)))) {
        return;
    }
    if (u->opset < 11 && strcmp(n.op, "Clip") == 0) {
        clip(u, &n);
    } else if (u->opset < 11 && strcmp(n.op, "Pad") == 0) {
        pad(u, &n);
    } else if (strcmp(n.op, "Upsample") == 0 || (u->opset < 11 && strcmp(n.op, "Resize") == 0)) {
        resize(u, &n);
    } else if (u->opset < 9 && strcmp(n.op, "BatchNormalization") == 0 &&
               uw_onnx_int(&n, "spatial", 1) == 0) {
        n.refused = "spatial 0, statistics of every pixel: only those of a channel are known";
    }
    add(u, &n);
}

int uw_onnx_upgrade(struct uw_pool *pool, struct uw_onnx_node **node, uint32_t *nodes_n,
                    int64_t opset)
{
    struct upgrade u = {.pool = pool, .opset = opset};
    for (uint32_t i = 0; i < *nodes_n; i++) {
        struct uw_onnx_node *n = &(*node)[i];
        for (uint32_t k = 0; k < n->attributes_n; k++) {
            struct uw_onnx_graph *g = n->attribute[k].g;
            if (g != NULL && uw_onnx_upgrade(pool, &g->node, &g->nodes_n, opset) < 0) {
                return UW_ERR_NOMEM;
            }
        }
        upgrade(&u, n);
    }
    *node = u.out;
    *nodes_n = u.n;
    return u.failed ? UW_ERR_NOMEM : UW_OK;
}
