/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass, the losses, and the backward pass from the last layer to the first. A layer's
 * bw_input runs before its bw_param, because in plan mode immediate the update is fused into
 * bw_param and changes the weights that bw_input reads. */
#include "flight.h"
#include "step.h"

#include "uwasa/parts.h"

#include <math.h>

static void inputs_of(const struct uw_model *m, const struct uw_layer *l, const float *x,
                      const float **in)
{
    for (uint32_t k = 0; k < l->inputs_n; k++) {
        in[k] = uw_value_of(m, l->input[k], x);
    }
}

/* The pass as layer l sees it. */
static struct uw_pass pass_of(const struct uw_layer *l, const struct uw_pass *p)
{
    struct uw_pass mine = *p;
    mine.batch_n = uw_samples(l, p->batch_n);
    return mine;
}

int uw_step_layer(struct uw_model *m, struct uw_layer *l, const float *x, const struct uw_pass *p)
{
    const float *in[UW_LAYER_INPUTS_MAX];

    if (l->view || (l->auxiliary && !p->training)) {
        return UW_OK;
    }
    inputs_of(m, l, x, in);
    const struct uw_pass mine = pass_of(l, p);
    uint64_t since_us = p->training ? uw_profile_start(m) : 0;
    int rc = l->ops->forward(&m->exec, l, &mine, in, l->y);
    if (p->training) {
        uw_profile_lap(m, l->index, UW_PROFILE_FORWARD, &since_us);
    }
    uw_step_between(m);
    return rc;
}

/* Put the layer's name and what it wants into err. Returns rc. */
static int name_layer(const struct uw_layer *l, int rc, struct uw_error *err)
{
    bool unwanted = rc == UW_ERR_INVALID && l->ops->wants != NULL;
    return uw_error_set(err, rc, "layer '%s' (%s): %s%s", l->def->name, l->ops->name,
                        unwanted ? "takes only " : "",
                        unwanted ? l->ops->wants : uw_status_text(rc));
}

UW_STEP_PART int uw_step_forward(struct uw_model *m, const float *x, const struct uw_pass *p,
                                 struct uw_error *err)
{
    for (uint32_t i = 0; i < m->layers_n; i++) {
        struct uw_layer *l = &m->layers[i];
        l->y = l->y_at[0];
        l->aux = l->aux_at[0];
        if (m->buckets_n > 0 && l->trained != 0 && (p->training || !l->auxiliary)) {
            int updated = uw_parts.gathering->deferred(m, l->bucket, err);
            if (updated < 0) {
                return updated;
            }
        }
        int rc = uw_step_layer(m, l, x, p);
        if (rc < 0) {
            return name_layer(l, rc, err);
        }
    }
    return UW_OK;
}

int uw_model_forward(struct uw_model *m, const float *x, uint32_t n, const float **logits)
{
    const struct uw_pass pass = {.batch_n = n};
    if (n == 0 || n > m->config.micro_n) {
        return UW_ERR_INVALID;
    }
    if (uw_device_of(m) != NULL) {
        return uw_parts.on_device->forward(m, x, n, logits);
    }
    int rc = uw_step_forward(m, x, &pass, NULL);
    if (rc == UW_OK && logits != NULL) {
        *logits = uw_value_of(m, m->heads[0].value, x);
    }
    return rc;
}

UW_STEP_PART int uw_step_name_nonfinite(struct uw_model *m, const float *x, const struct uw_pass *p,
                                        struct uw_error *err)
{
    const struct uw_kernels *k = m->config.kernels;
    struct uw_pass pass = *p;

    pass.again = true;
    if (!k->all_finite(&m->exec, (size_t)p->batch_n * m->input_n, x)) {
        return uw_error_set(err, UW_ERR_NONFINITE, "the input holds a NaN or an infinity");
    }
    for (uint32_t i = 0; i < m->layers_n; i++) {
        struct uw_layer *l = &m->layers[i];
        for (uint32_t t = 0; t < l->tensors_n && !l->constant; t++) {
            const struct uw_segment *s = &m->params.segments[l->segment + t];
            if (!k->all_finite(&m->exec, s->size_n, l->param[t])) {
                return uw_error_set(err, UW_ERR_NONFINITE, "%s holds a NaN or an infinity",
                                    s->name);
            }
        }
        int rc = uw_step_layer(m, l, x, &pass);
        if (rc < 0) {       /* on the processor err already says so; a device has only stopped */
            return UW_STEP_DEVICES ? name_layer(l, rc, err) : rc;
        }
        if (!l->view &&
            !k->all_finite(&m->exec, (size_t)uw_samples(l, p->batch_n) * l->out_n, l->y)) {
            return uw_error_set(err, UW_ERR_NONFINITE,
                                "layer '%s': its output is NaN or infinite; a lower learning "
                                "rate may help",
                                l->def->name);
        }
    }
    return uw_error_set(err, UW_ERR_NONFINITE, "the loss is NaN or infinite");
}

