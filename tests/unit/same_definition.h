/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a model as C is the one that its file describes. */
#ifndef UWASA_TEST_SAME_DEFINITION_H
#define UWASA_TEST_SAME_DEFINITION_H

#include "test_support.h"

#include "uwasa/model.h"

#include <stddef.h>

static inline void same_text(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL) {
        assert_string_equal(a, b);
    }
}

static inline void same_layer(const struct uw_layer_def *a, const struct uw_layer_def *b)
{
    size_t options = offsetof(struct uw_layer_def, conv2d);
    assert_int_equal(a->kind, b->kind);
    assert_string_equal(a->name, b->name);
    for (uint32_t i = 0; i < UW_LAYER_INPUTS_MAX; i++) {
        same_text(a->inputs[i], b->inputs[i]);
    }
    assert_int_equal(a->frozen, b->frozen);
    if (a->kind == UW_LAYER_TAKE) {
        uint32_t n = a->take.n * (a->take.taps != 0 ? a->take.taps : 1);
        assert_int_equal(a->take.axis, b->take.axis);
        assert_int_equal(a->take.n, b->take.n);
        assert_int_equal(a->take.taps, b->take.taps);
        assert_memory_equal(a->take.index, b->take.index, n * sizeof *a->take.index);
        assert_int_equal(a->take.weight == NULL, b->take.weight == NULL);
        if (a->take.weight != NULL) {
            assert_memory_equal(a->take.weight, b->take.weight, n * sizeof *a->take.weight);
        }
        return;
    }
    assert_memory_equal((const char *)a + options, (const char *)b + options,
                        sizeof *a - options);
}

static inline void same_definition(const struct uw_model_def *a, const struct uw_model_def *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->in_channels, b->in_channels);
    assert_int_equal(a->in_h, b->in_h);
    assert_int_equal(a->in_w, b->in_w);
    assert_int_equal(a->layers_n, b->layers_n);
    for (uint32_t i = 0; i < a->layers_n; i++) {
        same_layer(&a->layers[i], &b->layers[i]);
    }
    assert_int_equal(a->losses_n, b->losses_n);
    for (uint32_t i = 0; i < a->losses_n; i++) {
        const struct uw_loss_def *x = &a->losses[i], *y = &b->losses[i];
        same_text(x->layer, y->layer);
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->target, y->target);
        assert_float_equal(x->weight, y->weight, 0.0);
        assert_float_equal(x->label_smoothing, y->label_smoothing, 0.0);
        assert_float_equal(x->delta, y->delta, 0.0);
    }
}

#endif
