/* SPDX-License-Identifier: Apache-2.0 */
#include "job_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what PyTorch calls a parameter ---- */

static bool is_recurrent(enum uw_layer_kind kind)
{
    return kind == UW_LAYER_RNN || kind == UW_LAYER_GRU || kind == UW_LAYER_LSTM;
}

/* What follows the layer's name and a dot in the segment's; NULL: another layer's. */
static const char *suffix_of(const struct uw_layer_def *l, const struct uw_segment *s)
{
    size_t n = strlen(l->name);
    return strncmp(s->name, l->name, n) == 0 && s->name[n] == '.' ? s->name + n + 1 : NULL;
}

/* A layer of a JSON file is taken for a module of its own. */
static void find_recurrent(const struct uw_job *j, const struct uw_segment *s,
                           struct uw_job_torch *t)
{
    const struct uw_model_def *def = j->model.config.def;
    for (uint32_t i = 0; i < def->layers_n && j->onnx.tensors_n == 0; i++) {
        const struct uw_layer_def *l = &def->layers[i];
        if (is_recurrent(l->kind) && suffix_of(l, s) != NULL) {
            int n = snprintf(t->text, sizeof t->text, "%s_l0%s", s->name,
                             l->recurrent.reverse ? "_reverse" : "");
            t->own.name = t->text;
            t->n = n >= 0 && n < (int)sizeof t->text ? 1 : 0;
            return;
        }
    }
}

bool uw_job_torch_find(const struct uw_job *j, const struct uw_segment *s, struct uw_job_torch *t)
{
    *t = (struct uw_job_torch){.own = {.rank = s->rank, .rows = s->dim[0]}};
    memcpy(t->own.dim, s->dim, s->rank * sizeof s->dim[0]);
    t->part = &t->own;
    for (uint32_t i = 0; i < j->onnx.tensors_n; i++) {
        const struct uw_convert_tensor *from = &j->onnx.tensors[i];
        if (strcmp(from->name, s->name) == 0) {
            t->part = from->torch;
            t->n = from->torch_n;
            return t->n > 0 || from->aside;
        }
    }
    find_recurrent(j, s, t);
    return t->n > 0;
}

/* ---- what a file has ---- */

struct tensor {
    char name[UW_JOB_NAME_BYTES];
    uint64_t dim[UW_SHAPE_RANK_MAX];
    uint32_t rank;
    bool known;                     /* the model has it, by one name or the other */
};

/* One layer and direction of a recurrent module in the file: "lstm" of "lstm.weight_ih_l1". */
struct group {
    const struct tensor *input, *state;     /* weight_ih, weight_hh */
    uint32_t module_n;              /* bytes of "lstm." */
    uint32_t level;
    bool reverse;
    uint32_t users_n;               /* layers of the model that it fits */
};

struct file {
    struct tensor *tensor;
    uint32_t n, cap;
    bool no_memory;
};

static void take_tensor(void *arg, const struct uw_weights_tensor *t)
{
    struct file *f = arg;
    if (f->n == f->cap) {
        uint32_t cap = f->cap == 0 ? 64 : 2 * f->cap;
        struct tensor *more = realloc(f->tensor, cap * sizeof *more);
        f->no_memory = f->no_memory || more == NULL;
        f->tensor = more != NULL ? more : f->tensor;
        f->cap = more != NULL ? cap : f->cap;
    }
    if (f->n < f->cap && strlen(t->name) < UW_JOB_NAME_BYTES) {
        struct tensor *mine = &f->tensor[f->n++];
        *mine = (struct tensor){.rank = t->rank};
        snprintf(mine->name, sizeof mine->name, "%s", t->name);
        for (uint32_t a = 0; a < t->rank && a < UW_SHAPE_RANK_MAX; a++) {
            mine->dim[a] = t->dim[a];
        }
    }
}

static struct tensor *find(const struct file *f, const char *name)
{
    for (uint32_t i = 0; i < f->n; i++) {
        if (strcmp(f->tensor[i].name, name) == 0) {
            return &f->tensor[i];
        }
    }
    return NULL;
}

static bool same_shape(const struct tensor *t, const struct uw_segment *s)
{
    bool same = t->rank == s->rank;
    for (uint32_t a = 0; a < s->rank && same; a++) {
        same = t->dim[a] == s->dim[a];
    }
    return same;
}

/* A file whose batch norm the model does not have. */
static int check_normed(const struct file *f, const char *object, struct uw_error *err)
{
    static const char *const ends[] = {"running_mean", "running_var"};
    for (uint32_t i = 0; i < f->n; i++) {
        const char *name = f->tensor[i].name;
        size_t n = strlen(name);
        bool counts = !f->tensor[i].known && strncmp(name, "optimizer.", 10) != 0;
        for (uint32_t k = 0; k < 2 && counts; k++) {
            size_t end = strlen(ends[k]);
            if (n >= end && strcmp(name + n - end, ends[k]) == 0 &&
                (n == end || name[n - end - 1] == '.')) {
                return uw_error_set(err, UW_ERR_MISMATCH, "%.40s: its batch norm (%.36s) was "
                                    "folded when the model was exported: export with "
                                    "optimize=False, or dynamo=False, training="
                                    "TrainingMode.TRAINING", object, name);
            }
        }
    }
    return UW_OK;
}

