/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "memory_storage.h"

#include "uwasa/backends.h"
#include "uwasa/checkpoint.h"

static const struct uw_layer_def layers[] = {
    {.kind = UW_LAYER_CONV2D, .name = "conv", .conv2d = {.out_channels = 2, .kernel_h = 3}},
    {.kind = UW_LAYER_FLATTEN, .name = "a \"quoted\\name"},
    {.kind = UW_LAYER_DENSE, .name = "d\x01", .dense = {.out = 3}},
};
static const struct uw_model_def small = {"small", 1, 5, 5, layers, 3};
static const struct uw_layer_def other_layers[] = {
    {.kind = UW_LAYER_CONV2D, .name = "conv", .conv2d = {.out_channels = 4, .kernel_h = 3}},
    {.kind = UW_LAYER_FLATTEN, .name = "f"},
    {.kind = UW_LAYER_DENSE, .name = "d\x01", .dense = {.out = 3}},
};
static const struct uw_model_def other = {"other", 1, 5, 5, other_layers, 3};

/* 96 bytes */
#define ABC "abcdefghijklmnopqrstuvwxyz "
#define LONG ABC ABC ABC "123456789012345"
static const struct uw_layer_def long_layers[] = {
    {.kind = UW_LAYER_ATTENTION, .name = LONG, .attention = {.heads = 1}},
    {.kind = UW_LAYER_FLATTEN, .name = "f"},
    {.kind = UW_LAYER_DENSE, .name = "d", .dense = {.out = 3}},
};
static const struct uw_model_def long_names = {"long", 2, 0, 2, long_layers, 3};
static const struct uw_layer_def dense_layers[] = {
    {.kind = UW_LAYER_DENSE, .name = "a", .dense = {.out = 6}},
    {.kind = UW_LAYER_RELU, .name = "r"},
    {.kind = UW_LAYER_DENSE, .name = "b", .dense = {.out = 3}},
};
static const struct uw_model_def dense = {"dense", 5, 0, 0, dense_layers, 3};

struct fixture {
    struct uw_model m;
    struct memory_storage storage;
    struct uw_error err;
    uint8_t workspace[UW_MODEL_WORKSPACE_BYTES(3)];
    uint8_t memory[8192];
};

static void open_adapted(struct fixture *f, const struct uw_model_def *def, bool momentum,
                         const struct uw_adapt *adapt)
{
    struct uw_arena arena;
    struct uw_model_config config = {.def = def, .kernels = &uw_kernels_ref, .batch_n = 1,
                                     .optimizer = {.momentum = momentum ? 0.9f : 0.0f},
                                     .adapt = *adapt,
                                     .workspace = f->workspace,
                                     .workspace_bytes = sizeof f->workspace};

    f->storage = (struct memory_storage){.base = {&memory_storage_ops}};
    uw_arena_init(&arena, f->memory, sizeof f->memory);
    assert_int_equal(uw_model_bind(&f->m, &config, &arena, &f->err), UW_OK);
    uw_model_init_weights(&f->m, 5);
}

static void open_model(struct fixture *f, const struct uw_model_def *def, bool momentum)
{
    open_adapted(f, def, momentum, &(struct uw_adapt){.lora_rank = 0});
    for (uint32_t i = 0; momentum && i < f->m.params.size_n; i++) {
        f->m.state[0][i] = (float)i * 0.5f;
    }
}

static const struct uw_checkpoint full_state = {
    .step = UINT64_MAX, .epoch = 3, .position = 40, .seed = 0, .batch_n = 20, .user = {1, 2, 3, 4},
    .exact = 1, .layers = 9};

static void test_checkpoint_saved_then_loaded_is_the_same_bits(void **state)
{
    (void)state;
    static struct fixture f;
    struct uw_checkpoint loaded;
    float x[256], v[256];

    open_model(&f, &small, true);
    size_t bytes = f.m.params.size_n * sizeof(float);
    memcpy(x, f.m.params.x, bytes);
    memcpy(v, f.m.state[0], bytes);
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err), UW_OK);
    assert_int_equal(f.storage.bytes_n % 4, 0);
    memset(f.m.params.x, 0, bytes);
    memset(f.m.state[0], 0, bytes);
    int rc = uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err);
    if (rc != UW_OK) {
        fail_msg("%s", f.err.text);
    }
    assert_memory_equal(x, f.m.params.x, bytes);
    assert_memory_equal(v, f.m.state[0], bytes);
    struct uw_checkpoint want = full_state;
    want.noise = f.m.seed;
    want.mode = f.m.config.mode;
    want.micro_n = f.m.config.micro_n;
    assert_memory_equal(&loaded, &want, sizeof loaded);
    assert_int_equal(uw_checkpoint_load(&f.m, NULL, &f.storage.base, "c", &f.err), UW_OK);
    memory_storage_release(&f.storage);
}

