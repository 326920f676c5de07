/* SPDX-License-Identifier: Apache-2.0 */
#include "table_split.h"

#include "columns.h"

#include "uwasa/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPLIT_KEY 0x7565u           /* fixed: eval tests on what train has not seen */
#define EXACT_MOST 16777216.0f      /* whole numbers beyond are rounded */
#define LARGE 10.0f                 /* features of which the scale is doubted */
#define RARE 50u                    /* times fewer than its share: a class is rare */
#define BYTES_LEAST 100.0f          /* whole ones up to here are no bytes of images */

bool uw_rows_has(const struct uw_rows *rows, uint32_t row)
{
    return rows->test == NULL || rows->test[row] == rows->of_test;
}

/* The rows of all classes, one after the other, each class in an order of its own; every 1/share-th
 * is for testing. A class of one line is for training. */
int uw_table_split(uint32_t rows_n, const uint32_t *label, uint32_t classes_n, double share,
                   bool *test)
{
    uint32_t n = label != NULL ? classes_n : 1, test_n = 0;
    uint32_t *size = calloc(n + 1u, sizeof *size), *start = calloc(n + 1u, sizeof *start);
    uint32_t *seen = calloc(n + 1u, sizeof *seen);
    if (size == NULL || start == NULL || seen == NULL) {
        free(size);
        free(start);
        free(seen);
        return UW_ERR_NOMEM;
    }
    for (uint32_t row = 0; row < rows_n; row++) {
        size[label != NULL ? label[row] : 0]++;
    }
    for (uint32_t c = 0; c < n; c++) {
        start[c + 1u] = start[c] + (size[c] > 1 ? size[c] : 0);
    }
    for (uint32_t row = 0; row < rows_n; row++) {
        uint32_t c = label != NULL ? label[row] : 0;
        double at = start[c] + uw_rng_permute(uw_rng_mix(SPLIT_KEY, c), size[c], seen[c]);
        seen[c]++;
        test[row] = size[c] > 1 && floor((at + 1.0) * share) > floor(at * share);
        test_n += test[row];
    }
    free(size);
    free(start);
    free(seen);
    return (int)test_n;
}

void uw_table_moments(const struct uw_rows *rows, const uint32_t *columns, uint32_t n,
                      float *mean, float *inverse)
{
    const struct uw_table *t = rows->table;
    for (uint32_t k = 0; k < n; k++) {
        double sum = 0.0, squares = 0.0;
        uint32_t rows_n = 0;
        for (int pass = 0; pass < 2; pass++) {
            double middle = rows_n != 0 ? sum / rows_n : 0.0;
            rows_n = 0;
            for (uint32_t row = 0; row < t->rows_n; row++) {
                float x = t->cells[(size_t)row * t->columns_n + columns[k]];
                if (uw_rows_has(rows, row) && !isnan(x)) {
                    sum += pass == 0 ? (double)x : 0.0;
                    squares += pass == 1 ? (x - middle) * (x - middle) : 0.0;
                    rows_n++;
                }
            }
        }
        double deviation = rows_n != 0 ? sqrt(squares / rows_n) : 0.0;
        mean[k] = rows_n != 0 ? (float)(sum / rows_n) : 0.0f;
        inverse[k] = uw_inverse_of(deviation, mean[k]);
    }
}

/* ---- what looks wrong ---- */

static void doubt_scale(const struct uw_rows *rows, const struct uw_roles *r,
                        enum uw_data_advice advice, struct uw_notes *notes)
{
    float least = INFINITY, most = -INFINITY;
    bool whole = true;
    uint32_t at = 0;
    char text[64];
    for (uint32_t k = 0; k < r->features_n; k++) {
        const struct uw_column *c = &rows->table->columns[r->features[k]];
        at = c->most > most ? r->features[k] : at;
        least = c->least < least ? c->least : least;
        most = c->most > most ? c->most : most;
        whole = whole && c->whole;
    }
    if (most < LARGE && least > -LARGE) {
        return;
    }
    bool bytes = whole && least >= 0.0f && most >= BYTES_LEAST && most <= 255.0f;
    if (advice == UW_DATA_ADVISES_NEW) {
        uw_note(notes, "features go from %g to %g (%s) and are not scaled: scale=%s is for a model "
                       "that nobody has trained; weights of the model's own expect the units of "
                       "their training", (double)least, (double)most,
                uw_column_text(rows->table, at, text), bytes ? "255" : "standard");
    } else if (bytes) {
        uw_note(notes, "WARNING: features go from %g to %g and are not scaled, which learns badly: "
                       "scale=255 divides them", (double)least, (double)most);
    } else {
        uw_note(notes, "WARNING: features go from %g to %g (%s) and are not scaled, which learns "
                       "badly: scale=standard gives each mean 0 and deviation 1", (double)least,
                (double)most, uw_column_text(rows->table, at, text));
    }
}

