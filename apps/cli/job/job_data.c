/* SPDX-License-Identifier: Apache-2.0 */
#include "job_data.h"

#include "job_check.h"
#include "job_heads.h"
#include "job_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t inputs_of(const struct uw_job *j)
{
    return j->need.input_n;
}

static uint32_t outputs_of(const struct uw_job *j)
{
    return j->need.classes;
}

/* The part of "csv:FILE,..." that names the set. */
static const char *short_name(const char *spec, char text[80])
{
    const char *colon = uw_data_is_live(spec) ? NULL : strchr(spec, ':');
    const char *start = colon != NULL ? colon + 1 : spec;
    snprintf(text, 80, "%.*s", (int)(strcspn(start, ",") < 79 ? strcspn(start, ",") : 79), start);
    return text;
}

static bool ends_in(const struct uw_job *j, enum uw_layer_kind kind)
{
    const struct uw_model_def *d = &j->file.def;
    return d->layers_n > 1 && d->layers[d->layers_n - 1].kind == kind;
}

/* Whether the outputs are within bounds, so that values of mean 0 are out of reach. */
static bool ends_in_bounds(const struct uw_job *j)
{
    static const enum uw_layer_kind kinds[] = {
        UW_LAYER_RELU, UW_LAYER_RELU6, UW_LAYER_LEAKY_RELU, UW_LAYER_SIGMOID, UW_LAYER_TANH,
        UW_LAYER_GELU, UW_LAYER_SILU, UW_LAYER_FUNCTION, UW_LAYER_SOFTMAX};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (ends_in(j, kinds[i])) {
            return true;
        }
    }
    return false;
}

/* ---- what the samples are wanted for ---- */

bool uw_job_has_logits(const struct uw_job *j)
{
    struct uw_model_def def = j->file.def;
    struct uw_model_config config = j->config;
    struct uw_model_need need;
    def.losses = NULL;
    def.losses_n = 0;
    config.def = &def;
    return uw_job_measure(j, &config, &need, NULL) != UW_ERR_SHAPE;
}

static enum uw_data_wanted wanted_by(const struct uw_job *j, struct uw_choice loss)
{
    const struct uw_model_def *d = &j->file.def;
    if (uw_job_wants_each(j, loss)) {
        return UW_DATA_WANT_VALUES;
    }
    switch ((enum uw_loss_word)loss.at) {
    case UW_LOSS_WORD_CROSS_ENTROPY:
        return uw_job_has_logits(j) ? UW_DATA_WANT_LABELS : UW_DATA_WANT_VALUES;
    case UW_LOSS_WORD_BINARY:
        return outputs_of(j) == 1 ? UW_DATA_WANT_LABELS : UW_DATA_WANT_ANY;
    case UW_LOSS_WORD_MSE:
    case UW_LOSS_WORD_L1:
    case UW_LOSS_WORD_HUBER: return UW_DATA_WANT_VALUES;
    case UW_LOSS_WORD_AUTOENCODER:
    case UW_LOSS_WORD_NONE: return UW_DATA_WANT_NOTHING;
    case UW_LOSS_AUTO: break;
    }
    if (d->losses == NULL || j->loss_is_open) {
        return UW_DATA_WANT_ANY;
    }
    return d->losses[0].target == UW_TARGET_LABEL    ? UW_DATA_WANT_LABELS
           : d->losses[0].target == UW_TARGET_VALUES ? UW_DATA_WANT_VALUES
                                                     : UW_DATA_WANT_NOTHING;
}

/* ---- the loss ---- */

static void set_loss(struct uw_job *j, enum uw_loss_kind kind, enum uw_target_kind target)
{
    struct uw_model_def *d = &j->file.def;
    uint32_t n = d->losses != NULL && !j->loss_is_open ? d->losses_n : 1;
    for (uint32_t i = 0; i < n && i < UW_LOSSES_MAX; i++) {
        struct uw_loss_def own = d->losses != NULL && !j->loss_is_open
                                     ? d->losses[i] : (struct uw_loss_def){.layer = NULL};
        own.kind = kind;
        own.target = target;
        j->losses[i] = own;
    }
    d->losses = j->losses;
    d->losses_n = n;
}

/* The loss wants logits: a sigmoid at the end goes. */
static void drop_sigmoid(struct uw_job *j)
{
    if (ends_in(j, UW_LAYER_SIGMOID) && j->losses[0].layer == NULL) {
        j->file.def.layers_n--;
        j->drops_sigmoid = true;
    }
}

