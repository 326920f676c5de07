/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/model.h"

#include "graph.h"
#include "uwasa/fmath.h"
#include "uwasa/hash.h"

#include <string.h>

/* What measure and bind work out in the workspace. */
struct draft {
    struct uw_graph graph;
    struct uw_slot *slots;
    struct uw_model_need need;
};

_Static_assert(sizeof(struct uw_layer) + 3 * (sizeof(struct uw_slot) + sizeof(uint32_t)) <= 512,
               "UW_MODEL_WORKSPACE_BYTES is too small for a layer");

static size_t floats(size_t n)
{
    return uw_arena_padded(uw_size_mul(n, sizeof(float)));
}

static size_t graph_bytes(const struct uw_graph *g)
{
    return uw_arena_padded(g->layers_n * sizeof(struct uw_layer)) +
           uw_arena_padded(g->segments_n * sizeof(struct uw_segment)) +
           uw_arena_padded(g->names_bytes);
}

static size_t kernel_scratch_bytes(const struct uw_model_config *config, const struct uw_graph *g)
{
    size_t most = 0;
    for (uint32_t i = 0; i < g->layers_n; i++) {
        const struct uw_layer *l = &g->layers[i];
        if (l->ops->scratch_bytes == NULL) {
            continue;
        }
        size_t bytes = l->ops->scratch_bytes(l, config->kernels, config->batch_n,
                                             uw_workers_threads(config->workers));
        most = bytes > most ? bytes : most;
    }
    return uw_arena_padded(most);
}

static int sum_need(struct uw_model_need *need, struct uw_error *err)
{
    const size_t parts[] = {need->parameters_bytes, need->gradients_bytes, need->optimizer_bytes,
                            need->activations_bytes, need->scratch_bytes, need->snapshot_bytes,
                            need->input_bytes, need->graph_bytes};
    size_t sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i] > SIZE_MAX / 2 || sum > SIZE_MAX / 2 - parts[i]) {
            return uw_error_set(err, UW_ERR_TOOBIG,
                                "the model needs more memory than this machine can address");
        }
        sum += parts[i];
    }
    need->total_bytes = sum;
    return UW_OK;
}

static int fill_need(struct draft *d, const struct uw_model_config *config, uint32_t *order,
                     struct uw_error *err)
{
    const struct uw_graph *g = &d->graph;
    bool training = config->mode != UW_PLAN_INFERENCE;
    size_t parameters = floats(g->parameters_n);

    d->need = (struct uw_model_need){
        .parameters_n = g->parameters_n,
        .parameters_bytes = parameters,
        .gradients_bytes = config->mode == UW_PLAN_FULL ? parameters : 0,
        .optimizer_bytes = training && config->momentum ? parameters : 0,
        .activations_bytes = uw_plan_build(g, config->batch_n, training, d->slots, order),
        .scratch_bytes = kernel_scratch_bytes(config, g),
        .snapshot_bytes = config->snapshot ? parameters : 0,
        .graph_bytes = graph_bytes(g),
    };
    if (config->input) {
        d->need.input_bytes = floats(uw_size_mul(g->in_n, config->batch_n)) +
                              uw_arena_padded(uw_size_mul(sizeof(uint32_t), config->batch_n));
    }
    return sum_need(&d->need, err);
}