UW_STEP_PART struct uw_minibatch uw_step_minibatch(const struct uw_model *m,
                                                   const struct uw_minibatch *b)
{
    struct uw_minibatch all = *b;
    if (all.x == NULL) {
        all.x = m->input;
        all.label = m->label;
        all.target = m->target;
    }
    return all;
}

static int check_batch(const struct uw_model *m, const struct uw_minibatch *b,
                       struct uw_error *err)
{
    if (b->n == 0 || b->n > m->config.batch_n) {
        return uw_error_set(err, UW_ERR_INVALID, "minibatch of %u: needs 1 to %u",
                            (unsigned)b->n, (unsigned)m->config.batch_n);
    }
    if (b->x == NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "no samples: the model was planned without room "
                            "for them");
    }
    return uw_losses_check(m, b, err);
}

/* Where to write the gradient of the layer's input number `which`; NULL: it is not needed. Of the
 * readers of a value the first in the backward pass writes its gradient, the others add to it. */
static float *gradient_below(const struct uw_model *m, const struct uw_layer *l, uint32_t which,
                             bool *accumulate)
{
    uint32_t base = uw_graph_base(m->layers, l->input[which]);
    if (base == UW_VALUE_INPUT || !m->layers[base - 1].needs_gradient) {
        return NULL;
    }
    *accumulate = m->layers[base - 1].last_reader != l->index;
    for (uint32_t j = 0; j < which; j++) {
        *accumulate = *accumulate || uw_graph_base(m->layers, l->input[j]) == base;
    }
    return m->layers[base - 1].dy;
}

static int pass_down(struct uw_model *m, const struct uw_layer *l, const struct uw_pass *p,
                     const float *const *x)
{
    int rc = UW_OK;
    for (uint32_t k = 0; k < l->inputs_n && rc == UW_OK; k++) {
        bool accumulate = false;
        float *dx = gradient_below(m, l, k, &accumulate);
        rc = dx != NULL ? l->ops->bw_input(&m->exec, l, p, x, k, dx, accumulate) : UW_OK;
    }
    return rc;
}

/* Whether bw_finite checks l->dy: this layer's, or that of the only reader of its output. */
static bool is_checked_by_kernels(const struct uw_model *m, const struct uw_layer *l)
{
    if (l->ops->bw_finite != NULL || l->readers_n != 1 || l->last_reader == m->layers_n) {
        return l->ops->bw_finite != NULL;
    }
    const struct uw_layer *reader = &m->layers[l->last_reader];
    return reader->ops->bw_finite != NULL && reader->trained != 0;
}

static int backward_layer(struct uw_model *m, const struct uw_layer *l, const float *x,
                          const struct uw_pass *p, struct uw_update *u)
{
    const float *in[UW_LAYER_INPUTS_MAX];
    int rc = UW_OK;

    inputs_of(m, l, x, in);
    uint64_t since_us = uw_profile_start(m);
    if (l->trained != 0 && uw_update_in_one_pass(u, l)) {
        bool accumulate = false;
        float *dx = gradient_below(m, l, 0, &accumulate);
        rc = uw_update_with_input(u, l, p, in, dx, accumulate);
        uw_profile_lap(m, l->index, UW_PROFILE_BW_PARAM, &since_us);
        uw_step_between(m);
        return rc;
    }
    if (l->ops->bw_prepare != NULL) {
        rc = l->ops->bw_prepare(&m->exec, l, p, in);
    }
    rc = rc < 0 ? rc : pass_down(m, l, p, in);
    if (rc == UW_OK && l->trained != 0 && l->ops->bw_finite != NULL &&
        !l->ops->bw_finite(&m->exec, l)) {
        rc = uw_error_set(u->err, UW_ERR_NONFINITE,
                          "layer '%s': the gradient of its output or of its input is NaN or "
                          "infinite", l->def->name);
    }
    uw_profile_lap(m, l->index, UW_PROFILE_BW_INPUT, &since_us);
    uw_step_between(m);
    if (rc == UW_OK && l->trained != 0) {
        since_us = uw_profile_start(m);
        rc = uw_update_layer(u, l, p, in);
        uw_profile_lap(m, l->index, UW_PROFILE_BW_PARAM, &since_us);
        uw_step_between(m);
    }
    return rc;
}