/* Whether each value beside the samples is 0 or 1, or with `between` from 0 to 1. */
static bool is_binary(struct uw_dataset *data, bool between)
{
    float *t = malloc((size_t)data->targets_n * sizeof *t);
    bool good = t != NULL;
    for (uint32_t i = 0; good && i < data->samples_n; i++) {
        good = data->ops->read_target(data, i, t) == UW_OK;
        for (uint32_t k = 0; good && k < data->targets_n; k++) {
            good = t[k] == 0.0f || t[k] == 1.0f || (between && t[k] > 0.0f && t[k] < 1.0f);
        }
    }
    free(t);
    return good;
}

static int set_binary(struct uw_job *j, struct uw_dataset *data, const char *spec,
                      struct uw_error *err)
{
    if (outputs_of(j) == 1 && data->targets_n == 0 && data->classes > 2) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s has one output, which tells two classes apart, data %.60s "
                            "has %u: its last layer needs %u outputs, target=NAME names a value to "
                            "compute instead, --loss mse takes the class for one",
                            j->file.def.name, spec, (unsigned)data->classes,
                            (unsigned)data->classes);
    }
    if (data->targets_n != 0 && data->ops != NULL && !is_binary(data, true)) {
        return uw_error_set(err, UW_ERR_MISMATCH, "data %.70s: binary cross-entropy compares with "
                            "values from 0 to 1, here are others: --loss mse is for them", spec);
    }
    bool values = outputs_of(j) == 1 || data->targets_n != 0 || !uw_job_has_logits(j);
    set_loss(j, UW_LOSS_BINARY_CROSS_ENTROPY, values ? UW_TARGET_VALUES : UW_TARGET_LABEL);
    drop_sigmoid(j);
    return UW_OK;
}

static int set_by_word(struct uw_job *j, struct uw_choice loss, struct uw_dataset *data,
                       const char *spec, struct uw_error *err)
{
    static const enum uw_loss_kind kinds[] = {[UW_LOSS_WORD_MSE] = UW_LOSS_MSE,
                                              [UW_LOSS_WORD_L1] = UW_LOSS_L1,
                                              [UW_LOSS_WORD_HUBER] = UW_LOSS_HUBER};
    bool one_hot = data->targets_n == 0 && outputs_of(j) > 1 && uw_job_has_logits(j);
    enum uw_loss_word word = (enum uw_loss_word)loss.at;
    if (uw_job_wants_each(j, loss)) {
        return uw_job_set_each(j, loss, err);
    }
    switch (word) {
    case UW_LOSS_WORD_CROSS_ENTROPY:
        if (!uw_job_has_logits(j)) {
            return uw_job_set_positions(j, data->targets_n, spec, err);
        }
        set_loss(j, UW_LOSS_CROSS_ENTROPY, UW_TARGET_LABEL);
        return UW_OK;
    case UW_LOSS_WORD_BINARY:
        return set_binary(j, data, spec, err);
    case UW_LOSS_WORD_AUTOENCODER:
        set_loss(j, UW_LOSS_MSE, UW_TARGET_INPUT);
        return UW_OK;
    case UW_LOSS_WORD_NONE:             /* it is not computed; any output has it */
        set_loss(j, UW_LOSS_MSE, UW_TARGET_VALUES);
        j->compares_nothing = true;
        return UW_OK;
    default:
        set_loss(j, kinds[word], one_hot ? UW_TARGET_LABEL : UW_TARGET_VALUES);
        return UW_OK;
    }
}

/* Whether the labels are all the same. */
static bool is_constant(const struct uw_data_columns *c)
{
    uint32_t seen = 0;
    for (uint32_t k = 0; c->counts != NULL && k < c->classes_n; k++) {
        seen += c->counts[k] != 0;
    }
    return seen == 1;
}

/* As many outputs as inputs, but data with labels: an autoencoder, or classes? */
static bool is_ambiguous(const struct uw_job *j, const struct uw_data *set)
{
    uint32_t n = outputs_of(j), classes = set->base->classes;
    if (!uw_job_has_logits(j)) {
        return true;
    }
    bool table = uw_data_columns(set) != NULL;
    bool lacks_some = table && classes < n && 2u * classes >= n;
    return n > 1 && !uw_job_ends_in_softmax(j) && n == inputs_of(j) && classes != n && !lacks_some;
}

