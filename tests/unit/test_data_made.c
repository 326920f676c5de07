/* SPDX-License-Identifier: Apache-2.0
 *
 * Data that is made: keywords, and images that are moved and mirrored. */
#include "test_support.h"

#include "sets.h"
#include "uwasa/kept.h"
#include "uwasa/keywords.h"
#include "uwasa/status.h"

#include <string.h>

#define FLOATS (UW_KEYWORDS_FRAMES * UW_KEYWORDS_FEATURES)

static void test_keywords_same_index_is_the_same_sample_and_every_class_appears(void **state)
{
    (void)state;
    struct uw_keywords train, test;
    static float a[FLOATS], b[FLOATS];
    uint32_t count[UW_KEYWORDS_CLASSES] = {0}, label, again;

    uw_keywords_init(&train, &(struct uw_keywords_config){.seed = 3});
    uw_keywords_init(&test, &(struct uw_keywords_config){.seed = 3, .test = true});
    for (uint64_t i = 0; i < 1200; i++) {
        assert_int_equal(train.base.ops->read(&train.base, i, a, &label), UW_OK);
        assert_int_equal(train.base.ops->read(&train.base, i, b, &again), UW_OK);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(label, again);
        assert_in_range(label, 0, UW_KEYWORDS_CLASSES - 1);
        count[label]++;
    }
    for (uint32_t c = 0; c < UW_KEYWORDS_CLASSES; c++) {
        assert_in_range(count[c], 60, 140);
    }
    assert_int_equal(test.base.ops->read(&test.base, 0, b, &again), UW_OK);
    assert_int_equal(train.base.ops->read(&train.base, 0, a, &label), UW_OK);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(test.base.ops->read(&test.base, UW_KEYWORDS_TEST_N, b, &again),
                     UW_ERR_INVALID);
}

/* FNV-1a over the bits of the first values and labels. */
static uint64_t hash_samples(struct uw_keywords *k, uint32_t samples_n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    static float x[FLOATS];
    uint32_t label;
    for (uint32_t i = 0; i < samples_n; i++) {
        assert_int_equal(k->base.ops->read(&k->base, i, x, &label), UW_OK);
        for (uint32_t v = 0; v < FLOATS; v++) {
            uint32_t bits;
            memcpy(&bits, &x[v], sizeof bits);
            hash = (hash ^ bits) * 0x100000001b3u;
        }
        hash = (hash ^ label) * 0x100000001b3u;
    }
    return hash;
}

/* The same on every device and compiler; a change of the words changes it. */
static void test_keywords_first_samples_have_the_known_bits(void **state)
{
    (void)state;
    struct uw_keywords k;
    uw_keywords_init(&k, &(struct uw_keywords_config){.seed = 1});
    assert_int_equal(hash_samples(&k, 100), 0x4279ca677737fea3u);
    uw_keywords_init(&k, &(struct uw_keywords_config){.seed = 1, .test = true});
    assert_int_equal(hash_samples(&k, 100), 0x7b246ae966c87767u);
}

/* Two channels of 3 x 4; pixel values are their place, from 1. */
static int read_ramp(struct uw_dataset *d, uint64_t index, float *x, uint32_t *label)
{
    for (uint32_t i = 0; i < d->channels * d->height * d->width; i++) {
        x[i] = (float)(i + 1);
    }
    *label = (uint32_t)index;
    return UW_OK;
}

/* Its mask is its first channel; of a set of other values they count from 1. */
static int read_ramp_target(struct uw_dataset *d, uint64_t index, float *target)
{
    (void)index;
    for (uint32_t i = 0; i < d->targets_n; i++) {
        target[i] = (float)(i + 1);
    }
    return UW_OK;
}

static const struct uw_dataset_ops ramp_ops = {
    .name = "ramp", .read = read_ramp, .read_target = read_ramp_target};

/* The pixel that a sample moved by (dy, dx) and perhaps mirrored shows at (c, row, column). */
static float want(uint32_t c, int row, int column, int dy, int dx, bool flip)
{
    column = flip ? 3 - column : column;
    row -= dy;
    column -= dx;
    bool inside = row >= 0 && row < 3 && column >= 0 && column < 4;
    return inside ? (float)(c * 12 + (uint32_t)(row * 4 + column) + 1) : 0.0f;
}

static bool shows(const float *x, int dy, int dx, bool flip)
{
    for (uint32_t i = 0; i < 24; i++) {
        if (x[i] != want(i / 12, (int)(i % 12 / 4), (int)(i % 4), dy, dx, flip)) {
            return false;
        }
    }
    return true;
}

