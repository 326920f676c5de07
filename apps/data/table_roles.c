/* SPDX-License-Identifier: Apache-2.0 */
#include "table_roles.h"

#include "columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct choice {
    struct uw_roles *r;
    const struct uw_table *t;
    const struct uw_table_options *o;
    const struct uw_data_config *config;
    struct uw_notes *notes;
    struct uw_error *err;
    uint64_t inputs;                /* 0: not known */
    uint32_t outputs;               /* 0: not known */
    uint32_t left_n;                /* columns that are not left out */
    bool *out;                      /* [columns_n] left out */
    bool *taken;                    /* [columns_n] label or value */
    struct uw_cell *names;          /* [columns_n] ... */
    uint32_t *feature;              /* ... which of training each is; NULL: not by name */
};

static bool name_is(const struct uw_table *t, uint32_t column, const char *const *words)
{
    const char *name = t->columns[column].name;
    struct uw_cell cell = {.text = name, .bytes = name != NULL ? strlen(name) : 0};
    for (; name != NULL && *words != NULL; words++) {
        if (uw_cell_is(&cell, *words)) {
            return true;
        }
    }
    return false;
}

/* How many different whole numbers a column has; UINT32_MAX: too many to be classes. */
static uint32_t count_classes(const struct uw_table *t, uint32_t column)
{
    static const float most = 65535.0f;
    const struct uw_column *x = &t->columns[column];
    bool *seen = x->most - x->least <= most ? calloc((size_t)most + 1u, sizeof *seen) : NULL;
    uint32_t n = 0;
    for (uint32_t row = 0; seen != NULL && row < t->rows_n; row++) {
        float value = t->cells[(size_t)row * t->columns_n + column];
        if (!isnan(value) && !seen[(uint32_t)(value - x->least)]) {
            seen[(uint32_t)(value - x->least)] = true;
            n++;
        }
    }
    n = seen != NULL ? n : UINT32_MAX;
    free(seen);
    return n;
}

/* Whether the label may stand there: words, or whole numbers that change and repeat, no more of
 * them than the model has classes. */
static bool may_be_label(const struct choice *c, uint32_t column)
{
    const struct uw_column *x = &c->t->columns[column];
    if (c->out[column] || x->words_n != 0) {
        return !c->out[column];
    }
    uint32_t n = x->whole && x->changes ? count_classes(c->t, column) : UINT32_MAX;
    return n <= c->t->rows_n / 2 && n <= (c->outputs > 1 ? c->outputs : 1000u);
}

/* Whether a column of words can be a feature: all are true or false. */
static bool is_truth(const struct uw_column *x)
{
    return x->words_n != 0 && x->truths_n == x->words_n && x->numbers_n == 0;
}

/* ---- columns that are no features ---- */

static void leave_out(struct choice *c, uint32_t column, const char *why)
{
    char text[64];
    if (!c->out[column]) {
        c->out[column] = true;
        c->left_n--;
        if (why != NULL) {
            uw_note(c->notes, "%s is left out: %s", uw_column_text(c->t, column, text), why);
        }
    }
}

/* Columns that a model of this size would have with one label or its values; 0: not known. */
static bool is_one_too_many(const struct choice *c)
{
    uint32_t values = c->config->wanted == UW_DATA_WANT_VALUES ? c->outputs : 1;
    bool none = c->o->label != NULL && strcmp(c->o->label, "none") == 0;
    uint64_t label = c->o->labels != NULL || none || c->config->wanted == UW_DATA_WANT_NOTHING
                         ? 0 : values;
    return c->inputs != 0 && c->left_n == c->inputs + label + 1;
}

/* Whether the first column numbers the samples in no order, and the last one may be the label. */
static bool is_identifier(const struct choice *c)
{
    const struct uw_column *first = &c->t->columns[0];
    bool whole = first->whole && first->words_n == 0 && first->least >= 0.0f;
    return whole && c->t->rows_n > 2 && may_be_label(c, c->t->columns_n - 1) &&
           count_classes(c->t, 0) > c->t->rows_n / 10u * 9u;
}

