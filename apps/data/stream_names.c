/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_names.h"

#include "columns.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* Names in the order of their columns. */
struct heads {
    struct uw_cell *cell;           /* [n] */
    uint32_t *feature;              /* [n] which feature; what is behind from sample_n on */
    uint32_t n;
    char delimiter;                 /* of a header */
    cJSON *json;                    /* the object that they are keys of; NULL: a header */
};

static void close_heads(struct heads *h)
{
    free(h->cell);
    free(h->feature);
    cJSON_Delete(h->json);
}

static bool is_json(const char *text)
{
    return text[strspn(text, " \t\r")] == '{';
}

/* Of JSON there are none. */
static struct uw_lines lines_of(const char *text)
{
    size_t bytes = is_json(text) ? 0 : strlen(text);
    return (struct uw_lines){.text = text, .bytes = bytes,
                             .delimiter = bytes != 0 ? uw_lines_delimiter(text, bytes) : ','};
}

/* Read names; without any n is 0. Close them in any case. Returns UW_OK or UW_ERR_NOMEM. */
static int read_heads(struct heads *h, const char *text)
{
    struct uw_lines l = lines_of(text);
    const cJSON *item;
    *h = (struct heads){.json = is_json(text) ? cJSON_ParseWithOpts(text, NULL, true) : NULL,
                        .delimiter = l.delimiter};
    bool object = h->json != NULL &&
                  !cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(h->json, "x"));
    bool header = uw_lines_next(&l);
    uint32_t n = object ? (uint32_t)cJSON_GetArraySize(h->json)
                        : header ? uw_lines_count(&l) : 0;
    h->cell = calloc((size_t)n + 1u, sizeof *h->cell);
    h->feature = malloc(((size_t)n + 1u) * sizeof *h->feature);
    if (h->cell == NULL || h->feature == NULL) {
        return UW_ERR_NOMEM;
    }
    item = object ? h->json->child : NULL;
    for (uint32_t i = 0; i < n; i++, item = object ? item->next : NULL) {
        h->cell[i] = object ? (struct uw_cell){.text = item->string, .bytes = strlen(item->string)}
                            : uw_lines_cell(&l);
        h->feature[i] = UINT32_MAX;
    }
    h->n = n;
    return UW_OK;
}

bool uw_stream_is_header(const char *text, const struct uw_data_columns *names)
{
    struct uw_lines l = lines_of(text);
    struct uw_cell cell = {.is_last = false};
    bool numbers = false, feature = false, words = false;
    float value;
    if (!uw_lines_next(&l)) {
        return false;
    }
    while (!cell.is_last) {
        cell = uw_lines_cell(&l);
        bool number = uw_cell_number(&cell, l.delimiter != ',', &value);
        bool word = !number && !uw_cell_missing(&cell) && !uw_cell_truth(&cell, &value);
        for (uint32_t k = 0; word && names->features != NULL && k < names->features_n; k++) {
            feature = feature || uw_cell_is(&cell, names->features[k]);
        }
        numbers = numbers || number;
        words = words || word;
    }
    return feature || (words && !numbers);
}

/* ---- names that are new ---- */

#define DROPPED (UINT32_MAX - 1u)

/* Say that the columns of such a list are number `first` and so on. err NULL: they may be missing.
 */
static int place_list(struct heads *h, const char *list, uint32_t first, const char *option,
                      struct uw_error *err)
{
    const char *word;
    for (uint32_t j = 0; list != NULL; j++) {
        size_t bytes = uw_list_next(&list, &word);
        char *name = strndup(word, bytes);
        uint32_t at = name != NULL ? uw_columns_find(h->cell, h->n, h->feature, name) : UINT32_MAX;
        free(name);
        if (at != UINT32_MAX) {
            h->feature[at] = first == DROPPED ? first : first + j;
        } else if (err != NULL) {
            return uw_error_set(err, UW_ERR_MISMATCH, "%s=%.*s: no column is called so", option,
                                (int)(bytes < 40 ? bytes : 40), word);
        }
    }
    return UW_OK;
}

