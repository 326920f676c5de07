/* SPDX-License-Identifier: Apache-2.0
 *
 * The closed costs as a world's network. */
#include "formula_priv.h"
#include "world/world.h"

#include <stdlib.h>

struct uw_world_formula_state {
    struct uw_formula f;
    struct uw_world_node *last;     /* returned by next */
};

static struct uw_formula_config config_of(const struct uw_world_config *c)
{
    return (struct uw_formula_config){.fleet = c->fleet,
                                      .params = c->params,
                                      .mode = c->node.mode,
                                      .rule = c->node.rule,
                                      .constants = c->node.constants,
                                      .schedule = c->node.schedule,
                                      .period_steps = c->node.period_steps,
                                      .seed = c->node.seed,
                                      .model_bytes = c->model_bytes,
                                      .algorithm = c->algorithm,
                                      .study_pull = c->study_pull,
                                      .pull_waits = c->pull_waits,
                                      .start_us = 1,
                                      .on_event = c->on_event,
                                      .event_arg = c->event_arg};
}

static void formula_defaults(struct uw_world_config *c)
{
    c->members_max = c->fleet->devices_n;
}

static int formula_measure(const struct uw_world_config *c, size_t *bytes, struct uw_error *err)
{
    const struct uw_formula_config config = config_of(c);
    (void)err;
    *bytes = uw_formula_bytes(&config);
    return UW_OK;
}

static int formula_open(struct uw_world *w, struct uw_error *err)
{
    struct uw_error why = {.text = ""};
    uint32_t n = w->config.fleet->devices_n;
    struct uw_formula_config config = config_of(&w->config);
    config.start_us += w->config.past.trained_us;
    struct uw_formula_vectors *vectors = calloc(n, sizeof *vectors);
    struct uw_world_formula_state *s = calloc(1, sizeof *s);
    int rc = UW_ERR_NOMEM;
    w->state = s;
    if (s != NULL && vectors != NULL) {
        for (uint32_t i = 0; i < n; i++) {
            vectors[i] = (struct uw_formula_vectors){.x = w->nodes[i].x,
                                                     .velocity = w->nodes[i].velocity,
                                                     .snapshot = w->nodes[i].snapshot.data};
        }
        config.vectors = vectors;
        rc = uw_formula_open(&s->f, &config, err != NULL ? err : &why);
    }
    free(vectors);
    return rc;
}

static void mirror(struct uw_world *w, const struct uw_formula_node *from)
{
    struct uw_world_node *n = &w->nodes[from->place];
    n->train_at_us = from->train_at_us;
    n->waits = from->waits;
}

/* A run that goes on: all show what they have, and steps end as they would have. */
static void go_on(struct uw_world *w)
{
    struct uw_world_formula_state *s = w->state;
    const struct uw_world_past *past = &w->config.past;
    for (uint32_t i = 0; i < w->config.fleet->devices_n; i++) {
        struct uw_formula_node *n = &s->f.nodes[i];
        uint64_t left_us = past->left_us[i];
        uw_formula_publish(&s->f, n);
        n->train_at_us = left_us != UINT64_MAX ? s->f.now_us + left_us : UINT64_MAX;
        uw_formula_set(&s->f, uw_formula_step_alarm(&s->f, i), n->train_at_us);
        if (left_us == UINT64_MAX) {
            uw_formula_end(&s->f, n);
        }
    }
}

/* Everybody knows everybody. */
static int formula_meet(struct uw_world *w, uint64_t limit_us)
{
    const struct uw_world_formula_state *s = w->state;
    (void)limit_us;
    if (w->config.past.left_us != NULL) {
        go_on(w);
    }
    w->now_us = s->f.now_us;
    w->start_us = w->now_us - w->config.past.trained_us;
    for (uint32_t i = 0; i < w->config.fleet->devices_n; i++) {
        mirror(w, &s->f.nodes[i]);
    }
    return UW_OK;
}

static struct uw_world_node *formula_next(struct uw_world *w)
{
    struct uw_world_formula_state *s = w->state;
    if (s->last != NULL) {
        s->f.nodes[s->last->place].train_at_us = s->last->train_at_us;
    }
    const struct uw_formula_node *n = uw_formula_next(&s->f);
    w->now_us = s->f.now_us;
    if (n != NULL) {
        mirror(w, n);
    }
    s->last = n != NULL ? &w->nodes[n->place] : NULL;
    return s->last;
}

static int formula_trained(struct uw_world *w, struct uw_world_node *n,
                           const struct uw_node_progress *progress, uint64_t pause_us)
{
    struct uw_world_formula_state *s = w->state;
    int flags = uw_formula_trained(&s->f, &s->f.nodes[n->place], progress, pause_us);
    mirror(w, &s->f.nodes[n->place]);
    return flags;
}

static bool formula_touches(const struct uw_world *w, const struct uw_world_node *n)
{
    const struct uw_world_formula_state *s = w->state;
    return uw_formula_touches(&s->f, &s->f.nodes[n->place]);
}

static void formula_agree(struct uw_world *w, struct uw_world_node *n)
{
    struct uw_world_formula_state *s = w->state;
    uw_formula_agree(&s->f, &s->f.nodes[n->place]);
}

static uint64_t formula_sent_bytes(const struct uw_world *w)
{
    const struct uw_world_formula_state *s = w->state;
    return (uint64_t)(s->f.sent_bytes + 0.5);
}

static struct uw_node_counters formula_counters(const struct uw_world *w)
{
    const struct uw_world_formula_state *s = w->state;
    return s->f.counters;
}

static void formula_close(struct uw_world *w)
{
    struct uw_world_formula_state *s = w->state;
    if (s != NULL) {
        uw_formula_close(&s->f);
        free(s);
        w->state = NULL;
    }
}

const struct uw_world_ops uw_world_formula = {
    .name = "formula",
    .defaults = formula_defaults,
    .measure = formula_measure,
    .open = formula_open,
    .meet = formula_meet,
    .next = formula_next,
    .trained = formula_trained,
    .touches = formula_touches,
    .agree = formula_agree,
    .sent_bytes = formula_sent_bytes,
    .counters = formula_counters,
    .close = formula_close,
};