/* Whether a list of columns has the first one, by its name or as 1. */
static bool has_first(const struct choice *c, const char *list)
{
    bool found = false;
    uint32_t twin;
    for (const char *word; list != NULL;) {
        size_t n = uw_list_next(&list, &word);
        const struct uw_cell cell = {.text = word, .bytes = n};
        found = found || (!uw_cell_is(&cell, "first") && uw_table_find(c->t, word, n, &twin) == 0);
    }
    return found;
}

/* Leave out a column without a name in front, and those that pandas has named "Unnamed: 0" or, in a
 * file of its own that it read again, "Unnamed: 0.1". Returns whether there is one. */
static bool leave_out_unnamed(struct choice *c)
{
    static const char unnamed[] = "unnamed: 0";
    static const char *const index[] = {"rownames", "row.names", "row_names", "", NULL};
    uint32_t n = 0;
    for (const char *name; n + 1 < c->t->columns_n; n++) {
        name = c->t->columns[n].name;
        const struct uw_cell begin = {.text = name, .bytes = sizeof unnamed - 1};
        bool again = name != NULL && strlen(name) >= begin.bytes && uw_cell_is(&begin, unnamed);
        if (!again && (n != 0 || !name_is(c->t, 0, index))) {
            break;
        }
        leave_out(c, n, "it has no name, and is taken for the numbers of the lines");
    }
    return n != 0;
}

/* The row numbers or names that R, pandas and databases put in front. */
static void leave_out_index(struct choice *c)
{
    static const char *const id[] = {"id", "index", "idx", "no", "nr", "row", "sample", "rownum",
                                     NULL};
    const struct uw_column *first = &c->t->columns[0];
    bool counts = first->counts && first->numbers_n == c->t->rows_n && c->t->rows_n > 2;
    if (leave_out_unnamed(c)) {
        return;
    }
    if (name_is(c->t, 0, id) && (counts || is_one_too_many(c))) {
        leave_out(c, 0, counts ? "it counts the lines" : "by its name it numbers the samples");
    } else if (counts && is_one_too_many(c)) {
        leave_out(c, 0, "it counts the lines, and the model takes one column less");
    } else if (is_one_too_many(c) && is_identifier(c)) {
        leave_out(c, 0, "its numbers are all different, and the model takes one column less");
    } else if (first->words_n == c->t->rows_n && is_one_too_many(c)) {
        leave_out(c, 0, "it holds words, and the model takes one column less");
    } else if (counts && c->inputs == 0) {
        uw_note(c->notes, "column 1 counts the lines: drop=1 leaves it out");
    }
}

/* The column that an option names. Returns UW_OK or UW_ERR_INVALID, err filled. */
static int find_chosen(const struct choice *c, const char *option, const char *word, size_t n,
                       uint32_t *column)
{
    uint32_t twin;
    int shown = (int)(n < 40 ? n : 40);
    *column = uw_table_find(c->t, word, n, &twin);
    if (*column == UINT32_MAX) {
        return uw_error_set(c->err, UW_ERR_INVALID,
                            "%s=%.*s: %.100s has no such column; a name, a number from 1, first "
                            "and last are allowed", option, shown, word, c->t->path);
    }
    if (twin != UINT32_MAX) {
        return uw_error_set(c->err, UW_ERR_INVALID,
                            "%s=%.*s: columns %u and %u of %.100s have that name; the number of "
                            "one tells them apart", option, shown, word, (unsigned)*column + 1,
                            (unsigned)twin + 1, c->t->path);
    }
    return UW_OK;
}

static int leave_out_chosen(struct choice *c)
{
    for (const char *list = c->o->drop, *word; list != NULL;) {
        size_t n = uw_list_next(&list, &word);
        uint32_t column;
        int rc = find_chosen(c, "drop", word, n, &column);
        if (rc < 0) {
            return rc;
        }
        leave_out(c, column, NULL);
    }
    for (uint32_t k = 0; k < c->t->columns_n; k++) {
        const struct uw_column *column = &c->t->columns[k];
        if (column->numbers_n == 0 && column->words_n == 0) {
            leave_out(c, k, "it is empty");
        }
    }
    return UW_OK;
}

