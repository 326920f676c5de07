/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/cuda_group.h by itself: rounds, what is left of one that is aborted, memory. Emulated two
 * ranks in one process; a card, which is one rank only, is alone in its group. */
#include "test_support.h"

#include "uwasa/cuda_group.h"

#ifdef UW_CUDA_EMULATED
#include "control.h"
#endif

#include <stdlib.h>
#include <time.h>

#define N 1000u
#define SKIPPED 77
#define PATIENCE 20000u             /* naps of a millisecond */

struct rank {
    struct uw_cuda *cuda;
    struct uw_cuda_group *group;
    struct uw_exec e;
    float *x, *parameters;
};

static struct rank of[2];
static uint32_t ranks;

static const struct uw_device_kernels *device(const struct rank *r)
{
    return r->e.kernels->device;
}

static int open_rank(struct rank *r, struct uw_error *err)
{
    const struct uw_cuda_config config = {.device = 0};
    void *x = NULL, *parameters = NULL;
    int rc = uw_cuda_open(&r->cuda, &config, err);
    if (rc < 0) {
        return rc;
    }
    r->e.kernels = uw_cuda_kernels(r->cuda);
    rc = uw_cuda_take(r->cuda, UW_CUDA_PINNED, N * sizeof(float), &x, err);
    rc = rc < 0 ? rc : uw_cuda_take(r->cuda, UW_CUDA_KERNELS, N * sizeof(float), &parameters, err);
    r->x = x;
    r->parameters = parameters;
    const struct uw_cuda_group_config group = {.cuda = r->cuda, .x = r->x,
                                               .parameters = r->parameters, .size_n = N,
                                               .parts_n = N + 1u};
    return rc < 0 ? rc : uw_cuda_group_open(&r->group, &group, err);
}

/* The GPU has first + k, x ten times that. */
static void fill(struct rank *r, float first)
{
    for (uint32_t k = 0; k < N; k++) {
        r->x[k] = first + (float)k;
    }
    assert_int_equal(device(r)->write(&r->e, r->parameters, r->x, N * sizeof(float)), UW_OK);
    for (uint32_t k = 0; k < N; k++) {
        r->x[k] *= 10.0f;
    }
}

/* Are these mean + times k? */
static void check(const float *x, float mean, float times)
{
    for (uint32_t k = 0; k < N; k++) {
        if (x[k] != mean + times * (float)k) {
            fail_msg("%u: %g is not %g", (unsigned)k, (double)x[k],
                     (double)(mean + times * (float)k));
        }
    }
}

