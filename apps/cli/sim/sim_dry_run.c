/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_fleet.h"
#include "sim_radio.h"
#include "sim_run.h"

#include <string.h>

struct dry {
    const struct uw_sim_options *o;
    struct uw_job job;
    struct uw_sim_draw draw;
    struct uw_sim_inputs in;
    struct uw_sim_radio radio;
};

/* On made-up data. */
static int measure_step(struct uw_job *job, uint64_t *step_us, struct uw_error *err)
{
    struct uw_model *m = &job->model;
    uint32_t n = job->config.batch_n;
    int rc = uw_job_init_weights(job, 1, err);
    for (uint64_t i = 0; rc == UW_OK && i < (uint64_t)n * m->input_n; i++) {
        m->input[i] = (float)((i * 2654435761u >> 7) % 1024u) / 1024.0f;
    }
    for (uint32_t i = 0; rc == UW_OK && i < n; i++) {
        m->label[i] = i % m->classes;
    }
    return rc < 0 ? rc : uw_sim_time_step(job, n, step_us, err);
}

static double mean_step_s(const struct uw_sim_fleet *f)
{
    double sum_us = 0.0;
    for (uint32_t i = 0; i < f->devices_n; i++) {
        sum_us += (double)f->devices[i].step_us;
    }
    return 1e-6 * sum_us / f->devices_n;
}

/* What the run would refuse, is: data that do not fit, nodes whose messages do not fit a frame.
 * Then what its exchanges take. */
static int foresee(struct dry *d, struct uw_error *err)
{
    const struct uw_params *params = &d->job.model.params;
    const struct uw_world_config world =
        uw_sim_world_config(d->o, &d->draw.fleet, params, "dry-run");
    uint64_t steps, per_epoch;
    int rc = uw_sim_inputs_open(&d->in, d->o, &d->job, err);
    if (rc < 0) {
        return rc;
    }
    if (uw_world_measure(&world, err) == SIZE_MAX && err->text[0] != '\0') {
        return err->code;
    }
    uw_sim_count_steps(d->o, &d->in, &steps, &per_epoch);
    d->radio = uw_sim_radio_foresee(d->o, params->size_n, steps, mean_step_s(&d->draw.fleet));
    return UW_OK;
}

static int show(const struct dry *d, struct uw_error *err)
{
    bool radio = d->o->link != NULL;
    struct uw_events events;
    int rc = uw_events_open(&events, d->o->json, err);
    if (rc == UW_OK && !uw_events_take_stdout(&events)) {
        rc = uw_sim_fleet_print(&d->draw, radio);
        if (rc == UW_OK && radio) {
            uw_sim_radio_print(d->o, &d->radio);
        }
    }
    rc = rc < 0 ? rc : uw_sim_fleet_put(&events, &d->draw, radio);
    if (rc == UW_OK) {
        cJSON *ev = uw_event("done");
        cJSON_AddNumberToObject(ev, "nodes", d->draw.fleet.devices_n);
        if (radio) {
            uw_sim_radio_put(ev, d->o, &d->radio);
        }
        uw_events_put(&events, ev);
    } else if (rc == UW_ERR_NOMEM) {
        uw_error_set(err, rc, "out of memory");
    }
    int closed = uw_events_close(&events, rc < 0 ? NULL : err);
    return rc < 0 ? rc : closed;
}

int uw_sim_dry_run(const struct uw_sim_options *o)
{
    struct dry d = {.o = o};
    uint64_t step_us = 0;
    struct uw_error err = {.text = ""};
    const struct uw_job_config config = {.model = o->model, .backend = o->backend.word,
                                         .threads = 1,
                                         .plan = {.batch_n = o->batch,
                                                  .optimizer = {.lr = 1e-6f}}};
    bool measured = uw_sim_scenario_uses(o->scenario, UW_SIM_STEP_MEASURED);
    int rc = uw_job_plan(&d.job, &config, &err);
    rc = rc == UW_OK && (measured || o->link != NULL) ? uw_job_bind(&d.job, &err) : rc;
    rc = rc == UW_OK && measured ? measure_step(&d.job, &step_us, &err) : rc;
    rc = rc < 0 ? rc : uw_sim_fleet_draw(&d.draw, o->scenario, &d.job, step_us, &err);
    int status = uw_job_exit(rc);
    if (rc == UW_OK && o->link != NULL) {
        rc = foresee(&d, &err);
        status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED;     /* as the run's */
    }
    if (rc == UW_OK) {
        rc = show(&d, &err);
        status = uw_job_exit(rc);
    }
    uw_sim_inputs_close(&d.in);
    uw_sim_draw_close(&d.draw);
    uw_job_deinit(&d.job);
    return rc < 0 ? uw_cli_error("sim", status, "%s",
                                 err.text[0] != '\0' ? err.text : uw_status_text(rc))
                  : UW_EXIT_DONE;
}