/* ---- by the names of an earlier set ---- */

/* The column of that name which is no feature; UINT32_MAX: there is none. */
static uint32_t find_name(const struct choice *c, const char *name)
{
    return uw_columns_find(c->names, c->t->columns_n, c->feature, name);
}

static bool is_named(const struct choice *c, uint32_t column)
{
    return c->feature != NULL && c->feature[column] != UINT32_MAX;
}

/* Take the features of the training data by their names, in whatever columns they are now. For the
 * choice of the label they count as left out. */
static int take_named(struct choice *c)
{
    const struct uw_data_columns *like = c->config->like;
    const struct uw_table *t = c->t;
    if (like == NULL || like->features == NULL || t->columns[0].name == NULL) {
        return UW_OK;
    }
    c->names = calloc(t->columns_n, sizeof *c->names);
    c->feature = calloc(t->columns_n, sizeof *c->feature);
    if (c->names == NULL || c->feature == NULL) {
        return uw_error_set(c->err, UW_ERR_NOMEM, "%.120s: no memory", t->path);
    }
    for (uint32_t k = 0; k < t->columns_n; k++) {
        c->names[k].text = t->columns[k].name;
        c->names[k].bytes = strlen(t->columns[k].name);
    }
    int found = uw_columns_match(like, c->names, t->columns_n, c->feature, t->path, c->err);
    if (found < 0) {
        return found;
    }
    if (found == 0) {
        free(c->feature);
        c->feature = NULL;
        uw_note(c->notes, "the header has none of the training data's names: columns are taken by "
                          "their places");
        return UW_OK;
    }
    c->r->features_n = (uint32_t)found;
    c->left_n = 0;
    for (uint32_t k = 0; k < t->columns_n; k++) {
        if (is_named(c, k)) {
            c->r->features[c->feature[k]] = k;
            c->out[k] = true;
        }
        c->left_n += !c->out[k];
    }
    bool none = c->left_n == 0;         /* is left for the label, or one is */
    c->inputs = none ? c->r->features_n : 1;
    c->left_n = none ? c->r->features_n : 2;
    uw_note(c->notes, "columns are taken by the names of the training data");
    return UW_OK;
}

/* The values of the training data by their names. Returns whether all are there. */
static bool take_named_values(struct choice *c)
{
    const struct uw_data_columns *like = c->config->like;
    uint32_t found = 0;
    for (uint32_t k = 0; c->feature != NULL && like->targets != NULL && k < like->targets_n; k++) {
        found += find_name(c, like->targets[k]) != UINT32_MAX;
    }
    if (found == 0 || found != like->targets_n) {
        return false;
    }
    for (uint32_t k = 0; k < found; k++) {
        c->r->targets[c->r->targets_n++] = find_name(c, like->targets[k]);
        c->taken[c->r->targets[k]] = true;
    }
    return true;
}

/* The label of the training data by its name. Returns whether it is there. */
static bool take_named_label(struct choice *c)
{
    const char *label = c->feature != NULL ? c->config->like->label : NULL;
    uint32_t k = label != NULL ? find_name(c, label) : UINT32_MAX;
    char text[64];
    if (k != UINT32_MAX && !c->out[k]) {
        c->r->targets[c->r->targets_n++] = k;
        c->taken[k] = true;
        uw_note(c->notes, "the label is %s, as in the training data; label= decides otherwise",
                uw_column_text(c->t, k, text));
        return true;
    }
    return false;
}

/* The label or a value of the training data that no column has by its name, beside others that
 * could be taken for it; NULL: there is none. */
static const char *find_lacking(const struct choice *c)
{
    const struct uw_data_columns *like = c->config->like;
    if (c->feature == NULL || c->left_n == c->inputs || c->o->label != NULL ||
        c->o->labels != NULL) {
        return NULL;
    }
    if (like->label != NULL && find_name(c, like->label) == UINT32_MAX) {
        return like->label;
    }
    for (uint32_t k = 0; like->targets != NULL && k < like->targets_n; k++) {
        if (find_name(c, like->targets[k]) == UINT32_MAX) {
            return like->targets[k];
        }
    }
    return NULL;
}