/* ---- recurrent layers by order or shape ---- */

/* "lstm.weight_ih_l1_reverse", which no name of the model's means. */
static bool read_group(const struct file *f, const struct tensor *t, struct group *g)
{
    static const char input[] = "weight_ih_l", state[] = "weight_hh_l";
    char other[UW_JOB_NAME_BYTES];
    const char *dot = strrchr(t->name, '.');
    const char *part = dot != NULL ? dot + 1 : t->name;
    size_t n = sizeof input - 1;
    if (t->known || strncmp(part, input, n) != 0 || part[n] < '0' || part[n] > '9') {
        return false;
    }
    char *end;
    *g = (struct group){.input = t, .module_n = (uint32_t)(part - t->name),
                        .level = (uint32_t)strtoul(part + n, &end, 10)};
    g->reverse = strcmp(end, "_reverse") == 0;
    snprintf(other, sizeof other, "%.*s%s%s", (int)g->module_n, t->name, state, part + n);
    g->state = find(f, other);
    return g->state != NULL && (g->reverse || *end == '\0');
}

static int by_module(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    uint32_t n = x->module_n < y->module_n ? x->module_n : y->module_n;
    int order = strncmp(x->input->name, y->input->name, n);
    order = order != 0 ? order : (x->module_n > y->module_n) - (x->module_n < y->module_n);
    order = order != 0 ? order : (x->level > y->level) - (x->level < y->level);
    return order != 0 ? order : x->reverse - y->reverse;
}

#define SPACE (UW_CONVERT_PARTS_MAX + 1u)

struct search {
    const struct uw_job *j;
    struct file file;
    struct uw_weights_name *name;   /* [SPACE for each segment], filled in turn */
    char (*text)[UW_JOB_NAME_BYTES];
    struct uw_job_names *found;
};

static void add_name(struct search *s, const char *mine, const char *theirs, uint32_t first,
                     uint32_t rows)
{
    uint32_t i = s->found->names.n++;
    snprintf(s->text[i], sizeof s->text[i], "%s", theirs != NULL ? theirs : "");
    s->name[i] = (struct uw_weights_name){mine, theirs != NULL ? s->text[i] : NULL, first, rows};
}

static const struct uw_segment *segment_of(const struct uw_job *j, const struct uw_layer_def *l,
                                           const char *suffix)
{
    char name[UW_JOB_NAME_BYTES];
    snprintf(name, sizeof name, "%.120s.%s", l->name, suffix);
    return uw_params_find(&j->model.params, name);
}

static bool fits(const struct uw_job *j, const struct uw_layer_def *l, const struct group *g)
{
    const struct uw_segment *input = segment_of(j, l, "weight_ih");
    const struct uw_segment *state = segment_of(j, l, "weight_hh");
    return input != NULL && state != NULL && same_shape(g->input, input) &&
           same_shape(g->state, state) && g->reverse == l->recurrent.reverse;
}

/* Whether the file has neither name of the layer's weight. */
static bool is_open(const struct search *s, const struct uw_layer_def *l)
{
    struct uw_job_torch t = {.n = 0};
    const struct uw_segment *input =
        is_recurrent(l->kind) ? segment_of(s->j, l, "weight_ih") : NULL;
    bool named = input != NULL && uw_job_torch_find(s->j, input, &t) && t.n > 0;
    return input != NULL && find(&s->file, input->name) == NULL &&
           (!named || find(&s->file, t.part[0].name) == NULL);
}

/* Call the layer's parameters by the names of the group. */
static void pair(struct search *s, const struct uw_layer_def *l, const struct group *g)
{
    const char *tail = g->input->name + g->module_n + strlen("weight_ih");
    for (uint32_t i = 0; i < s->j->model.params.segments_n; i++) {
        const struct uw_segment *p = &s->j->model.params.segments[i];
        const char *suffix = suffix_of(l, p);
        char theirs[2 * UW_JOB_NAME_BYTES];
        snprintf(theirs, sizeof theirs, "%.*s%s%s", (int)g->module_n, g->input->name,
                 suffix != NULL ? suffix : "", tail);
        struct tensor *t = suffix != NULL ? find(&s->file, theirs) : NULL;
        if (t != NULL) {
            t->known = true;
            add_name(s, p->name, t->name, 0, 0);
        }
    }
    if (s->found->note[0] == '\0') {
        snprintf(s->found->note, sizeof s->found->note, "%.50s is taken for the model's layer "
                 "%.50s", g->input->name, l->name);
    }
}

