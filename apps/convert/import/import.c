/* SPDX-License-Identifier: Apache-2.0 */
#include "import_const.h"
#include "import_graph.h"

#include <stdio.h>
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
    {"CastLike", uw_op_cast_like},
    {"Celu", uw_op_function},
    {"Clip", uw_op_clip},
    {"Concat", uw_op_concat},
    {"Conv", uw_op_conv},
    {"ConvTranspose", uw_op_conv_transpose},
    {"DepthToSpace", uw_op_depth_to_space},
    {"DequantizeLinear", uw_op_dequantize},
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
    {"GroupNormalization", uw_op_groupnorm},
    {"HardSigmoid", uw_op_function},
    {"HardSwish", uw_op_function},
    {"Identity", uw_op_identity},
    {"If", uw_op_if},
    {"InstanceNormalization", uw_op_instancenorm},
    {"LRN", uw_op_lrn},
    {"LSTM", uw_op_recurrent},
    {"LayerNormalization", uw_op_layernorm},
    {"LeakyRelu", uw_op_leaky_relu},
    {"Log", uw_op_function},
    {"LogSoftmax", uw_op_softmax},
    {"Loop", uw_op_loop},
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
    {"Scan", uw_op_loop},
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
    return "Abs Add Attention AveragePool BatchNormalization Cast CastLike Celu Clip Concat Conv "
           "ConvTranspose DepthToSpace Div Dropout Elu Erf Exp Expand Flatten GRU Gather Gelu "
           "Gemm GlobalAveragePool GlobalMaxPool GroupNormalization HardSigmoid HardSwish "
           "Identity InstanceNormalization LRN LSTM LayerNormalization LeakyRelu Log LogSoftmax "
           "MatMul Max MaxPool Mean Min Mish Mul Neg PRelu Pad Pow RMSNormalization RNN "
           "Reciprocal ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
           "ReduceSum ReduceSumSquare Relu Reshape Resize Selu Sigmoid Slice Softmax Softplus "
           "Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tanh ThresholdedRelu Tile "
           "Transpose Unsqueeze Upsample Where; "
           "of constants also And ConstantOfShape DequantizeLinear Equal Floor Greater If Less "
           "Mod Not Or Shape and the like";
}

int uw_import_declare(struct uw_import *im, const char *name, const struct uw_onnx_node *n,
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

int uw_import_declare_constants(struct uw_import *im, const struct uw_onnx_graph *g)
{
    for (uint32_t i = 0; i < g->initializers_n; i++) {
        struct uw_value *v;
        int rc = uw_import_declare(im, g->initializer[i].name, NULL, &v);
        if (rc < 0) {
            return rc;
        }
        v->kind = g->initializer[i].refused == NULL ? UW_VALUE_CONST : UW_VALUE_OPAQUE;
        v->why = g->initializer[i].refused;
        v->code = g->initializer[i].code;
        v->t = g->initializer[i];
    }
    return UW_OK;
}

/* The names that a graph makes, those of graphs within its nodes too. */
static uint64_t count_names(const struct uw_onnx_graph *g)
{
    uint64_t names = (uint64_t)g->initializers_n + g->inputs_n;
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        names += g->node[i].outputs_n;
        for (uint32_t k = 0; k < g->node[i].attributes_n; k++) {
            names += g->node[i].attribute[k].g != NULL ? count_names(g->node[i].attribute[k].g)
                                                       : 0;
        }
    }
    return names;
}

static int make_map(struct uw_import *im)
{
    uint64_t names = count_names(&im->graph);
    im->map_n = 16;
    while (im->map_n < 2 * names && im->map_n < 1u << 30) {
        im->map_n *= 2;
    }
    im->map = uw_pool_take(im->pool, im->map_n, sizeof *im->map);
    return im->map != NULL ? uw_import_declare_constants(im, &im->graph) : uw_import_nomem(im);
}

