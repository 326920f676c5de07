/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

#include "onnx.pb.h"

#include <pb_encode.h>

#include <stdio.h>
#include <string.h>

#define OPSET 13
#define IR_VERSION 7
#define FLOAT 1                     /* ONNX's number of the element type */

/* The graph's input and outputs, and by output the layer that it is of. */
struct ends {
    struct uw_convert_end input, output[UW_LOSSES_MAX];
    const struct uw_convert_end *columns;   /* the inputs whose values make up `input`, or NULL */
    uint32_t columns_n;
    uint32_t layer[UW_LOSSES_MAX];
    uint32_t outputs_n;
};

/* State of nanopb's output stream. */
struct out {
    uw_convert_put put;
    void *arg;
    int rc;
};

static bool write_bytes(pb_ostream_t *stream, const pb_byte_t *buf, size_t count)
{
    struct out *o = stream->state;
    o->rc = o->put(o->arg, buf, count);
    return o->rc >= 0;
}

static bool write_text(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const char *text = *arg;
    return pb_encode_tag_for_field(stream, field) &&
           pb_encode_string(stream, (const pb_byte_t *)text, strlen(text));
}

static pb_callback_t text_of(const char *text)
{
    /* nanopb's argument is not const, the callback only reads */
    union {
        const char *in;
        void *out;
    } u = {.in = text};
    return (pb_callback_t){{.encode = text != NULL ? write_text : NULL}, u.out};
}

static bool write_message(pb_ostream_t *stream, const pb_field_t *field,
                          const pb_msgdesc_t *fields, const void *pb)
{
    return pb_encode_tag_for_field(stream, field) && pb_encode_submessage(stream, fields, pb);
}

struct integers {
    const int64_t *item;
    uint32_t n;
};

static bool write_integers(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const struct integers *v = *arg;
    for (uint32_t i = 0; i < v->n; i++) {
        if (!pb_encode_tag(stream, PB_WT_VARINT, field->tag) ||
            !pb_encode_varint(stream, (uint64_t)v->item[i])) {
            return false;
        }
    }
    return true;
}

static bool write_data(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const struct uw_export_tensor *t = *arg;
    const void *data = t->floats != NULL ? (const void *)t->floats : (const void *)t->integers;
    size_t bytes = (size_t)t->n * (t->floats != NULL ? sizeof(float) : sizeof(int64_t));
    return pb_encode_tag_for_field(stream, field) && pb_encode_string(stream, data, bytes);
}

static bool write_tensors(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const struct uw_export *e = *arg;
    for (struct uw_export_tensor *t = e->tensors; t != NULL; t = t->next) {
        uw_onnx_Tensor pb = uw_onnx_Tensor_init_zero;
        struct integers dims = {t->dim, t->rank};
        pb.dims = (pb_callback_t){{.encode = write_integers}, &dims};
        pb.data_type = t->floats != NULL ? 1 : 7;
        pb.name = text_of(t->name);
        pb.raw_data = (pb_callback_t){{.encode = write_data}, t};
        if (!write_message(stream, field, uw_onnx_Tensor_fields, &pb)) {
            return false;
        }
    }
    return true;
}

static bool write_attributes(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const struct uw_export_node *n = *arg;
    for (uint32_t i = 0; i < n->attributes_n; i++) {
        const struct uw_export_attribute *a = &n->attribute[i];
        uw_onnx_Attribute pb = uw_onnx_Attribute_init_zero;
        struct integers ints = {a->i, a->n};
        pb.name = text_of(a->name);
        pb.type = a->type;
        pb.f = a->f;
        pb.i = a->type == 2 ? a->i[0] : 0;
        pb.s = text_of(a->type == 3 ? a->s : NULL);
        pb.strings = text_of(a->type == 8 ? a->s : NULL);
        if (a->n > 0) {
            pb.ints = (pb_callback_t){{.encode = write_integers}, &ints};
        }
        if (!write_message(stream, field, uw_onnx_Attribute_fields, &pb)) {
            return false;
        }
    }
    return true;
}

