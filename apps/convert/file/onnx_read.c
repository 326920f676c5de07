/* SPDX-License-Identifier: Apache-2.0
 *
 * nanopb reads from a stream over the file's bytes, so raw tensor data is referenced by address and
 * skipped. */
#include "onnx_reader.h"

#include <string.h>

#define DEPTH_MAX 16u               /* of graphs in attributes of nodes of graphs */

/* A graph while it is read. */
struct graph_fields {
    struct uw_onnx_list nodes, initializers, inputs, outputs, notes, metadata;
};

/* nanopb's source: a stream over memory, whose state is the address of the next byte. */
static bool read_memory(pb_istream_t *stream, pb_byte_t *buf, size_t count)
{
    const uint8_t **at = stream->state;
    if (buf != NULL) {
        memcpy(buf, *at, count);
    }
    *at += count;
    return true;
}

bool uw_onnx_fail(struct uw_onnx_reader *r, int code)
{
    r->rc = r->rc < 0 ? r->rc : code;
    return false;
}

/* Room for one element more; NULL: out of memory, which is recorded. */
static void *append(struct uw_onnx_list *l, size_t element_bytes)
{
    l->item = uw_pool_grow(l->r->pool, l->item, l->n, &l->cap, element_bytes);
    if (l->item == NULL) {
        uw_onnx_fail(l->r, UW_ERR_NOMEM);
        return NULL;
    }
    return (uint8_t *)l->item + element_bytes * l->n++;
}

/* Get the bytes of a length-delimited field without copying them. */
static bool borrow(pb_istream_t *stream, const uint8_t **bytes, uint64_t *n)
{
    if (stream->callback != read_memory) {
        return false; /* the field came with another wire type */
    }
    const uint8_t **at = stream->state;
    *bytes = *at;
    *n = stream->bytes_left;
    *at += stream->bytes_left;
    stream->bytes_left = 0;
    return true;
}

bool uw_onnx_take_text(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_list *l = *arg;
    const uint8_t *bytes;
    uint64_t n;
    (void)field;
    if (!borrow(stream, &bytes, &n)) {
        return false;
    }
    const char **text = append(l, sizeof *text);
    if (text == NULL) {
        return false;
    }
    *text = uw_pool_text(l->r->pool, bytes, (size_t)n);
    return *text != NULL || uw_onnx_fail(l->r, UW_ERR_NOMEM);
}

const char *uw_onnx_last_text(const struct uw_onnx_list *l)
{
    const char *const *text = l->item;
    return l->n > 0 ? text[l->n - 1] : "";
}

/* Append a number that is decoded as `read_type` and kept as `kept_type`. */
#define TAKE_NUMBER(name, decode, read_type, kept_type)                                       \
    bool name(pb_istream_t *stream, const pb_field_t *field, void **arg)                      \
    {                                                                                         \
        read_type value;                                                                      \
        (void)field;                                                                          \
        kept_type *to = decode(stream, &value) ? append(*arg, sizeof *to) : NULL;     \
        if (to != NULL) {                                                                     \
            *to = (kept_type)value;                                                           \
        }                                                                                     \
        return to != NULL;                                                                    \
    }
TAKE_NUMBER(uw_onnx_take_integer, pb_decode_varint, uint64_t, int64_t)
TAKE_NUMBER(uw_onnx_take_float, pb_decode_fixed32, float, float)
TAKE_NUMBER(uw_onnx_take_double, pb_decode_fixed64, double, float)

bool uw_onnx_take_raw(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_tensor_fields *t = *arg;
    (void)field;
    t->has_raw = true;
    return borrow(stream, &t->raw, &t->raw_n);
}