static void test_checkpoint_weights_only_refuses_to_resume(void **state)
{
    (void)state;
    static struct fixture f;
    struct uw_checkpoint loaded;

    open_model(&f, &small, false);
    assert_int_equal(uw_checkpoint_save(&f.m, NULL, &f.storage.base, "w", &f.err), UW_OK);
    assert_int_equal(uw_checkpoint_load(&f.m, NULL, &f.storage.base, "w", &f.err), UW_OK);
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "w", &f.err),
                     UW_ERR_MISMATCH);
    assert_non_null(strstr(f.err.text, "weights only"));
    memory_storage_release(&f.storage);
}

/* Rename a key of the metadata: "uwasa." becomes "other.". */
static void hide_key(struct memory_storage *s, const char *key)
{
    size_t n = strlen(key), i = 0;
    while (i + n < s->bytes_n && memcmp(s->bytes + i, key, n) != 0) {
        i++;
    }
    assert_true(i + n < s->bytes_n);
    memcpy(s->bytes + i, "other", 5);
}

/* Make it a file without a checksum, as another program writes it. */
static void drop_sum(struct memory_storage *s)
{
    hide_key(s, "uwasa.sum_of");
    hide_key(s, "uwasa.sum\"");
}

static void test_checkpoint_of_which_any_byte_is_changed_is_refused(void **state)
{
    (void)state;
    static const uint8_t flips[] = {0x01, 0x04, 0x20, 0x80, 0xff};
    static struct fixture f;
    struct uw_checkpoint loaded;
    struct uw_weights_report report;
    float before[256];

    open_model(&f, &small, true);
    memcpy(before, f.m.params.x, f.m.params.size_n * sizeof(float));
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err), UW_OK);
    for (size_t i = 0; i < f.storage.bytes_n; i++) {
        for (size_t k = 0; k < sizeof flips; k++) {
            f.storage.bytes[i] ^= flips[k];
            int rc = uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err);
            int weights = uw_checkpoint_load(&f.m, NULL, &f.storage.base, "c", &f.err);
            int loose = uw_checkpoint_load_weights(&f.m, true, NULL, &report, &f.storage.base, "c",
                                                   &f.err);
            if (rc != UW_ERR_CORRUPT || weights != UW_ERR_CORRUPT || loose != UW_ERR_CORRUPT) {
                fail_msg("byte %lu of %lu, flipped by %02x: %d, %d, %d", (unsigned long)i,
                         (unsigned long)f.storage.bytes_n, flips[k], rc, weights, loose);
            }
            f.storage.bytes[i] ^= flips[k];
        }
    }
    assert_memory_equal(before, f.m.params.x, f.m.params.size_n * sizeof(float));
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err), UW_OK);
    memory_storage_release(&f.storage);
}

static void test_checkpoint_without_a_checksum_is_loaded(void **state)
{
    (void)state;
    static struct fixture f;
    struct uw_checkpoint loaded;

    open_model(&f, &small, true);
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err), UW_OK);
    hide_key(&f.storage, "uwasa.sum_of");
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err),
                     UW_ERR_CORRUPT);
    assert_non_null(strstr(f.err.text, "c: damaged: its bytes do not have the checksum"));
    hide_key(&f.storage, "uwasa.sum\"");
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err), UW_OK);
    memory_storage_release(&f.storage);
}

static void test_checkpoint_from_before_exact_mode_is_resumed(void **state)
{
    (void)state;
    static struct fixture f;
    struct uw_checkpoint loaded;

    open_model(&f, &small, true);
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err), UW_OK);
    drop_sum(&f.storage);
    hide_key(&f.storage, "uwasa.exact");
    hide_key(&f.storage, "uwasa.mode\"");
    hide_key(&f.storage, "uwasa.micro_batch");
    int rc = uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err);
    if (rc != UW_OK) {
        fail_msg("%s", f.err.text);
    }
    assert_true(loaded.exact == 0 && loaded.mode == 0 && loaded.micro_n == 0);
    assert_int_equal(loaded.epoch, full_state.epoch);
    hide_key(&f.storage, "uwasa.epoch");
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err),
                     UW_ERR_MISMATCH);
    memory_storage_release(&f.storage);
}

