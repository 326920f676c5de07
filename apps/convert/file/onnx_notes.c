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

/* Whether no parameter is among what the exporter computed the constant from. Returns 1, 0, or
 * UW_ERR_NOMEM. */
static int is_of_constants(const struct uw_onnx_graph *g, struct uw_pool *pool,
                           const struct uw_onnx_tensor *t)
{
    const char *name;
    int rc;
    for (uint32_t i = 0; (rc = uw_onnx_folded_name(pool, t, i, &name)) == UW_OK; i++) {
        if (uw_onnx_is_parameter(g, name)) {
            return 0;
        }
    }
    return rc == UW_ERR_NOMEM ? rc : 1;
}

int uw_onnx_set_roles(struct uw_onnx_graph *g, struct uw_pool *pool,
                      const struct uw_onnx_list *notes, const struct uw_onnx_list *metadata)
{
    const struct uw_onnx_note *note = notes->item;
    const struct uw_convert_entry *entry = metadata->item;
    struct uw_names names;
    int rc = notes->n == 0 ? UW_OK : uw_names_init(&names, pool, g->initializers_n);
    for (uint32_t i = 0; i < metadata->n && rc == UW_OK && g->parameters == NULL; i++) {
        if (strcmp(entry[i].key, "pkg.torch.export.ExportedProgram.graph_signature") == 0) {
            rc = read_parameters(g, pool, entry[i].value);
        }
    }
    for (uint32_t i = 0; i < g->initializers_n && rc == UW_OK && notes->n > 0; i++) {
        struct uw_name *slot = uw_names_slot(&names, g->initializer[i].name);
        *slot = (struct uw_name){.name = g->initializer[i].name, .value = &g->initializer[i]};
    }
    for (uint32_t i = 0; i < notes->n && rc == UW_OK; i++) {
        struct uw_onnx_tensor *t = uw_names_slot(&names, note[i].name)->value;
        if (t != NULL && note[i].kind != NULL) {
            t->role = strcmp(note[i].kind, "PARAMETER") == 0 ? UW_ONNX_ROLE_TRAINS
                                                             : UW_ONNX_ROLE_FIXED;
        } else if (t != NULL && g->parameters != NULL) {
            t->folded_from = note[i].folded_from;
            rc = is_of_constants(g, pool, t);
            t->role = rc == 1 ? UW_ONNX_ROLE_FIXED : t->role;
            rc = rc < 0 ? rc : UW_OK;
        }
    }
    return rc;
}