static int find_inputs(struct uw_import *im)
{
    const struct uw_onnx_graph *g = &im->graph;
    const struct uw_onnx_value_info *x[UW_IMPORT_INPUTS_MAX];
    uint32_t inputs_n = 0;
    for (uint32_t i = 0; i < g->inputs_n; i++) {
        if (uw_import_value(im, g->input[i].name) != NULL) {
            continue;
        }
        if (inputs_n == UW_IMPORT_INPUTS_MAX) {
            return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED, "more than %u inputs",
                                    UW_IMPORT_INPUTS_MAX);
        }
        x[inputs_n++] = &g->input[i];
    }
    return inputs_n != 0
               ? uw_import_inputs(im, x, inputs_n)
               : uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED, "the graph has no input");
}

/* Count the readers of values around the graphs within a node. */
static void count_inner_readers(struct uw_import *im, const struct uw_onnx_node *n)
{
    for (uint32_t a = 0; a < n->attributes_n; a++) {
        const struct uw_onnx_graph *g = n->attribute[a].g;
        for (uint32_t i = 0; g != NULL && i < g->nodes_n; i++) {
            for (uint32_t k = 0; k < g->node[i].inputs_n; k++) {
                struct uw_value *v = uw_import_value(im, g->node[i].input[k]);
                if (v != NULL) {
                    v->users_n++;
                }
            }
            count_inner_readers(im, &g->node[i]);
        }
        for (uint32_t i = 0; g != NULL && i < g->outputs_n; i++) {
            struct uw_value *v = uw_import_value(im, g->output[i].name);
            if (v != NULL) {
                v->users_n++;
            }
        }
    }
}

int uw_import_declare_nodes(struct uw_import *im, const struct uw_onnx_graph *g)
{
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        const struct uw_onnx_node *n = &g->node[i];
        struct uw_value *v;
        for (uint32_t k = 0; k < n->inputs_n; k++) {
            v = uw_import_value(im, n->input[k]);
            if (v == NULL && n->input[k][0] != '\0') {
                return uw_import_refuse(im, n, UW_ERR_CORRUPT,
                                        "reads '%.60s', which nothing makes: a damaged file",
                                        n->input[k]);
            }
            if (v != NULL) {
                v->users_n++;
            }
        }
        count_inner_readers(im, n);
        for (uint32_t k = 0; k < n->outputs_n; k++) {
            int rc = n->output[k][0] != '\0' ? uw_import_declare(im, n->output[k], n, &v) : UW_OK;
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
    if (n->refused != NULL) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "%s", n->refused);
    }
    for (uint32_t k = 0; k < n->attributes_n; k++) {
        const struct uw_onnx_tensor *t = n->attribute[k].t;
        if (t != NULL && t->refused != NULL) {
            return uw_error_set(im->err, t->code, "%s", t->refused);
        }
    }
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        const struct uw_value *v = uw_import_in(im, n, k);
        if (v != NULL && v->kind == UW_VALUE_OPAQUE && v->t.refused != NULL) {
            return uw_error_set(im->err, v->code, "%s", v->why);
        }
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