static void test_checkpoint_of_another_optimizer_is_not_resumed(void **state)
{
    (void)state;
    static struct fixture f, g;
    struct uw_checkpoint loaded;

    open_model(&f, &small, false);
    open_model(&g, &small, true);
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "w", &f.err), UW_OK);
    assert_int_equal(uw_checkpoint_load(&g.m, &loaded, &f.storage.base, "w", &g.err),
                     UW_ERR_NOTFOUND);
    assert_non_null(strstr(g.err.text, "saved by another optimizer"));
    assert_int_equal(uw_checkpoint_save(&g.m, &full_state, &f.storage.base, "v", &f.err), UW_OK);
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "v", &f.err),
                     UW_ERR_MISMATCH);
    assert_non_null(strstr(f.err.text, "another optimizer (it has momentum_buffer)"));
    assert_int_equal(uw_checkpoint_load(&f.m, NULL, &f.storage.base, "v", &f.err), UW_OK);
    memory_storage_release(&f.storage);
}

static void test_checkpoint_of_the_longest_names_is_loaded(void **state)
{
    (void)state;
    static struct fixture f;
    struct uw_checkpoint loaded;

    assert_int_equal(strlen(LONG), UW_LAYER_NAME_MAX);
    open_model(&f, &long_names, true);
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err), UW_OK);
    if (uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err) != UW_OK) {
        fail_msg("%s", f.err.text);
    }
    memory_storage_release(&f.storage);
}

static void test_checkpoint_low_rank_additions_join_the_weights_of_a_plain_model(void **state)
{
    (void)state;
    static struct fixture f, plain, other_scale;
    static const float x[5] = {1, -2, 3, 0.5f, -0.25f};
    const float *logits;
    struct uw_checkpoint loaded;
    float want[3];

    open_adapted(&f, &dense, false, &(struct uw_adapt){.lora_rank = 2, .lora_alpha = 7});
    open_adapted(&other_scale, &dense, false, &(struct uw_adapt){.lora_rank = 2});
    open_model(&plain, &dense, false);
    for (uint32_t s = 0; s < f.m.params.segments_n; s++) {
        const struct uw_segment *at = &f.m.params.segments[s];
        for (uint32_t i = 0; i < at->size_n && strstr(at->name, "lora_b") != NULL; i++) {
            f.m.params.x[at->offset_n + i] = 0.1f * (float)(i + 1);
        }
    }
    assert_int_equal(uw_model_forward(&f.m, x, 1, &logits), UW_OK);
    memcpy(want, logits, sizeof want);
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err), UW_OK);
    if (uw_checkpoint_load(&plain.m, NULL, &f.storage.base, "c", &plain.err) != UW_OK) {
        fail_msg("%s", plain.err.text);
    }
    assert_int_equal(uw_model_forward(&plain.m, x, 1, &logits), UW_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs((double)(logits[i] - want[i])) < 1e-4);
    }
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err), UW_OK);
    assert_int_equal(uw_checkpoint_load(&plain.m, &loaded, &f.storage.base, "c", &plain.err),
                     UW_ERR_MISMATCH);
    assert_non_null(strstr(plain.err.text, "low-rank"));
    assert_int_equal(uw_checkpoint_load(&other_scale.m, NULL, &f.storage.base, "c", &f.err),
                     UW_ERR_MISMATCH);
    assert_non_null(strstr(f.err.text, "scale 3.5"));
    memory_storage_release(&f.storage);
}

static void test_checkpoint_plain_weights_leave_low_rank_additions_alone(void **state)
{
    (void)state;
    static struct fixture f, plain;
    struct uw_checkpoint loaded;

    open_model(&plain, &dense, false);
    open_adapted(&f, &dense, false, &(struct uw_adapt){.lora_rank = 2});
    const struct uw_segment *a = uw_params_find(&f.m.params, "a.lora_a");
    const struct uw_segment *w = uw_params_find(&f.m.params, "a.weight");
    float first = f.m.params.x[a->offset_n];
    plain.m.params.x[0] = 77.0f;
    assert_int_equal(uw_checkpoint_save(&plain.m, &full_state, &plain.storage.base, "c",
                                        &plain.err), UW_OK);
    if (uw_checkpoint_load(&f.m, NULL, &plain.storage.base, "c", &f.err) != UW_OK) {
        fail_msg("%s", f.err.text);
    }
    assert_true(f.m.params.x[w->offset_n] == 77.0f && f.m.params.x[a->offset_n] == first);
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &plain.storage.base, "c", &f.err),
                     UW_ERR_NOTFOUND);
    memory_storage_release(&plain.storage);
}