struct texts {
    const char *const *item;
    uint32_t n;
};

static bool write_texts(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const struct texts *t = *arg;
    for (uint32_t i = 0; i < t->n; i++) {
        if (!pb_encode_tag_for_field(stream, field) ||
            !pb_encode_string(stream, (const pb_byte_t *)t->item[i], strlen(t->item[i]))) {
            return false;
        }
    }
    return true;
}

static bool write_nodes(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const struct uw_export *e = *arg;
    for (struct uw_export_node *n = e->first; n != NULL; n = n->next) {
        uw_onnx_Node pb = uw_onnx_Node_init_zero;
        struct texts in = {n->input, n->inputs_n};
        struct texts out = {n->output, n->outputs_n};
        pb.input = (pb_callback_t){{.encode = write_texts}, &in};
        pb.output = (pb_callback_t){{.encode = write_texts}, &out};
        pb.name = text_of(n->name);
        pb.op_type = text_of(n->op);
        pb.attribute = (pb_callback_t){{.encode = write_attributes}, n};
        if (!write_message(stream, field, uw_onnx_Node_fields, &pb)) {
            return false;
        }
    }
    return true;
}

static bool write_dims(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const struct uw_convert_end *end = *arg;
    for (uint32_t a = 0; a < end->rank; a++) {
        uw_onnx_Dimension pb = uw_onnx_Dimension_init_zero;
        bool open = a == end->batch && end->dim[a] == 0;
        pb.dim_param = text_of(!open ? NULL : end->symbol != NULL ? end->symbol : "batch");
        pb.dim_value = end->dim[a];
        if (!write_message(stream, field, uw_onnx_Dimension_fields, &pb)) {
            return false;
        }
    }
    return true;
}

/* What the caller gave the graph as an input or output. */
static bool write_end(pb_ostream_t *stream, const pb_field_t *field,
                      const struct uw_convert_end *end)
{
    struct uw_convert_end copy = *end;
    uw_onnx_ValueInfo pb = uw_onnx_ValueInfo_init_zero;
    pb.name = text_of(end->name);
    pb.has_type = true;
    pb.type.has_tensor_type = true;
    pb.type.tensor_type.elem_type = end->type != 0 ? end->type : FLOAT;
    pb.type.tensor_type.has_shape = true;
    pb.type.tensor_type.shape.dim = (pb_callback_t){{.encode = write_dims}, &copy};
    return write_message(stream, field, uw_onnx_ValueInfo_fields, &pb);
}

static bool write_input(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const struct ends *ends = *arg;
    for (uint32_t i = 0; i < ends->columns_n; i++) {
        if (!write_end(stream, field, &ends->columns[i])) {
            return false;
        }
    }
    return ends->columns_n > 0 || write_end(stream, field, &ends->input);
}

static bool write_outputs(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const struct ends *ends = *arg;
    for (uint32_t i = 0; i < ends->outputs_n; i++) {
        if (!write_end(stream, field, &ends->output[i])) {
            return false;
        }
    }
    return true;
}

static bool write_opset(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    uw_onnx_OperatorSet pb = uw_onnx_OperatorSet_init_zero;
    const struct uw_export *e = *arg;
    pb.version = e->opset;
    return write_message(stream, field, uw_onnx_OperatorSet_fields, &pb);
}

struct entries {
    const struct uw_convert_model *like;    /* may be NULL */
    float threshold;                        /* 0: none */
};

static bool write_entry(pb_ostream_t *stream, const pb_field_t *field, const char *key,
                        const char *value)
{
    uw_onnx_Entry pb = {.key = text_of(key), .value = text_of(value)};
    return write_message(stream, field, uw_onnx_Entry_fields, &pb);
}

static bool write_entries(pb_ostream_t *stream, const pb_field_t *field, void *const *arg)
{
    const struct entries *s = *arg;
    bool good = true;
    for (uint32_t i = 0; s->like != NULL && i < s->like->entries_n && good; i++) {
        const struct uw_convert_entry *entry = &s->like->entry[i];
        good = strcmp(entry->key, UW_CONVERT_THRESHOLD) == 0 ||
               write_entry(stream, field, entry->key, entry->value);
    }
    char text[32];
    snprintf(text, sizeof text, "%.9g", (double)s->threshold);
    return good && (s->threshold == 0.0f ||
                    write_entry(stream, field, UW_CONVERT_THRESHOLD, text));
}

