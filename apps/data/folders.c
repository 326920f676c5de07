/* SPDX-License-Identifier: Apache-2.0 */
#include "folders.h"

#include "columns.h"
#include "table_split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LISTED 16u

int uw_folders_no_memory(const struct uw_folders *p)
{
    return uw_error_set(p->err, UW_ERR_NOMEM, "%.120s: no memory for its files", p->folder[0]);
}

/* ---- folders ---- */

static bool find_folder(char path[UW_FILE_PATH_BYTES + 16], const char *folder,
                        const char *const *names)
{
    struct stat st;
    for (; *names != NULL; names++) {
        snprintf(path, UW_FILE_PATH_BYTES + 16, "%.1023s/%s", folder, *names);
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            return true;
        }
    }
    path[0] = '\0';
    return false;
}

/* DIR may have a folder for training and one for testing. */
static int choose_folders(struct uw_folders *p)
{
    static const char *const train[] = {"train", "training", NULL};
    static const char *const test[] = {"test", "testing", "val", "valid", "validation", NULL};
    const struct uw_table_options *o = &p->o;
    bool none = o->label != NULL && strcmp(o->label, "none") == 0;
    if ((o->label != NULL && !none) || o->target != NULL || o->labels != NULL || o->drop != NULL ||
        o->scale_said || o->missing != UW_MISSING_AUTO || o->delimiter != '\0' || o->skip >= 0) {
        return uw_error_set(p->err, UW_ERR_INVALID,
                            "%s:%.100s: the options are %s", p->kind->prefix, o->file,
                            p->kind->options);
    }
    const char *second = o->parts_n > 1 ? o->part[1] : o->test;
    if (strlen(o->file) >= UW_FILE_PATH_BYTES ||
        (second != NULL && strlen(second) >= UW_FILE_PATH_BYTES)) {
        return uw_error_set(p->err, UW_ERR_INVALID, "%.100s...: path longer than %u bytes",
                            o->file, UW_FILE_PATH_BYTES - 1);
    }
    if (find_folder(p->folder[0], o->file, train)) {
        find_folder(p->folder[1], o->file, test);
    } else {
        snprintf(p->folder[0], sizeof p->folder[0], "%s", o->file);
    }
    if (second != NULL) {
        snprintf(p->folder[1], sizeof p->folder[1], "%s", second);
    }
    return UW_OK;
}

/* The classes are those of option classes, of an earlier set, or the training set's folders. */
static int number_classes(struct uw_folders *p)
{
    const struct uw_data_columns *like = p->config->like;
    struct uw_data_columns *c = p->columns;
    const char *known = p->o.classes;
    bool earlier = known == NULL && like != NULL && like->classes_n != 0;
    if (p->list[0].classes_n == 0) {
        return UW_OK;
    }
    c->classes_n = earlier ? like->classes_n : p->list[0].classes_n;
    int rc = known != NULL ? uw_names_read(known, &c->classes, &c->classes_n)
                           : uw_names_copy(&c->classes, earlier ? like->classes
                                                                : p->list[0].classes, c->classes_n);
    c->counts = calloc(c->classes_n, sizeof *c->counts);
    if (rc < 0 || c->counts == NULL) {
        return uw_folders_no_memory(p);
    }
    for (int i = 0; i < 2 && rc == UW_OK; i++) {
        if (p->list[i].n != 0 && p->list[i].classes_n == 0) {
            rc = uw_error_set(p->err, UW_ERR_MISMATCH, "%.120s: has no folder for each class",
                              p->folder[i]);
        } else if (p->list[i].n != 0) {
            rc = uw_folder_list_number(&p->list[i], (const char *const *)c->classes, c->classes_n,
                                      p->folder[i], p->err);
        }
    }
    return rc;
}

