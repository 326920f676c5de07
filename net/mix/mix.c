/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/mix.h"

#include <stddef.h>
#include <string.h>

#define BLOCK_N 256u

/* The configured constants, or the rule's defaults. */
static float beta_of(const struct uw_mix_rule *rule, const struct uw_mix_constants *c)
{
    return c->beta != 0.0f ? c->beta : rule->own.beta;
}

static float mu_of(const struct uw_mix_rule *rule, const struct uw_mix_constants *c)
{
    return c->mu != 0.0f ? c->mu : rule->own.mu;
}

static float qg_kept(const struct uw_mix_constants *c, float alone)
{
    return beta_of(&uw_mix_qg, c) * (1.0f - mu_of(&uw_mix_qg, c) * alone);
}

static void qg_end(const struct uw_mix_constants *c, uint32_t n, const float *s, float *x,
                   float *m, float lr_sum, float alone)
{
    float kept = qg_kept(c, alone);
    float share = mu_of(&uw_mix_qg, c) / lr_sum;
    for (uint32_t i = 0; i < n; i++) {
        m[i] = kept * m[i] + share * (s[i] - x[i]);
    }
}

static void qg_before(const struct uw_mix_constants *c, uint32_t n, const float *s, float *m,
                      float lr_sum, float alone)
{
    float kept = qg_kept(c, alone);
    float share = mu_of(&uw_mix_qg, c) / lr_sum;
    for (uint32_t i = 0; i < n; i++) {
        m[i] = kept * m[i] + share * s[i];
    }
}

static void qg_after(const struct uw_mix_constants *c, uint32_t n, const float *x, float *m,
                     float lr_sum)
{
    float share = mu_of(&uw_mix_qg, c) / lr_sum;
    for (uint32_t i = 0; i < n; i++) {
        m[i] -= share * x[i];
    }
}

static void noloco_end(const struct uw_mix_constants *c, uint32_t n, const float *s, float *x,
                       float *m, float lr_sum, float alone)
{
    float beta = beta_of(&uw_mix_noloco, c);
    float mu = mu_of(&uw_mix_noloco, c);
    (void)lr_sum, (void)alone;
    for (uint32_t i = 0; i < n; i++) {
        m[i] = beta * m[i] + mu * (x[i] - s[i]);
        x[i] = s[i] + m[i];
    }
}

static void slowmo_end(const struct uw_mix_constants *c, uint32_t n, const float *s, float *x,
                       float *m, float lr_sum, float alone)
{
    float beta = beta_of(&uw_mix_slowmo, c);
    float step = mu_of(&uw_mix_slowmo, c) * lr_sum;
    float scale = 1.0f / lr_sum;
    (void)alone;
    for (uint32_t i = 0; i < n; i++) {
        m[i] = beta * m[i] + scale * (s[i] - x[i]);
        x[i] = s[i] - step * m[i];
    }
}

static void diloco_end(const struct uw_mix_constants *c, uint32_t n, const float *s, float *x,
                       float *m, float lr_sum, float alone)
{
    float beta = beta_of(&uw_mix_diloco, c);
    float mu = mu_of(&uw_mix_diloco, c);
    (void)lr_sum, (void)alone;
    for (uint32_t i = 0; i < n; i++) {
        float d = s[i] - x[i];
        m[i] = beta * m[i] + d;
        x[i] = s[i] - mu * (d + beta * m[i]);
    }
}

/* With the mean of two, the weight may be above 1. */
static void mix_pair(float weight, uint32_t n, const float *x_peer, float *x)
{
    if (weight <= 1.0f) {
        uw_mix_chunk(weight, n, x_peer, x);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        x[i] += weight * (x_peer[i] - x[i]);
    }
}

static void kgt_pair(float weight, uint32_t n, const float *z, float *x, float *m,
                     const float *x_peer, const float *z_peer, float lr_sum)
{
    (void)lr_sum;
    for (uint32_t i = 0; i < n; i++) {
        m[i] += weight * (z_peer[i] - z[i]);
    }
    mix_pair(weight, n, x_peer, x);
}

static void updates_pair(float weight, uint32_t n, const float *z, float *x, float *m,
                         const float *x_peer, const float *z_peer, float lr_sum)
{
    (void)m, (void)x_peer;
    for (uint32_t i = 0; i < n; i++) {
        x[i] += weight * lr_sum * (z[i] - z_peer[i]);
    }
}

const struct uw_mix_rule uw_mix_none = {.name = "none"};
const struct uw_mix_rule uw_mix_qg = {.name = "qg",
                                      .velocity = true,
                                      .frozen = true,
                                      .own = {.beta = 0.9f, .mu = 0.1f},
                                      .end = qg_end,
                                      .before = qg_before,
                                      .after = qg_after};
