/* SPDX-License-Identifier: Apache-2.0 */
#include "import_graph.h"
#include "import_parts.h"

#include <string.h>

static const struct {
    const char *op;
    uw_import_op *run;
} table[] = {
    {"Abs", uw_op_function},
    {"Add", uw_op_arithmetic},
    {"And", uw_op_logic},
    {"Attention", uw_op_attention_mask},
    {"AveragePool", uw_op_pool},
    {"BatchNormalization", uw_op_batchnorm},
    {"Cast", uw_op_cast},
    {"CastLike", uw_op_cast_like},
    {"Celu", uw_op_function},
    {"Clip", uw_op_clip},
    {"Concat", uw_op_concat},
    {"Conv", uw_op_conv},
    {"ConvTranspose", uw_op_conv_transpose},
    {"Cos", uw_op_function},
    {"CumSum", uw_op_cumsum},
    {"DepthToSpace", uw_op_depth_to_space},
    {"DequantizeLinear", uw_op_dequantize},
    {"Div", uw_op_arithmetic},
    {"Dropout", uw_op_dropout},
    {"Einsum", uw_op_einsum},
    {"Elu", uw_op_function},
    {"Equal", uw_op_compare},
    {"Erf", uw_op_function},
    {"Erfc", uw_op_erfc},
    {"Exp", uw_op_function},
    {"Expand", uw_op_expand},
    {"Flatten", uw_op_flatten},
    {"GRU", uw_op_recurrent},
    {"Gather", uw_op_gather},
    {"GatherElements", uw_op_gather_elements},
    {"GatherND", uw_op_gather_nd},
    {"Gelu", uw_op_gelu},
    {"Gemm", uw_op_gemm},
    {"GlobalAveragePool", uw_op_global_pool},
    {"GlobalMaxPool", uw_op_global_pool},
    {"Greater", uw_op_compare},
    {"GreaterOrEqual", uw_op_compare},
    {"GroupNormalization", uw_op_groupnorm},
    {"HardSigmoid", uw_op_function},
    {"HardSwish", uw_op_function},
    {"Identity", uw_op_identity},
    {"If", uw_op_if},
    {"InstanceNormalization", uw_op_instancenorm},
    {"IsNaN", uw_op_is_nan},
    {"LRN", uw_op_lrn},
    {"LSTM", uw_op_recurrent},
    {"LayerNormalization", uw_op_layernorm},
    {"LeakyRelu", uw_op_leaky_relu},
    {"Less", uw_op_compare},
    {"LessOrEqual", uw_op_compare},
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
    {"Not", uw_op_logic},
    {"Or", uw_op_logic},
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
    {"RotaryEmbedding", uw_op_rotary},
    {"Scan", uw_op_loop},
    {"ScatterElements", uw_op_scatter},
    {"ScatterND", uw_op_scatter},
    {"Selu", uw_op_function},
    {"SequenceAt", uw_op_list_at},
    {"SequenceConstruct", uw_op_make_list},
    {"Sigmoid", uw_op_function},
    {"Sign", uw_op_function},
    {"Sin", uw_op_function},
    {"Slice", uw_op_slice},
    {"Softmax", uw_op_softmax},
    {"Softplus", uw_op_function},
    {"Softsign", uw_op_function},
    {"SpaceToDepth", uw_op_depth_to_space},
    {"Split", uw_op_split},
    {"SplitToSequence", uw_op_split_to_list},
    {"Sqrt", uw_op_function},
    {"Squeeze", uw_op_squeeze},
    {"Sub", uw_op_arithmetic},
    {"Sum", uw_op_arithmetic},
    {"Swish", uw_op_function},
    {"Tanh", uw_op_function},
    {"ThresholdedRelu", uw_op_function},
    {"Tile", uw_op_expand},
    {"Transpose", uw_op_transpose},
    {"Trilu", uw_op_trilu},
    {"Unsqueeze", uw_op_unsqueeze},
    {"Upsample", uw_op_resize},
    {"Where", uw_op_where},
};
#define OPS_N (sizeof table / sizeof table[0])

