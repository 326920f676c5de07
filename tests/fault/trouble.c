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
