/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on a device. The kernels of a step are queued without waiting for any result: values stay
 * on the device until the end of the step is asked for, and the device itself checks that loss and
 * gradients are finite. Steps of the same shape are recorded once and then replayed.
 *
 * The processor keeps the minibatches in flight and, if the device has memory of its own, an image
 * of the parameters, velocity and the optimizer's vectors. */
#include "flight.h"

#include "uwasa/hash.h"
#include "uwasa/parts.h"

#include <math.h>
#include <string.h>

#ifndef UW_WITHOUT_DEVICES

#define EVALUATES 1u
#define TRAINS 2u

/* ---- the image ---- */

/* All blocks of the image. measure and bind share this list, so they cannot disagree. */
enum block {
    FLIGHT, LOGITS, X0, LABEL0, TARGET0, X1, LABEL1, TARGET1, PARAMETERS, STATE0, STATE1, VELOCITY,
    GRADIENTS, BLOCKS_N
};

static void size_blocks(const struct uw_model_config *c, const struct uw_graph *g,
                        const struct uw_model_need *need, size_t bytes[BLOCKS_N])
{
    bool training = c->mode != UW_PLAN_INFERENCE;
    uint32_t vectors = training ? uw_optimizer_vectors(&c->optimizer) : 0;

    memset(bytes, 0, BLOCKS_N * sizeof bytes[0]);
    bytes[FLIGHT] = sizeof(struct uw_flight);
    bytes[LOGITS] = uw_draft_floats(uw_size_mul(g->heads[0].n, uw_draft_micro_n(c)));
    bytes[X0] = bytes[X1] = uw_draft_floats(uw_size_mul(g->in_n, c->batch_n));
    bytes[LABEL0] = bytes[LABEL1] = uw_size_mul(c->batch_n, sizeof(uint32_t));
    bytes[TARGET0] = bytes[TARGET1] = uw_draft_floats(uw_size_mul(g->target_n, c->batch_n));
    bytes[GRADIENTS] = c->hand_out ? need->gradients_bytes : 0;
    if (uw_has_image(c->kernels)) {
        bytes[PARAMETERS] = need->parameters_bytes;
        bytes[STATE0] = vectors > 0 ? uw_draft_floats(g->trainable_n) : 0;
        bytes[STATE1] = vectors > 1 ? uw_draft_floats(g->trainable_n) : 0;
        bytes[VELOCITY] = training && c->mixing_velocity ? need->parameters_bytes : 0;
    }
}

static size_t image_bytes(const struct uw_model_config *config, const struct uw_graph *g,
                          const struct uw_model_need *need)
{
    size_t bytes[BLOCKS_N], total = 0;
    size_blocks(config, g, need, bytes);
    for (size_t i = 0; i < BLOCKS_N; i++) {
        size_t padded = uw_arena_padded(bytes[i]);
        total = padded > SIZE_MAX - total ? SIZE_MAX : total + padded;
    }
    return total;
}

/* Minibatch i in memory of the kernels; minibatch 0 is at m->input and so on. */
static struct uw_input input_at(const struct uw_model *m, uint32_t i)
{
    size_t n = m->config.batch_n;
    size_t x = uw_draft_floats(n * m->input_n) / sizeof(float);
    size_t label = uw_arena_padded(n * sizeof(uint32_t)) / sizeof(uint32_t);
    size_t target = uw_draft_floats(n * m->target_n) / sizeof(float);
    return (struct uw_input){m->input + i * x, m->label + i * label,
                             m->target != NULL ? m->target + i * target : NULL};
}

static void use_slot(struct uw_model *m, uint32_t step)
{
    const struct uw_input *in = &m->flight->slot[step % UW_DEVICE_STEPS_MAX];
    m->input = in->x;
    m->label = in->label;
    m->target = in->target;
}

static int bind(struct uw_model *m, const struct uw_draft *d, struct uw_arena *arena,
                struct uw_error *err)
{
    size_t bytes[BLOCKS_N];
    void *block[BLOCKS_N];

