/* SPDX-License-Identifier: Apache-2.0 */
#include "formula_priv.h"

#include "uwasa/arena.h"

#include <stdlib.h>
#include <string.h>

#define PERIOD_STEPS 10u
#define WEIGHT 0.5f

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

/* Gossip: what everybody shows and what everybody pulls. Averages: what everybody shows, and of
 * three pulls of every head. */
static uint32_t pool_of(const struct uw_formula *f)
{
    bool gossip = f->config.mode == UW_NODE_GOSSIP && !f->pairs;
    return gossip ? 2u * f->nodes_n : f->nodes_n + 3u * f->groups_n;
}

/* Vectors beside those that were given. */
static size_t vectors_beside(const struct uw_formula *f)
{
    size_t own = f->config.vectors != NULL ? 0 : f->nodes_n * (f->config.rule->velocity ? 3u : 2u);
    return own + pool_of(f) - f->nodes_n;
}

size_t uw_formula_bytes(const struct uw_formula_config *config)
{
    const struct uw_formula_vectors given = {.x = NULL};
    struct uw_formula f = {.config = *config};
    set_defaults(&f);
    f.config.vectors = &given;
    f.groups_n = config->mode == UW_NODE_HIERARCHICAL ? f.nodes_n : 1u;
    size_t each = sizeof *f.nodes + sizeof *f.groups + 3u * (sizeof(struct uw_sim_due) + 4u) +
                  2u * sizeof *f.pool + 8u * sizeof(uint32_t);
    size_t vectors = vectors_beside(&f) + (f.pairs ? 4u : 0);
    size_t bytes = uw_size_mul(vectors, config->params->size_n * sizeof(float));
    size_t rest = f.nodes_n * each;
    return bytes > SIZE_MAX - rest ? SIZE_MAX : bytes + rest;
}

static int open_tables(struct uw_formula *f)
{
    size_t size_n = f->config.params->size_n, n = f->nodes_n;
    size_t bytes = uw_size_mul(vectors_beside(f) + 1u, size_n * sizeof(float));
    f->pool_n = pool_of(f);
    f->memory = bytes != SIZE_MAX ? calloc(1, bytes) : NULL;
    f->scratch = f->pairs ? calloc(4u * size_n, sizeof(float)) : NULL;
    f->pool = calloc(f->pool_n, sizeof *f->pool);
    f->refs = calloc(f->pool_n, sizeof *f->refs);
    f->unused = calloc(f->pool_n, sizeof *f->unused);
    f->nodes = calloc(n, sizeof *f->nodes);
    f->usable = malloc(n * sizeof *f->usable);
    return f->memory == NULL || (f->pairs && f->scratch == NULL) || f->pool == NULL ||
                   f->refs == NULL || f->unused == NULL || f->nodes == NULL || f->usable == NULL
               ? UW_ERR_NOMEM
               : UW_OK;
}

static void place_vectors(struct uw_formula *f)
{
    const struct uw_formula_config *c = &f->config;
    size_t size_n = c->params->size_n;
    float *at = f->memory;
    for (uint32_t i = 0; i < f->nodes_n; i++) {
        struct uw_formula_vectors v = {.x = NULL};
        if (c->vectors != NULL) {
            v = c->vectors[i];
        } else {
            v = (struct uw_formula_vectors){.x = at, .snapshot = at + size_n,
                                            .velocity = c->rule->velocity ? at + 2u * size_n
                                                                          : NULL};
            at += (c->rule->velocity ? 3u : 2u) * size_n;
            memcpy(v.x, c->params->x, size_n * sizeof(float));
        }
        f->nodes[i].x = v.x;
        f->nodes[i].velocity = v.velocity;
        f->pool[i] = v.snapshot;
    }
    for (uint32_t i = f->nodes_n; i < f->pool_n; i++) {
        f->pool[i] = at;
        at += size_n;
    }
    f->config.vectors = NULL;
    while (f->unused_n < f->pool_n) {
        f->unused[f->unused_n] = f->pool_n - 1u - f->unused_n;
        f->unused_n++;
    }
}

static void open_node(struct uw_formula *f, uint32_t place)
{
    const struct uw_formula_config *c = &f->config;
    struct uw_formula_node *n = &f->nodes[place];
    n->place = place;
    n->recent = UW_MIX_RECENT_FIRST;
    n->params = *c->params;
    n->params.x = n->x;
    n->snapshot = n->pulled = n->held = n->peer = UW_FORMULA_NONE;
    n->train_at_us = c->start_us + c->fleet->devices[place].start_us +
                     c->fleet->devices[place].step_us;
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
    *f = (struct uw_formula){.config = *config, .now_us = config->start_us};
    int rc = check(config, err);
    if (rc < 0) {
        return rc;
    }
    set_defaults(f);
    rc = f->config.mode != UW_NODE_GOSSIP || f->pairs ? open_groups(f) : UW_OK;
    rc = rc < 0 ? rc : open_tables(f);
    f->ends_n = f->pairs ? 1u + f->nodes_n : f->groups_n;
    rc = rc < 0 ? rc : uw_sim_clock_open(&f->clock, f->ends_n + 2u * f->nodes_n);
    if (rc < 0) {
        return uw_error_set(err, rc, "%u nodes: %s", (unsigned)f->nodes_n, uw_status_text(rc));
    }
    place_vectors(f);
    for (uint32_t i = 0; i < f->nodes_n; i++) {
        open_node(f, i);
    }
    return UW_OK;
}

void uw_formula_close(struct uw_formula *f)
{
    uw_sim_clock_close(&f->clock);
    free(f->memory);
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
