/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_parts.h"

#include <string.h>

static bool read_initializer(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_reader *r = *arg;
    struct uw_onnx_graph *g = r->graph;
    uw_onnx_Tensor pb;
    struct uw_onnx_parts t;
    (void)field;

    uw_onnx_expect_tensor(&pb, &t, r);
    if (!pb_decode(stream, uw_onnx_Tensor_fields, &pb)) {
        return false;
    }
    g->initializer = uw_pool_grow(r->pool, g->initializer, g->initializers_n,
                                  &r->initializers_cap, sizeof *g->initializer);
    if (g->initializer == NULL) {
        return uw_onnx_refuse(r, UW_ERR_NOMEM);
    }
    return uw_onnx_finish_tensor(r, &pb, &t, &g->initializer[g->initializers_n++]);
}

struct node_parts {
    struct uw_onnx_reader *r;
    struct uw_onnx_node *node;
    uint32_t attributes_cap;
};

static bool read_attribute(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct node_parts *p = *arg;
    struct uw_onnx_reader *r = p->r;
    struct uw_onnx_node *node = p->node;
    uw_onnx_Attribute pb = uw_onnx_Attribute_init_zero;
    struct uw_onnx_parts t;
    struct uw_onnx_texts name = {.r = r};
    struct uw_onnx_texts s = {.r = r};
    struct uw_onnx_texts strings = {.r = r};
    struct uw_onnx_floats floats = {.r = r};
    struct uw_onnx_integers ints = {.r = r};
    (void)field;

    uw_onnx_expect_tensor(&pb.t, &t, r);
    pb.name = (pb_callback_t){{.decode = uw_onnx_read_text}, &name};
    pb.s = (pb_callback_t){{.decode = uw_onnx_read_text}, &s};
    pb.strings = (pb_callback_t){{.decode = uw_onnx_read_text}, &strings};
    pb.floats = (pb_callback_t){{.decode = uw_onnx_read_float}, &floats};
    pb.ints = (pb_callback_t){{.decode = uw_onnx_read_integer}, &ints};
    if (!pb_decode_ex(stream, uw_onnx_Attribute_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    node->attribute = uw_pool_grow(r->pool, node->attribute, node->attributes_n,
                                   &p->attributes_cap, sizeof *node->attribute);
    if (node->attribute == NULL) {
        return uw_onnx_refuse(r, UW_ERR_NOMEM);
    }
    struct uw_onnx_attribute *a = &node->attribute[node->attributes_n++];
    *a = (struct uw_onnx_attribute){.name = uw_onnx_last_text(&name), .f = pb.f, .i = pb.i,
                                    .s = uw_onnx_last_text(&s), .ints = ints.item, .ints_n = ints.n,
                                    .floats = floats.item, .floats_n = floats.n,
                                    .strings = strings.item, .strings_n = strings.n};
    if (pb.has_t) {
        a->t = uw_pool_take(r->pool, 1, sizeof *a->t);
        return a->t != NULL ? uw_onnx_finish_tensor(r, &pb.t, &t, a->t)
                            : uw_onnx_refuse(r, UW_ERR_NOMEM);
    }
    return true;
}

static bool read_node(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_reader *r = *arg;
    struct uw_onnx_graph *g = r->graph;
    uw_onnx_Node pb = uw_onnx_Node_init_zero;
    struct uw_onnx_node node = {.name = ""};
    struct node_parts parts = {.r = r, .node = &node};
    struct uw_onnx_texts in = {.r = r};
    struct uw_onnx_texts out = {.r = r};
    struct uw_onnx_texts name = {.r = r};
    struct uw_onnx_texts op = {.r = r};
    struct uw_onnx_texts domain = {.r = r};
    (void)field;

    pb.input = (pb_callback_t){{.decode = uw_onnx_read_text}, &in};
    pb.output = (pb_callback_t){{.decode = uw_onnx_read_text}, &out};
    pb.name = (pb_callback_t){{.decode = uw_onnx_read_text}, &name};
    pb.op_type = (pb_callback_t){{.decode = uw_onnx_read_text}, &op};
    pb.domain = (pb_callback_t){{.decode = uw_onnx_read_text}, &domain};
    pb.attribute = (pb_callback_t){{.decode = read_attribute}, &parts};
    if (!pb_decode_ex(stream, uw_onnx_Node_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    node.name = uw_onnx_last_text(&name);
    node.op = uw_onnx_last_text(&op);
    node.domain = uw_onnx_last_text(&domain);
    node.input = in.item;
    node.inputs_n = in.n;
    node.output = out.item;
    node.outputs_n = out.n;
    g->node = uw_pool_grow(r->pool, g->node, g->nodes_n, &r->nodes_cap, sizeof *g->node);
    if (g->node == NULL) {
        return uw_onnx_refuse(r, UW_ERR_NOMEM);
    }
    g->node[g->nodes_n++] = node;
    return true;
}

static bool read_dimension(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_value_info *v = *arg;
    uw_onnx_Dimension pb = uw_onnx_Dimension_init_zero;
    (void)field;
    if (!pb_decode(stream, uw_onnx_Dimension_fields, &pb)) {
        return false;
    }
    if (v->rank < UW_ONNX_RANK_MAX) {
        v->dim[v->rank] = pb.dim_value > 0 ? pb.dim_value : 0;
    }
    v->rank += v->rank <= UW_ONNX_RANK_MAX ? 1 : 0;
    return true;
}

static bool read_value_info(pb_istream_t *stream, struct uw_onnx_reader *r,
                            struct uw_onnx_value_info *out)
{
    uw_onnx_ValueInfo pb = uw_onnx_ValueInfo_init_zero;
    struct uw_onnx_texts name = {.r = r};

    *out = (struct uw_onnx_value_info){.name = ""};
    pb.name = (pb_callback_t){{.decode = uw_onnx_read_text}, &name};
    pb.type.tensor_type.shape.dim = (pb_callback_t){{.decode = read_dimension}, out};
    if (!pb_decode_ex(stream, uw_onnx_ValueInfo_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    out->name = uw_onnx_last_text(&name);
    out->type = pb.type.tensor_type.elem_type;
    out->shaped = pb.has_type && pb.type.has_tensor_type && pb.type.tensor_type.has_shape;
    return true;
}

static bool read_input(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_reader *r = *arg;
    struct uw_onnx_graph *g = r->graph;
    (void)field;
    g->input = uw_pool_grow(r->pool, g->input, g->inputs_n, &r->inputs_cap, sizeof *g->input);
    return g->input != NULL ? read_value_info(stream, r, &g->input[g->inputs_n++])
                            : uw_onnx_refuse(r, UW_ERR_NOMEM);
}

static bool read_output(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_reader *r = *arg;
    struct uw_onnx_graph *g = r->graph;
    (void)field;
    g->output = uw_pool_grow(r->pool, g->output, g->outputs_n, &r->outputs_cap,
                             sizeof *g->output);
    return g->output != NULL ? read_value_info(stream, r, &g->output[g->outputs_n++])
                             : uw_onnx_refuse(r, UW_ERR_NOMEM);
}

static bool read_opset(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_reader *r = *arg;
    uw_onnx_OperatorSet pb = uw_onnx_OperatorSet_init_zero;
    struct uw_onnx_texts domain = {.r = r};
    (void)field;
    pb.domain = (pb_callback_t){{.decode = uw_onnx_read_text}, &domain};
    if (!pb_decode_ex(stream, uw_onnx_OperatorSet_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    const char *name = uw_onnx_last_text(&domain);
    if (name[0] == '\0' || strcmp(name, "ai.onnx") == 0) {
        r->graph->opset = pb.version;
    }
    return true;
}

int uw_onnx_read(struct uw_onnx_graph *g, struct uw_pool *pool, const char *file,
                 const void *bytes, size_t bytes_n, struct uw_error *err)
{
    struct uw_onnx_reader r = {.pool = pool, .graph = g, .file = file, .err = err};
    struct uw_onnx_cursor cursor = {.at = bytes};
    pb_istream_t stream = {
        .callback = uw_onnx_read_memory, .state = &cursor, .bytes_left = bytes_n};
    uw_onnx_Model pb = uw_onnx_Model_init_zero;
    struct uw_onnx_texts name = {.r = &r};

    *g = (struct uw_onnx_graph){.name = ""};
    pb.opset_import = (pb_callback_t){{.decode = read_opset}, &r};
    pb.graph.name = (pb_callback_t){{.decode = uw_onnx_read_text}, &name};
    pb.graph.node = (pb_callback_t){{.decode = read_node}, &r};
    pb.graph.initializer = (pb_callback_t){{.decode = read_initializer}, &r};
    pb.graph.input = (pb_callback_t){{.decode = read_input}, &r};
    pb.graph.output = (pb_callback_t){{.decode = read_output}, &r};
    if (!pb_decode_ex(&stream, uw_onnx_Model_fields, &pb, PB_DECODE_NOINIT)) {
        if (r.rc == UW_ERR_NOMEM) {
            return uw_error_set(err, UW_ERR_NOMEM, "%.60s: out of memory", file);
        }
        return r.rc < 0 ? r.rc
                        : uw_error_set(err, UW_ERR_CORRUPT,
                                       "%.60s: no ONNX file, or cut off: %.40s near byte %zu", file,
                                       PB_GET_ERROR(&stream),
                                       (size_t)(cursor.at - (const uint8_t *)bytes));
    }
    g->name = uw_onnx_last_text(&name);
    if (!pb.has_graph || g->nodes_n == 0 || g->outputs_n == 0) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%.60s: no ONNX file: it has no graph", file);
    }
    if (g->opset < UW_ONNX_OPSET_MIN || g->opset > UW_ONNX_OPSET_MAX) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "%.60s: opset %lld: export with opset_version=%d to %d", file,
                            (long long)g->opset, UW_ONNX_OPSET_MIN, UW_ONNX_OPSET_MAX);
    }
    return UW_OK;
}

const struct uw_onnx_attribute *uw_onnx_attribute(const struct uw_onnx_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->attributes_n; i++) {
        if (strcmp(n->attribute[i].name, name) == 0) {
            return &n->attribute[i];
        }
    }
    return NULL;
}

int64_t uw_onnx_int(const struct uw_onnx_node *n, const char *name, int64_t fallback)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, name);
    return a != NULL ? a->i : fallback;
}

float uw_onnx_float(const struct uw_onnx_node *n, const char *name, float fallback)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, name);
    return a != NULL ? a->f : fallback;
}

const char *uw_onnx_text(const struct uw_onnx_node *n, const char *name, const char *fallback)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, name);
    return a != NULL ? a->s : fallback;
}
