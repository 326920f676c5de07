/* SPDX-License-Identifier: Apache-2.0 */
#include "flight.h"
#include "uwasa/hash.h"
#include "uwasa/parts.h"

#include <string.h>

int uw_model_measure(const struct uw_model_config *config, struct uw_model_need *need,
                     struct uw_error *err)
{
    struct uw_draft d = {0};
    int rc = uw_draft_model(&d, config, err);
    if (rc == UW_OK || (rc == UW_ERR_NOMEM && d.need.total_bytes != 0)) {
        *need = d.need;
    }
    return rc;
}

static uint64_t hash_u32(uint64_t hash, uint32_t value)
{
    const uint8_t le[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                           (uint8_t)(value >> 24)};
    return uw_hash64(hash, le, sizeof le);
}

static void name_segments(struct uw_model *m, struct uw_segment *segments, char *names)
{
    uint32_t offset = 0, state = 0;
    uint64_t hash = UW_HASH64_START;

    for (uint32_t i = 0; i < m->layers_n; i++) {
        struct uw_layer *l = &m->layers[i];
        if (l->constant) {
            uw_parts.constants->use(l, &m->config);
            continue;
        }
        for (uint32_t t = 0; t < l->tensors_n; t++) {
            struct uw_segment *s = &segments[l->segment + t];
            struct uw_layer_tensor tensor = {0};
            l->ops->tensor(l, t, &tensor);
            bool trained = (l->trained & 1u << t) != 0;
            size_t stem = strlen(l->def->name);
            size_t suffix = strlen(tensor.suffix);
            *s = (struct uw_segment){.name = names, .offset_n = offset,
                                     .size_n = uw_tensor_size(&tensor), .rank = tensor.rank,
                                     .statistic = tensor.statistic,
                                     .variance = tensor.variance,
                                     .state_n = trained ? state : UINT32_MAX};
            memcpy(s->dim, tensor.dim, sizeof s->dim);
            memcpy(names, l->def->name, stem);
            names[stem] = '.';
            memcpy(names + stem + 1, tensor.suffix, suffix + 1);
            hash = uw_hash64(hash, names, stem + suffix + 2);
            for (uint32_t k = 0; k < s->rank; k++) {
                hash = hash_u32(hash, s->dim[k]);
            }
            names += stem + suffix + 2;
            l->param[t] = uw_worked_by(m).x + offset;
            offset += s->size_n;
            state += trained ? s->size_n : 0;
        }
    }
    m->params.segments = segments;
    m->params.hash = hash;
}

static void *at(uint8_t *area, const struct uw_slot *slot)
{
    return slot->bytes != 0 ? area + slot->offset : NULL;
}

static void place_activations(struct uw_model *m, const struct uw_draft *d, uint8_t *area)
{
    const struct uw_slot *slots = d->slots;

    for (uint32_t i = 0; i < m->layers_n; i++) {
        struct uw_layer *l = &m->layers[i];
        if (l->view) {
            continue;
        }
        l->y_at[0] = at(area, &slots[UW_SLOT_Y(l->y_root)]);
        l->y_at[1] = at(area, &slots[UW_SLOT_Y_AGAIN(l->y_root)]);
        l->aux_at[0] = at(area, &slots[UW_SLOT_AUX(i)]);
        l->aux_at[1] = at(area, &slots[UW_SLOT_AUX_AGAIN(i)]);
        l->dy = at(area, &slots[UW_SLOT_DY(l->dy_root)]);
    }
    m->probabilities = at(area, &slots[UW_SLOT_P(m->layers_n)]);
}

/* All blocks of the model, in one place, so that measure and bind cannot disagree. */
enum block {
    LAYERS, HEADS, SEGMENTS, NAMES, BUCKETS, PARAMETERS, GRADIENTS, STATE0, STATE1, VELOCITY,
    SNAPSHOT, ACTIVATIONS, SCRATCH, INPUT, LABEL, TARGET, BLOCKS_N
};

