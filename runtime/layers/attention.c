/* SPDX-License-Identifier: Apache-2.0
 *
 * Multi-head self-attention, PyTorch's MultiheadAttention(batch_first=True) without dropout:
 *   q, k, v = rows of x W_in^T + b_in;  P = softmax(q k^T / sqrt(E / heads)), a head at a time;
 *   y = (P v of all heads) W_out^T + b_out
 *
 * For every sample aux keeps q, k, v [T][3E], P [heads][T][T] and P v [T][E]; bw_prepare replaces
 * q, k, v with their gradients. Without a backward pass they are in scratch, for one sample and
 * with P of one head. Kernels that take many products in one call get as many samples as AT_ONCE_N
 * allows. */
#include "layer_shared.h"

#include "uwasa/fmath.h"

enum { IN_WEIGHT, IN_BIAS, OUT_WEIGHT, OUT_BIAS };

/* Limit, in floats, of scratch for samples computed together (16 MB); one sample may need more. */
#define AT_ONCE_N ((size_t)1 << 22)

/* Multiply-adds that take as long as one exponential, and as packing one value. */
#define EXP_WORK 24.0
#define PACK_WORK 16.0

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_attention_def *d = &l->def->attention;

    int rc = uw_want_rank(in, 2, "[steps][features]", err);
    if (rc < 0) {
        return rc;
    }
    if (d->heads == 0 || in->w % d->heads != 0) {
        return uw_error_set(err, UW_ERR_INVALID, "%u heads: needs a divisor of the %u features",
                            (unsigned)d->heads, (unsigned)in->w);
    }
    uint64_t kept = (uint64_t)in->c * in->w * 4u;
    if (in->c > UINT16_MAX || kept > UINT32_MAX ||
        kept + (uint64_t)in->c * in->c * d->heads > UINT32_MAX) {
        return uw_error_set(err, UW_ERR_TOOBIG, "its weights of %u steps do not fit 32 bits",
                            (unsigned)in->c);
    }
    l->geometry.attention = (struct uw_attention){.steps = in->c, .features = in->w,
                                                  .heads = d->heads, .causal = d->causal};
    l->tensors_n = d->no_bias ? 2 : 4;
    kept += (uint64_t)in->c * in->c * d->heads;
    l->aux_sample_bytes = uw_size_mul((size_t)kept, sizeof(float));
    return UW_OK;
}

/* The role of tensor t; without biases there are two tensors. */
static uint32_t role_of(const struct uw_layer *l, uint32_t t)
{
    return l->def->attention.no_bias ? 2 * t : t;
}

static struct uw_layer_tensor tensor(const struct uw_layer *l, uint32_t t)
{
    static const char *const suffix[] = {"in_proj_weight", "in_proj_bias", "out_proj.weight",
                                         "out_proj.bias"};
    uint32_t role = role_of(l, t), features = l->geometry.attention.features;
    uint32_t rows = role < OUT_WEIGHT ? 3 * features : features;

    if (role == IN_BIAS || role == OUT_BIAS) {
        return (struct uw_layer_tensor){
            .suffix = suffix[role], .dim = {rows}, .rank = 1, .bias = true};
    }
    return (struct uw_layer_tensor){.suffix = suffix[role], .dim = {rows, features}, .rank = 2,
                                    .init = UW_INIT_WEIGHT, .fan_in = features, .fan_out = rows};
}

/* The parameter, or gradient, with that role; NULL: none. */
static float *by_role(const struct uw_layer *l, float *const *tensors, uint32_t role)
{
    if (l->def->attention.no_bias) {
        return role == IN_WEIGHT ? tensors[0] : role == OUT_WEIGHT ? tensors[1] : NULL;
    }
    return tensors[role];
}

static struct uw_dense in_dense(const struct uw_layer *l)
{
    uint32_t features = l->geometry.attention.features;
    return (struct uw_dense){.in = features, .out = 3 * features};
}

static struct uw_dense out_dense(const struct uw_layer *l)
{
    uint32_t features = l->geometry.attention.features;
    return (struct uw_dense){.in = features, .out = features};
}

/* The products of one head. */
enum part {
    SCORES,                         /* [T][T] = [T][d] [T][d]^T */
    MIX,                            /* [T][d] = [T][T] [T][d] */
    MIX_BACK,                       /* [T][d] = [T][T]^T [T][d] */
    PARTS_N
};

