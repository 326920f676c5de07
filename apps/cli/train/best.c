/* SPDX-License-Identifier: Apache-2.0 */
#include "best.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* state->user[0] has this above the bits of the share, and user[3] these bits above `since`. */
#define MARK (UINT64_C(0x42455354) << 32)
#define JUDGED (UINT64_C(1) << 32)
#define SWAPPED (UINT64_C(1) << 33)
#define ON (UINT64_C(1) << 34)
#define KEEP (UINT64_C(1) << 35)

int uw_best_open(struct uw_best *b, struct uw_model *m, bool on, bool keep, struct uw_error *err)
{
    *b = (struct uw_best){.on = on, .keep = keep, .loss = (double)INFINITY};
    if (keep) {
        m->kept = calloc(m->params.size_n, sizeof *m->kept);
        if (m->kept == NULL) {
            return uw_error_set(err, UW_ERR_NOMEM, "--keep best: no memory for its %zu bytes",
                                (size_t)m->params.size_n * sizeof *m->kept);
        }
    }
    return UW_OK;
}

void uw_best_close(struct uw_model *m)
{
    free(m->kept);
    m->kept = NULL;
}

int uw_best_judge(struct uw_best *b, struct uw_model *m, uint64_t step, double loss)
{
    int rc = UW_OK;
    b->judged = true;
    if (!(loss < b->loss)) {
        b->since += b->since < UINT32_MAX ? 1u : 0u;
        return rc;
    }
    b->loss = loss;
    b->step = step;
    b->since = 0;
    if (b->keep) {
        rc = uw_model_pull(m);
        memcpy(m->kept, m->params.x, m->params.size_n * sizeof *m->kept);
    }
    return rc;
}

int uw_best_swap(struct uw_best *b, struct uw_model *m)
{
    int rc = uw_model_pull(m);
    for (uint32_t i = 0; i < m->params.size_n && rc == UW_OK; i++) {
        float x = m->params.x[i];
        m->params.x[i] = m->kept[i];
        m->kept[i] = x;
    }
    b->swapped = !b->swapped;
    return rc < 0 ? rc : uw_model_push(m);
}

static uint64_t bits_of(double share)
{
    float value = (float)share;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void uw_best_store(const struct uw_best *b, double share, struct uw_checkpoint *state)
{
    if (!b->on && share == 0.0) {
        return;
    }
    state->user[0] = MARK | bits_of(share);
    memcpy(&state->user[1], &b->loss, sizeof b->loss);
    state->user[2] = b->step;
    state->user[3] = b->since | (b->judged ? JUDGED : 0) | (b->swapped ? SWAPPED : 0) |
                     (b->on ? ON : 0) | (b->keep ? KEEP : 0);
}

/* Check that the file was trained with the same share. */
static int check_share(double share, uint64_t stored, const char *file, struct uw_error *err)
{
    bool marked = (stored & ~UINT64_C(0xffffffff)) == MARK;
    uint32_t bits = marked ? (uint32_t)stored : 0;
    float theirs;
    memcpy(&theirs, &bits, sizeof theirs);
    if (bits == bits_of(share)) {
        return UW_OK;
    }
    if (bits == 0) {
        return uw_error_set(err, UW_ERR_MISMATCH, "--validation %g: %.120s was trained without it",
                            share, file);
    }
    return uw_error_set(err, UW_ERR_MISMATCH,
                        "%.120s was trained with --validation %g: give that again; its weights "
                        "can start a new run", file, (double)theirs);
}

int uw_best_load(struct uw_best *b, struct uw_model *m, double share,
                 const struct uw_checkpoint *state, const char *file, struct uw_error *err)
{
    int rc = check_share(share, state->user[0], file, err);
    bool marked = (state->user[0] & ~UINT64_C(0xffffffff)) == MARK;
    uint64_t bits = marked ? state->user[3] : 0;
    if (rc < 0) {
        return rc;
    }
    if ((bits & SWAPPED) != 0 && !b->keep) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%.120s has the best weights, of --keep best, beside the last ones: "
                            "give that again; the best ones can start a new run", file);
    }
    if ((bits & ON) == 0 || !b->on) {
        return 0;
    }
    if (b->keep && (bits & KEEP) == 0) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "--keep best: %.120s was trained without it, the weights of its best "
                            "test are gone", file);
    }
    memcpy(&b->loss, &state->user[1], sizeof b->loss);
    b->step = state->user[2];
    b->since = (uint32_t)state->user[3];
    b->judged = (bits & JUDGED) != 0;
    b->swapped = (bits & SWAPPED) != 0;
    rc = b->swapped ? uw_best_swap(b, m) : UW_OK;
    return rc < 0 ? rc : 1;
}
