/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/trouble.h"

bool trouble_chance(struct uw_rng *rng, float p)
{
    return uw_rng_uniform(rng) < p;
}

static float draw(struct uw_rng *rng, const float most[2])
{
    return trouble_chance(rng, most[0]) ? most[1] * uw_rng_uniform(rng) : 0.0f;
}

void trouble_draw_link(struct uw_rng *rng, const struct trouble_link *most,
                       struct uw_impairment *bad)
{
    bad->delay_us = 100u + uw_rng_below(rng, trouble_chance(rng, 0.2f) ? most->delay_us : 2000u);
    bad->jitter_us = trouble_chance(rng, 0.5f) ? uw_rng_below(rng, most->jitter_us) : 0;
    bad->loss = draw(rng, most->loss);
    bad->duplicate = draw(rng, most->duplicate);
    bad->reorder = draw(rng, most->reorder);
    bad->corrupt = draw(rng, most->corrupt);
    bad->rate_bits_per_s =
        most->rates && trouble_chance(rng, 0.3f) ? 500000u + uw_rng_below(rng, 8000000u) : 0;
}

void trouble_cut(struct world *w, uint32_t i, uint32_t k, uint8_t directions)
{
    if (i != k && w->nodes[i].up) {
        (void)uw_link_emulated_cut(&w->nodes[i].emulated, (uint16_t)k, directions);
    }
}

void trouble_part(struct world *w, uint32_t side)
{
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; k < w->n; k++) {
            if (((side >> i ^ side >> k) & 1u) != 0) {
                trouble_cut(w, i, k, UW_EMULATED_BOTH);
            }
        }
    }
}

static void part_pair(struct uw_rng *rng, struct world *w, uint32_t most_bytes)
{
    uint32_t i = uw_rng_below(rng, w->n), k = (i + 1u + uw_rng_below(rng, w->n - 1u)) % w->n;
    world_narrow(w, i, k, most_bytes);
    if (trouble_chance(rng, 0.5f)) {
        world_narrow(w, k, i, most_bytes);
    }
}

/* Nodes of different groups; those in `both` are in each. */
static void part_groups(struct world *w, uint32_t group, uint32_t both, bool all_apart)
{
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; k < w->n; k++) {
            bool differ = all_apart ? i != k : ((group >> i ^ group >> k) & 1u) != 0;
            if (differ && (both >> i & 1u) == 0 && (both >> k & 1u) == 0) {
                world_narrow(w, i, k, WORLD_NOTHING);
            }
        }
    }
}

void trouble_draw_reach(struct uw_rng *rng, struct world *w, uint32_t mtu_bytes)
{
    static const char *const all[WORLD_MAX] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    uint32_t hole_bytes = mtu_bytes * 2u / 3u + uw_rng_below(rng, mtu_bytes / 3u);
    uint32_t some = uw_rng_u32(rng);
    w->config.seeds = all;
    w->config.seeds_n = w->n;
    switch (uw_rng_below(rng, 6)) {
    case 0:
    case 1: part_pair(rng, w, WORLD_NOTHING); break;
    case 2: part_pair(rng, w, hole_bytes); break;
    case 3: part_groups(w, 0, some, true); break;
    case 4: part_groups(w, uw_rng_u32(rng), 1u << uw_rng_below(rng, w->n), false); break;
    default:
        for (uint32_t i = uw_rng_below(rng, 2u * w->n); i > 0; i--) {
            part_pair(rng, w, trouble_chance(rng, 0.5f) ? WORLD_NOTHING : hole_bytes);
        }
        break;
    }
}

void trouble_all_hear(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; k < w->n; k++) {
            world_narrow(w, i, k, 0);
        }
    }
}

struct trouble_steps trouble_steps(const struct world *w)
{
    struct trouble_steps s = {{0}};
    for (uint32_t i = 0; i < w->n; i++) {
        s.of[i] = w->nodes[i].progress.step;
    }
    return s;
}

void trouble_expect_steps(const struct world *w, const struct trouble_steps *since)
{
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->nodes[i].up && w->nodes[i].progress.step == since->of[i]) {
            fail_msg("%s stands still", w->nodes[i].name);
        }
    }
}

void trouble_heal(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        for (uint32_t k = 0; k < w->n; k++) {
            trouble_cut(w, i, k, 0);
        }
        w->nodes[i].paused = false;
        w->nodes[i].slowness = 1;
    }
}

void trouble_seeds(uint32_t count, void (*scenario)(uint64_t seed, void *arg), void *arg)
{
    const char *text = getenv("UWASA_TEST_COUNT");
    uint64_t first = uw_test_seed(1), n = text != NULL ? strtoul(text, NULL, 0) : count;
    for (uint64_t seed = first; seed < first + n; seed++) {
        char env[32];
        snprintf(env, sizeof env, "%llu", (unsigned long long)seed);
        setenv("UWASA_TEST_SEED", env, 1);      /* what the world prints */
        scenario(seed, arg);
    }
}