static void size_blocks(const struct uw_model_config *c, const struct uw_draft *d,
                        size_t bytes[BLOCKS_N])
{
    const struct uw_graph *g = &d->graph;
    const struct uw_model_need *need = &d->need;
    bool training = c->mode != UW_PLAN_INFERENCE;
    uint32_t vectors = training ? uw_optimizer_vectors(&c->optimizer) : 0;
    uint32_t inputs = uw_draft_inputs(c);

    bytes[LAYERS] = g->layers_n * sizeof(struct uw_layer);
    bytes[HEADS] = g->heads_n * sizeof(struct uw_head);
    bytes[SEGMENTS] = g->segments_n * sizeof(struct uw_segment);
    bytes[NAMES] = g->names_bytes;
    bytes[BUCKETS] = uw_update_buckets(c, g->layers, g->layers_n, NULL) * sizeof(struct uw_bucket);
    bytes[PARAMETERS] = need->parameters_bytes;
    bytes[GRADIENTS] = need->gradients_bytes;
    bytes[STATE0] = vectors > 0 ? uw_draft_floats(g->trainable_n) : 0;
    bytes[STATE1] = vectors > 1 ? uw_draft_floats(g->trainable_n) : 0;
    bytes[VELOCITY] = training && c->mixing_velocity ? need->parameters_bytes : 0;
    bytes[SNAPSHOT] = need->snapshot_bytes;
    bytes[ACTIVATIONS] = need->activations_bytes;
    bytes[SCRATCH] = need->scratch_bytes;
    bytes[INPUT] = inputs * uw_draft_floats(uw_size_mul(g->in_n, c->batch_n));
    bytes[LABEL] = inputs * uw_arena_padded(uw_size_mul(c->batch_n, sizeof(uint32_t)));
    bytes[TARGET] = inputs * uw_draft_floats(uw_size_mul(g->target_n, c->batch_n));
}

static const uint8_t purposes[BLOCKS_N] = {
    [LAYERS] = UW_PURPOSE_GRAPH, [HEADS] = UW_PURPOSE_GRAPH, [SEGMENTS] = UW_PURPOSE_GRAPH,
    [NAMES] = UW_PURPOSE_GRAPH, [BUCKETS] = UW_PURPOSE_GRAPH,
    [PARAMETERS] = UW_PURPOSE_PARAMETERS,
    [GRADIENTS] = UW_PURPOSE_GRADIENTS, [STATE0] = UW_PURPOSE_OPTIMIZER,
    [STATE1] = UW_PURPOSE_OPTIMIZER, [VELOCITY] = UW_PURPOSE_OPTIMIZER,
    [SNAPSHOT] = UW_PURPOSE_SNAPSHOT, [ACTIVATIONS] = UW_PURPOSE_ACTIVATIONS,
    [SCRATCH] = UW_PURPOSE_SCRATCH, [INPUT] = UW_PURPOSE_INPUT, [LABEL] = UW_PURPOSE_INPUT,
    [TARGET] = UW_PURPOSE_INPUT};

/* The arena that a block comes from. */
static struct uw_arena *arena_of(const struct uw_model_config *c, enum block block,
                                 struct uw_arena *arena)
{
    if (uw_device(c->kernels) != NULL) {
        bool parameters = purposes[block] == UW_PURPOSE_PARAMETERS ||
                          purposes[block] == UW_PURPOSE_OPTIMIZER;
        bool processors = purposes[block] == UW_PURPOSE_GRAPH ||
                          purposes[block] == UW_PURPOSE_SNAPSHOT;
        return processors                                       ? arena
               : parameters && uw_device(c->kernels)->shares_parameters ? c->shared_arena
                                                                 : c->kernel_arena;
    }
    return c->regions != NULL ? c->regions->region[c->regions->of[purposes[block]]].arena : arena;
}

static int take_blocks(struct uw_model *m, const struct uw_draft *d, struct uw_arena *arena,
                       struct uw_error *err)
{
    const struct uw_graph *g = &d->graph;
    size_t bytes[BLOCKS_N];
    void *block[BLOCKS_N];