static int choose_by_data(struct uw_job *j, const struct uw_data *set, const char *spec,
                          struct uw_error *err)
{
    const struct uw_data_columns *c = uw_data_columns(set);
    uint32_t outputs = outputs_of(j);
    if (uw_job_wants_each(j, (struct uw_choice)UW_LOSS_DEFAULT)) {
        return uw_job_set_each(j, (struct uw_choice)UW_LOSS_DEFAULT, err);
    }
    bool sigmoid = ends_in(j, UW_LAYER_SIGMOID), twin = outputs == inputs_of(j);
    if (set->base->targets_n != 0) {
        bool each = set->base->targets_n == outputs;
        bool scaled = c != NULL && c->target_mean != NULL;  /* other numbers than in the table */
        if (!scaled && (sigmoid || each) && is_binary(set->base, false)) {
            return set_binary(j, set->base, spec, err);
        }
        if (!scaled && !each && !uw_job_has_logits(j) && uw_job_values_are_classes(j, set->base)) {
            return uw_job_set_positions(j, set->base->targets_n, spec, err);
        }
        set_loss(j, UW_LOSS_MSE, UW_TARGET_VALUES);
        return UW_OK;
    }
    if (c != NULL && twin &&
        (!uw_data_has_targets(set) || (is_constant(c) && uw_job_has_logits(j)))) {
        set_loss(j, UW_LOSS_MSE, UW_TARGET_INPUT);
        return UW_OK;
    }
    if (is_ambiguous(j, set)) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s has %s%u outputs, data %.50s has labels: --loss "
                            "autoencoder compares with the sample, --loss %s",
                            j->file.def.name, twin ? "as many inputs as outputs, " : "",
                            (unsigned)outputs, spec,
                            uw_job_has_logits(j) ? "cross_entropy with the label"
                                          : "mse or binary with as many columns more, as a mask");
    }
    if (outputs == 1 || sigmoid) {
        return set_binary(j, set->base, spec, err);
    }
    set_loss(j, UW_LOSS_CROSS_ENTROPY, UW_TARGET_LABEL);
    return UW_OK;
}

static const char *loss_text(const struct uw_job *j, char text[96])
{
    const struct uw_loss_def *l = j->file.def.losses;
    static const char *const kinds[] = {[UW_LOSS_CROSS_ENTROPY] = "cross_entropy",
                                        [UW_LOSS_BINARY_CROSS_ENTROPY] = "binary cross-entropy",
                                        [UW_LOSS_MSE] = "mse", [UW_LOSS_L1] = "l1",
                                        [UW_LOSS_HUBER] = "huber"};
    static const char itself[] = "against the sample itself (autoencoder)";
    static const char *const targets[] = {[UW_TARGET_LABEL] = "against the label",
                                          [UW_TARGET_INPUT] = itself,
                                          [UW_TARGET_VALUES] = "against the values"};
    bool values = l->target == UW_TARGET_VALUES;
    bool one = l->kind == UW_LOSS_BINARY_CROSS_ENTROPY && values && outputs_of(j) == 1;
    if (values && l->kind == UW_LOSS_CROSS_ENTROPY) {
        snprintf(text, 96, "%s of a class for each of %u positions, classes along the %s axis",
                 kinds[l->kind], (unsigned)j->need.target_n, l->classes_last ? "last" : "first");
    } else {
        snprintf(text, 96, "%s %s", kinds[l->kind], one ? "of two classes" : targets[l->target]);
    }
    return text;
}

/* The words of --loss for what was chosen. */
static const char *words_of(const struct uw_job *j, char text[UW_LOSS_TEXT_BYTES])
{
    static const char *const by_kind[] = {
        [UW_LOSS_CROSS_ENTROPY] = "cross_entropy", [UW_LOSS_BINARY_CROSS_ENTROPY] = "binary",
        [UW_LOSS_MSE] = "mse", [UW_LOSS_L1] = "l1", [UW_LOSS_HUBER] = "huber"};
    const struct uw_loss_def *l = j->file.def.losses;
    uint32_t n = l == NULL || !j->each_loss ? 1 : j->file.def.losses_n;
    size_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *word = l == NULL                         ? "cross_entropy"
                           : l[i].target == UW_TARGET_INPUT ? "autoencoder"
                                                            : by_kind[l[i].kind];
        used += (size_t)snprintf(text + used, UW_LOSS_TEXT_BYTES - used, "%s%s", i > 0 ? "," : "",
                                 word);
    }
    return text;
}

