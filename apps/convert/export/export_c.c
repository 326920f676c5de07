/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a definition as C, by the table of uwasa/layer_keys.h. */
#include "uwasa/convert.h"
#include "uwasa/layer_keys.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct writer {
    uw_convert_put put;
    void *arg;
    int rc;
};

static void print(struct writer *w, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

static void print(struct writer *w, const char *format, ...)
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

static void print_string(struct writer *w, const char *text)
{
    print(w, "\"");
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            print(w, "\\%c", c);
        } else if (c < 0x20 || c > 0x7e || c == '?') {
            print(w, "\\%03o", c);
        } else {
            print(w, "%c", c);
        }
    }
    print(w, "\"");
}

/* A name inside a comment. */
static void print_comment(struct writer *w, const char *text)
{
    for (; *text != '\0'; text++) {
        bool fits = *text > 0x20 && *text < 0x7f && *text != '*' && *text != '/' && *text != '\\';
        print(w, "%c", fits ? *text : '_');
    }
}

static void write_numbers(struct writer *w, const char *member, const uint32_t *number, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (number[i] != 0) {
            print(w, ", .%s[%u] = %u", member, (unsigned)i, (unsigned)number[i]);
        }
    }
}

static void write_option(struct writer *w, const struct uw_layer_def *l, const char *name,
                         uint32_t layer, const struct uw_layer_key *key)
{
    const void *at = (const char *)l + key->offset;
    const uint32_t *u = at;
    switch (key->kind) {
    case UW_KEY_U32:
    case UW_KEY_PAIR:
        if (u[0] != 0) {
            print(w, ", .%s = %u", key->member, (unsigned)u[0]);
        }
        if (key->kind == UW_KEY_PAIR && u[1] != 0) {
            print(w, ", .%.*sw = %u", (int)strlen(key->member) - 1, key->member, (unsigned)u[1]);
        }
        break;
    case UW_KEY_I32:
        if (*(const int32_t *)at != 0) {
            print(w, ", .%s = %d", key->member, (int)*(const int32_t *)at);
        }
        break;
    case UW_KEY_REAL:
        if (*(const float *)at != 0.0f) {
            print(w, ", .%s = %af", key->member, (double)*(const float *)at);
        }
        break;
    case UW_KEY_TRUE:
    case UW_KEY_FALSE:
    case UW_KEY_CHOICE:
        if (*(const bool *)at) {
            print(w, ", .%s = true", key->member);
        }
        break;
    case UW_KEY_SHAPE:
        write_numbers(w, key->member, u, UW_AXES_MAX);
        print(w, ", .%.*srank = %u", (int)strlen(key->member) - 3, key->member,
              (unsigned)u[UW_AXES_MAX]);
        break;
    case UW_KEY_ORDER:
        write_numbers(w, key->member, u, UW_AXES_MAX);
        break;
    case UW_KEY_INDEX:
        print(w, ", .take.n = %u, .take.index = %s_index%u", (unsigned)l->take.n, name,
              (unsigned)layer);
        break;
    case UW_KEY_WEIGHTS:
        if (l->take.weight != NULL) {
            print(w, ", .take.weight = %s_weight%u", name, (unsigned)layer);
        }
        break;
    }
}

/* The tables of a take, by the layer's number. */
static void write_take(struct writer *w, const struct uw_take_def *take, const char *name,
                       uint32_t layer)
{
    uint32_t n = take->n * (take->taps != 0 ? take->taps : 1);
    print(w, "static const int32_t %s_index%u[%u] = {", name, (unsigned)layer, (unsigned)n);
    for (uint32_t i = 0; i < n; i++) {
        print(w, "%s%d,", i % 12 == 0 ? "\n    " : " ", (int)take->index[i]);
    }
    print(w, "\n};\n");
    if (take->weight != NULL) {
        print(w, "static const float %s_weight%u[%u] = {", name, (unsigned)layer, (unsigned)n);
        for (uint32_t i = 0; i < n; i++) {
            print(w, "%s%af,", i % 6 == 0 ? "\n    " : " ", (double)take->weight[i]);
        }
        print(w, "\n};\n");
    }
}

static void write_layer(struct writer *w, const struct uw_layer_def *l, const char *name,
                        uint32_t layer)
{
    const struct uw_layer_type *type = uw_layer_type_of(l);
    print(w, "    {.kind = %s, .name = ", type->c);
    print_string(w, l->name);
    for (uint32_t k = 0; k < UW_LAYER_INPUTS_MAX && l->inputs[k] != NULL; k++) {
        print(w, k == 0 ? ", .inputs = {" : ", ");
        print_string(w, l->inputs[k]);
    }
    print(w, l->inputs[0] != NULL ? "}" : "");
    print(w, l->frozen ? ", .frozen = true" : "");
    for (size_t i = 0; i < type->keys_n; i++) {
        write_option(w, l, name, layer, &type->keys[i]);
    }
    print(w, "},\n");
}