bool uw_onnx_take_entry(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_list *l = *arg, key = {.r = l->r}, value = {.r = l->r};
    uw_onnx_Entry pb = uw_onnx_Entry_init_zero;
    (void)field;
    pb.key = UW_ONNX_CALL(uw_onnx_take_text, &key);
    pb.value = UW_ONNX_CALL(uw_onnx_take_text, &value);
    if (!pb_decode_ex(stream, uw_onnx_Entry_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    struct uw_convert_entry *entry = append(l, sizeof *entry);
    if (entry != NULL) {
        *entry = (struct uw_convert_entry){uw_onnx_last_text(&key), uw_onnx_last_text(&value)};
    }
    return entry != NULL;
}

static bool read_initializer(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_list *l = *arg;
    uw_onnx_Tensor pb;
    struct uw_onnx_tensor_fields t;
    (void)field;

    uw_onnx_expect_tensor(&pb, &t, l->r);
    if (!pb_decode(stream, uw_onnx_Tensor_fields, &pb)) {
        return false;
    }
    struct uw_onnx_tensor *out = append(l, sizeof *out);
    return out != NULL && uw_onnx_finish_tensor(&t, &pb, out);
}

static bool read_sparse(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_list *l = *arg;
    uw_onnx_SparseTensor pb = uw_onnx_SparseTensor_init_zero;
    struct uw_onnx_tensor_fields t;
    (void)field;

    uw_onnx_expect_tensor(&pb.values, &t, l->r);
    if (!pb_decode_ex(stream, uw_onnx_SparseTensor_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    struct uw_onnx_tensor *out = append(l, sizeof *out);
    return out != NULL && uw_onnx_refuse_tensor(&t, out, UW_ERR_UNSUPPORTED, "is sparse: store it "
                                                "as an ordinary tensor");
}

static bool read_graph(pb_istream_t *stream, const pb_field_t *field, void **arg);

static bool read_attribute(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_list *l = *arg;
    struct uw_onnx_reader *r = l->r;
    uw_onnx_Attribute pb = uw_onnx_Attribute_init_zero;
    struct uw_onnx_tensor_fields t;
    struct uw_onnx_list name = {.r = r}, s = {.r = r}, strings = {.r = r};
    struct uw_onnx_list floats = {.r = r}, ints = {.r = r}, reference = {.r = r};
    struct uw_onnx_list graphs = {.r = r};
    (void)field;

    uw_onnx_expect_tensor(&pb.t, &t, r);
    pb.name = UW_ONNX_CALL(uw_onnx_take_text, &name);
    pb.s = UW_ONNX_CALL(uw_onnx_take_text, &s);
    pb.strings = UW_ONNX_CALL(uw_onnx_take_text, &strings);
    pb.floats = UW_ONNX_CALL(uw_onnx_take_float, &floats);
    pb.ints = UW_ONNX_CALL(uw_onnx_take_integer, &ints);
    pb.ref_attr_name = UW_ONNX_CALL(uw_onnx_take_text, &reference);
    pb.g = UW_ONNX_CALL(read_graph, &graphs);
    if (!pb_decode_ex(stream, uw_onnx_Attribute_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    struct uw_onnx_attribute *a = append(l, sizeof *a);
    if (a == NULL) {
        return false;
    }
    *a = (struct uw_onnx_attribute){.name = uw_onnx_last_text(&name), .f = pb.f, .i = pb.i,
                                    .reference = uw_onnx_last_text(&reference),
                                    .s = uw_onnx_last_text(&s), .ints = ints.item, .ints_n = ints.n,
                                    .floats = floats.item, .floats_n = floats.n,
                                    .strings = strings.item, .strings_n = strings.n,
                                    .g = graphs.item};
    if (pb.has_t) {
        a->t = uw_pool_take(r->pool, 1, sizeof *a->t);
        return a->t != NULL ? uw_onnx_finish_tensor(&t, &pb.t, a->t)
                            : uw_onnx_fail(r, UW_ERR_NOMEM);
    }
    return true;
}

/* The text up to the last `end`; NULL: there is none, or out of memory. */
static const char *until_last(struct uw_onnx_reader *r, const char *text, char end)
{
    const char *last = strrchr(text, end);
    return last != NULL ? uw_pool_text(r->pool, text, (size_t)(last - text)) : NULL;
}

/* What PyTorch's exporter leaves in a node: the module, and a rule that rewrote it. */
static void read_metadata(struct uw_onnx_reader *r, const struct uw_onnx_list *metadata,
                          struct uw_onnx_node *node)
{
    const struct uw_convert_entry *entry = metadata->item;
    node->module = node->name[0] == '/' ? until_last(r, node->name, '/') : NULL;
    for (uint32_t i = 0; i < metadata->n; i++) {
        if (strcmp(entry[i].key, "pkg.torch.onnx.name_scopes") == 0) {
            node->module = until_last(r, entry[i].value, ',');
        } else if (strcmp(entry[i].key, "pkg.onnxscript.rewriter.rule_name") == 0) {
            node->rule = entry[i].value;
        }
    }
    const char *folds = node->rule != NULL ? strstr(node->rule, "FuseBatchNorm") : NULL;
    if (folds != NULL && r->folded_batchnorm == NULL) { /* between commas, others may stand */
        r->folded_batchnorm = uw_pool_format(r->pool, "node '%.60s' is made by the exporter's "
                                             "rule %.*s", node->name, (int)strcspn(folds, ","),
                                             folds);
    }
}

static bool read_node(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_list *l = *arg;
    struct uw_onnx_reader *r = l->r;
    uw_onnx_Node pb = uw_onnx_Node_init_zero;
    struct uw_onnx_list in = {.r = r}, out = {.r = r}, name = {.r = r}, op = {.r = r};
    struct uw_onnx_list domain = {.r = r}, overload = {.r = r}, metadata = {.r = r};
    struct uw_onnx_list attributes = {.r = r};
    (void)field;

    pb.input = UW_ONNX_CALL(uw_onnx_take_text, &in);
    pb.output = UW_ONNX_CALL(uw_onnx_take_text, &out);
    pb.name = UW_ONNX_CALL(uw_onnx_take_text, &name);
    pb.op_type = UW_ONNX_CALL(uw_onnx_take_text, &op);
    pb.domain = UW_ONNX_CALL(uw_onnx_take_text, &domain);
    pb.overload = UW_ONNX_CALL(uw_onnx_take_text, &overload);
    pb.metadata_props = UW_ONNX_CALL(uw_onnx_take_entry, &metadata);
    pb.attribute = UW_ONNX_CALL(read_attribute, &attributes);
    if (!pb_decode_ex(stream, uw_onnx_Node_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    struct uw_onnx_node *node = append(l, sizeof *node);
    if (node != NULL) {
        *node = (struct uw_onnx_node){
            .name = uw_onnx_last_text(&name), .op = uw_onnx_last_text(&op),
            .domain = uw_onnx_last_text(&domain), .overload = uw_onnx_last_text(&overload),
            .input = in.item, .inputs_n = in.n, .output = out.item, .outputs_n = out.n,
            .attribute = attributes.item, .attributes_n = attributes.n};
        read_metadata(r, &metadata, node);
    }
    return node != NULL;
}

static bool read_dimension(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_list *l = *arg, symbol = {.r = l->r};
    struct uw_onnx_value_info *v = (struct uw_onnx_value_info *)l->item + (l->n - 1);
    uw_onnx_Dimension pb = uw_onnx_Dimension_init_zero;
    (void)field;
    pb.dim_param = UW_ONNX_CALL(uw_onnx_take_text, &symbol);
    if (!pb_decode_ex(stream, uw_onnx_Dimension_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    if (v->rank < UW_ONNX_RANK_MAX) {
        v->dim[v->rank] = pb.dim_value > 0 ? pb.dim_value : 0;
        v->symbol[v->rank] = uw_onnx_last_text(&symbol)[0] != '\0' ? uw_onnx_last_text(&symbol)
                                                                   : NULL;
    }
    v->rank += v->rank <= UW_ONNX_RANK_MAX ? 1 : 0;
    return true;
}

static bool read_value_info(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_list *l = *arg;
    uw_onnx_ValueInfo pb = uw_onnx_ValueInfo_init_zero;
    struct uw_onnx_list name = {.r = l->r};
    struct uw_onnx_value_info *out = append(l, sizeof *out);
    (void)field;

    if (out == NULL) {
        return false;
    }
    *out = (struct uw_onnx_value_info){.name = ""};
    pb.name = UW_ONNX_CALL(uw_onnx_take_text, &name);
    pb.type.tensor_type.shape.dim = UW_ONNX_CALL(read_dimension, l);
    if (!pb_decode_ex(stream, uw_onnx_ValueInfo_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    out->name = uw_onnx_last_text(&name);
    out->type = pb.type.tensor_type.elem_type;
    out->shaped = pb.has_type && pb.type.has_tensor_type && pb.type.tensor_type.has_shape;
    return true;
}

/* PyTorch's newer exporter tells of each constant what it is in the program, a PARAMETER, a BUFFER,
 * a CONSTANT_TENSOR, or what it was computed from. Other notes are left out. */
static bool read_note(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_list *l = *arg, name = {.r = l->r}, metadata = {.r = l->r};
    uw_onnx_ValueNote pb = uw_onnx_ValueNote_init_zero;
    struct uw_onnx_note note = {.name = NULL};
    (void)field;
    pb.name = UW_ONNX_CALL(uw_onnx_take_text, &name);
    pb.metadata_props = UW_ONNX_CALL(uw_onnx_take_entry, &metadata);
    if (!pb_decode_ex(stream, uw_onnx_ValueNote_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    const struct uw_convert_entry *entry = metadata.item;
    for (uint32_t i = 0; i < metadata.n; i++) {
        if (strcmp(entry[i].key, "pkg.torch.export.graph_signature.InputSpec.kind") == 0) {
            note.kind = entry[i].value;
        } else if (strcmp(entry[i].key, "pkg.onnxscript.optimizer.folded_from") == 0) {
            note.folded_from = entry[i].value;
        }
    }
    if (note.kind == NULL && note.folded_from == NULL) {
        return true;
    }
    struct uw_onnx_note *out = append(l, sizeof *out);
    note.name = uw_onnx_last_text(&name);
    if (out != NULL) {
        *out = note;
    }
    return out != NULL;
}

static void expect_graph(uw_onnx_Graph *pb, struct graph_fields *f, struct uw_onnx_reader *r)
{
    *pb = (uw_onnx_Graph)uw_onnx_Graph_init_zero;
    *f = (struct graph_fields){{.r = r}, {.r = r}, {.r = r}, {.r = r}, {.r = r}, {.r = r}};
    pb->node = UW_ONNX_CALL(read_node, &f->nodes);
    pb->initializer = UW_ONNX_CALL(read_initializer, &f->initializers);
    pb->sparse_initializer = UW_ONNX_CALL(read_sparse, &f->initializers);
    pb->input = UW_ONNX_CALL(read_value_info, &f->inputs);
    pb->output = UW_ONNX_CALL(read_value_info, &f->outputs);
    pb->value_info = UW_ONNX_CALL(read_note, &f->notes);
    pb->metadata_props = UW_ONNX_CALL(uw_onnx_take_entry, &f->metadata);
}

static struct uw_onnx_graph finish_graph(const struct graph_fields *f)
{
    return (struct uw_onnx_graph){
        .node = f->nodes.item, .nodes_n = f->nodes.n, .initializer = f->initializers.item,
        .initializers_n = f->initializers.n, .input = f->inputs.item, .inputs_n = f->inputs.n,
        .output = f->outputs.item, .outputs_n = f->outputs.n};
}

/* A graph within a node. Its message is decoded on its own, since messages of nanopb cannot hold
 * themselves. */
static bool read_graph(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_list *l = *arg;
    struct graph_fields f;
    uw_onnx_Graph pb;
    (void)field;
    if (l->r->depth == DEPTH_MAX) {
        PB_RETURN_ERROR(stream, "graphs nested too deep");
    }
    l->r->depth++;
    expect_graph(&pb, &f, l->r);
    bool fits = pb_decode_ex(stream, uw_onnx_Graph_fields, &pb, PB_DECODE_NOINIT);
    l->r->depth--;
    struct uw_onnx_graph *g = fits ? append(l, sizeof *g) : NULL;
    if (g != NULL) {
        *g = finish_graph(&f);
    }
    return g != NULL;
}

/* ONNX's own opset; others do not matter. */
struct opset_fields {
    struct uw_onnx_reader *r;
    int64_t version;
};

static bool read_opset(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct opset_fields *to = *arg;
    uw_onnx_OperatorSet pb = uw_onnx_OperatorSet_init_zero;
    struct uw_onnx_list domain = {.r = to->r};
    (void)field;
    pb.domain = UW_ONNX_CALL(uw_onnx_take_text, &domain);
    if (!pb_decode_ex(stream, uw_onnx_OperatorSet_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    const char *name = uw_onnx_last_text(&domain);
    if (name[0] == '\0' || strcmp(name, "ai.onnx") == 0) {
        to->version = pb.version;
    }
    return true;
}

static bool read_function(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    struct uw_onnx_list *l = *arg;
    struct uw_onnx_reader *r = l->r;
    uw_onnx_Function pb = uw_onnx_Function_init_zero;
    struct uw_onnx_list name = {.r = r}, domain = {.r = r}, overload = {.r = r}, in = {.r = r};
    struct uw_onnx_list out = {.r = r}, nodes = {.r = r}, fallbacks = {.r = r};
    struct opset_fields opset = {.r = r};
    (void)field;

    pb.name = UW_ONNX_CALL(uw_onnx_take_text, &name);
    pb.domain = UW_ONNX_CALL(uw_onnx_take_text, &domain);
    pb.overload = UW_ONNX_CALL(uw_onnx_take_text, &overload);
    pb.input = UW_ONNX_CALL(uw_onnx_take_text, &in);
    pb.output = UW_ONNX_CALL(uw_onnx_take_text, &out);
    pb.node = UW_ONNX_CALL(read_node, &nodes);
    pb.attribute_proto = UW_ONNX_CALL(read_attribute, &fallbacks);
    pb.opset_import = UW_ONNX_CALL(read_opset, &opset);
    if (!pb_decode_ex(stream, uw_onnx_Function_fields, &pb, PB_DECODE_NOINIT)) {
        return false;
    }
    struct uw_onnx_function *f = append(l, sizeof *f);
    if (f != NULL) {
        *f = (struct uw_onnx_function){
            .name = uw_onnx_last_text(&name), .domain = uw_onnx_last_text(&domain),
            .overload = uw_onnx_last_text(&overload), .input = in.item, .inputs_n = in.n,
            .output = out.item, .outputs_n = out.n, .node = nodes.item, .nodes_n = nodes.n,
            .fallback = fallbacks.item, .fallbacks_n = fallbacks.n, .opset = opset.version};
    }
    return f != NULL;
}

static int decode(struct uw_onnx_graph *g, struct uw_onnx_reader *r, const void *bytes,
                  size_t bytes_n)
{
    const uint8_t *at = bytes;
    pb_istream_t stream = {.callback = read_memory, .state = &at, .bytes_left = bytes_n};
    uw_onnx_Model pb = uw_onnx_Model_init_zero;
    struct opset_fields opset = {.r = r};
    struct uw_onnx_list producer = {.r = r}, metadata = {.r = r};
    struct graph_fields f;

    expect_graph(&pb.graph, &f, r);
    pb.opset_import = UW_ONNX_CALL(read_opset, &opset);
    pb.producer_name = UW_ONNX_CALL(uw_onnx_take_text, &producer);
    pb.functions = UW_ONNX_CALL(read_function, &r->functions);
    pb.metadata_props = UW_ONNX_CALL(uw_onnx_take_entry, &metadata);
    if (!pb_decode_ex(&stream, uw_onnx_Model_fields, &pb, PB_DECODE_NOINIT)) {
        return r->rc < 0 ? r->rc
                         : uw_error_set(r->err, UW_ERR_CORRUPT,
                                        "%.60s: no ONNX file, or cut off: %.40s near byte %zu",
                                        r->file, PB_GET_ERROR(&stream),
                                        (size_t)(at - (const uint8_t *)bytes));
    }
    *g = finish_graph(&f);
    g->opset = opset.version;
    g->producer = uw_onnx_last_text(&producer);
    g->entry = metadata.item;
    g->entries_n = metadata.n;
    g->folded_batchnorm = r->folded_batchnorm;
    if (uw_onnx_set_roles(g, r->pool, &f.notes, &f.metadata) < 0) {
        return UW_ERR_NOMEM;
    }
    return pb.has_graph && g->nodes_n > 0 && g->outputs_n > 0
               ? UW_OK
               : uw_error_set(r->err, UW_ERR_CORRUPT, "%.60s: no ONNX file: it has no graph",
                              r->file);
}

/* Say in one way what files say in several. */
static int settle(struct uw_onnx_graph *g, struct uw_onnx_reader *r)
{
    struct uw_onnx_function *f = r->functions.item;
    const struct uw_onnx_node *at = NULL;
    int rc = uw_onnx_upgrade(r->pool, &g->node, &g->nodes_n, g->opset);
    for (uint32_t i = 0; i < r->functions.n && rc == UW_OK; i++) {
        rc = uw_onnx_upgrade(r->pool, &f[i].node, &f[i].nodes_n,
                             f[i].opset != 0 ? f[i].opset : g->opset);
    }
    rc = rc < 0 ? rc : uw_onnx_inline(r->pool, g, f, r->functions.n);
    if (rc == UW_ERR_TOOBIG) {
        return uw_error_set(r->err, rc, "%.60s: its functions call themselves, or make far more "
                            "nodes than the file has", r->file);
    }
    rc = rc < 0 ? rc : uw_onnx_sort(r->pool, g, &at);
    rc = rc < 0 ? rc : uw_onnx_ends(r->pool, g);
    return rc != UW_ERR_CORRUPT
               ? rc
               : uw_error_set(r->err, rc, "%.60s: node '%.60s' (%.30s): reads what it makes itself "
                              "through other nodes: a cycle", r->file,
                              at->name[0] != '\0' || at->outputs_n == 0 ? at->name : at->output[0],
                              at->op);
}

int uw_onnx_read(struct uw_onnx_graph *g, struct uw_pool *pool, const char *file,
                 const void *bytes, size_t bytes_n, struct uw_storage *files,
                 struct uw_error *err)
{
    struct uw_onnx_reader r = {.pool = pool, .file = file, .files = files, .err = err,
                               .functions = {.r = &r}};
    int rc = decode(g, &r, bytes, bytes_n);
    if (rc == UW_OK && (g->opset < UW_ONNX_OPSET_MIN || g->opset > UW_ONNX_OPSET_MAX)) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "%.60s: opset %lld: opsets %d to %d are read: "
                            "export the model again with opset_version=17, or convert the file "
                            "with onnx.version_converter", file, (long long)g->opset,
                            UW_ONNX_OPSET_MIN, UW_ONNX_OPSET_MAX);
    }
    rc = rc < 0 ? rc : settle(g, &r);
    return rc == UW_ERR_NOMEM ? uw_error_set(err, rc, "%.60s: out of memory", file) : rc;
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
