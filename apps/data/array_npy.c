/* SPDX-License-Identifier: Apache-2.0 */
#include "array.h"

#include "file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { START_BYTES = 10, HEADER_MAX = 65536 };

static int refuse(const char *file, int code, struct uw_error *err, const char *what)
{
    return uw_error_set(err, code, "%.120s: %s", file, what);
}

/* The text behind 'KEY': in the header; NULL: it is not there. */
static const char *value_of(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *at = strstr(header, quoted);
    at = at != NULL ? at + strlen(quoted) : NULL;
    while (at != NULL && (*at == ' ' || *at == ':')) {
        at++;
    }
    return at;
}

/* "'<f4'": order, kind and size. */
static int read_type(struct uw_array *a, const char *file, const char *text, struct uw_error *err)
{
    char order = text != NULL && text[0] == '\'' ? text[1] : '\0';
    char kind = order != '\0' ? text[2] : '\0', size = kind != '\0' ? text[3] : '\0';
    bool whole = (kind == 'u' || kind == 'i') && strchr("1248", size) != NULL;
    bool real = kind == 'f' && (size == '2' || size == '4' || size == '8');
    if (kind == 'U' || kind == 'S' || kind == 'O') {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "%.100s: the elements of %.40s are %s: numpy.unique(y, "
                            "return_inverse=True)[1] numbers labels that are words", file, a->name,
                            kind == 'O' ? "objects of Python" : "words");
    }
    if (size == '\0' || strchr("<>|=", order) == NULL || text[4] != '\'' ||
        !(whole || real || (kind == 'b' && size == '1'))) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "%.100s: its elements are \"%.12s\"; whole numbers, floats and bool "
                            "can be read: array.astype(\"float32\")", file,
                            text != NULL ? text : "?");
    }
    a->kind = kind;
    a->item_bytes = (uint32_t)(size - '0');
    a->swapped = order == '>';
    return UW_OK;
}

/* "(60000, 28, 28)" */
static int read_shape(struct uw_array *a, const char *file, const char *text, struct uw_error *err)
{
    if (text == NULL || *text++ != '(') {
        return refuse(file, UW_ERR_CORRUPT, err, "its header has no shape");
    }
    for (a->n = 1; *text != ')' && *text != '\0';) {
        char *end;
        unsigned long long dim = strtoull(text, &end, 10);
        if (end == text || a->rank == UW_ARRAY_RANK_MAX) {
            return refuse(file, UW_ERR_UNSUPPORTED, err, "its shape has more than 5 axes");
        }
        if (dim == 0 || dim > UINT32_MAX || a->n > UINT64_MAX / 16u / dim) {
            return refuse(file, dim == 0 ? UW_ERR_CORRUPT : UW_ERR_TOOBIG, err,
                          dim == 0 ? "it is empty" : "it has too many elements");
        }
        a->dim[a->rank++] = dim;
        a->n *= dim;
        text = end + strspn(end, ", L");
    }
    return a->rank != 0 ? UW_OK : refuse(file, UW_ERR_UNSUPPORTED, err, "it is a single number");
}

static int read_header(struct uw_array *a, char *header, const char *file, bool *fortran,
                       struct uw_error *err)
{
    const char *order = value_of(header, "fortran_order");
    int rc = read_type(a, file, value_of(header, "descr"), err);
    rc = rc < 0 ? rc : read_shape(a, file, value_of(header, "shape"), err);
    *fortran = order != NULL && strncmp(order, "True", 4) == 0 && a->rank > 1;
    if (rc == UW_OK && !*fortran && (order == NULL || strncmp(order, "False", 5) != 0)) {
        rc = refuse(file, UW_ERR_CORRUPT, err, "its header does not tell the order of its axes");
    }
    return rc;
}

/* From Fortran's order, the first axis fastest, to C's. */
static int turn(struct uw_array *a, const char *file, struct uw_error *err)
{
    size_t bytes = a->item_bytes, step[UW_ARRAY_RANK_MAX], all = 1;
    uint64_t at[UW_ARRAY_RANK_MAX] = {0};
    uint8_t *to = malloc((size_t)a->n * bytes);
    if (to == NULL) {
        return refuse(file, UW_ERR_NOMEM, err, "no memory to turn it from Fortran's order");
    }
    for (uint32_t k = 0; k < a->rank; k++) {
        step[k] = all;
        all *= (size_t)a->dim[k];
    }
    for (size_t i = 0, from = 0; i < a->n; i++) {
        memcpy(to + i * bytes, a->data + from * bytes, bytes);
        for (uint32_t k = a->rank; k-- > 0;) {
            from += step[k];
            if (++at[k] < a->dim[k]) {
                break;
            }
            from -= step[k] * (size_t)a->dim[k];
            at[k] = 0;
        }
    }
    free(a->memory);
    a->memory = to;
    a->data = to;
    return UW_OK;
}