/* Features whose numbers are too large for their steps, as seconds since 1970. */
static void doubt_rounding(const struct uw_rows *rows, const struct uw_roles *r,
                           struct uw_notes *notes)
{
    char text[64];
    for (uint32_t k = 0; k < r->features_n; k++) {
        const struct uw_column *c = &rows->table->columns[r->features[k]];
        if (c->most >= EXACT_MOST && c->most - c->least < c->most / 16.0f && c->changes) {
            uw_note(notes, "WARNING: %s goes from %.9g to %.9g: numbers from 16777216 on are "
                           "rounded to single precision; a constant must be subtracted in the file",
                    uw_column_text(rows->table, r->features[k], text), (double)c->least,
                    (double)c->most);
        }
    }
}

static void count(const struct uw_rows *rows, uint32_t *counts)
{
    for (uint32_t row = 0; row < rows->table->rows_n; row++) {
        counts[rows->label[row]] += uw_rows_has(rows, row);
    }
}

static void doubt_classes(const struct uw_rows *train, const struct uw_rows *test,
                          const struct uw_labels *l, struct uw_notes *notes)
{
    uint32_t *counts = calloc(2u * l->classes_n + 1u, sizeof *counts), seen_n = 0, lacks_n = 0;
    uint32_t seen = 0, lacks = 0, rare = 0, sum = 0;
    if (counts == NULL) {
        return;
    }
    count(train, counts);
    count(test, counts + l->classes_n);
    for (uint32_t k = 0; k < l->classes_n; k++) {
        seen = counts[k] != 0 ? k : seen;
        seen_n += counts[k] != 0;
        sum += counts[k];
        rare = counts[k] != 0 && (counts[rare] == 0 || counts[k] < counts[rare]) ? k : rare;
        bool untrained = counts[k] == 0 && counts[l->classes_n + k] != 0;
        lacks = untrained ? k : lacks;
        lacks_n += untrained;
    }
    if (seen_n == 1) {
        uw_note(notes, "WARNING: all %u labels for training are %.60s: nothing can be told apart; "
                       "label=NAME names another column", (unsigned)counts[seen], l->names[seen]);
    }
    if (seen_n > 1 && RARE * seen_n * (uint64_t)counts[rare] < sum) {
        uw_note(notes, "WARNING: only %u of %u samples for training are of class %.60s, which the "
                       "accuracy hardly shows: train --class-weights balanced lets it count as "
                       "much as others", (unsigned)counts[rare], (unsigned)sum, l->names[rare]);
    }
    if (lacks_n != 0) {
        uw_note(notes, "WARNING: the test set has %u classes that training never sees, as %.60s",
                (unsigned)lacks_n, l->names[lacks]);
    }
    free(counts);
}

static int compare_hashes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Lines that are equal to an earlier one, in features and label. */
static void doubt_repeats(const struct uw_rows *rows, struct uw_notes *notes)
{
    const struct uw_table *t = rows->table;
    uint64_t *hash = malloc(((size_t)t->rows_n + 1u) * sizeof *hash);
    uint32_t repeats = 0;
    for (uint32_t row = 0; row < t->rows_n && hash != NULL; row++) {
        const float *x = t->cells + (size_t)row * t->columns_n;
        uint64_t h = rows->label != NULL ? rows->label[row] : 0;
        for (uint32_t c = 0; c < t->columns_n; c++) {
            uint32_t bits;
            memcpy(&bits, &x[c], sizeof bits);
            h = (h ^ bits) * 0x9e3779b97f4a7c15u;
            h ^= h >> 29;
        }
        hash[row] = h;
    }
    if (hash != NULL) {
        qsort(hash, t->rows_n, sizeof *hash, compare_hashes);
        for (uint32_t i = 1; i < t->rows_n; i++) {
            repeats += hash[i] == hash[i - 1u];
        }
    }
    free(hash);
    if (repeats != 0) {
        uw_note(notes, "%u of %u lines repeat another one%s", (unsigned)repeats,
                (unsigned)t->rows_n, rows->test != NULL ? ": some may be in training and test set"
                                                        : "");
    }
}

void uw_table_doubt(const struct uw_rows *train, const struct uw_rows *test,
                    const struct uw_roles *r, const struct uw_labels *labels,
                    enum uw_data_advice advice, struct uw_notes *notes)
{
    if (labels->classes_n != 0) {
        doubt_classes(train, test, labels, notes);
    }
    if (advice != UW_DATA_ADVISES_NOTHING) {
        doubt_scale(train, r, advice, notes);
    }
    if (train->table->misfit_n != 0 && train->table->columns[0].name == NULL) {
        uw_note(notes, "WARNING: the header has %u names and lines have %u cells: columns are "
                       "taken by their places", (unsigned)train->table->misfit_n,
                (unsigned)train->table->columns_n);
    }
    doubt_rounding(train, r, notes);
    doubt_repeats(train, notes);
}
