/* SPDX-License-Identifier: Apache-2.0
 *
 * A Loop whose number of steps is known, as Keras's GRU and SimpleRNN become one: its body is read
 * once for each step. What the steps read from outside is one tensor for all of them. */
#include "import_const.h"
#include "import_graph.h"
#include "import_parts.h"

#include <string.h>

#define STEPS_MAX 1024u

struct loop {
    const struct uw_onnx_node *n;
    const struct uw_onnx_graph *body;
    uint32_t carried_n, scanned_n;
    uint64_t steps_max;
    struct uw_value *carried;       /* [carried_n] */
    struct uw_view *scanned;        /* [scanned_n][steps_max] */
};

/* v becomes the value `from`, and keeps its own name and readers. */
static void become(struct uw_value *v, const struct uw_value *from)
{
    struct uw_value kept = *v;
    *v = *from;
    v->name = kept.name;
    v->node = kept.node;
    v->reader = kept.reader;
    v->users_n = kept.users_n;
}

static struct uw_value *value_of(struct uw_import *im, const struct uw_onnx_value_info *info)
{
    return uw_import_value(im, info->name);
}

static int read_loop(struct uw_import *im, const struct uw_onnx_node *n, struct loop *l)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, "body");
    const struct uw_value *trips = uw_import_in(im, n, 0), *goes = uw_import_in(im, n, 1);
    double most = STEPS_MAX + 1.0, on = 1.0;
    *l = (struct loop){.n = n, .body = a != NULL ? a->g : NULL};
    if (l->body == NULL || n->inputs_n < 2 || l->body->inputs_n != n->inputs_n ||
        l->body->outputs_n < n->inputs_n - 1) {
        return uw_import_refuse(im, n, UW_ERR_CORRUPT, "its body has no graph, or other inputs "
                                "and outputs than it");
    }
    l->carried_n = n->inputs_n - 2;
    l->scanned_n = l->body->outputs_n - 1 - l->carried_n;
    if ((trips != NULL && !uw_import_scalar(trips, &most)) ||
        (goes != NULL && !uw_import_scalar(goes, &on))) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its number of steps depends on the "
                                "sample: export the model with its steps written out");
    }
    l->steps_max = most < 0.0 || on == 0.0 ? 0 : most > STEPS_MAX ? STEPS_MAX : (uint64_t)most;
    l->carried = uw_pool_take(im->pool, l->carried_n, sizeof *l->carried);
    l->scanned = uw_pool_take(im->pool, l->scanned_n * l->steps_max, sizeof *l->scanned);
    if (l->carried == NULL || l->scanned == NULL) {
        return uw_import_nomem(im);
    }
    for (uint32_t k = 0; k < l->carried_n; k++) {
        const struct uw_value *v = uw_import_in(im, n, k + 2);
        if (v == NULL) {
            return uw_import_refuse(im, n, UW_ERR_CORRUPT, "input %u is missing", (unsigned)k + 3);
        }
        l->carried[k] = *v;
    }
    return UW_OK;
}

/* Names of the body, and what its steps have in common. */
static int declare_body(struct uw_import *im, const struct loop *l)
{
    struct uw_value *v;
    int rc = uw_import_declare_constants(im, l->body);
    for (uint32_t k = 0; k < l->body->inputs_n && rc == UW_OK; k++) {
        rc = uw_import_declare(im, l->body->input[k].name, l->n, &v);
    }
    rc = rc < 0 ? rc : uw_import_declare_nodes(im, l->body);
    for (uint32_t i = 0; i < l->body->nodes_n && rc == UW_OK; i++) {
        for (uint32_t k = 0; k < l->body->node[i].inputs_n; k++) {
            v = uw_import_value(im, l->body->node[i].input[k]);
            if (v != NULL) {
                v->t.one = true;
            }
        }
    }
    return rc;
}

/* A number as a value. */
static int be_number(struct uw_import *im, struct uw_value *v, int64_t number)
{
    struct uw_value fresh = {.kind = UW_VALUE_CONST, .t = {.name = ""}};
    int64_t *data = uw_const_fresh(im, NULL, &fresh.t, 0);
    if (data == NULL) {
        return im->err->code;
    }
    *data = number;
    become(v, &fresh);
    return UW_OK;
}

