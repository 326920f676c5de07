/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/peer_schedule.h"

#include "base/base2.h"
#include "base/bits.h"

#include <stddef.h>
#include <string.h>

static const struct uw_peer_choice nobody = {.at = UW_PEER_NOBODY};

/* The member at an index, if it is usable. */
static struct uw_peer_choice choose(const struct uw_peer_view *v, uint32_t at, float weight)
{
    bool usable = at < v->n && at != v->self && v->usable[at];
    return usable ? (struct uw_peer_choice){at, weight} : nobody;
}

uint8_t uw_peer_weight(uint32_t battery_percent)
{
    bool drains = battery_percent != 0 && battery_percent < UW_PEER_WEIGHT_FULL;
    uint32_t weight = drains ? battery_percent : UW_PEER_WEIGHT_FULL;
    return (uint8_t)(weight > UW_PEER_WEIGHT_LEAST ? weight : UW_PEER_WEIGHT_LEAST);
}

static uint32_t drawn(const struct uw_peer_view *v, uint32_t i)
{
    bool may_be = i != v->self && v->usable[i];
    return !may_be ? 0 : v->weight != NULL ? v->weight[i] : 1u;
}

static struct uw_peer_choice random_pick(const struct uw_peer_view *v, struct uw_rng *rng)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        sum += drawn(v, i);
    }
    if (sum == 0) {
        return nobody;
    }
    uint32_t left = uw_rng_below(rng, sum), at = 0;
    for (; left >= drawn(v, at); at++) {
        left -= drawn(v, at);
    }
    return (struct uw_peer_choice){.at = at};
}

/* The permutation of members for some rounds. */
struct order {
    uint64_t key;
    uint32_t n;
    uint32_t round;             /* of the turn */
};

static struct order order_of(const struct uw_peer_view *v, uint32_t rounds)
{
    rounds = rounds > 0 ? rounds : 1;
    return (struct order){uw_rng_mix(v->seed, v->round / rounds), v->n, v->round % rounds};
}

static uint32_t place_of(const struct order *o, uint32_t member)
{
    return uw_rng_permute_back(o->key, o->n, member);
}

static struct uw_peer_choice choose_place(const struct uw_peer_view *v,
                                              const struct order *o, uint32_t place, float weight)
{
    return place < o->n ? choose(v, uw_rng_permute(o->key, o->n, place), weight) : nobody;
}

static struct uw_peer_choice matching_pick(const struct uw_peer_view *v, struct uw_rng *rng)
{
    (void)rng;
    struct order o = order_of(v, 1);
    return choose_place(v, &o, place_of(&o, v->self) ^ 1u, 0.0f);
}

static struct uw_peer_choice exponential_pick(const struct uw_peer_view *v,
                                                  struct uw_rng *rng)
{
    (void)rng;
    struct order o = order_of(v, uw_log2_up(v->n));
    return choose_place(v, &o, (place_of(&o, v->self) + (1u << o.round)) % o.n, 0.0f);
}

static struct uw_peer_choice dissemination_pick(const struct uw_peer_view *v,
                                                    struct uw_rng *rng)
{
    (void)rng;
    struct order o = order_of(v, uw_log2_up(v->n));
    return choose_place(v, &o, (place_of(&o, v->self) + o.n - (1u << o.round)) % o.n, 0.0f);
}

static struct uw_peer_choice hypercube_pick(const struct uw_peer_view *v,
                                                struct uw_rng *rng)
{
    (void)rng;
    struct order o = order_of(v, uw_log2_up(v->n));
    return choose_place(v, &o, place_of(&o, v->self) ^ 1u << o.round, 0.0f);
}

static struct uw_peer_choice base2_pick(const struct uw_peer_view *v, struct uw_rng *rng)
{
    (void)rng;
    struct order o = order_of(v, uw_base2_rounds_n(v->n));
    struct uw_base2_pair p = uw_base2_pair(o.n, place_of(&o, v->self), o.round);
    return choose_place(v, &o, p.partner, (float)p.part / (float)p.whole);
}

/* ---- graphs ---- */

#define NEIGHBOURS_MOST 4u

/* The neighbours of a place in a graph of n; returns their number. */
typedef uint32_t neighbours_fn(uint32_t n, uint32_t place, uint32_t *at);

/* Those after and before i in a ring of n places `step` apart; returns their number. */
static uint32_t ring_at(uint32_t n, uint32_t i, uint32_t from, uint32_t step, uint32_t *at)
{
    uint32_t found = 0;
    if (n > 1u) {
        at[found++] = from + (i + 1u) % n * step;
    }
    if (n > 2u) {
        at[found++] = from + (i + n - 1u) % n * step;
    }
    return found;
}

static uint32_t ring_of(uint32_t n, uint32_t place, uint32_t *at)
{
    return ring_at(n, place, 0, 1u, at);
}

static uint32_t chain_of(uint32_t n, uint32_t place, uint32_t *at)
{
    uint32_t found = 0;
    if (place > 0) {
        at[found++] = place - 1u;
    }
    if (place + 1u < n) {
        at[found++] = place + 1u;
    }
    return found;
}

