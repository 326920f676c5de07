/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies, embedding, recurrent layers and attention give what PyTorch gives, on every backend of
 * this build: output, gradient of the input, gradients of the parameters. The layers run as a
 * bound model runs them, with outputs and gradients in buffers of the test. */
#include "test_support.h"

#include "graph.h"
#include "vectors.h"

#include "uwasa/backends.h"

#define RELATIVE 1e-4
#define BATCH 3u
#define LAYERS_MAX 4u

/* A graph whose layer before the last is the one that is judged; the last makes it trainable. */
struct graph {
    struct uw_layer_def layers[LAYERS_MAX];
    struct uw_model_def def;
};

struct bound {
    struct uw_model m;
    void *workspace, *memory;
    float *y[LAYERS_MAX + 1], *dy[LAYERS_MAX + 1];  /* of values; 0 is the input */
};

typedef void graph_fn(const struct vector_case *c, struct graph *g);

static void bind(struct bound *b, const struct graph *g, const struct uw_kernels *k)
{
    struct uw_error err = {.text = ""};
    struct uw_model_need need;
    struct uw_arena arena;
    size_t bytes = UW_MODEL_WORKSPACE_BYTES(g->def.layers_n);
    *b = (struct bound){.workspace = uw_test_block(bytes)};
    const struct uw_model_config config = {.def = &g->def, .kernels = k, .batch_n = BATCH,
                                           .mode = UW_PLAN_FULL, .workspace = b->workspace,
                                           .workspace_bytes = bytes};
    if (uw_model_measure(&config, &need, &err) != UW_OK) {
        fail_msg("%s", err.text);
    }
    b->memory = uw_test_block(need.total_bytes);
    uw_arena_init(&arena, b->memory, need.total_bytes);
    assert_int_equal(uw_model_bind(&b->m, &config, &arena, &err), UW_OK);
    b->y[0] = uw_test_floats((size_t)BATCH * b->m.input_n);
    b->dy[0] = uw_test_floats((size_t)BATCH * b->m.input_n);
    memset(b->dy[0], 0, (size_t)BATCH * b->m.input_n * sizeof(float));
    for (uint32_t i = 0; i < b->m.layers_n; i++) {
        struct uw_layer *l = &b->m.layers[i];
        size_t n = (size_t)BATCH * l->out_n;
        b->y[i + 1] = l->view ? b->y[l->input[0]] : uw_test_floats(n);
        b->dy[i + 1] = l->view ? b->dy[l->input[0]] : uw_test_floats(n);
        if (!l->view) {
            memset(b->dy[i + 1], 0, n * sizeof(float));
        }
        l->y = b->y[i + 1];
        l->dy = b->dy[i + 1];
        l->aux = l->aux_at[0];
    }
}

static void unbind(struct bound *b)
{
    for (uint32_t v = 0; v <= b->m.layers_n; v++) {
        if (v == 0 || !b->m.layers[v - 1].view) {
            uw_test_release(b->y[v]);
            uw_test_release(b->dy[v]);
        }
    }
    uw_test_release(b->memory);
    uw_test_release(b->workspace);
}

static void inputs_of(const struct bound *b, const struct uw_layer *l, const float **x)
{
    for (uint32_t k = 0; k < l->inputs_n; k++) {
        x[k] = b->y[l->input[k]];
    }
}