    size_blocks(&m->config, &d->graph, &d->need, bytes);
    for (size_t i = 0; i < BLOCKS_N; i++) {
        int rc = uw_arena_take(arena, bytes[i], &block[i]);
        if (rc < 0) {
            return uw_error_set(err, rc, "the image: %lu bytes more, the arena has %lu left",
                                (unsigned long)bytes[i],
                                (unsigned long)(arena->capacity_bytes - arena->used_bytes));
        }
        block[i] = bytes[i] != 0 ? block[i] : NULL;
    }
    m->flight = block[FLIGHT];
    *m->flight = (struct uw_flight){
        .input = {input_at(m, 0), input_at(m, 1)},
        .slot = {{block[X0], block[LABEL0], block[TARGET0]},
                 {block[X1], block[LABEL1], block[TARGET1]}},
        .logits = block[LOGITS],
        .gradients = block[GRADIENTS],
    };
    if (uw_has_image(m->config.kernels)) {
        m->params.x = block[PARAMETERS];
        m->state[0] = block[STATE0];
        m->state[1] = block[STATE1];
        m->velocity = block[VELOCITY];
    }
    use_slot(m, 0);
    /* The key of a recorded step contains addresses, which an earlier model may have used. */
    uw_device_of(m)->forget(&m->exec);
    return UW_OK;
}

typedef int (*move_fn)(const struct uw_model *m, float *image, float *worked, size_t n);

static int move_up(const struct uw_model *m, float *image, float *worked, size_t n)
{
    return uw_device_of(m)->read(&m->exec, image, worked, n * sizeof *image);
}

static int move_down(const struct uw_model *m, float *image, float *worked, size_t n)
{
    return uw_device_of(m)->write(&m->exec, worked, image, n * sizeof *image);
}

static int move_all(const struct uw_model *m, move_fn move)
{
    if (!uw_has_image(m->config.kernels)) {
        return uw_device_of(m)->wait(&m->exec);
    }
    int rc = m->params.size_n > 0 ? move(m, m->params.x, m->worked.x, m->params.size_n) : UW_OK;
    for (uint32_t v = 0; v < UW_OPTIMIZER_VECTORS_MAX && rc == UW_OK; v++) {
        rc = m->state[v] != NULL ? move(m, m->state[v], m->worked.state[v], m->trainable_n)
                                 : UW_OK;
    }
    return rc < 0 || m->velocity == NULL
               ? rc
               : move(m, m->velocity, m->worked.velocity, m->params.size_n);
}

static int pull(const struct uw_model *m)
{
    return move_all(m, move_up);
}

static int push(struct uw_model *m)
{
    return move_all(m, move_down);
}

/* ---- steps ---- */

/* Where the kernels find the next step's minibatch. */
static const struct uw_input *next_input(const struct uw_model *m)
{
    return &m->flight->input[m->flight->begun % UW_DEVICE_STEPS_MAX];
}

static int stage(struct uw_model *m, const struct uw_minibatch *b)
{
    const struct uw_input *in = next_input(m);
    struct uw_device_copy copies[3];
    uint32_t n = 0;

    if (b->x != in->x) {
        copies[n++] = (struct uw_device_copy){in->x, b->x,
                                              (size_t)b->n * m->input_n * sizeof *b->x};
    }
    if (b->label != NULL && b->label != in->label) {
        copies[n++] = (struct uw_device_copy){in->label, b->label, b->n * sizeof *b->label};
    }
    if (b->target != NULL && m->target_n > 0 && b->target != in->target) {
        copies[n++] = (struct uw_device_copy){in->target, b->target,
                                              (size_t)b->n * m->target_n * sizeof *b->target};
    }
    return n > 0 ? uw_device_of(m)->stage(&m->exec, copies, n) : UW_OK;
}

static struct uw_device_values values_of(const struct uw_model *m)
{
    /* Deferred: the updates queued with this step are those of the step before. */
    bool deferred = uw_model_updates_pending(m);
    const struct uw_optimizer *o = deferred ? &m->late_optimizer : &m->optimizer;
    const struct uw_adam adam = uw_update_adam(o, deferred ? m->late_step : m->updates);
    return (struct uw_device_values){
        .noise = uw_rng_mix(m->seed, m->updates),
        .loss_limit = m->guard.factor != 0.0f ? uw_parts.guarding->limit(&m->guard)
                                              : (double)INFINITY,
        .lr = o->lr,
        .weight_decay = o->weight_decay,
        .correction1 = adam.correction1,
        .correction2 = adam.correction2,
    };
}

