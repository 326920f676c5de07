/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "vectors.h"

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        fail_msg("%s: cannot be opened; tools/gen_vectors writes it", path);
        return NULL;
    }
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long bytes = ftell(f);
    assert_true(bytes > 0);
    rewind(f);
    char *text = malloc((size_t)bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)bytes, f), (size_t)bytes);
    text[bytes] = '\0';
    fclose(f);
    return text;
}

void vectors_open(struct vectors *v, const char *file)
{
    char path[1024];
    int n = snprintf(path, sizeof path, "%s/%s", UWASA_VECTORS, file);
    assert_in_range(n, 1, sizeof path - 1);
    v->text = read_file(path);
    v->at = v->text;
    v->line = 0;
}

void vectors_close(struct vectors *v)
{
    free(v->text);
    v->text = NULL;
}

/* The next line, without its end, or NULL after the last. */
static char *next_line(struct vectors *v)
{
    while (*v->at != '\0') {
        char *line = v->at;
        size_t n = strcspn(line, "\n");
        v->at = line + n + (line[n] == '\n');
        line[n] = '\0';
        v->line++;
        if (line[0] != '#' && line[0] != '\0') {
            return line;
        }
    }
    return NULL;
}

static void release(struct vector_case *c)
{
    for (unsigned i = 0; i < c->outs_n; i++) {
        free(c->outs[i].kept);
    }
    memset(c, 0, sizeof *c);
}

static void read_out(struct vectors *v, struct vector_case *c, const char *line)
{
    assert_true(c->outs_n < VECTOR_OUTS_MAX);
    struct vector_out *o = &c->outs[c->outs_n++];
    if (sscanf(line, "out %63s %zu %zu %lf", o->key, &o->size_n, &o->stride, &o->sum) != 4 ||
        o->size_n == 0 || o->stride == 0) {
        fail_msg("line %u: wants `out KEY ELEMENTS STRIDE SUM`", v->line);
    }
    o->kept_n = (o->size_n + o->stride - 1) / o->stride;
    o->kept = calloc(o->kept_n, sizeof *o->kept);
    assert_non_null(o->kept);
    size_t have_n = 0;
    while (have_n < o->kept_n) {
        char *at = next_line(v);
        if (at == NULL) {
            fail_msg("%s %s: ends after %zu of %zu numbers", c->name, o->key, have_n, o->kept_n);
            return;
        }
        for (char *end = at; have_n < o->kept_n && *at != '\0'; at = end) {
            o->kept[have_n] = strtof(at, &end);
            if (end == at) {
                fail_msg("line %u: not a number: %s", v->line, at);
            }
            have_n++;
        }
    }
}

/* Read the rest of a case, up to its "end". */
static void read_case(struct vectors *v, struct vector_case *c)
{
    for (char *line = next_line(v); line != NULL; line = next_line(v)) {
        char word[8];
        if (strcmp(line, "end") == 0) {
            return;
        }
        if (strncmp(line, "out ", 4) == 0) {
            read_out(v, c, line);
            continue;
        }
        assert_true(c->numbers_n < VECTOR_NUMBERS_MAX);
        struct vector_number *n = &c->numbers[c->numbers_n++];
        if (sscanf(line, "%7s %63s %lf", word, n->key, &n->value) != 3 ||
            (strcmp(word, "int") != 0 && strcmp(word, "real") != 0)) {
            fail_msg("line %u: wants int, real, out or end: %s", v->line, line);
        }
    }
    fail_msg("%s: the file ends inside this case", c->name);
}

bool vectors_next(struct vectors *v, const char *kind, struct vector_case *c)
{
    for (char *line = next_line(v); line != NULL; line = next_line(v)) {
        release(c);
        if (sscanf(line, "case %63s %63s", c->kind, c->name) != 2) {
            fail_msg("line %u: wants `case KIND NAME`: %s", v->line, line);
        }
        read_case(v, c);
        if (strcmp(c->kind, kind) == 0) {
            return true;
        }
    }
    release(c);
    return false;
}

static double number(const struct vector_case *c, const char *key)
{
    for (unsigned i = 0; i < c->numbers_n; i++) {
        if (strcmp(c->numbers[i].key, key) == 0) {
            return c->numbers[i].value;
        }
    }
    fail_msg("%s %s: has no %s", c->kind, c->name, key);
    return 0;
}

uint32_t vector_int(const struct vector_case *c, const char *key)
{
    return (uint32_t)number(c, key);
}

float vector_real(const struct vector_case *c, const char *key)
{
    return (float)number(c, key);
}

const struct vector_out *vector_find(const struct vector_case *c, const char *key)
{
    for (unsigned i = 0; i < c->outs_n; i++) {
        if (strcmp(c->outs[i].key, key) == 0) {
            return &c->outs[i];
        }
    }
    return NULL;
}

void vector_fill(float *x, size_t n, uint32_t seed, float scale)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t h = (uint32_t)(i + 1) * 0x9e3779b1u + seed * 0x85ebca6bu;
        h ^= h >> 15;
        h *= 0x2c1b3c6du;
        h ^= h >> 12;
        h *= 0x297a2d39u;
        h ^= h >> 15;
        x[i] = ((float)(h >> 8) / 8388608.0f - 1.0f) * scale;
    }
}

void vector_expect(const struct vector_case *c, const char *key, const char *backend,
                   const float *got, double relative)
{
    const struct vector_out *o = vector_find(c, key);
    if (o == NULL) {
        fail_msg("%s %s: has no output %s", c->kind, c->name, key);
        return;
    }
    double mean = 0, sum = 0;
    for (size_t i = 0; i < o->kept_n; i++) {
        mean += fabs((double)o->kept[i]) / (double)o->kept_n;
    }
    for (size_t i = 0; i < o->size_n; i++) {
        sum += (double)got[i];
    }
    for (size_t i = 0; i < o->kept_n; i++) {
        double want = (double)o->kept[i], have = (double)got[i * o->stride];
        double bound = relative * fmax(fabs(want), mean);
        if (!(fabs(have - want) <= bound)) {
            fail_msg("%s %s, backend %s: %s[%zu] is %.9g, PyTorch has %.9g", c->kind, c->name,
                     backend, key, i * o->stride, have, want);
        }
    }
    /* The file has twelve digits of the sum, whatever the elements may differ. */
    if (!(fabs(sum - o->sum) <= fmax(relative, 1e-9) * mean * (double)o->size_n)) {
        fail_msg("%s %s, backend %s: the sum of %s is %.9g, PyTorch has %.9g", c->kind, c->name,
                 backend, key, sum, o->sum);
    }
}
