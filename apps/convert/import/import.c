/* SPDX-License-Identifier: Apache-2.0 */
#include "import_const.h"

#include <string.h>

static const struct {
    const char *op;
    uw_import_op *run;
} table[] = {
    {"Abs", uw_op_function},
    {"Add", uw_op_arithmetic},
    {"AveragePool", uw_op_pool},
    {"BatchNormalization", uw_op_batchnorm},
    {"Cast", uw_op_identity},
    {"CastLike", uw_op_identity},
    {"Celu", uw_op_function},
    {"Clip", uw_op_clip},
    {"Concat", uw_op_concat},
    {"Conv", uw_op_conv},
    {"ConvTranspose", uw_op_conv_transpose},
    {"DepthToSpace", uw_op_depth_to_space},
    {"Div", uw_op_arithmetic},
    {"Dropout", uw_op_dropout},
    {"Elu", uw_op_function},
    {"Erf", uw_op_function},
    {"Exp", uw_op_function},
    {"Expand", uw_op_expand},
    {"Flatten", uw_op_flatten},
    {"GRU", uw_op_recurrent},
    {"Gather", uw_op_gather},
    {"Gelu", uw_op_gelu},
    {"Gemm", uw_op_gemm},
    {"GlobalAveragePool", uw_op_global_pool},
    {"GlobalMaxPool", uw_op_global_pool},
    {"HardSigmoid", uw_op_function},
    {"HardSwish", uw_op_function},
    {"Identity", uw_op_identity},
    {"InstanceNormalization", uw_op_instancenorm},
    {"LRN", uw_op_lrn},
    {"LSTM", uw_op_recurrent},
    {"LayerNormalization", uw_op_layernorm},
    {"LeakyRelu", uw_op_leaky_relu},
    {"Log", uw_op_function},
    {"LogSoftmax", uw_op_softmax},
    {"MatMul", uw_op_matmul},
    {"Max", uw_op_arithmetic},
    {"MaxPool", uw_op_pool},
    {"Mean", uw_op_arithmetic},
    {"Min", uw_op_arithmetic},
    {"Mish", uw_op_function},
    {"Mul", uw_op_arithmetic},
    {"Neg", uw_op_function},
    {"PRelu", uw_op_prelu},
    {"Pad", uw_op_pad},
    {"Pow", uw_op_arithmetic},
    {"RNN", uw_op_recurrent},
    {"Reciprocal", uw_op_function},
    {"ReduceL1", uw_op_reduce},
    {"ReduceL2", uw_op_reduce},
    {"ReduceLogSumExp", uw_op_reduce},
    {"ReduceMax", uw_op_reduce},
    {"ReduceMean", uw_op_reduce},
    {"ReduceMin", uw_op_reduce},
    {"ReduceSum", uw_op_reduce},
    {"ReduceSumSquare", uw_op_reduce},
    {"Relu", uw_op_function},
    {"Reshape", uw_op_reshape},
    {"Resize", uw_op_resize},
    {"Selu", uw_op_function},
    {"Sigmoid", uw_op_function},
    {"Slice", uw_op_slice},
    {"Softmax", uw_op_softmax},
    {"Softplus", uw_op_function},
    {"Softsign", uw_op_function},
    {"SpaceToDepth", uw_op_depth_to_space},
    {"Split", uw_op_split},
    {"Sqrt", uw_op_function},
    {"Squeeze", uw_op_squeeze},
    {"Sub", uw_op_arithmetic},
    {"Sum", uw_op_arithmetic},
    {"Swish", uw_op_function},
    {"Tanh", uw_op_function},
    {"ThresholdedRelu", uw_op_function},
    {"Tile", uw_op_expand},
    {"Transpose", uw_op_transpose},
    {"Unsqueeze", uw_op_unsqueeze},
    {"Upsample", uw_op_resize},
    {"Where", uw_op_where},
};
#define OPS_N (sizeof table / sizeof table[0])