static struct uw_gemm product(const struct uw_layer *l, enum part part)
{
    const struct uw_attention *g = &l->geometry.attention;
    uint32_t depth = g->features / g->heads;
    struct uw_gemm m = {.trans_a = part == MIX_BACK, .trans_b = part == SCORES, .m = g->steps,
                        .n = part == SCORES ? g->steps : depth,
                        .k = part == SCORES ? depth : g->steps,
                        .lda = part == SCORES ? 3 * g->features : g->steps,
                        .ldb = 3 * g->features,
                        .ldc = part == SCORES ? g->steps : 3 * g->features, .alpha = 1.0f};
    return m;
}

static float scale_of(const struct uw_attention *g)
{
    return 1.0f / uw_sqrtf((float)(g->features / g->heads));
}

/* Floats of one sample. */
static size_t qkv_n(const struct uw_attention *g)
{
    return 3 * (size_t)g->steps * g->features;
}

static size_t weights_n(const struct uw_attention *g)
{
    return (size_t)g->steps * g->steps;
}

/* The layer's own scratch for a sample. Forward without aux: q, k, v, P v and P of one head.
 * Backward: gradients of P v, P and q of one head. Samples together: P and q of all heads. */
static size_t own_scratch_n(const struct uw_layer *l, bool joined)
{
    const struct uw_attention *g = &l->geometry.attention;
    size_t values = (size_t)g->steps * g->features;
    if (!joined) {
        return 4 * values + weights_n(g);
    }
    return (l->keeps_aux ? 2 : 4) * values + g->heads * weights_n(g);
}

/* Samples computed together; 0: the kernels take one product per call. */
static uint32_t joined_n(const struct uw_layer *l, const struct uw_kernels *k, uint32_t batch_n)
{
    if (uw_recurrence(k) == NULL) {
        return 0;
    }
    size_t most = AT_ONCE_N / own_scratch_n(l, true);
    return most < 1 ? 1 : most < batch_n ? (uint32_t)most : batch_n;
}

/* The layer's own scratch for the samples of one item, which are computed together. */
static size_t own_bytes(const struct uw_layer *l, const struct uw_kernels *k, uint32_t batch_n)
{
    uint32_t many = joined_n(l, k, batch_n);
    return uw_arena_padded(uw_size_mul(uw_size_mul(own_scratch_n(l, many > 0), many > 0 ? many : 1),
                                       sizeof(float)));
}

/* Most scratch of the products of one head, and of dense layers over those rows. */
static size_t kernel_bytes(const struct uw_layer *l, const struct uw_kernels *k, uint32_t rows,
                           uint32_t threads)
{
    const struct uw_dense dense[] = {in_dense(l), out_dense(l)};
    size_t most = 0;
    for (uint32_t i = 0; i < 2; i++) {
        size_t bytes = k->dense_scratch_bytes(k, &dense[i], rows, threads);
        most = bytes > most ? bytes : most;
    }
    for (int part = 0; part < PARTS_N; part++) {
        struct uw_gemm m = product(l, (enum part)part);
        size_t bytes = k->gemm_scratch_bytes(k, &m, threads);
        most = bytes > most ? bytes : most;
    }
    return uw_arena_padded(most);
}

/* Scratch of an item: some samples of the minibatch. */
static size_t item_bytes(const struct uw_layer *l, const struct uw_kernels *k, uint32_t batch_n,
                         uint32_t threads)
{
    uint32_t many = joined_n(l, k, batch_n);
    size_t own = own_bytes(l, k, batch_n);
    size_t bytes = kernel_bytes(l, k, (many > 0 ? many : 1) * l->geometry.attention.steps, threads);
    return bytes > SIZE_MAX - own ? SIZE_MAX : own + bytes;
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    size_t own = own_bytes(l, k, batch_n);
    size_t whole = kernel_bytes(l, k, batch_n * l->geometry.attention.steps, threads);
    size_t heads = uw_size_mul(kernel_bytes(l, k, 0, 1), threads);
    size_t one = item_bytes(l, k, batch_n, threads);
    size_t each = uw_items_divide(batch_n, threads)
                      ? uw_size_mul(item_bytes(l, k, batch_n, 1), threads) : 0;
    whole = heads > whole ? heads : whole;
    size_t most = whole > SIZE_MAX - own ? SIZE_MAX : own + whole;
    most = one > most ? one : most;
    return each > most ? each : most;
}

/* e with the scratch that follows the layer's own. */
static struct uw_exec after_own(const struct uw_exec *e, const struct uw_layer *l, uint32_t batch_n)
{
    struct uw_exec rest = *e;
    size_t own = own_bytes(l, e->kernels, batch_n);
    rest.scratch = (uint8_t *)e->scratch + own;
    rest.scratch_bytes -= own;
    return rest;
}

