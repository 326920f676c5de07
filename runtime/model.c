/* SPDX-License-Identifier: Apache-2.0 */
#include "flight.h"

#include "uwasa/fmath.h"
#include "uwasa/hash.h"
#include "uwasa/parts.h"

#include <string.h>

/* ---- measure ---- */

_Static_assert(sizeof(struct uw_layer) + 5 * (sizeof(struct uw_slot) + 2 * sizeof(uint32_t)) <= 640,
               "UW_MODEL_WORKSPACE_BYTES is too small for a layer");

size_t uw_draft_floats(size_t n)
{
    return uw_arena_padded(uw_size_mul(n, sizeof(float)));
}

static size_t sum(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

/* All blocks of the model. measure and bind share this list, so they cannot disagree. */
enum block {
    LAYERS, HEADS, SEGMENTS, NAMES, BUCKETS, PARAMETERS, GRADIENTS, STATE0, STATE1, VELOCITY,
    SNAPSHOT, ACTIVATIONS, SCRATCH, INPUT, LABEL, TARGET, BLOCKS_N
};

static const uint8_t purposes[BLOCKS_N] = {
    [LAYERS] = UW_PURPOSE_GRAPH, [HEADS] = UW_PURPOSE_GRAPH, [SEGMENTS] = UW_PURPOSE_GRAPH,
    [NAMES] = UW_PURPOSE_GRAPH, [BUCKETS] = UW_PURPOSE_GRAPH,
    [PARAMETERS] = UW_PURPOSE_PARAMETERS,
    [GRADIENTS] = UW_PURPOSE_GRADIENTS, [STATE0] = UW_PURPOSE_OPTIMIZER,
    [STATE1] = UW_PURPOSE_OPTIMIZER, [VELOCITY] = UW_PURPOSE_OPTIMIZER,
    [SNAPSHOT] = UW_PURPOSE_SNAPSHOT, [ACTIVATIONS] = UW_PURPOSE_ACTIVATIONS,
    [SCRATCH] = UW_PURPOSE_SCRATCH, [INPUT] = UW_PURPOSE_INPUT, [LABEL] = UW_PURPOSE_INPUT,
    [TARGET] = UW_PURPOSE_INPUT};

static void size_blocks(const struct uw_model_config *c, const struct uw_draft *d,
                        size_t bytes[BLOCKS_N])
{
    const struct uw_graph *g = &d->graph;
    bool training = c->mode != UW_PLAN_INFERENCE;
    uint32_t vectors = training ? uw_optimizer_vectors(&c->optimizer) : 0;
    size_t parameters = uw_draft_floats(g->parameters_n);
    size_t trained = uw_draft_floats(g->trainable_n);
    /* Minibatches with room in memory of the kernels: none, one, or a device's two. */
    size_t inputs = uw_device(c->kernels) != NULL ? UW_DEVICE_STEPS_MAX : c->input ? 1 : 0;

    bytes[LAYERS] = g->layers_n * sizeof(struct uw_layer);
    bytes[HEADS] = g->heads_n * sizeof(struct uw_head);
    bytes[SEGMENTS] = g->segments_n * sizeof(struct uw_segment);
    bytes[NAMES] = g->names_bytes;
    bytes[BUCKETS] = uw_update_buckets(c, g->layers, g->layers_n, NULL) * sizeof(struct uw_bucket);
    bytes[PARAMETERS] = parameters;
    bytes[GRADIENTS] = uw_draft_floats(uw_update_window(c, g->layers, g->layers_n));
    bytes[STATE0] = vectors > 0 ? trained : 0;
    bytes[STATE1] = vectors > 1 ? trained : 0;
    bytes[VELOCITY] = training && c->mixing_velocity ? parameters : 0;
    bytes[SNAPSHOT] = c->snapshot ? parameters : 0;
    bytes[ACTIVATIONS] = d->need.activations_bytes;
    bytes[SCRATCH] = d->need.scratch_bytes;
    bytes[INPUT] = uw_size_mul(inputs, uw_draft_floats(uw_size_mul(g->in_n, c->batch_n)));
    bytes[LABEL] = uw_size_mul(inputs, uw_arena_padded(uw_size_mul(c->batch_n, sizeof(uint32_t))));
    bytes[TARGET] = uw_size_mul(inputs, uw_draft_floats(uw_size_mul(g->target_n, c->batch_n)));
}

/* The last minibatch of an epoch may have any smaller size. Kernels may divide it into other blocks
 * and then need more scratch, so all sizes are tried. From SETTLED_N samples on the division no
 * longer changes, even for a product of 16 weights. */
#define SETTLED_N 65536u

static size_t layer_scratch_bytes(const struct uw_layer *l, const struct uw_model_config *config)
{
    uint32_t micro_n = uw_draft_micro_n(config), threads = uw_workers_threads(config->workers);
    size_t most = l->ops->scratch_bytes(l, config->kernels, micro_n, threads);
    if (uw_device(config->kernels) != NULL) {
        return most; /* kernels of a device adapt to the scratch that they get */
    }
    for (uint32_t n = 1; n < micro_n && n <= SETTLED_N; n++) {
        size_t bytes = l->ops->scratch_bytes(l, config->kernels, n, threads);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static size_t kernel_scratch_bytes(const struct uw_model_config *config, const struct uw_graph *g)
{
    size_t most = 0;
    for (uint32_t i = 0; i < g->layers_n; i++) {
        const struct uw_layer *l = &g->layers[i];
        if (l->ops->scratch_bytes != NULL) {
            size_t bytes = layer_scratch_bytes(l, config);
            most = bytes > most ? bytes : most;
        }
    }
    return uw_arena_padded(most);
}

/* Add up the bytes; memory of a device's kernels is counted apart. */
static int sum_need(struct uw_model_need *need, const struct uw_kernels *k, struct uw_error *err)
{
    size_t total = 0;
    for (uint32_t p = 0; p < UW_PURPOSES_N; p++) {
        total = sum(total, uw_model_need_of(need, (enum uw_purpose)p));
    }
    total = sum(total, need->image_bytes);
    if (total > SIZE_MAX / 2) {
        return uw_error_set(err, UW_ERR_TOOBIG,
                            "the model needs more memory than this machine can address");
    }
    need->total_bytes = total;
    if (uw_device(k) != NULL) {
        need->total_bytes = need->graph_bytes + need->snapshot_bytes + need->image_bytes;
        need->shared_bytes =
            k->device->shares_parameters ? need->parameters_bytes + need->optimizer_bytes : 0;
        need->kernel_bytes = total - need->total_bytes - need->shared_bytes;
    }
    return UW_OK;
}

/* The bytes that a budget limits. */
static size_t budgeted_bytes(const struct uw_model_config *config, const struct uw_model_need *need)
{
    return uw_device(config->kernels) != NULL ? need->kernel_bytes + need->shared_bytes
                                           : need->total_bytes;
}

/* Activations come last: they get what the others leave of the budget. */
static int fill_activations(struct uw_draft *d, const struct uw_model_config *config,
                            uint32_t *order, struct uw_error *err)
{
    bool training = config->mode != UW_PLAN_INFERENCE;
    size_t budget = config->budget_bytes;
    size_t others = budgeted_bytes(config, &d->need);
    size_t limit = budget == 0 ? SIZE_MAX : budget > others ? budget - others : 0;

    d->need.activations_bytes =
        uw_plan_build(&d->graph, uw_draft_micro_n(config), training, limit, d->slots, order);
    for (uint32_t i = 0; i < d->graph.layers_n; i++) {
        d->need.recomputed_n += d->graph.layers[i].recomputed ? 1 : 0;
    }
    int rc = sum_need(&d->need, config->kernels, err);
    if (rc == UW_OK && budget != 0 && budgeted_bytes(config, &d->need) > budget) {
        return uw_error_set(err, uw_parts.budgeting != NULL ? UW_ERR_NOMEM : UW_ERR_UNSUPPORTED,
                            "budget of %lu bytes: the smallest plan takes %lu",
                            (unsigned long)budget, (unsigned long)budgeted_bytes(config, &d->need));
    }
    return rc;
}

static int fill_need(struct uw_draft *d, const struct uw_model_config *config, uint32_t *order,
                     struct uw_error *err)
{
    const struct uw_graph *g = &d->graph;
    size_t bytes[BLOCKS_N];
#ifndef UW_WITHOUT_DEVICES
    for (uint32_t i = 0; i < g->layers_n; i++) {
        g->layers[i].keeps_aux =
            config->mode != UW_PLAN_INFERENCE && g->layers[i].needs_gradient;
    }
#endif
    d->need = (struct uw_model_need){
        .parameters_n = g->weights_n,
        .auxiliary_n = g->auxiliary_n,
        .trainable_n = g->trainable_n,
        .statistics_n = g->parameters_n + g->constants_n - g->weights_n,
        .constants_n = g->constants_n,
        .classes = g->heads[0].n,
        .input_n = g->in_n,
        .target_n = g->target_n,
    };
    size_blocks(config, d, bytes);
    bytes[SCRATCH] = kernel_scratch_bytes(config, g);
    for (size_t i = 0; i < BLOCKS_N; i++) {
        size_t *of = uw_purpose_bytes(&d->need, (enum uw_purpose)purposes[i]);
        *of = sum(*of, uw_arena_padded(bytes[i]));
    }
    if (uw_device(config->kernels) != NULL) {
        d->need.image_bytes = uw_parts.on_device->image_bytes(config, g, &d->need);
    }
    int rc = sum_need(&d->need, config->kernels, err);
    return rc < 0 ? rc : fill_activations(d, config, order, err);
}

static int check_config(const struct uw_model_config *config, const struct uw_graph *g,
                        struct uw_error *err)
{
    const struct uw_optimizer *o = &config->optimizer;
    bool training = config->mode != UW_PLAN_INFERENCE;
    bool micro = uw_draft_micro_n(config) < config->batch_n;

    if (training && o->frozen && o->momentum != 0.0f && !config->mixing_velocity) {
        return uw_error_set(err, UW_ERR_INVALID, "a frozen velocity needs mixing_velocity");
    }
    if (!config->late_updates && !uw_update_gathers(config) &&
        !(training && (micro || o->clip_global != 0.0f))) {
        return UW_OK;
    }
    return uw_parts.gathering != NULL
               ? uw_parts.gathering->check(config, g, err)
               : uw_error_set(err, UW_ERR_UNSUPPORTED,
                              "this program trains in plan mode immediate, with plain SGD");
}

int uw_draft_model(struct uw_draft *d, const struct uw_model_config *config, struct uw_error *err)
{
    struct uw_arena work;
    void *layers;
    void *slots;
    void *order;

    if (config->kernels == NULL || config->batch_n == 0) {
        return uw_error_set(err, UW_ERR_INVALID, config->batch_n == 0
                                                     ? "batch 0: needs 1 or more"
                                                     : "no kernel table was chosen");
    }
    if (uw_device(config->kernels) != NULL &&
        (uw_parts.on_device == NULL || config->constants_n > 0)) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            config->constants_n > 0 ? "a device cannot read constants"
                                                    : "this program is linked without devices");
    }
    uint32_t n = config->def != NULL ? config->def->layers_n : 0;
    if (config->workspace == NULL || config->workspace_bytes < UW_MODEL_WORKSPACE_BYTES(n)) {
        return uw_error_set(err, UW_ERR_NOMEM,
                            "the planning workspace has %lu bytes, %u layers need %lu",
                            (unsigned long)config->workspace_bytes, (unsigned)n,
                            (unsigned long)UW_MODEL_WORKSPACE_BYTES(n));
    }
    /* The workspace is large enough for all three: see the assertion above. */
    uw_arena_init(&work, config->workspace, config->workspace_bytes);
    int rc = uw_arena_take(&work, n * sizeof(struct uw_layer), &layers);
    rc = rc < 0 ? rc : uw_arena_take(&work, UW_SLOTS_N(n) * sizeof(struct uw_slot), &slots);
    rc = rc < 0 ? rc : uw_arena_take(&work, 2 * UW_SLOTS_N(n) * sizeof(uint32_t), &order);
    rc = rc < 0 ? rc : uw_graph_build(&d->graph, config, layers, err);
    rc = rc < 0 ? rc : uw_graph_parameters(&d->graph, config, err);
    rc = rc < 0 ? rc : check_config(config, &d->graph, err);
    if (rc < 0) {
        return rc;
    }
    if (config->mode != UW_PLAN_INFERENCE && uw_parts.fusing != NULL) {
        uw_parts.fusing->defer(&d->graph, config->kernels, uw_draft_micro_n(config));
    }
    d->slots = slots;
    return fill_need(d, config, order, err);
}

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

/* ---- bind ---- */

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
            const struct uw_layer_tensor tensor = l->ops->tensor(l, t);
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
            names[stem] = suffix != 0 ? '.' : '\0';
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
            /* The processor may write to the next block, if shared: the device must be idle. */
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
    m->gradients_n = uw_update_window(&m->config, g->layers, g->layers_n);
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

/* ---- initial values ---- */

static void fill_normal(float *w, uint32_t n, float mean, float deviation, struct uw_rng *rng)
{
    for (uint32_t i = 0; i < n; i++) {
        w[i] = mean + deviation * uw_rng_normal(rng);
    }
}

static void init_tensor(const struct uw_layer *l, uint32_t t, struct uw_rng *rng, float *w)
{
    const struct uw_layer_tensor tensor = l->ops->tensor(l, t);
    uint32_t n = uw_tensor_size(&tensor);
    float fan_in = (float)tensor.fan_in;
    switch (tensor.init) {
    case UW_INIT_WEIGHT:
        fill_normal(w, n, 0.0f,
                    uw_sqrtf(l->feeds_relu ? 2.0f / fan_in
                                           : 2.0f / (fan_in + (float)tensor.fan_out)), rng);
        break;
    case UW_INIT_NORMAL:
        fill_normal(w, n, tensor.value, tensor.deviation, rng);
        break;
    case UW_INIT_UNIFORM:
        for (uint32_t i = 0; i < n; i++) {
            w[i] = (2.0f * uw_rng_uniform(rng) - 1.0f) / uw_sqrtf(fan_in);
        }
        break;
    case UW_INIT_ZERO:
    case UW_INIT_ONE:
        for (uint32_t i = 0; i < n; i++) {
            w[i] = tensor.init == UW_INIT_ONE ? 1.0f : 0.0f;
        }
        break;
    }
}

/* The processor's copy of a tensor. */
static float *image_of(const struct uw_model *m, const struct uw_layer *l, uint32_t t)
{
    return uw_device(m->config.kernels) == NULL
               ? l->param[t]
               : m->params.x + m->params.segments[l->segment + t].offset_n;
}

void uw_model_init_weights(struct uw_model *m, uint64_t seed)
{
    uint32_t tensors = 0;
    m->seed = seed;
    for (uint32_t i = 0; i < m->buckets_n; i++) {
        m->buckets[i].pending = false;
    }
    for (uint32_t i = 0; i < m->layers_n; i++) {
        const struct uw_layer *l = &m->layers[i];
        struct uw_rng rng;
        uw_rng_seed(&rng, uw_rng_mix(seed, tensors));
        tensors += l->tensors_n;
        for (uint32_t t = 0; t < l->tensors_n && !l->constant; t++) {
            init_tensor(l, t, &rng, image_of(m, l, t));
        }
        if (m->config.constants_n != 0 && !l->constant) {
            uw_parts.constants->copy(l, &m->config);
        }
    }
    if (uw_device(m->config.kernels) != NULL) {
        (void)uw_model_push(m); /* a failure is reported by the first step */
    }
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

uint32_t uw_model_shape(const struct uw_model *m, uint32_t layer, uint32_t dim[UW_AXES_MAX])
{
    struct uw_shape s = layer == UINT32_MAX ? uw_graph_input(m->config.def) : m->layers[layer].out;
    uw_axes_of(&s, dim);
    return s.rank;
}

uint32_t uw_model_positions(const struct uw_model *m)
{
    const struct uw_loss_def *d = m->heads[0].def;
    bool each = d->kind == UW_LOSS_CROSS_ENTROPY && d->target == UW_TARGET_VALUES;
    return each ? uw_head_values(m->layers, &m->heads[0]) : 1;
}
