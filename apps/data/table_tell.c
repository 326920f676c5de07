/* SPDX-License-Identifier: Apache-2.0 */
#include "table_set.h"

#define LISTED 8u                   /* names that a sentence lists */

static uint32_t add_header(const struct uw_table_set *p, char *text, uint32_t n)
{
    const struct uw_table *t = &p->files.table[0];
    if (t->counted) {
        return uw_note_add(text, n, UW_NOTE_BYTES, ", a header that counts 0, 1, 2, ...");
    }
    return t->header_n == 0 ? uw_note_add(text, n, UW_NOTE_BYTES, ", no header")
           : t->header_n == 1
               ? uw_note_add(text, n, UW_NOTE_BYTES, ", a header")
               : uw_note_add(text, n, UW_NOTE_BYTES, ", a header of %u lines",
                             (unsigned)t->header_n);
}

static uint32_t add_features(const struct uw_table_set *p, char *text, uint32_t n)
{
    const struct uw_data_columns *c = &p->d->columns;
    n = uw_note_add(text, n, UW_NOTE_BYTES, "; %u feature%s", (unsigned)c->features_n,
                    c->features_n == 1 ? "" : "s");
    if (c->features == NULL) {
        return n;
    }
    if (c->features_n > LISTED) {
        return uw_note_add(text, n, UW_NOTE_BYTES, ", %.30s to %.30s", c->features[0],
                           c->features[c->features_n - 1u]);
    }
    for (uint32_t k = 0; k < c->features_n; k++) {
        n = uw_note_add(text, n, UW_NOTE_BYTES, "%s%.24s", k == 0 ? ": " : ", ", c->features[k]);
    }
    return n;
}

static uint32_t add_target(const struct uw_table_set *p, char *text, uint32_t n)
{
    const struct uw_roles *r = &p->roles;
    char column[64];
    if (p->files.o.labels != NULL) {
        return uw_note_add(text, n, UW_NOTE_BYTES, "; labels in %.80s", p->files.o.labels);
    }
    if (r->role == UW_ROLE_NOTHING) {
        return uw_note_add(text, n, UW_NOTE_BYTES, "; no label");
    }
    const char *what = r->role == UW_ROLE_VALUES ? r->targets_n > 1 ? "values from" : "value in"
                       : r->targets_n > 1        ? "label from"
                                                 : "label in";
    n = uw_note_add(text, n, UW_NOTE_BYTES, "; %s %s", what,
                    uw_column_text(&p->files.table[0], r->targets[0], column));
    return r->targets_n == 1
               ? n
               : uw_note_add(text, n, UW_NOTE_BYTES, " to %s",
                             uw_column_text(&p->files.table[0], r->targets[r->targets_n - 1u],
                                            column));
}

static uint32_t add_classes(const struct uw_table_set *p, char *text, uint32_t n)
{
    const struct uw_labels *l = &p->labels;
    n = uw_note_add(text, n, UW_NOTE_BYTES, "%u class%s", (unsigned)l->classes_n,
                    l->classes_n == 1 ? "" : "es");
    for (uint32_t k = 0; k < l->classes_n && k < 2u * LISTED; k++) {
        uint32_t lines = 0;
        for (int i = 0; i < 2; i++) {
            uint32_t rows_n = p->column[i].table != NULL ? p->column[i].table->rows_n : 0;
            for (uint32_t row = 0; row < rows_n; row++) {
                lines += l->of[i][row] == k;
            }
        }
        n = uw_note_add(text, n, UW_NOTE_BYTES, "%s%.24s (%u)", k == 0 ? ": " : ", ", l->names[k],
                        (unsigned)lines);
    }
    return uw_note_add(text, n, UW_NOTE_BYTES, l->classes_n > 2u * LISTED ? ", ...; " : "; ");
}

static uint32_t add_sets(const struct uw_table_set *p, char *text, uint32_t n)
{
    uint32_t of[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        for (uint32_t row = 0; row < p->rows[i].table->rows_n; row++) {
            of[i] += uw_rows_has(&p->rows[i], row);
        }
    }
    if (p->test != NULL) {
        return uw_note_add(text, n, UW_NOTE_BYTES,
                           "; %u samples for training, %u for testing, by a hash of the sample's "
                           "number (test=0 takes all for both)", (unsigned)of[0], (unsigned)of[1]);
    }
    if (p->files.table[1].path == NULL) {
        return uw_note_add(text, n, UW_NOTE_BYTES, "; all %u samples for training and testing",
                           (unsigned)of[0]);
    }
    return uw_note_add(text, n, UW_NOTE_BYTES, "; %u samples for training, %u of %.80s for testing",
                       (unsigned)of[0], (unsigned)of[1], p->files.o.test);
}

void uw_table_tell(struct uw_table_set *p)
{
    static const char *const scales[] = {"features as they are", "features divided by 255",
                                         "features with mean 0 and deviation 1"};
    struct uw_notes *notes = &p->d->notes, rest = *notes;
    char delimiter[24];
    const struct uw_table *t = &p->files.table[0];
    notes->n = 2;
    char *one = notes->text[0], *two = notes->text[1];
    uint32_t n = 0;
    if (t->origin[0] != '\0') {
        uw_note_add(one, n, UW_NOTE_BYTES, "%s", t->origin);
    } else {
        n = uw_note_add(one, n, UW_NOTE_BYTES, "%u lines of %u columns between %s",
                        (unsigned)t->rows_n, (unsigned)t->columns_n,
                        uw_lines_delimiter_text(t->body.delimiter, delimiter));
        n = add_header(p, one, n);
        n = add_features(p, one, n);
        add_target(p, one, n);
    }
    bool earlier = p->d->columns.mean != NULL && p->files.o.scale == UW_SCALE_NONE;
    n = p->labels.classes_n != 0 ? add_classes(p, two, 0) : 0;
    n = uw_note_add(two, n, UW_NOTE_BYTES, "%s",
                    earlier ? "features scaled" : scales[p->files.o.scale]);
    add_sets(p, two, n);
    for (uint32_t i = 0; i < rest.n; i++) {
        uw_note(notes, "%s", rest.text[i]);
    }
}
