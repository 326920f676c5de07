/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch's newer exporter notes of the program: of each constant what it is there, of those
 * that it computed in advance what from, and of the graph which parameters there are. */
#include "onnx_reader.h"

#include <string.h>

/* Read "x: PARAMETER target='NAME'" of each line of the program's signature. */
static int read_parameters(struct uw_onnx_graph *g, struct uw_pool *pool, const char *signature)
{
    static const char mark[] = ": PARAMETER target='";
    struct uw_names *names = uw_pool_take(pool, 1, sizeof *names);
    uint32_t n = 0;
    for (const char *p = signature; (p = strstr(p, mark)) != NULL; p += sizeof mark - 1) {
        n++;
    }
    g->parameter = uw_pool_take(pool, n > 0 ? n : 1, sizeof *g->parameter);
    if (names == NULL || g->parameter == NULL || uw_names_init(names, pool, n) < 0) {
        return UW_ERR_NOMEM;
    }
    for (const char *p = signature; (p = strstr(p, mark)) != NULL;) {
        p += sizeof mark - 1;
        const char *name = uw_pool_text(pool, p, strcspn(p, "'"));
        if (name == NULL) {
            return UW_ERR_NOMEM;
        }
        struct uw_name *slot = uw_names_slot(names, name);
        if (slot->name == NULL) {
            g->parameter[g->parameters_n++] = name;
            *slot = (struct uw_name){.name = name};
        }
    }
    g->parameters = names;
    return UW_OK;
}

bool uw_onnx_is_parameter(const struct uw_onnx_graph *g, const char *name)
{
    return g->parameters != NULL && uw_names_slot(g->parameters, name)->name != NULL;
}

int uw_onnx_folded_name(struct uw_pool *pool, const struct uw_onnx_tensor *t, uint32_t i,
                        const char **name)
{
    const char *p = t->folded_from != NULL ? strchr(t->folded_from, '\'') : NULL;
    while (p != NULL && i > 0) {
        p = strchr(p + 1, '\'');
        p = p != NULL ? strchr(p + 1, '\'') : NULL;
        i--;
    }
    if (p == NULL) {
        return UW_ERR_NOTFOUND;
    }
    *name = uw_pool_text(pool, p + 1, strcspn(p + 1, "'"));
    return *name != NULL ? UW_OK : UW_ERR_NOMEM;
}

/* Whether a name is that of an operator that computes with elements, not one that moves them, or of
 * a step of one: "mul_1", and not "view" or "val_3". */
static bool is_computation(const char *name)
{
    static const char *const moves[] = {
        "val",    "view",   "reshape", "transpose", "t",      "permute", "unsqueeze", "squeeze",
        "expand", "slice",  "cat",     "clone",     "select", "getitem", "split",     "chunk",
        "alias",  "detach", "stack",   "to",        "flatten", "flip",   "unbind",    "contiguous",
        "repeat", "index",  "zeros",   "ones",      "full",   "arange",  "_to_copy",
        "split_with_sizes", "embedding"};
    size_t n = strlen(name);
    size_t digits = n;
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') {
        digits--;
    }
    n = digits > 1 && digits < n && name[digits - 1] == '_' ? digits - 1 : n;
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        if (strlen(moves[i]) == n && memcmp(moves[i], name, n) == 0) {
            return false;
        }
    }
    return memchr(name, '.', n) == NULL;
}

/* What the exporter computed a constant from. */
struct origin {
    bool parameters;                /* some are parameters */
    bool computed;                  /* and it did not only move their elements */
};

/* Returns UW_OK or UW_ERR_NOMEM.
 *   values  what the graph's nodes make: of these the shape was read */
static int find_origin(const struct uw_onnx_graph *g, struct uw_pool *pool,
                       const struct uw_names *values, const struct uw_onnx_tensor *t,
                       struct origin *o)
{
    const char *name;
    int rc;
    *o = (struct origin){.computed = is_computation(t->name)};
    for (uint32_t i = 0; (rc = uw_onnx_folded_name(pool, t, i, &name)) == UW_OK; i++) {
        struct uw_name *slot = uw_names_slot(g->parameters, name);
        if (slot->name != NULL) {
            slot->at = 1;
            o->parameters = true;
        } else if (uw_names_slot(values, name)->name == NULL) {
            o->computed = o->computed || is_computation(name);
        }
    }
    return rc == UW_ERR_NOMEM ? rc : UW_OK;
}

/* The names of constants, with their tensors, and of what nodes make. */
static int read_names(const struct uw_onnx_graph *g, struct uw_pool *pool, struct uw_names *names,
                      struct uw_names *values)
{
    uint64_t outputs = 0;
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        outputs += g->node[i].outputs_n;
    }
    if (uw_names_init(names, pool, g->initializers_n) < 0 ||
        uw_names_init(values, pool, outputs) < 0) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < g->initializers_n; i++) {
        const char *name = g->initializer[i].name;
        *uw_names_slot(names, name) = (struct uw_name){.name = name, .value = &g->initializer[i]};
        struct uw_name *slot = g->parameters != NULL ? uw_names_slot(g->parameters, name) : NULL;
        if (slot != NULL && slot->name != NULL) {
            slot->at = 1;
        }
    }
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        for (uint32_t k = 0; k < g->node[i].outputs_n; k++) {
            const char *name = g->node[i].output[k];
            *uw_names_slot(values, name) = (struct uw_name){.name = name};
        }
    }
    return UW_OK;
}

int uw_onnx_set_roles(struct uw_onnx_graph *g, struct uw_pool *pool,
                      const struct uw_onnx_list *notes, const struct uw_onnx_list *metadata)
{
    const struct uw_onnx_note *note = notes->item;
    const struct uw_convert_entry *entry = metadata->item;
    struct uw_names names, values;
    int rc = UW_OK;
    for (uint32_t i = 0; i < metadata->n && rc == UW_OK && g->parameters == NULL; i++) {
        if (strcmp(entry[i].key, "pkg.torch.export.ExportedProgram.graph_signature") == 0) {
            rc = read_parameters(g, pool, entry[i].value);
        }
    }
    if (rc < 0 || notes->n == 0 || read_names(g, pool, &names, &values) < 0) {
        return notes->n == 0 ? rc : UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < notes->n && rc == UW_OK; i++) {
        struct uw_onnx_tensor *t = uw_names_slot(&names, note[i].name)->value;
        struct origin o;
        if (t != NULL && note[i].kind != NULL) {
            t->role = strcmp(note[i].kind, "PARAMETER") == 0 ? UW_ONNX_ROLE_TRAINS
                                                             : UW_ONNX_ROLE_FIXED;
        } else if (t != NULL && g->parameters != NULL) {
            t->folded_from = note[i].folded_from;
            rc = find_origin(g, pool, &values, t, &o);
            t->role = rc == UW_OK && !o.parameters ? UW_ONNX_ROLE_FIXED : t->role;
            t->computed = rc == UW_OK && o.parameters && o.computed;
        }
    }
    return rc;
}