/* Without a word of the user: the label is in the column "label" or the last one, values are in the
 * last ones. */
static void place_behind(struct heads *h, const struct uw_stream_wanted *w)
{
    uint32_t label = uw_columns_find(h->cell, h->n, h->feature, "label");
    if (w->behind == UW_STREAM_LABEL && label != UINT32_MAX) {
        h->feature[label] = w->sample_n;
        return;
    }
    for (uint32_t i = h->n, j = w->unlabelled ? 0 : w->behind_n; i-- > 0 && j > 0;) {
        if (h->feature[i] == UINT32_MAX) {
            h->feature[i] = w->sample_n + --j;
        }
    }
}

static char *copy_cell(const struct uw_cell *c)
{
    return strndup(c->text, c->bytes);
}

/* Keep the names; behind: also of a label or of values. */
static int keep_names(struct uw_data_columns *names, const struct heads *h,
                      const struct uw_stream_wanted *w, bool behind)
{
    bool values = behind && w->behind == UW_STREAM_VALUE, good = true;
    char **features = calloc((size_t)w->sample_n + 1u, sizeof *features);
    char **targets = values ? calloc((size_t)w->behind_n + 1u, sizeof *targets) : NULL;
    for (uint32_t i = 0; features != NULL && (!values || targets != NULL) && i < h->n; i++) {
        uint32_t k = h->feature[i];
        char **to = k < w->sample_n ? &features[k]
                    : k >= w->sample_n + w->behind_n ? NULL
                    : values ? &targets[k - w->sample_n] : &names->label;
        if (to != NULL) {
            free(*to);
            *to = copy_cell(&h->cell[i]);
            good = good && *to != NULL;
        }
    }
    names->features = features;
    names->features_n = w->sample_n;
    if (values) {
        uw_names_free(names->targets, names->targets_n);
        names->targets = targets;
        names->targets_n = w->behind_n;
    }
    return good && features != NULL && (!values || targets != NULL) ? 1 : UW_ERR_NOMEM;
}

/* Number the columns that are left as features. Returns how many. */
static uint32_t place_features(struct heads *h)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->n; i++) {
        h->feature[i] = h->feature[i] == UINT32_MAX ? n++ : h->feature[i];
    }
    return n;
}

/* Whether as many columns are said as are behind a sample. */
static int check_list(const char *option, const char *list, const struct uw_stream_wanted *w,
                      struct uw_error *err)
{
    uint32_t n = uw_list_count(list);
    return list == NULL || n == w->behind_n
               ? UW_OK
               : uw_error_set(err, UW_ERR_MISMATCH, "%s=%.60s: names %u columns, needs %u: one for "
                              "%s", option, list, (unsigned)n, (unsigned)w->behind_n,
                              w->behind == UW_STREAM_VALUE ? "each output of the model"
                                                           : "all classes");
}

static int fail_number(const struct heads *h, uint32_t features_n, const struct uw_stream_wanted *w,
                       struct uw_error *err)
{
    const char *what = w->behind == UW_STREAM_VALUE ? "target" : "label";
    return uw_error_set(err, UW_ERR_MISMATCH, "%u columns, of which %u would be features: the "
                        "model takes %u; drop=A+B leaves some out, %s=NAME is none", (unsigned)h->n,
                        (unsigned)features_n, (unsigned)w->sample_n, what);
}