/* Where a minibatch's values are. head_step 0: all heads use the same P, which is not kept. */
struct tape {
    float *qkv, *mixed, *weights;
    size_t head_step;
};

static struct tape tape_of(const struct uw_layer *l, uint32_t samples, float *memory, bool keeps)
{
    const struct uw_attention *g = &l->geometry.attention;
    struct tape t = {.qkv = memory, .mixed = memory + samples * qkv_n(g),
                     .head_step = keeps ? weights_n(g) : 0};
    t.weights = t.mixed + (size_t)samples * l->out_n;
    return t;
}

/* Floats from [0] one sample and [1] one head to the next: in q, k, v, in [T][E] and in P. */
struct steps {
    size_t qkv[2], mixed[2], weights[2];
};

static struct steps steps_of(const struct uw_layer *l)
{
    const struct uw_attention *g = &l->geometry.attention;
    size_t depth = g->features / g->heads;
    return (struct steps){.qkv = {qkv_n(g), depth}, .mixed = {l->out_n, depth},
                          .weights = {g->heads * weights_n(g), weights_n(g)}};
}

/* Heads computed together: all heads of `samples` samples, or a single head. */
struct group {
    uint32_t samples, heads;
};

/* Run product m for every head of the group. */
static int products(const struct uw_exec *e, const struct group *n, const struct uw_gemm *m,
                    const float *a, const size_t a_step[2], const float *b,
                    const size_t b_step[2], float *c, const size_t c_step[2])
{
    const struct uw_gemm_batch batch = {.n = {n->samples, n->heads},
                                        .a = {a_step[0], a_step[1]},
                                        .b = {b_step[0], b_step[1]},
                                        .c = {c_step[0], c_step[1]}};
    const struct uw_recurrence_kernels *many = uw_recurrence(e->kernels);
    return many != NULL ? many->products(e, m, &batch, a, b, c) : e->kernels->gemm(e, m, a, b, c);
}

/* Compute P and P v of the group whose first q is given. */
static int attend(const struct uw_exec *e, const struct uw_layer *l, const struct group *n,
                  const float *q, float *weights, float *mixed)
{
    const struct uw_attention *g = &l->geometry.attention;
    const struct steps s = steps_of(l);
    struct uw_gemm scores = product(l, SCORES), mix = product(l, MIX);
    const float *k = q + g->features, *v = k + g->features;
    size_t rows = (size_t)n->samples * n->heads * g->steps;

    scores.alpha = scale_of(g);
    mix.ldc = g->features;
    int rc = products(e, n, &scores, q, s.qkv, k, s.qkv, weights, s.weights);
    rc = rc < 0 ? rc
                : e->kernels->sequence->softmax_fw(e, rows, g->steps, g->causal, weights, weights);
    return rc < 0 ? rc : products(e, n, &mix, weights, s.weights, v, s.qkv, mixed, s.mixed);
}

/* Multiply-adds and bytes of attend for all heads of the samples, for uw_run_items. */
static double work_of(const struct uw_layer *l, uint32_t samples)
{
    const struct uw_attention *g = &l->geometry.attention;
    double rows = (double)samples * g->heads * g->steps, depth = g->features / g->heads;
    return rows * (2.0 * depth * g->steps + EXP_WORK * g->steps + PACK_WORK * depth);
}

static double bytes_of(const struct uw_layer *l, uint32_t samples)
{
    const struct steps s = steps_of(l);
    size_t sample = s.qkv[0] + s.mixed[0] + s.weights[0];
    return (double)samples * (double)(sample * sizeof(float));
}

struct attending {
    const struct uw_layer *l;
    const struct tape *t;
    uint32_t heads_n;           /* of an item */
};

static int attend_item(const struct uw_exec *e, const void *arg, uint32_t item)
{
    const struct attending *a = arg;
    const struct steps s = steps_of(a->l);
    const struct group one = {1, 1};
    uint32_t heads = a->l->geometry.attention.heads;
    int rc = UW_OK;
    for (uint32_t i = item * a->heads_n; i < (item + 1) * a->heads_n && rc == UW_OK; i++) {
        uint32_t sample = i / heads, head = i % heads;
        rc = attend(e, a->l, &one, a->t->qkv + sample * s.qkv[0] + head * s.qkv[1],
                    a->t->weights + i * a->t->head_step,
                    a->t->mixed + sample * s.mixed[0] + head * s.mixed[1]);
    }
    return rc;
}

/* All heads of the samples: by one call of the kernels, or divided over the threads; one after the
 * other where they use the same P. */