static void check_parameters(struct rank *r, float mean, float times)
{
    float *got = uw_test_floats(N);
    assert_int_equal(device(r)->read(&r->e, got, r->parameters, N * sizeof(float)), UW_OK);
    check(got, mean, times);
    uw_test_release(got);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Poll all until they are done or one fails. Returns UW_OK, or what it said. */
static int poll_all(void)
{
    bool done[2] = {false, ranks < 2};
    for (uint32_t i = 0; i < PATIENCE; i++) {
        for (uint32_t k = 0; k < ranks; k++) {
            int rc = done[k] ? UW_OK : uw_cuda_group_poll(of[k].group);
            if (rc < 0 && rc != UW_ERR_AGAIN) {
                return rc;
            }
            done[k] = rc == UW_OK;
        }
        if (done[0] && done[1]) {
            return UW_OK;
        }
        nap();
    }
    fail_msg("the average does not end");
    return UW_ERR_AGAIN;
}

static void begin_all(const uint8_t *id, bool alike)
{
    for (uint32_t k = 0; k < ranks; k++) {
        assert_int_equal(uw_cuda_group_begin(of[k].group, id, k, ranks, alike), UW_OK);
    }
}

static void new_id(uint8_t id[UW_CUDA_GROUP_ID_BYTES])
{
    for (uint32_t i = 0; i < PATIENCE && uw_cuda_group_version(of[0].group) == 0; i++) {
        nap();
    }
    assert_int_equal(uw_cuda_group_make_id(of[0].group, id), UW_OK);
}

static void fill_all(void)
{
    for (uint32_t k = 0; k < ranks; k++) {
        fill(&of[k], 2.0f * (float)k);
    }
}

static void test_average_is_in_x_and_once_it_counts_on_the_gpu(void **state)
{
    (void)state;
    uint8_t id[UW_CUDA_GROUP_ID_BYTES];
    float mean = ranks == 2 ? 1.0f : 0.0f;
    new_id(id);
    for (uint32_t round = 0; round < 3; round++) {
        fill_all();
#ifdef UW_CUDA_EMULATED
        uint64_t taken = uw_emulated_taken();
#endif
        begin_all(id, true);
        assert_int_equal(poll_all(), UW_OK);
        for (uint32_t k = 0; k < ranks; k++) {
            check(of[k].x, mean, 1.0f);
            check_parameters(&of[k], 2.0f * (float)k, 1.0f);
            assert_int_equal(uw_cuda_group_settle(of[k].group), UW_OK);
            check_parameters(&of[k], mean, 1.0f);
        }
#ifdef UW_CUDA_EMULATED
        assert_int_equal(uw_emulated_taken(), taken);
#endif
    }
}

static void test_average_of_x_where_the_gpu_has_something_else(void **state)
{
    (void)state;
    uint8_t id[UW_CUDA_GROUP_ID_BYTES];
    new_id(id);
    fill_all();
    begin_all(id, false);
    assert_int_equal(poll_all(), UW_OK);
    for (uint32_t k = 0; k < ranks; k++) {
        check(of[k].x, ranks == 2 ? 10.0f : 0.0f, 10.0f);
        check_parameters(&of[k], 2.0f * (float)k, 1.0f);
    }
}

/* At every moment of a round: the GPU's parameters stay, and another group averages. */
static void test_aborted_average_leaves_the_parameters_as_they_were(void **state)
{
    (void)state;
    for (uint32_t polls = 0; polls < 8; polls++) {
        uint8_t id[UW_CUDA_GROUP_ID_BYTES];
        new_id(id);
        fill_all();
        begin_all(id, true);
        for (uint32_t i = 0; i < polls; i++) {
            for (uint32_t k = 0; k < ranks; k++) {
                (void)uw_cuda_group_poll(of[k].group);
            }
        }
        for (uint32_t k = 0; k < ranks; k++) {
            uw_cuda_group_abort(of[k].group);
            assert_true(uw_cuda_group_poll(of[k].group) < 0);
            check_parameters(&of[k], 2.0f * (float)k, 1.0f);
        }
        for (uint32_t k = 0; k < ranks; k++) {
            while (uw_cuda_group_version(of[k].group) == 0) {
                nap();
            }
        }
        new_id(id);
        begin_all(id, true);
        assert_int_equal(poll_all(), UW_OK);
        check(of[0].x, ranks == 2 ? 1.0f : 0.0f, 1.0f);
    }
}

/* Two vectors of each rank: one of a float, as a learning rate, and one of N. */
static struct uw_cuda_group_part parts[2][2];
static float rates[2];

static void add_parts(void)
{
    for (uint32_t k = 0; k < ranks; k++) {
        rates[k] = 3.0f + (float)k;
        for (uint32_t i = 0; i < N; i++) {
            of[k].x[i] = 2.0f * (float)k + (float)i;
        }
        parts[k][0] = (struct uw_cuda_group_part){.x = &rates[k], .size_n = 1};
        parts[k][1] = (struct uw_cuda_group_part){.x = of[k].x, .size_n = N};
        assert_int_equal(uw_cuda_group_add_parts(of[k].group, parts[k], 2), UW_OK);
    }
}

static void begin_group(void)
{
    uint8_t id[UW_CUDA_GROUP_ID_BYTES];
    new_id(id);
    fill_all();
    begin_all(id, true);
    assert_int_equal(poll_all(), UW_OK);
    for (uint32_t k = 0; k < ranks; k++) {
        assert_int_equal(uw_cuda_group_settle(of[k].group), UW_OK);
    }
}

static void test_parts_are_averaged_and_parameters_stay(void **state)
{
    (void)state;
    float mean = ranks == 2 ? 1.0f : 0.0f;
    begin_group();
    for (uint32_t round = 0; round < 3; round++) {
        add_parts();
        assert_int_equal(uw_cuda_group_add_parts(of[0].group, parts[0], 2), UW_ERR_INVALID);
        assert_int_equal(poll_all(), UW_OK);
        for (uint32_t k = 0; k < ranks; k++) {
            check(of[k].x, mean, 1.0f);
            check_parameters(&of[k], mean, 1.0f);
            assert_float_equal(rates[k], ranks == 2 ? 3.5f : 3.0f, 0.0);
        }
    }
    parts[0][1].size_n = N + 1u;
    assert_int_equal(uw_cuda_group_add_parts(of[0].group, parts[0], 2), UW_ERR_TOOBIG);
}

/* At every moment: nothing comes to them afterwards, and another group averages parts. */
static void test_aborted_parts_are_their_owners_again(void **state)
{
    (void)state;
    for (uint32_t polls = 0; polls < 8; polls++) {
        begin_group();
        add_parts();
        for (uint32_t i = 0; i < polls * ranks; i++) {
            (void)uw_cuda_group_poll(of[i % ranks].group);
        }
        for (uint32_t k = 0; k < ranks; k++) {
            uw_cuda_group_abort(of[k].group);
            assert_int_equal(uw_cuda_group_add_parts(of[k].group, parts[k], 2), UW_ERR_INVALID);
            memset(of[k].x, 0, N * sizeof(float));
        }
        for (uint32_t k = 0; k < ranks; k++) {
            while (uw_cuda_group_version(of[k].group) == 0) {
                nap();
            }
            check_parameters(&of[k], ranks == 2 ? 1.0f : 0.0f, 1.0f);
            check(of[k].x, 0.0f, 0.0f);
        }
    }
}

static void test_gpu_has_a_number_and_counts_its_copy(void **state)
{
    (void)state;
    assert_true(uw_cuda_group_device(of[0].group) != 0);
    assert_true(uw_cuda_own_bytes(of[0].cuda) >= N * sizeof(float));
    assert_true(uw_cuda_group_version(of[0].group) >= 21400u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu_has_a_number_and_counts_its_copy),
        cmocka_unit_test(test_average_is_in_x_and_once_it_counts_on_the_gpu),
        cmocka_unit_test(test_average_of_x_where_the_gpu_has_something_else),
        cmocka_unit_test(test_aborted_average_leaves_the_parameters_as_they_were),
        cmocka_unit_test(test_parts_are_averaged_and_parameters_stay),
        cmocka_unit_test(test_aborted_parts_are_their_owners_again),
    };
    struct uw_error err = {.text = ""};
    int rc = UW_OK, failed = 0;
    ranks = getenv("UWASA_TEST_SLOW") != NULL ? 2 : 1;
    for (uint32_t k = 0; rc == UW_OK && k < ranks; k++) {
        rc = open_rank(&of[k], &err);
    }
    if (rc < 0) {
        printf("skipped: %s\n", err.text);
        failed = ranks == 2 ? 1 : SKIPPED;
    } else {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    }
    for (uint32_t k = 0; k < ranks; k++) {
        uw_cuda_group_close(of[k].group);
        uw_cuda_close(of[k].cuda);
    }
    return failed;
}
