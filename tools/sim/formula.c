/* SPDX-License-Identifier: Apache-2.0 */
#include "formula_inner.h"

#include <stdlib.h>
#include <string.h>

#define PERIOD_STEPS 10u
#define WEIGHT 0.5f

void uw_formula_set(struct uw_formula *f, uint32_t alarm, uint64_t due_us)
{
    if (alarm < uw_formula_pull_alarm(f, 0)) {
        f->busy_n -= f->clock.due_us[alarm] != UW_FORMULA_NEVER ? 1u : 0u;
        f->busy_n += due_us != UW_FORMULA_NEVER ? 1u : 0u;
    }
    uw_formula_clock_set(&f->clock, alarm, due_us);
}

/* ---- set-up ---- */

static int check(const struct uw_formula_config *c, struct uw_error *err)
{
    if (c->mode == UW_NODE_AUTO) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "nodes find their cells by messages, which the formula network does "
                            "not have: take --network events, or --exchange hierarchical");
    }
    for (uint32_t i = 0; i < c->fleet->devices_n; i++) {
        const struct uw_sim_device *d = &c->fleet->devices[i];
        if (d->absences_n != 0 || d->loss > 0.0f) {
            return uw_error_set(err, UW_ERR_UNSUPPORTED,
                                "device %u %s, which the formula network does not know: take "
                                "--network events", (unsigned)i,
                                d->absences_n != 0 ? "comes and goes" : "loses messages");
        }
    }
    return UW_OK;
}

static void set_defaults(struct uw_formula *f)
{
    struct uw_formula_config *c = &f->config;
    c->rule = c->rule != NULL ? c->rule : &uw_mix_none;
    c->schedule = c->schedule != NULL ? c->schedule : &uw_peer_schedule_random;
    c->period_steps = c->period_steps != 0 ? c->period_steps : PERIOD_STEPS;
    c->constants.weight = c->constants.weight != 0.0f ? c->constants.weight : WEIGHT;
    f->nodes_n = c->fleet->devices_n;
    f->model_bytes = c->model_bytes != 0 ? (double)c->model_bytes
                                         : (double)c->params->size_n * sizeof(float);
    f->pairs = c->mode == UW_NODE_GOSSIP && c->rule->over == UW_MIX_OVER_PAIRS;
}

/* The cell of a device as a number below cells_n, or above: a device alone. */
static uint32_t cell_of(const struct uw_formula *f, uint32_t place)
{
    uint32_t cell = f->config.fleet->devices[place].cell;
    return cell < f->config.fleet->cells_n ? cell : UW_SIM_NO_CELL;
}

static void cost_group(struct uw_formula *f, struct uw_formula_group *g)
{
    const struct uw_sim_path path = uw_sim_path_among(f->config.fleet, f->members + g->first,
                                                      g->nodes_n);
    g->bridge = UW_FORMULA_NONE;
    g->takes_us = uw_formula_us(uw_sim_allreduce_s(f->config.algorithm, g->nodes_n, &path,
                                                   f->model_bytes, &g->sent_bytes));
}

/* Everybody in one group, or a group a cell in the order of the cells' first devices. */
static int open_groups(struct uw_formula *f)
{
    const struct uw_sim_fleet *fleet = f->config.fleet;
    bool cells = f->config.mode == UW_NODE_HIERARCHICAL;
    uint32_t n = f->nodes_n, at = 0;
    uint32_t *group = malloc((fleet->cells_n + 1u) * sizeof *group);
    f->members = calloc(n, sizeof *f->members);
    f->group_of = calloc(n, sizeof *f->group_of);
    f->groups = calloc(n, sizeof *f->groups);
    if (group == NULL || f->members == NULL || f->group_of == NULL || f->groups == NULL) {
        free(group);
        return UW_ERR_NOMEM;
    }
    for (uint32_t c = 0; c < fleet->cells_n; c++) {
        group[c] = UW_FORMULA_NONE;
    }
    f->groups_n = cells ? 0 : 1;
    for (uint32_t i = 0; cells && i < n; i++) {
        uint32_t c = cell_of(f, i);
        bool first = c == UW_SIM_NO_CELL || group[c] == UW_FORMULA_NONE;
        f->group_of[i] = first ? f->groups_n++ : group[c];
        if (first && c != UW_SIM_NO_CELL) {
            group[c] = f->group_of[i];
        }
    }
    free(group);
    for (uint32_t i = 0; i < n; i++) {
        f->groups[f->group_of[i]].nodes_n++;
    }
    for (uint32_t g = 0; g < f->groups_n; g++) {
        f->groups[g].first = at;
        at += f->groups[g].nodes_n;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct uw_formula_group *g = &f->groups[f->group_of[i]];
        f->members[g->first + g->waiting_n++] = i;
    }
    for (uint32_t g = 0; g < f->groups_n; g++) {
        f->groups[g].waiting_n = 0;
        cost_group(f, &f->groups[g]);
    }
    return UW_OK;
}