static void test_checkpoint_other_shape_is_named_and_nothing_changes(void **state)
{
    (void)state;
    static struct fixture f, g;
    float before[512];

    open_model(&f, &small, false);
    open_model(&g, &other, false);
    memcpy(before, g.m.params.x, g.m.params.size_n * sizeof(float));
    assert_int_equal(uw_checkpoint_save(&f.m, NULL, &f.storage.base, "w.safetensors", &f.err),
                     UW_OK);
    assert_int_equal(uw_checkpoint_load(&g.m, NULL, &f.storage.base, "w.safetensors", &g.err),
                     UW_ERR_MISMATCH);
    assert_non_null(strstr(g.err.text, "w.safetensors: tensor conv.weight is [2,1,3,3], the model "
                                       "needs [4,1,3,3]"));
    assert_memory_equal(before, g.m.params.x, g.m.params.size_n * sizeof(float));
    memory_storage_release(&f.storage);
}

static void test_checkpoint_every_truncation_is_refused(void **state)
{
    (void)state;
    static struct fixture f;
    struct uw_checkpoint loaded;
    float before[256];

    open_model(&f, &small, true);
    memcpy(before, f.m.params.x, f.m.params.size_n * sizeof(float));
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err), UW_OK);
    size_t whole = f.storage.bytes_n;
    for (size_t n = 0; n < whole; n++) {
        f.storage.bytes_n = n;
        int rc = uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err);
        if (rc >= 0 || f.err.text[0] == '\0') {
            fail_msg("cut to %lu of %lu bytes: %d", (unsigned long)n, (unsigned long)whole, rc);
        }
        assert_memory_equal(before, f.m.params.x, f.m.params.size_n * sizeof(float));
    }
    memory_storage_release(&f.storage);
}

/* By the format every byte of data belongs to a tensor. */
static void test_checkpoint_with_a_byte_too_many_is_refused(void **state)
{
    (void)state;
    static struct fixture f;
    struct uw_checkpoint loaded;

    open_model(&f, &small, true);
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err), UW_OK);
    uint8_t *longer = realloc(f.storage.bytes, f.storage.bytes_n + 1u);
    assert_non_null(longer);
    f.storage.bytes = longer;
    longer[f.storage.bytes_n++] = 0;
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err),
                     UW_ERR_CORRUPT);
    assert_non_null(strstr(f.err.text, "has bytes behind the last tensor"));
    memory_storage_release(&f.storage);
}

static void test_checkpoint_nth_storage_call_fails_and_the_old_object_stays(void **state)
{
    (void)state;
    static struct fixture f;
    struct uw_checkpoint loaded;
    long n = 0;
    int rc;

    open_model(&f, &small, true);
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err), UW_OK);
    uint8_t *old = malloc(f.storage.bytes_n);
    size_t old_n = f.storage.bytes_n;
    memcpy(old, f.storage.bytes, old_n);
    f.m.params.x[0] += 1.0f;
    do {
        f.storage.fail_in = ++n;
        rc = uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err);
        if (rc < 0) {
            assert_int_equal(rc, UW_ERR_IO);
            assert_int_equal(f.storage.bytes_n, old_n);
            assert_memory_equal(f.storage.bytes, old, old_n);
        }
    } while (rc < 0);
    assert_true(n > 4);
    assert_memory_not_equal(f.storage.bytes, old, old_n);
    for (n = 1, rc = -1; rc < 0; n++) {
        f.storage.fail_in = n;
        rc = uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err);
        assert_true(rc == UW_OK || rc == UW_ERR_IO);
    }
    free(old);
    memory_storage_release(&f.storage);
}

static void test_checkpoint_stored_nan_is_refused(void **state)
{
    (void)state;
    static struct fixture f;
    float nan = NAN;

    open_model(&f, &small, false);
    assert_int_equal(uw_checkpoint_save(&f.m, NULL, &f.storage.base, "w", &f.err), UW_OK);
    drop_sum(&f.storage);
    memcpy(f.storage.bytes + f.storage.bytes_n - sizeof nan, &nan, sizeof nan);
    assert_int_equal(uw_checkpoint_load(&f.m, NULL, &f.storage.base, "w", &f.err),
                     UW_ERR_NONFINITE);
    assert_non_null(strstr(f.err.text, ".bias"));
    memory_storage_release(&f.storage);
}

