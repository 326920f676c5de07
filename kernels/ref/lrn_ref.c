/* SPDX-License-Identifier: Apache-2.0
 *
 * A task is a sample's channels over a few positions side by side. */
#include "ref/ref.h"

#include "uwasa/fmath.h"
#include "uwasa/status.h"

#define STRIP_N 16u

struct job {
    const struct uw_lrn *l;
    const float *x, *dy;
    float *y;
    float *scratch;
    bool accumulate;
    uint32_t strips;                /* of a sample */
};

/* [lo, hi): the window of channel c; the channels whose windows hold c when `mirrored`. */
static void window_of(const struct uw_lrn *l, uint32_t c, bool mirrored, uint32_t *lo,
                      uint32_t *hi)
{
    uint32_t before = mirrored ? (l->size - 1) / 2 : l->size / 2;
    uint32_t after = mirrored ? l->size / 2 : (l->size - 1) / 2;
    *lo = c > before ? c - before : 0;
    *hi = l->channels - c > after ? c + after + 1 : l->channels;
}

/* k + alpha / size * sum of x^2 over the window; x is channel 0 at the position. */
static float base_of(const struct uw_lrn *l, uint32_t c, const float *x)
{
    uint32_t lo, hi;
    float sum = 0.0f;
    window_of(l, c, false, &lo, &hi);
    for (uint32_t w = lo; w < hi; w++) {
        float v = x[(size_t)w * l->inner];
        sum += v * v;
    }
    return l->k + l->alpha / (float)l->size * sum;
}

static float power(float base, float exponent)
{
    return uw_expf(exponent * uw_logf(base));
}

static uint32_t strip_of(const struct job *j, uint32_t task, size_t *first)
{
    uint32_t begin = task % j->strips * STRIP_N;
    *first = (size_t)(task / j->strips) * j->l->channels * j->l->inner + begin;
    return j->l->inner - begin < STRIP_N ? j->l->inner - begin : STRIP_N;
}

static void fw_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct uw_lrn *l = j->l;
    size_t first;
    uint32_t n = strip_of(j, task, &first);

    for (uint32_t c = 0; c < l->channels; c++) {
        for (uint32_t i = 0; i < n; i++) {
            size_t at = first + (size_t)c * l->inner + i;
            j->y[at] = j->x[at] * power(base_of(l, c, j->x + first + i), -l->beta);
        }
    }
}

/* dx = dy * s^-beta - 2 alpha beta / size * x * sum of dy * x * s^(-beta - 1) over the channels
 * whose windows hold this one. */
static void bw_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct job *j = arg;
    const struct uw_lrn *l = j->l;
    float *direct = j->scratch + (size_t)thread * l->channels * 2 * STRIP_N;
    float *term = direct + (size_t)l->channels * STRIP_N;
    float factor = 2.0f * l->alpha * l->beta / (float)l->size;
    size_t first;
    uint32_t n = strip_of(j, task, &first);

    for (uint32_t c = 0; c < l->channels; c++) {
        for (uint32_t i = 0; i < n; i++) {
            size_t at = first + (size_t)c * l->inner + i;
            float base = base_of(l, c, j->x + first + i);
            float d = j->dy[at] * power(base, -l->beta);
            direct[c * STRIP_N + i] = d;
            term[c * STRIP_N + i] = d * j->x[at] / base;
        }
    }
    for (uint32_t c = 0; c < l->channels; c++) {
        uint32_t lo, hi;
        window_of(l, c, true, &lo, &hi);
        for (uint32_t i = 0; i < n; i++) {
            size_t at = first + (size_t)c * l->inner + i;
            float sum = 0.0f;
            for (uint32_t w = lo; w < hi; w++) {
                sum += term[w * STRIP_N + i];
            }
            float d = direct[c * STRIP_N + i] - factor * j->x[at] * sum;
            j->y[at] = j->accumulate ? j->y[at] + d : d;
        }
    }
}

int uw_lrn_fw_ref(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                  const float *x, float *y)
{
    struct job j = {.l = l, .x = x, .y = y, .strips = (l->inner - 1) / STRIP_N + 1};
    uw_workers_run(e->workers, fw_task, &j, batch_n * j.strips);
    return UW_OK;
}

int uw_lrn_bw_input_ref(const struct uw_exec *e, const struct uw_lrn *l, uint32_t batch_n,
                        const float *x, const float *dy, float *dx, bool accumulate)
{
    if (e->scratch_bytes < uw_lrn_scratch_bytes_ref(l, uw_workers_threads(e->workers))) {
        return UW_ERR_NOMEM;
    }
    struct job j = {.l = l, .x = x, .dy = dy, .y = dx, .scratch = e->scratch,
                    .accumulate = accumulate, .strips = (l->inner - 1) / STRIP_N + 1};
    uw_workers_run(e->workers, bw_task, &j, batch_n * j.strips);
    return UW_OK;
}

size_t uw_lrn_scratch_bytes_ref(const struct uw_lrn *l, uint32_t threads)
{
    return (size_t)threads * l->channels * 2 * STRIP_N * sizeof(float);
}