#ifdef UW_WITHOUT_DEVICES
#define backward_one backward_layer
#else
/* On a device a launch costs more than its work for a few channels. So bw_prepare and bw_input
 * write the parameter gradients that they compute straight to their place. */
static int backward_one(struct uw_model *m, const struct uw_layer *l, const float *x,
                        const struct uw_pass *p, struct uw_update *u)
{
    float *target[UW_LAYER_TENSORS_MAX] = {NULL};
    struct uw_pass pass = *p;
    int rc = UW_OK;

    if (uw_device_of(m) != NULL && m->config.kernels->fused != NULL && l->trained != 0 &&
        u->first && u->last) {
        rc = uw_parts.gathering->open(u, l, target);
        pass.gradient = target;
    }
    return rc < 0 ? rc : backward_layer(m, l, x, &pass, u);
}
#endif

static int backward(struct uw_model *m, const float *x, const struct uw_pass *p,
                    struct uw_update *u)
{
    for (uint32_t i = m->layers_n; i-- > 0;) {
        const struct uw_layer *l = &m->layers[i];
        int rc = UW_OK;
        if (i + 1 < m->layers_n && l->stage != m->layers[i + 1].stage) {
            rc = uw_parts.budgeting->recompute(m, l->stage, x, p);
        }
        if (rc == UW_OK && (l->view || !l->needs_gradient)) {
            continue;
        }
        if (rc == UW_OK && l->trained != 0 && !is_checked_by_kernels(m, l) &&
            !m->config.kernels->all_finite(&m->exec, (size_t)uw_samples(l, p->batch_n) * l->out_n,
                                           l->dy)) {
            return uw_error_set(u->err, UW_ERR_NONFINITE,
                                "layer '%s': the gradient of its output is NaN or infinite",
                                l->def->name);
        }
        u->err->text[0] = '\0';
        const struct uw_pass mine = pass_of(l, p);
        rc = rc < 0 ? rc : backward_one(m, l, x, &mine, u);
        if (rc < 0) {
            return u->err->text[0] != '\0' ? rc
                                           : uw_error_set(u->err, rc, "layer '%s': %s",
                                                          l->def->name, uw_status_text(rc));
        }
    }
    return uw_update_finish(u);
}

UW_STEP_PART int uw_step_check(const struct uw_model *m, const struct uw_minibatch *b,
                               struct uw_error *err)
{
    const struct uw_optimizer *planned = &m->config.optimizer;
    const struct uw_optimizer *o = &m->optimizer;

    if (m->config.mode == UW_PLAN_INFERENCE) {
        return uw_error_set(err, UW_ERR_INVALID, "the model was planned for inference");
    }
    if (m->trainable_n == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "the model has no parameters to train: layers are "
                            "frozen, or have nothing of what is to be adapted");
    }
    if (o->kind != planned->kind || uw_optimizer_vectors(o) != uw_optimizer_vectors(planned) ||
        (o->clip_tensor != 0.0f) != (planned->clip_tensor != 0.0f) ||
        (o->clip_global != 0.0f) != (planned->clip_global != 0.0f)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "the model was planned for another optimizer, momentum or clipping");
    }
    bool guards = m->guard.factor != 0.0f, weighs = m->class_weights != NULL;
    if ((guards && uw_parts.guarding == NULL) || (weighs && uw_parts.weighing == NULL)) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "linked without spike guard or class weights");
    }
    int rc = guards ? uw_parts.guarding->check(m, err) : UW_OK;
    rc = rc < 0 || !weighs ? rc : uw_parts.weighing->check(m, err);
    return rc < 0 ? rc : check_batch(m, b, err);
}

static int check_guard(const struct uw_model *m, struct uw_error *err)
{
    return m->config.micro_n == m->config.batch_n
               ? UW_OK
               : uw_error_set(err, UW_ERR_INVALID,
                              "the spike guard needs whole minibatches, no micro-batches");
}

static double loss_limit(const struct uw_spike_guard *g)
{
    return g->seen >= UW_SPIKE_WARMUP ? (double)g->factor * g->mean : (double)INFINITY;
}

static void take_loss(struct uw_spike_guard *g, double loss, bool spike)
{
    if (spike) {
        g->skipped++;
        return;
    }
    g->seen += g->seen < UW_SPIKE_WARMUP ? 1 : 0;
    g->mean += (loss - g->mean) / g->seen;
}