/* Forward and backward of the first `layers_n` layers; every gradient adds to zeros. */
static void run(struct bound *b, uint32_t layers_n)
{
    const struct uw_pass pass = {.batch_n = BATCH, .training = true};
    const struct uw_exec *e = &b->m.exec;
    const float *x[UW_LAYER_INPUTS_MAX];

    for (uint32_t i = 0; i < layers_n; i++) {
        struct uw_layer *l = &b->m.layers[i];
        inputs_of(b, l, x);
        assert_int_equal(l->view ? UW_OK : l->ops->forward(e, l, &pass, x, l->y), UW_OK);
    }
    vector_fill(b->dy[layers_n], (size_t)BATCH * b->m.layers[layers_n - 1].out_n, 4, 1);
    for (uint32_t i = layers_n; i-- > 0;) {
        struct uw_layer *l = &b->m.layers[i];
        float *d[UW_LAYER_TENSORS_MAX] = {NULL};
        inputs_of(b, l, x);
        if (l->view) {
            continue;
        }
        if (l->ops->bw_prepare != NULL) {
            assert_int_equal(l->ops->bw_prepare(e, l, &pass, x), UW_OK);
        }
        for (uint32_t k = 0; k < l->inputs_n && l->ops->bw_input != NULL; k++) {
            assert_int_equal(l->ops->bw_input(e, l, &pass, x, k, b->dy[l->input[k]], true), UW_OK);
        }
        for (uint32_t t = 0; t < l->tensors_n; t++) {
            d[t] = b->m.gradients + b->m.params.segments[l->segment + t].state_n;
            memset(d[t], 0, b->m.params.segments[l->segment + t].size_n * sizeof(float));
        }
        if (l->tensors_n > 0) {
            assert_int_equal(l->ops->bw_param(e, l, &pass, x, 1.0f, d), UW_OK);
        }
    }
}

static void fill(struct bound *b, const struct vector_case *c)
{
    const struct uw_model *m = &b->m;
    vector_fill(b->y[0], (size_t)BATCH * m->input_n, 1, 1);
    for (uint32_t i = 0; strcmp(c->kind, "embedding") == 0 && i < BATCH * m->input_n; i++) {
        uint32_t n = i / m->input_n, t = i % m->input_n;
        b->y[0][i] = (float)((n * 5 + t * t) % vector_int(c, "vocabulary"));
    }
    for (uint32_t i = 0; i < m->params.segments_n; i++) {
        const struct uw_segment *s = &m->params.segments[i];
        vector_fill(m->params.x + s->offset_n, s->size_n, 10 + i,
                    strcmp(c->kind, "embedding") == 0 ? 1.0f : 0.5f);
    }
}

static void check(const struct vector_case *c, const struct uw_kernels *k, graph_fn *build)
{
    struct graph g = {.layers = {{.kind = UW_LAYER_FLATTEN}}};
    struct bound b;
    build(c, &g);
    uint32_t judged = g.def.layers_n;
    g.layers[judged] = (struct uw_layer_def){.kind = UW_LAYER_FLATTEN, .name = "f"};
    g.layers[judged + 1] = (struct uw_layer_def){.kind = UW_LAYER_DENSE, .name = "e",
                                                 .dense = {.out = 2}};
    g.def.layers = g.layers;
    g.def.layers_n = judged + 2;
    bind(&b, &g, k);
    fill(&b, c);
    run(&b, judged);
    vector_expect(c, "y", k->name, b.y[judged], RELATIVE);
    if (vector_find(c, "dx") != NULL) {
        vector_expect(c, "dx", k->name, b.dy[0], RELATIVE);
    }
    unsigned compared = 1 + (vector_find(c, "dx") != NULL);
    for (uint32_t i = 0; i + 2 < b.m.params.segments_n; i++) {
        const struct uw_segment *s = &b.m.params.segments[i];
        vector_expect(c, strchr(s->name, '.') + 1, k->name, b.m.gradients + s->state_n, RELATIVE);
        compared++;
    }
    assert_int_equal(compared, c->outs_n);
    unbind(&b);
}

static void each_case(const char *kind, unsigned cases_n, graph_fn *build)
{
    struct vectors v;
    struct vector_case c = {.numbers_n = 0};
    unsigned seen_n = 0;
    vectors_open(&v, "sequence.txt");
    while (vectors_next(&v, kind, &c)) {
        for (uint32_t i = 0; uw_kernels_at(i) != NULL; i++) {
            check(&c, uw_kernels_at(i), build);
        }
        seen_n++;
    }
    vectors_close(&v);
    assert_int_equal(seen_n, cases_n);
}

static void sequence_of(struct graph *g, uint32_t features, struct uw_layer_def layer)
{
    layer.name = "t";
    g->layers[0] = layer;
    g->def = (struct uw_model_def){.name = "sequence", .in_channels = 7, .in_w = features,
                                   .layers_n = 1};
}