/* The group of a layer: the next one, if all are of one module, else the only one that fits. */
static struct group *group_of(const struct search *s, const struct uw_layer_def *l,
                              struct group *group, uint32_t n, uint32_t next, bool one)
{
    struct group *found = NULL;
    for (uint32_t i = one ? next : 0; i < (one ? next + 1 : n); i++) {
        if (fits(s->j, l, &group[i])) {
            group[i].users_n += 1 + (found != NULL ? 1u : 0u);  /* two that fit: neither does */
            found = &group[i];
        }
    }
    return found;
}

static void match_groups(struct search *s, struct group *group)
{
    const struct uw_model_def *def = s->j->model.config.def;
    uint32_t n = 0, open_n = 0, at = 0;
    for (uint32_t i = 0; i < s->file.n; i++) {
        n += read_group(&s->file, &s->file.tensor[i], &group[n]) ? 1 : 0;
    }
    qsort(group, n, sizeof *group, by_module);
    bool one = n > 0 && group[0].module_n == group[n - 1].module_n &&
               strncmp(group[0].input->name, group[n - 1].input->name, group[0].module_n) == 0;
    bool good = n > 0;
    for (uint32_t i = 0; i < def->layers_n && good; i++) {
        if (is_open(s, &def->layers[i])) {
            good = open_n < n && group_of(s, &def->layers[i], group, n, open_n, one) != NULL;
            open_n++;
        }
    }
    for (uint32_t i = 0; i < n && good; i++) {
        good = open_n == n && group[i].users_n == 1;
    }
    for (uint32_t i = 0; i < def->layers_n && good; i++) {
        if (is_open(s, &def->layers[i])) {
            pair(s, &def->layers[i], group_of(s, &def->layers[i], group, n, at++, one));
        }
    }
    size_t used = strlen(s->found->note);
    if (used > 0) {
        snprintf(s->found->note + used, sizeof s->found->note - used, "%s%s",
                 n > 1 ? ", and so on, by " : ", by ", one ? "their order" : "their shapes");
    }
}

/* ---- all of it ---- */

/* The tensors of PyTorch that a parameter consists of, if the file has them: parts that follow one
 * another; of tied weights, which are the same rows, each is known and the first is taken. */
static void take_torch(struct search *s, const struct uw_segment *p)
{
    struct uw_job_torch t;
    uint32_t rows = 0;
    bool some = uw_job_torch_find(s->j, p, &t);
    if (some && t.n == 0) {
        add_name(s, p->name, NULL, 0, 0);
    }
    for (uint32_t i = 0; i < t.n && some; i++) {
        struct tensor *theirs = find(&s->file, t.part[i].name);
        rows += theirs != NULL && t.part[i].first == rows ? t.part[i].rows : 0;
    }
    for (uint32_t i = 0; i < t.n && rows == p->dim[0]; i++) {
        struct tensor *theirs = find(&s->file, t.part[i].name);
        if (theirs != NULL) {
            theirs->known = true;
            add_name(s, p->name, theirs->name, t.part[i].first, t.part[i].rows);
        }
    }
}

/* Mark the tensors that have a name of the model's, and list other names than the segments', which
 * come after these. */
static void take_known(struct search *s)
{
    for (uint32_t i = 0; i < s->j->model.params.segments_n; i++) {
        const struct uw_segment *p = &s->j->model.params.segments[i];
        struct tensor *t = find(&s->file, p->name);
        if (t != NULL) {
            t->known = true;
        }
        take_torch(s, p);
    }
}

int uw_job_names_find(struct uw_job_names *n, const struct uw_job *j, bool normed,
                      struct uw_storage *storage, const char *object, struct uw_error *err)
{
    uint32_t segments_n = j->model.params.segments_n;
    struct search s = {.j = j, .found = n};
    *n = (struct uw_job_names){.note = ""};
    int rc = uw_checkpoint_each(storage, object, take_tensor, &s.file, err);
    size_t names_n = SPACE * (size_t)segments_n + 1u;
    struct group *group = calloc(s.file.n + 1u, sizeof *group);
    n->memory = calloc(names_n, sizeof *s.name + sizeof *s.text);
    s.name = n->memory;
    s.text = s.name != NULL ? (char(*)[UW_JOB_NAME_BYTES])(s.name + names_n) : NULL;
    if (rc == UW_OK && (group == NULL || n->memory == NULL || s.file.no_memory)) {
        rc = uw_error_set(err, UW_ERR_NOMEM, "%.160s: out of memory", object);
    }
    if (rc == UW_OK) {
        n->names.name = s.name;
        take_known(&s);
        match_groups(&s, group);
        rc = normed ? check_normed(&s.file, object, err) : rc;
    }
    free(group);
    free(s.file.tensor);
    return rc;
}

void uw_job_names_close(struct uw_job_names *n)
{
    free(n->memory);
    *n = (struct uw_job_names){.note = ""};
}
