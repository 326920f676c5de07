/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/describe.h"

#include "graph.h"

static void fill_info(const struct uw_layer *l, struct uw_layer_info *info)
{
    *info = (struct uw_layer_info){
        .name = l->def->name,
        .kind = l->ops->name,
        .in_rank = l->in.rank,
        .out_rank = l->out.rank,
        .trained_n = uw_layer_trained_n(l),
        .multiply_adds = uw_layer_multiply_adds(l),
        .passes = 1u + l->passes_down + uw_layer_trains_weights(l),
        .view = l->view,
        .recomputed = l->recomputed,
        .auxiliary = l->auxiliary,
        .forward_step = l->index,
        .again_step = l->t_again,
        .backward_step = l->t_bw,
    };
    uw_axes_of(&l->in, info->in);
    uw_axes_of(&l->out, info->out);
    for (uint32_t t = 0; t < l->tensors_n; t++) {
        const struct uw_layer_tensor tensor = l->ops->tensor(l, t);
        info->parameters_n += tensor.statistic ? 0 : uw_tensor_size(&tensor);
    }
}

void uw_model_layer_info(const struct uw_model *m, uint32_t index, struct uw_layer_info *info)
{
    fill_info(&m->layers[index], info);
}

int uw_model_describe(const struct uw_model_config *config, const struct uw_visitor *v,
                      struct uw_error *err)
{
    struct uw_draft d = {0};
    int rc = uw_draft_model(&d, config, err);
    if (rc < 0) {
        return rc;
    }
    for (uint32_t i = 0; i < d.graph.layers_n && v->layer != NULL; i++) {
        struct uw_layer_info info;
        fill_info(&d.graph.layers[i], &info);
        v->layer(v->arg, &info);
    }
    for (uint32_t i = 0; i < UW_SLOTS_N(d.graph.layers_n) && v->block != NULL; i++) {
        const struct uw_slot *s = &d.slots[i];
        bool loss = i == UW_SLOT_P(d.graph.layers_n);
        const struct uw_block_info info = {
            .layer = loss ? d.graph.heads[0].value - 1 : i / 5,
            .kind = loss ? UW_BLOCK_LOSS : (enum uw_block_kind)(i % 5),
            .offset = s->offset, .bytes = s->bytes, .birth = s->birth, .death = s->death};
        if (s->bytes != 0) {
            v->block(v->arg, &info);
        }
    }
    return UW_OK;
}
