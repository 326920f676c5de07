/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip_node.h"

#include "board_models.h"

#include "uwasa/mix.h"

#define SEGMENTS_PER_LAYER 2u        /* weight and bias */

static const struct uw_model_def *def_of(const struct uw_firmware *f)
{
    return f->settings.model == UW_SET_MODEL_LENET5 ? &lenet5_def : &mlp_def;
}

void uw_firmware_open_memory(struct uw_firmware *f)
{
    size_t left = f->settings.ram != 0 ? f->settings.ram : SIZE_MAX;
    for (uint32_t i = 0; i < UW_MACHINE_REGIONS_MAX; i++) {
        const struct uw_machine_region *r = &uw_machine.region[i];
        size_t bytes = r->start != NULL ? (size_t)(r->end - r->start) : 0;
        bytes = bytes < left ? bytes : left;
        left -= bytes;
        if (bytes > 0) {
            uw_arena_init(&f->arena[i], r->start, bytes);
            f->regions.region[i] = (struct uw_region){.name = r->name, .arena = &f->arena[i]};
            f->regions.n = i + 1u;
        }
    }
}

/* Use the end of the largest region, free until bind, as the workspace of the plan. */
static int take_workspace(struct uw_firmware *f, struct uw_model_config *c)
{
    struct uw_arena *largest = &f->arena[0];
    for (uint32_t i = 1; i < f->regions.n; i++) {
        largest = f->arena[i].capacity_bytes > largest->capacity_bytes ? &f->arena[i] : largest;
    }
    c->workspace_bytes = UW_MODEL_WORKSPACE_BYTES(c->def->layers_n);
    if (largest->capacity_bytes - largest->used_bytes < c->workspace_bytes + UW_ARENA_ALIGN) {
        return uw_error_set(&f->err, UW_ERR_NOMEM, "no region has %u bytes to plan with",
                            (unsigned)c->workspace_bytes);
    }
    c->workspace = largest->base + (largest->capacity_bytes - c->workspace_bytes) /
                                       UW_ARENA_ALIGN * UW_ARENA_ALIGN;
    return UW_OK;
}

static void between(void *arg)
{
    uw_firmware_poll(arg);
}

/* Plan for f->rule and f->snapshot, and check that plan and node fit. */
static int place(struct uw_firmware *f, struct uw_model_config *c)
{
    c->optimizer = (struct uw_optimizer){.lr = f->settings.lr,
                                         .momentum = f->rule->frozen ? 0.9f : 0.0f,
                                         .frozen = f->rule->frozen};
    c->mixing_velocity = f->rule->velocity;
    c->snapshot = f->snapshot;
    int rc = uw_model_measure(c, &f->need, &f->err);
    if (rc < 0) {
        return rc;
    }
    int node = uw_firmware_node_bytes(f, f->need.parameters_n + f->need.statistics_n,
                                      SEGMENTS_PER_LAYER * c->def->layers_n);
    if (node < 0) {
        return node;
    }
    for (uint32_t i = 0; i < f->regions.n; i++) {
        size_t later = i == 0 ? (size_t)node : 0;   /* and the draft, while blocks are taken */
        later += i + 1u == f->regions.n ? uw_firmware_samples_bytes(f) : 0;
        later = later > c->workspace_bytes ? later : c->workspace_bytes + UW_ARENA_ALIGN;
        size_t used = f->arena[i].used_bytes + uw_arena_slack_bytes() + later;
        size_t all = f->arena[i].capacity_bytes;
        f->regions.region[i].bytes = all > used ? all - used : 0;
    }
    return uw_regions_place(&f->regions, &f->need, &f->err);
}

int uw_firmware_open_model(struct uw_firmware *f)
{
    struct uw_model_config config = {
        .def = def_of(f), .kernels = &board_models_kernels, .batch_n = f->settings.batch,
        .mode = UW_PLAN_IMMEDIATE, .input = true};
    int rc = take_workspace(f, &config);
    if (rc < 0) {
        return rc;
    }
    f->rule = f->settings.rule == UW_SET_RULE_QG ? &uw_mix_qg : &uw_mix_none;
    f->snapshot = true;
    rc = place(f, &config);
    if (rc == UW_ERR_NOMEM && f->rule->velocity) {
        uw_console_line("too little memory for rule %s: none", f->rule->name);
        f->rule = &uw_mix_none;
        rc = place(f, &config);
    }
    if (rc == UW_ERR_NOMEM) {
        uw_console_line("too little memory for a snapshot: peers get the parameters as they are");
        f->snapshot = false;
        rc = place(f, &config);
    }
    config.regions = &f->regions;
    rc = rc < 0 ? rc : uw_model_bind(&f->model, &config, NULL, &f->err);
    if (rc == UW_OK) {
        uw_model_init_weights(&f->model, f->settings.seed);
        f->model.between = between;
        f->model.between_arg = f;
    }
    return rc;
}

void uw_firmware_seal(struct uw_firmware *f)
{
    for (uint32_t i = 0; i < f->regions.n; i++) {
        uw_arena_seal(&f->arena[i]);
    }
}