/* The layer of a loss. */
static uint32_t layer_of(const struct uw_model_def *d, uint32_t loss)
{
    const char *name = d->losses != NULL ? d->losses[loss].layer : NULL;
    return name != NULL ? uw_export_find_layer(d, name, d->layers_n) : d->layers_n - 1;
}

/* Mark the layers that the outputs need. */
static void mark_needed(const struct uw_model_def *d, const struct ends *ends, bool *needed)
{
    for (uint32_t i = 0; i < ends->outputs_n; i++) {
        needed[ends->layer[i]] = true;
    }
    for (uint32_t i = d->layers_n; i-- > 0;) {
        const struct uw_layer_def *l = &d->layers[i];
        if (!needed[i]) {
            continue;
        }
        if (l->inputs[0] == NULL && i > 0) {
            needed[i - 1] = true;
        }
        for (uint32_t k = 0; k < UW_LAYER_INPUTS_MAX && l->inputs[k] != NULL; k++) {
            uint32_t from = uw_export_find_layer(d, l->inputs[k], i);
            if (from != UINT32_MAX) {
                needed[from] = true;
            }
        }
    }
}

/* Name and shape of a layer's first input. */
static void set_input(struct uw_export *e)
{
    const char *name = e->def->inputs[0];
    uint32_t from = name != NULL ? uw_export_find_layer(e->m->config.def, name, e->layer)
                                 : e->layer - 1;
    e->x = from != UINT32_MAX ? e->value[from] : e->input;
    e->in.rank = uw_model_shape(e->m, from, e->in.dim);
}

/* An end of the graph: [minibatch][dim]... in floats. */
static struct uw_convert_end plain_end(const char *name, uint32_t rank, const uint32_t *dim)
{
    struct uw_convert_end end = {.name = name, .type = FLOAT, .rank = rank + 1};
    memcpy(end.dim + 1, dim, rank * sizeof *dim);
    return end;
}

/* The ends as the file had them, or else "input" and "output", that of the first loss. */
static struct ends find_ends(const struct uw_export *e)
{
    const struct uw_model_def *d = e->m->config.def;
    const struct uw_convert_model *like = e->like;
    struct ends ends = {.outputs_n = like != NULL ? like->outputs_n : 1};
    for (uint32_t i = 0; i < ends.outputs_n; i++) {
        ends.layer[i] = layer_of(d, i);
        ends.output[i] = like != NULL ? like->output[i] : (struct uw_convert_end){.rank = 0};
    }
    if (like != NULL) {
        ends.input = like->input;
        ends.columns = like->columns;
        ends.columns_n = like->columns_n;
        return ends;
    }
    uint32_t dim[UW_SHAPE_RANK_MAX];
    uint32_t rank = uw_model_shape(e->m, ends.layer[0], dim);
    const uint32_t in[3] = {d->in_channels, d->in_h != 0 ? d->in_h : d->in_w, d->in_w};
    ends.input = plain_end("input", d->in_h != 0 ? 3 : d->in_w != 0 ? 2 : 1, in);
    ends.output[0] = plain_end("output", rank, dim);
    return ends;
}

/* From an input of the graph to floats with the minibatch in front. Returns the name. */
static const char *begin_one(struct uw_export *e, const struct uw_convert_end *end)
{
    int64_t order[UW_CONVERT_RANK_MAX] = {end->batch};
    const char *x = end->name;
    if (end->type != FLOAT && end->type != 0) {
        x = uw_export_cast(e, x, FLOAT);
    }
    for (uint32_t a = 0; a < end->rank; a++) {
        if (a != end->batch) {
            order[a < end->batch ? a + 1 : a] = a;
        }
    }
    return end->batch != 0 ? uw_export_transpose(e, x, end->rank, order) : x;
}