/* The most nearly square grid of n places; a prime number of them is one ring. */
static uint32_t torus_of(uint32_t n, uint32_t place, uint32_t *at)
{
    uint32_t rows = 1;
    for (uint32_t r = 2; r * r <= n; r++) {
        rows = n % r == 0 ? r : rows;
    }
    uint32_t columns = n / rows, row = place / columns, column = place % columns;
    uint32_t found = ring_at(columns, column, row * columns, 1u, at);
    return found + ring_at(rows, row, column, columns, at + found);
}

static uint32_t tree_of(uint32_t n, uint32_t place, uint32_t *at)
{
    uint32_t found = 0;
    if (place > 0) {
        at[found++] = (place - 1u) / 2u;
    }
    for (uint32_t child = 2u * place + 1u; child <= 2u * place + 2u && child < n; child++) {
        at[found++] = child;
    }
    return found;
}

static float metropolis(uint32_t a, uint32_t b)
{
    return 1.0f / (1.0f + (float)(a > b ? a : b));
}

static struct uw_peer_choice neighbour_of(const struct uw_peer_view *v, neighbours_fn *neighbours)
{
    uint32_t at[NEIGHBOURS_MOST], theirs[NEIGHBOURS_MOST], n = neighbours(v->n, v->self, at);
    uint32_t next = n != 0 ? at[v->round % n] : UW_PEER_NOBODY;
    return n != 0 ? choose(v, next, metropolis(n, neighbours(v->n, next, theirs))) : nobody;
}

/* The functions of a schedule whose neighbours are given. */
#define OF_NEIGHBOURS(name)                                                                        \
    static struct uw_peer_choice name##_pick(const struct uw_peer_view *v, struct uw_rng *rng)     \
    {                                                                                              \
        (void)rng;                                                                                 \
        return neighbour_of(v, name##_of);                                                         \
    }                                                                                              \
    static uint32_t name##_degree(const struct uw_peer_view *v)                                    \
    {                                                                                              \
        uint32_t at[NEIGHBOURS_MOST];                                                              \
        return name##_of(v->n, v->self, at);                                                       \
    }
OF_NEIGHBOURS(ring)
OF_NEIGHBOURS(chain)
OF_NEIGHBOURS(torus)
OF_NEIGHBOURS(tree)

/* The number of a member's edges; edge: the k-th of them, if there are more than k. */
static uint32_t edges_of(const struct uw_peer_graph *g, uint32_t id, uint32_t k,
                         const struct uw_peer_edge **edge)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->edges_n; i++) {
        const struct uw_peer_edge *e = &g->edges[i];
        bool has = e->id[0] == id || e->id[1] == id;
        *edge = has && n == k ? e : *edge;
        n += has ? 1u : 0u;
    }
    return n;
}

static struct uw_peer_choice graph_pick(const struct uw_peer_view *v, struct uw_rng *rng)
{
    const struct uw_peer_edge *edge = NULL, *none = NULL;
    uint32_t own = v->id(v->arg, v->self);
    uint32_t n = edges_of(v->graph, own, UINT32_MAX, &none), at = 0;
    (void)rng;
    if (n == 0) {
        return nobody;
    }
    (void)edges_of(v->graph, own, v->round % n, &edge);
    uint32_t other = edge->id[edge->id[0] == own ? 1 : 0];
    while (at < v->n && v->id(v->arg, at) != other) {
        at++;
    }
    float weight = edge->weight != 0.0f
                       ? edge->weight
                       : metropolis(n, edges_of(v->graph, other, UINT32_MAX, &none));
    return choose(v, at, weight);
}

static uint32_t graph_degree(const struct uw_peer_view *v)
{
    const struct uw_peer_edge *none = NULL;
    return edges_of(v->graph, v->id(v->arg, v->self), UINT32_MAX, &none);
}

const struct uw_peer_schedule uw_peer_schedule_random = {.name = "random", .pick = random_pick};
const struct uw_peer_schedule uw_peer_schedule_matching = {"matching", true, matching_pick, NULL};
static const struct uw_peer_schedule exponential = {"exponential", false, exponential_pick, NULL};
const struct uw_peer_schedule uw_peer_schedule_dissemination = {"dissemination", false,
                                                                dissemination_pick, NULL};
static const struct uw_peer_schedule hypercube = {"hypercube", true, hypercube_pick, NULL};
static const struct uw_peer_schedule base2 = {"base2", true, base2_pick, NULL};
static const struct uw_peer_schedule ring = {"ring", false, ring_pick, ring_degree};
static const struct uw_peer_schedule chain = {"chain", false, chain_pick, chain_degree};
static const struct uw_peer_schedule torus = {"torus", false, torus_pick, torus_degree};
static const struct uw_peer_schedule tree = {"tree", false, tree_pick, tree_degree};
const struct uw_peer_schedule uw_peer_schedule_graph = {"graph", false, graph_pick, graph_degree};

const struct uw_peer_schedule *uw_peer_schedule_find(const char *name)
{
    static const struct uw_peer_schedule *const all[] = {
        &uw_peer_schedule_random, &uw_peer_schedule_matching, &exponential,
        &uw_peer_schedule_dissemination, &hypercube, &base2, &ring, &chain, &torus, &tree,
        &uw_peer_schedule_graph};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            return all[i];
        }
    }
    return NULL;
}
