/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_gradients.h"

#include "node_work.h"

#include "uwasa/fmath.h"
#include "uwasa/board.h"
#include "uwasa/hash.h"
#include "uwasa/optimizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LR_BUCKET 0u                /* needed first; then come the model's */
#define NUMBER(bucket) ((bucket) + 1u)

/* Wait for a bucket; leaves the group if the program is to end. */
static enum uw_gradient_state wait_for(struct uw_node_work *r, uint32_t bucket)
{
    enum uw_gradient_state state = uw_node_gradient_state(&r->net.node, bucket);
    while (state == UW_GRADIENT_RUNNING) {
        if (uw_stop_asked(&r->stop)) {
            uw_node_recall(&r->net.node);
            uw_node_net_wake(&r->net);
        }
        uw_node_net_wait(&r->net);
        uw_node_work_watch(r);
        state = uw_node_gradient_state(&r->net.node, bucket);
    }
    return state;
}

/* As uw_bucket_ready_fn. A gradient that is not finite stops only this node. */
static int bucket_ready(void *arg, uint32_t bucket, uint32_t offset_n, uint32_t count_n,
                        float *gradient)
{
    struct uw_node_work *r = arg;
    (void)offset_n;
    if (!uw_all_finite(gradient, count_n)) {
        return UW_ERR_NONFINITE;
    }
    if (!r->gradients.lr_out) {
        r->gradients.lr_out = true;
        r->gradients.lr_back = false;
        r->gradients.lr = r->job.model.late_optimizer.lr;
        uw_node_gradient_ready(&r->net.node, LR_BUCKET, &r->gradients.lr);
    }
    uw_node_gradient_ready(&r->net.node, NUMBER(bucket), gradient);
    uw_node_trace_ready(r, bucket);
    if (r->gradients.grouped) {
        uw_node_net_wake(&r->net);
    }
    return UW_OK;
}

static void wait_for_lr(struct uw_node_work *r)
{
    struct uw_gradients *g = &r->gradients;
    g->lr_out = false;
    if (!g->lr_back) {
        g->lr_back = true;
        if (wait_for(r, LR_BUCKET) == UW_GRADIENT_AVERAGED) {
            r->job.model.late_optimizer.lr = g->lr;
        }
    }
}

/* As uw_bucket_wait_fn. */
static int bucket_wait(void *arg, uint32_t bucket)
{
    struct uw_node_work *r = arg;
    wait_for_lr(r);
    return wait_for(r, NUMBER(bucket)) == UW_GRADIENT_DROPPED ? UW_BUCKET_DROPPED : UW_OK;
}

/* Hash of what must be equal at all members besides the model. */
static uint32_t tag_of(const struct uw_optimizer *o)
{
    const float same[] = {(float)o->kind, o->momentum, o->weight_decay, o->nesterov ? 1.0f : 0.0f};
    uint64_t hash = uw_hash64(UW_HASH64_START, same, sizeof same);
    return (uint32_t)(hash ^ hash >> 32);
}

int uw_node_gradients_open(struct uw_node_work *r)
{
    struct uw_model *m = &r->job.model;
    struct uw_gradients *g = &r->gradients;
    g->bucket_n = calloc(m->buckets_n + 1u, sizeof *g->bucket_n);
    g->parts = calloc(m->buckets_n + 1u, sizeof *g->parts);
    if (g->bucket_n == NULL || g->parts == NULL) {
        uw_node_gradients_close(r);
        return uw_error_set(&r->err, UW_ERR_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < m->buckets_n; i++) {
        g->bucket_n[NUMBER(i)] = m->buckets[i].count_n;
    }
    g->bucket_n[LR_BUCKET] = 1;
    g->config = (struct uw_node_gradients_config){.bucket_n = g->bucket_n,
                                                  .buckets_n = m->buckets_n + 1u,
                                                  .tag = tag_of(&m->optimizer),
                                                  .trace = uw_node_trace_fragment,
                                                  .arg = r};
    m->bucket_ready = bucket_ready;
    m->bucket_wait = bucket_wait;
    m->bucket_arg = r;
    return UW_OK;
}

int uw_node_gradients_finish(struct uw_node_work *r)
{
    struct uw_error why = {.text = ""};
    int rc = r->gradients.bucket_n != NULL ? uw_model_finish_updates(&r->job.model, &why) : UW_OK;
    return rc < 0 ? uw_error_set(&r->err, rc, "step %llu: %.200s", (unsigned long long)r->step,
                                 why.text)
                  : UW_OK;
}

void uw_node_gradients_prepare(struct uw_node_work *r)
{
    const struct uw_model *m = &r->job.model;
    if (r->gradients.bucket_n != NULL && m->config.kernels->device != NULL &&
        uw_model_updates_pending(m)) {
        wait_for_lr(r);
    }
}

int uw_node_gradients_settle(struct uw_node_work *r)
{
    bool wants = r->gradients.bucket_n != NULL && uw_node_wants_parameters(&r->net.node);
    return wants ? uw_node_gradients_finish(r) : UW_OK;
}

/* Average a vector over all members as if it were a gradient. If that fails, reset it. */
static void average_vector(struct uw_node_work *r, float *x)
{
    const struct uw_model *m = &r->job.model;
    float lr = r->gradients.lr;
    for (uint32_t i = 0; i < m->buckets_n; i++) {
        uw_node_gradient_ready(&r->net.node, NUMBER(i), x + m->buckets[i].offset_n);
    }
    uw_node_gradient_ready(&r->net.node, LR_BUCKET, &r->gradients.lr);
    uw_node_net_wake(&r->net);
    for (uint32_t i = 0; i < m->buckets_n; i++) {
        if (wait_for(r, NUMBER(i)) == UW_GRADIENT_DROPPED) {
            memset(x + m->buckets[i].offset_n, 0, m->buckets[i].count_n * sizeof *x);
        }
    }
    (void)wait_for(r, LR_BUCKET);
    r->gradients.lr = lr;
}

int uw_node_gradients_meet(struct uw_node_work *r)
{
    struct uw_gradients *g = &r->gradients;
    if (g->bucket_n == NULL) {
        return UW_OK;
    }
    bool grouped = uw_node_grouped(&r->net.node), begun = grouped && !g->grouped;
    uint32_t vectors = uw_optimizer_vectors(&r->job.model.optimizer);
    g->grouped = grouped;
    if (!begun || vectors == 0) {
        return UW_OK;
    }
    int rc = uw_model_pull(&r->job.model);
    for (uint32_t v = 0; v < vectors && rc == UW_OK; v++) {
        average_vector(r, r->job.model.state[v]);
    }
    rc = rc < 0 ? rc : uw_model_push(&r->job.model);
    return rc < 0 ? uw_error_set(&r->err, rc, "step %llu: the GPU failed",
                                 (unsigned long long)r->step)
                  : UW_OK;
}

void uw_node_gradients_close(struct uw_node_work *r)
{
    free(r->gradients.bucket_n);
    free(r->gradients.parts);
    r->gradients.bucket_n = NULL;
    r->gradients.parts = NULL;
}
