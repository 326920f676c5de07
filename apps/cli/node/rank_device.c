/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the network, which decides who averages how, and GPUs that can do it among themselves:
 * uwasa/node_direct.h, uwasa/cuda_group.h. */
#include "node_work.h"

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

/* Those that are exact averages, by the fastest way. */
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
        uw_node_report_say(&r->report, "averages go over the network: %.200s", why.text);
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