int uw_import_run(struct uw_import *im, const struct uw_onnx_graph *g)
{
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        const struct uw_onnx_node *n = &g->node[i];
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

/* Tell of batch norms that an exporter has folded into other layers. PyTorch's older exporter does
 * not say so, but leaves a computed constant as a convolution's weight. */
static int tell_folding(struct uw_import *im)
{
    const struct uw_onnx_graph *g = &im->graph;
    const char *evidence = g->folded_batchnorm;
    bool kept = false;
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        const struct uw_onnx_node *n = &g->node[i];
        kept = kept || strcmp(n->op, "BatchNormalization") == 0;
        const char *made = n->outputs_n > 0 ? n->output[0] : "";
        if (evidence == NULL && (strncmp(n->op, "Conv", 4) == 0 || strcmp(n->op, "Gemm") == 0) &&
            (strstr(made, "BatchNorm") != NULL || strstr(made, "batch_norm") != NULL)) {
            evidence = uw_pool_format(im->pool, "node '%.60s' makes '%.80s'", n->name, made);
        }
        if (evidence == NULL && strncmp(n->op, "Conv", 4) == 0 && n->inputs_n > 2 &&
            strncmp(n->input[1], "onnx::Conv", 10) == 0 &&
            strncmp(n->input[2], "onnx::Conv", 10) == 0) {
            evidence = uw_pool_format(im->pool, "the weights of node '%.60s' are computed",
                                      n->name);
        }
    }
    if (evidence == NULL || (kept && g->folded_batchnorm == NULL)) {
        return UW_OK;
    }
    const char *note = uw_pool_format(im->pool, "batch norm was folded into the layers in front "
                                      "(%s), so it is not trained; PyTorch keeps it with "
                                      "torch.onnx.export(..., dynamo=False, do_constant_folding="
                                      "False, training=torch.onnx.TrainingMode.TRAINING)",
                                      evidence);
    if (note == NULL) {
        return uw_import_nomem(im);
    }
    uw_import_note(im, note);
    return UW_OK;
}

/* What the file says of an output; before the value is arranged as a layer's output. */
static void describe_output(const struct uw_import *im, const struct uw_onnx_value_info *info,
                            const struct uw_value *v, struct uw_convert_end *end)
{
    static const char *const ends[] = {"Softmax", "LogSoftmax", "Sigmoid"};
    const struct uw_onnx_node *n = v->node;
    *end = (struct uw_convert_end){.name = info->name, .type = info->type,
                                   .rank = v->view.axes_n, .symbol = im->out->input.symbol};
    for (uint32_t a = 0; a < end->rank; a++) {
        uint64_t size = uw_view_dim(&v->view, a);
        bool batch = uw_view_is_batch(&v->view, a);
        end->batch = batch ? a : end->batch;
        end->dim[a] = batch && im->batch == UW_BATCH_SYMBOL ? 0 : (uint32_t)size;
    }
    for (size_t i = 0; n != NULL && i < sizeof ends / sizeof ends[0]; i++) {
        if (strcmp(n->op, ends[i]) == 0 && im->layer[v->view.layer - 1]->node != n) {
            end->left_out = ends[i];
            end->axis = uw_onnx_int(n, "axis", im->graph.opset < 13 ? 1 : -1);
        }
    }
}

/* The outputs that are trained: --output, or all. Returns UW_OK, or a code with err set. */
static int choose_outputs(struct uw_import *im, const struct uw_onnx_value_info **chosen,
                          uint32_t *chosen_n)
{
    const struct uw_onnx_graph *g = &im->graph;
    const char *name = im->options->output;
    char others[160] = "";
    size_t used = 0;
    *chosen_n = 0;
    if (name == NULL && g->outputs_n > UW_LOSSES_MAX) {
        return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED, "%u outputs: needs one, the logits: "
                                "--output NAME chooses it", (unsigned)g->outputs_n);
    }
    for (uint32_t i = 0; i < g->outputs_n; i++) {
        if (name == NULL || strcmp(g->output[i].name, name) == 0) {
            chosen[(*chosen_n)++] = &g->output[i];
        } else if (used < sizeof others) {
            used += (size_t)snprintf(others + used, sizeof others - used, "%s'%.60s'",
                                     used > 0 ? ", " : "", g->output[i].name);
        }
        if (*chosen_n > 0 && name != NULL && *chosen_n == UW_LOSSES_MAX) {
            break; /* a damaged file: names are unique */
        }
    }
    if (*chosen_n == 0) {
        return uw_import_refuse(im, NULL, UW_ERR_INVALID, "--output %.60s: no such output: it has "
                                "%.120s", name, others);
    }
    const char *note = used > 0 ? uw_pool_format(im->pool, "output '%s' is trained; %s %s left out",
                                                 name, others,
                                                 g->outputs_n - *chosen_n > 1 ? "are" : "is")
                                : "";
    if (note == NULL) {
        return uw_import_nomem(im);
    }
    if (used > 0) {
        uw_import_note(im, note);
    }
    return UW_OK;
}