/* Read the body for step i. Returns 1 (another step may follow), 0, or a code with err set. */
static int run_step(struct uw_import *im, const struct loop *l, uint64_t i)
{
    const struct uw_onnx_graph *g = l->body;
    static const struct uw_value opaque = {.kind = UW_VALUE_OPAQUE, .t = {.one = true}};
    double on;
    int rc = be_number(im, value_of(im, &g->input[0]), (int64_t)i);
    rc = rc < 0 ? rc : be_number(im, value_of(im, &g->input[1]), 1);
    for (uint32_t k = 0; k < l->carried_n; k++) {
        struct uw_value *v = value_of(im, &g->input[k + 2]);
        become(v, &l->carried[k]);
        v->t.one = true;
    }
    for (uint32_t k = 0; k < g->nodes_n; k++) {
        for (uint32_t o = 0; o < g->node[k].outputs_n; o++) {
            struct uw_value *v = uw_import_value(im, g->node[k].output[o]);
            if (v != NULL) {
                become(v, &opaque);
            }
        }
    }
    rc = rc < 0 ? rc : uw_import_run(im, g);
    for (uint32_t k = 0; k < g->outputs_n && rc == UW_OK; k++) {
        struct uw_value *v = value_of(im, &g->output[k]);
        if (v == NULL || v->kind == UW_VALUE_LIST) {
            return uw_import_refuse(im, l->n, UW_ERR_UNSUPPORTED, "its body makes no value '%.60s'",
                                    g->output[k].name);
        }
        if (v->kind == UW_VALUE_OPAQUE) {
            return uw_error_set(im->err, v->code, "%s", v->why);
        }
        if (k > 0 && k <= l->carried_n) {
            l->carried[k - 1] = *v;
        } else if (k > 0) {
            struct uw_view *to = &l->scanned[(k - 1 - l->carried_n) * l->steps_max + i];
            *to = v->view;
            rc = v->kind == UW_VALUE_DATA
                     ? UW_OK
                     : uw_import_constant_view(im, l->n, &v->t, uw_import_learns(im, &v->t), to);
        }
    }
    if (rc == UW_OK && !uw_import_scalar(value_of(im, &g->output[0]), &on)) {
        return uw_import_refuse(im, l->n, UW_ERR_UNSUPPORTED, "whether its next step follows "
                                "depends on the sample: export the model with its steps written "
                                "out");
    }
    return rc < 0 ? rc : on != 0.0;
}

static int unroll(struct uw_import *im, struct loop *l, uint64_t *steps)
{
    int more = declare_body(im, l);
    more = more < 0 ? more : 1;
    for (*steps = 0; more > 0 && *steps < l->steps_max; (*steps)++) {
        more = run_step(im, l, *steps);
    }
    if (more > 0 && *steps == STEPS_MAX) {
        return uw_import_refuse(im, l->n, UW_ERR_TOOBIG, "more than %u steps", STEPS_MAX);
    }
    return more < 0 ? more : UW_OK;
}

int uw_op_loop(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct loop l;
    uint64_t steps = 0;
    if (strcmp(n->op, "Scan") == 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "a loop over an axis: export the model "
                                "with its steps written out, or as LSTM, GRU or RNN");
    }
    if (uw_import_opaque_input(im, n)) {
        return im->err->code;
    }
    int rc = read_loop(im, n, &l);
    rc = rc < 0 ? rc : unroll(im, &l, &steps);
    for (uint32_t k = 0; k < n->outputs_n && rc == UW_OK; k++) {
        struct uw_value *y = uw_import_out(im, n, k);
        if (y == NULL || y->users_n == 0) {
            continue;
        }
        if (k < l.carried_n) {
            become(y, &l.carried[k]);
            continue;
        }
        struct uw_view *v = l.scanned + (k - l.carried_n) * l.steps_max;
        if (k - l.carried_n >= l.scanned_n || steps == 0) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its output %u is empty",
                                    (unsigned)k + 1);
        }
        for (uint64_t i = 0; i < steps; i++) {
            if (!uw_view_insert(&v[i], 0)) {
                return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than 8 axes");
            }
        }
        rc = uw_import_concat(im, n, v, (uint32_t)steps, 0, y);
    }
    const char *note = rc == UW_OK ? uw_pool_format(im->pool, "the %u steps of loop '%.60s' are "
                                                    "layers, one after the other",
                                                    (unsigned)steps, n->name) : "";
    if (rc == UW_OK && note != NULL) {
        uw_import_note(im, note);
    }
    return note == NULL ? uw_import_nomem(im) : rc;
}
