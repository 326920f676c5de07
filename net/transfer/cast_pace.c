/* SPDX-License-Identifier: Apache-2.0 */
#include "cast_pace.h"

#define RANGE 8u
#define NOISE 50u                   /* thousandths that tell nothing */

void uw_cast_pace_init(struct uw_cast_pace *p, uint32_t us, bool adapts)
{
    *p = (struct uw_cast_pace){
        .us = us, .least_us = adapts ? us / RANGE : us, .most_us = adapts ? us * RANGE : us};
}

static void set(struct uw_cast_pace *p, uint32_t us)
{
    p->us = us < p->least_us ? p->least_us : us > p->most_us ? p->most_us : us;
}

void uw_cast_pace_learn(struct uw_cast_pace *p, uint32_t chunks, uint32_t again)
{
    uint32_t lost = again < chunks ? (uint32_t)(again * UINT64_C(1000) / chunks) : 1000u;
    /* Where it was too fast, half as much time again lets half as many again through. */
    uint32_t came = 1000u - lost, came_before = 1000u - p->before;
    bool in_vain = p->slowed && came <= came_before + came_before / 5u;
    if (in_vain || lost < p->usual) {
        p->usual = (uint16_t)lost;
    }
    p->slowed = !in_vain && lost > p->usual + NOISE && p->us < p->most_us;
    p->before = (uint16_t)lost;
    set(p, p->slowed ? p->us + p->us / 2u : in_vain ? p->us - p->us / 3u : p->us - p->us / 8u);
}