const struct uw_mix_rule uw_mix_noloco = {.name = "noloco",
                                          .velocity = true,
                                          .own = {.beta = 0.5f, .mu = 0.7f},
                                          .end = noloco_end};
const struct uw_mix_rule uw_mix_slowmo = {.name = "slowmo",
                                          .over = UW_MIX_OVER_AVERAGES,
                                          .velocity = true,
                                          .own = {.beta = 0.5f, .mu = 1.0f},
                                          .end = slowmo_end};
const struct uw_mix_rule uw_mix_diloco = {.name = "diloco",
                                          .over = UW_MIX_OVER_AVERAGES,
                                          .velocity = true,
                                          .own = {.beta = 0.9f, .mu = 0.7f},
                                          .end = diloco_end};
const struct uw_mix_rule uw_mix_kgt = {.name = "kgt",
                                       .over = UW_MIX_OVER_PAIRS,
                                       .velocity = true,
                                       .frozen = true,
                                       .pair = kgt_pair};
const struct uw_mix_rule uw_mix_updates = {.name = "updates",
                                           .over = UW_MIX_OVER_PAIRS,
                                           .velocity = true,
                                           .frozen = true,
                                           .pair = updates_pair};

const struct uw_mix_rule *const uw_mix_rules[] = {
    &uw_mix_none, &uw_mix_qg, &uw_mix_noloco, &uw_mix_slowmo, &uw_mix_diloco, &uw_mix_kgt,
    &uw_mix_updates, NULL};

const struct uw_mix_rule *uw_mix_find(const char *name)
{
    const struct uw_mix_rule *const *rule = uw_mix_rules;
    while (*rule != NULL && strcmp((*rule)->name, name) != 0) {
        rule++;
    }
    return *rule;
}

float uw_mix_recent(const struct uw_mix_constants *c, float recent, float mixed)
{
    return beta_of(&uw_mix_qg, c) * recent + (mixed < 1.0f ? mixed : 1.0f);
}

static float alone(float recent)
{
    return recent < 1.0f ? 1.0f - recent : 0.0f;
}

void uw_mix_end(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                const struct uw_params *p, const float *s, float *m, float lr_sum, float recent)
{
    for (uint32_t i = 0; rule->end != NULL && i < p->segments_n; i++) {
        const struct uw_segment *g = &p->segments[i];
        if (!g->statistic) {
            uint32_t at = g->offset_n;
            rule->end(c, g->size_n, s + at, p->x + at, m != NULL ? m + at : NULL, lr_sum,
                      alone(recent));
        }
    }
}

void uw_mix_before(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                   const struct uw_params *p, const float *s, float *m, float lr_sum, float recent)
{
    for (uint32_t i = 0; rule->before != NULL && i < p->segments_n; i++) {
        const struct uw_segment *g = &p->segments[i];
        if (!g->statistic) {
            rule->before(c, g->size_n, s + g->offset_n, m + g->offset_n, lr_sum, alone(recent));
        }
    }
}

void uw_mix_after(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                  const struct uw_params *p, float *m, float lr_sum)
{
    for (uint32_t i = 0; rule->after != NULL && i < p->segments_n; i++) {
        const struct uw_segment *g = &p->segments[i];
        if (!g->statistic) {
            rule->after(c, g->size_n, p->x + g->offset_n, m + g->offset_n, lr_sum);
        }
    }
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

static void add_difference(float weight, uint32_t n, const float *s, const float *s_peer, float *x)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] += weight * (s_peer[i] - s[i]);
    }
}

struct span {
    uint32_t from_n, to_n;
};

/* Intersection of a segment with n elements from at_n; from_n >= to_n: empty. */
static struct span span_of(const struct uw_segment *g, uint32_t at_n, uint32_t n)
{
    const uint32_t ends_n = g->offset_n + g->size_n;
    return (struct span){.from_n = g->offset_n > at_n ? g->offset_n : at_n,
                         .to_n = ends_n < at_n + n ? ends_n : at_n + n};
}

void uw_mix_pulled(float weight, const struct uw_params *p, uint32_t at_n, uint32_t n,
                   const float *s, const float *s_peer)
{
    const uint32_t end_n = at_n + n;
    uint32_t done_n = at_n;
    for (uint32_t i = 0; i < p->segments_n; i++) {
        const struct uw_segment *g = &p->segments[i];
        struct span both = span_of(g, done_n, end_n - done_n);
        if (g->statistic && both.from_n < both.to_n) {
            add_difference(weight, both.from_n - done_n, s + done_n, s_peer + (done_n - at_n),
                           p->x + done_n);
            uw_mix_chunk(weight, both.to_n - both.from_n, s_peer + (both.from_n - at_n),
                         p->x + both.from_n);
            done_n = both.to_n;
        }
    }
    add_difference(weight, end_n - done_n, s + done_n, s_peer + (done_n - at_n), p->x + done_n);
}

