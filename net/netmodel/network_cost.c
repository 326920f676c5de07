/* SPDX-License-Identifier: Apache-2.0 */
#include "network_cost.h"

#include "uwasa/fmath.h"

#include <math.h>
#include <string.h>

#define LATENCY_GUESS_S 1e-3
#define BYTE_GUESS_S 8e-8           /* 100 Mbit/s */
#define REDUCE_GUESS_S 2.5e-10

/* Standard deviations of logarithms. */
#define GUESSED 2.0f
#define MEASURED 0.1f
#define FACTOR 0.1f
#define DRIFT 0.01f                 /* from one round to the next */
#define FACTOR_DRIFT 0.003f
#define ROUND_NOISE 0.05f
#define WIDEST 2.0f                 /* upper limit: that of a guess */
#define FARTHEST 32.0               /* limit of updates, as a factor on the measurement */
#define FAR 3.0f                    /* standard deviations of an outlier */
#define SHARED (1.0 / 3.0)          /* part of a shared medium's slowdown that counts as shared */
#define LONGEST_S 1000.0f
#define ALIKE 1.25f                 /* ranks that differ by less count as equal */
#define REPEATED 3u                 /* outliers in a row that are accepted */

static double *constant(struct uw_network_cost *c, uint32_t i)
{
    double *all[UW_FIT_KINDS] = {&c->latency_s, &c->access_s, &c->byte_s, &c->reduce_s};
    return all[i];
}

static void set_variance(struct uw_network_fit *f, float deviation)
{
    memset(f->variance, 0, sizeof f->variance);
    for (uint32_t i = 0; i < UW_FIT_KINDS; i++) {
        f->measured[i] = *constant(&f->cost, i);
    }
    for (uint32_t i = 0; i < UW_FIT_DIMS; i++) {
        float d = i < UW_FIT_KINDS ? deviation : FACTOR;
        f->variance[i][i] = d * d;
    }
    for (uint32_t i = 0; i < UW_ALLREDUCE_KINDS_N; i++) {
        f->factor[i] = 1.0f;
    }
    f->surprises = 0;
}

void uw_network_fit_init(struct uw_network_fit *f, uint32_t chunk_n, uint32_t head_bytes,
                         uint32_t early_n)
{
    *f = (struct uw_network_fit){
        .cost = {.latency_s = LATENCY_GUESS_S, .byte_s = BYTE_GUESS_S, .reduce_s = REDUCE_GUESS_S,
                 .chunk_n = chunk_n, .head_bytes = head_bytes, .early_n = early_n}};
    set_variance(f, GUESSED);
}

static bool is_time(float s)
{
    return s >= 0.0f && s < LONGEST_S;
}

/* A field of a report; 0: not measured. Reports are not trusted. */
static float field_of(const struct uw_network_report *r, uint32_t field)
{
    const float all[] = {r->rtt_s, r->small_s, r->large_s, r->together_s};
    return is_time(all[field]) ? all[field] : 0.0f;
}

/* The smallest value that at least share of the values above 0 do not exceed; 0: there are none. */
static float quantile(const struct uw_network_report *reports, uint32_t p, uint32_t field,
                      float share)
{
    uint32_t n = 0;
    float found = 0.0f;
    for (uint32_t i = 0; i < p; i++) {
        n += field_of(&reports[i], field) > 0.0f ? 1 : 0;
    }
    for (uint32_t i = 0; i < p; i++) {
        float v = field_of(&reports[i], field);
        uint32_t not_above = 0;
        for (uint32_t j = 0; j < p; j++) {
            float w = field_of(&reports[j], field);
            not_above += w > 0.0f && w <= v ? 1 : 0;
        }
        if (v > 0.0f && (float)not_above >= share * (float)n && (found <= 0.0f || v < found)) {
            found = v;
        }
    }
    return found;
}

/* Rank i measures what comes from the next one. */
static void compare(struct uw_network_fit *f, const struct uw_network_report *reports, uint32_t p,
                    float usual_s)
{
    for (uint32_t i = 0; i < p && p <= UW_FIT_RANKS_MAX; i++) {
        float times = field_of(&reports[i], 3) / usual_s;
        bool differs = times > ALIKE || (times > 0.0f && times < 1.0f / ALIKE);
        f->slower[(i + 1) % p] = differs ? times : 1.0f;
        f->slower_p = differs ? p : f->slower_p;
    }
}

/* The costs for so many ranks. */
static struct uw_network_cost cost_of(const struct uw_network_fit *f, uint32_t p)
{
    struct uw_network_cost c = f->cost;
    c.slower = f->slower_p == p ? f->slower : NULL;
    return c;
}