/* ---- the label or the values ---- */

static void take(struct choice *c, uint32_t column)
{
    c->r->targets[c->r->targets_n++] = column;
    c->taken[column] = true;
}

/* The first or last column that is not left out. */
static uint32_t end_of(const struct choice *c, bool last)
{
    uint32_t n = c->t->columns_n, k = last ? n - 1 : 0;
    while (c->out[k] && (last ? k > 0 : k + 1 < n)) {
        k += last ? UINT32_MAX : 1;
    }
    return k;
}

/* "A+B+C": each is a column. */
static int take_list(struct choice *c, const char *option, const char *list)
{
    for (const char *word; list != NULL;) {
        size_t n = uw_list_next(&list, &word);
        const struct uw_cell cell = {.text = word, .bytes = n};
        bool last = uw_cell_is(&cell, "last"), end = last || uw_cell_is(&cell, "first");
        uint32_t column;
        int rc = find_chosen(c, option, word, n, &column);
        if (rc < 0) {
            return rc;
        }
        if (end && c->out[column]) {
            column = end_of(c, last);
        }
        if (c->taken[column]) {
            return uw_error_set(c->err, UW_ERR_INVALID, "%s=%.*s: %.100s has that column once",
                                option, (int)(n < 40 ? n : 40), word, c->t->path);
        }
        c->out[column] = false;
        take(c, column);
    }
    return UW_OK;
}

/* Values that the training data has by the same names are in its order, which is that of the
 * model's outputs. */
static void order_values(struct choice *c)
{
    const struct uw_data_columns *like = c->config->like;
    uint32_t n = c->r->targets_n, found = 0, moved = 0;
    if (like == NULL || like->targets == NULL || like->targets_n != n ||
        c->t->columns[0].name == NULL) {
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t at = k; at < n; at++) {
            uint32_t column = c->r->targets[at];
            if (strcmp(c->t->columns[column].name, like->targets[k]) == 0) {
                c->r->targets[at] = c->r->targets[k];
                c->r->targets[k] = column;
                found++;
                moved += at != k;
                break;
            }
        }
    }
    if (found != n) {
        uw_note(c->notes, "WARNING: the model was trained on other values, as \"%.40s\": those of "
                "target= are taken for them, with their scale", like->targets[0]);
    } else if (moved != 0) {
        uw_note(c->notes, "values are in the order of the training data, \"%.40s\" first",
                like->targets[0]);
    }
}

/* Whether words are dates or times, or the like: they begin with digits. */
static bool is_stamp(const struct uw_column *x)
{
    size_t digits = strspn(x->word.text, "0123456789");
    char behind = x->word.text[digits];
    return digits != 0 && behind != '\0' && strchr("-:/. ", behind) != NULL;
}

/* The column of the label or value by name, words and place. */
static uint32_t likely_column(struct choice *c)
{
    static const char *const sure[] = {"label",  "labels",  "class",     "classes",  "target",
                                       "species", "diagnosis", "class_label", "classification",
                                       "outcome", "activity", NULL};
    static const char *const likely[] = {"y", "quality", "type", "category", "result", "output",
                                         "variety", "digit", "gesture", "medv", "price", NULL};
    const struct uw_table *t = c->t;
    uint32_t first = end_of(c, false), last = end_of(c, true);
    char text[64];
    for (uint32_t k = t->columns_n; k-- > 0;) {
        if (!c->out[k] && name_is(t, k, sure)) {
            return k;
        }
    }
    bool stamps = is_stamp(&t->columns[first]) && t->columns[last].words_n == 0;
    if (!stamps && (t->columns[last].words_n != 0 || t->columns[first].words_n != 0)) {
        return t->columns[last].words_n != 0 ? last : first;
    }
    if (name_is(t, last, likely) || name_is(t, first, likely)) {
        return name_is(t, last, likely) ? last : first;
    }
    bool values = c->config->wanted == UW_DATA_WANT_VALUES || c->outputs == 1;
    if (!values && c->config->wanted != UW_DATA_WANT_NOTHING && !may_be_label(c, last) &&
        may_be_label(c, first)) {
        uw_note(c->notes, "the label is taken from %s: the last column %s; label=last takes that",
                uw_column_text(t, first, text),
                !t->columns[last].changes ? "has one value only"
                : t->columns[last].whole  ? "has more classes than the model"
                                          : "holds no whole numbers");
        return first;
    }
    return last;
}