static void add(float c, uint32_t n, const float *d, float *x)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] += c * d[i];
    }
}

void uw_mix_carried(float c, const struct uw_params *p, uint32_t at_n, uint32_t n, const float *d)
{
    const uint32_t end_n = at_n + n;
    uint32_t done_n = at_n;
    for (uint32_t k = 0; k < p->segments_n; k++) {
        struct span both = span_of(&p->segments[k], done_n, end_n - done_n);
        if (!p->segments[k].variance || both.from_n >= both.to_n) {
            continue;
        }
        add(c, both.from_n - done_n, d + (done_n - at_n), p->x + done_n);
        for (uint32_t i = both.from_n; i < both.to_n; i++) {
            float half = -0.5f * p->x[i];
            p->x[i] += c * (d[i - at_n] < half ? half : d[i - at_n]);
        }
        done_n = both.to_n;
    }
    add(c, end_n - done_n, d + (done_n - at_n), p->x + done_n);
}

bool uw_mix_settle(const struct uw_params *p)
{
    bool any = false;
    for (uint32_t k = 0; k < p->segments_n; k++) {
        const struct uw_segment *g = &p->segments[k];
        for (uint32_t i = g->offset_n; g->variance && i < g->offset_n + g->size_n; i++) {
            any = any || p->x[i] < 0.0f;
            p->x[i] = p->x[i] < 0.0f ? -p->x[i] : p->x[i];
        }
    }
    return any;
}

float uw_mix_gain(const struct uw_mix_rule *rule, const struct uw_mix_constants *c)
{
    if (rule->over != UW_MIX_OVER_AVERAGES) {
        return 1.0f;
    }
    float beta = beta_of(rule, c), mu = mu_of(rule, c);
    return mu > 1.0f - beta && beta < 1.0f ? mu / (1.0f - beta) : 1.0f;
}

void uw_mix_from_cell(const struct uw_mix_rule *rule, const struct uw_mix_constants *c,
                      float weight, const struct uw_params *p, uint32_t at_n, uint32_t n, float *d)
{
    const float share = 1.0f / uw_mix_gain(rule, c);
    for (uint32_t k = 0; k < n; k++) {
        d[k] *= weight;
    }
    for (uint32_t i = 0; share < 1.0f && i < p->segments_n; i++) {
        const struct uw_segment *g = &p->segments[i];
        struct span s = span_of(g, at_n, n);
        for (uint32_t k = s.from_n; !g->statistic && k < s.to_n; k++) {
            d[k - at_n] *= share;
        }
    }
}

float uw_mix_cell_weight(float weight, uint32_t ours_n, uint32_t theirs_n)
{
    float ours = (float)ours_n, theirs = (float)theirs_n;
    return theirs < ours ? weight * (2.0f * theirs / (ours + theirs)) : weight;
}

void uw_mix_mean_gradient(uint32_t n, const float *s, const float *x, float lr_sum, float *z)
{
    float scale = lr_sum > 0.0f ? 1.0f / lr_sum : 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        z[i] = scale * (s[i] - x[i]);
    }
}

/* z of elements at..at + n of a segment. */
static void part_of_z(const struct uw_segment *g, uint32_t at, uint32_t n, const float *s,
                      const float *x, float lr_sum, float *z)
{
    uw_mix_mean_gradient(n, s + at, x + at, g->statistic ? 0.0f : lr_sum, z);
}

void uw_mix_pair_vector(const struct uw_params *p, const float *s, float lr_sum, float *v)
{
    memcpy(v, p->x, p->size_n * sizeof(float));
    for (uint32_t i = 0; i < p->segments_n; i++) {
        const struct uw_segment *g = &p->segments[i];
        part_of_z(g, g->offset_n, g->size_n, s, p->x, lr_sum, v + p->size_n + g->offset_n);
    }
}

void uw_mix_pair(const struct uw_mix_rule *rule, float weight, const struct uw_params *p,
                 const float *s, const float *v, float *m, float lr_sum)
{
    float z[BLOCK_N];
    float share = weight != 0.0f ? 2.0f * weight : 1.0f;
    for (uint32_t i = 0; i < p->segments_n; i++) {
        const struct uw_segment *g = &p->segments[i];
        if (g->statistic) {
            mix_pair(share, g->size_n, v + g->offset_n, p->x + g->offset_n);
        }
        for (uint32_t done_n = 0; !g->statistic && done_n < g->size_n; done_n += BLOCK_N) {
            uint32_t at = g->offset_n + done_n;
            uint32_t n = g->size_n - done_n < BLOCK_N ? g->size_n - done_n : BLOCK_N;
            part_of_z(g, at, n, s, p->x, lr_sum, z);
            rule->pair(share, n, z, p->x + at, m + at, v + at, v + p->size_n + at, lr_sum);
        }
    }
}