static void write_losses(struct writer *w, const struct uw_model_def *d, const char *name)
{
    static const char *const kinds[] = {"UW_LOSS_CROSS_ENTROPY", "UW_LOSS_BINARY_CROSS_ENTROPY",
                                        "UW_LOSS_MSE", "UW_LOSS_L1", "UW_LOSS_HUBER"};
    static const char *const targets[] = {"UW_TARGET_LABEL", "UW_TARGET_INPUT",
                                          "UW_TARGET_VALUES"};
    print(w, "static const struct uw_loss_def %s_losses[] = {\n", name);
    for (uint32_t i = 0; i < d->losses_n; i++) {
        const struct uw_loss_def *l = &d->losses[i];
        print(w, "    {.kind = %s, .target = %s", kinds[l->kind], targets[l->target]);
        if (l->layer != NULL) {
            print(w, ", .layer = ");
            print_string(w, l->layer);
        }
        print(w, ", .weight = %af, .label_smoothing = %af, .delta = %af", (double)l->weight,
              (double)l->label_smoothing, (double)l->delta);
        print(w, ", .first = %u, .classes_last = %d},\n", (unsigned)l->first, l->classes_last);
    }
    print(w, "};\n\n");
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

/* What is kept with the weights, in the words of a program that uses it. */
static void write_manual_of_kept(struct writer *w, const char *name,
                                 const struct uw_convert_kept *k, float threshold)
{
    if (k->mean != NULL) {
        print(w, " *\n *     extern void %s_scale(float *x);\n *\n * brings the %u numbers of a "
                 "sample to the scale of the training data, before the model gets them; NaN, a "
                 "gap, becomes the mean.\n",
              name, (unsigned)k->features_n);
    }
    if (k->target_mean != NULL) {
        print(w, " *\n *     extern void %s_values(float *y);\n *\n * brings the outputs, %u, back "
                 "to the units of the training data.\n", name, (unsigned)k->targets_n);
    }
    if (k->sound != NULL) {
        print(w, " *\n *     extern const struct uw_sound_config %s_sound;\n *\n * is for "
                 "uw_sound_init (uwasa/sound.h), which makes samples of sound as in training.\n",
              name);
    }
    if (k->classes_n != 0) {
        print(w, " *\n *     extern const char *const %s_classes[%u];\n *\n * are the names of the "
                 "classes.\n", name, (unsigned)k->classes_n);
    }
    if (threshold != 0.0f) {
        print(w, " *\n *     extern const float %s_anomaly_threshold;\n *\n * goes into "
                 "m.anomaly_threshold after uw_model_bind, for uw_anomaly_found "
                 "(uwasa/anomaly.h).\n", name);
    }
}

static void write_floats(struct writer *w, const char *name, const char *what, const float *x,
                         uint32_t n)
{
    print(w, "\nstatic const float %s_%s[%u] = {", name, what, (unsigned)n);
    for (uint32_t i = 0; i < n; i++) {
        print(w, "%s%af,", i % 6 == 0 ? "\n    " : " ", (double)x[i]);
    }
    print(w, "\n};\n");
}

static void write_kept(struct writer *w, const char *name, const struct uw_convert_kept *k,
                       float threshold)
{
    if (k->mean != NULL) {
        write_floats(w, name, "mean", k->mean, k->features_n);
        write_floats(w, name, "inverse", k->inverse, k->features_n);
        print(w, "\nextern void %s_scale(float *x);\nvoid %s_scale(float *x)\n{\n"
                 "    for (unsigned i = 0; i < %uu; i++) {\n", name, name, (unsigned)k->features_n);
        print(w, "        x[i] = x[i] != x[i] ? 0.0f : (x[i] - %s_mean[i]) * %s_inverse[i];\n"
                 "    }\n}\n", name, name);
    }
    if (k->target_mean != NULL) {
        write_floats(w, name, "target_mean", k->target_mean, k->targets_n);
        write_floats(w, name, "target_inverse", k->target_inverse, k->targets_n);
        print(w, "\nextern void %s_values(float *y);\nvoid %s_values(float *y)\n{\n"
                 "    for (unsigned i = 0; i < %uu; i++) {\n", name, name, (unsigned)k->targets_n);
        print(w, "        y[i] = y[i] / %s_target_inverse[i] + %s_target_mean[i];\n    }\n}\n",
              name, name);
    }
    if (k->sound != NULL) {
        const struct uw_sound_config *s = k->sound;
        print(w, "\nextern const struct uw_sound_config %s_sound;\n"
                 "const struct uw_sound_config %s_sound = {\n"
                 "    .rate_hz = %u, .window_n = %u, .hop_n = %u, .frames_n = %u, .mels_n = %u,\n",
              name, name, (unsigned)s->rate_hz, (unsigned)s->window_n, (unsigned)s->hop_n,
              (unsigned)s->frames_n, (unsigned)s->mels_n);
        print(w, "    .cepstra_n = %u, .low_hz = %af, .high_hz = %af};\n", (unsigned)s->cepstra_n,
              (double)s->low_hz, (double)s->high_hz);
    }
    if (k->classes_n != 0) {
        print(w, "\nextern const char *const %s_classes[%u];\nconst char *const %s_classes[%u] = "
                 "{\n", name, (unsigned)k->classes_n, name, (unsigned)k->classes_n);
        for (uint32_t i = 0; i < k->classes_n; i++) {
            print(w, "    ");
            print_string(w, k->classes[i]);
            print(w, ",\n");
        }
        print(w, "};\n");
    }
    if (threshold != 0.0f) {
        print(w, "\nextern const float %s_anomaly_threshold;\nconst float %s_anomaly_threshold = "
                 "%af;\n", name, name, (double)threshold);
    }
}

static void write_manual(struct writer *w, const char *name, uint32_t tensors_n,
                         const struct uw_convert_kept *kept, float threshold)
{
    print(w, "/* A trained model, written by uwasa convert. Declare in your program\n *\n"
             " *     extern const struct uw_model_def %s_def;\n"
             " *     extern const struct uw_constant %s_constants[%u];\n *\n",
          name, name, (unsigned)tensors_n);
    print(w, " * and configure it with .def = &%s_def, .constants = %s_constants,\n"
           " * .constants_n = %u: layers that are not trained use the tables where they are, the\n"
             " * others start with a copy. With .mode = UW_PLAN_INFERENCE no layer is trained.\n",
          name, name, (unsigned)tensors_n);
    write_manual_of_kept(w, name, kept, threshold);
    print(w, " */\n#include <uwasa/model.h>\n%s\n",
          kept->sound != NULL ? "#include <uwasa/sound.h>\n" : "");
}

static void write_definition(struct writer *w, const struct uw_model_def *d, const char *name)
{
    for (uint32_t i = 0; i < d->layers_n; i++) {
        if (d->layers[i].kind == UW_LAYER_TAKE) {
            write_take(w, &d->layers[i].take, name, i);
        }
    }
    print(w, "static const struct uw_layer_def %s_layers[] = {\n", name);
    for (uint32_t i = 0; i < d->layers_n; i++) {
        write_layer(w, &d->layers[i], name, i);
    }
    print(w, "};\n\n");
    if (d->losses != NULL) {
        write_losses(w, d, name);
    }
    print(w, "extern const struct uw_model_def %s_def;\nconst struct uw_model_def %s_def = {\n"
             "    .name = ", name, name);
    print_string(w, d->name != NULL ? d->name : "model");
    print(w, ", .in_channels = %u, .in_h = %u, .in_w = %u,\n", (unsigned)d->in_channels,
          (unsigned)d->in_h, (unsigned)d->in_w);
    print(w, "    .layers = %s_layers, .layers_n = %u", name, (unsigned)d->layers_n);
    if (d->losses != NULL) {
        print(w, ",\n    .losses = %s_losses, .losses_n = %u", name, (unsigned)d->losses_n);
    }
    print(w, "};\n");
}

/* One numbered table per tensor: names may differ only in characters not allowed in identifiers. */
static void write_tables(struct writer *w, const struct uw_params *p, const char *name)
{
    for (uint32_t s = 0; s < p->segments_n; s++) {
        const struct uw_segment *t = &p->segments[s];
        print(w, "\nstatic const float %s_x%u[%u] = {    /* ", name, (unsigned)s,
              (unsigned)t->size_n);
        print_comment(w, t->name);
        print(w, " */\n");
        for (uint32_t i = 0; i < t->size_n && w->rc >= 0; i++) {
            print(w, i % 6 == 0 ? "    %af," : " %af,", (double)p->x[t->offset_n + i]);
            print(w, i % 6 == 5 || i + 1 == t->size_n ? "\n" : "");
        }
        print(w, "};\n");
    }
    print(w, "\nextern const struct uw_constant %s_constants[%u];\n"
             "const struct uw_constant %s_constants[%u] = {\n",
          name, (unsigned)p->segments_n, name, (unsigned)p->segments_n);
    for (uint32_t s = 0; s < p->segments_n; s++) {
        print(w, "    {");
        print_string(w, p->segments[s].name);
        print(w, ", %s_x%u, %u},\n", name, (unsigned)s, (unsigned)p->segments[s].size_n);
    }
    print(w, "};\n");
}

int uw_convert_write_c(const struct uw_model *m, uw_convert_put put, void *arg,
                       struct uw_error *err)
{
    return uw_convert_write_c_with(m, NULL, put, arg, err);
}

int uw_convert_write_c_with(const struct uw_model *m, const struct uw_convert_kept *kept,
                            uw_convert_put put, void *arg, struct uw_error *err)
{
    static const struct uw_convert_kept nothing = {.classes = NULL};
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
    kept = kept != NULL ? kept : &nothing;
    write_manual(&w, name, p->segments_n, kept, m->anomaly_threshold);
    write_definition(&w, d, name);
    if (p->segments_n > 0) {
        write_tables(&w, p, name);
    }
    write_kept(&w, name, kept, m->anomaly_threshold);
    return w.rc < 0 ? uw_error_set(err, w.rc, "%.60s: cannot be written", name) : UW_OK;
}
