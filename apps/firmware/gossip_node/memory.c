/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip_node.h"

#include "board_models.h"

#include "uwasa/mix.h"

#include <string.h>

static const struct uw_mix_rule *rule_of(const struct uw_firmware *f)
{
    return strcmp(f->settings.rule, "qg") == 0 ? &uw_mix_qg : &uw_mix_none;
}

static const struct uw_model_def *def_of(const struct uw_firmware *f)
{
    return strcmp(f->settings.model, "lenet5") == 0 ? &lenet5_def : &mlp_def;
}

void uw_firmware_open_memory(struct uw_firmware *f)
{
    for (uint32_t i = 0; i < UW_MACHINE_REGIONS_MAX; i++) {
        const struct uw_machine_region *r = &uw_machine.region[i];
        if (r->start != NULL) {
            uw_arena_init(&f->arena[i], r->start, (size_t)(r->end - r->start));
            f->regions.region[i] = (struct uw_region){.name = r->name, .arena = &f->arena[i]};
            f->regions.n = i + 1u;
        }
    }
}

/* The plan needs a working area once; the end of the largest region is free until then. */
static void workspace(struct uw_firmware *f, struct uw_model_config *c)
{
    struct uw_arena *largest = &f->arena[0];
    for (uint32_t i = 1; i < f->regions.n; i++) {
        largest = f->arena[i].capacity_bytes > largest->capacity_bytes ? &f->arena[i] : largest;
    }
    c->workspace_bytes = UW_MODEL_WORKSPACE_BYTES(c->def->layers_n);
    c->workspace = largest->base + (largest->capacity_bytes - c->workspace_bytes) /
                                       UW_ARENA_ALIGN * UW_ARENA_ALIGN;
}

static void between(void *arg)
{
    uw_firmware_poll(arg);
}

int uw_firmware_open_model(struct uw_firmware *f)
{
    const struct uw_mix_rule *rule = rule_of(f);
    struct uw_model_config config = {
        .def = def_of(f), .kernels = &board_models_kernels, .batch_n = f->settings.batch,
        .mode = UW_PLAN_IMMEDIATE,
        .optimizer = {.lr = f->settings.lr, .momentum = rule->frozen ? 0.9f : 0.0f,
                      .frozen = rule->frozen},
        .mixing_velocity = rule->velocity, .snapshot = true, .input = true};
    workspace(f, &config);
    int rc = uw_model_measure(&config, &f->need, &f->err);
    if (rc < 0) {
        return rc;
    }
    for (uint32_t i = 0; i < f->regions.n; i++) {
        size_t used = f->arena[i].used_bytes + uw_arena_slack_bytes();
        f->regions.region[i].bytes = f->arena[i].capacity_bytes - used;
    }
    rc = uw_regions_place(&f->regions, &f->need, &f->err);
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