const char *uw_convert_operators(void)
{
    return "Abs Add AveragePool BatchNormalization Cast CastLike Celu Clip Concat Conv "
           "ConvTranspose DepthToSpace Div Dropout Elu Erf Exp Expand Flatten GRU Gather "
           "Gelu Gemm GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish Identity "
           "InstanceNormalization LRN LSTM LayerNormalization LeakyRelu Log LogSoftmax "
           "MatMul Max MaxPool Mean Min Mish Mul Neg PRelu Pad Pow RNN Reciprocal ReduceL1 "
           "ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceSum "
           "ReduceSumSquare Relu Reshape Resize Selu Sigmoid Slice Softmax Softplus Softsign "
           "SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tanh ThresholdedRelu Tile "
           "Transpose Unsqueeze Upsample Where; "
           "of constants also And ConstantOfShape Equal Floor Greater Less Mod Not Or Range Shape "
           "Trilu and the like";
}

/* Add a value for a name; a name may be defined only once. */
static int declare(struct uw_import *im, const char *name, const struct uw_onnx_node *n,
                   struct uw_value **out)
{
    struct uw_value **slot = uw_import_slot(im, name);
    if (*slot != NULL) {
        return uw_import_refuse(im, n, UW_ERR_CORRUPT, "'%.80s' is made twice", name);
    }
    *slot = uw_pool_take(im->pool, 1, sizeof **slot);
    if (*slot == NULL) {
        return uw_import_nomem(im);
    }
    (*slot)->name = name;
    (*slot)->node = n;
    *out = *slot;
    return UW_OK;
}

static int make_map(struct uw_import *im)
{
    const struct uw_onnx_graph *g = &im->graph;
    uint64_t names = (uint64_t)g->initializers_n + g->inputs_n;
    struct uw_value *v = NULL;
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        names += g->node[i].outputs_n;
    }
    im->map_n = 16;
    while (im->map_n < 2 * names && im->map_n < 1u << 30) {
        im->map_n *= 2;
    }
    im->map = uw_pool_take(im->pool, im->map_n, sizeof *im->map);
    if (im->map == NULL) {
        return uw_import_nomem(im);
    }
    for (uint32_t i = 0; i < g->initializers_n; i++) {
        int rc = declare(im, g->initializer[i].name, NULL, &v);
        if (rc < 0) {
            return rc;
        }
        v->kind = UW_VALUE_CONST;
        v->t = g->initializer[i];
    }
    return UW_OK;
}

/* Set the input, the only one that is not an initializer. Its symbolic axis, or else the first, is
 * the minibatch. */
static int set_input(struct uw_import *im, const struct uw_onnx_value_info *x)
{
    uint32_t batch = 0;
    uint32_t symbols = 0;
    if (!x->shaped || x->rank < 2 || x->rank > 4) {
        return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED,
                                "input '%.60s' has %u axes: needs the minibatch and 1 to 3 more",
                                x->name, x->shaped ? (unsigned)x->rank : 0);
    }
    for (uint32_t a = 0; a < x->rank; a++) {
        batch = x->dim[a] == 0 ? a : batch;
        symbols += x->dim[a] == 0 ? 1 : 0;
        if (x->dim[a] > INT32_MAX) {
            return uw_import_refuse(im, NULL, UW_ERR_TOOBIG, "input '%.60s' is too large",
                                    x->name);
        }
    }
    if (symbols > 1) {
        return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED,
                                "input '%.60s' has %u axes of no fixed size: export with a "
                                "dynamic minibatch only", x->name, (unsigned)symbols);
    }
    im->batch = x->dim[batch] != 0 ? (uint64_t)x->dim[batch] : UW_BATCH_SYMBOL;
    int rc = declare(im, x->name, NULL, &im->input);
    if (rc < 0) {
        return rc;
    }
    struct uw_view *v = &im->input->view;
    uint64_t stride = 1;
    *v = (struct uw_view){.rank = x->rank - 1, .axes_n = x->rank,
                          .atoms_n = x->rank, .dim = {1, 1, 1, 1}};
    im->input->kind = UW_VALUE_DATA;
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
    uint64_t dims[UW_ONNX_RANK_MAX];
    uw_view_dims(v, dims);
    uw_view_reshape(v, dims, x->rank);
    return UW_OK;
}