static bool is_spike(struct uw_spike_guard *g, double loss)
{
    bool spike = loss > loss_limit(g);
    take_loss(g, loss, spike);
    return spike;
}

const struct uw_guarding uw_guarding = {.check = check_guard, .limit = loss_limit,
                                        .is_spike = is_spike, .take = take_loss};

/* Losses of a micro-batch and, if it trains, the gradients of the outputs; r: the step's sums. */
static int losses(struct uw_model *m, const struct uw_labelled *s, struct uw_step_result *r,
                  struct uw_error *err)
{
    double loss = 0.0;
    uint32_t correct = 0;
    bool trains = s->pass->training;
    uint64_t since_us = trains ? uw_profile_start(m) : 0;
    int rc = uw_losses_forward(m, s, trains ? m->heads_n : 1, &loss, &correct);
    if (trains) {
        uw_profile_lap(m, m->layers_n, UW_PROFILE_FORWARD, &since_us);
    }
    uw_step_between(m);
    if (rc < 0) {
        return uw_error_set(err, rc, "%s", uw_status_text(rc));
    }
    if (trains && !(loss - loss == 0.0)) {
        return uw_step_name_nonfinite(m, s->x, s->pass, err);
    }
    r->loss += loss;
    r->correct_n += correct;
    r->skipped = trains && m->guard.factor != 0.0f &&
                 uw_parts.guarding->is_spike(&m->guard, loss / s->b->n);
    if (!trains || r->skipped) {
        return UW_OK;
    }
    since_us = uw_profile_start(m);
    rc = uw_losses_backward(m, s, s->b->n);
    uw_profile_lap(m, m->layers_n, UW_PROFILE_BW_INPUT, &since_us);
    uw_step_between(m);
    return rc;
}

UW_STEP_PART int uw_step_run(struct uw_model *m, const struct uw_minibatch *b, bool trains,
                             struct uw_step_result *r, struct uw_error *err)
{
    struct uw_update u = {.m = m, .err = err};
    int rc = UW_OK;
    for (uint32_t first = 0; first < b->n && rc == UW_OK; first += m->config.micro_n) {
        uint32_t left = b->n - first;
        const struct uw_pass pass = {.batch_n = left < m->config.micro_n ? left : m->config.micro_n,
                                     .first = first,
                                     .training = trains,
                                     .noise = uw_rng_mix(m->seed, m->updates)};
        const struct uw_labelled s = {b, b->x + (size_t)first * m->input_n, &pass};
        u.first = first == 0;
        u.last = first + pass.batch_n == b->n;
        rc = uw_step_forward(m, s.x, &pass, err);
        if (rc == UW_OK) {
            rc = uw_device_of(m) != NULL ? uw_parts.on_device->losses(m, &s)
                                         : losses(m, &s, r, err);
        }
        if (rc == UW_OK && trains && !r->skipped) {
            rc = backward(m, s.x, &pass, &u);
        }
    }
    return rc;
}

int uw_model_evaluate(struct uw_model *m, const struct uw_minibatch *batch, double *loss_sum,
                      uint32_t *correct_n)
{
    const struct uw_minibatch b = uw_step_minibatch(m, batch);
    struct uw_step_result r = {0};
    int rc = check_batch(m, &b, NULL);

    if (rc == UW_OK && uw_device_of(m) != NULL) {
        return uw_parts.on_device->evaluate(m, &b, loss_sum, correct_n);
    }
    rc = rc < 0 ? rc : uw_step_run(m, &b, false, &r, NULL);
    if (rc == UW_OK) {
        *loss_sum += r.loss;
        *correct_n += r.correct_n;
    }
    return rc;
}

int uw_model_train_step(struct uw_model *m, const struct uw_minibatch *batch,
                        struct uw_step_result *result, struct uw_error *err)
{
    const struct uw_minibatch b = uw_step_minibatch(m, batch);
    struct uw_step_result r = {0};
    struct uw_error why = {0};
    struct uw_error *to = err != NULL ? err : &why;

    if (uw_device_of(m) != NULL) {
        int begun = uw_parts.on_device->begin(m, batch, err);
        return begun < 0 ? begun : uw_parts.on_device->end(m, result, err);
    }
    int rc = uw_step_check(m, &b, to);
    rc = rc < 0 ? rc : uw_step_run(m, &b, true, &r, to);
    if (rc == UW_OK) {
        m->updates += r.skipped ? 0 : 1;
        r.loss /= b.n;
        *result = r;
    }
    return rc;
}