/* Headers that other programs write, and headers that nobody should. */
static const struct uw_layer_def one[] = {
    {.kind = UW_LAYER_DENSE, .name = "d", .dense = {.out = 1, .no_bias = true}}};
static const struct uw_model_def tiny = {"tiny", 2, 1, 1, one, 1};
static const struct {
    const char *header;
    int rc;
} headers[] = {
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}", UW_OK},
    {" { \"d.weight\" :\n{\"data_offsets\": [ 0 , 8 ], \"shape\":[1,2], \"dtype\":\"F32\"} }  ",
     UW_OK},
    {"{\"__metadata__\":{},\"d\\u002eweight\":{\"dtype\":\"F32\",\"shape\":[1,2],"
     "\"data_offsets\":[0,8]}}", UW_OK},
    {"{\"e\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[4,4]},\"d.weight\":{\"dtype\":"
     "\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}", UW_OK},
    {"{\"e\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}", UW_ERR_NOTFOUND},
    {"{}", UW_ERR_CORRUPT},
    {"", UW_ERR_CORRUPT},
    {"[]", UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[0,8]}}",
     UW_ERR_MISMATCH},
    {"{\"d.weight\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[0,4]}}",
     UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", UW_OK},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,8]}}",
     UW_ERR_MISMATCH},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[1,2,1,1,1],\"data_offsets\":[0,8]}}",
     UW_ERR_MISMATCH},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,4]}}",
     UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[4,12]}}",
     UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[8,0]}}",
     UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[1,2]}}", UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[1,-2],\"data_offsets\":[0,8]}}",
     UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999,2],\"data_offsets\":"
     "[0,8]}}", UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}x",
     UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},}",
     UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},\"d.weight\":"
     "{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}", UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"d\\qtype\":\"F32\"}}", UW_ERR_CORRUPT},
    {"{\"d.weight\":{\"dtype\":\"F32", UW_ERR_CORRUPT},
    {"{\"__metadata__\":{\"k\":1}}", UW_ERR_CORRUPT},
};
static void test_safetensors_header_variants_are_read_or_refused(void **state)
{
    (void)state;
    static const float weights[2] = {1.5f, -2.0f};
    static struct fixture f;

    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        open_model(&f, &tiny, false);
        size_t n = strlen(headers[i].header);
        f.storage.bytes = calloc(1, 8 + n + sizeof weights);
        f.storage.bytes[0] = (uint8_t)n;
        f.storage.bytes[1] = (uint8_t)(n >> 8);
        memcpy(f.storage.bytes + 8, headers[i].header, n);
        memcpy(f.storage.bytes + 8 + n, weights, sizeof weights);
        f.storage.bytes_n = 8 + n + sizeof weights;
        int rc = uw_checkpoint_load(&f.m, NULL, &f.storage.base, "t", &f.err);
        if (rc != headers[i].rc) {
            fail_msg("%s: %s (%s)", headers[i].header, uw_status_name(rc), f.err.text);
        }
        assert_true(rc < 0 || memcmp(f.m.params.x, weights, sizeof weights) == 0);
        memory_storage_release(&f.storage);
    }
}

/* Tensors of a file that is made here; `text` is its header. */
static void make_file(struct memory_storage *s, const char *text, const void *data, size_t data_n)
{
    size_t text_n = strlen(text);
    uint64_t header = text_n;
    s->bytes_n = 8 + text_n + data_n;
    s->bytes = malloc(s->bytes_n);
    assert_non_null(s->bytes);
    memcpy(s->bytes, &header, 8);
    memcpy(s->bytes + 8, text, text_n);
    memcpy(s->bytes + 8 + text_n, data, data_n);
}

struct span {
    uint32_t begin, end;
};

