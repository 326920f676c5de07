/* SPDX-License-Identifier: Apache-2.0 */
#include "tensors.h"

#include <stdio.h>
#include <string.h>

#define BUFFER_BYTES 512u

static void format_dims(char *out, size_t out_bytes, const uint64_t *dim, uint32_t rank)
{
    size_t used = (size_t)snprintf(out, out_bytes, "[");
    for (uint32_t i = 0; i < rank && i < UW_SHAPE_RANK_MAX && used < out_bytes; i++) {
        used += (size_t)snprintf(out + used, out_bytes - used, i > 0 ? ",%llu" : "%llu",
                                 (unsigned long long)dim[i]);
    }
    if (used < out_bytes) {
        snprintf(out + used, out_bytes - used, rank > UW_SHAPE_RANK_MAX ? ",...]" : "]");
    }
}

int uw_tensor_check(const struct uw_safetensors *st, const struct uw_segment *segment,
                    const struct uw_safetensors_entry *e, struct uw_error *err)
{
    uint64_t want[UW_SHAPE_RANK_MAX];
    bool same = e->rank == segment->rank;
    char have_text[64];
    char want_text[64];

    for (uint32_t i = 0; i < segment->rank; i++) {
        want[i] = segment->dim[i];
        same = same && e->dim[i] == want[i];
    }
    if (strcmp(e->dtype, "F32") != 0) {
        return uw_error_set(err, UW_ERR_MISMATCH, "%s: tensor %s is %s, needs F32", st->object,
                            e->name, e->dtype);
    }
    if (!same) {
        format_dims(have_text, sizeof have_text, e->dim, e->rank);
        format_dims(want_text, sizeof want_text, want, segment->rank);
        return uw_error_set(err, UW_ERR_MISMATCH, "%s: tensor %s is %s, the model needs %s",
                            st->object, e->name, have_text, want_text);
    }
    if (e->end - e->begin != (uint64_t)segment->size_n * sizeof(float)) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%s: tensor %s has %llu bytes, its shape needs "
                            "%llu", st->object, e->name, (unsigned long long)(e->end - e->begin),
                            (unsigned long long)segment->size_n * sizeof(float));
    }
    return UW_OK;
}

/* IEEE single: all exponent bits set is NaN or infinity. */
int uw_tensor_check_finite(const struct uw_safetensors *st, const struct uw_safetensors_entry *e,
                           struct uw_error *err)
{
    uint32_t words[BUFFER_BYTES / sizeof(uint32_t)];

    for (uint64_t at = e->begin; at < e->end;) {
        size_t bytes = e->end - at < sizeof words ? (size_t)(e->end - at) : sizeof words;
        int rc = st->storage->ops->read(st->storage, st->object, st->data_offset + at, words,
                                        bytes);
        if (rc < 0) {
            return uw_error_set(err, rc, "%s: tensor %s: %s", st->object, e->name,
                                uw_status_text(rc));
        }
        for (size_t i = 0; i < bytes / sizeof words[0]; i++) {
            if ((words[i] & 0x7f800000u) == 0x7f800000u) {
                return uw_error_set(err, UW_ERR_NONFINITE,
                                    "%s: tensor %s holds a NaN or an infinity", st->object,
                                    e->name);
            }
        }
        at += bytes;
    }
    return UW_OK;
}

int uw_tensor_read(const struct uw_safetensors *st, const struct uw_safetensors_entry *e,
                   uint64_t first, uint64_t n, float *out, struct uw_error *err)
{
    int rc = st->storage->ops->read(st->storage, st->object,
                                    st->data_offset + e->begin + first * sizeof *out, out,
                                    (size_t)n * sizeof *out);
    return rc < 0 ? uw_error_set(err, rc, "%s: tensor %s: %s", st->object, e->name,
                                 uw_status_text(rc))
                  : UW_OK;
}

/* w[out][in] += scale * b[out][rank] a[rank][in] */
static int add_product(const struct uw_safetensors *st, const struct uw_safetensors_entry *a,
                       const struct uw_safetensors_entry *b, float scale, float *w,
                       struct uw_error *err)
{
    float part[BUFFER_BYTES / sizeof(float)], factor;
    uint64_t rank = a->dim[0], in = a->dim[1], n;
    int rc = UW_OK;

    for (uint64_t k = 0; k < b->dim[0] * rank && rc == UW_OK; k++) {
        rc = uw_tensor_read(st, b, k, 1, &factor, err);
        for (uint64_t i = 0; i < in && rc == UW_OK; i += n) {
            n = in - i < sizeof part / sizeof part[0] ? in - i : sizeof part / sizeof part[0];
            rc = uw_tensor_read(st, a, k % rank * in + i, n, part, err);
            for (uint64_t j = 0; j < n && rc == UW_OK; j++) {
                w[k / rank * in + i + j] += scale * factor * part[j];
            }
        }
    }
    return rc;
}

static int find_beside(const struct uw_safetensors *st, const struct uw_segment *weight,
                       const char *suffix, struct uw_safetensors_entry *e, struct uw_error *err)
{
    char name[UW_SAFETENSORS_NAME_BYTES];
    int stem = (int)(strlen(weight->name) - strlen(".weight"));
    snprintf(name, sizeof name, "%.*s.%s", stem, weight->name, suffix);
    return uw_safetensors_find(st, name, e, err);
}

int uw_tensor_merge_addition(const struct uw_safetensors *st, const struct uw_segment *weight,
                             float scale, float *w, struct uw_error *err)
{
    struct uw_safetensors_entry a, b;
    uint32_t out = weight->dim[0], in = weight->dim[1];
    int rc = find_beside(st, weight, "lora_a", &a, err);
    if (rc <= 0) {
        return rc;
    }
    rc = find_beside(st, weight, "lora_b", &b, err);
    if (rc == 0) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "%s: tensor %s has no lora_b beside it",
                            st->object, a.name);
    }
    uint32_t rank = a.dim[0] <= UINT32_MAX / (in > out ? in : out) ? (uint32_t)a.dim[0] : 0;
    const struct uw_segment want_a = {.dim = {rank, in}, .rank = 2, .size_n = rank * in};
    const struct uw_segment want_b = {.dim = {out, rank}, .rank = 2, .size_n = out * rank};
    rc = rc < 0 ? rc : uw_tensor_check(st, &want_a, &a, err);
    rc = rc < 0 ? rc : uw_tensor_check(st, &want_b, &b, err);
    if (rc == UW_OK && w != NULL) {
        return add_product(st, &a, &b, scale, w, err);
    }
    rc = rc < 0 ? rc : uw_tensor_check_finite(st, &a, err);
    return rc < 0 ? rc : uw_tensor_check_finite(st, &b, err);
}