/* From the graph's inputs to what the layers read. */
static void begin(struct uw_export *e, const struct ends *ends)
{
    struct uw_export_node *row = NULL;
    const char *column[UW_EXPORT_INPUTS_MAX];
    e->name = "input";
    for (uint32_t i = 0; i < ends->columns_n; i++) {
        column[i] = uw_export_op(e, "Flatten", begin_one(e, &ends->columns[i]), NULL);
    }
    for (uint32_t i = 0; i < ends->columns_n; i++) {
        row = i == 0 ? uw_export_node(e, "Concat", column[0], NULL, NULL) : row;
        row->input[i] = column[i];
        row->inputs_n = i + 1;
    }
    if (row != NULL) {
        uw_export_int(row, "axis", 1);
    }
    e->input = row != NULL ? row->output[0] : begin_one(e, &ends->input);
}

/* From a layer's output to the graph's: its axes, its softmax, its type. */
static void finish(struct uw_export *e, const struct uw_convert_end *end, uint32_t layer)
{
    int64_t dim[UW_CONVERT_RANK_MAX];
    uint32_t have[UW_SHAPE_RANK_MAX];
    uint32_t rank = uw_model_shape(e->m, layer, have);
    bool same = rank + 1 == end->rank;
    const char *y = e->value[layer];
    for (uint32_t a = 1; a < end->rank; a++) {
        dim[a - 1] = end->dim[a];
        same = same && have[a - 1] == end->dim[a];
    }
    e->name = end->name;
    if (!same) {
        y = uw_export_reshape(e, y, end->rank - 1, dim);
    }
    if (end->left_out != NULL) {
        struct uw_export_node *n = uw_export_node(e, end->left_out, y, NULL, NULL);
        if (strcmp(end->left_out, "Sigmoid") != 0) {
            uw_export_int(n, "axis", end->axis);
        }
        y = n->output[0];
    }
    if (end->type != FLOAT && end->type != 0) {
        y = uw_export_cast(e, y, end->type);
    }
    if (y == e->value[layer]) { /* others may read it under its own name */
        uw_export_node(e, "Identity", y, NULL, NULL);
    }
    if (e->last != NULL) {
        e->last->output[0] = end->name;
    }
}

static void take_end(struct uw_export *e, const char *name)
{
    *uw_names_slot(&e->taken, name) = (struct uw_name){.name = name, .at = 1};
}

/* The names that parameters have, in the file too, unless two have the same one, or another value:
 * nothing else has them. */
static int take_names(struct uw_export *e, const struct ends *ends)
{
    const struct uw_convert_model *like = e->like;
    const struct uw_params *params = &e->m->params;
    uint32_t named_n = like != NULL ? like->tensors_n : 0;
    if (uw_names_init(&e->sources, e->pool, named_n) < 0 ||
        uw_names_init(&e->taken, e->pool, (uint64_t)named_n + params->segments_n +
                                              ends->columns_n + ends->outputs_n + 1) < 0) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < params->segments_n; i++) {
        uw_names_slot(&e->taken, params->segments[i].name)->name = params->segments[i].name;
    }
    take_end(e, ends->input.name);
    for (uint32_t i = 0; i < ends->columns_n; i++) {
        take_end(e, ends->columns[i].name);
    }
    for (uint32_t i = 0; i < ends->outputs_n; i++) {
        take_end(e, ends->output[i].name);
    }
    for (uint32_t i = 0; i < named_n; i++) {
        const struct uw_convert_tensor *t = &like->tensors[i];
        struct uw_name *used = t->source != NULL ? uw_names_slot(&e->taken, t->source) : NULL;
        struct uw_name *slot = uw_names_slot(&e->sources, t->name);
        slot->name = t->name;
        if (used != NULL && used->name == NULL) {
            used->name = t->source;
            slot->other = t->source;
        }
    }
    return UW_OK;
}

