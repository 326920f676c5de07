/* SPDX-License-Identifier: Apache-2.0
 *
 * A definition as C: the options of each kind are a table of names and places, so that a new
 * option is one line here. */
#include "uwasa/convert.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct writer {
    uw_convert_put put;
    void *arg;
    int rc;
};

static void say(struct writer *w, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

static void say(struct writer *w, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (w->rc >= 0 && n > 0) {
        w->rc = w->put(w->arg, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    }
}

static void say_string(struct writer *w, const char *text)
{
    say(w, "\"");
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            say(w, "\\%c", c);
        } else if (c < 0x20 || c > 0x7e || c == '?') {
            say(w, "\\%03o", c);
        } else {
            say(w, "%c", c);
        }
    }
    say(w, "\"");
}

/* A name inside a comment. */
static void say_comment(struct writer *w, const char *text)
{
    for (; *text != '\0'; text++) {
        bool fits = *text > 0x20 && *text < 0x7f && *text != '*' && *text != '/' && *text != '\\';
        say(w, "%c", fits ? *text : '_');
    }
}

enum type { NUMBER, SIGNED, REAL, TRUTH };

struct option {
    enum uw_layer_kind kind;
    enum type type;
    size_t offset;
    const char *text;
};

#define OPTION(kind_, type_, member) \
    {UW_LAYER_##kind_, type_, offsetof(struct uw_layer_def, member), #member}
#define WINDOW_2D(kind_, m)                                                                  \
    OPTION(kind_, NUMBER, m.kernel_h), OPTION(kind_, NUMBER, m.kernel_w),                    \
        OPTION(kind_, NUMBER, m.stride_h), OPTION(kind_, NUMBER, m.stride_w),                \
        OPTION(kind_, NUMBER, m.pad_h), OPTION(kind_, NUMBER, m.pad_w)
#define CONV_2D(kind_, m)                                                                    \
    OPTION(kind_, NUMBER, m.out_channels), WINDOW_2D(kind_, m),                              \
        OPTION(kind_, TRUTH, m.no_bias), OPTION(kind_, NUMBER, m.dilation_h),                \
        OPTION(kind_, NUMBER, m.dilation_w), OPTION(kind_, NUMBER, m.groups)
#define POOL_2D(kind_)                                                                       \
    WINDOW_2D(kind_, pool2d), OPTION(kind_, TRUTH, pool2d.ceil_mode),                        \
        OPTION(kind_, TRUTH, pool2d.exclude_pad)
#define POOL_1D(kind_)                                                                       \
    OPTION(kind_, NUMBER, pool1d.kernel), OPTION(kind_, NUMBER, pool1d.stride),              \
        OPTION(kind_, NUMBER, pool1d.pad), OPTION(kind_, TRUTH, pool1d.ceil_mode),           \
        OPTION(kind_, TRUTH, pool1d.exclude_pad)
#define NORM(kind_)                                                                          \
    OPTION(kind_, REAL, norm.epsilon), OPTION(kind_, REAL, norm.momentum),                   \
        OPTION(kind_, NUMBER, norm.groups), OPTION(kind_, NUMBER, norm.axes),                \
        OPTION(kind_, TRUTH, norm.no_affine)
#define RECURRENT(kind_)                                                                     \
    OPTION(kind_, NUMBER, recurrent.hidden), OPTION(kind_, TRUTH, recurrent.no_bias),        \
        OPTION(kind_, TRUTH, recurrent.reverse), OPTION(kind_, TRUTH, recurrent.last),       \
        OPTION(kind_, TRUTH, recurrent.relu)

static const struct option options[] = {
    CONV_2D(CONV2D, conv2d),
    CONV_2D(CONV_TRANSPOSE2D, conv_transpose2d),
    OPTION(CONV_TRANSPOSE2D, NUMBER, conv_transpose2d.out_pad_h),
    OPTION(CONV_TRANSPOSE2D, NUMBER, conv_transpose2d.out_pad_w),
    OPTION(CONV1D, NUMBER, conv1d.out_channels),
    OPTION(CONV1D, NUMBER, conv1d.kernel),
    OPTION(CONV1D, NUMBER, conv1d.stride),
    OPTION(CONV1D, NUMBER, conv1d.pad),
    OPTION(CONV1D, TRUTH, conv1d.no_bias),
    OPTION(CONV1D, NUMBER, conv1d.dilation),
    OPTION(CONV1D, NUMBER, conv1d.groups),
    OPTION(DENSE, NUMBER, dense.out),
    OPTION(DENSE, TRUTH, dense.no_bias),
    POOL_2D(MAXPOOL2D),
    POOL_2D(AVGPOOL2D),
    POOL_1D(MAXPOOL1D),
    POOL_1D(AVGPOOL1D),
    NORM(BATCHNORM),
    NORM(GROUPNORM),
    NORM(LAYERNORM),
    OPTION(LRN, NUMBER, lrn.size),
    OPTION(LRN, REAL, lrn.alpha),
    OPTION(LRN, REAL, lrn.beta),
    OPTION(LRN, REAL, lrn.k),
    OPTION(LEAKY_RELU, REAL, activation.slope),
    OPTION(GELU, TRUTH, activation.tanh),
    OPTION(DROPOUT, REAL, dropout.rate),
    OPTION(CONCAT, NUMBER, concat.axis),
    OPTION(RESHAPE, NUMBER, reshape.dim[0]),
    OPTION(RESHAPE, NUMBER, reshape.dim[1]),
    OPTION(RESHAPE, NUMBER, reshape.dim[2]),
    OPTION(RESHAPE, NUMBER, reshape.rank),
    OPTION(TRANSPOSE, NUMBER, transpose.order[0]),
    OPTION(TRANSPOSE, NUMBER, transpose.order[1]),
    OPTION(TRANSPOSE, NUMBER, transpose.order[2]),
    OPTION(SLICE, NUMBER, slice.axis),
    OPTION(SLICE, SIGNED, slice.start),
    OPTION(SLICE, NUMBER, slice.length),
    OPTION(SLICE, TRUTH, slice.squeeze),
    OPTION(EMBEDDING, NUMBER, embedding.vocabulary),
    OPTION(EMBEDDING, NUMBER, embedding.size),
    RECURRENT(RNN),
    RECURRENT(GRU),
    RECURRENT(LSTM),
    OPTION(ATTENTION, NUMBER, attention.heads),
    OPTION(ATTENTION, TRUTH, attention.causal),
    OPTION(ATTENTION, TRUTH, attention.no_bias),
};

static const char *const kind_names[] = {
#define KIND(name) [UW_LAYER_##name] = "UW_LAYER_" #name
    KIND(CONV2D),       KIND(DENSE),     KIND(MAXPOOL2D),  KIND(RELU),
    KIND(FLATTEN),      KIND(ADD),       KIND(CONV1D),     KIND(CONV_TRANSPOSE2D),
    KIND(MAXPOOL1D),    KIND(AVGPOOL2D), KIND(AVGPOOL1D),  KIND(GLOBAL_AVGPOOL),
    KIND(BATCHNORM),    KIND(GROUPNORM), KIND(LAYERNORM),  KIND(LRN),
    KIND(RELU6),        KIND(LEAKY_RELU), KIND(SIGMOID),   KIND(TANH),
    KIND(GELU),         KIND(SILU),      KIND(DROPOUT),    KIND(CONCAT),
    KIND(RESHAPE),      KIND(TRANSPOSE), KIND(SLICE),      KIND(EMBEDDING),
    KIND(RNN),          KIND(GRU),       KIND(LSTM),       KIND(ATTENTION),
#undef KIND
};

static void write_option(struct writer *w, const struct uw_layer_def *l, const struct option *o)
{
    const char *at = (const char *)l + o->offset;
    uint32_t u;
    int32_t i;
    float f;
    bool b;
    switch (o->type) {
    case NUMBER:
        memcpy(&u, at, sizeof u);
        if (u != 0) {
            say(w, ", .%s = %u", o->text, (unsigned)u);
        }
        break;
    case SIGNED:
        memcpy(&i, at, sizeof i);
        if (i != 0) {
            say(w, ", .%s = %d", o->text, (int)i);
        }
        break;
    case REAL:
        memcpy(&f, at, sizeof f);
        if (f != 0.0f) {
            say(w, ", .%s = %af", o->text, (double)f);
        }
        break;
    case TRUTH:
        memcpy(&b, at, sizeof b);
        if (b) {
            say(w, ", .%s = true", o->text);
        }
        break;
    }
}

static void write_layer(struct writer *w, const struct uw_layer_def *l)
{
    say(w, "    {.kind = %s, .name = ", kind_names[l->kind]);
    say_string(w, l->name);
    for (uint32_t k = 0; k < UW_LAYER_INPUTS_MAX && l->inputs[k] != NULL; k++) {
        say(w, k == 0 ? ", .inputs = {" : ", ");
        say_string(w, l->inputs[k]);
    }
    say(w, l->inputs[0] != NULL ? "}" : "");
    say(w, l->frozen ? ", .frozen = true" : "");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (options[i].kind == l->kind) {
            write_option(w, l, &options[i]);
        }
    }
    say(w, "},\n");
}