bool uw_network_fit_reports(struct uw_network_fit *f, const struct uw_network_report *reports,
                            uint32_t p)
{
    struct uw_network_cost *c = &f->cost;
    double rtt = (double)quantile(reports, p, 0, 0.75f);
    double small = (double)quantile(reports, p, 1, 0.5f);
    double large = (double)quantile(reports, p, 2, 0.5f);
    double together = (double)quantile(reports, p, 3, 0.75f);
    double small_bytes = c->head_bytes + 4.0, large_bytes = c->head_bytes + 4.0 * c->chunk_n;
    if (large <= 0.0) {
        return false;
    }
    double usual = (double)quantile(reports, p, 3, 0.5f);
    f->slower_p = 0;
    c->shared = together > (1.0 + SHARED * (p - 1.0)) * large;
    if (!c->shared && usual > 0.0) {
        small *= usual / large;     /* scaled to all ranks at once */
        large = usual;
        compare(f, reports, p, (float)usual);
    }
    bool grows = small > 0.0 && small < large && c->chunk_n > 1;
    c->byte_s = grows ? (large - small) / (large_bytes - small_bytes) : large / large_bytes;
    double access = grows ? small - small_bytes * c->byte_s : 0.0;
    c->access_s = access > 0.0 ? access : 0.0;
    if (rtt > 0.0) {
        /* The request is a header and four words, the answer a header and one. */
        double wire = 2.0 * c->access_s + (2.0 * c->head_bytes + 20.0) * c->byte_s;
        c->latency_s = rtt > wire ? 0.5 * (rtt - wire) : 0.0;
    }
    set_variance(f, MEASURED);
    return true;
}

void uw_network_fit_reduce(struct uw_network_fit *f, double bytes, double seconds)
{
    if (bytes > 0.0 && seconds > 0.0) {
        f->cost.reduce_s = seconds / bytes;
    }
}

double uw_network_predict(const struct uw_network_fit *f, enum uw_allreduce_kind kind, uint32_t p,
                          uint32_t n, double *at)
{
    const struct uw_network_cost c = cost_of(f, p);
    return (double)f->factor[kind] * uw_allreduce_seconds(kind, p, n, &c, at);
}

enum uw_allreduce_kind uw_network_choose(const struct uw_network_fit *f, uint32_t p, uint32_t n,
                                         bool same_bits, double *at, double *seconds)
{
    enum uw_allreduce_kind best = UW_ALLREDUCE_TREE;
    double least = uw_network_predict(f, best, p, n, at);
    for (int i = UW_ALLREDUCE_DOUBLING; i < UW_ALLREDUCE_KINDS_N; i++) {
        enum uw_allreduce_kind kind = (enum uw_allreduce_kind)i;
        if (kind == UW_ALLREDUCE_SWEEP && same_bits) {
            continue;
        }
        double s = uw_network_predict(f, kind, p, n, at);
        if (s < least) {
            least = s;
            best = kind;
        }
    }
    if (seconds != NULL) {
        *seconds = least;
    }
    return best;
}

/* w_j = d log T / d log c_j, by a small difference. */
static void shares(const struct uw_network_fit *f, enum uw_allreduce_kind kind, uint32_t p,
                   uint32_t n, double modelled, double *at, float *w)
{
    const double step = 0.01;
    for (uint32_t i = 0; i < UW_FIT_KINDS; i++) {
        struct uw_network_cost more = cost_of(f, p);
        *constant(&more, i) *= 1.0 + step;
        w[i] = (float)((uw_allreduce_seconds(kind, p, n, &more, at) - modelled) /
                       (step * modelled));
    }
    for (uint32_t i = 0; i < UW_ALLREDUCE_KINDS_N; i++) {
        w[UW_FIT_KINDS + i] = i == (uint32_t)kind ? 1.0f : 0.0f;
    }
}

static void forget(struct uw_network_fit *f)
{
    for (uint32_t i = 0; i < UW_FIT_DIMS; i++) {
        float d = i < UW_FIT_KINDS ? DRIFT : FACTOR_DRIFT;
        f->variance[i][i] += f->variance[i][i] < WIDEST * WIDEST ? d * d : 0.0f;
    }
}

/* Increase all variances. */
static void doubt(struct uw_network_fit *f)
{
    for (uint32_t i = 0; i < UW_FIT_DIMS; i++) {
        if (16.0f * f->variance[i][i] > WIDEST * WIDEST) {
            return;
        }
    }
    for (uint32_t i = 0; i < UW_FIT_DIMS; i++) {
        for (uint32_t j = 0; j < UW_FIT_DIMS; j++) {
            f->variance[i][j] *= 16.0f;
        }
    }
}