int uw_array_parse(struct uw_array *a, uint8_t *memory, size_t bytes, const char *file,
                   struct uw_error *err)
{
    char name[sizeof a->name];
    memcpy(name, a->name, sizeof name);
    *a = (struct uw_array){.memory = memory};
    memcpy(a->name, name, sizeof name);
    if (bytes < START_BYTES + 2u || memcmp(memory, "\x93NUMPY", 6) != 0) {
        return refuse(file, UW_ERR_CORRUPT, err, "is no array of NumPy (.npy)");
    }
    bool wide = memory[6] >= 2;
    size_t start = START_BYTES + (wide ? 2u : 0u), header = memory[8] | (size_t)memory[9] << 8;
    header |= wide ? (size_t)memory[10] << 16 | (size_t)memory[11] << 24 : 0;
    if (header >= HEADER_MAX || header > bytes - start) {
        return refuse(file, UW_ERR_CORRUPT, err, "is cut off in its header");
    }
    char *text = malloc(header + 1);
    if (text == NULL) {
        return refuse(file, UW_ERR_NOMEM, err, "no memory");
    }
    memcpy(text, memory + start, header);
    text[header] = '\0';
    bool fortran = false;
    int rc = read_header(a, text, file, &fortran, err);
    free(text);
    if (rc == UW_OK && a->n > (bytes - start - header) / a->item_bytes) {
        rc = refuse(file, UW_ERR_CORRUPT, err, "is cut off: its shape has more elements");
    }
    a->data = memory + start + header;
    return rc < 0 || !fortran ? rc : turn(a, file, err);
}

int uw_array_open_npy(struct uw_array *a, const char *path, struct uw_error *err)
{
    struct uw_file f;
    const char *slash = strrchr(path, '/');
    *a = (struct uw_array){.memory = NULL};
    snprintf(a->name, sizeof a->name, "%s", slash != NULL ? slash + 1 : path);
    int rc = uw_file_open(&f, path, NULL, err);
    if (rc < 0) {
        return rc;
    }
    uint8_t *memory;
    rc = uw_file_load(&f, &memory, err);
    rc = rc < 0 ? rc : uw_array_parse(a, memory, (size_t)f.bytes, path, err);
    uw_file_close(&f);
    return rc;
}

/* ---- elements ---- */

static float half(uint64_t bits)
{
    int exponent = (int)(bits >> 10 & 31u);
    float mantissa = (float)(bits & 1023u);
    float value = exponent == 0    ? ldexpf(mantissa, -24)
                  : exponent == 31 ? (mantissa != 0.0f ? NAN : INFINITY)
                                   : ldexpf(1024.0f + mantissa, exponent - 25);
    return (bits >> 15 & 1u) != 0 ? -value : value;
}

static float real(uint64_t bits, uint32_t bytes)
{
    if (bytes == 8) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return (float)value;
    }
    if (bytes == 4) {
        uint32_t low = (uint32_t)bits;
        float value;
        memcpy(&value, &low, sizeof value);
        return value;
    }
    return half(bits);
}

float uw_array_at(const struct uw_array *a, uint64_t i)
{
    const uint8_t *p = a->data + i * a->item_bytes;
    uint64_t bits = 0;
    for (uint32_t k = 0; k < a->item_bytes; k++) {
        bits |= (uint64_t)p[k] << 8 * (a->swapped ? a->item_bytes - 1 - k : k);
    }
    if (a->kind == 'f') {
        return real(bits, a->item_bytes);
    }
    if (a->kind == 'i' && a->item_bytes < 8 && (bits >> (8 * a->item_bytes - 1) & 1u) != 0) {
        bits |= UINT64_MAX << 8 * a->item_bytes;
    }
    return a->kind == 'i' ? (float)(int64_t)bits : (float)bits;
}

const char *uw_array_text(const struct uw_array *a, char text[160])
{
    int n = snprintf(text, 160, "%.60s ", a->name);
    for (uint32_t i = 0; i < a->rank; i++) {
        n += snprintf(text + n, 160 - (size_t)n, "[%llu]", (unsigned long long)a->dim[i]);
    }
    return text;
}

void uw_array_close(struct uw_array *a)
{
    free(a->memory);
    *a = (struct uw_array){.memory = NULL};
}