/* Hash of all that determines a step's kernels and their arguments. 0: do not record the step. */
static uint64_t recording_key(const struct uw_model *m, const struct uw_minibatch *b, uint32_t what)
{
    if (what == TRAINS && (m->profile != NULL || m->bucket != NULL || m->buckets_n > 0)) {
        return 0;
    }
    if (b->n != m->config.batch_n) {
        return 0; /* last minibatch of an epoch: too rare to be worth recording */
    }
    if (uw_model_updates_pending(m)) {
        return 0; /* only this pass contains the pending updates */
    }
    const uint32_t numbers[] = {what, b->n, b->label != NULL, b->target != NULL};
    const void *const pointers[] = {m->layers, m->worked.x, next_input(m)->x};
    uint64_t hash = uw_hash64(UW_HASH64_START, numbers, sizeof numbers);
    hash = uw_hash64(hash, (const void *)pointers, sizeof pointers);
    if (what == TRAINS) {
        const float floats[] = {m->optimizer.momentum, m->optimizer.beta1, m->optimizer.beta2,
                                m->optimizer.alpha, m->optimizer.epsilon, m->optimizer.clip_tensor,
                                m->optimizer.clip_global};
        const uint8_t kinds[] = {(uint8_t)m->optimizer.kind, m->optimizer.nesterov,
                                 m->optimizer.frozen};
        hash = uw_hash64(hash, floats, sizeof floats);
        hash = uw_hash64(hash, kinds, sizeof kinds);
    }
    return hash != 0 ? hash : 1;
}

/* Queue the losses of a pass; the device adds them to those of the step. */
static int queue_losses(struct uw_model *m, const struct uw_labelled *s, uint32_t heads_n)
{
    const struct uw_device_kernels *d = uw_device_of(m);
    struct uw_device_sums *sums = d->sums(&m->exec);
    float weight[UW_LOSSES_MAX];
    int rc = UW_OK;

    for (uint32_t i = 0; i < heads_n && rc == UW_OK; i++) {
        const struct uw_head *h = &m->heads[i];
        double by = h->def->kind == UW_LOSS_CROSS_ENTROPY ? 1.0 : h->n;
        weight[i] = (float)(uw_loss_weight(h->def) / by);
        rc = uw_loss_forward(m, s, h, &sums->loss[i], &sums->correct[i]);
    }
    return rc < 0 ? rc : d->add_losses(&m->exec, weight, heads_n, s->b->n);
}

/* Queue cross-entropy, the model's only loss, and its gradient. */
static int queue_cross_entropy(struct uw_model *m, const struct uw_labelled *s, float *dy)
{
    const struct uw_head *h = &m->heads[0];
    double weight = uw_loss_weight(h->def);
    const struct uw_device_xent x = {
        .batch_n = s->pass->batch_n, .classes = h->n, .logits = uw_value_of(m, h->value, s->x),
        .label = s->b->label + s->pass->first, .dlogits = dy,
        .smoothing = h->def->label_smoothing, .scale = (float)(weight / s->b->n),
        .weight = (float)weight, .samples = s->b->n};
    return uw_device_of(m)->xent_step(&m->exec, &x);
}

/* Queue the losses of a micro-batch and, if it trains, the gradients of the outputs. */
static int losses(struct uw_model *m, const struct uw_labelled *s)
{
    const struct uw_head *h = &m->heads[0];
    float *dy = uw_loss_gradient(m, h);
    if (!s->pass->training) {
        return queue_losses(m, s, 1);
    }
    uint64_t since_us = uw_profile_start(m);
    int rc;
    if (m->heads_n == 1 && h->def->kind == UW_LOSS_CROSS_ENTROPY && dy != NULL) {
        rc = queue_cross_entropy(m, s, dy);
    } else {
        rc = queue_losses(m, s, m->heads_n);
        rc = rc < 0 ? rc : uw_losses_backward(m, s, s->b->n);
    }
    uw_profile_lap(m, m->layers_n, UW_PROFILE_FORWARD, &since_us);
    return rc;
}

