/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses that sum over the elements of output and target, and the cross-entropy of a class for each
 * position of the output, -log softmax(z)[class], the mean over the positions that count. */
#include "step.h"

#include "uwasa/fmath.h"
#include "uwasa/parts.h"

#include <string.h>

/* ---- checks ---- */

static bool has_positions(const struct uw_head *h)
{
    return h->def->kind == UW_LOSS_CROSS_ENTROPY;
}

uint32_t uw_head_values(const struct uw_layer *layers, const struct uw_head *h)
{
    const struct uw_shape *s = &layers[h->value - 1].out;
    uint32_t classes = h->def->classes_last && s->rank > 1 ? s->w : s->c;
    return has_positions(h) ? h->n / classes : h->n;
}

/* The values that two heads read are the same ones, or all different. */
static int check_places(struct uw_graph *g, const struct uw_head *h, const char *name,
                        struct uw_error *err)
{
    uint32_t values_n = uw_head_values(g->layers, h), end = h->def->first + values_n;
    for (const struct uw_head *e = g->heads; e < h; e++) {
        uint32_t its_n = uw_head_values(g->layers, e), its = e->def->first + its_n;
        bool same = e->def->first == h->def->first && its_n == values_n;
        if (e->def->target == UW_TARGET_VALUES && !same && e->def->first < end &&
            h->def->first < its) {
            return uw_error_set(err, UW_ERR_SHAPE, "layer '%s': another loss has %u target values "
                                "from %u on, this one %u from %u on", name, (unsigned)its_n,
                                (unsigned)e->def->first, (unsigned)values_n,
                                (unsigned)h->def->first);
        }
    }
    g->target_n = end > g->target_n ? end : g->target_n;
    return UW_OK;
}

static int check(struct uw_graph *g, const struct uw_head *h, const struct uw_kernels *k,
                 struct uw_error *err)
{
    const struct uw_layer *l = &g->layers[h->value - 1];
    char out[UW_SHAPE_TEXT_BYTES];
    char in[UW_SHAPE_TEXT_BYTES];

    if (h->def->target == UW_TARGET_INPUT && has_positions(h)) {
        return uw_error_set(err, UW_ERR_INVALID, "layer '%s': cross-entropy needs labels or values",
                            l->def->name);
    }
    if (h->def->target == UW_TARGET_INPUT && h->n != g->in_n) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "layer '%s': its output is %s, the input that it must equal is %s",
                            l->def->name, uw_shape_text(&l->out, out),
                            uw_shape_text(&g->in, in));
    }
    if (h->def->target != UW_TARGET_VALUES) {
        return UW_OK;
    }
    if (uw_device(k) != NULL && (has_positions(h) || h->def->first != 0)) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "layer '%s': its loss is not computed on a "
                            "GPU", l->def->name);
    }
    return h->def->first > UINT32_MAX - h->n
               ? uw_error_set(err, UW_ERR_TOOBIG, "layer '%s': too many target values",
                              l->def->name)
               : check_places(g, h, l->def->name, err);
}

/* The positions of one sample, and the classes of each. */
struct spots {
    const struct uw_loss_def *def;
    uint32_t n, classes;
};

static struct spots spots_of(const struct uw_model *m, const struct uw_head *h)
{
    uint32_t n = uw_head_values(m->layers, h);
    return (struct spots){.def = h->def, .n = n, .classes = h->n / n};
}

/* The first of the head's targets for sample i of the minibatch. */
static const float *values_of(const struct uw_model *m, const struct uw_minibatch *b,
                              const struct uw_head *h, uint32_t i)
{
    return b->target + (size_t)i * m->target_n + h->def->first;
}

static int check_values(const struct uw_model *m, const struct uw_minibatch *b,
                        const struct uw_head *h, struct uw_error *err)
{
    const struct spots s = spots_of(m, h);
    for (uint32_t i = 0; i < b->n && has_positions(h); i++) {
        const float *t = values_of(m, b, h, i);
        for (uint32_t k = 0; k < s.n; k++) {
            if (!(t[k] < (float)s.classes) || (t[k] >= 0.0f && t[k] != (float)(uint32_t)t[k])) {
                return uw_error_set(err, UW_ERR_INVALID, "target value %u of a sample is %g: it is "
                                    "a class, from 0 to %u", (unsigned)(h->def->first + k),
                                    (double)t[k], (unsigned)s.classes - 1u);
            }
        }
    }
    return UW_OK;
}

/* ---- a class for each position ---- */