/* Cross-entropy of a model file needs no word. */
static bool is_usual(const struct uw_job *j)
{
    const struct uw_loss_def *l = j->file.def.losses;
    return l == NULL || (j->onnx.memory == NULL && l->kind == UW_LOSS_CROSS_ENTROPY &&
                         l->target == UW_TARGET_LABEL);
}

/* Of a loss that is kept with the weights. */
static void note_kept_loss(struct uw_job *j, const char *weights)
{
    char text[96];
    if (!is_usual(j)) {
        snprintf(j->loss_note, sizeof j->loss_note, "the loss is %s, as %.60s was trained; --loss "
                 "decides otherwise", loss_text(j, text),
                 weights != NULL ? weights : "it");
    }
}

static void note_loss(struct uw_job *j, bool guessed)
{
    char text[96];
    j->loss_note[0] = '\0';
    if (guessed && !is_usual(j)) {
        snprintf(j->loss_note, sizeof j->loss_note, "the loss is taken to be %s; --loss decides "
                 "otherwise%s", loss_text(j, text),
                 j->drops_sigmoid ? "; the sigmoid at the end is left out: the loss wants its "
                                    "input" : "");
    }
}

/* A table has as many features as the model has inputs. */
static int check_columns(const struct uw_job *j, const struct uw_data *set, const char *spec,
                         struct uw_error *err)
{
    const struct uw_data_columns *c = uw_data_columns(set);
    char name[80];
    if (c == NULL || c->features_n == inputs_of(j)) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_MISMATCH,
                        "model %.40s takes %llu features, %.70s has %u: %s, or the model's "
                        "\"input\" becomes [%u]",
                        j->file.def.name, (unsigned long long)inputs_of(j),
                        short_name(spec, name), (unsigned)c->features_n,
                        c->features_n > inputs_of(j)
                            ? "drop=NAME+NAME leaves columns out"
                            : "a column that drop= names, or that is label or value, is no feature",
                        (unsigned)c->features_n);
}

/* An output that is an image or a sequence has no label. */
static int explain_shape(const struct uw_job *j, const char *spec, struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_MISMATCH,
                        "model %.40s has %u outputs for a sample that are no row of classes, data "
                        "%.50s has labels: --loss autoencoder compares with the sample, and --loss "
                        "mse or binary with %u columns more, as a mask", j->file.def.name,
                        (unsigned)outputs_of(j), spec, (unsigned)outputs_of(j));
}

int uw_job_fit(struct uw_job *j, const struct uw_data *set, const char *spec,
               struct uw_choice loss, struct uw_error *err)
{
    const struct uw_loss_def *own = j->file.def.losses;
    bool guesses = loss.at == UW_LOSS_AUTO && (own == NULL || j->loss_is_open);
    /* One-hot means nothing of one output. */
    bool one = !guesses && own != NULL && own->kind == UW_LOSS_BINARY_CROSS_ENTROPY &&
               own->target == UW_TARGET_LABEL && outputs_of(j) == 1;
    int rc = UW_OK;
    if (loss.at != UW_LOSS_AUTO || one) {
        const struct uw_choice binary = {.at = UW_LOSS_WORD_BINARY};
        rc = set_by_word(j, one ? binary : loss, set->base, spec, err);
    } else if (guesses) {
        rc = choose_by_data(j, set, spec, err);
    }
    if (rc < 0) {
        return rc;
    }
    j->loss_is_open = false;
    if (guesses || one || loss.at != UW_LOSS_AUTO) {
        rc = uw_job_measure(j, &j->config, &j->need, err);
        note_loss(j, guesses);
        if (rc == UW_ERR_SHAPE && j->losses[0].target == UW_TARGET_LABEL) {
            return explain_shape(j, spec, err);
        }
    }
    own = j->file.def.losses;
    if (rc == UW_OK && !uw_data_has_targets(set) && !j->compares_nothing &&
        (own == NULL || own->target != UW_TARGET_INPUT)) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "data %.70s has samples only, no labels and no values: --loss "
                            "autoencoder compares with the sample itself, %s", spec,
                            "eval --loss none computes outputs only");
    }
    rc = rc < 0 ? rc : check_columns(j, set, spec, err);
    return rc < 0 ? rc : uw_job_check_data(j, set->base, spec, err);
}