/* Queue the step, or replay its recording. *begun: the device will give a result, even if something
 * failed; *again: the step could not be recorded. */
static int launch_once(struct uw_model *m, const struct uw_minibatch *b, uint32_t what,
                       bool *begun, bool *again, struct uw_error *err)
{
    const struct uw_device_kernels *d = uw_device_of(m);
    const struct uw_input *in = next_input(m);
    const struct uw_minibatch seen = {.x = in->x, .label = b->label != NULL ? in->label : NULL,
                                      .target = b->target != NULL ? in->target : NULL, .n = b->n};
    const struct uw_device_step step = {.values = values_of(m), .key = recording_key(m, b, what)};
    struct uw_step_result unused = {0};
    bool recorded = false;
    int rc = d->begin(&m->exec, &step, &recorded);

    *begun = rc == UW_OK;
    *again = false;
    if (rc < 0) {
        return rc;
    }
    if (recorded) {
        uw_step_between(m);
    } else {
        rc = uw_step_run(m, &seen, what == TRAINS, &unused, err);
    }
    int ended = d->end(&m->exec, rc == UW_OK);
    *again = ended == UW_ERR_AGAIN;
    *begun = !*again;
    return rc < 0 ? rc : ended;
}

/* Copy the minibatch to the device and launch; see launch_once. */
static int launch(struct uw_model *m, const struct uw_minibatch *b, uint32_t what, bool *begun,
                  struct uw_error *err)
{
    bool again = false;
    int rc = stage(m, b);
    *begun = false;
    rc = rc < 0 ? rc : launch_once(m, b, what, begun, &again, err);
    if (again) {
        err->text[0] = '\0';
        rc = launch_once(m, b, what, begun, &again, err);
    }
    return rc;
}

static int failed(struct uw_error *err, int rc)
{
    return rc == UW_ERR_IO ? uw_error_set(err, rc, "the device failed") : rc;
}

/* Deferred updates: pass gradients on to the network as they arrive from the device, in the order
 * in which they were computed. */
static int hand_out_deferred(struct uw_model *m)
{
    int rc = UW_OK;
    for (uint32_t i = m->buckets_n; i-- > 0 && rc == UW_OK && m->bucket_ready != NULL;) {
        const struct uw_bucket *b = &m->buckets[i];
        rc = uw_device_of(m)->await(&m->exec, b->ticket);
        rc = rc < 0 ? rc : m->bucket_ready(m->bucket_arg, i, b->offset_n, b->count_n,
                                           m->flight->gradients + b->offset_n);
    }
    return rc;
}

/* Fetch and drop n results. */
static void drain(struct uw_model *m, uint32_t n)
{
    struct uw_device_result unwanted;
    while (n-- > 0) {
        (void)uw_device_of(m)->result(&m->exec, &unwanted);
    }
}

static int begin(struct uw_model *m, const struct uw_minibatch *batch, struct uw_error *err)
{
    struct uw_flight *f = m->flight;
    struct uw_error why = {.text = ""};
    const struct uw_minibatch b = uw_step_minibatch(m, batch);
    bool handed = m->bucket != NULL || m->bucket_ready != NULL;
    struct uw_error *to = err != NULL ? err : &why;
    int rc = uw_step_check(m, &b, to);

    if (rc < 0) {
        return rc;
    }
    if (handed && f->gradients == NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "bucket callbacks need a plan with hand_out");
    }
    if (uw_model_steps_free(m) == 0) {
        return uw_error_set(err, UW_ERR_AGAIN, "earlier steps have not ended");
    }
    to->text[0] = '\0';
    bool begun = false;
    rc = launch(m, &b, TRAINS, &begun, to);
    rc = rc < 0 ? rc : hand_out_deferred(m);
    if (rc < 0) {
        drain(m, f->begun - f->ended - f->drained + (begun ? 1 : 0));
        f->drained = f->begun - f->ended;
        return to->text[0] != '\0' ? rc : failed(err, rc);
    }
    f->batch[f->begun % UW_DEVICE_STEPS_MAX] = b;
    f->begun++;
    m->updates++;
    use_slot(m, f->begun);
    return UW_OK;
}

