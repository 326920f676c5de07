/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of the program that the file does not have as they are: PyTorch's newer exporter
 * computes with them in advance, or leaves them out where they change nothing. */
#include "read.h"

#include "import/import_parts.h"

#include <string.h>

static int tell(struct uw_import *im, const char *note)
{
    if (note == NULL) {
        return uw_import_nomem(im);
    }
    uw_import_note(im, note);
    return UW_OK;
}

/* "'fc' from 'w' and 'g'" */
static void add_origin(struct uw_import *im, const struct uw_import_layer *l,
                      const struct uw_import_param *p, struct uw_read_list *all)
{
    const struct uw_onnx_tensor t = {.folded_from = p->folded_from};
    struct uw_read_list from = {.text = ""};
    const char *name;
    for (uint32_t i = 0; uw_onnx_folded_name(im->pool, &t, i, &name) == UW_OK; i++) {
        if (uw_onnx_is_parameter(&im->graph, name)) {
            uw_read_list_add(&from, " and ", "'%s'", name);
        }
    }
    uw_read_list_add(all, ", ", "'%s' from %s", l->def.name, from.text);
}

static int tell_computed(struct uw_import *im)
{
    struct uw_read_list all = {.text = ""};
    for (uint32_t i = 0; i < im->layers_n; i++) {
        const struct uw_import_layer *l = im->layer[i];
        for (uint32_t p = 0; p < UW_PARAMS_MAX && l->needed; p++) {
            if (l->param[p].suffix != NULL && l->param[p].folded_from != NULL) {
                add_origin(im, l, &l->param[p], &all);
            }
        }
    }
    return all.n == 0
               ? UW_OK
               : tell(im, uw_pool_format(im->pool, "weights that the exporter computed from "
                                         "parameters in advance: %s: they train as plain weights; "
                                         "torch.onnx.export(..., optimize=False) leaves the "
                                         "parameters in the file", all.text));
}

/* Whether PyTorch's older exporter computed a weight in advance, onnx::Conv_19; with the bias, too,
 * that is a batch norm, which is told elsewhere. */
static bool is_old_computed(const struct uw_import_layer *l)
{
    static const char *const names[] = {"onnx::Conv", "onnx::Gemm"};
    bool found[2] = {false, false};
    for (uint32_t p = 0; p < 2; p++) {
        const char *name = l->param[p].suffix != NULL ? l->param[p].source : NULL;
        for (uint32_t k = 0; k < 2 && name != NULL; k++) {
            found[p] = found[p] || strncmp(name, names[k], strlen(names[k])) == 0;
        }
    }
    return found[0] && !found[1];
}

static int tell_old_computed(struct uw_import *im)
{
    struct uw_read_list all = {.text = ""};
    for (uint32_t i = 0; i < im->layers_n; i++) {
        if (im->layer[i]->needed && is_old_computed(im->layer[i])) {
            uw_read_list_add(&all, ", ", "'%s'", im->layer[i]->def.name);
        }
    }
    return all.n == 0
               ? UW_OK
               : tell(im, uw_pool_format(im->pool, "weights that the exporter computed in advance, "
                                         "as those of weight_norm: %s: they train as plain "
                                         "weights; torch.onnx.export(..., dynamo=False, "
                                         "do_constant_folding=False) leaves the parameters in the "
                                         "file", all.text));
}

/* Whether the name is a parameter of another module. */
static bool is_of_another(const struct uw_import *im, const char *name, const char *module)
{
    size_t n = strlen(module);
    return uw_onnx_is_parameter(&im->graph, name) &&
           (strncmp(name, module, n) != 0 || name[n] != '.');
}

/* The parameter of another module that the constant of that name is, or is moved from. */
static const char *moved_of_another(const struct uw_import *im, const char *name,
                                    const char *module)
{
    const struct uw_value *v = uw_names_slot(&im->values, name)->value;
    const char *from;
    if (v == NULL || v->kind != UW_VALUE_CONST || v->t.computed) {
        return NULL;
    }
    for (uint32_t i = 0; uw_onnx_folded_name(im->pool, &v->t, i, &from) == UW_OK; i++) {
        if (is_of_another(im, from, module)) {
            return from;
        }
    }
    return is_of_another(im, name, module) ? name : NULL;
}

const char *uw_read_tied(const struct uw_import *im, const char *name)
{
    const char *dot = strrchr(name, '.');
    const char *module = dot != NULL ? uw_pool_text(im->pool, name, (size_t)(dot - name)) : NULL;
    const char *scope = module != NULL ? uw_pool_format(im->pool, ", '%s'", module) : NULL;
    size_t n = scope != NULL ? strlen(scope) : 0;
    for (uint32_t i = 0; i < im->graph.nodes_n && n > 0; i++) {
        const struct uw_onnx_node *node = &im->graph.node[i];
        size_t all = node->module != NULL ? strlen(node->module) : 0;
        bool inside = all >= n && strcmp(node->module + all - n, scope) == 0;
        for (uint32_t k = 0; k < node->inputs_n && inside; k++) {
            const char *from = moved_of_another(im, node->input[k], module);
            if (from != NULL) {
                return from;
            }
        }
    }
    return NULL;
}

/* Whether the file has the same parameter of another module of a list. Such modules begin alike. */
static bool has_copy(const struct uw_import *im, const char *name)
{
    const struct uw_onnx_graph *g = &im->graph;
    for (uint32_t i = 0; i < g->parameters_n; i++) {
        if (uw_import_are_copies(g->parameter[i], name) &&
            uw_names_slot(g->parameters, g->parameter[i])->at != 0) {
            return true;
        }
    }
    return false;
}

static int tell_lost(struct uw_import *im)
{
    const struct uw_onnx_graph *g = &im->graph;
    struct uw_read_list lost = {.text = ""};
    for (uint32_t i = 0; i < g->parameters_n; i++) {
        const char *name = g->parameter[i];
        if (uw_names_slot(g->parameters, name)->at == 0 && uw_read_tied(im, name) == NULL &&
            !has_copy(im, name)) {
            uw_read_list_add(&lost, ", ", "'%s'", name);
        }
    }
    return lost.n == 0 || g->folded_batchnorm != NULL
               ? UW_OK
               : tell(im, uw_pool_format(im->pool, "parameters of the program that the file does "
                                         "not have: %s: unless they are not used, the exporter "
                                         "left them out, because they change nothing so far, or "
                                         "are equal to other constants; torch.onnx.export(..., "
                                         "optimize=False) keeps them", lost.text));
}

int uw_read_origins(struct uw_import *im)
{
    int rc = tell_computed(im);
    rc = rc < 0 ? rc : tell_old_computed(im);
    return rc < 0 ? rc : tell_lost(im);
}