static int open_vectors(struct uw_formula *f)
{
    const struct uw_formula_config *c = &f->config;
    size_t size_n = c->params->size_n, n = f->nodes_n;
    f->pool_n = f->pairs || c->mode != UW_NODE_GOSSIP ? f->nodes_n + 3u * f->groups_n
                                                      : 2u * f->nodes_n;
    f->vectors = calloc(n * (c->rule->velocity ? 2u : 1u), size_n * sizeof(float));
    f->pool = calloc(f->pool_n, size_n * sizeof(float));
    f->scratch = f->pairs ? calloc(4u * size_n, sizeof(float)) : NULL;
    f->refs = calloc(f->pool_n, sizeof *f->refs);
    f->unused = calloc(f->pool_n, sizeof *f->unused);
    f->nodes = calloc(n, sizeof *f->nodes);
    f->usable = malloc(n * sizeof *f->usable);
    if (f->vectors == NULL || f->pool == NULL || (f->pairs && f->scratch == NULL) ||
        f->refs == NULL || f->unused == NULL || f->nodes == NULL || f->usable == NULL) {
        return UW_ERR_NOMEM;
    }
    while (f->unused_n < f->pool_n) {
        f->unused[f->unused_n] = f->pool_n - 1u - f->unused_n;
        f->unused_n++;
    }
    return UW_OK;
}

static void open_node(struct uw_formula *f, uint32_t place)
{
    const struct uw_formula_config *c = &f->config;
    struct uw_formula_node *n = &f->nodes[place];
    size_t size_n = c->params->size_n;
    *n = (struct uw_formula_node){.place = place, .params = *c->params,
                                  .snapshot = UW_FORMULA_NONE, .pulled = UW_FORMULA_NONE,
                                  .held = UW_FORMULA_NONE, .peer = UW_FORMULA_NONE,
                                  .train_at_us = c->fleet->devices[place].step_us};
    n->x = n->params.x = f->vectors + place * size_n;
    n->velocity = c->rule->velocity ? f->vectors + (f->nodes_n + place) * size_n : NULL;
    memcpy(n->x, c->params->x, size_n * sizeof(float));
    uw_rng_seed(&n->rng, uw_rng_mix(c->seed, place));
    f->usable[place] = true;
    if (place == 0) {
        uw_formula_publish(f, n);
    } else {
        uw_formula_share(f, n, &f->nodes[0]);
    }
    uw_formula_set(f, uw_formula_step_alarm(f, place), n->train_at_us);
}

int uw_formula_open(struct uw_formula *f, const struct uw_formula_config *config,
                    struct uw_error *err)
{
    *f = (struct uw_formula){.config = *config};
    int rc = check(config, err);
    if (rc < 0) {
        return rc;
    }
    set_defaults(f);
    rc = f->config.mode != UW_NODE_GOSSIP || f->pairs ? open_groups(f) : UW_OK;
    rc = rc < 0 ? rc : open_vectors(f);
    f->ends_n = f->pairs ? 1u + f->nodes_n : f->groups_n;
    rc = rc < 0 ? rc : uw_formula_clock_open(&f->clock, f->ends_n + 2u * f->nodes_n);
    if (rc < 0) {
        return uw_error_set(err, rc, "%u nodes: %s", (unsigned)f->nodes_n, uw_status_text(rc));
    }
    for (uint32_t i = 0; i < f->nodes_n; i++) {
        open_node(f, i);
    }
    return UW_OK;
}

void uw_formula_close(struct uw_formula *f)
{
    uw_formula_clock_close(&f->clock);
    free(f->vectors);
    free(f->pool);
    free(f->scratch);
    free(f->refs);
    free(f->unused);
    free(f->nodes);
    free(f->usable);
    free(f->members);
    free(f->group_of);
    free(f->groups);
    *f = (struct uw_formula){.nodes = NULL};
}

/* ---- the clock ---- */

struct uw_formula_node *uw_formula_next(struct uw_formula *f)
{
    if (f->last != NULL) {      /* whoever trains may have said that it is over */
        uw_formula_set(f, uw_formula_step_alarm(f, f->last->place), f->last->train_at_us);
        f->last = NULL;
    }
    while (f->busy_n != 0) {
        uint32_t alarm = uw_formula_clock_first(&f->clock);
        uint64_t due_us = f->clock.due_us[alarm];
        f->now_us = due_us > f->now_us ? due_us : f->now_us;
        if (alarm < f->ends_n) {
            uw_formula_average_due(f, alarm);
        } else if (alarm < uw_formula_pull_alarm(f, 0)) {
            f->last = &f->nodes[alarm - f->ends_n];
            return f->last;
        } else {
            uw_formula_pull_due(f, &f->nodes[alarm - uw_formula_pull_alarm(f, 0)]);
        }
    }
    return NULL;
}

int uw_formula_trained(struct uw_formula *f, struct uw_formula_node *n,
                       const struct uw_node_progress *progress, uint64_t pause_us)
{
    bool average = f->config.mode != UW_NODE_GOSSIP || f->pairs;
    int flags = average ? uw_formula_average_step(f, n, progress->lr)
                        : uw_formula_gossip_step(f, n, progress->lr);
    uint64_t step_us = f->config.fleet->devices[n->place].step_us;
    n->waits = (flags & UW_NODE_AVERAGING) != 0;
    n->train_at_us =
        n->waits ? UW_FORMULA_NEVER : f->now_us + (pause_us != 0 ? pause_us : step_us);
    uw_formula_set(f, uw_formula_step_alarm(f, n->place), n->train_at_us);
    return flags;
}

void uw_formula_agree(struct uw_formula *f, struct uw_formula_node *n)
{
    n->agreeing = n->agreeing || f->pairs;
}