static void test_augment_shows_every_move_and_mirror_and_nothing_else(void **state)
{
    (void)state;
    struct uw_dataset ramp = {&ramp_ops, 2, 3, 4, 10, 5, false};
    struct uw_augment a;
    uint32_t seen[5][5][2] = {{{0}}}, kinds = 0, label;
    float x[24];

    uw_augment_init(&a, &ramp, uw_test_seed(7), 2, true);
    assert_true(a.base.endless);
    for (uint64_t i = 0; i < 3000; i++) {
        uint32_t found = 0;
        assert_int_equal(a.base.ops->read(&a.base, i, x, &label), UW_OK);
        assert_int_equal(label, i % 5);
        for (int dy = -2; dy <= 2; dy++) {
            for (int dx = -2; dx <= 2; dx++) {
                for (int flip = 0; flip < 2; flip++) {
                    if (shows(x, dy, dx, flip != 0)) {
                        kinds += seen[dy + 2][dx + 2][flip]++ == 0 ? 1 : 0;
                        found++;
                    }
                }
            }
        }
        assert_int_equal(found, 1);
    }
    assert_int_equal(kinds, 50);
}

static void test_augment_moved_out_of_sight_is_black(void **state)
{
    (void)state;
    struct uw_dataset ramp = {&ramp_ops, 2, 3, 4, 10, 5, false};
    struct uw_augment a;
    uint32_t label;
    float x[24];

    uw_augment_init(&a, &ramp, 1, 100, false);
    for (uint64_t i = 0; i < 200; i++) {
        assert_int_equal(a.base.ops->read(&a.base, i, x, &label), UW_OK);
        for (uint32_t k = 0; k < 24; k++) {
            assert_true(x[k] >= 0.0f && x[k] <= 24.0f);
        }
    }
}

static void test_augment_moves_a_mask_as_its_image_and_no_other_values(void **state)
{
    (void)state;
    float x[24], target[24];
    uint32_t label;
    for (uint32_t targets_n = 5; targets_n <= 12; targets_n += 7) {
        struct uw_dataset ramp = {&ramp_ops, 2, 3, 4, 10, 5, false, targets_n};
        struct uw_augment a;
        uw_augment_init(&a, &ramp, 3, 2, true);
        for (uint64_t i = 0; i < 100; i++) {
            assert_int_equal(a.base.ops->read(&a.base, i, x, &label), UW_OK);
            assert_int_equal(a.base.ops->read_target(&a.base, i, target), UW_OK);
            for (uint32_t k = 0; k < targets_n; k++) {
                assert_true(target[k] == (targets_n == 12 ? x[k] : (float)(k + 1)));
            }
        }
    }
}

static uint32_t reads;

static int read_counted(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    reads++;
    x[0] = (float)index + 0.5f;
    x[1] = -(float)index;
    *label = (uint32_t)index % 3u;
    return index < base->samples_n ? UW_OK : UW_ERR_INVALID;
}

static void test_kept_samples_are_read_once_and_the_rest_each_time(void **state)
{
    (void)state;
    static const struct uw_dataset_ops ops = {.name = "counted", .read = read_counted};
    struct uw_dataset whole = {.ops = &ops, .channels = 2, .height = 1, .width = 1, .classes = 3,
                               .samples_n = 10};
    for (uint32_t n = 0; n <= 12; n++) {
        struct uw_kept k;
        uint32_t most = n < 10 ? n : 10;
        reads = 0;
        assert_int_equal(uw_kept_open(&k, &whole, n), UW_OK);
        for (uint32_t i = 0; i < 20; i++) {
            float x[2];
            uint32_t label;
            assert_int_equal(k.base.ops->read(&k.base, i % 10, x, &label), UW_OK);
            assert_true(x[0] == (float)(i % 10) + 0.5f && x[1] == -(float)(i % 10));
            assert_int_equal(label, i % 10 % 3);
        }
        assert_int_equal(reads, most + 2 * (10 - most));
        assert_int_equal(k.base.samples_n, 10);
        uw_kept_close(&k);
        uw_kept_close(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keywords_same_index_is_the_same_sample_and_every_class_appears),
        cmocka_unit_test(test_keywords_first_samples_have_the_known_bits),
        cmocka_unit_test(test_augment_shows_every_move_and_mirror_and_nothing_else),
        cmocka_unit_test(test_augment_moved_out_of_sight_is_black),
        cmocka_unit_test(test_augment_moves_a_mask_as_its_image_and_no_other_values),
        cmocka_unit_test(test_kept_samples_are_read_once_and_the_rest_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
