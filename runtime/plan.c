/* SPDX-License-Identifier: Apache-2.0
 *
 * First compute lifetimes, then offsets: blocks are placed from the largest to the smallest, each
 * at the lowest offset that is free during its lifetime. Blocks overlap in memory only if their
 * lifetimes are disjoint; tests check that over random graphs. Then other orders are tried. */
#include "step.h"

#include "uwasa/arena.h"
#include "uwasa/parts.h"

#define IMPROVE_WORK 4000000u       /* limit, about, of pairs of slots compared */

struct uw_planner {
    struct uw_graph *g;
    uint32_t batch_n;
    bool training;
    struct uw_slot *slots;
    uint32_t *priority, *placed;    /* [UW_SLOTS_N] each */
};

static void live(struct uw_planner *p, uint32_t slot, uint32_t from, uint32_t to, size_t bytes)
{
    struct uw_slot *s = &p->slots[slot];
    if (s->bytes == 0) {
        *s = (struct uw_slot){.birth = from, .death = to, .bytes = bytes};
        return;
    }
    s->birth = from < s->birth ? from : s->birth;
    s->death = to > s->death ? to : s->death;
    s->bytes = bytes > s->bytes ? bytes : s->bytes;
}

static size_t batch_bytes(const struct uw_planner *p, const struct uw_layer *l, size_t sample_bytes)
{
    return uw_arena_padded(uw_size_mul(sample_bytes, uw_samples(l, p->batch_n)));
}

/* Bytes that layer l keeps in addition to its output. */
static size_t aux_bytes(const struct uw_planner *p, const struct uw_layer *l)
{
    size_t samples = uw_size_mul(l->aux_sample_bytes, uw_samples(l, p->batch_n));
    return samples > SIZE_MAX - l->aux_bytes ? SIZE_MAX
                                             : uw_arena_padded(samples + l->aux_bytes);
}

static bool reads_value_of_layer(const struct uw_graph *g, const struct uw_layer *l,
                                 uint32_t *base)
{
    *base = uw_graph_base(g->layers, l->input[0]);
    return *base != UW_VALUE_INPUT;
}

/* Whether layer l is the only reader of its input. */
static bool is_only_reader(const struct uw_graph *g, const struct uw_layer *l, uint32_t *base)
{
    return reads_value_of_layer(g, l, base) && g->layers[*base - 1].readers_n == 1;
}

/* Whether layer l could write its output over its input. base: set to the input's value. */
static bool may_share_input(const struct uw_graph *g, const struct uw_layer *l, uint32_t *base)
{
    return l->ops->in_place && is_only_reader(g, l, base) && !g->layers[*base - 1].reads_y;
}

/* Whether it does in this plan: only if the input is of the same stage, since recomputing the
 * output needs the input of another stage. */
static bool shares_input(const struct uw_graph *g, const struct uw_layer *l, uint32_t *base)
{
    return may_share_input(g, l, base) && g->layers[*base - 1].stage == l->stage;
}

static void find_roots(const struct uw_graph *g)
{
    uint32_t base;

    for (uint32_t i = 0; i < g->layers_n; i++) {
        struct uw_layer *l = &g->layers[i];
        bool shares = l->deferred ? reads_value_of_layer(g, l, &base)
                                  : shares_input(g, l, &base);
        l->y_root = shares ? g->layers[base - 1].y_root : (uint16_t)i;
        l->dy_root = (uint16_t)i;
    }
    for (uint32_t i = g->layers_n; i-- > 0;) {
        const struct uw_layer *l = &g->layers[i];
        if (l->ops->gradient_in_place && !l->view && is_only_reader(g, l, &base)) {
            g->layers[base - 1].dy_root = g->layers[i].dy_root;
        }
    }
}

/* Whether the backward pass of layer l reads its input number k. */
static bool backward_reads(const struct uw_graph *g, const struct uw_layer *l, uint32_t k)
{
    uint32_t base = uw_graph_base(g->layers, l->input[k]);

    if (!l->needs_gradient || l->view || base == UW_VALUE_INPUT) {
        return false;
    }
    return (l->ops->param_reads_x && l->trained != 0) ||
           (l->ops->weight_reads_x && uw_layer_trains_weights(l)) ||
           (l->ops->input_reads_x &&
            (l->passes_down || l->ops->bw_prepare != NULL));
}

/* Whether the backward pass of layer l reads the value. */
static bool reads(const struct uw_graph *g, const struct uw_layer *l, uint32_t value,
                  bool in_backward)
{
    for (uint32_t k = 0; k < l->inputs_n && !l->view; k++) {
        if (uw_graph_base(g->layers, l->input[k]) == value &&
            (!in_backward || backward_reads(g, l, k))) {
            return true;
        }
    }
    return false;
}