static void write_losses(struct writer *w, const struct uw_model_def *d, const char *name)
{
    static const char *const kinds[] = {"UW_LOSS_CROSS_ENTROPY", "UW_LOSS_BINARY_CROSS_ENTROPY",
                                        "UW_LOSS_MSE", "UW_LOSS_L1", "UW_LOSS_HUBER"};
    static const char *const targets[] = {"UW_TARGET_LABEL", "UW_TARGET_INPUT",
                                          "UW_TARGET_VALUES"};
    say(w, "static const struct uw_loss_def %s_losses[] = {\n", name);
    for (uint32_t i = 0; i < d->losses_n; i++) {
        const struct uw_loss_def *l = &d->losses[i];
        say(w, "    {.kind = %s, .target = %s", kinds[l->kind], targets[l->target]);
        if (l->layer != NULL) {
            say(w, ", .layer = ");
            say_string(w, l->layer);
        }
        say(w, ", .weight = %af, .label_smoothing = %af, .delta = %af},\n", (double)l->weight,
            (double)l->label_smoothing, (double)l->delta);
    }
    say(w, "};\n\n");
}

/* Letters, digits and '_', not a digit first. */
static const char *identifier(char out[64], const char *name)
{
    size_t n = 0;
    if (name == NULL || name[0] == '\0') {
        name = "model";
    }
    if (name[0] >= '0' && name[0] <= '9') {
        out[n++] = '_';
    }
    for (; *name != '\0' && n < 63; name++) {
        bool fits = (*name >= '0' && *name <= '9') || (*name >= 'A' && *name <= 'Z') ||
                    (*name >= 'a' && *name <= 'z');
        out[n++] = fits ? *name : '_';
    }
    out[n] = '\0';
    return out;
}