static int attend_all(const struct uw_exec *e, const struct uw_layer *l, const struct tape *t,
                      uint32_t samples)
{
    uint32_t all = samples * l->geometry.attention.heads;
    const struct group together = {samples, l->geometry.attention.heads};

    if (uw_recurrence(e->kernels) != NULL) {
        return attend(e, l, &together, t->qkv, t->weights, t->mixed);
    }
    const struct attending a = {l, t, t->head_step == 0 ? all : 1};
    return uw_run_items(e, work_of(l, samples), bytes_of(l, samples), all / a.heads_n,
                        attend_item, &a);
}

/* Forward pass of `samples` samples from x on. */
static int run(const struct uw_exec *e, const struct uw_layer *l, const struct tape *t,
               uint32_t samples, const float *x, float *y)
{
    const struct uw_dense in = in_dense(l), out = out_dense(l);
    uint32_t rows = samples * l->geometry.attention.steps;
    int rc = e->kernels->dense_fw(e, &in, rows, x, by_role(l, l->param, IN_WEIGHT),
                                  by_role(l, l->param, IN_BIAS), t->qkv);
    rc = rc < 0 ? rc : attend_all(e, l, t, samples);
    return rc < 0 ? rc
                  : e->kernels->dense_fw(e, &out, rows, t->mixed,
                                         by_role(l, l->param, OUT_WEIGHT),
                                         by_role(l, l->param, OUT_BIAS), y);
}

/* A pass over the minibatch, an item the samples that are computed together. */
struct passing {
    const struct uw_layer *l;
    uint32_t batch_n, samples_n;    /* all, and of an item */
    const float *x;
    float *y;
};

static struct passing passing_of(const struct uw_exec *e, const struct uw_layer *l,
                                 uint32_t batch_n)
{
    uint32_t many = joined_n(l, e->kernels, batch_n);
    return (struct passing){.l = l, .batch_n = batch_n, .samples_n = many > 0 ? many : 1};
}

static int run_items(const struct uw_exec *e, const struct passing *p, double work, uw_item_fn fn)
{
    uint32_t items = (p->batch_n + p->samples_n - 1) / p->samples_n;
    return uw_run_items(e, work, bytes_of(p->l, p->batch_n), items, fn, p);
}

/* The samples of an item. */
static uint32_t samples_of(const struct passing *p, uint32_t item)
{
    uint32_t rest = p->batch_n - item * p->samples_n;
    return rest < p->samples_n ? rest : p->samples_n;
}

static int forward_item(const struct uw_exec *e, const void *arg, uint32_t item)
{
    const struct passing *p = arg;
    uint32_t samples = samples_of(p, item);
    size_t n = (size_t)item * p->samples_n;
    const struct uw_exec rest = after_own(e, p->l, p->batch_n);
    const struct tape t = tape_of(p->l, samples, e->scratch, joined_n(p->l, e->kernels, 1) > 0);
    return run(&rest, p->l, &t, samples, p->x + n * p->l->in_n, p->y + n * p->l->out_n);
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    if (l->aux != NULL) {
        const struct uw_exec rest = after_own(e, l, p->batch_n);
        const struct tape t = tape_of(l, p->batch_n, l->aux, true);
        return run(&rest, l, &t, p->batch_n, x[0], y);
    }
    struct passing all = passing_of(e, l, p->batch_n);
    double rows = (double)p->batch_n * l->in_n, features = l->geometry.attention.features;
    all.x = x[0];
    all.y = y;
    return run_items(e, &all, work_of(l, p->batch_n) + 4.0 * rows * features, forward_item);
}

/* Replace q, k, v of the group with their gradients.
 *   dmixed  [T][E] from the first head's first column, gradient of P v
 *   room    scratch: [T][T] floats for each head, then [T][depth] for each head */
