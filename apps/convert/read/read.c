/* SPDX-License-Identifier: Apache-2.0 */
#include "read.h"

#include "import/import_const.h"
#include "import/import_graph.h"
#include "import/import_parts.h"

#include <stdio.h>
#include <string.h>

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
    if (v->rounds != NULL) {
        return uw_import_refuse_rounding(im, v->rounds);
    }
    if (v->view.axes_n == 1 && uw_view_is_batch(&v->view, 0)) { /* one number of each sample */
        uw_view_insert(&v->view, 1);
    }
    return uw_import_arrange(im, v->node, &v->view, 3);
}

/* Whether the file names parameters as a program does, like fc.weight. */
static bool has_names(const struct uw_onnx_graph *g)
{
    bool some = false;
    for (uint32_t i = 0; i < g->initializers_n && !some; i++) {
        const char *end = strrchr(g->initializer[i].name, '.');
        some = end != NULL && (strcmp(end, ".weight") == 0 || strcmp(end, ".bias") == 0);
    }
    return some;
}

/* Whether PyTorch's older exporter computed the tensor: onnx::Conv_19, or 19 up to PyTorch 1.12 in
 * a file that has names. */
static bool is_computed(const char *name, bool named)
{
    bool number = name[0] != '\0' && strspn(name, "0123456789") == strlen(name);
    return (number && named) || strncmp(name, "onnx::Conv", 10) == 0;
}

/* How a convolution or dense layer shows that a batch norm was folded into it; NULL: not at all.
 * PyTorch's older exporter does not say so, but leaves computed constants as weight and bias, or
 * the name of the batch norm's output. */
static const char *folding_of(const struct uw_import *im, const struct uw_onnx_node *n, bool named)
{
    bool conv = strncmp(n->op, "Conv", 4) == 0;
    const char *made = n->outputs_n > 0 ? n->output[0] : "", *last = strrchr(made, '/');
    last = last != NULL ? last : made; /* without the modules around it */
    if ((conv || strcmp(n->op, "Gemm") == 0) &&
        (strstr(last, "BatchNorm") != NULL || strstr(last, "batch_norm") != NULL)) {
        return uw_pool_format(im->pool, "node '%.60s' makes '%.80s'", n->name, made);
    }
    return conv && n->inputs_n > 2 && is_computed(n->input[1], named) &&
                   is_computed(n->input[2], named)
               ? uw_pool_format(im->pool, "the weights of node '%.60s' are computed", n->name)
               : NULL;
}

/* Tell of batch norms that an exporter has folded into other layers. */
static int tell_folding(struct uw_import *im)
{
    const struct uw_onnx_graph *g = &im->graph;
    const char *evidence = g->folded_batchnorm;
    bool named = has_names(g);
    for (uint32_t i = 0; i < g->nodes_n && evidence == NULL; i++) {
        evidence = folding_of(im, &g->node[i], named);
    }
    if (evidence == NULL) {
        return UW_OK;
    }
    const char *note = uw_pool_format(im->pool, "batch norm was folded into the layers in front "
                                      "(%s), so it is not trained; PyTorch keeps it with "
                                      "torch.onnx.export(..., dynamo=True, optimize=False), or "
                                      "dynamo=False, do_constant_folding=False, "
                                      "training=torch.onnx.TrainingMode.TRAINING", evidence);
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

/* The names of the file's outputs that are chosen, or of the others: "'a', 'b'". */
static const char *names_of(const struct uw_import *im,
                            const struct uw_onnx_value_info *const *chosen, uint32_t chosen_n,
                            bool others, char text[160])
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < im->graph.outputs_n && used < 160; i++) {
        bool among = false;
        for (uint32_t k = 0; k < chosen_n; k++) {
            among = among || chosen[k] == &im->graph.output[i];
        }
        if (among != others) {
            used += (size_t)snprintf(text + used, 160 - used, "%s'%.60s'", used > 0 ? ", " : "",
                                     im->graph.output[i].name);
        }
    }
    return text;
}