static double between(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* The part of an error that is applied: all of it, limited for an outlier unless it repeats. */
static float believed(struct uw_network_fit *f, float error, float deviation)
{
    bool far = fabsf(error) > FAR * deviation, up = error > 0.0f;
    f->surprises = !far ? 0 : f->surprises == 0 || f->surprise_up == up ? f->surprises + 1 : 1;
    f->surprise_up = up;
    if (far && f->surprises >= REPEATED) {
        doubt(f);
        return error;
    }
    return far ? (up ? FAR : -FAR) * deviation : error;
}

static void correct(struct uw_network_fit *f, const float *w, float error)
{
    float pw[UW_FIT_DIMS], total = ROUND_NOISE * ROUND_NOISE;
    for (uint32_t pass = 0; pass < 2; pass++) {     /* once more after doubt */
        total = ROUND_NOISE * ROUND_NOISE;
        for (uint32_t i = 0; i < UW_FIT_DIMS; i++) {
            pw[i] = 0.0f;
            for (uint32_t j = 0; j < UW_FIT_DIMS; j++) {
                pw[i] += f->variance[i][j] * w[j];
            }
            total += pw[i] * w[i];
        }
        error = pass == 0 ? believed(f, error, sqrtf(total)) : error;
    }
    for (uint32_t i = 0; i < UW_FIT_DIMS; i++) {
        float by = uw_expf(pw[i] / total * error);
        if (i < UW_FIT_KINDS) {
            double *c = constant(&f->cost, i);
            *c = between(*c * (double)by, f->measured[i] / FARTHEST, f->measured[i] * FARTHEST);
        } else {
            float *factor = &f->factor[i - UW_FIT_KINDS];
            *factor = (float)between((double)(*factor * by), 1.0 / FARTHEST, FARTHEST);
        }
    }
    for (uint32_t i = 0; i < UW_FIT_DIMS; i++) {
        for (uint32_t j = 0; j < UW_FIT_DIMS; j++) {
            f->variance[i][j] -= pw[i] * pw[j] / total;
        }
    }
}

void uw_network_learn(struct uw_network_fit *f, enum uw_allreduce_kind kind, uint32_t p,
                      uint32_t n, double seconds, double *at)
{
    float w[UW_FIT_DIMS];
    const struct uw_network_cost c = cost_of(f, p);
    double modelled = uw_allreduce_seconds(kind, p, n, &c, at);
    if (p < 2 || seconds <= 0.0 || modelled <= 0.0) {
        return;
    }
    forget(f);
    shares(f, kind, p, n, modelled, at, w);
    correct(f, w, uw_logf((float)(seconds / (modelled * (double)f->factor[kind]))));
    f->rounds_n++;
}

bool uw_network_is_doubtful(const struct uw_network_fit *f)
{
    return f->surprises >= REPEATED;
}

void uw_network_path(const struct uw_network_fit *f, uint32_t p, uint64_t *rtt_us,
                     float *floats_per_us)
{
    const struct uw_network_cost *c = &f->cost;
    uint32_t n = c->chunk_n != 0 ? c->chunk_n : 1;
    double chunk_s = uw_allreduce_wire_s(c, n);
    double waits = c->shared ? 2.0 * (p + 2.0) : 2.0;
    *rtt_us = (uint64_t)(1e6 * (2.0 * c->latency_s + waits * chunk_s)) + 1u;
    *floats_per_us = chunk_s > 0.0 ? (float)(n / (1e6 * chunk_s)) : 0.0f;
}

struct uw_network_summary uw_network_summary_of(const struct uw_network_fit *f)
{
    const struct uw_network_cost *c = &f->cost;
    return (struct uw_network_summary){.latency_s = (float)c->latency_s,
                                       .access_s = (float)c->access_s,
                                       .byte_s = (float)c->byte_s,
                                       .reduce_s = (float)c->reduce_s, .shared = c->shared};
}

int uw_network_apply(struct uw_network_fit *f, const struct uw_network_summary *s)
{
    if (!is_time(s->latency_s) || !is_time(s->access_s) || !is_time(s->byte_s) ||
        !is_time(s->reduce_s) || s->byte_s <= 0.0f) {
        return UW_ERR_INVALID;
    }
    f->cost.latency_s = (double)s->latency_s;
    f->cost.access_s = (double)s->access_s;
    f->cost.byte_s = (double)s->byte_s;
    f->cost.reduce_s = (double)s->reduce_s;
    f->cost.shared = s->shared;
    f->slower_p = 0;
    set_variance(f, MEASURED);
    return UW_OK;
}