/* Number the steps after the losses. Returns the last one. */
static uint32_t number_steps(struct uw_graph *g)
{
    uint32_t t = g->layers_n;
    uint32_t end = g->layers_n;

    while (end > 0) {
        uint32_t first = end;
        while (first > 0 && g->layers[first - 1].stage == g->layers[end - 1].stage) {
            first--;
        }
        for (uint32_t i = first; i < end; i++) {
            if (g->layers[i].recomputed) {
                g->layers[i].t_again = (uint16_t)++t;
            }
        }
        for (uint32_t i = end; i-- > first;) {
            g->layers[i].t_bw = (uint16_t)++t;
        }
        end = first;
    }
    return t;
}

static uint32_t later(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The last steps that read layer i's output: as the forward pass wrote it, and as recomputed. */
static void last_uses(const struct uw_planner *p, uint32_t i, uint32_t *forward, uint32_t *again)
{
    const struct uw_graph *g = p->g;
    const struct uw_layer *l = &g->layers[i];
    uint32_t first = i, second = l->recomputed ? l->t_again : i;

    if (l->last_reader == g->layers_n) {
        first = g->layers_n;
    }
    if (p->training && l->reads_y && l->needs_gradient) {
        second = later(second, l->t_bw);
    }
    for (uint32_t r = i + 1; r < g->layers_n; r++) {
        const struct uw_layer *reader = &g->layers[r];
        if (!reads(g, reader, i + 1, false) || (!p->training && reader->auxiliary)) {
            continue;
        }
        first = later(first, r);
        second = reader->recomputed ? later(second, reader->t_again) : second;
        if (p->training && reads(g, reader, i + 1, true)) {
            second = later(second, reader->t_bw);
        }
    }
    *forward = l->recomputed ? first : later(first, second);
    *again = second;
}

static void live_aux(struct uw_planner *p, uint32_t i)
{
    const struct uw_layer *l = &p->g->layers[i];
    size_t bytes = aux_bytes(p, l);

    if (bytes == 0) {
        return;
    }
    bool again = l->recomputed && !l->ops->again_reads_aux;
    live(p, UW_SLOT_AUX(i), i, again ? i : l->t_bw, bytes);
    if (again) {
        live(p, UW_SLOT_AUX_AGAIN(i), l->t_again, l->t_bw, bytes);
    }
}

/* Losses without a backward pass need memory of their own; they run one after the other and share
 * it. */
static void live_losses(struct uw_planner *p)
{
    const struct uw_graph *g = p->g;

    for (uint32_t h = 0; h < (p->training ? g->heads_n : 1); h++) {
        uint32_t base = uw_graph_base(g->layers, g->heads[h].value);
        if (!p->training || base == UW_VALUE_INPUT || !g->layers[base - 1].needs_gradient) {
            live(p, UW_SLOT_P(g->layers_n), g->layers_n, g->layers_n,
                 batch_bytes(p, &g->layers[g->heads[h].value - 1],
                             uw_size_mul(g->heads[h].n, sizeof(float))));
        }
    }
}

static void find_lifetimes(struct uw_planner *p)
{
    struct uw_graph *g = p->g;
    uint32_t forward, again;

    for (uint32_t i = 0; i < g->layers_n; i++) {
        const struct uw_layer *l = &g->layers[i];
        if (l->view || (l->auxiliary && !p->training)) {
            continue;
        }
        size_t bytes = batch_bytes(p, l, uw_size_mul(l->out_n, sizeof(float)));
        last_uses(p, i, &forward, &again);
        live(p, UW_SLOT_Y(l->y_root), i, forward, bytes);
        if (l->recomputed) {
            live(p, UW_SLOT_Y_AGAIN(l->y_root), l->t_again, again, bytes);
        }
        if (!p->training || !l->needs_gradient) {
            continue;
        }
        uint32_t first = l->last_reader == g->layers_n ? g->layers_n
                                                       : g->layers[l->last_reader].t_bw;
        live(p, UW_SLOT_DY(l->dy_root), first, l->t_bw, bytes);
        live_aux(p, i);
    }
    live_losses(p);
}

/* Larger first, then older first, then by index: a total order, so plans are reproducible. */
static bool placed_before(const struct uw_slot *slots, uint32_t a, uint32_t b)
{
    if (slots[a].bytes != slots[b].bytes) {
        return slots[a].bytes > slots[b].bytes;
    }
    return slots[a].birth != slots[b].birth ? slots[a].birth < slots[b].birth : a < b;
}

static void sort_by_size(const struct uw_slot *slots, uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = i;
        for (; j > 0 && placed_before(slots, i, order[j - 1]); j--) {
            order[j] = order[j - 1];
        }
        order[j] = i;
    }
}