const char *uw_convert_operators(void)
{
    return "Abs Add And Attention AveragePool BatchNormalization Cast CastLike Celu Clip Concat "
           "Conv ConvTranspose Cos CumSum DepthToSpace DequantizeLinear Div Dropout Einsum Elu "
           "Equal Erf Erfc Exp Expand Flatten GRU Gather GatherElements GatherND Gelu Gemm "
           "GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GroupNormalization HardSigmoid "
           "HardSwish Identity If InstanceNormalization IsNaN LRN LSTM LayerNormalization "
           "LeakyRelu Less LessOrEqual Log LogSoftmax Loop MatMul Max MaxPool Mean Min Mish Mul "
           "Neg Not Or PRelu Pad Pow RMSNormalization RNN Reciprocal ReduceL1 ReduceL2 "
           "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare Relu Reshape "
           "Resize RotaryEmbedding ScatterElements ScatterND Selu SequenceAt SequenceConstruct "
           "Sigmoid Sign Sin Slice Softmax Softplus Softsign SpaceToDepth Split SplitToSequence "
           "Sqrt Squeeze Sub Sum Swish Tanh ThresholdedRelu Tile Transpose Trilu Unsqueeze "
           "Upsample Where; of constants also ConstantOfShape Floor Mod Range ReduceProd Shape "
           "and the like";
}

