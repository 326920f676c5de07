/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/mix.h"

#include <stddef.h>
#include <string.h>

#define BETA_DEFAULT 0.9f
#define MU_DEFAULT 0.1f

static void qg_end(const struct uw_mix_constants *c, uint32_t n, const float *s, float *x,
                   float *m, float lr_sum)
{
    float beta = c->beta != 0.0f ? c->beta : BETA_DEFAULT;
    float share = (c->mu != 0.0f ? c->mu : MU_DEFAULT) / lr_sum;
    for (uint32_t i = 0; i < n; i++) {
        m[i] = beta * m[i] + share * (s[i] - x[i]);
    }
}

const struct uw_mix_rule uw_mix_none = {.name = "none"};
const struct uw_mix_rule uw_mix_qg = {.name = "qg", .velocity = true, .end = qg_end};

const struct uw_mix_rule *uw_mix_find(const char *name)
{
    static const struct uw_mix_rule *const rules[] = {&uw_mix_none, &uw_mix_qg};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i]->name, name) == 0) {
            return rules[i];
        }
    }
    return NULL;
}

void uw_mix_chunk(float weight, uint32_t n, const float *s, float *x)
{
    if (weight >= 1.0f) {
        memcpy(x, s, n * sizeof(float));
        return;
    }
    float own = 1.0f - weight;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = own * x[i] + weight * s[i];
    }
}