static int find_input(struct uw_import *im)
{
    const struct uw_onnx_graph *g = &im->graph;
    const struct uw_onnx_value_info *x = NULL;
    for (uint32_t i = 0; i < g->inputs_n; i++) {
        if (uw_import_value(im, g->input[i].name) == NULL) {
            if (x != NULL) {
                return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED,
                                        "inputs '%.60s' and '%.60s': a model has one", x->name,
                                        g->input[i].name);
            }
            x = &g->input[i];
        }
    }
    return x != NULL ? set_input(im, x)
                     : uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED, "the graph has no input");
}

/* Add values for every node's outputs, and count the nodes that read each value. */
static int declare_nodes(struct uw_import *im)
{
    struct uw_onnx_graph *g = &im->graph;
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        const struct uw_onnx_node *n = &g->node[i];
        struct uw_value *v;
        for (uint32_t k = 0; k < n->inputs_n; k++) {
            v = uw_import_value(im, n->input[k]);
            if (v == NULL && n->input[k][0] != '\0') {
                return uw_import_refuse(im, n, UW_ERR_CORRUPT,
                                        "reads '%.60s', which no earlier node makes: a cycle, or "
                                        "a damaged file", n->input[k]);
            }
            if (v != NULL) {
                v->users_n++;
            }
        }
        for (uint32_t k = 0; k < n->outputs_n; k++) {
            int rc = n->output[k][0] != '\0' ? declare(im, n->output[k], n, &v) : UW_OK;
            if (rc < 0) {
                return rc;
            }
        }
    }
    for (uint32_t i = 0; i < g->outputs_n; i++) {
        struct uw_value *v = uw_import_value(im, g->output[i].name);
        if (v != NULL) {
            v->users_n++;
        }
    }
    return UW_OK;
}

static int run_node(struct uw_import *im, const struct uw_onnx_node *n)
{
    if (n->domain[0] != '\0' && strcmp(n->domain, "ai.onnx") != 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "is of domain '%.40s', not of ONNX",
                                n->domain);
    }
    int rc = uw_import_fold(im, n);
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < OPS_N; i++) {
        if (strcmp(table[i].op, n->op) == 0) {
            return table[i].run(im, n);
        }
    }
    if (uw_import_opaque_input(im, n)) {
        return im->err->code;
    }
    return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                            "cannot be trained here, or not in this place; uwasa convert --help "
                            "lists the operators and where they may stand");
}

/* Outputs that a handler did not set, such as a mask, are an error if something reads them. */
static int close_outputs(struct uw_import *im, const struct uw_onnx_node *n)
{
    for (uint32_t k = 0; k < n->outputs_n; k++) {
        struct uw_value *y = uw_import_out(im, n, k);
        if (y == NULL || y->kind != UW_VALUE_OPAQUE || y->why != NULL || y->users_n == 0) {
            continue;
        }
        struct uw_error why = {.text = ""};
        struct uw_error *kept = im->err;
        im->err = &why;
        y->code = uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its output %u is read, which is "
                                   "not computed here", (unsigned)k + 1);
        im->err = kept;
        y->why = uw_pool_text(im->pool, why.text, strlen(why.text));
        if (y->why == NULL) {
            return uw_import_nomem(im);
        }
    }
    return UW_OK;
}

static int run_nodes(struct uw_import *im)
{
    for (uint32_t i = 0; i < im->graph.nodes_n; i++) {
        const struct uw_onnx_node *n = &im->graph.node[i];
        im->err->code = UW_OK;
        int rc = run_node(im, n);
        if (rc == UW_ERR_NOMEM) {
            return rc;
        }
        if (rc < 0) {
            struct uw_error why = *im->err;
            rc = uw_import_opaque(im, n, rc, why.text);
        } else {
            rc = close_outputs(im, n);
        }
        if (rc < 0) {
            return rc;
        }
    }
    *im->err = (struct uw_error){.text = ""};
    return UW_OK;
}

