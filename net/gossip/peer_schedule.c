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

const struct uw_peer_schedule uw_peer_schedule_random = {.name = "random", .pick = random_pick};
const struct uw_peer_schedule uw_peer_schedule_matching = {"matching", true, matching_pick};
static const struct uw_peer_schedule exponential = {"exponential", false, exponential_pick};
const struct uw_peer_schedule uw_peer_schedule_dissemination = {"dissemination", false,
                                                              dissemination_pick};
static const struct uw_peer_schedule hypercube = {"hypercube", true, hypercube_pick};
static const struct uw_peer_schedule base2 = {"base2", true, base2_pick};

const struct uw_peer_schedule *uw_peer_schedule_find(const char *name)
{
    static const struct uw_peer_schedule *const all[] = {
        &uw_peer_schedule_random, &uw_peer_schedule_matching, &exponential,
        &uw_peer_schedule_dissemination, &hypercube, &base2};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            return all[i];
        }
    }
    return NULL;
}