static bool lifetimes_meet(const struct uw_slot *a, const struct uw_slot *b)
{
    return a->birth <= b->death && b->birth <= a->death;
}

/* The lowest offset that is free during the slot's lifetime. order[0 .. placed-1]: the placed
 * slots, sorted by offset. */
static size_t find_gap(const struct uw_slot *slots, const uint32_t *order, uint32_t placed,
                       const struct uw_slot *slot)
{
    size_t offset = 0;
    for (uint32_t i = 0; i < placed; i++) {
        const struct uw_slot *other = &slots[order[i]];
        if (!lifetimes_meet(slot, other)) {
            continue;
        }
        if (other->offset >= offset && other->offset - offset >= slot->bytes) {
            break;
        }
        if (other->offset + other->bytes > offset) {
            offset = other->offset + other->bytes;
        }
    }
    return offset;
}

/* Place the slots in the order of priority[n]; placed[n] is scratch. Returns the bytes needed. */
static size_t place_slots(struct uw_slot *slots, const uint32_t *priority, uint32_t *placed,
                          uint32_t n)
{
    size_t top = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct uw_slot *slot = &slots[priority[i]];
        if (slot->bytes == 0) {
            continue;
        }
        slot->offset = find_gap(slots, placed, count, slot);
        if (slot->bytes > SIZE_MAX / 2 || slot->offset > SIZE_MAX / 2) {
            return SIZE_MAX;
        }
        if (slot->offset + slot->bytes > top) {
            top = slot->offset + slot->bytes;
        }
        uint32_t j = count++;
        for (; j > 0 && slots[placed[j - 1]].offset > slot->offset; j--) {
            placed[j] = placed[j - 1];
        }
        placed[j] = priority[i];
    }
    return top;
}