static int draft_model(struct draft *d, const struct uw_model_config *config,
                       struct uw_error *err)
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
    uint32_t n = config->def != NULL ? config->def->layers_n : 0;
    if (config->workspace == NULL || config->workspace_bytes < UW_MODEL_WORKSPACE_BYTES(n)) {
        return uw_error_set(err, UW_ERR_NOMEM,
                            "the planning workspace has %lu bytes, %u layers need %lu",
                            (unsigned long)config->workspace_bytes, (unsigned)n,
                            (unsigned long)UW_MODEL_WORKSPACE_BYTES(n));
    }
    uw_arena_init(&work, config->workspace, config->workspace_bytes);
    int rc = uw_arena_take(&work, n * sizeof(struct uw_layer), &layers);
    if (rc == UW_OK) {
        rc = uw_arena_take(&work, UW_SLOTS_N(n) * sizeof(struct uw_slot), &slots);
    }
    if (rc == UW_OK) {
        rc = uw_arena_take(&work, UW_SLOTS_N(n) * sizeof(uint32_t), &order);
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "the planning workspace is too small");
    }
    rc = uw_graph_build(&d->graph, config->def, layers, err);
    if (rc < 0) {
        return rc;
    }
    d->slots = slots;
    return fill_need(d, config, order, err);
}

int uw_model_measure(const struct uw_model_config *config, struct uw_model_need *need,
                     struct uw_error *err)
{
    struct draft d = {0};
    int rc = draft_model(&d, config, err);
    if (rc == UW_OK) {
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
    uint32_t offset = 0;
    uint64_t hash = UW_HASH64_START;

    for (uint32_t i = 0; i < m->layers_n; i++) {
        struct uw_layer *l = &m->layers[i];
        for (uint32_t t = 0; t < l->tensors_n; t++) {
            struct uw_segment *s = &segments[l->segment + t];
            size_t stem = strlen(l->def->name);
            size_t suffix = strlen(l->tensor[t].suffix);
            *s = (struct uw_segment){.name = names, .offset_n = offset,
                                     .size_n = l->tensor[t].size_n, .rank = l->tensor[t].rank};
            memcpy(s->dim, l->tensor[t].dim, sizeof s->dim);
            memcpy(names, l->def->name, stem);
            names[stem] = '.';
            memcpy(names + stem + 1, l->tensor[t].suffix, suffix + 1);
            hash = uw_hash64(hash, names, stem + suffix + 2);
            for (uint32_t k = 0; k < s->rank; k++) {
                hash = hash_u32(hash, s->dim[k]);
            }
            names += stem + suffix + 2;
            l->param[t] = m->params.x + offset;
            offset += s->size_n;
        }
    }
    m->params.segments = segments;
    m->params.hash = hash;
}

static void place_activations(struct uw_model *m, const struct draft *d, uint8_t *area)
{
    const struct uw_graph *g = &d->graph;
    bool training = m->config.mode != UW_PLAN_INFERENCE;

    for (uint32_t i = 0; i < m->layers_n; i++) {
        struct uw_layer *l = &m->layers[i];
        if (l->ops->view) {
            continue;
        }
        l->y = (float *)(void *)(area + d->slots[UW_SLOT_Y(g, l->y_root)].offset);
        if (!training || !l->needs_gradient) {
            continue;
        }
        l->dy = (float *)(void *)(area + d->slots[UW_SLOT_DY(g, l->dy_root)].offset);
        if (l->aux_sample_bytes > 0) {
            l->aux = area + d->slots[UW_SLOT_AUX(g, i)].offset;
        }
    }
    m->probabilities = (float *)(void *)(area + d->slots[UW_SLOT_P(g)].offset);
}

/* All blocks of the model, in one place, so that measure and bind cannot disagree. */
static int take_blocks(struct uw_model *m, const struct draft *d, struct uw_arena *arena)
{
    const struct uw_model_need *need = &d->need;
    const struct uw_graph *g = &d->graph;
    void *layers = NULL, *segments = NULL, *names = NULL, *activations = NULL;
    void *x = NULL, *gradients = NULL, *velocity = NULL, *snapshot = NULL, *scratch = NULL;
    void *input = NULL, *label = NULL;
    const struct {
        size_t bytes;
        void **out;
    } blocks[] = {
        {g->layers_n * sizeof(struct uw_layer), &layers},
        {g->segments_n * sizeof(struct uw_segment), &segments},
        {g->names_bytes, &names},
        {need->parameters_bytes, &x},
        {need->gradients_bytes, &gradients},
        {need->optimizer_bytes, &velocity},
        {need->snapshot_bytes, &snapshot},
        {need->activations_bytes, &activations},
        {need->scratch_bytes, &scratch},
        {m->config.input ? floats(uw_size_mul(g->in_n, m->config.batch_n)) : 0, &input},
        {m->config.input ? m->config.batch_n * sizeof(uint32_t) : 0, &label},
    };

    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        int rc = uw_arena_take(arena, blocks[i].bytes, blocks[i].out);
        if (rc < 0) {
            return rc;
        }
    }
    memcpy(layers, g->layers, g->layers_n * sizeof(struct uw_layer));
    m->layers = layers;
    m->params.x = x;
    m->gradients = need->gradients_bytes != 0 ? gradients : NULL;
    m->velocity = need->optimizer_bytes != 0 ? velocity : NULL;
    m->snapshot.data = need->snapshot_bytes != 0 ? snapshot : NULL;
    m->exec.scratch = scratch;
    m->input = m->config.input ? input : NULL;
    m->label = m->config.input ? label : NULL;
    name_segments(m, segments, names);
    place_activations(m, d, activations);
    return UW_OK;
}