bool uw_job_is_binary(const struct uw_job *j)
{
    const struct uw_loss_def *l = j->file.def.losses;
    return l != NULL && l->kind == UW_LOSS_BINARY_CROSS_ENTROPY && l->target == UW_TARGET_VALUES &&
           outputs_of(j) == 1;
}

uint32_t uw_job_positions(const struct uw_job *j)
{
    const struct uw_loss_def *l = j->file.def.losses;
    bool each = l != NULL && l->kind == UW_LOSS_CROSS_ENTROPY && l->target == UW_TARGET_VALUES;
    struct uw_model_def def = j->file.def;
    struct uw_model_config config = j->config;
    struct uw_model_need need;
    struct uw_loss_def first = each ? *l : (struct uw_loss_def){.layer = NULL};
    if (!each || j->file.def.losses_n == 1) {
        return each ? j->need.target_n : 1;
    }
    first.first = 0;
    def.losses = &first;
    def.losses_n = 1;
    config.def = &def;
    return uw_job_measure(j, &config, &need, NULL) == UW_OK ? need.target_n : 1;
}

bool uw_job_has_labels(const struct uw_job *j)
{
    const struct uw_model_def *d = &j->file.def;
    return d->losses == NULL || d->losses[0].target == UW_TARGET_LABEL || uw_job_is_binary(j) ||
           d->losses[0].kind == UW_LOSS_CROSS_ENTROPY;
}

/* ---- opening ---- */

static void tell_notes(const struct uw_job *j, const struct uw_data *set, const char *spec)
{
    char name[80];
    const char *note;
    for (uint32_t i = 0; (note = uw_data_note(set, i)) != NULL; i++) {
        uw_tell(j->listener, "%s: %s", short_name(spec, name), note);
    }
}

static void tell_of_stream(void *arg, const char *text)
{
    const struct uw_job *j = arg;
    uw_tell(j->listener, "%s", text);
}

static void tell_loss(const struct uw_job *j)
{
    if (j->loss_note[0] != '\0') {
        uw_tell(j->listener, "%s: %s", j->file.def.name, j->loss_note);
    }
}

/* A loss that neither the model file nor --loss says is that of the weights' training. */
static struct uw_choice loss_of(const struct uw_job *j, struct uw_choice loss,
                                const struct uw_job_columns *earlier)
{
    static const struct uw_choice classes = {.word = "cross_entropy",
                                             .at = UW_LOSS_WORD_CROSS_ENTROPY};
    bool said = loss.at != UW_LOSS_AUTO || (j->file.def.losses != NULL && !j->loss_is_open);
    if (!said && j->says_classes) {
        return classes;
    }
    bool fits = uw_job_words_fit(j, earlier->loss);
    return said || earlier->loss.at == UW_LOSS_AUTO || !fits ? loss : earlier->loss;
}

int uw_job_take_loss(struct uw_job *j, struct uw_choice loss, const struct uw_job_columns *earlier,
                     struct uw_error *err)
{
    const struct uw_data_columns *c = &earlier->columns;
    struct uw_dataset like = {.classes = c->classes_n > 2 ? c->classes_n : 2,
                                    .targets_n = c->targets_n};
    struct uw_choice chosen = loss_of(j, loss, earlier);
    int rc = UW_OK;
    if (chosen.at != UW_LOSS_AUTO) {
        rc = set_by_word(j, chosen, &like, "of the weights", err);
        j->loss_is_open = false;
        return rc < 0 ? rc : uw_job_measure(j, &j->config, &j->need, err);
    }
    bool guesses = j->loss_is_open;
    rc = guesses ? uw_job_settle_loss(j, err) : rc;
    if (rc == UW_OK && j->file.def.losses == NULL && outputs_of(j) == 1) {  /* no class */
        set_loss(j, UW_LOSS_MSE, UW_TARGET_VALUES);
        guesses = true;
        rc = uw_job_measure(j, &j->config, &j->need, err);
    }
    note_loss(j, guesses && rc == UW_OK);
    tell_loss(j);
    return rc;
}

/* The values beside a sample that the loss takes, as far as it is known without data; 0: it takes
 * none, or is not known. */