/* A step stopped, and with it all later ones in flight: drop those and describe the cause. */
static int drop_and_describe_stop(struct uw_model *m, const struct uw_minibatch *b,
                                  const struct uw_device_result *r, struct uw_error *err)
{
    struct uw_flight *f = m->flight;
    uint32_t behind = f->begun - f->ended;

    m->updates -= behind;
    drain(m, behind);
    f->drained = behind;
    int rc = uw_device_of(m)->resume(&m->exec);
    if (rc < 0) {
        return failed(err, rc);
    }
    if (r->stopped == UW_DEVICE_STOP_GRADIENT) {
        return uw_error_set(err, UW_ERR_NONFINITE, "the gradient of %s is NaN or infinite",
                            r->where < m->params.segments_n ? m->params.segments[r->where].name
                                                            : "a parameter");
    }
    const struct uw_pass pass = {.batch_n = b->n < m->config.micro_n ? b->n : m->config.micro_n,
                                 .training = true,
                                 .noise = uw_rng_mix(m->seed, m->updates)};
    rc = stage(m, b);
    return rc < 0 ? failed(err, rc) : uw_step_name_nonfinite(m, next_input(m)->x, &pass, err);
}

static int end(struct uw_model *m, struct uw_step_result *result, struct uw_error *err)
{
    struct uw_flight *f = m->flight;
    struct uw_device_result r = {.loss = 0.0};
    if (f->begun == f->ended) {
        return uw_error_set(err, UW_ERR_INVALID, "no step has begun");
    }
    const struct uw_minibatch *b = &f->batch[f->ended % UW_DEVICE_STEPS_MAX];
    if (f->drained > 0) {
        f->drained--;
        f->ended++;
        return uw_error_set(err, UW_ERR_NONFINITE, "another step in flight failed");
    }
    int rc = uw_device_of(m)->result(&m->exec, &r);
    f->ended++;
    if (rc < 0) {
        return failed(err, rc);
    }
    bool skipped = r.stopped == UW_DEVICE_SKIP;
    m->updates -= r.stopped != UW_DEVICE_RUNS ? 1 : 0;
    if (r.stopped != UW_DEVICE_RUNS && !skipped) {
        return drop_and_describe_stop(m, b, &r, err);
    }
    double loss = r.loss / b->n;
    if (m->guard.factor != 0.0f) {
        uw_parts.guarding->take(&m->guard, loss, skipped);
    }
    if (skipped) {      /* without this, a stop of the next step before its losses would be lost */
        rc = uw_device_of(m)->resume(&m->exec);
        if (rc < 0) {
            return failed(err, rc);
        }
    }
    *result = (struct uw_step_result){.loss = loss, .skipped = skipped, .correct_n = r.correct_n};
    return UW_OK;
}

static int evaluate(struct uw_model *m, const struct uw_minibatch *b, double *loss_sum,
                    uint32_t *correct_n)
{
    struct uw_device_result r = {.loss = 0.0};
    struct uw_error why = {.text = ""};
    if (m->flight->begun != m->flight->ended) {
        return UW_ERR_INVALID;
    }
    bool begun = false;
    int rc = launch(m, b, EVALUATES, &begun, &why);
    int asked = begun ? uw_device_of(m)->result(&m->exec, &r) : rc;
    rc = rc < 0 ? rc : asked;
    if (rc < 0) {
        return rc;
    }
    *loss_sum += r.loss;
    *correct_n += r.correct_n;
    return r.stopped != UW_DEVICE_RUNS ? uw_device_of(m)->resume(&m->exec) : UW_OK;
}

static int forward(struct uw_model *m, const float *x, uint32_t n, const float **logits)
{
    const struct uw_pass pass = {.batch_n = n};
    const struct uw_minibatch b = {.x = x, .n = n};
    if (m->flight->begun != m->flight->ended) {
        return UW_ERR_INVALID;
    }
    int rc = stage(m, &b);
    rc = rc < 0 ? rc : uw_step_forward(m, next_input(m)->x, &pass, NULL);
    if (rc == UW_OK && logits != NULL) {
        const struct uw_head *h = &m->heads[0];
        rc = uw_device_of(m)->read(&m->exec, m->flight->logits,
                                   uw_value_of(m, h->value, next_input(m)->x),
                                   (size_t)n * h->n * sizeof(float));
        *logits = m->flight->logits;
    } else if (rc == UW_OK) {
        rc = uw_device_of(m)->wait(&m->exec); /* from now on x and its copy may be reused */
    }
    return rc;
}