int uw_stream_names_take(struct uw_data_columns *names, const char *text,
                         const struct uw_stream_wanted *w, const struct uw_table_options *said,
                         struct uw_error *err)
{
    const char *list = w->behind == UW_STREAM_VALUE ? said->target : said->label;
    const char *option = w->behind == UW_STREAM_VALUE ? "target" : "label";
    struct heads h;
    int rc = read_heads(&h, text);
    uint32_t left_n = h.n - uw_list_count(said->drop);
    bool alone = list == NULL && !w->needed && left_n == w->sample_n;
    if (rc == UW_OK && h.n != 0 && w->sample_n != 0) {
        rc = check_list(option, list, w, err);
        rc = rc < 0 ? rc : place_list(&h, said->drop, DROPPED, "drop", err);
        rc = rc < 0 ? rc : place_list(&h, list, w->sample_n, option, err);
        if (rc == UW_OK && list == NULL && !alone) {
            place_behind(&h, w);
        }
        uint32_t n = place_features(&h);
        bool fits = rc == UW_OK && n == w->sample_n;
        bool fails = list != NULL || said->drop != NULL || h.json != NULL || w->unlabelled;
        rc = rc < 0 ? rc : fits ? keep_names(names, &h, w, !alone)
                         : fails ? fail_number(&h, n, w, err) : 0;
    }
    close_heads(&h);
    return rc == UW_ERR_NOMEM ? uw_error_set(err, rc, "no memory for names of columns") : rc;
}

/* ---- names that are known ---- */

/* Find the label, or the values, among the columns that are no features. */
static bool find_behind(struct heads *h, const struct uw_data_columns *names,
                        const struct uw_stream_wanted *w)
{
    bool values = w->behind == UW_STREAM_VALUE, all = true;
    bool named = values ? names->targets != NULL && names->targets_n == w->behind_n
                        : names->label != NULL;
    uint32_t free_n = 0, j = 0;
    for (uint32_t k = 0; named && k < w->behind_n; k++) {
        const char *name = values ? names->targets[k] : names->label;
        uint32_t at = uw_columns_find(h->cell, h->n, h->feature, name);
        all = all && at != UINT32_MAX;
        if (at != UINT32_MAX) {
            h->feature[at] = w->sample_n + k;
        }
    }
    for (uint32_t i = 0; i < h->n; i++) {
        free_n += h->feature[i] == UINT32_MAX;
    }
    bool guessed = !named && w->needed && free_n == w->behind_n;
    for (uint32_t i = 0; guessed && i < h->n; i++) {
        h->feature[i] = h->feature[i] == UINT32_MAX ? w->sample_n + j++ : h->feature[i];
    }
    return named ? all : guessed;
}

int uw_stream_order_take(struct uw_stream_order *o, const char *text,
                         const struct uw_data_columns *names, const struct uw_stream_wanted *w,
                         const struct uw_table_options *said, bool *behind, struct uw_error *err)
{
    struct heads h;
    int rc = names->features != NULL ? read_heads(&h, text) : 0;
    *o = (struct uw_stream_order){.cells_n = 0};
    *behind = false;
    if (names->features == NULL) {
        return 0;
    }
    rc = rc < 0 ? uw_error_set(err, rc, "no memory for names of columns")
                : uw_columns_match(names, h.cell, h.n, h.feature, "header", err);
    if (rc > 0) {
        place_list(&h, said->drop, DROPPED, "drop", NULL);
        *behind = find_behind(&h, names, w);
        const char *name = w->behind == UW_STREAM_VALUE
                               ? names->targets != NULL ? names->targets[0] : "of the value"
                               : names->label != NULL ? names->label : "label";
        rc = *behind || !w->needed
                 ? 1 : uw_error_set(err, UW_ERR_MISMATCH, "header: no column \"%.40s\", which "
                                    "training needs", name);
    }
    if (rc > 0) {
        *o = (struct uw_stream_order){.cells_n = h.n, .place = h.feature,
                                      .delimiter = h.delimiter};
        h.feature = NULL;
    }
    close_heads(&h);
    return rc > 0 ? 1 : rc;
}

void uw_stream_order_close(struct uw_stream_order *o)
{
    free(o->place);
    *o = (struct uw_stream_order){.cells_n = 0};
}