/* Bytes that two tensors claim, or none; in the order of the data and in another. */
static void test_safetensors_whose_tensors_do_not_fill_the_data_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct span span[4];    /* of tensors a, b, c and d */
        const char *part;       /* NULL: they fill it */
    } files[] = {
        {{{0, 8}, {8, 12}, {12, 16}, {16, 24}}, NULL},
        {{{16, 24}, {12, 16}, {8, 12}, {0, 8}}, NULL},
        {{{8, 24}, {0, 0}, {0, 8}, {24, 24}}, NULL},
        {{{0, 8}, {4, 12}, {12, 16}, {16, 24}}, "t: tensors a and b overlap"},
        {{{12, 24}, {0, 4}, {0, 4}, {4, 12}}, "t: tensors b and c overlap"},
        {{{0, 24}, {0, 4}, {4, 4}, {4, 4}}, "t: tensors a and b overlap"},
        {{{0, 8}, {8, 12}, {12, 16}, {20, 24}}, "t: 4 bytes before tensor d, behind c belong"},
        {{{4, 8}, {8, 12}, {12, 16}, {16, 24}}, "t: 4 bytes before tensor a belong to none"},
        {{{0, 8}, {4, 12}, {16, 20}, {20, 24}}, "t: tensors a and b overlap"},
    };
    static const uint8_t data[24] = {0};
    static struct fixture f;
    struct uw_weights_report report;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char text[600] = "";
        size_t used = 0;
        for (uint32_t k = 0; k < 4; k++) {
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     "%s\"%c\":{\"dtype\":\"U8\",\"shape\":[%u],"
                                     "\"data_offsets\":[%u,%u]}%s", k == 0 ? "{" : ",", "abcd"[k],
                                     (unsigned)(files[i].span[k].end - files[i].span[k].begin),
                                     (unsigned)files[i].span[k].begin,
                                     (unsigned)files[i].span[k].end, k == 3 ? "}" : "");
        }
        open_model(&f, &tiny, false);
        make_file(&f.storage, text, data, sizeof data);
        bool fills = files[i].part == NULL;
        const char *part = fills ? "no tensor d.weight inside" : files[i].part;
        int want = fills ? UW_ERR_NOTFOUND : UW_ERR_CORRUPT;
        assert_int_equal(uw_checkpoint_load(&f.m, NULL, &f.storage.base, "t", &f.err), want);
        if (strstr(f.err.text, part) == NULL) {
            fail_msg("file %zu: \"%s\" does not say \"%s\"", i, f.err.text, part);
        }
        assert_int_equal(uw_checkpoint_load_weights(&f.m, false, NULL, &report, &f.storage.base,
                                                    "t", &f.err), want);
        memory_storage_release(&f.storage);
    }
}

/* a.weight [6][5], a.bias [6], b.weight [3][6], b.bias [3] */
static void test_weights_of_other_types_are_widened_and_told(void **state)
{
    static const char *const types[] = {"F16", "BF16", "F64"};
    static const uint32_t width[] = {2, 2, 8};
    (void)state;
    static struct fixture f;
    struct uw_weights_report report;
    for (uint32_t k = 0; k < 3; k++) {
        char text[512];
        uint8_t data[57 * 8] = {0};
        for (uint32_t i = 0; i < 57; i++) { /* -1.5, and in a.weight[0] 0.25 */
            const uint16_t half[2] = {k == 0 ? 0xbe00 : 0xbfc0, k == 0 ? 0x3400 : 0x3e80};
            const double d = i == 0 ? 0.25 : -1.5;
            memcpy(data + i * width[k], k == 2 ? (const void *)&d : &half[i == 0], width[k]);
        }
        uint32_t w = width[k];
        snprintf(text, sizeof text,
                 "{\"a.weight\":{\"dtype\":\"%s\",\"shape\":[6,5],\"data_offsets\":[0,%u]},"
                 "\"a.bias\":{\"dtype\":\"%s\",\"shape\":[6],\"data_offsets\":[%u,%u]},"
                 "\"b.weight\":{\"dtype\":\"%s\",\"shape\":[3,6],\"data_offsets\":[%u,%u]},"
                 "\"b.bias\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[%u,%u]}}",
                 types[k], 30 * w, types[k], 30 * w, 36 * w, types[k], 36 * w, 54 * w, types[k],
                 54 * w, 57 * w);
        open_model(&f, &dense, false);
        make_file(&f.storage, text, data, 57 * w);
        assert_int_equal(uw_checkpoint_load(&f.m, NULL, &f.storage.base, "w", &f.err),
                         UW_ERR_MISMATCH);
        int rc = uw_checkpoint_load_weights(&f.m, false, NULL, &report, &f.storage.base, "w",
                                            &f.err);
        if (rc != UW_OK) {
            fail_msg("%s", f.err.text);
        }
        for (uint32_t i = 0; i < 57; i++) {
            assert_true(f.m.params.x[i] == (i == 0 ? 0.25f : -1.5f));
        }
        assert_string_equal(report.type, types[k]);
        assert_int_equal(report.widened.n, 4);
        assert_string_equal(report.widened.first, "a.weight");
        memory_storage_release(&f.storage);
    }
}