/* As many columns as the model has outputs, at the end, or one-hot at the beginning. */
static void take_block(struct choice *c)
{
    uint32_t n = c->t->columns_n, from = n - c->outputs;
    bool may_be_hot = c->config->wanted != UW_DATA_WANT_VALUES;
    bool hot = may_be_hot && uw_table_is_one_hot(c->t, from, c->outputs);
    if (!hot && may_be_hot && uw_table_is_one_hot(c->t, 0, c->outputs)) {
        hot = true;
        from = 0;
    }
    for (uint32_t k = 0; k < c->outputs; k++) {
        take(c, from + k);
    }
    c->r->role = hot ? UW_ROLE_ONE_HOT : UW_ROLE_VALUES;
    uw_note(c->notes, hot ? "columns %u to %u are taken for one label, one column a class"
                          : "columns %u to %u are taken for the values that the model computes",
            (unsigned)from + 1, (unsigned)(from + c->outputs));
}

static bool two_values(const struct uw_table *t, uint32_t column)
{
    const struct uw_column *x = &t->columns[column];
    for (uint32_t row = 0; row < t->rows_n; row++) {
        float v = t->cells[(size_t)row * t->columns_n + column];
        if (v != x->least && v != x->most && !isnan(v)) {
            return false;
        }
    }
    return true;
}

/* Whether a column is a class or a value. */
static int decide_kind(struct choice *c, uint32_t column)
{
    const struct uw_column *x = &c->t->columns[column];
    enum uw_data_wanted wanted = c->config->wanted;
    bool words = x->words_n != 0;
    char text[64];
    if (wanted == UW_DATA_WANT_NOTHING && (words || !x->whole)) {
        uw_note(c->notes, "%s is not used: the loss compares with the sample itself",
                uw_column_text(c->t, column, text));
        return UW_OK;
    }
    if (wanted == UW_DATA_WANT_NOTHING) {
        uw_note(c->notes, "labels are for tests only: the loss compares with the sample itself");
        c->r->role = UW_ROLE_LABEL;
        return UW_OK;
    }
    if (wanted == UW_DATA_WANT_VALUES && words && c->outputs <= 1) {
        return uw_error_set(c->err, UW_ERR_CORRUPT,
                            "%.90s:%u:%u: \"%s\": the loss needs a value, %s holds words; "
                            "target=NAME names another column, --loss cross_entropy takes classes",
                            c->t->path, (unsigned)x->word.line, (unsigned)x->word.byte,
                            x->word.text, uw_column_text(c->t, column, text));
    }
    if (words && x->numbers_n >= 10u * x->words_n) {
        return uw_error_set(c->err, UW_ERR_CORRUPT,
                            "%.90s:%u:%u: \"%s\": a word among labels that are numbers",
                            c->t->path, (unsigned)x->word.line, (unsigned)x->word.byte,
                            x->word.text);
    }
    bool hot = wanted == UW_DATA_WANT_VALUES && c->outputs > 1 && c->r->targets_n == 1 &&
               may_be_label(c, column);     /* one value a class */
    bool value = (wanted == UW_DATA_WANT_VALUES && !hot) ||
                 (wanted == UW_DATA_WANT_ANY && !words &&
                  (!x->whole ? c->outputs <= 1 : c->outputs == 1 && !two_values(c->t, column)));
    if (!value && !words && !x->whole) {
        return uw_error_set(c->err, UW_ERR_CORRUPT,
                            "%.90s: %s holds numbers that are not whole, so no label: label=NAME "
                            "names another column; a value to compute takes target=NAME and a "
                            "model of one output", c->t->path, uw_column_text(c->t, column, text));
    }
    c->r->role = value ? UW_ROLE_VALUES : UW_ROLE_LABEL;
    return UW_OK;
}