int uw_model_bind(struct uw_model *m, const struct uw_model_config *config,
                  struct uw_arena *arena, struct uw_error *err)
{
    struct draft d = {0};
    int rc = draft_model(&d, config, err);
    if (rc < 0) {
        return rc;
    }
    if (arena->base == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "the arena has no memory");
    }
    *m = (struct uw_model){
        .config = *config,
        .params = {.size_n = d.graph.parameters_n, .segments_n = d.graph.segments_n},
        .snapshot = {.size_n = d.graph.parameters_n, .busy = ATOMIC_FLAG_INIT},
        .exec = {.kernels = config->kernels,
                 .workers = config->workers,
                 .scratch_bytes = d.need.scratch_bytes},
        .layers_n = d.graph.layers_n,
        .classes = d.graph.classes,
        .input_n = d.graph.in_n,
    };
    m->config.workspace = NULL;
    m->config.workspace_bytes = 0;
    rc = take_blocks(m, &d, arena);
    if (rc < 0) {
        return uw_error_set(err, rc, "the model needs %lu bytes, the arena has %lu left",
                            (unsigned long)d.need.total_bytes,
                            (unsigned long)(arena->capacity_bytes - arena->used_bytes));
    }
    return UW_OK;
}

/* Does the layer's output reach a ReLU before any other layer with weights? */
static bool feeds_relu(const struct uw_model *m, uint32_t value)
{
    for (uint32_t i = value; i < m->layers_n; i++) {
        const struct uw_layer *l = &m->layers[i];
        bool reads = false;
        for (uint32_t k = 0; k < l->inputs_n; k++) {
            reads = reads || l->input[k] == value;
        }
        if (!reads || l->tensors_n > 0) {
            continue;
        }
        if (l->def->kind == UW_LAYER_RELU || feeds_relu(m, i + 1)) {
            return true;
        }
    }
    return false;
}

void uw_model_init_weights(struct uw_model *m, uint64_t seed)
{
    memset(m->params.x, 0, (size_t)m->params.size_n * sizeof(float));
    for (uint32_t i = 0; i < m->layers_n; i++) {
        const struct uw_layer *l = &m->layers[i];
        if (l->tensors_n == 0) {
            continue;
        }
        struct uw_rng rng;
        uw_rng_seed(&rng, uw_rng_mix(seed, l->segment));
        float variance = feeds_relu(m, i + 1) ? 2.0f / (float)l->fan_in
                                              : 2.0f / ((float)l->fan_in + (float)l->fan_out);
        float deviation = uw_sqrtf(variance);
        for (uint32_t k = 0; k < l->tensor[0].size_n; k++) {
            l->param[0][k] = deviation * uw_rng_normal(&rng);
        }
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
