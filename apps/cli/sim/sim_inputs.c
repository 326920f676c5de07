/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_run.h"

#include "uwasa/board.h"

/* What is kept of sets that are read often: many nodes are tested on the same samples, and all
 * candidates of an advice train on the same. */
#define TEST_BYTES_MAX (64u << 20)
#define TRAIN_BYTES_MAX (256u << 20)

static int keep(struct uw_kept *k, struct uw_dataset *d, uint64_t bytes_max)
{
    uint64_t bytes = sizeof(float) * (uint64_t)d->channels * d->height * d->width;
    uint64_t room = bytes_max / (bytes != 0 ? bytes : 1u);
    return uw_kept_open(k, d, room < d->samples_n ? (uint32_t)room : d->samples_n);
}

static int open_sets(struct uw_sim_inputs *in, const struct uw_sim_options *o,
                     const struct uw_job *job, struct uw_error *err)
{
    const struct uw_model_def *def = &job->file.def;
    struct uw_data_config config = {.seed = o->seed, .channels = def->in_channels,
                                    .height = def->in_h, .width = def->in_w};
    int rc = uw_data_open(&in->data, o->data, &config, err);
    config.test = true;
    rc = rc < 0 ? rc : uw_data_open(&in->test, o->data, &config, err);
    rc = rc < 0 ? rc : uw_job_check_data(job, in->data.base, o->data, err);
    if (rc < 0) {
        return rc;
    }
    rc = keep(&in->tests, in->test.base, TEST_BYTES_MAX);
    rc = rc < 0 ? rc : keep(&in->trains, in->data.base, o->advise ? TRAIN_BYTES_MAX : 0);
    return rc < 0 ? uw_error_set(err, rc, "out of memory") : UW_OK;
}

int uw_sim_inputs_open(struct uw_sim_inputs *in, const struct uw_sim_options *o,
                       const struct uw_job *job, struct uw_error *err)
{
    struct uw_error why = {.text = ""};
    uint64_t start_us = uw_board_now_us();
    if (in->open) {
        return UW_OK;
    }
    int rc = open_sets(in, o, job, err);
    if (rc < 0) {
        return rc;
    }
    rc = uw_deal_open(&in->deal, &in->trains.base, &o->dealt, o->nodes, uw_rng_mix(o->seed, 1),
                      &why);
    if (rc < 0) {
        return uw_error_set(err, rc, "--nodes %u, --skew %.40s, data %.80s: %.100s",
                            (unsigned)o->nodes, o->skew, o->data, why.text);
    }
    in->open_us = uw_board_now_us() - start_us;
    in->open = true;
    return UW_OK;
}

void uw_sim_count_steps(const struct uw_sim_options *o, const struct uw_sim_inputs *in,
                        uint64_t *steps, uint64_t *per_epoch)
{
    uint64_t together = (uint64_t)o->nodes * o->batch;
    *per_epoch = (in->data.base->samples_n + together - 1u) / together;
    *steps = o->steps != 0              ? o->steps
             : o->epochs != 0           ? *per_epoch * o->epochs
             : o->virtual_seconds > 0.0 ? UW_SIM_STEPS_ENDLESS
                                        : *per_epoch;
}

void uw_sim_inputs_close(struct uw_sim_inputs *in)
{
    uw_deal_close(&in->deal);
    uw_kept_close(&in->trains);
    uw_kept_close(&in->tests);
    uw_data_close(&in->test);
    uw_data_close(&in->data);
    in->open = false;
}