/* The most bytes in use at one time: no placement needs less. */
static size_t lower_bound(const struct uw_slot *slots, uint32_t n)
{
    size_t most = 0;

    for (uint32_t i = 0; i < n; i++) {
        size_t sum = 0;
        for (uint32_t k = 0; k < n && slots[i].bytes != 0; k++) {
            if (slots[k].birth <= slots[i].birth && slots[i].birth <= slots[k].death) {
                sum += slots[k].bytes;
            }
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* Improve the placement of plan_stages: swap priorities at random and keep what is no worse. The
 * same graph always gets the same plan. Returns the bytes, at most `bytes`. */
static size_t improve(struct uw_planner *p, size_t bytes)
{
    uint32_t n = UW_SLOTS_N(p->g->layers_n);
    size_t least = lower_bound(p->slots, n);
    struct uw_rng rng;

    uw_rng_seed(&rng, n);
    for (uint32_t work = 0; work < IMPROVE_WORK && bytes > least; work += n * n) {
        uint32_t a = uw_rng_below(&rng, n), b = uw_rng_below(&rng, n);
        uint32_t keep_a = p->priority[a], keep_b = p->priority[b];
        if (p->slots[keep_a].bytes == p->slots[keep_b].bytes) {
            continue;
        }
        p->priority[a] = keep_b;
        p->priority[b] = keep_a;
        size_t now = place_slots(p->slots, p->priority, p->placed, n);
        if (now > bytes) {
            p->priority[a] = keep_a;
            p->priority[b] = keep_b;
        } else {
            bytes = now;
        }
    }
    return place_slots(p->slots, p->priority, p->placed, n);
}

/* Plan for the layers' current stages; layers that are `kept` are not recomputed. Returns the
 * bytes, SIZE_MAX on overflow. */
static size_t plan_stages(struct uw_planner *p)
{
    uint32_t n = UW_SLOTS_N(p->g->layers_n);

    for (uint32_t i = 0; i < n; i++) {
        p->slots[i] = (struct uw_slot){0};
    }
    find_roots(p->g);
    if (uw_parts.budgeting != NULL) {
        uw_parts.budgeting->find_recomputed(p);
    }
    number_steps(p->g);
    find_lifetimes(p);
    sort_by_size(p->slots, p->priority, n);
    return place_slots(p->slots, p->priority, p->placed, n);
}

/* ---- recomputation ----
 *
 * Under a budget, the layers are divided into stages of about equal size, at places where few
 * values cross. Before the backward pass of a stage, the outputs that it needs are recomputed.
 * Layers with the least time per byte saved are recomputed first: batch norms and activations, then
 * products of short rows. The plan within the budget that recomputes the least is taken. */

#define STAGES_MAX 64u
#define LEVEL_MIN 4.0               /* cost of recomputing a float of output */
#define LEVEL_MAX 4096.0
#define PRODUCTS_A_FLOAT 8.0        /* multiply-adds in the time that moving a float takes */

/* The size of a stage. MEMORY: bytes of outputs and aux. OUTPUTS: counts outputs that overwrite
 * others too, and weighs aux four times. Either may give the better plan. */
enum measure { MEMORY, OUTPUTS, MEASURES_N };

/* For every place `at` between two layers: slots[at].bytes = floats computed before and read after
 * it; slots[at].offset = size of the layers before it. */
static void weigh_cuts(struct uw_planner *p, enum measure measure)
{
    const struct uw_graph *g = p->g;
    size_t before = 0;
    uint32_t base;

    for (uint32_t at = 0; at < g->layers_n; at++) {
        const struct uw_layer *l = &g->layers[at];
        bool counts = measure == OUTPUTS || (!l->view && !may_share_input(g, l, &base));
        p->slots[at].bytes = 0;
        p->slots[at].offset = before;
        size_t sample = measure == MEMORY ? uw_size_mul(l->out_n, sizeof(float)) : l->out_n;
        before += counts ? batch_bytes(p, l, sample) : 0;
        before += aux_bytes(p, l);
        for (uint32_t i = 0; i < at; i++) {
            if (!g->layers[i].view && g->layers[i].last_reader >= at) {
                p->slots[at].bytes += g->layers[i].out_n;
            }
        }
    }
}

/* Of the places after layer `after` and near `target`, the one that the fewest floats cross; if
 * none is near, the nearest; 0: none. A layer that works in place stays with the one before it. */
static uint32_t find_cut(const struct uw_planner *p, uint32_t after, double target, double width)
{
    uint32_t best = 0;
    double best_cost = 0;
    uint32_t base;

    for (uint32_t at = after + 1; at < p->g->layers_n; at++) {
        if (may_share_input(p->g, &p->g->layers[at], &base)) {
            continue;
        }
        double off = ((double)p->slots[at].offset - target) / width;
        bool near = off > -0.5 && off < 0.5;
        double cost = (near ? 0.0 : 1e30 * off * off) + (double)p->slots[at].bytes;
        if (best == 0 || cost < best_cost) {
            best = at;
            best_cost = cost;
        }
    }
    return best;
}

static void cut_into_stages(struct uw_planner *p, uint32_t stages, enum measure measure)
{
    struct uw_graph *g = p->g;

    weigh_cuts(p, measure);
    double width = (double)p->slots[g->layers_n - 1].offset / stages + 1.0;
    uint32_t stage = 0;
    uint32_t cut = find_cut(p, 0, width, width);
    for (uint32_t i = 0; i < g->layers_n; i++) {
        if (i == cut && i > 0) {
            stage++;
            cut = stage + 1 < stages ? find_cut(p, i, width * (stage + 1), width) : 0;
        }
        g->layers[i].stage = (uint16_t)stage;
    }
}

/* Time of a layer's forward pass for a sample, in units of one float moved. */
static double cost_of(const struct uw_layer *l)
{
    return (double)l->in_n * l->inputs_n + l->out_n +
           (double)uw_layer_multiply_adds(l) / PRODUCTS_A_FLOAT;
}

/* Keep the outputs that cost more than `level` per float; recompute the others. */
static size_t plan_level(struct uw_planner *p, double level)
{
    struct uw_graph *g = p->g;

    for (uint32_t i = 0; i < g->layers_n; i++) {
        struct uw_layer *l = &g->layers[i];
        l->kept = level <= LEVEL_MAX && cost_of(l) > level * l->out_n;
    }
    return plan_stages(p);
}

static double cost_again(const struct uw_planner *p)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < p->g->layers_n; i++) {
        sum += p->g->layers[i].recomputed ? cost_of(&p->g->layers[i]) : 0.0;
    }
    return sum;
}

static void remember(struct uw_planner *p)
{
    for (uint32_t i = 0; i < p->g->layers_n; i++) {
        struct uw_layer *l = &p->g->layers[i];
        l->best_stage = l->stage;
        l->best_kept = l->kept;
    }
}

/* While the limit allows, keep further layers, one by one from the last. */
static void keep_more(struct uw_planner *p, size_t limit_bytes)
{
    struct uw_graph *g = p->g;

    plan_stages(p);
    for (uint32_t i = g->layers_n; i-- > 0;) {
        struct uw_layer *l = &g->layers[i];
        if (!l->recomputed) {
            continue;
        }
        l->kept = true;
        double before = cost_again(p);
        if (plan_stages(p) > limit_bytes || cost_again(p) > before) {
            l->kept = false;
            plan_stages(p);
        }
    }
}

/* The best plan found so far; set by `remember`. */
struct search {
    size_t limit_bytes, least_bytes;
    bool met;
    double cost;
};

/* Try the layers' current stages: with as little kept as possible, then with as much as fits. */
static void try_stages(struct uw_planner *p, struct search *s)
{
    size_t bytes = plan_level(p, 2.0 * LEVEL_MAX);
    if (bytes > s->limit_bytes) {
        if (!s->met && bytes < s->least_bytes) {
            s->least_bytes = bytes;
            remember(p);
        }
        return;
    }
    double level = LEVEL_MIN;
    while (plan_level(p, level) > s->limit_bytes) {
        level *= 2.0;
    }
    double cost = cost_again(p);
    if (!s->met || cost < s->cost) {
        s->met = true;
        s->cost = cost;
        remember(p);
    }
}

static size_t plan_within(struct uw_planner *p, size_t limit_bytes)
{
    struct uw_graph *g = p->g;
    uw_graph_undefer(g);
    size_t whole = improve(p, plan_stages(p));
    if (whole <= limit_bytes) {
        return whole;
    }
    struct search s = {.limit_bytes = limit_bytes, .least_bytes = whole};
    remember(p);
    for (uint32_t stages = 2; stages <= g->layers_n && stages <= STAGES_MAX; stages++) {
        for (int measure = MEMORY; measure < MEASURES_N; measure++) {
            cut_into_stages(p, stages, (enum measure)measure);
            try_stages(p, &s);
        }
    }
    for (uint32_t i = 0; i < g->layers_n; i++) {
        g->layers[i].stage = g->layers[i].best_stage;
        g->layers[i].kept = g->layers[i].best_kept;
    }
    if (s.met) {
        keep_more(p, limit_bytes);
    }
    return improve(p, plan_stages(p));
}

static void find_recomputed(struct uw_planner *p)
{
    struct uw_graph *g = p->g;
    uint32_t stages = g->layers[g->layers_n - 1].stage, base;

    for (uint32_t i = g->layers_n; i-- > 0;) {
        struct uw_layer *l = &g->layers[i];
        bool kept = l->kept || l->last_reader == g->layers_n;
        bool aux = aux_bytes(p, l) > 0 && !l->ops->again_reads_aux;
        bool needed = l->needs_gradient && (l->reads_y || aux);
        l->recomputed = false;
        if (shares_input(g, l, &base)) { /* both are in the same memory */
            g->layers[base - 1].kept = l->kept;
        }
        if (!p->training || l->view || l->stage == stages) {
            continue;
        }
        for (uint32_t r = i + 1; r < g->layers_n; r++) {
            const struct uw_layer *reader = &g->layers[r];
            if (reads(g, reader, i + 1, false)) {
                kept = kept || reader->stage != l->stage;
                needed = needed || reader->recomputed || reads(g, reader, i + 1, true);
            }
        }
        l->recomputed = needed && !kept;
    }
}

static int recompute(struct uw_model *m, uint32_t stage, const float *x, const struct uw_pass *p)
{
    struct uw_pass again = *p;
    int rc = UW_OK;

    again.again = true;
    for (uint32_t i = 0; i < m->layers_n && rc == UW_OK; i++) {
        struct uw_layer *l = &m->layers[i];
        if (l->stage == stage && l->recomputed) {
            l->y = l->y_at[1];
            l->aux = l->ops->again_reads_aux ? l->aux : l->aux_at[1];
            rc = uw_step_layer(m, l, x, &again);
        }
    }
    return rc;
}

const struct uw_budgeting uw_budgeting = {
    .plan_within = plan_within,
    .find_recomputed = find_recomputed,
    .recompute = recompute,
};

size_t uw_plan_build(struct uw_graph *g, uint32_t batch_n, bool training, size_t limit_bytes,
                     struct uw_slot *slots, uint32_t *order)
{
    struct uw_planner p = {.g = g, .batch_n = batch_n, .training = training, .slots = slots,
                           .priority = order, .placed = order + UW_SLOTS_N(g->layers_n)};
    size_t whole = improve(&p, plan_stages(&p));
    return whole <= limit_bytes || !training || uw_parts.budgeting == NULL
               ? whole
               : uw_parts.budgeting->plan_within(&p, limit_bytes);
}