static void test_loose_weights_take_what_fits(void **state)
{
    static const char text[] =
        "{\"other\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"a.bias\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[8,32]},"
        "\"b.bias\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[32,48]}}";
    static const float data[12] = {9, 9, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7};
    (void)state;
    static struct fixture f;
    struct uw_weights_report report;
    float before[57];
    open_model(&f, &dense, false);
    memcpy(before, f.m.params.x, sizeof before);
    make_file(&f.storage, text, data, sizeof data);
    assert_int_equal(uw_checkpoint_load_weights(&f.m, false, NULL, &report, &f.storage.base, "w",
                                                &f.err),
                     UW_ERR_NOTFOUND);
    assert_memory_equal(before, f.m.params.x, sizeof before);
    int rc = uw_checkpoint_load_weights(&f.m, true, NULL, &report, &f.storage.base, "w", &f.err);
    if (rc != UW_OK) {
        fail_msg("%s", f.err.text);
    }
    memcpy(before + 30, data + 2, 6 * sizeof(float));
    assert_memory_equal(before, f.m.params.x, sizeof before);
    assert_int_equal(report.widened.n, 0);
    assert_int_equal(report.unknown.n, 1);
    assert_string_equal(report.unknown.first, "other");
    assert_int_equal(report.missing.n, 2);
    assert_string_equal(report.missing.first, "a.weight");
    assert_int_equal(report.reshaped.n, 1);
    assert_string_equal(report.reshaped.first, "b.bias");
    memory_storage_release(&f.storage);

    open_model(&f, &small, false);
    make_file(&f.storage, text, data, sizeof data);
    assert_int_equal(uw_checkpoint_load_weights(&f.m, true, NULL, &report, &f.storage.base, "w",
                                                &f.err),
                     UW_ERR_NOTFOUND);
    assert_non_null(strstr(f.err.text, "none of its tensors has a name of the model's"));
    memory_storage_release(&f.storage);
}

static void count_tensor(void *arg, const struct uw_weights_tensor *t)
{
    uint32_t *n = arg;
    *n += strcmp(t->name, "theirs") == 0 && t->rank == 1 && t->dim[0] == 6 ? 100 : 1;
}

static void test_weights_have_other_names_in_a_file(void **state)
{
    static const char text[] =
        "{\"a.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"theirs\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[8,32]},"
        "\"b.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[32,44]},"
        "\"b2\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[44,56]}}";
    static const float data[14] = {9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0};
    static const struct uw_weights_name name[] = {{"a.bias", "theirs"}, {"b.bias", "b2"}};
    const struct uw_weights_names names = {name, 2};
    (void)state;
    static struct fixture f;
    struct uw_weights_report report;
    uint32_t n = 0;
    open_model(&f, &dense, false);
    make_file(&f.storage, text, data, sizeof data);
    int rc = uw_checkpoint_load_weights(&f.m, true, &names, &report, &f.storage.base, "w", &f.err);
    assert_int_equal(rc, UW_OK);
    assert_memory_equal(f.m.params.x + 30, data + 2, 6 * sizeof(float));
    assert_memory_equal(f.m.params.x + 54, data + 8, 3 * sizeof(float));    /* its own name first */
    assert_int_equal(report.unknown.n, 0);
    assert_int_equal(report.missing.n, 2);
    assert_int_equal(uw_checkpoint_each(&f.storage.base, "w", count_tensor, &n, &f.err), UW_OK);
    assert_int_equal(n, 103);
    memory_storage_release(&f.storage);
}

