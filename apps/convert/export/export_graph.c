/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

#include <string.h>

static struct uw_export_node scratch_node;  /* written after a failure, never read */

const char *uw_export_new_name(struct uw_export *e)
{
    const char *name;
    do { /* no two have one number; a long name must not cut it off */
        name = uw_pool_format(e->pool, "/%.400s/%u", e->name, (unsigned)e->parts++);
    } while (name != NULL && uw_names_slot(&e->taken, name)->name != NULL);
    e->failed = e->failed || name == NULL;
    return name != NULL ? name : "";
}

struct uw_export_node *uw_export_node(struct uw_export *e, const char *op, const char *x,
                                      const char *y, const char *z)
{
    struct uw_export_node *n = uw_pool_take(e->pool, 1, sizeof *n);
    if (n == NULL) {
        e->failed = true;
        n = &scratch_node;
        *n = (struct uw_export_node){.op = op};
    } else if (e->last == NULL) {
        e->first = n;
        e->last = n;
    } else {
        e->last->next = n;
        e->last = n;
    }
    const char *in[3] = {x, y, z};
    for (uint32_t i = 0; i < 3 && in[i] != NULL; i++) {
        n->input[n->inputs_n++] = in[i];
    }
    n->op = op;
    n->output[0] = uw_export_new_name(e);
    n->outputs_n = 1;
    n->name = n->output[0];
    return n;
}

const char *uw_export_op(struct uw_export *e, const char *op, const char *x, const char *y)
{
    return uw_export_node(e, op, x, y, NULL)->output[0];
}

static struct uw_export_attribute *attribute(struct uw_export_node *n, const char *name,
                                             int32_t type)
{
    struct uw_export_attribute *a = &n->attribute[n->attributes_n++];
    a->name = name;
    a->type = type;
    return a;
}

void uw_export_int(struct uw_export_node *n, const char *name, int64_t value)
{
    attribute(n, name, 2)->i[0] = value;
}

void uw_export_float(struct uw_export_node *n, const char *name, float value)
{
    attribute(n, name, 1)->f = value;
}

void uw_export_text(struct uw_export_node *n, const char *name, const char *value)
{
    attribute(n, name, 3)->s = value;
}

void uw_export_ints(struct uw_export_node *n, const char *name, uint32_t count,
                    const int64_t *values)
{
    struct uw_export_attribute *a = attribute(n, name, 7);
    memcpy(a->i, values, count * sizeof *values);
    a->n = count;
}

static struct uw_export_tensor *tensor(struct uw_export *e, const char *name, uint32_t rank,
                                       const int64_t *dim)
{
    struct uw_export_tensor *t = uw_pool_take(e->pool, 1, sizeof *t);
    if (t == NULL) {
        e->failed = true;
        return NULL;
    }
    if (e->tensors_last == NULL) {
        e->tensors = t;
    } else {
        e->tensors_last->next = t;
    }
    e->tensors_last = t;
    t->name = name;
    t->rank = rank;
    t->n = 1;
    for (uint32_t a = 0; a < rank; a++) {
        t->dim[a] = dim[a];
        t->n *= (uint64_t)dim[a];
    }
    return t;
}

const char *uw_export_const_ints(struct uw_export *e, uint32_t count, const int64_t *values)
{
    const int64_t dim = count;
    int64_t *copy = uw_pool_take(e->pool, count, sizeof *copy);
    struct uw_export_tensor *t = tensor(e, uw_export_new_name(e), 1, &dim);
    if (copy == NULL || t == NULL) {
        e->failed = true;
        return "";
    }
    memcpy(copy, values, count * sizeof *copy);
    t->integers = copy;
    return t->name;
}

const char *uw_export_const_floats(struct uw_export *e, const float *data, uint32_t rank,
                                   const int64_t *dim)
{
    struct uw_export_tensor *t = tensor(e, uw_export_new_name(e), rank, dim);
    if (t == NULL || data == NULL) {
        e->failed = true;
        return "";
    }
    t->floats = data;
    return t->name;
}