static int build(struct uw_export *e, struct ends *ends)
{
    const struct uw_model_def *d = e->m->config.def;
    bool *needed = uw_pool_take(e->pool, d->layers_n, sizeof *needed);
    e->value = uw_pool_take(e->pool, d->layers_n, sizeof *e->value);
    *ends = find_ends(e);
    if (take_names(e, ends) < 0 || needed == NULL || e->value == NULL) {
        return uw_error_set(e->err, UW_ERR_NOMEM, "%.60s: out of memory", d->name);
    }
    mark_needed(d, ends, needed);
    begin(e, ends);
    for (uint32_t i = 0; i < d->layers_n; i++) {
        if (!needed[i]) {
            continue;
        }
        e->layer = i;
        e->def = &d->layers[i];
        e->name = e->def->name;
        set_input(e);
        e->out.rank = uw_model_shape(e->m, i, e->out.dim);
        e->value[i] = uw_export_layer(e);
        if (e->value[i] == NULL) {
            return e->err->code;
        }
    }
    for (uint32_t i = 0; i < ends->outputs_n; i++) {
        finish(e, &ends->output[i], ends->layer[i]);
    }
    return e->failed ? uw_error_set(e->err, UW_ERR_NOMEM, "%.60s: out of memory", d->name) : UW_OK;
}

static int encode(struct uw_export *e, struct ends *ends, struct entries *entries,
                  uw_convert_put put, void *arg)
{
    const struct uw_model_def *d = e->m->config.def;
    struct out out = {.put = put, .arg = arg};
    pb_ostream_t stream = {.callback = write_bytes, .state = &out, .max_size = SIZE_MAX};
    uw_onnx_Model pb = uw_onnx_Model_init_zero;
    uint64_t bytes = (uint64_t)e->m->params.size_n * sizeof(float);

    if (bytes > INT32_MAX - 65536) {
        return uw_error_set(e->err, UW_ERR_TOOBIG, "%.60s: %llu bytes of weights, an ONNX file "
                            "holds 2 GB", d->name, (unsigned long long)bytes);
    }
    pb.ir_version = IR_VERSION;
    pb.producer_name = text_of("uwasa");
    pb.has_graph = true;
    pb.graph.name = text_of(d->name != NULL ? d->name : "model");
    pb.graph.node = (pb_callback_t){{.encode = write_nodes}, e};
    pb.graph.initializer = (pb_callback_t){{.encode = write_tensors}, e};
    pb.graph.input = (pb_callback_t){{.encode = write_input}, ends};
    pb.graph.output = (pb_callback_t){{.encode = write_outputs}, ends};
    pb.opset_import = (pb_callback_t){{.encode = write_opset}, e};
    pb.metadata_props = (pb_callback_t){{.encode = write_entries}, entries};
    if (!pb_encode(&stream, uw_onnx_Model_fields, &pb)) {
        return uw_error_set(e->err, out.rc < 0 ? out.rc : UW_ERR_IO, "%.60s: cannot be written",
                            d->name);
    }
    return UW_OK;
}

int uw_convert_write_onnx_like(const struct uw_model *m, const struct uw_convert_model *like,
                               uw_convert_put put, void *arg, struct uw_error *err)
{
    struct uw_error unused;
    struct uw_pool pool = {.blocks = NULL};
    struct uw_export e = {.m = m, .like = like != NULL && like->outputs_n > 0 ? like : NULL,
                          .opset = OPSET, .pool = &pool, .err = err != NULL ? err : &unused};
    struct ends ends;

    if (m->config.adapt.lora_rank != 0) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "%.60s: low-rank additions are no part of an "
                            "ONNX layer: add them to the weights first", m->config.def->name);
    }
    int rc = build(&e, &ends);
    struct entries entries = {.like = like, .threshold = m->anomaly_threshold};
    rc = rc < 0 ? rc : encode(&e, &ends, &entries, put, arg);
    uw_pool_deinit(&pool);
    return rc;
}

int uw_convert_write_onnx(const struct uw_model *m, uw_convert_put put, void *arg,
                          struct uw_error *err)
{
    return uw_convert_write_onnx_like(m, NULL, put, arg, err);
}