#define WARM_STEPS 3u               /* one plain, one recorded, one replayed */

static int warm_steps(struct uw_model *m, uint32_t n, struct uw_error *err)
{
    struct uw_step_result r;
    struct uw_minibatch b = {.n = n};
    double loss = 0.0;
    uint32_t correct = 0;
    int rc = UW_OK;

    for (uint32_t i = 0; i < UW_DEVICE_STEPS_MAX * WARM_STEPS && rc == UW_OK; i++) {
        memset(m->input, 0, (size_t)n * m->input_n * sizeof *m->input);
        memset(m->label, 0, n * sizeof *m->label);
        for (size_t k = 0; k < (size_t)n * m->target_n; k++) {
            m->target[k] = 0.0f;
        }
        struct uw_minibatch own = uw_step_minibatch(m, &b);
        rc = evaluate(m, &own, &loss, &correct);
        if (rc == UW_OK && m->config.mode != UW_PLAN_INFERENCE && m->trainable_n > 0) {
            rc = begin(m, &b, err);
            rc = rc < 0 ? rc : end(m, &r, err);
        }
    }
    return rc;
}

/* The caller initialises the parameters afterwards; the optimizer is reset here. */
static int warm(struct uw_model *m, uint32_t n, struct uw_error *err)
{
    const struct uw_spike_guard guard = m->guard;
    uint64_t updates = m->updates;
    m->guard.factor = 0.0f;
    int rc = warm_steps(m, n, err);
    m->guard = guard;
    m->updates = updates;
    for (uint32_t i = 0; i < m->buckets_n; i++) {
        m->buckets[i].pending = false;
    }
    for (uint32_t v = 0; v < UW_OPTIMIZER_VECTORS_MAX && rc == UW_OK; v++) {
        rc = m->worked.state[v] != NULL
                 ? uw_zero(&m->exec, m->worked.state[v], m->trainable_n * sizeof(float))
                 : UW_OK;
    }
    if (rc == UW_OK && m->worked.velocity != NULL) {
        rc = uw_zero(&m->exec, m->worked.velocity, m->params.size_n * sizeof(float));
    }
    /* The processor initialises shared parameters next: the device must be idle. */
    rc = rc < 0 ? rc : uw_device_of(m)->wait(&m->exec);
    return rc < 0 ? failed(err, rc) : rc;
}

/* The network's copy of the gradients that kernels have at g. */
static float *network_copy(const struct uw_model *m, const float *g)
{
    return m->flight->gradients + (g - m->gradients);
}

static int give(struct uw_model *m, float *g, uint32_t count_n, float **out)
{
    *out = network_copy(m, g);
    return uw_device_of(m)->read(&m->exec, *out, g, (size_t)count_n * sizeof *g);
}

static int take_back(struct uw_model *m, float *g, uint32_t count_n)
{
    /* Queued after the copy that fetched them and before their update; does not wait. */
    const struct uw_device_copy back = {g, network_copy(m, g), (size_t)count_n * sizeof *g};
    return uw_device_of(m)->stage(&m->exec, &back, 1);
}

static int fetch(struct uw_model *m, uint32_t bucket)
{
    struct uw_bucket *b = &m->buckets[bucket];
    const float *g = m->gradients + b->offset_n;
    return uw_device_of(m)->fetch(&m->exec, network_copy(m, g), g, (size_t)b->count_n * sizeof *g,
                                  &b->ticket);
}

const struct uw_on_device uw_on_device = {
    .image_bytes = image_bytes,
    .bind = bind,
    .begin = begin,
    .end = end,
    .losses = losses,
    .evaluate = evaluate,
    .forward = forward,
    .warm = warm,
    .pull = pull,
    .push = push,
    .give = give,
    .take_back = take_back,
    .fetch = fetch,
};

#endif
