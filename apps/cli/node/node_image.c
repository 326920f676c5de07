/* SPDX-License-Identifier: Apache-2.0
 *
 * Between a GPU's memory and the network, which mixes in the processor's: uwasa/node_image.h. The
 * calls of uw_node_after_step that look at parameters wait for the steps begun and copy what they
 * need; all others cost nothing. */
#include "node_work.h"

static int note(struct uw_node_work *r, int rc)
{
    r->image_failed = r->image_failed || rc < 0;
    return rc;
}

static int fetch(void *arg, uint32_t offset_n, uint32_t count_n)
{
    struct uw_node_work *r = arg;
    return note(r, uw_model_pull_range(&r->job.model, offset_n, count_n));
}

static int send(void *arg, uint32_t offset_n, uint32_t count_n)
{
    struct uw_node_work *r = arg;
    return note(r, uw_model_push_range(&r->job.model, offset_n, count_n));
}

static int send_velocity(void *arg)
{
    struct uw_node_work *r = arg;
    return note(r, uw_model_push_velocity(&r->job.model));
}

const struct uw_node_image *uw_node_work_image(struct uw_node_work *r)
{
    if (r->job.model.config.kernels->device == NULL) {
        return NULL;
    }
    r->image = (struct uw_node_image){fetch, send, send_velocity, r};
    return &r->image;
}

void uw_node_work_tell_backend(struct uw_node_work *r)
{
    struct uw_job_gpu *g = &r->job.gpu;
    char text[UW_GPU_TEXT_BYTES];
    if (g->cuda != NULL) {
        uw_node_report_say(&r->report, "training on %s", uw_job_gpu_text(g, text));
    } else if (g->note[0] != '\0') {
        uw_node_report_say(&r->report, "%s", g->note);
    }
    g->note[0] = '\0';
    if (r->job.model.config.kernels != NULL) {      /* it is bound */
        uw_node_report_backend(&r->report, &r->job);
    }
}