    size_blocks(&m->config, d, bytes);
    for (size_t i = 0; i < BLOCKS_N; i++) {
        struct uw_arena *from = arena_of(&m->config, (enum block)i, arena);
        if (from == NULL || from->base == NULL) {
            return uw_error_set(err, UW_ERR_NOMEM, "the arena has no memory");
        }
        int rc = uw_arena_take(from, bytes[i], &block[i]);
        if (rc < 0) {
            return uw_error_set(err, rc, "the %s: %lu bytes more, the arena has %lu left; the "
                                "model needs %lu in all",
                                uw_purpose_name((enum uw_purpose)purposes[i]),
                                (unsigned long)bytes[i],
                                (unsigned long)(from->capacity_bytes - from->used_bytes),
                                (unsigned long)d->need.total_bytes);
        }
        block[i] = bytes[i] != 0 ? block[i] : NULL;
        if (uw_device_of(m) != NULL && from->foreign && bytes[i] != 0) {
            rc = uw_device_of(m)->zero(&m->exec, block[i], bytes[i]);
            /* The next block may be one that both see, and then the device has to rest. */
            rc = rc < 0 ? rc : uw_device_of(m)->wait(&m->exec);
            if (rc < 0) {
                return uw_error_set(err, rc, "the device failed while memory was cleared");
            }
        }
    }
    memcpy(block[LAYERS], g->layers, bytes[LAYERS]);
    memcpy(block[HEADS], g->heads, bytes[HEADS]);
    m->layers = block[LAYERS];
    m->heads = block[HEADS];
    m->params.x = block[PARAMETERS];
    m->gradients = block[GRADIENTS];
    m->gradients_n = bytes[GRADIENTS] != 0 ? uw_update_window(&m->config, g->layers, g->layers_n)
                                           : 0;
    m->state[0] = block[STATE0];
    m->state[1] = block[STATE1];
    m->velocity = block[VELOCITY];
#ifndef UW_WITHOUT_DEVICES
    m->worked = (struct uw_worked){.x = m->params.x, .velocity = m->velocity,
                                   .state = {m->state[0], m->state[1]}};
#endif
    m->snapshot.data = block[SNAPSHOT];
    m->exec.scratch = block[SCRATCH];
    m->input = block[INPUT];
    m->label = block[LABEL];
    m->target = block[TARGET];
    m->buckets = block[BUCKETS];
    m->buckets_n = uw_update_buckets(&m->config, m->layers, m->layers_n, m->buckets);
    name_segments(m, block[SEGMENTS], block[NAMES]);
    place_activations(m, d, block[ACTIVATIONS]);
    return uw_device_of(m) != NULL ? uw_parts.on_device->bind(m, d, arena, err) : UW_OK;
}

int uw_model_bind(struct uw_model *m, const struct uw_model_config *config,
                  struct uw_arena *arena, struct uw_error *err)
{
    struct uw_draft d = {0};
    int rc = uw_draft_model(&d, config, err);
    if (rc < 0) {
        return rc;
    }
    *m = (struct uw_model){
        .config = *config,
        .params = {.size_n = d.graph.parameters_n, .segments_n = d.graph.segments_n},
        .snapshot = {.size_n = d.graph.parameters_n, .busy = ATOMIC_FLAG_INIT},
        .exec = {.kernels = config->kernels,
                 .workers = config->workers,
                 .scratch_bytes = d.need.scratch_bytes},
        .optimizer = config->optimizer,
        .layers_n = d.graph.layers_n,
        .heads_n = d.graph.heads_n,
        .classes = d.graph.heads[0].n,
        .input_n = d.graph.in_n,
        .target_n = d.graph.target_n,
        .trainable_n = d.graph.trainable_n,
    };
    m->config.micro_n = uw_draft_micro_n(config);
    m->config.workspace = NULL;
    m->config.workspace_bytes = 0;
    rc = take_blocks(m, &d, arena, err);
    m->config.regions = NULL;
    return rc;
}

int uw_model_open(struct uw_model *m, const struct uw_model_config *config, void *memory,
                  size_t bytes, uint64_t seed, struct uw_error *err)
{
    struct uw_model_config mine = *config;
    struct uw_arena arena;
    if (mine.workspace == NULL && mine.def != NULL) {
        size_t wanted = UW_MODEL_WORKSPACE_BYTES(mine.def->layers_n);
        mine.workspace_bytes = wanted < bytes ? wanted : bytes;
        bytes -= mine.workspace_bytes;
        mine.workspace = (uint8_t *)memory + bytes;
    }
    uw_arena_init(&arena, memory, bytes);
    int rc = uw_model_bind(m, &mine, &arena, err);
    if (rc == UW_OK) {
        uw_model_init_weights(m, seed);
    }
    return rc;
}

uint32_t uw_model_shape(const struct uw_model *m, uint32_t layer, uint32_t dim[3])
{
    const struct uw_model_def *d = m->config.def;
    struct uw_shape s = {d->in_channels, d->in_h != 0 ? d->in_h : 1, d->in_w != 0 ? d->in_w : 1,
                         d->in_h != 0 ? 3 : d->in_w != 0 ? 2 : 1};
    if (layer != UINT32_MAX) {
        s = m->layers[layer].out;
    }
    dim[0] = s.c;
    dim[1] = s.rank == 2 ? s.w : s.h;
    dim[2] = s.rank == 2 ? 1 : s.w;
    return s.rank;
}
