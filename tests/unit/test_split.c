/* SPDX-License-Identifier: Apache-2.0
 *
 * A training set in two parts. */
#include "test_support.h"

#include "uwasa/split.h"

/* The value and the label are the index. */
static int read_index(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    if (!base->endless && index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    *x = (float)index;
    *label = (uint32_t)index;
    return UW_OK;
}

static const struct uw_dataset_ops index_ops = {.name = "index", .read = read_index};

static struct uw_dataset set_of(uint32_t n, bool endless)
{
    return (struct uw_dataset){.ops = &index_ops, .channels = 1, .height = 1, .width = 1,
                               .classes = 2, .samples_n = n, .endless = endless};
}

static uint32_t label_at(struct uw_dataset *d, uint64_t index)
{
    float x;
    uint32_t label = UINT32_MAX;
    assert_int_equal(d->ops->read(d, index, &x, &label), UW_OK);
    return label;
}

static void test_split_parts_are_disjoint_and_together_the_set(void **state)
{
    (void)state;
    for (int endless = 0; endless < 2; endless++) {
        struct uw_dataset d = set_of(1000, endless != 0);
        struct uw_split s;
        struct uw_error err;
        bool seen[1000] = {false};
        float x;
        uint32_t label;
        assert_int_equal(uw_split_open(&s, &d, &d, 0.1, &err), UW_OK);
        struct uw_dataset *parts[2] = {&s.train.base, &s.validation.base};
        assert_int_equal(parts[0]->samples_n + parts[1]->samples_n, 1000);
        assert_in_range(parts[1]->samples_n, 70, 130);
        for (int p = 0; p < 2; p++) {
            uint32_t before = 0;
            for (uint32_t i = 0; i < parts[p]->samples_n; i++) {
                label = label_at(parts[p], i);
                assert_true(label < 1000 && !seen[label]);
                assert_true(i == 0 || label > before);
                seen[label] = true;
                before = label;
            }
        }
        uint32_t n = parts[0]->samples_n;
        if (endless != 0) {     /* the same places in the next epoch */
            assert_int_equal(label_at(parts[0], n + 5), label_at(parts[0], 5) + 1000);
        } else {
            assert_int_equal(parts[0]->ops->read(parts[0], n, &x, &label), UW_ERR_INVALID);
        }
        n = parts[1]->samples_n;
        assert_int_equal(parts[1]->ops->read(parts[1], n, &x, &label), UW_ERR_INVALID);
        uw_split_close(&s);
        uw_split_close(&s);
    }
}

static void test_split_without_samples_for_a_part_is_told(void **state)
{
    (void)state;
    struct uw_dataset d = set_of(2, false);
    struct uw_split s;
    struct uw_error err;
    assert_int_equal(uw_split_open(&s, &d, &d, 0.001, &err), UW_ERR_INVALID);
    assert_string_equal(err.text, "of 2 samples a share of 0.001 leaves none to validate with");
    assert_int_equal(uw_split_open(&s, &d, &d, 0.9999, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "none to train on"));
    d.samples_n = 1;
    assert_int_equal(uw_split_open(&s, &d, &d, 0.5, &err), UW_ERR_INVALID);
    uw_split_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_parts_are_disjoint_and_together_the_set),
        cmocka_unit_test(test_split_without_samples_for_a_part_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