/* The columns behind a sample of arrays: a label, values, or one label, one column a class. */
static int take_behind(struct choice *c)
{
    uint32_t n = c->o->behind_n, from = c->t->columns_n - n;
    bool hot = c->config->wanted != UW_DATA_WANT_VALUES && uw_table_is_one_hot(c->t, from, n);
    for (uint32_t k = 0; k < n; k++) {
        take(c, from + k);
    }
    c->r->role = hot ? UW_ROLE_ONE_HOT : UW_ROLE_VALUES;
    return n == 1 ? decide_kind(c, from) : UW_OK;
}

/* Whether samples are used alone. `whole`: no column is left; `lacking`: not the label's. */
static bool needs_nothing(const struct choice *c, bool whole, bool lacking)
{
    enum uw_data_wanted wanted = c->config->wanted;
    bool nothing = wanted == UW_DATA_WANT_NOTHING && (c->inputs == 0 || whole || lacking);
    bool twin = wanted == UW_DATA_WANT_ANY && whole && c->inputs == c->outputs;
    return nothing || twin || (c->config->asks && (whole || lacking));
}

static int choose_target(struct choice *c)
{
    const struct uw_table_options *o = c->o;
    bool none = o->label != NULL && strcmp(o->label, "none") == 0;
    if (o->behind_n != 0) {
        return take_behind(c);
    }
    if (o->target != NULL) {
        c->r->role = UW_ROLE_VALUES;
        int rc = take_list(c, "target", o->target);
        if (rc == UW_OK) {
            order_values(c);
        }
        return rc;
    }
    if (o->label == NULL && take_named_values(c)) {
        c->r->role = UW_ROLE_VALUES;
        return UW_OK;
    }
    if (o->label != NULL && !none) {
        int rc = take_list(c, "label", o->label);
        c->r->role = UW_ROLE_ONE_HOT;
        return rc < 0 || c->r->targets_n > 1 ? rc : decide_kind(c, c->r->targets[0]);
    }
    if (!none && o->labels == NULL && take_named_label(c)) {
        return decide_kind(c, c->r->targets[0]);
    }
    const char *lacking = find_lacking(c);
    bool whole = c->inputs != 0 && c->left_n == c->inputs;
    if (none || o->labels != NULL || needs_nothing(c, whole, lacking != NULL)) {
        c->r->role = UW_ROLE_NOTHING;
        return UW_OK;
    }
    if (lacking != NULL) {
        return uw_error_set(c->err, UW_ERR_MISMATCH,
                            "%.80s: no column \"%.40s\", the training data's label or value: "
                            "label=NAME or target=NAME names another one, uwasa predict asks "
                            "without", c->t->path, lacking);
    }
    if (whole && c->t->columns[end_of(c, true)].words_n == 0) {
        return uw_error_set(c->err, UW_ERR_MISMATCH,
                            "%.80s: its %u columns are as many as the model's inputs, none is left "
                            "for the label: labels=FILE names a file of them, --loss "
                            "autoencoder needs none, uwasa predict FILE asks without", c->t->path,
                            (unsigned)c->left_n);
    }
    if (c->inputs != 0 && c->outputs > 1 && c->left_n == c->t->columns_n &&
        c->left_n == c->inputs + c->outputs) {
        take_block(c);
        return UW_OK;
    }
    uint32_t column = likely_column(c);
    take(c, column);
    return decide_kind(c, column);
}

/* ---- features ---- */

static const char *fault_of(const struct uw_place *p)
{
    return uw_cell_fault(&(struct uw_cell){.text = p->text, .bytes = strlen(p->text)});
}

/* The columns of words among the features, "2+4+6", as drop= takes them; behind the first ones,
 * which have room, how many there are. Returns that. */
