/* SPDX-License-Identifier: Apache-2.0
 *
 * Connects a GPU's parameters with the network, which mixes in the processor's memory
 * (uwasa/node_image.h). Calls of uw_node_after_step that use parameters wait for the steps begun
 * and copy what they need; other calls cost nothing. Also averages directly between GPUs, where the
 * network decides who averages how: uwasa/node_direct.h, uwasa/cuda_group.h. */
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

void uw_node_work_log_backend(struct uw_node_work *r)
{
    struct uw_job_gpu *g = &r->job.gpu;
    char text[UW_GPU_TEXT_BYTES];
    if (g->cuda != NULL) {
        uw_node_report_log(&r->report, "training on %s", uw_job_gpu_text(g, text));
    } else if (g->note[0] != '\0') {
        uw_node_report_log(&r->report, "%s", g->note);
    }
    g->note[0] = '\0';
    if (r->job.model.config.kernels != NULL) {      /* it is bound */
        uw_node_report_backend(&r->report, &r->job);
    }
}

/* ---- averages between GPUs ---- */

static struct uw_cuda_group *group_of(void *arg)
{
    return ((struct uw_node_work *)arg)->group;
}

static uint32_t version(void *arg)
{
    return uw_cuda_group_version(group_of(arg));
}

static int make_id(void *arg, uint8_t id[UW_NODE_DIRECT_ID_BYTES])
{
    return uw_cuda_group_make_id(group_of(arg), id);
}

static int begin(void *arg, const struct uw_node_direct_round *r)
{
    return uw_cuda_group_begin(group_of(arg), r->id, r->rank, r->ranks, r->alike);
}

static int poll(void *arg)
{
    return uw_cuda_group_poll(group_of(arg));
}

static int add(void *arg, const struct uw_node_direct_part *parts, uint32_t parts_n)
{
    const struct uw_node_work *r = arg;
    struct uw_cuda_group_part *p = r->gradients.parts;
    for (uint32_t i = 0; i < parts_n; i++) {
        p[i] = (struct uw_cuda_group_part){.x = parts[i].x, .size_n = parts[i].size_n};
    }
    return uw_cuda_group_add_parts(r->group, p, parts_n);
}

static int settle(void *arg)
{
    return uw_cuda_group_settle(group_of(arg));
}

static void abort_round(void *arg)
{
    uw_cuda_group_abort(group_of(arg));
}

/* Whether to average between GPUs: for exact averages by the fastest algorithm. */
static bool is_wanted(const struct uw_node_options *o)
{
    int mode = o->exchange.mode.at;
    return o->nccl && mode != UW_NODE_GOSSIP && mode != UW_NODE_BROADCAST && !o->fixed;
}

/* Floats of all buckets; 0: parameters are averaged. */
static size_t parts_n(const struct uw_node_work *r)
{
    size_t n = 0;
    for (uint32_t i = 0; r->gradients.bucket_n != NULL && i < r->gradients.config.buckets_n; i++) {
        n += r->gradients.bucket_n[i];
    }
    return n;
}

const struct uw_node_direct *uw_node_work_direct(struct uw_node_work *r)
{
    _Static_assert(UW_NODE_DIRECT_ID_BYTES == UW_CUDA_GROUP_ID_BYTES, "they are the same ids");
    const struct uw_model *m = &r->job.model;
    const struct uw_cuda_group_config config = {.cuda = r->job.gpu.cuda, .x = m->params.x,
                                                .parameters = m->worked.x,
                                                .size_n = m->params.size_n,
                                                .parts_n = parts_n(r)};
    struct uw_error why = {.text = ""};
    if (r->job.gpu.cuda == NULL || !is_wanted(r->o)) {
        return NULL;
    }
    if (uw_cuda_group_open(&r->group, &config, &why) < 0) {
        uw_node_report_log(&r->report, "averages go over the network: %.200s", why.text);
        return NULL;
    }
    r->direct = (struct uw_node_direct){.name = "nccl",
                                        .device = uw_cuda_group_device(r->group),
                                        .version = version, .make_id = make_id, .begin = begin,
                                        .poll = poll, .settle = settle, .abort = abort_round,
                                        .add = add, .arg = r};
    return &r->direct;
}

void uw_node_work_close_direct(struct uw_node_work *r)
{
    uw_cuda_group_close(r->group);
    r->group = NULL;
}
