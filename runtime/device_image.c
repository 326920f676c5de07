/* SPDX-License-Identifier: Apache-2.0
 *
 * What the processor keeps beside a device: minibatches in flight, and where the device has memory
 * of its own an image of parameters, velocity and the optimizer's vectors. */
#include "flight.h"

#include <string.h>

#ifndef UW_WITHOUT_DEVICES

/* All blocks of the image, in one place, so that measure and bind cannot disagree. */
enum block {
    FLIGHT, LOGITS, X0, LABEL0, TARGET0, X1, LABEL1, TARGET1, PARAMETERS, STATE0, STATE1, VELOCITY,
    GRADIENTS, BLOCKS_N
};

static void size_blocks(const struct uw_model_config *c, const struct uw_graph *g,
                        const struct uw_model_need *need, size_t bytes[BLOCKS_N])
{
    bool training = c->mode != UW_PLAN_INFERENCE;
    uint32_t vectors = training ? uw_optimizer_vectors(&c->optimizer) : 0;

    memset(bytes, 0, BLOCKS_N * sizeof bytes[0]);
    bytes[FLIGHT] = sizeof(struct uw_flight);
    bytes[LOGITS] = uw_draft_floats(uw_size_mul(g->heads[0].n, uw_draft_micro_n(c)));
    bytes[X0] = bytes[X1] = uw_draft_floats(uw_size_mul(g->in_n, c->batch_n));
    bytes[LABEL0] = bytes[LABEL1] = uw_size_mul(c->batch_n, sizeof(uint32_t));
    bytes[TARGET0] = bytes[TARGET1] = uw_draft_floats(uw_size_mul(g->target_n, c->batch_n));
    bytes[GRADIENTS] = c->hand_out ? need->gradients_bytes : 0;
    if (uw_has_image(c->kernels)) {
        bytes[PARAMETERS] = need->parameters_bytes;
        bytes[STATE0] = vectors > 0 ? uw_draft_floats(g->trainable_n) : 0;
        bytes[STATE1] = vectors > 1 ? uw_draft_floats(g->trainable_n) : 0;
        bytes[VELOCITY] = training && c->mixing_velocity ? need->parameters_bytes : 0;
    }
}

size_t uw_image_bytes(const struct uw_model_config *config, const struct uw_graph *g,
                      const struct uw_model_need *need)
{
    size_t bytes[BLOCKS_N], total = 0;
    size_blocks(config, g, need, bytes);
    for (size_t i = 0; i < BLOCKS_N; i++) {
        size_t padded = uw_arena_padded(bytes[i]);
        total = padded > SIZE_MAX - total ? SIZE_MAX : total + padded;
    }
    return total;
}

/* Minibatch i of the kernels' memory, which begins at m->input and so on. */
static struct uw_input input_at(const struct uw_model *m, uint32_t i)
{
    size_t n = m->config.batch_n;
    size_t x = uw_draft_floats(n * m->input_n) / sizeof(float);
    size_t label = uw_arena_padded(n * sizeof(uint32_t)) / sizeof(uint32_t);
    size_t target = uw_draft_floats(n * m->target_n) / sizeof(float);
    return (struct uw_input){m->input + i * x, m->label + i * label,
                             m->target != NULL ? m->target + i * target : NULL};
}

void uw_image_use_slot(struct uw_model *m, uint32_t step)
{
    const struct uw_input *in = &m->flight->slot[step % UW_DEVICE_STEPS_MAX];
    m->input = in->x;
    m->label = in->label;
    m->target = in->target;
}

int uw_image_bind(struct uw_model *m, const struct uw_draft *d, struct uw_arena *arena,
                  struct uw_error *err)
{
    size_t bytes[BLOCKS_N];
    void *block[BLOCKS_N];

    size_blocks(&m->config, &d->graph, &d->need, bytes);
    for (size_t i = 0; i < BLOCKS_N; i++) {
        int rc = uw_arena_take(arena, bytes[i], &block[i]);
        if (rc < 0) {
            return uw_error_set(err, rc, "the image: %lu bytes more, the arena has %lu left",
                                (unsigned long)bytes[i],
                                (unsigned long)(arena->capacity_bytes - arena->used_bytes));
        }
        block[i] = bytes[i] != 0 ? block[i] : NULL;
    }
    m->flight = block[FLIGHT];
    *m->flight = (struct uw_flight){
        .input = {input_at(m, 0), input_at(m, 1)},
        .slot = {{block[X0], block[LABEL0], block[TARGET0]},
                 {block[X1], block[LABEL1], block[TARGET1]}},
        .logits = block[LOGITS],
        .gradients = block[GRADIENTS],
    };
    if (uw_has_image(m->config.kernels)) {
        m->params.x = block[PARAMETERS];
        m->state[0] = block[STATE0];
        m->state[1] = block[STATE1];
        m->velocity = block[VELOCITY];
    }
    uw_image_use_slot(m, 0);
    /* A recorded step's key is made of places, which those of an earlier model may have been. */
    uw_device_of(m)->forget(&m->exec);
    return UW_OK;
}

typedef int (*move_fn)(const struct uw_model *m, float *image, float *worked, size_t n);

static int move_up(const struct uw_model *m, float *image, float *worked, size_t n)
{
    return uw_device_of(m)->read(&m->exec, image, worked, n * sizeof *image);
}

static int move_down(const struct uw_model *m, float *image, float *worked, size_t n)
{
    return uw_device_of(m)->write(&m->exec, worked, image, n * sizeof *image);
}

static int move_all(const struct uw_model *m, move_fn move)
{
    int rc = UW_OK;
    if (!uw_has_image(m->config.kernels)) {
        return uw_device_of(m)->wait(&m->exec);
    }
    rc = m->params.size_n > 0 ? move(m, m->params.x, m->worked.x, m->params.size_n) : UW_OK;
    for (uint32_t v = 0; v < UW_OPTIMIZER_VECTORS_MAX && rc == UW_OK; v++) {
        rc = m->state[v] != NULL ? move(m, m->state[v], m->worked.state[v], m->trainable_n)
                                 : UW_OK;
    }
    return rc < 0 || m->velocity == NULL
               ? rc
               : move(m, m->velocity, m->worked.velocity, m->params.size_n);
}

int uw_image_pull(const struct uw_model *m)
{
    return move_all(m, move_up);
}

int uw_image_push(struct uw_model *m)
{
    return move_all(m, move_down);
}

#endif
