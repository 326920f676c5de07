/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX files built byte by byte, and what the import says of them. */
#ifndef UWASA_TEST_ONNX_MESSAGE_H
#define UWASA_TEST_ONNX_MESSAGE_H

#include "test_support.h"

#include "uwasa/convert.h"

/* A protobuf message under construction. */
struct message {
    uint8_t bytes[4096];
    size_t n;
};

static inline void varint(struct message *m, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) {
        m->bytes[m->n++] = (uint8_t)(v | 0x80);
    }
    m->bytes[m->n++] = (uint8_t)v;
}

static inline void number(struct message *m, uint32_t field, int64_t v)
{
    varint(m, field << 3);
    varint(m, (uint64_t)v);
}

static inline void bytes(struct message *m, uint32_t field, const void *data, size_t n)
{
    varint(m, field << 3 | 2);
    varint(m, n);
    assert_true(m->n + n <= sizeof m->bytes);
    memcpy(m->bytes + m->n, data, n);
    m->n += n;
}

static inline void text(struct message *m, uint32_t field, const char *t)
{
    bytes(m, field, t, strlen(t));
}

static inline void inside(struct message *m, uint32_t field, const struct message *child)
{
    bytes(m, field, child->bytes, child->n);
}

static inline void value(struct message *graph, uint32_t field, const char *name, uint32_t rank,
                         const int64_t *dim)
{
    struct message shape = {.n = 0}, tensor = {.n = 0}, type = {.n = 0}, info = {.n = 0};
    for (uint32_t a = 0; a < rank; a++) {
        struct message d = {.n = 0};
        if (dim[a] != 0) {
            number(&d, 1, dim[a]);
        } else {
            text(&d, 2, "batch");
        }
        inside(&shape, 1, &d);
    }
    number(&tensor, 1, 1);
    inside(&tensor, 2, &shape);
    inside(&type, 1, &tensor);
    text(&info, 1, name);
    inside(&info, 2, &type);
    inside(graph, field, &info);
}

static inline void constant(struct message *graph, const char *name, uint32_t rank,
                            const int64_t *dim, const float *data, int64_t location)
{
    struct message t = {.n = 0};
    size_t n = 1;
    for (uint32_t a = 0; a < rank; a++) {
        number(&t, 1, dim[a]);
        n *= (size_t)dim[a];
    }
    number(&t, 2, 1);
    text(&t, 8, name);
    bytes(&t, 9, data, n * sizeof(float));
    number(&t, 14, location);
    inside(graph, 5, &t);
}

static inline void integers(struct message *graph, const char *name, uint32_t rank,
                            const int64_t *dim, const int64_t *data)
{
    struct message t = {.n = 0};
    size_t n = 1;
    for (uint32_t a = 0; a < rank; a++) {
        number(&t, 1, dim[a]);
        n *= (size_t)dim[a];
    }
    number(&t, 2, 7);
    text(&t, 8, name);
    bytes(&t, 9, data, n * sizeof(int64_t));
    inside(graph, 5, &t);
}

static inline void weight(struct message *graph, const char *name, uint32_t rank,
                          const int64_t *dim, int64_t location)
{
    static const float data[256] = {0};
    constant(graph, name, rank, dim, data, location);
}

/* inputs and outputs separated by blanks */
static inline struct message node(const char *op, const char *name, const char *in, const char *out)
{
    struct message n = {.n = 0};
    char copy[128];
    for (uint32_t side = 1; side <= 2; side++) {
        snprintf(copy, sizeof copy, "%s", side == 1 ? in : out);
        for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
            text(&n, side, word);
        }
    }
    text(&n, 3, name);
    text(&n, 4, op);
    return n;
}

static inline void ints(struct message *node_, const char *name, uint32_t count, const int64_t *v)
{
    struct message a = {.n = 0};
    text(&a, 1, name);
    for (uint32_t i = 0; i < count; i++) {
        number(&a, 8, v[i]);
    }
    number(&a, 20, 7);
    inside(node_, 5, &a);
}

/* One: a string; more: a list of them. */
static inline void words(struct message *node_, const char *name, uint32_t count,
                         const char *const *v)
{
    struct message a = {.n = 0};
    text(&a, 1, name);
    for (uint32_t i = 0; i < count; i++) {
        text(&a, count == 1 ? 4 : 9, v[i]);
    }
    number(&a, 20, count == 1 ? 3 : 8);
    inside(node_, 5, &a);
}

/* A node with one attribute of integers, into the graph. */
static inline void add(struct message *graph, const char *op, const char *in, const char *out,
                       const char *attribute, uint32_t count, const int64_t *v)
{
    struct message n = node(op, out, in, out);
    if (count > 0) {
        ints(&n, attribute, count, v);
    }
    inside(graph, 1, &n);
}

static const int64_t image[4] = {0, 1, 6, 6};
static const int64_t kernel[4] = {2, 1, 3, 3};

/* [N][1][6][6] in, one input; the graph's nodes are added by the test. */
static inline struct message begin(void)
{
    struct message g = {.n = 0};
    value(&g, 11, "x", 4, image);
    value(&g, 12, "y", 4, image);
    weight(&g, "conv.weight", 4, kernel, 0);
    return g;
}

static inline struct message file_of(const struct message *g, int64_t opset)
{
    struct message m = {.n = 0}, set = {.n = 0};
    number(&m, 1, 7);
    inside(&m, 7, g);
    number(&set, 2, opset);
    inside(&m, 8, &set);
    return m;
}

static inline int read_as(struct uw_convert_model *c, const struct message *g, int64_t opset,
                          struct uw_error *err)
{
    struct message m = file_of(g, opset);
    return uw_convert_read(c, m.bytes, m.n, "m", err);
}

static inline void expect(const struct message *g, int64_t opset, int code, const char *sentence)
{
    struct uw_convert_model c;
    struct uw_error err = {.text = ""};
    int rc = read_as(&c, g, opset, &err);
    if (strstr(err.text, sentence) == NULL) {
        fail_msg("'%s' has no '%s'", err.text, sentence);
    }
    assert_int_equal(rc, code);
    assert_null(c.memory);
}

#endif
