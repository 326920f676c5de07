/* SPDX-License-Identifier: Apache-2.0
 *
 * vectors.h - what PyTorch computed: the files that tools/gen_vectors wrote
 *
 *     struct vectors v;
 *     vectors_open(&v, "layers.txt");
 *     struct vector_case c;
 *     while (vectors_next(&v, "conv2d", &c)) { ... vector_int(&c, "stride_h") ... }
 *     vectors_close(&v);
 *
 * A malformed file fails the test with its line. */
#ifndef UWASA_TEST_VECTORS_H
#define UWASA_TEST_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VECTOR_NAME_BYTES 64
#define VECTOR_NUMBERS_MAX 64
#define VECTOR_OUTS_MAX 128

struct vectors {
    char *text;
    char *at;
    unsigned line;
};

struct vector_number {
    char key[VECTOR_NAME_BYTES];
    double value;
};

/* One expected output: the sum of all elements and every stride-th of them. */
struct vector_out {
    char key[VECTOR_NAME_BYTES];
    size_t size_n, stride, kept_n;
    double sum;
    float *kept;
};

struct vector_case {
    char kind[VECTOR_NAME_BYTES], name[VECTOR_NAME_BYTES];
    struct vector_number numbers[VECTOR_NUMBERS_MAX];
    unsigned numbers_n;
    struct vector_out outs[VECTOR_OUTS_MAX];
    unsigned outs_n;
};

/* Read a file of tests/parity/vectors. */
void vectors_open(struct vectors *v, const char *file);

/* Read the next case of a kind into *c, whose last content is released first: zero it before
 * the first call. Returns false, with *c released, at the end. */
bool vectors_next(struct vectors *v, const char *kind, struct vector_case *c);

/* Release the file. */
void vectors_close(struct vectors *v);

/* A number of a case; a missing key fails the test. */
uint32_t vector_int(const struct vector_case *c, const char *key);
float vector_real(const struct vector_case *c, const char *key);

/* An expected output, NULL when the case has none of that name. */
const struct vector_out *vector_find(const struct vector_case *c, const char *key);

/* The floats of tools/gen_vectors' fill(seed, n), times scale. */
void vector_fill(float *x, size_t n, uint32_t seed, float scale);

/* Fail the test unless `got` [size_n] equals output `key`: of every stored element
 * |got - want| <= relative * max(|want|, mean |want|), and the sum likewise. `backend` goes into
 * the message. */
void vector_expect(const struct vector_case *c, const char *key, const char *backend,
                   const float *got, double relative);

#endif
