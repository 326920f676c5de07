/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/sim_skew.h"

#include "uwasa/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 1000u             /* limit of draws of shares until every node has a sample */

int uw_skew_parse(const char *text, struct uw_skew *skew)
{
    static const char dirichlet[] = "dirichlet:";
    *skew = (struct uw_skew){.kind = UW_SKEW_EVEN};
    if (strcmp(text, "even") == 0) {
        return UW_OK;
    }
    if (strcmp(text, "sorted") == 0) {
        skew->kind = UW_SKEW_SORTED;
        return UW_OK;
    }
    if (strncmp(text, dirichlet, sizeof dirichlet - 1u) == 0) {
        const char *number = text + sizeof dirichlet - 1u;
        char *end;
        bool digit = number[0] == '.' || (number[0] >= '0' && number[0] <= '9');
        skew->kind = UW_SKEW_DIRICHLET;
        skew->concentration = strtod(number, &end);
        if (digit && *end == '\0' && skew->concentration >= 0.001 &&
            skew->concentration <= 1000.0) {
            return UW_OK;
        }
    }
    return UW_ERR_INVALID;
}

static int read_labels(struct uw_dataset *whole, uint32_t *label)
{
    float *x = malloc((size_t)whole->channels * whole->height * whole->width * sizeof *x);
    int rc = x != NULL ? UW_OK : UW_ERR_NOMEM;
    for (uint32_t i = 0; rc == UW_OK && i < whole->samples_n; i++) {
        rc = whole->ops->read(whole, i, x, &label[i]);
        if (rc == UW_OK && label[i] >= whole->classes) {
            rc = UW_ERR_CORRUPT;
        }
    }
    free(x);
    return rc;
}

/* Sort sample numbers by label; samples of one label stay in the order of the set.
 *   first  [classes + 1] where each label begins */
static void sort(const struct uw_dataset *whole, const uint32_t *label, uint32_t *order,
                 uint32_t *first)
{
    memset(first, 0, (whole->classes + 1u) * sizeof *first);
    for (uint32_t i = 0; i < whole->samples_n; i++) {
        first[label[i] + 1u]++;
    }
    for (uint32_t c = 0; c < whole->classes; c++) {
        first[c + 1u] += first[c];
    }
    for (uint32_t i = 0; i < whole->samples_n; i++) {
        order[first[label[i]]++] = i;
    }
    for (uint32_t c = whole->classes; c > 0; c--) {
        first[c] = first[c - 1u];
    }
    first[0] = 0;
}

static uint32_t cut(uint32_t n, uint32_t i, uint32_t parts)
{
    return (uint32_t)((uint64_t)n * i / parts);
}

static void deal_even(struct uw_deal *d, uint32_t n, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++) {
        d->index[i] = uw_rng_permute(seed, n, i);
    }
    for (uint32_t i = 0; i <= d->nodes_n; i++) {
        d->start[i] = cut(n, i, d->nodes_n);
    }
}

static void deal_sorted(struct uw_deal *d, uint32_t n, const uint32_t *order, uint64_t seed)
{
    uint32_t shards = 2u * d->nodes_n;
    uint32_t at = 0;
    for (uint32_t i = 0; i < shards; i++) {
        uint32_t shard = uw_rng_permute(seed, shards, i);
        uint32_t from = cut(n, shard, shards);
        uint32_t size = cut(n, shard + 1u, shards) - from;
        d->start[i / 2u] = i % 2u == 0 ? at : d->start[i / 2u];
        memcpy(d->index + at, order + from, size * sizeof *order);
        at += size;
    }
    d->start[d->nodes_n] = at;
}

/* Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. */
static double gamma_of(struct uw_rng *rng, double shape)
{
    double boost = 1.0;
    if (shape < 1.0) {
        boost = pow(1.0 - (double)uw_rng_uniform(rng), 1.0 / shape);
        shape += 1.0;
    }
    double d = shape - 1.0 / 3.0;
    for (;;) {
        double x = (double)uw_rng_normal(rng);
        double v = 1.0 + x / sqrt(9.0 * d);
        double u = 1.0 - (double)uw_rng_uniform(rng);
        v = v * v * v;
        if (v > 0.0 && log(u) < 0.5 * x * x + d - d * v + d * log(v)) {
            return boost * d * v;
        }
    }
}

/* Draw how each class is divided among the nodes: cuts [classes][nodes + 1], in samples. Returns
 * the samples of the node with the fewest. */
static uint32_t draw_cuts(const struct uw_deal *d, uint32_t classes, const uint32_t *first,
                          double concentration, struct uw_rng *rng, double *share, uint32_t *cuts)
{
    uint32_t nodes = d->nodes_n;
    uint32_t fewest = UINT32_MAX;
    for (uint32_t c = 0; c < classes; c++) {
        uint32_t *of = cuts + (size_t)c * (nodes + 1u);
        uint32_t n = first[c + 1u] - first[c];
        double sum = 0.0;
        double below = 0.0;
        for (uint32_t i = 0; i < nodes; i++) {
            share[i] = gamma_of(rng, concentration) + 1e-300;
            sum += share[i];
        }
        for (uint32_t i = 0; i < nodes; i++) {
            of[i] = (uint32_t)((double)n * (below / sum));
            below += share[i];
        }
        of[nodes] = n;
    }
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t n = 0;
        for (uint32_t c = 0; c < classes; c++) {
            const uint32_t *of = cuts + (size_t)c * (nodes + 1u);
            n += of[i + 1u] - of[i];
        }
        fewest = n < fewest ? n : fewest;
    }
    return fewest;
}