int uw_folders_open(struct uw_folders *p, const char *text)
{
    char form[80];
    snprintf(form, sizeof form, "%s:DIR and %s:DIR,TESTDIR", p->kind->prefix, p->kind->prefix);
    int rc = uw_table_options_read(&p->o, text,
                                   &(struct uw_table_form){form, p->kind->options, 2}, p->err);
    rc = rc < 0 ? rc : choose_folders(p);
    rc = rc < 0 ? rc : uw_folder_list_open(&p->list[0], p->kind, p->folder[0], p->err);
    if (rc == UW_OK && p->folder[1][0] != '\0') {
        rc = uw_folder_list_open(&p->list[1], p->kind, p->folder[1], p->err);
    }
    p->files = &p->list[p->config->test && p->list[1].n != 0 ? 1 : 0];
    return rc;
}

int uw_folders_number(struct uw_folders *p)
{
    int rc = number_classes(p);
    const struct uw_folder_list *l = &p->list[0];
    if (rc < 0 || p->test != NULL || p->folder[1][0] != '\0' || p->o.test_share <= 0.0 ||
        (p->config->asks && l->classes_n == 0)) {
        return rc;
    }
    p->test = calloc((size_t)l->n + 1u, sizeof *p->test);
    int n = p->test == NULL ? UW_ERR_NOMEM
                            : uw_table_split(l->n, l->classes_n != 0 ? l->labels : NULL,
                                             p->columns->classes_n, p->o.test_share, p->test);
    if (n == 0) {
        free(p->test);
        p->test = NULL;
    }
    return n < 0 ? uw_folders_no_memory(p) : UW_OK;
}

/* ---- the set ---- */

bool uw_folders_wants(const struct uw_folders *p, uint32_t i)
{
    bool first = p->files == &p->list[0];
    return !first || ((p->test == NULL || p->test[i] == p->config->test) &&
                      (p->out == NULL || !p->out[i]));
}

void uw_folders_tell(struct uw_folders *p, const char *how, const char *end)
{
    const struct uw_folder_list *l = p->list;
    struct uw_data_columns *c = p->columns;
    uint32_t test_n = l[1].n, train_n = 0, used = 0;
    char text[UW_NOTE_BYTES];
    for (uint32_t i = 0; i < l[0].n; i++) {
        bool in = p->out == NULL || !p->out[i], trains = in && (p->test == NULL || !p->test[i]);
        train_n += trains;
        test_n += in && !trains;
        if (c->classes_n != 0) {
            c->counts[l[0].labels[i]] += trains;
        }
    }
    for (uint32_t k = 0; k < c->classes_n && k < LISTED; k++) {
        used = uw_note_add(text, used, sizeof text, "%s%.24s (%u)", k == 0 ? ": " : ", ",
                           c->classes[k], (unsigned)c->counts[k]);
    }
    text[used] = '\0';
    uint32_t empty = 0, first = 0;
    for (uint32_t k = c->classes_n; k-- > 0;) {
        empty += c->counts[k] == 0;
        first = c->counts[k] == 0 ? k : first;
    }
    if (c->classes_n == 1 || empty > 0) {
        uw_note(p->notes, c->classes_n == 1
                              ? "WARNING: the only class is %.40s: nothing can be told apart; DIR "
                                "needs a folder for each class"
                              : "WARNING: class %.40s has no %s for training",
                c->classes[first], p->kind->thing);
    }
    if (c->classes_n != 0) {
        uw_note(p->notes, "%u classes for training%s%s", (unsigned)c->classes_n, text,
                c->classes_n > LISTED ? ", ..." : "");
    }
    uw_note(p->notes, "%u %ss for training, %u for testing%s%s", (unsigned)train_n,
            p->kind->thing, (unsigned)(p->test == NULL && l[1].n == 0 ? train_n : test_n),
            *how != '\0'       ? how
            : p->test != NULL  ? ", by a hash of their number"
            : l[1].n == 0      ? ", the same ones"
                               : "", end);
}

void uw_folders_close(struct uw_folders *p)
{
    uw_folder_list_close(&p->list[0]);
    uw_folder_list_close(&p->list[1]);
    free(p->test);
    free(p->out);
    p->test = NULL;
    p->out = NULL;
}