static int finish(struct uw_import *im, struct uw_convert_model *m)
{
    const struct uw_onnx_value_info *info[UW_LOSSES_MAX];
    struct uw_value *out[UW_LOSSES_MAX];
    uint32_t outputs_n;
    int rc = choose_outputs(im, info, &outputs_n);
    for (uint32_t i = 0; i < outputs_n && rc == UW_OK; i++) {
        out[i] = uw_import_value(im, info[i]->name);
        if (out[i] != NULL && out[i]->kind == UW_VALUE_DATA && out[i]->view.layer != 0) {
            describe_output(im, info[i], out[i], &m->output[i]);
        }
        rc = check_output(im, out[i], info[i]->name);
        const struct uw_view *v = rc == UW_OK ? &out[i]->view : NULL;
        if (v != NULL && i > 0 &&
            (v->n != out[0]->view.n || v->rank != 1 || out[0]->view.rank != 1)) {
            return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED,
                                    "outputs '%.40s' and '%.40s': needs one, the logits, or heads "
                                    "of the same classes: --output %.40s trains that one and "
                                    "leaves out the others", info[0]->name, info[i]->name,
                                    info[0]->name);
        }
    }
    if (rc < 0) {
        return rc;
    }
    m->outputs_n = outputs_n;
    const struct uw_view *x = &im->input->view;
    m->def.in_channels = (uint32_t)x->dim[0];
    m->def.in_h = x->rank == 3 ? (uint32_t)x->dim[1] : 0;
    m->def.in_w = x->rank == 3 ? (uint32_t)x->dim[2] : x->rank == 2 ? (uint32_t)x->dim[1] : 0;
    rc = uw_import_finish(im, m, out, outputs_n);
    rc = rc < 0 ? rc : tell_folding(im);
    memcpy(m->notes, im->notes, sizeof m->notes);
    m->notes_n = im->notes_n;
    return rc;
}

int uw_convert_read_with(struct uw_convert_model *c, const struct uw_convert_options *o,
                         const void *bytes, size_t bytes_n, const char *name,
                         struct uw_error *err)
{
    static const struct uw_convert_options nothing = {.output = NULL};
    struct uw_error unused;
    struct uw_pool *pool, first = {.blocks = NULL};

    *c = (struct uw_convert_model){.tensors_n = 0};
    o = o != NULL ? o : &nothing;
    err = err != NULL ? err : &unused;
    *err = (struct uw_error){.text = ""};
    pool = uw_pool_take(&first, 1, sizeof *pool);
    if (pool == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.60s: out of memory", name);
    }
    *pool = first; /* the pool lies in its own first block */
    struct uw_import im = {.pool = pool, .file = name, .options = o, .out = c, .err = err,
                           .folded_max = 16u * UW_FOLD_MAX + bytes_n};
    int rc = uw_onnx_read(&im.graph, pool, name, bytes, bytes_n, o->files, err);
    rc = rc < 0 ? rc : make_map(&im);
    rc = rc < 0 ? rc : find_inputs(&im);
    rc = rc < 0 ? rc : uw_import_declare_nodes(&im, &im.graph);
    rc = rc < 0 ? rc : uw_import_run(&im, &im.graph);
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

int uw_convert_read(struct uw_convert_model *c, const void *bytes, size_t bytes_n,
                    const char *name, struct uw_error *err)
{
    return uw_convert_read_with(c, NULL, bytes, bytes_n, name, err);
}

void uw_convert_deinit(struct uw_convert_model *c)
{
    if (c->memory != NULL) {
        struct uw_pool last = *(struct uw_pool *)c->memory;
        uw_pool_deinit(&last);
    }
    *c = (struct uw_convert_model){.tensors_n = 0};
}
