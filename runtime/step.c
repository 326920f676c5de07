/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass, the loss, and a backward pass that walks the layers from the top: a layer's
 * bw_input comes before its bw_param, since the fused update of plan mode immediate changes the
 * weights that bw_input reads. */
#include "graph.h"

#include <string.h>

static const float *value_of(const struct uw_model *m, uint32_t value, const float *x)
{
    uint32_t base = uw_graph_base(m->layers, value);
    return base == UW_VALUE_INPUT ? x : m->layers[base - 1].y;
}

static int check_batch(const struct uw_model *m, uint32_t n)
{
    return n == 0 || n > m->config.batch_n ? UW_ERR_INVALID : UW_OK;
}

static int run_layer(struct uw_model *m, uint32_t i, const float *x, uint32_t n)
{
    const struct uw_layer *l = &m->layers[i];
    const float *in[UW_LAYER_INPUTS_MAX];

    if (l->ops->view) {
        return UW_OK;
    }
    for (uint32_t k = 0; k < l->inputs_n; k++) {
        in[k] = value_of(m, l->input[k], x);
    }
    return l->ops->forward(&m->exec, l, n, in, l->y);
}

int uw_model_forward(struct uw_model *m, const float *x, uint32_t n, const float **logits)
{
    int rc = check_batch(m, n);
    for (uint32_t i = 0; i < m->layers_n && rc == UW_OK; i++) {
        rc = run_layer(m, i, x, n);
    }
    if (rc == UW_OK && logits != NULL) {
        *logits = value_of(m, m->layers_n, x);
    }
    return rc;
}

/* The first layer whose output is not finite; the forward pass is run again to find it, so that
 * ordinary steps pay nothing. */
static int name_nonfinite(struct uw_model *m, const float *x, uint32_t n, struct uw_error *err)
{
    const struct uw_kernels *k = m->config.kernels;

    if (!k->all_finite(&m->exec, (size_t)n * m->input_n, x)) {
        return uw_error_set(err, UW_ERR_NONFINITE, "the input holds a NaN or an infinity");
    }
    for (uint32_t i = 0; i < m->layers_n; i++) {
        const struct uw_layer *l = &m->layers[i];
        for (uint32_t t = 0; t < l->tensors_n; t++) {
            if (!k->all_finite(&m->exec, l->tensor[t].size_n, l->param[t])) {
                return uw_error_set(err, UW_ERR_NONFINITE,
                                    "layer '%s': its %s holds a NaN or an infinity", l->def->name,
                                    l->tensor[t].suffix);
            }
        }
        int rc = run_layer(m, i, x, n);
        if (rc < 0) {
            return rc;
        }
        if (!l->ops->view && !k->all_finite(&m->exec, (size_t)n * l->out_n, l->y)) {
            return uw_error_set(err, UW_ERR_NONFINITE,
                                "layer '%s': its output is NaN or infinite; a lower learning "
                                "rate may help",
                                l->def->name);
        }
    }
    return uw_error_set(err, UW_ERR_NONFINITE, "the loss is NaN or infinite");
}

static int check_labels(const struct uw_model *m, const uint32_t *label, uint32_t n,
                        struct uw_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (label[i] >= m->classes) {
            return uw_error_set(err, UW_ERR_INVALID, "label %u: the model has %u classes",
                                (unsigned)label[i], (unsigned)m->classes);
        }
    }
    return UW_OK;
}

static int labelled_pass(struct uw_model *m, const float *x, const uint32_t *label, uint32_t n,
                         double *loss_sum, uint32_t *correct_n)
{
    const float *logits;
    int rc = uw_model_forward(m, x, n, &logits);
    if (rc < 0) {
        return rc;
    }
    return m->config.kernels->softmax_xent_fw(&m->exec, n, m->classes, logits, label,
                                              m->probabilities, loss_sum, correct_n);
}