static void image_of(struct graph *g, struct uw_layer_def layer)
{
    sequence_of(g, 5, layer);
    g->def.in_channels = 3;
    g->def.in_h = 4;
}

static void build_recurrent(const struct vector_case *c, struct graph *g)
{
    sequence_of(g, 5, (struct uw_layer_def){
        .kind = strcmp(c->kind, "rnn") == 0   ? UW_LAYER_RNN
                : strcmp(c->kind, "gru") == 0 ? UW_LAYER_GRU
                                              : UW_LAYER_LSTM,
        .recurrent = {.hidden = vector_int(c, "hidden"), .reverse = vector_int(c, "reverse") != 0,
                      .last = vector_int(c, "last") != 0, .no_bias = vector_int(c, "bias") == 0,
                      .relu = vector_int(c, "relu") != 0}});
}

static void build_attention(const struct vector_case *c, struct graph *g)
{
    sequence_of(g, vector_int(c, "features"), (struct uw_layer_def){
        .kind = UW_LAYER_ATTENTION,
        .attention = {.heads = vector_int(c, "heads"), .causal = vector_int(c, "causal") != 0,
                      .no_bias = vector_int(c, "bias") == 0}});
}

static void build_embedding(const struct vector_case *c, struct graph *g)
{
    sequence_of(g, 0, (struct uw_layer_def){
        .kind = UW_LAYER_EMBEDDING,
        .embedding = {vector_int(c, "vocabulary"), vector_int(c, "size")}});
}

static void build_transpose(const struct vector_case *c, struct graph *g)
{
    uint32_t digits = vector_int(c, "order");
    image_of(g, (struct uw_layer_def){
        .kind = UW_LAYER_TRANSPOSE,
        .transpose = {{digits / 100, digits / 10 % 10, digits % 10}}});
}

static void build_slice(const struct vector_case *c, struct graph *g)
{
    image_of(g, (struct uw_layer_def){
        .kind = UW_LAYER_SLICE,
        .slice = {.axis = vector_int(c, "axis"), .start = (int32_t)vector_int(c, "start"),
                  .length = vector_int(c, "length"), .squeeze = vector_int(c, "squeeze") != 0}});
}

static void build_reshape(const struct vector_case *c, struct graph *g)
{
    image_of(g, (struct uw_layer_def){.kind = UW_LAYER_RESHAPE,
                                      .reshape = {{vector_int(c, "rows"), 0}, 2}});
}

static void build_concat(const struct vector_case *c, struct graph *g)
{
    uint32_t axis = vector_int(c, "axis");
    image_of(g, (struct uw_layer_def){.kind = UW_LAYER_SLICE, .slice = {.axis = axis, .start = 1}});
    g->layers[1] = (struct uw_layer_def){.kind = UW_LAYER_CONCAT, .name = "c",
                                         .inputs = {"input", "t"}, .concat = {axis}};
    g->def.layers_n = 2;
}

static void test_recurrent_every_option_matches_pytorch(void **state)
{
    (void)state;
    each_case("rnn", 7, build_recurrent);
    each_case("gru", 5, build_recurrent);
    each_case("lstm", 5, build_recurrent);
}

static void test_attention_every_option_matches_pytorch(void **state)
{
    (void)state;
    each_case("attention", 8, build_attention);
}

static void test_embedding_matches_pytorch(void **state)
{
    (void)state;
    each_case("embedding", 1, build_embedding);
}

static void test_copies_match_pytorch(void **state)
{
    (void)state;
    each_case("transpose", 3, build_transpose);
    each_case("slice", 3, build_slice);
    each_case("reshape", 1, build_reshape);
    each_case("concat", 3, build_concat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recurrent_every_option_matches_pytorch),
        cmocka_unit_test(test_attention_every_option_matches_pytorch),
        cmocka_unit_test(test_embedding_matches_pytorch),
        cmocka_unit_test(test_copies_match_pytorch),
    };
    return cmocka_run_group_tests_name("parity_sequence", tests, NULL, NULL);
}