/* The logits of position k are z[at + i * stride], i < classes. */
struct place {
    size_t at, stride;
};

static struct place place_of(const struct spots *s, uint32_t k)
{
    return s->def->classes_last ? (struct place){.at = (size_t)k * s->classes, .stride = 1}
                                : (struct place){.at = k, .stride = s->n};
}

/* p = softmax(z) at one position. Returns its loss; *right: the largest is the class. */
static double one_position(const struct spots *s, uint32_t k, uint32_t class, const float *z,
                           float *p, bool *right)
{
    const struct place at = place_of(s, k);
    float smoothing = s->def->label_smoothing;
    uint32_t top = 0;
    float sum = 0.0f;
    double shifted = 0.0;
    z += at.at;
    p += at.at;
    for (uint32_t i = 1; i < s->classes; i++) {
        top = z[i * at.stride] > z[top * at.stride] ? i : top;
    }
    float max = z[top * at.stride];
    float own = z[class * at.stride] - max;
    for (uint32_t i = 0; i < s->classes; i++) {
        float down = z[i * at.stride] - max;
        shifted += (double)down;
        p[i * at.stride] = uw_expf(down);
        sum += p[i * at.stride];
    }
    for (uint32_t i = 0; i < s->classes; i++) {
        p[i * at.stride] /= sum;
    }
    *right = top == class;
    return (double)uw_logf(sum) - (double)(1.0f - smoothing) * (double)own -
           (double)smoothing * shifted / s->classes;
}

/* How much a position counts: by its class, which is below 0 where it does not. */
static double weight_of(const struct uw_model *m, const struct uw_labelled *s,
                        const struct uw_head *h, float class)
{
    bool weighs = m->class_weights != NULL && s->pass->training && h == &m->heads[0];
    return !(class >= 0.0f) ? 0.0 : weighs ? (double)m->class_weights[(uint32_t)class] : 1.0;
}

/* Sum of the weights of all positions of the minibatch. */
static double weigh(const struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h)
{
    uint32_t values_n = uw_head_values(m->layers, h);
    double sum = 0.0;
    for (uint32_t i = 0; i < s->b->n; i++) {
        const float *t = values_of(m, s->b, h, i);
        for (uint32_t k = 0; k < values_n; k++) {
            sum += weight_of(m, s, h, t[k]);
        }
    }
    return sum;
}

/* *loss is such that its sum over the minibatch, divided by b->n, is the mean over positions. */
static int positions_forward(struct uw_model *m, const struct uw_labelled *s,
                             const struct uw_head *h, float *p, double *loss, uint32_t *correct_n)
{
    const float *z = uw_value_of(m, h->value, s->x);
    const struct spots spots = spots_of(m, h);
    double sum = 0.0;
    if (s->pass->first == 0) {
        m->heads[h - m->heads].counted = (float)weigh(m, s, h);
    }
    *correct_n = 0;
    for (uint32_t i = 0; i < s->pass->batch_n; i++, z += h->n, p += h->n) {
        const float *t = values_of(m, s->b, h, s->pass->first + i);
        for (uint32_t k = 0; k < spots.n; k++) {
            double weight = weight_of(m, s, h, t[k]);
            bool right = false;
            sum += t[k] >= 0.0f
                       ? weight * one_position(&spots, k, (uint32_t)t[k], z, p, &right) : 0.0;
            *correct_n += right ? 1 : 0;
        }
    }
    *loss = h->counted > 0.0f ? sum * s->b->n / (double)h->counted : 0.0;
    return UW_OK;
}

/* dy has the probabilities, the head the sum of weights. */
static int positions_backward(const struct uw_model *m, const struct uw_labelled *s,
                              const struct uw_head *h, double scale, float *dy)
{
    const struct spots spots = spots_of(m, h);
    double each = h->counted > 0.0f ? scale * s->b->n / (double)h->counted : 0.0;
    float rest = h->def->label_smoothing / (float)spots.classes;
    for (uint32_t i = 0; i < s->pass->batch_n; i++, dy += h->n) {
        const float *t = values_of(m, s->b, h, s->pass->first + i);
        for (uint32_t k = 0; k < spots.n; k++) {
            struct place at = place_of(&spots, k);
            float *own = dy + at.at, factor = (float)(each * weight_of(m, s, h, t[k]));
            for (uint32_t c = 0; c < spots.classes && t[k] >= 0.0f; c++) {
                float q = rest + ((float)c == t[k] ? 1.0f - h->def->label_smoothing : 0.0f);
                own[c * at.stride] = factor * (own[c * at.stride] - q);
            }
            for (uint32_t c = 0; c < spots.classes && !(t[k] >= 0.0f); c++) {
                own[c * at.stride] = 0.0f;
            }
        }
    }
    return UW_OK;
}