/* The outputs of --output NAME,NAME, in this order. */
static int take_named(struct uw_import *im, const struct uw_onnx_value_info **chosen,
                      uint32_t *chosen_n)
{
    const struct uw_onnx_graph *g = &im->graph;
    char text[160];
    for (const char *name = im->options->output; name != NULL;) {
        size_t bytes = strcspn(name, ",");
        const struct uw_onnx_value_info *found = NULL;
        for (uint32_t i = 0; i < g->outputs_n && found == NULL; i++) {
            bool same = strlen(g->output[i].name) == bytes &&
                        memcmp(g->output[i].name, name, bytes) == 0;
            found = same ? &g->output[i] : NULL;
        }
        for (uint32_t i = 0; i < *chosen_n; i++) {
            found = chosen[i] != found ? found : NULL;
        }
        if (found == NULL || *chosen_n == UW_LOSSES_MAX) {
            return uw_import_refuse(im, NULL, UW_ERR_INVALID, "--output %.60s: %s: it has %.120s",
                                    im->options->output,
                                    found == NULL ? "no such output" : "too many",
                                    names_of(im, NULL, 0, true, text));
        }
        chosen[(*chosen_n)++] = found;
        name = name[bytes] == ',' ? name + bytes + 1 : NULL;
    }
    return UW_OK;
}

/* The outputs that are trained: --output, or all. Returns UW_OK, or a code with err set. */
static int choose_outputs(struct uw_import *im, const struct uw_onnx_value_info **chosen,
                          uint32_t *chosen_n)
{
    const struct uw_onnx_graph *g = &im->graph;
    char text[160], others[160];
    *chosen_n = 0;
    if (im->options->output == NULL && g->outputs_n > UW_LOSSES_MAX) {
        return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED, "%u outputs: needs one, the logits: "
                                "--output NAME chooses it", (unsigned)g->outputs_n);
    }
    for (uint32_t i = 0; i < g->outputs_n && im->options->output == NULL; i++) {
        chosen[(*chosen_n)++] = &g->output[i];
    }
    int rc = take_named(im, chosen, chosen_n);
    if (rc < 0) {
        return rc;
    }
    uint32_t left_n = g->outputs_n - *chosen_n;
    const char *labels = g->labels != NULL
                             ? uw_pool_format(im->pool, "left out, because they are the class and "
                                              "have no gradient: outputs %s", g->labels) : "";
    const char *note = left_n != 0
                           ? uw_pool_format(im->pool, "output%s %s %s trained; %s %s left out",
                                            *chosen_n > 1 ? "s" : "",
                                            names_of(im, chosen, *chosen_n, false, text),
                                            *chosen_n > 1 ? "are" : "is",
                                            names_of(im, chosen, *chosen_n, true, others),
                                            left_n > 1 ? "are" : "is")
                           : "";
    if (labels == NULL || note == NULL) {
        return uw_import_nomem(im);
    }
    if (g->labels != NULL) {
        uw_import_note(im, labels);
    }
    if (left_n != 0) {
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
        if (v != NULL && i > 0 && im->options->output == NULL &&
            (v->n != out[0]->view.n || v->rank != 1 || out[0]->view.rank != 1)) {
            return uw_import_refuse(im, NULL, UW_ERR_UNSUPPORTED,
                                    "outputs '%.30s' and '%.30s': --output %.30s trains that one "
                                    "and leaves out the others, --output %.30s,%.30s --loss "
                                    "cross_entropy,mse both, each with its loss", info[0]->name,
                                    info[i]->name, info[0]->name, info[0]->name, info[i]->name);
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
    rc = uw_read_tables(im, m, out, outputs_n);
    rc = rc < 0 ? rc : tell_folding(im);
    memcpy(m->notes, im->notes, sizeof m->notes);
    m->notes_n = im->notes_n;
    m->entry = im->graph.entry;
    m->entries_n = im->graph.entries_n;
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
    if (rc == UW_OK) {
        uw_read_roles(&im);
        rc = uw_import_graph(&im);
    }
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
