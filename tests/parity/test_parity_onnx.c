/* SPDX-License-Identifier: Apache-2.0
 *
 * Models as PyTorch exports them (tests/parity/onnx, made by gen_onnx.py), and in other forms that
 * ONNX has (gen_forms.py): the layers that the import makes of them, their outputs against those of
 * PyTorch or Python, and the outputs of the model that was exported again. */
#include "test_support.h"

#include "uwasa/backends.h"
#include "uwasa/convert.h"

static const char *folder = "onnx";

static const char *const kind_name[] = {
    "?",         "conv2d",    "dense",      "maxpool2d",  "relu",           "flatten",
    "add",       "conv1d",    "conv_transpose2d", "maxpool1d", "avgpool2d", "avgpool1d",
    "global_avgpool", "batchnorm", "groupnorm", "layernorm", "lrn",         "relu6",
    "leaky_relu", "sigmoid",  "tanh",       "gelu",       "silu",           "dropout",
    "concat",    "reshape",   "transpose",  "slice",      "embedding",      "rnn",
    "gru",       "lstm",      "attention",  "parameter",  "function",       "arithmetic",
    "matmul",    "reduce",    "softmax",    "take",
};

/* A bound model and the memory it lies in. */
struct bound {
    struct uw_model model;
    struct uw_arena arena;
    void *memory, *workspace;
};

struct sink {
    uint8_t *bytes;
    size_t n, cap;
};

static int put(void *arg, const void *bytes, size_t bytes_n)
{
    struct sink *s = arg;
    if (s->n + bytes_n > s->cap) {
        s->cap = 2 * (s->n + bytes_n);
        s->bytes = realloc(s->bytes, s->cap);
        assert_non_null(s->bytes);
    }
    memcpy(s->bytes + s->n, bytes, bytes_n);
    s->n += bytes_n;
    return UW_OK;
}

static char *read_text(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    struct sink s = {0};
    char part[4096];
    for (size_t n = fread(part, 1, sizeof part, f); n > 0; n = fread(part, 1, sizeof part, f)) {
        put(&s, part, n);
    }
    fclose(f);
    put(&s, "", 1);
    return (char *)s.bytes;
}

static float *read_floats(char *line, size_t *n)
{
    float *out = malloc((strlen(line) / 2 + 1) * sizeof *out);
    char *end = line;
    assert_non_null(out);
    for (*n = 0;; line = end) {
        float v = strtof(line, &end);
        if (end == line) {
            return out;
        }
        out[(*n)++] = v;
    }
}

static void bind(struct bound *b, const struct uw_convert_model *c, uint32_t batch_n)
{
    struct uw_error err = {.text = ""};
    struct uw_model_need need;
    struct uw_model_config config = {.def = &c->def, .kernels = &uw_kernels_ref,
                                     .batch_n = batch_n, .mode = UW_PLAN_INFERENCE,
                                     .workspace_bytes = UW_MODEL_WORKSPACE_BYTES(c->def.layers_n)};
    b->workspace = malloc(config.workspace_bytes);
    config.workspace = b->workspace;
    int rc = uw_model_measure(&config, &need, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, UW_OK);
    b->memory = aligned_alloc(64, (need.total_bytes + 127u) / 64u * 64u);
    uw_arena_init(&b->arena, b->memory, (need.total_bytes + 127u) / 64u * 64u);
    assert_int_equal(uw_model_bind(&b->model, &config, &b->arena, &err), UW_OK);
    rc = uw_convert_apply(c, &b->model, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, UW_OK);
}

static void release(struct bound *b)
{
    free(b->memory);
    free(b->workspace);
}

static void assert_near(const float *have, const float *want, size_t n, double bound,
                        const char *what)
{
    double worst = 0.0;
    double scale = 1e-6;
    for (size_t i = 0; i < n; i++) {
        scale = fabs((double)want[i]) > scale ? fabs((double)want[i]) : scale;
    }
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)have[i] - (double)want[i]) / scale;
        worst = d <= worst ? worst : d; /* a NaN stays */
    }
    print_message("%s: relative error %.2g\n", what, worst);
    assert_true(worst <= bound);
}