static int deal_dirichlet(struct uw_deal *d, uint32_t classes, const uint32_t *order,
                          const uint32_t *first, double concentration, uint64_t seed)
{
    uint32_t nodes = d->nodes_n;
    double *share = malloc(nodes * sizeof *share);
    uint32_t *cuts = malloc((size_t)classes * (nodes + 1u) * sizeof *cuts);
    int rc = share != NULL && cuts != NULL ? UW_ERR_INVALID : UW_ERR_NOMEM;
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    for (uint32_t t = 0; rc == UW_ERR_INVALID && t < TRIES; t++) {
        rc = draw_cuts(d, classes, first, concentration, &rng, share, cuts) != 0 ? UW_OK : rc;
    }
    uint32_t at = 0;
    for (uint32_t i = 0; rc == UW_OK && i < nodes; i++) {
        d->start[i] = at;
        for (uint32_t c = 0; c < classes; c++) {
            const uint32_t *of = cuts + (size_t)c * (nodes + 1u);
            uint32_t n = first[c + 1u] - first[c];
            for (uint32_t k = of[i]; k < of[i + 1u]; k++) {
                d->index[at++] = order[first[c] + uw_rng_permute(uw_rng_mix(seed, c), n, k)];
            }
        }
    }
    d->start[nodes] = at;
    free(share);
    free(cuts);
    return rc;
}

static int deal_by_label(struct uw_deal *d, struct uw_dataset *whole, const struct uw_skew *skew,
                         uint64_t seed)
{
    uint32_t n = whole->samples_n;
    uint32_t *label = malloc((size_t)n * sizeof *label);
    uint32_t *order = malloc((size_t)n * sizeof *order);
    uint32_t *first = malloc((whole->classes + 1u) * sizeof *first);
    int rc = label != NULL && order != NULL && first != NULL ? read_labels(whole, label)
                                                             : UW_ERR_NOMEM;
    if (rc == UW_OK) {
        sort(whole, label, order, first);
        if (skew->kind == UW_SKEW_SORTED) {
            deal_sorted(d, n, order, seed);
        } else {
            rc = deal_dirichlet(d, whole->classes, order, first, skew->concentration, seed);
        }
    }
    free(label);
    free(order);
    free(first);
    return rc;
}

int uw_deal_open(struct uw_deal *d, struct uw_dataset *whole, const struct uw_skew *skew,
                 uint32_t nodes_n, uint64_t seed, struct uw_error *err)
{
    uint32_t n = whole->samples_n;
    *d = (struct uw_deal){.nodes_n = nodes_n};
    if (n / 2u < nodes_n) {
        return uw_error_set(err, UW_ERR_INVALID, "%u samples are too few for %u nodes",
                            (unsigned)n, (unsigned)nodes_n);
    }
    d->index = malloc((size_t)n * sizeof *d->index);
    d->start = malloc((nodes_n + 1u) * sizeof *d->start);
    int rc = d->index != NULL && d->start != NULL ? UW_OK : UW_ERR_NOMEM;
    if (rc == UW_OK && skew->kind == UW_SKEW_EVEN) {
        deal_even(d, n, seed);
    } else if (rc == UW_OK) {
        rc = deal_by_label(d, whole, skew, seed);
    }
    if (rc < 0) {
        uw_deal_close(d);
        return uw_error_set(err, rc, "%s",
                            rc == UW_ERR_INVALID ? "leaves nodes without a sample: a larger "
                                                   "concentration or fewer nodes are needed"
                                                 : uw_status_text(rc));
    }
    return UW_OK;
}

void uw_deal_close(struct uw_deal *d)
{
    free(d->index);
    free(d->start);
    *d = (struct uw_deal){.index = NULL};
}

static int read_share(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_share *s = (const struct uw_share *)base;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    return s->inner->ops->read(s->inner, s->index[index], x, label);
}

static int read_share_target(struct uw_dataset *base, uint64_t index, float *target)
{
    const struct uw_share *s = (const struct uw_share *)base;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    return s->inner->ops->read_target(s->inner, s->index[index], target);
}

static const struct uw_dataset_ops share_ops = {
    .name = "share", .read = read_share, .read_target = read_share_target};

void uw_share_init(struct uw_share *s, struct uw_dataset *whole, const struct uw_deal *deal,
                   uint32_t node)
{
    *s = (struct uw_share){
        .base = *whole, .inner = whole, .index = deal->index + deal->start[node]};
    s->base.ops = &share_ops;
    s->base.samples_n = deal->start[node + 1u] - deal->start[node];
    s->base.endless = false;
}