static void write_manual(struct writer *w, const char *name, uint32_t tensors_n)
{
    say(w, "/* A trained model, written by uwasa convert. Declare in your program\n *\n"
           " *     extern const struct uw_model_def %s_def;\n"
           " *     extern const struct uw_constant %s_constants[%u];\n *\n",
        name, name, (unsigned)tensors_n);
    say(w, " * and configure it with .def = &%s_def, .constants = %s_constants,\n"
           " * .constants_n = %u: layers that are not trained use the tables where they are, the\n"
           " * others start with a copy. With .mode = UW_PLAN_INFERENCE no layer is trained. */\n"
           "#include <uwasa/model.h>\n\n",
        name, name, (unsigned)tensors_n);
}

static void write_definition(struct writer *w, const struct uw_model_def *d, const char *name)
{
    say(w, "static const struct uw_layer_def %s_layers[] = {\n", name);
    for (uint32_t i = 0; i < d->layers_n; i++) {
        write_layer(w, &d->layers[i]);
    }
    say(w, "};\n\n");
    if (d->losses != NULL) {
        write_losses(w, d, name);
    }
    say(w, "extern const struct uw_model_def %s_def;\nconst struct uw_model_def %s_def = {\n"
           "    .name = ", name, name);
    say_string(w, d->name != NULL ? d->name : "model");
    say(w, ", .in_channels = %u, .in_h = %u, .in_w = %u,\n    .layers = %s_layers, .layers_n = %u",
        (unsigned)d->in_channels, (unsigned)d->in_h, (unsigned)d->in_w, name,
        (unsigned)d->layers_n);
    if (d->losses != NULL) {
        say(w, ",\n    .losses = %s_losses, .losses_n = %u", name, (unsigned)d->losses_n);
    }
    say(w, "};\n");
}

/* One table a tensor, numbered: two names may differ in what no identifier can hold. */
static void write_tables(struct writer *w, const struct uw_params *p, const char *name)
{
    for (uint32_t s = 0; s < p->segments_n; s++) {
        const struct uw_segment *t = &p->segments[s];
        say(w, "\nstatic const float %s_x%u[%u] = {    /* ", name, (unsigned)s,
            (unsigned)t->size_n);
        say_comment(w, t->name);
        say(w, " */\n");
        for (uint32_t i = 0; i < t->size_n && w->rc >= 0; i++) {
            say(w, i % 6 == 0 ? "    %af," : " %af,", (double)p->x[t->offset_n + i]);
            say(w, i % 6 == 5 || i + 1 == t->size_n ? "\n" : "");
        }
        say(w, "};\n");
    }
    say(w, "\nextern const struct uw_constant %s_constants[%u];\n"
           "const struct uw_constant %s_constants[%u] = {\n",
        name, (unsigned)p->segments_n, name, (unsigned)p->segments_n);
    for (uint32_t s = 0; s < p->segments_n; s++) {
        say(w, "    {");
        say_string(w, p->segments[s].name);
        say(w, ", %s_x%u, %u},\n", name, (unsigned)s, (unsigned)p->segments[s].size_n);
    }
    say(w, "};\n");
}

int uw_convert_write_c(const struct uw_model *m, uw_convert_put put, void *arg,
                       struct uw_error *err)
{
    struct writer w = {.put = put, .arg = arg};
    const struct uw_model_def *d = m->config.def;
    const struct uw_params *p = &m->params;
    char name[64];

    for (uint32_t s = 0; s < p->segments_n; s++) {
        const struct uw_segment *t = &p->segments[s];
        if (!m->config.kernels->all_finite(&m->exec, t->size_n, p->x + t->offset_n)) {
            return uw_error_set(err, UW_ERR_NONFINITE, "%.100s holds a NaN or an infinity",
                                t->name);
        }
    }
    identifier(name, d->name);
    write_manual(&w, name, p->segments_n);
    write_definition(&w, d, name);
    if (p->segments_n > 0) {
        write_tables(&w, p, name);
    }
    return w.rc < 0 ? uw_error_set(err, w.rc, "%.60s: cannot be written", name) : UW_OK;
}