/* Rows of a parameter in tensors of their own, other sizes of 1, a constant that may be missing. */
static void test_weights_are_parts_in_a_file(void **state)
{
    static const char text[] =
        "{\"low\":{\"dtype\":\"F32\",\"shape\":[1,2,1],\"data_offsets\":[0,8]},"
        "\"high\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]},"
        "\"b.bias\":{\"dtype\":\"F32\",\"shape\":[3,1],\"data_offsets\":[24,36]}}";
    static const float data[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const struct uw_weights_name name[] = {
        {"a.bias", "low", 0, 2}, {"a.bias", "none", 2, 4}, {"a.bias", "high", 2, 4},
        {"a.weight", NULL, 0, 0}, {"b.weight", NULL, 0, 0}};
    const struct uw_weights_names names = {name, 5}, fewer = {name, 4};
    (void)state;
    static struct fixture f;
    struct uw_weights_report report;
    open_model(&f, &dense, false);
    make_file(&f.storage, text, data, sizeof data);
    for (uint32_t i = 0; i < 2; i++) {
        int rc = uw_checkpoint_load_weights(&f.m, false, i == 0 ? &fewer : &names, &report,
                                            &f.storage.base, "w", &f.err);
        assert_int_equal(rc, i == 0 ? UW_ERR_NOTFOUND : UW_OK);
    }
    assert_memory_equal(f.m.params.x + 30, data, 6 * sizeof(float));
    assert_memory_equal(f.m.params.x + 54, data + 6, 3 * sizeof(float));
    assert_int_equal(report.unknown.n, 0);
    memory_storage_release(&f.storage);
}

static void test_checkpoint_keeps_a_second_set_and_the_threshold(void **state)
{
    (void)state;
    static struct fixture f;
    struct uw_checkpoint loaded;
    float kept[256];

    open_model(&f, &small, true);
    for (uint32_t i = 0; i < f.m.params.size_n; i++) {
        kept[i] = (float)i;
    }
    f.m.kept = kept;
    f.m.anomaly_threshold = 0.125f;
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err), UW_OK);
    memset(kept, 0, sizeof kept);
    f.m.anomaly_threshold = 0.0f;
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err), UW_OK);
    assert_true(f.m.anomaly_threshold == 0.125f);
    for (uint32_t i = 0; i < f.m.params.size_n; i++) {
        assert_true(kept[i] == (float)i);
    }

    /* a model without them, and weights alone */
    f.m.kept = NULL;
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err), UW_OK);
    assert_int_equal(uw_checkpoint_save(&f.m, NULL, &f.storage.base, "c", &f.err), UW_OK);
    f.m.anomaly_threshold = 0.0f;
    assert_int_equal(uw_checkpoint_load(&f.m, NULL, &f.storage.base, "c", &f.err), UW_OK);
    assert_true(f.m.anomaly_threshold == 0.125f);

    /* a file without them leaves them as they are, and ends a threshold */
    f.m.anomaly_threshold = 0.0f;
    assert_int_equal(uw_checkpoint_save(&f.m, &full_state, &f.storage.base, "c", &f.err), UW_OK);
    f.m.kept = kept;
    f.m.anomaly_threshold = 1.0f;
    assert_int_equal(uw_checkpoint_load(&f.m, &loaded, &f.storage.base, "c", &f.err), UW_OK);
    assert_true(f.m.anomaly_threshold == 0.0f);
    assert_true(kept[1] == 1.0f);
    memory_storage_release(&f.storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_saved_then_loaded_is_the_same_bits),
        cmocka_unit_test(test_checkpoint_weights_only_refuses_to_resume),
        cmocka_unit_test(test_checkpoint_of_which_any_byte_is_changed_is_refused),
        cmocka_unit_test(test_checkpoint_without_a_checksum_is_loaded),
        cmocka_unit_test(test_checkpoint_from_before_exact_mode_is_resumed),
        cmocka_unit_test(test_checkpoint_of_another_optimizer_is_not_resumed),
        cmocka_unit_test(test_checkpoint_of_the_longest_names_is_loaded),
        cmocka_unit_test(test_checkpoint_low_rank_additions_join_the_weights_of_a_plain_model),
        cmocka_unit_test(test_checkpoint_plain_weights_leave_low_rank_additions_alone),
        cmocka_unit_test(test_checkpoint_other_shape_is_named_and_nothing_changes),
        cmocka_unit_test(test_checkpoint_every_truncation_is_refused),
        cmocka_unit_test(test_checkpoint_with_a_byte_too_many_is_refused),
        cmocka_unit_test(test_checkpoint_nth_storage_call_fails_and_the_old_object_stays),
        cmocka_unit_test(test_checkpoint_stored_nan_is_refused),
        cmocka_unit_test(test_checkpoint_keeps_a_second_set_and_the_threshold),
        cmocka_unit_test(test_safetensors_header_variants_are_read_or_refused),
        cmocka_unit_test(test_safetensors_whose_tensors_do_not_fill_the_data_are_refused),
        cmocka_unit_test(test_weights_of_other_types_are_widened_and_told),
        cmocka_unit_test(test_loose_weights_take_what_fits),
        cmocka_unit_test(test_weights_have_other_names_in_a_file),
        cmocka_unit_test(test_weights_are_parts_in_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