static uint32_t list_words(const struct choice *c, char list[64])
{
    uint32_t n = 0, shown_n = 0;
    int used = 0;
    list[0] = '\0';
    for (uint32_t k = 0; k < c->t->columns_n; k++) {
        const struct uw_column *x = &c->t->columns[k];
        if (!c->out[k] && !c->taken[k] && x->words_n > x->numbers_n && !is_truth(x)) {
            n++;
            if (used < 26) {
                used += snprintf(list + used, 12, "%s%u", n == 1 ? "" : "+", (unsigned)k + 1u);
                shown_n = n;
            }
        }
    }
    if (shown_n < n) {
        snprintf(list + used, 27, "+... (%u columns)", (unsigned)n);
    }
    return n;
}

/* Whether a word is a date or a time: 2026-01-31, 31.1.2026, 12:30:00. */
static bool is_date(const char *word)
{
    char a[2], b[2], digit[2];
    return sscanf(word, "%*[0-9]%1[-/.:]%*[0-9]%1[-/.:]%1[0-9]", a, b, digit) == 3 && *a == *b;
}

/* Every feature must be numbers. */
static int check_numbers(const struct choice *c)
{
    const struct uw_place *worst = NULL;
    uint32_t at = 0;
    for (uint32_t k = 0; k < c->t->columns_n; k++) {
        const struct uw_place *p = &c->t->columns[k].word;
        bool needed = !c->out[k] && !is_truth(&c->t->columns[k]) &&
                      (!c->taken[k] || c->r->role == UW_ROLE_VALUES ||
                       c->r->role == UW_ROLE_ONE_HOT);
        if (needed && p->line != 0 && (worst == NULL || p->line < worst->line)) {
            worst = p;
            at = k;
        }
    }
    if (worst == NULL) {
        return UW_OK;
    }
    char text[64], list[64], hint[200] = "; a gap is an empty cell, NaN, NA, null or ?; "
                                        "delimiter= and skip= tell where numbers are";
    const struct uw_column *x = &c->t->columns[at];
    const char *fault = fault_of(worst);
    bool word = strcmp(fault, "not a number") == 0;
    if (word && x->words_n > x->numbers_n && c->taken[at]) {
        snprintf(hint, sizeof hint, "; a value to compute is a number, label=%u takes the words of "
                 "%s for classes", (unsigned)at + 1, uw_column_text(c->t, at, text));
    } else if (word && x->words_n > x->numbers_n && list_words(c, list) > 1) {
        snprintf(hint, sizeof hint, "; columns of words are no features: pandas.get_dummies makes "
                 "numbers of them, drop=%s leaves them out, label=NAME makes one the label", list);
    } else if (word && x->words_n > x->numbers_n && is_date(worst->text)) {
        snprintf(hint, sizeof hint, "; %s holds dates or times, features are numbers, as days "
                 "since the first one are: drop=%u leaves it out", uw_column_text(c->t, at, text),
                 (unsigned)at + 1);
    } else if (word && x->words_n > x->numbers_n) {
        snprintf(hint, sizeof hint, "; %s holds words, features are numbers: pandas.get_dummies "
                 "makes them, drop=%u leaves it out, label=%u makes it the label",
                 uw_column_text(c->t, at, text), (unsigned)at + 1, (unsigned)at + 1);
    }
    return uw_error_set(c->err, UW_ERR_CORRUPT, "%.80s:%u:%u: \"%s\": %s%s", c->t->path,
                        (unsigned)worst->line, (unsigned)worst->byte, worst->text, fault,
                        word ? hint : "");
}