static int count_values(struct uw_job *j, struct uw_choice loss, uint32_t *n, struct uw_error *err)
{
    enum uw_data_wanted wanted = wanted_by(j, loss);
    int rc = UW_OK;
    if (uw_job_wants_each(j, loss)) {
        rc = uw_job_set_each(j, loss, err);
        rc = rc < 0 ? rc : uw_job_measure(j, &j->config, &j->need, err);
    } else if (loss.at == UW_LOSS_WORD_CROSS_ENTROPY && wanted == UW_DATA_WANT_VALUES) {
        rc = uw_job_set_positions(j, 0, "", err);
    }
    *n = rc == UW_OK && wanted == UW_DATA_WANT_VALUES ? j->need.target_n : 0;
    return rc;
}

/* Whether values beside a sample are classes, all or some of them. */
static bool may_be_classes(const struct uw_job *j, struct uw_choice loss)
{
    const struct uw_loss_def *own = j->loss_is_open ? NULL : j->file.def.losses;
    bool said = loss.at == UW_LOSS_WORD_CROSS_ENTROPY || loss.at == UW_LOSS_WORD_BINARY;
    return said || uw_job_wants_each(j, loss) ||
           (own != NULL && (own->kind <= UW_LOSS_BINARY_CROSS_ENTROPY || j->file.def.losses_n > 1));
}

static bool has_embedding(const struct uw_model_def *d)
{
    for (uint32_t i = 0; i < d->layers_n; i++) {
        if (d->layers[i].kind == UW_LAYER_EMBEDDING) {
            return true;
        }
    }
    return false;
}

/* The output's axes, if it is an image: [N][C][H][W]. */
static void take_output_axes(const struct uw_job *j, uint32_t output[3])
{
    const struct uw_convert_end *end = &j->onnx.output[0];
    bool known = j->onnx.outputs_n != 0 && end->rank == 4 && end->batch == 0;
    for (uint32_t k = 0; k < 3 && known; k++) {
        output[k] = end->dim[k + 1];
    }
}

/* Outputs of a model that may tell classes apart at each place; 0: it does not. */
static uint32_t count_mask_outputs(const struct uw_job *j, struct uw_choice loss)
{
    const struct uw_loss_def *own = j->loss_is_open ? NULL : j->file.def.losses;
    bool said = loss.at == UW_LOSS_WORD_CROSS_ENTROPY ||
                (loss.at == UW_LOSS_AUTO && own != NULL && own->kind == UW_LOSS_CROSS_ENTROPY &&
                 own->target == UW_TARGET_VALUES && j->file.def.losses_n == 1);
    bool open = loss.at == UW_LOSS_AUTO && own == NULL;
    bool may = (said || open) && !uw_job_wants_each(j, loss) && !uw_job_has_logits(j);
    return may ? outputs_of(j) : 0;
}

/* Only weights that nobody has trained learn better with another scale. */
static enum uw_data_advice advice_for(const struct uw_job *j, const struct uw_job_data_config *c,
                                      bool known, bool trains)
{
    bool trained = c->weights != NULL || c->columns != NULL || known;
    return !trains || trained ? UW_DATA_ADVISES_NOTHING
           : j->onnx.memory != NULL ? UW_DATA_ADVISES_NEW : c->data.advice;
}

static int open_sets(struct uw_job *j, const struct uw_job_data_config *c,
                     struct uw_choice loss, const struct uw_job_columns *earlier,
                     struct uw_data *train, struct uw_data *test, struct uw_error *err)
{
    const struct uw_model_def *def = &j->file.def;
    struct uw_data_config config = c->data;
    config.channels = def->in_channels;
    config.height = def->in_h;
    config.width = def->in_w;
    uint32_t values_n;
    int rc = count_values(j, loss, &values_n, err);
    if (rc < 0) {
        return rc;
    }
    uint32_t *list = NULL;
    config.mask_outputs = count_mask_outputs(j, loss);
    if (values_n != 0 && uw_job_wants_each(j, loss)) {
        list = malloc(values_n * sizeof *list);
        if (list == NULL) {
            return uw_error_set(err, UW_ERR_NOMEM, "%.60s: no memory", j->file.def.name);
        }
        uw_job_list_classes(j, list);
        config.classes = list;
        config.classes_n = values_n;
    }
    config.outputs = values_n != 0 ? values_n : outputs_of(j);
    config.wanted = wanted_by(j, loss);
    config.like = earlier->columns.features_n != 0 ? &earlier->columns : NULL;
    bool classes = may_be_classes(j, loss);
    config.leave_values = classes;
    config.scale_values = c->data.scale_values && config.like == NULL && c->weights == NULL &&
                          j->onnx.memory == NULL && !ends_in_bounds(j) && !classes;
    config.advice = advice_for(j, c, config.like != NULL, train != NULL);
    config.tokens = has_embedding(def);
    config.tell = tell_of_stream;
    config.tell_arg = j;
    take_output_axes(j, config.output);
    rc = train != NULL ? uw_data_open(train, c->spec, &config, err) : UW_OK;
    config.test = true;
    config.classes_mask = config.shard = config.shards_n = 0;
    rc = rc < 0 || test == NULL ? rc : uw_data_open(test, c->spec, &config, err);
    free(list);
    return rc;
}

