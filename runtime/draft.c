/* SPDX-License-Identifier: Apache-2.0 */
#include "flight.h"

#include "uwasa/parts.h"

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

static size_t input_bytes(const struct uw_model_config *config, const struct uw_graph *g)
{
    uint32_t n = config->batch_n;
    return uw_size_mul(uw_draft_inputs(config),
                       sum(sum(uw_draft_floats(uw_size_mul(g->in_n, n)),
                               uw_arena_padded(uw_size_mul(sizeof(uint32_t), n))),
                           uw_draft_floats(uw_size_mul(g->target_n, n))));
}

static size_t graph_bytes(const struct uw_model_config *config, const struct uw_graph *g)
{
    uint32_t buckets = uw_update_buckets(config, g->layers, g->layers_n, NULL);
    return uw_arena_padded(g->layers_n * sizeof(struct uw_layer)) +
           uw_arena_padded(g->heads_n * sizeof(struct uw_head)) +
           uw_arena_padded(g->segments_n * sizeof(struct uw_segment)) +
           uw_arena_padded(g->names_bytes) + uw_arena_padded(buckets * sizeof(struct uw_bucket));
}

uint32_t uw_draft_micro_n(const struct uw_model_config *config)
{
    return config->micro_n != 0 && config->micro_n < config->batch_n ? config->micro_n
                                                                     : config->batch_n;
}

/* A last minibatch may be of any smaller size, and kernels that cut it in another way may need more
 * for it. From SETTLED_N on blocks have the sizes that they keep: a product of 16 weights and so
 * many samples is cut as every larger one. */
#define SETTLED_N 65536u

static size_t layer_scratch_bytes(const struct uw_layer *l, const struct uw_model_config *config)
{
    uint32_t micro_n = uw_draft_micro_n(config), threads = uw_workers_threads(config->workers);
    size_t most = l->ops->scratch_bytes(l, config->kernels, micro_n, threads);
    if (uw_device(config->kernels) != NULL) {
        return most; /* its kernels make do with what there is */
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

/* What the kernels of a device work on counts by itself. */
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

/* What a budget is about. */
static size_t budgeted(const struct uw_model_config *config, const struct uw_model_need *need)
{
    return uw_device(config->kernels) != NULL ? need->kernel_bytes + need->shared_bytes
                                           : need->total_bytes;
}

/* Activations last: what the others leave of the budget is theirs. */
static int fill_activations(struct uw_draft *d, const struct uw_model_config *config,
                            uint32_t *order, struct uw_error *err)
{
    bool training = config->mode != UW_PLAN_INFERENCE;
    size_t budget = config->budget_bytes;
    size_t others = budgeted(config, &d->need);
    size_t limit = budget == 0 ? SIZE_MAX : budget > others ? budget - others : 0;

    d->need.activations_bytes =
        uw_plan_build(&d->graph, uw_draft_micro_n(config), training, limit, d->slots, order);
    for (uint32_t i = 0; i < d->graph.layers_n; i++) {
        d->need.recomputed_n += d->graph.layers[i].recomputed ? 1 : 0;
    }
    int rc = sum_need(&d->need, config->kernels, err);
    if (rc == UW_OK && budget != 0 && budgeted(config, &d->need) > budget) {
        return uw_error_set(err, uw_parts.budgeting != NULL ? UW_ERR_NOMEM : UW_ERR_UNSUPPORTED,
                            "budget of %lu bytes: the smallest plan takes %lu",
                            (unsigned long)budget, (unsigned long)budgeted(config, &d->need));
    }
    return rc;
}

static int fill_need(struct uw_draft *d, const struct uw_model_config *config, uint32_t *order,
                     struct uw_error *err)
{
    const struct uw_graph *g = &d->graph;
    bool training = config->mode != UW_PLAN_INFERENCE;
#ifndef UW_WITHOUT_DEVICES
    for (uint32_t i = 0; i < g->layers_n; i++) {
        g->layers[i].keeps_aux = training && g->layers[i].needs_gradient;
    }
#endif
    size_t parameters = uw_draft_floats(g->parameters_n);
    uint32_t window = training ? uw_update_window(config, g->layers, g->layers_n) : 0;
    uint32_t vectors = training ? uw_optimizer_vectors(&config->optimizer) : 0;

    d->need = (struct uw_model_need){
        .parameters_n = g->weights_n,
        .auxiliary_n = g->auxiliary_n,
        .trainable_n = g->trainable_n,
        .statistics_n = g->parameters_n + g->constants_n - g->weights_n,
        .constants_n = g->constants_n,
        .classes = g->heads[0].n,
        .input_n = g->in_n,
        .parameters_bytes = parameters,
        .gradients_bytes = uw_draft_floats(window),
        .optimizer_bytes = uw_size_mul(vectors, uw_draft_floats(g->trainable_n)),
        .scratch_bytes = kernel_scratch_bytes(config, g),
        .snapshot_bytes = config->snapshot ? parameters : 0,
        .input_bytes = input_bytes(config, g),
        .graph_bytes = graph_bytes(config, g),
    };
    if (training && config->mixing_velocity) {
        d->need.optimizer_bytes = sum(d->need.optimizer_bytes, parameters);
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
                            config->constants_n > 0 ? "a device cannot see constants"
                                                    : "this program knows no devices");
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