static int take_features(struct choice *c)
{
    char text[64];
    for (uint32_t k = 0; k < c->t->columns_n; k++) {
        if (is_named(c, k) && c->taken[k]) {
            return uw_error_set(c->err, UW_ERR_INVALID, "%.100s: %s is a feature of the training "
                                "data, so it cannot be what the model computes", c->t->path,
                                uw_column_text(c->t, k, text));
        }
        if (c->feature != NULL) {
            c->out[k] = !is_named(c, k) && !c->taken[k];
        } else if (!c->out[k] && !c->taken[k]) {
            c->r->features[c->r->features_n++] = k;
        }
    }
    uint32_t truths_n = 0;
    for (uint32_t i = c->r->features_n; i-- > 0;) {
        if (is_truth(&c->t->columns[c->r->features[i]])) {
            uw_column_text(c->t, c->r->features[i], text);
            truths_n++;
        }
    }
    if (truths_n > 1) {
        uw_note(c->notes, "%s and %u more columns: true is 1, false is 0", text,
                (unsigned)truths_n - 1u);
    } else if (truths_n == 1) {
        uw_note(c->notes, "%s: true is 1, false is 0", text);
    }
    if (c->r->features_n == 0) {
        return uw_error_set(c->err, UW_ERR_CORRUPT,
                            "%.120s:%u:1: a line has one feature or more and then a label",
                            c->t->path, (unsigned)c->t->line[0]);
    }
    return check_numbers(c);
}

int uw_roles_choose(struct uw_roles *r, const struct uw_table *t, const struct uw_table_options *o,
                    const struct uw_data_config *config, struct uw_notes *notes,
                    struct uw_error *err)
{
    uint32_t h = config->height != 0 ? config->height : 1;
    uint32_t w = config->width != 0 ? config->width : 1;
    struct choice c = {.r = r, .t = t, .o = o, .config = config, .notes = notes, .err = err,
                       .inputs = (uint64_t)config->channels * h * w, .outputs = config->outputs,
                       .left_n = t->columns_n};
    *r = (struct uw_roles){.features = calloc(t->columns_n, sizeof *r->features),
                           .targets = calloc(t->columns_n, sizeof *r->targets)};
    c.out = calloc(t->columns_n, sizeof *c.out);
    c.taken = calloc(t->columns_n, sizeof *c.taken);
    int rc = UW_OK;
    if (r->features == NULL || r->targets == NULL || c.out == NULL || c.taken == NULL) {
        rc = uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory", t->path);
    }
    rc = rc < 0 ? rc : leave_out_chosen(&c);
    rc = rc < 0 ? rc : take_named(&c);
    if (rc == UW_OK && o->behind_n == 0 && c.feature == NULL && !has_first(&c, o->label) &&
        !has_first(&c, o->target)) {
        leave_out_index(&c);
    }
    rc = rc < 0 ? rc : choose_target(&c);
    rc = rc < 0 ? rc : take_features(&c);
    free(c.out);
    free(c.taken);
    free(c.names);
    free(c.feature);
    return rc;
}

int uw_roles_check_like(const struct uw_roles *r, const struct uw_table *first,
                        const struct uw_table *other, struct uw_error *err)
{
    if (first->columns_n != other->columns_n) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%.100s has %u columns, %.100s %u: samples of training and test set "
                            "differ in shape", first->path, (unsigned)first->columns_n, other->path,
                            (unsigned)other->columns_n);
    }
    for (uint32_t i = 0; i < first->columns_n; i++) {
        const char *a = first->columns[i].name, *b = other->columns[i].name;
        if (a != NULL && b != NULL && strcmp(a, b) != 0) {
            return uw_error_set(err, UW_ERR_MISMATCH, "%.90s: column %u is \"%.40s\", and in %.90s "
                                "\"%.40s\": both files need the same columns in the same order",
                                other->path, (unsigned)i + 1, b, first->path, a);
        }
    }
    for (uint32_t i = 0; i < r->features_n; i++) {
        const struct uw_place *p = &other->columns[r->features[i]].word;
        if (p->line != 0 && !is_truth(&other->columns[r->features[i]])) {
            return uw_error_set(err, UW_ERR_CORRUPT, "%.100s:%u:%u: \"%s\": %s", other->path,
                                (unsigned)p->line, (unsigned)p->byte, p->text, fault_of(p));
        }
    }
    return UW_OK;
}

void uw_roles_close(struct uw_roles *r)
{
    free(r->features);
    free(r->targets);
    *r = (struct uw_roles){.features = NULL};
}