/* ---- sums over elements ---- */

static enum uw_elementwise_loss kind_of(const struct uw_loss_def *d)
{
    switch (d->kind) {
    case UW_LOSS_MSE:
        return UW_ELEMENTWISE_MSE;
    case UW_LOSS_L1:
        return UW_ELEMENTWISE_L1;
    case UW_LOSS_HUBER:
        return UW_ELEMENTWISE_HUBER;
    default:
        return UW_ELEMENTWISE_BCE;
    }
}

/* Write labels as one-hot targets t; *correct_n: rows whose largest output is the label. */
static int onehot(uint32_t rows, uint32_t n, const uint32_t *label, const float *z, float *t,
                  uint32_t *correct_n)
{
    memset(t, 0, (size_t)rows * n * sizeof(float));
    *correct_n = 0;
    for (uint32_t i = 0; i < rows; i++, z += n) {
        uint32_t top = 0;
        for (uint32_t k = 1; k < n; k++) {
            top = z[k] > z[top] ? k : top;
        }
        *correct_n += top == label[i] ? 1 : 0;
        t[(size_t)i * n + label[i]] = 1.0f;
    }
    return UW_OK;
}

static float delta_of(const struct uw_loss_def *d)
{
    return d->delta != 0.0f ? d->delta : 1.0f;
}

/* Rows of an output and their targets, which lie `step` floats apart. */
struct rows {
    const float *z, *t;
    uint32_t n, calls;              /* rows, in so many calls of a kernel */
    size_t step;
};

static struct rows rows_of(const struct uw_model *m, const struct uw_labelled *s,
                           const struct uw_head *h, const float *room)
{
    struct rows r = {.z = uw_value_of(m, h->value, s->x), .t = room, .n = s->pass->batch_n,
                     .calls = 1, .step = h->n};
    if (h->def->target == UW_TARGET_INPUT) {
        r.t = s->x;
    } else if (h->def->target == UW_TARGET_VALUES) {
        r.t = values_of(m, s->b, h, s->pass->first);
        r.step = m->target_n;
        r.calls = m->target_n != h->n ? r.n : 1;
    }
    return r;
}

static int forward(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                   float *room, double *loss, uint32_t *correct_n)
{
    if (has_positions(h)) {
        return positions_forward(m, s, h, room, loss, correct_n);
    }
    const struct uw_device_kernels *d = uw_device(m->config.kernels);
    struct rows r = rows_of(m, s, h, room);
    size_t n = (size_t)r.n * h->n / r.calls;
    double sum = 0.0;
    int rc = UW_OK;

    if (h->def->target == UW_TARGET_LABEL) {
        const uint32_t *label = s->b->label + s->pass->first;
        rc = d != NULL ? d->onehot(&m->exec, r.n, h->n, label, r.z, room, correct_n)
                       : onehot(r.n, h->n, label, r.z, room, correct_n);
    } else if (d == NULL) {
        *correct_n = 0;
    }
    for (uint32_t i = 0; i < r.calls && rc == UW_OK; i++) {
        double one = 0.0;
        rc = m->config.kernels->loss->forward(&m->exec, kind_of(h->def), delta_of(h->def), n,
                                              r.z + i * n, r.t + i * r.step,
                                              d != NULL ? loss : &one);
        sum += one;
    }
    if (d == NULL) {
        *loss = sum / h->n;
    }
    return rc;
}

static int backward(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                    double scale, float *dy)
{
    if (has_positions(h)) {
        return positions_backward(m, s, h, scale, dy);
    }
    struct rows r = rows_of(m, s, h, dy);
    size_t n = (size_t)r.n * h->n / r.calls;
    int rc = UW_OK;
    for (uint32_t i = 0; i < r.calls && rc == UW_OK; i++) {
        rc = m->config.kernels->loss->bw_input(&m->exec, kind_of(h->def), delta_of(h->def), n,
                                               r.z + i * n, r.t + i * r.step,
                                               (float)(scale / h->n), dy + i * n);
    }
    return rc;
}

const struct uw_elementwise uw_elementwise = {.check = check, .check_values = check_values,
                                             .forward = forward, .backward = backward};