static int check_output(struct uw_import *im, struct uw_value *v, const char *name)
{
    if (v == NULL || v->kind == UW_VALUE_CONST) {
        return uw_import_refuse(im, NULL, UW_ERR_CORRUPT, "output '%.80s' does not depend on the "
                                "input", name);
    }
    if (v->kind == UW_VALUE_OPAQUE) {
        return uw_error_set(im->err, v->code, "%s", v->why);
    }
    if (v->view.layer == 0) {
        return uw_import_refuse(im, v->node, UW_ERR_UNSUPPORTED, "the output is not a layer's");
    }
    return uw_import_arrange(im, v->node, &v->view, 3);
}

static int finish(struct uw_import *im, struct uw_convert_model *m)
{
    const struct uw_onnx_graph *g = &im->graph;
    struct uw_value *out[UW_LOSSES_MAX];
    if (g->outputs_n > UW_LOSSES_MAX) {
        return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED, "%u outputs: needs one, the logits",
                                (unsigned)g->outputs_n);
    }
    for (uint32_t i = 0; i < g->outputs_n; i++) {
        out[i] = uw_import_value(im, g->output[i].name);
        int rc = check_output(im, out[i], g->output[i].name);
        if (rc < 0) {
            return rc;
        }
        const struct uw_view *v = &out[i]->view;
        if (i > 0 && (v->n != out[0]->view.n || v->rank != 1 || out[0]->view.rank != 1)) {
            return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED,
                                    "outputs '%.60s' and '%.60s': needs one, the logits; more only "
                                    "as heads of the same classes", g->output[0].name,
                                    g->output[i].name);
        }
    }
    const struct uw_view *x = &im->input->view;
    m->def.in_channels = (uint32_t)x->dim[0];
    m->def.in_h = x->rank == 3 ? (uint32_t)x->dim[1] : 0;
    m->def.in_w = x->rank == 3 ? (uint32_t)x->dim[2] : x->rank == 2 ? (uint32_t)x->dim[1] : 0;
    int rc = uw_import_finish(im, m, out, g->outputs_n);
    memcpy(m->notes, im->notes, sizeof m->notes);
    m->notes_n = im->notes_n;
    return rc;
}

int uw_convert_read(struct uw_convert_model *c, const void *bytes, size_t bytes_n,
                    const char *name, struct uw_error *err)
{
    struct uw_error unused;
    struct uw_pool *pool, first = {.blocks = NULL};

    *c = (struct uw_convert_model){.tensors_n = 0};
    err = err != NULL ? err : &unused;
    *err = (struct uw_error){.text = ""};
    pool = uw_pool_take(&first, 1, sizeof *pool);
    if (pool == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.60s: out of memory", name);
    }
    *pool = first; /* the pool lies in its own first block */
    struct uw_import im = {.pool = pool, .file = name, .err = err,
                           .folded_max = 16u * UW_FOLD_MAX + bytes_n};
    int rc = uw_onnx_read(&im.graph, pool, name, bytes, bytes_n, err);
    rc = rc < 0 ? rc : make_map(&im);
    rc = rc < 0 ? rc : find_input(&im);
    rc = rc < 0 ? rc : declare_nodes(&im);
    rc = rc < 0 ? rc : run_nodes(&im);
    c->memory = pool;
    rc = rc < 0 ? rc : finish(&im, c);
    c->def.name = uw_pool_text(pool, name, strlen(name));
    if (rc == UW_OK && c->def.name == NULL) {
        rc = uw_import_nomem(&im);
    }
    if (rc < 0) {
        uw_convert_deinit(c);
    }
    return rc;
}

void uw_convert_deinit(struct uw_convert_model *c)
{
    if (c->memory != NULL) {
        struct uw_pool last = *(struct uw_pool *)c->memory;
        uw_pool_deinit(&last);
    }
    *c = (struct uw_convert_model){.tensors_n = 0};
}