int uw_import_declare(struct uw_import *im, const char *name, const struct uw_onnx_node *n,
                      struct uw_value **out)
{
    struct uw_name *slot = uw_names_slot(&im->values, name);
    if (slot->name != NULL) {
        return uw_import_refuse(im, n, UW_ERR_CORRUPT, "'%.80s' is made twice", name);
    }
    struct uw_value *v = uw_pool_take(im->pool, 1, sizeof *v);
    if (v == NULL) {
        return uw_import_nomem(im);
    }
    *v = (struct uw_value){.name = name, .node = n};
    *slot = (struct uw_name){.name = name, .value = v};
    *out = v;
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

static int make_values(struct uw_import *im)
{
    return uw_names_init(&im->values, im->pool, count_names(&im->graph)) == UW_OK
               ? uw_import_declare_constants(im, &im->graph) : uw_import_nomem(im);
}

/* Whether a node of a graph, or of a graph within it, reads the name, or it is an output. */
static bool reads(const struct uw_onnx_graph *g, const char *name)
{
    bool found = false;
    for (uint32_t i = 0; i < g->outputs_n && !found; i++) {
        found = strcmp(g->output[i].name, name) == 0;
    }
    for (uint32_t i = 0; i < g->nodes_n && !found; i++) {
        const struct uw_onnx_node *n = &g->node[i];
        for (uint32_t k = 0; k < n->inputs_n && !found; k++) {
            found = strcmp(n->input[k], name) == 0;
        }
        for (uint32_t k = 0; k < n->attributes_n && !found; k++) {
            found = n->attribute[k].g != NULL && reads(n->attribute[k].g, name);
        }
    }
    return found;
}

/* Tell of an input that is left out, since nothing reads it. */
static int leave_out(struct uw_import *im, const char *name)
{
    const char *note = uw_pool_format(im->pool, "input '%.60s' is left out: nothing reads it",
                                      name);
    if (note == NULL) {
        return uw_import_nomem(im);
    }
    uw_import_note(im, note);
    return UW_OK;
}

static int find_inputs(struct uw_import *im)
{
    const struct uw_onnx_graph *g = &im->graph;
    const struct uw_onnx_value_info *x[UW_IMPORT_INPUTS_MAX];
    uint32_t inputs_n = 0, own_n = 0;
    for (uint32_t i = 0; i < g->inputs_n; i++) {
        own_n += uw_import_value(im, g->input[i].name) == NULL ? 1 : 0;
    }
    for (uint32_t i = 0; i < g->inputs_n; i++) {
        if (uw_import_value(im, g->input[i].name) != NULL) {
            continue;
        }
        if (own_n > 1 && !reads(g, g->input[i].name)) {
            own_n--;
            if (leave_out(im, g->input[i].name) < 0) {
                return im->err->code;
            }
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

static void count_reader(struct uw_import *im, const char *name)
{
    struct uw_value *v = uw_import_value(im, name);
    if (v != NULL) {
        v->users_n++;
    }
}

/* Count the readers of values around the graphs within a node. */
static void count_inner_readers(struct uw_import *im, const struct uw_onnx_node *n)
{
    for (uint32_t a = 0; a < n->attributes_n; a++) {
        const struct uw_onnx_graph *g = n->attribute[a].g;
        for (uint32_t i = 0; g != NULL && i < g->nodes_n; i++) {
            for (uint32_t k = 0; k < g->node[i].inputs_n; k++) {
                count_reader(im, g->node[i].input[k]);
            }
            count_inner_readers(im, &g->node[i]);
        }
        for (uint32_t i = 0; g != NULL && i < g->outputs_n; i++) {
            count_reader(im, g->output[i].name);
        }
    }
}

bool uw_import_are_copies(const char *a, const char *b)
{
    bool differ = strcmp(a, b) != 0;
    while (*a != '\0' || *b != '\0') {
        a += strspn(a, "0123456789");
        b += strspn(b, "0123456789");
        if (*a != *b) {
            return false;
        }
        a += *a != '\0' ? 1 : 0;
        b += *b != '\0' ? 1 : 0;
    }
    return differ;
}

/* The module of the first node that computes with the value; NULL: unknown. */
static const char *reader_of(const struct uw_import *im, const char *name)
{
    for (uint32_t i = 0; i < im->graph.nodes_n; i++) {
        const struct uw_onnx_node *n = &im->graph.node[i];
        for (uint32_t k = 0; k < n->inputs_n && strcmp(n->op, "Identity") != 0; k++) {
            if (strcmp(n->input[k], name) == 0) {
                return n->module;
            }
        }
    }
    return NULL;
}

/* Whether PyTorch's older exporter renames the constant because one module is called again, whose
 * second call it names "/fc_1" after "/fc". */
static bool is_called_again(const struct uw_import *im, const struct uw_onnx_node *rename)
{
    const char *a = reader_of(im, rename->input[0]), *b = reader_of(im, rename->output[0]);
    size_t n = a != NULL ? strlen(a) : 0;
    return n > 0 && b != NULL && strncmp(a, b, n) == 0 && b[n] == '_' && b[n + 1] != '\0' &&
           strspn(b + n + 1, "0123456789") == strlen(b + n + 1);
}

/* A module that a program copies begins with equal weights, and PyTorch's exporter writes equal
 * weights once. The nodes tell whether one module or several read them. */
static void add_reader(struct uw_import *im, struct uw_value *v, const struct uw_onnx_node *n)
{
    bool like = strcmp(n->op, "CastLike") == 0 && uw_import_in(im, n, 0) != v;
    if (v->kind == UW_VALUE_CONST && (like || strcmp(n->op, "Shape") == 0)) {
        return; /* that of a weight, for a bias of zeros: it does not train */
    }
    v->users_n++;
    if (v->reader == NULL) {
        v->reader = n;
    }
    const char *first = v->reader->module;
    bool renamed = strcmp(n->op, "Identity") == 0 && n->outputs_n == 1 &&
                   uw_import_are_copies(n->output[0], v->name) && !is_called_again(im, n);
    v->t.apart = v->t.apart || renamed ||
                 (n->module != NULL && first != NULL && uw_import_are_copies(n->module, first));
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
                add_reader(im, v, n);
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
        count_reader(im, g->output[i].name);
    }
    return UW_OK;
}

static int run_node(struct uw_import *im, const struct uw_onnx_node *n)
{
    if (n->refused != NULL) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "%s", n->refused);
    }
    if (n->domain[0] != '\0' && strcmp(n->domain, "ai.onnx") != 0) {
        return uw_import_opaque_input(im, n)
                   ? im->err->code
                   : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "is of domain '%.40s', not of "
                                      "ONNX", n->domain);
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
    int rc = uw_import_check_rise(im, n);
    rc = rc < 0 ? rc : uw_import_fold(im, n);
    if (rc != 0) {
        return rc;
    }
    rc = uw_import_refuse_sized(im, n);
    rc = rc < 0 ? rc : uw_import_check_whole(im, n);
    rc = rc < 0 ? rc : uw_import_lower_node(im, n);
    if (rc == UW_OK) {
        uw_import_note_whole(im, n);
    }
    return rc;
}

int uw_import_lower_node(struct uw_import *im, const struct uw_onnx_node *n)
{
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

int uw_import_graph(struct uw_import *im)
{
    int rc = make_values(im);
    rc = rc < 0 ? rc : find_inputs(im);
    rc = rc < 0 ? rc : uw_import_declare_nodes(im, &im->graph);
    return rc < 0 ? rc : uw_import_run(im, &im->graph);
}