static int group_backward(const struct uw_exec *e, const struct uw_layer *l, const struct group *n,
                          const float *weights, float *q, const float *dmixed, float *room)
{
    const struct uw_attention *g = &l->geometry.attention;
    const struct steps s = steps_of(l);
    uint32_t width = n->heads * (g->features / g->heads);
    float *k = q + g->features, *v = k + g->features;
    float *dq = room + (size_t)n->samples * n->heads * s.weights[1];
    size_t rows = (size_t)n->samples * g->steps;
    struct uw_gemm m = product(l, SCORES);

    m.lda = g->features;                            /* dP = dmixed v^T */
    int rc = products(e, n, &m, dmixed, s.mixed, v, s.qkv, room, s.weights);
    rc = rc < 0 ? rc
                : e->kernels->sequence->softmax_bw_input(e, rows * n->heads, g->steps, weights,
                                                         room, room);
    m = product(l, MIX_BACK);
    m.ldb = g->features;                            /* dv = P^T dmixed */
    rc = rc < 0 ? rc : products(e, n, &m, weights, s.weights, dmixed, s.mixed, v, s.qkv);
    m = product(l, MIX);
    m.alpha = scale_of(g);                          /* dq = dS k / sqrt(depth) */
    m.ldc = width;
    rc = rc < 0 ? rc : products(e, n, &m, room, s.weights, k, s.qkv, dq, s.mixed);
    m = product(l, MIX_BACK);
    m.alpha = scale_of(g);                          /* dk = dS^T q / sqrt(depth) */
    rc = rc < 0 ? rc : products(e, n, &m, room, s.weights, q, s.qkv, k, s.qkv);
    const struct uw_copy c = {.rows = rows, .row_n = width, .x_step = width,
                              .y_step = 3 * (size_t)g->features};
    return rc < 0 ? rc : e->kernels->copy->copy(e, &c, dq, q, false);
}

/* group_backward of all heads of samples n .. n + samples - 1; dmixed is scratch. */
static int heads_backward(const struct uw_exec *e, const struct uw_layer *l, const struct tape *t,
                          uint32_t n, uint32_t samples, float *dmixed)
{
    const struct uw_attention *g = &l->geometry.attention;
    const struct steps s = steps_of(l);
    const struct group one = {1, 1}, all = {samples, g->heads};
    const float *weights = t->weights + n * s.weights[0];
    float *qkv = t->qkv + n * s.qkv[0], *room = dmixed + (size_t)samples * l->out_n;
    int rc = UW_OK;

    if (uw_recurrence(e->kernels) != NULL) {
        return group_backward(e, l, &all, weights, qkv, dmixed, room);
    }
    for (uint32_t h = 0; h < g->heads && rc == UW_OK; h++) {
        rc = group_backward(e, l, &one, weights + h * s.weights[1], qkv + h * s.qkv[1],
                            dmixed + h * s.mixed[1], room);
    }
    return rc;
}

static int bw_prepare_item(const struct uw_exec *e, const void *arg, uint32_t item)
{
    const struct passing *p = arg;
    const struct uw_layer *l = p->l;
    const struct tape t = tape_of(l, p->batch_n, l->aux, true);
    const struct uw_exec rest = after_own(e, l, p->batch_n);
    const struct uw_dense out = out_dense(l);
    uint32_t samples = samples_of(p, item), n = item * p->samples_n;
    float *dmixed = e->scratch;
    int rc = e->kernels->dense_bw_input(&rest, &out, samples * l->geometry.attention.steps,
                                        l->dy + (size_t)n * l->out_n,
                                        by_role(l, l->param, OUT_WEIGHT), dmixed, false);
    return rc < 0 ? rc : heads_backward(&rest, l, &t, n, samples, dmixed);
}

static int bw_prepare(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                      const float *const *x)
{
    (void)x;
    const struct passing all = passing_of(e, l, p->batch_n);
    double rows = (double)p->batch_n * l->out_n;
    return run_items(e, &all,
                     2.0 * work_of(l, p->batch_n) + rows * l->geometry.attention.features,
                     bw_prepare_item);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    const struct uw_exec rest = after_own(e, l, p->batch_n);
    const struct uw_dense in = in_dense(l);
    return e->kernels->dense_bw_input(&rest, &in, p->batch_n * l->geometry.attention.steps, l->aux,
                                      by_role(l, l->param, IN_WEIGHT), dx, accumulate);
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d)
{
    const struct tape t = tape_of(l, p->batch_n, l->aux, true);
    const struct uw_exec rest = after_own(e, l, p->batch_n);
    const struct uw_dense in = in_dense(l), out = out_dense(l);
    uint32_t rows = p->batch_n * l->geometry.attention.steps;
    int rc = e->kernels->dense_bw_param(&rest, &in, rows, x[0], t.qkv, scale,
                                        by_role(l, d, IN_WEIGHT), by_role(l, d, IN_BIAS));
    return rc < 0 ? rc
                  : e->kernels->dense_bw_param(&rest, &out, rows, t.mixed, l->dy, scale,
                                               by_role(l, d, OUT_WEIGHT),
                                               by_role(l, d, OUT_BIAS));
}

const struct uw_layer_ops uw_layer_attention = {
    .name = "attention",
    .param_reads_x = true,
    .infer = infer,
    .tensor = tensor,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_prepare = bw_prepare,
    .bw_input = bw_input,
    .bw_param = bw_param,
};