/* The test set has what the training set has beside its samples. */
static int check_test(const struct uw_job *j, const struct uw_dataset *train,
                      const struct uw_dataset *test, const char *spec, struct uw_error *err)
{
    if (test->targets_n != train->targets_n) {
        return uw_error_set(err, UW_ERR_MISMATCH, "data %.80s: the test set has %u values beside "
                            "each sample, the training set %u (0: labels)", spec,
                            (unsigned)test->targets_n, (unsigned)train->targets_n);
    }
    return uw_job_check_data(j, test, spec, err);
}

/* Answers need no more than samples. */
static int fit_unlabelled(struct uw_job *j, const struct uw_job_data_config *c,
                          const struct uw_data *set, const struct uw_job_columns *earlier,
                          struct uw_error *err)
{
    int rc = uw_job_take_loss(j, c->loss, earlier, err);
    j->compares_nothing = true;
    rc = rc < 0 ? rc : check_columns(j, set, c->spec, err);
    return rc < 0 ? rc : uw_job_check_data(j, set->base, c->spec, err);
}

int uw_job_open_data(struct uw_job *j, const struct uw_job_data_config *c, struct uw_data *train,
                     struct uw_data *test, struct uw_error *err)
{
    const struct uw_data *first = train != NULL ? train : test;
    struct uw_job_columns earlier;
    int rc = c->columns != NULL
                 ? uw_job_columns_read(&earlier, c->columns, "the weights", err)
                 : uw_job_columns_load(&earlier, c->weights, &j->onnx, err);
    if (rc < 0) {
        return rc;
    }
    char file[UW_JOB_PATH_BYTES];
    bool loose = c->weights != NULL && uw_job_weights_file(c->weights, file) != c->weights;
    if (train != NULL && (earlier.of_model || loose)) {
        earlier.loss.at = UW_LOSS_AUTO;     /* a model that is trained on may get other data */
    }
    struct uw_choice loss = loss_of(j, c->loss, &earlier);
    rc = open_sets(j, c, loss, &earlier, train, test, err);
    if (rc == UW_OK) {
        tell_notes(j, first, c->spec);
        rc = c->data.asks && !uw_data_has_targets(first)
                 ? fit_unlabelled(j, c, first, &earlier, err)
                 : uw_job_fit(j, first, c->spec, loss, err);
    }
    if (rc == UW_OK && test != NULL && test != first) {
        rc = check_test(j, first->base, test->base, c->spec, err);
    }
    if (rc == UW_OK && train != NULL && loss.at != c->loss.at && !j->says_classes) {
        note_kept_loss(j, c->weights);
    }
    if (rc == UW_OK) {
        tell_loss(j);
        free(j->columns);
        char words[UW_LOSS_TEXT_BYTES];
        const struct uw_data_columns *columns = uw_data_columns(first);
        struct uw_data_columns plain = columns != NULL ? *columns
                                                       : (struct uw_data_columns){.classes_n = 0};
        if (plain.features_n == 0) {        /* arrays have no columns */
            plain.features_n = (uint32_t)inputs_of(j);
            plain.targets_n = first->base->targets_n;
        }
        bool keeps = columns != NULL || strncmp(c->spec, "arrays", 6) == 0;
        j->columns = uw_job_columns_text(keeps ? &plain : NULL, words_of(j, words));
    }
    uw_job_columns_close(&earlier);
    return rc;
}
