/* SPDX-License-Identifier: Apache-2.0 */
#include "period.h"

#include "base/bits.h"

#define LONGER_COUNTS 2u        /* weight 1/2 */
#define SHORTER_COUNTS 4u
#define TIMES_MOST 4.0f         /* limit of an outlier, as a multiple of e */
#define BOUND 4e9f              /* fits 32 bits */

void uw_period_init(struct uw_period *p, float share, uint32_t most)
{
    *p = (struct uw_period){.share = share, .most = most,
                            .steps = uw_min_u32(UW_PERIOD_FIRST, most)};
}

static uint32_t whole(float x)
{
    uint32_t n = (uint32_t)(x < BOUND ? x : BOUND);
    return (float)n < x && x < BOUND ? n + 1u : n > 0 ? n : 1u;
}

uint32_t uw_period_learn(struct uw_period *p, uint64_t exchange_us, uint32_t steps,
                         uint64_t elapsed_us)
{
    if (steps == 0 || elapsed_us == 0) {
        return p->steps;
    }
    float e = (float)exchange_us * (float)steps / (float)elapsed_us;
    p->learned_n += p->learned_n < SHORTER_COUNTS ? 1u : 0u;
    float most = TIMES_MOST * p->exchange;
    e = most > 0.0f && e > most ? most : e;
    uint32_t counts = e > p->exchange ? uw_min_u32(p->learned_n, LONGER_COUNTS) : p->learned_n;
    p->exchange += (e - p->exchange) / (float)counts;

    uint32_t wanted = uw_min_u32(whole(p->exchange / p->share), p->most);
    if (wanted > p->steps || wanted < p->steps - p->steps / 4u) {
        p->steps = wanted;
    }
    return p->steps;
}