static void assert_same_end(const struct uw_convert_end *a, const struct uw_convert_end *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->batch, b->batch);
    assert_memory_equal(a->dim, b->dim, a->rank * sizeof a->dim[0]);
    assert_true((a->symbol == NULL) == (b->symbol == NULL));
    assert_string_equal(a->left_out != NULL ? a->left_out : "",
                        b->left_out != NULL ? b->left_out : "");
}

/* Export, read again, compute again. */
static void check_export(const struct bound *b, const struct uw_convert_model *from, const float *x,
                         uint32_t batch_n, const float *want)
{
    struct sink s = {0};
    struct uw_error err = {.text = ""};
    struct uw_convert_model again;
    struct bound c;
    const float *y;
    uw_convert_write_onnx_like(&b->model, from, put, &s, &err);
    assert_string_equal(err.text, "");
    int rc = uw_convert_read(&again, s.bytes, s.n, "again", &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, UW_OK);
    assert_same_end(&again.input, &from->input);
    assert_same_end(&again.output[0], &from->output[0]);
    bind(&c, &again, batch_n);
    assert_int_equal(uw_model_forward(&c.model, x, batch_n, &y), UW_OK);
    assert_near(y, want, (size_t)batch_n * b->model.classes, 1e-5, "exported again");
    release(&c);
    uw_convert_deinit(&again);
    free(s.bytes);
}

static void test_import_gives_pytorchs_layers_and_outputs(void **state)
{
    const char *name = *state;
    char path[512];
    char kinds[1024] = "";
    struct uw_error err = {.text = ""};
    struct uw_convert_model c;
    struct bound b;
    const float *y;
    size_t x_n, y_n;
    char *text = read_text(name);
    char *x_line = strchr(text, '\n');
    *x_line++ = '\0';
    char *y_line = strchr(x_line, '\n');
    *y_line++ = '\0';
    float *x = read_floats(x_line, &x_n);
    float *want = read_floats(y_line, &y_n);

    snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
    int rc = uw_convert_load(&c, path, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, UW_OK);
    for (uint32_t i = 0; i < c.def.layers_n; i++) {
        strcat(kinds, i > 0 ? " " : "");
        strcat(kinds, kind_name[c.def.layers[i].kind]);
    }
    assert_string_equal(kinds, text);
    bind(&b, &c, 2);
    assert_int_equal(x_n, 2 * (size_t)b.model.input_n);
    assert_int_equal(y_n, 2 * (size_t)b.model.classes);
    assert_int_equal(uw_model_forward(&b.model, x, 2, &y), UW_OK);
    float *kept = malloc(y_n * sizeof *kept);
    memcpy(kept, y, y_n * sizeof *kept);
    assert_near(kept, want, y_n, 1e-4, name);
    check_export(&b, &c, x, 2, kept);
    free(kept);
    release(&b);
    uw_convert_deinit(&c);
    free(x);
    free(want);
    free(text);
}

#define CASE(name)                                                                              \
    {                                                                                           \
        "onnx_" name "_gives_pytorchs_layers_and_outputs",                                      \
            test_import_gives_pytorchs_layers_and_outputs, NULL, NULL, (void *)(uintptr_t)name  \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE("attention11"), CASE("attention17"), CASE("causal"),    CASE("cnn"),
        CASE("cnn_fixed"),   CASE("cnn_train"),   CASE("cnn_train14"), CASE("embedding"),
        CASE("depthwise"),   CASE("forms"),       CASE("new"),     CASE("old"),
        CASE("gru"),         CASE("gru_train"),   CASE("lstm"),      CASE("lstm_bi"),
        CASE("norms"),       CASE("norms17"),     CASE("places"),      CASE("residual"),
        CASE("rnn"),         CASE("shapes"),      CASE("shared"),    CASE("transformer"),
    };
    folder = argc > 1 ? argv[1] : folder;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