const char *uw_export_const_float(struct uw_export *e, float value)
{
    float *copy = uw_pool_take(e->pool, 1, sizeof *copy);
    if (copy != NULL) {
        *copy = value;
    }
    return uw_export_const_floats(e, copy, 0, NULL);
}

const char *uw_export_fill(struct uw_export *e, uint32_t count, float value)
{
    const int64_t dim = count;
    float *data = uw_pool_take(e->pool, count, sizeof *data);
    for (uint32_t i = 0; data != NULL && i < count; i++) {
        data[i] = value;
    }
    return uw_export_const_floats(e, data, 1, &dim);
}

const struct uw_segment *uw_export_segment(struct uw_export *e, const char *suffix)
{
    const char *name = suffix[0] != '\0' ? uw_pool_format(e->pool, "%s.%s", e->def->name, suffix)
                                         : e->def->name;
    e->failed = e->failed || name == NULL;
    return name != NULL ? uw_params_find(&e->m->params, name) : NULL;
}

const char *uw_export_param(struct uw_export *e, const char *suffix)
{
    const struct uw_segment *s = uw_export_segment(e, suffix);
    int64_t dim[UW_SHAPE_RANK_MAX];
    if (s == NULL) {
        return NULL;
    }
    for (uint32_t a = 0; a < s->rank; a++) {
        dim[a] = s->dim[a];
    }
    const struct uw_name *slot = e->like != NULL ? uw_names_slot(&e->sources, s->name) : NULL;
    const char *name = slot != NULL && slot->other != NULL     ? slot->other
                       : uw_names_slot(&e->taken, s->name)->at ? uw_export_new_name(e)
                                                               : s->name;
    struct uw_export_tensor *t = tensor(e, name, s->rank, dim);
    if (t == NULL) {
        return "";
    }
    t->floats = e->m->params.x + s->offset_n;
    return t->name;
}

const char *uw_export_reshape(struct uw_export *e, const char *x, uint32_t rank,
                              const int64_t *dim)
{
    int64_t shape[1 + UW_CONVERT_RANK_MAX] = {0};
    memcpy(shape + 1, dim, rank * sizeof *dim);
    return uw_export_op(e, "Reshape", x, uw_export_const_ints(e, rank + 1, shape));
}

const char *uw_export_cast(struct uw_export *e, const char *x, int64_t to)
{
    struct uw_export_node *n = uw_export_node(e, "Cast", x, NULL, NULL);
    uw_export_int(n, "to", to);
    return n->output[0];
}

const char *uw_export_transpose(struct uw_export *e, const char *x, uint32_t rank,
                                const int64_t *order)
{
    struct uw_export_node *n = uw_export_node(e, "Transpose", x, NULL, NULL);
    uw_export_ints(n, "perm", rank, order);
    return n->output[0];
}

const char *uw_export_slice(struct uw_export *e, const char *x, int64_t axis, int64_t start,
                            int64_t end)
{
    const char *to = uw_export_const_ints(e, 1, &end), *from = uw_export_const_ints(e, 1, &start);
    struct uw_export_node *n = uw_export_node(e, "Slice", x, from, to);
    n->input[n->inputs_n++] = uw_export_const_ints(e, 1, &axis);
    return n->output[0];
}

const char *uw_export_squeeze(struct uw_export *e, const char *x, int64_t axis)
{
    return uw_export_op(e, "Squeeze", x, uw_export_const_ints(e, 1, &axis));
}

const char *uw_export_matmul(struct uw_export *e, const char *x, const char *weight,
                             const char *bias)
{
    static const int64_t swap[2] = {1, 0};
    const char *y = uw_export_op(e, "MatMul", x, uw_export_transpose(e, weight, 2, swap));
    return bias != NULL ? uw_export_op(e, "Add", y, bias) : y;
}

uint32_t uw_export_find_layer(const struct uw_model_def *d, const char *name, uint32_t before)
{
    for (uint32_t i = 0; i < before; i++) {
        if (strcmp(d->layers[i].name, name) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

const char *uw_export_value(const struct uw_export *e, const char *name)
{
    uint32_t from = uw_export_find_layer(e->m->config.def, name, e->layer);
    return from != UINT32_MAX ? e->value[from] : e->input;
}