int uw_model_evaluate(struct uw_model *m, const float *x, const uint32_t *label, uint32_t n,
                      double *loss_sum, uint32_t *correct_n)
{
    double loss = 0.0;
    uint32_t correct = 0;
    int rc = check_batch(m, n);
    if (rc == UW_OK) {
        rc = check_labels(m, label, n, NULL);
    }
    if (rc == UW_OK) {
        rc = labelled_pass(m, x, label, n, &loss, &correct);
    }
    if (rc == UW_OK) {
        *loss_sum += loss;
        *correct_n += correct;
    }
    return rc;
}

/* Plan mode immediate: what has to happen to w and v so that accumulating scale * gradient into
 * the returned target, followed by finish_update, is one step of uw_sgd. */
static int begin_update(const struct uw_exec *e, const struct uw_sgd *s, size_t n, float *w,
                        float *v, float *scale, float **target)
{
    const struct uw_kernels *k = e->kernels;
    float decay = 1.0f - s->lr * s->weight_decay;
    int rc = UW_OK;

    *scale = -s->lr;
    *target = w;
    if (s->momentum == 0.0f) {
        return decay != 1.0f ? k->axpby(e, n, 0.0f, w, decay, w) : UW_OK;
    }
    if (s->frozen) {
        return k->axpby(e, n, -s->lr * s->momentum, v, decay, w);
    }
    *scale = 1.0f;
    *target = v;
    if (s->nesterov) {
        /* w -= lr (g' + momentum v') with g' = v' - momentum v needs the old v only here. */
        rc = k->axpby(e, n, s->lr * s->momentum, v, 1.0f, w);
        if (rc == UW_OK) {
            return k->axpby(e, n, s->weight_decay, w, s->momentum * decay, v);
        }
        return rc;
    }
    return k->axpby(e, n, s->weight_decay, w, s->momentum, v);
}

static int finish_update(const struct uw_exec *e, const struct uw_sgd *s, size_t n, float *w,
                         const float *v)
{
    if (s->momentum == 0.0f || s->frozen) {
        return UW_OK;
    }
    float lr = s->nesterov ? s->lr * (1.0f + s->momentum) : s->lr;
    return e->kernels->axpby(e, n, -lr, v, 1.0f, w);
}

static int update_layer(struct uw_model *m, const struct uw_layer *l, const float *x, uint32_t n,
                        const struct uw_sgd *sgd)
{
    float *target[UW_LAYER_TENSORS_MAX] = {NULL};
    float scale = 1.0f;
    int rc = UW_OK;

    for (uint32_t t = 0; t < l->tensors_n && rc == UW_OK; t++) {
        const struct uw_segment *s = &m->params.segments[l->segment + t];
        if (m->gradients != NULL) {
            target[t] = m->gradients + s->offset_n;
            memset(target[t], 0, (size_t)s->size_n * sizeof(float));
        } else {
            float *v = m->velocity != NULL ? m->velocity + s->offset_n : NULL;
            rc = begin_update(&m->exec, sgd, s->size_n, l->param[t], v, &scale, &target[t]);
        }
    }
    if (rc == UW_OK) {
        rc = l->ops->bw_param(&m->exec, l, n, value_of(m, l->input[0], x), scale, target);
    }
    for (uint32_t t = 0; t < l->tensors_n && rc == UW_OK && m->gradients == NULL; t++) {
        const struct uw_segment *s = &m->params.segments[l->segment + t];
        const float *v = m->velocity != NULL ? m->velocity + s->offset_n : NULL;
        rc = finish_update(&m->exec, sgd, s->size_n, l->param[t], v);
    }
    return rc;
}

/* Gradients of the layer's inputs. The first layer that reaches a value on the way down writes
 * it, the others add. */
static int pass_down(struct uw_model *m, const struct uw_layer *l, uint32_t n)
{
    for (uint32_t k = 0; k < l->inputs_n; k++) {
        uint32_t base = uw_graph_base(m->layers, l->input[k]);
        if (base == UW_VALUE_INPUT || !m->layers[base - 1].needs_gradient) {
            continue;
        }
        struct uw_layer *below = &m->layers[base - 1];
        bool first = below->last_reader == l->index;
        for (uint32_t j = 0; j < k; j++) {
            first = first && uw_graph_base(m->layers, l->input[j]) != base;
        }
        int rc = l->ops->bw_input(&m->exec, l, n, k, below->dy, !first);
        if (rc < 0) {
            return rc;
        }
    }
    return UW_OK;
}

static int backward(struct uw_model *m, const float *x, uint32_t n, const struct uw_sgd *sgd,
                    struct uw_error *err)
{
    for (uint32_t i = m->layers_n; i-- > 0;) {
        const struct uw_layer *l = &m->layers[i];
        if (l->ops->view || !l->needs_gradient) {
            continue;
        }
        if (l->tensors_n > 0 &&
            !m->config.kernels->all_finite(&m->exec, (size_t)n * l->out_n, l->dy)) {
            return uw_error_set(err, UW_ERR_NONFINITE,
                                "layer '%s': the gradient of its output is NaN or infinite",
                                l->def->name);
        }
        int rc = pass_down(m, l, n);
        if (rc == UW_OK && l->tensors_n > 0) {
            rc = update_layer(m, l, x, n, sgd);
        }
        if (rc < 0) {
            return uw_error_set(err, rc, "layer '%s': %s", l->def->name, uw_status_text(rc));
        }
    }
    return UW_OK;
}

static int apply_gradients(struct uw_model *m, const struct uw_sgd *sgd, struct uw_error *err)
{
    const struct uw_kernels *k = m->config.kernels;

    for (uint32_t i = 0; i < m->params.segments_n; i++) {
        const struct uw_segment *s = &m->params.segments[i];
        if (!k->all_finite(&m->exec, s->size_n, m->gradients + s->offset_n)) {
            return uw_error_set(err, UW_ERR_NONFINITE,
                                "the gradient of %s is NaN or infinite", s->name);
        }
    }
    return k->sgd_update(&m->exec, m->params.size_n, sgd, m->gradients, m->params.x, m->velocity);
}

static int check_step(const struct uw_model *m, const uint32_t *label, uint32_t n,
                      const struct uw_sgd *sgd, struct uw_error *err)
{
    if (m->config.mode == UW_PLAN_INFERENCE || m->params.size_n == 0) {
        return uw_error_set(err, UW_ERR_INVALID, m->params.size_n == 0
                                                     ? "the model has no parameters to train"
                                                     : "the model was planned for inference");
    }
    if (check_batch(m, n) < 0) {
        return uw_error_set(err, UW_ERR_INVALID, "minibatch of %u: needs 1 to %u", (unsigned)n,
                            (unsigned)m->config.batch_n);
    }
    if (sgd->momentum != 0.0f && m->velocity == NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "the model was planned without momentum");
    }
    return check_labels(m, label, n, err);
}

int uw_model_train_step(struct uw_model *m, const float *x, const uint32_t *label, uint32_t n,
                        const struct uw_sgd *sgd, struct uw_step_result *result,
                        struct uw_error *err)
{
    struct uw_step_result r = {0};
    int rc = check_step(m, label, n, sgd, err);
    if (rc == UW_OK) {
        rc = labelled_pass(m, x, label, n, &r.loss, &r.correct_n);
    }
    if (rc < 0) {
        return rc;
    }
    r.loss /= n;
    if (!(r.loss - r.loss == 0.0)) {
        return name_nonfinite(m, x, n, err);
    }
    uint32_t top = uw_graph_base(m->layers, m->layers_n);
    rc = m->config.kernels->softmax_xent_bw_input(&m->exec, n, m->classes, m->probabilities, label,
                                                  1.0f / (float)n, m->layers[top - 1].dy);
    if (rc == UW_OK) {
        rc = backward(m, x, n, sgd, err);
    }
    if (rc == UW_OK && m->gradients != NULL) {
        rc = apply_gradients(m, sgd, err);
    }
    if (rc == UW_OK) {
        *result = r;
    }
    return rc;
}
