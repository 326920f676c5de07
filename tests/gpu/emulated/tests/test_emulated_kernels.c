/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulated GPU's blocks, threads, barriers and shared memory. */
#include "fixture.h"

#define N 128
#define BLOCKS 5

static float *shared_floats(size_t n)
{
    void *x = NULL;
    assert_int_equal(cudaMallocManaged(&x, n * sizeof(float), cudaMemAttachGlobal), cudaSuccess);
    return x;
}

static void wait_for_all(void)
{
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
}

static void each_seed(void (*check)(void))
{
    static const char *const seeds[] = {"seed=0", "seed=1", "seed=2", "seed=3"};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        uw_emulated_settings(seeds[i]);
        check();
    }
    uw_emulated_settings("");
}

static void check_sums(void)
{
    float *x = shared_floats(BLOCKS * N), *sums = shared_floats(2 * BLOCKS);
    for (size_t i = 0; i < BLOCKS * N; i++) {
        x[i] = (float)(i % 7) + (float)(i / N);
    }
    OK(launch_sum(NULL, BLOCKS, x, sums));
    OK(launch_warp_sum(NULL, BLOCKS, x, sums + BLOCKS));
    wait_for_all();
    for (size_t b = 0; b < BLOCKS; b++) {
        float want = 0.0f;
        for (size_t i = 0; i < N; i++) {
            want += x[b * N + i];
        }
        assert_true(sums[b] == want && sums[BLOCKS + b] == want);
    }
    OK(cudaFree(x));
    OK(cudaFree(sums));
}

static void test_sums_are_right_in_every_order(void **state)
{
    (void)state;
    each_seed(check_sums);
}

static void test_missing_barrier_gives_a_wrong_sum(void **state)
{
    (void)state;
    float *x = shared_floats(N), *sums = shared_floats(1);
    for (size_t i = 0; i < N; i++) {
        x[i] = 1.0f;
    }
    OK(launch_sum_without_barriers(NULL, 1, x, sums));
    wait_for_all();
    assert_true(isnan(sums[0])); /* threads later in turn had not written yet */
    OK(cudaFree(x));
    OK(cudaFree(sums));
}

static void test_warp_functions_match_definition(void **state)
{
    (void)state;
    unsigned *out = (unsigned *)(void *)shared_floats(7);
    memset(out, 0, 7 * sizeof *out);
    OK(launch_warp_functions(NULL, out));
    wait_for_all();
    assert_int_equal(out[0], 2 * 496);
    assert_int_equal(out[1], 64);
    assert_int_equal(out[2], 2 * (496 + 31));  /* the last lane keeps its own */
    assert_int_equal(out[3], 2 * (496 - 31));
    assert_int_equal(out[4], 2 * 16 * 16);
    assert_int_equal(out[5], 64 * 32);
    assert_int_equal(out[6], 7);
    OK(cudaFree(out));
}

static void test_shared_memory_of_every_block_begins_as_nan(void **state)
{
    (void)state;
    float *y = shared_floats(8);
    memset(y, 0, 8 * sizeof *y);
    OK(launch_read_shared(NULL, y));
    wait_for_all();
    for (size_t i = 0; i < 8; i++) {
        assert_true(isnan(y[i]));
    }
    OK(cudaFree(y));
}

static void test_blocks_and_threads_of_three_dimensions(void **state)
{
    (void)state;
    unsigned *counter = (unsigned *)(void *)shared_floats(2);
    memset(counter, 0, 2 * sizeof *counter);
    OK(launch_count(NULL, (dim3){3, 4, 5}, (dim3){7, 3, 2}, counter));
    wait_for_all();
    assert_int_equal(counter[0], 60);
    assert_int_equal(counter[1], 42 * (1 + 3 + 100 * 1) + 21 * 10000);
    OK(cudaFree(counter));
}

static void test_launches_that_a_gpu_refuses_are_refused(void **state)
{
    (void)state;
    float *x = shared_floats(1);
    unsigned *counter = (unsigned *)(void *)x;
    assert_int_equal(launch_add(NULL, 1, 1025, 0, 0, 1.0f, x), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(launch_add(NULL, 0, 1, 0, 0, 1.0f, x), cudaErrorInvalidConfiguration);
    assert_int_equal(launch_add(NULL, 1, 1, (48 << 10) + 1, 0, 1.0f, x), cudaErrorInvalidValue);
    assert_int_equal(launch_count(NULL, (dim3){1, 65536, 1}, (dim3){1, 1, 1}, counter),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(launch_count(NULL, (dim3){1, 1, 1}, (dim3){1, 1, 65}, counter),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    OK(cudaFree(x));
}

static void half_at_barrier(void)
{
    (void)launch_half_at_barrier(NULL);
    (void)cudaDeviceSynchronize();
}

static void half_in_mask(void)
{
    (void)launch_half_in_mask(NULL);
    (void)cudaDeviceSynchronize();
}

static void host_memory_for_kernel(void)
{
    static float x[4];
    (void)launch_add(NULL, 1, 4, 0, 4, 1.0f, x);
}

static void beyond_block(void)
{
    void *x = NULL;
    (void)cudaMalloc(&x, 64 * sizeof(float));
    (void)launch_add(NULL, 32, 1024, 0, 32768, 1.0f, x);
    (void)cudaDeviceSynchronize();
}

static void little_beyond_block(void)
{
    void *x = NULL;
    (void)cudaMalloc(&x, 63 * sizeof(float));
    (void)launch_copy(NULL, 64, both_floats(64), x);
    (void)cudaFree(x);
}

static void test_wrong_kernels_end_the_process_with_a_sentence(void **state)
{
    (void)state;
    assert_child_says(half_at_barrier, "not all of its threads reach");
    assert_child_says(half_in_mask, "not all of its threads reach");
    assert_child_says(host_memory_for_kernel, "memory of the processor");
    assert_child_crashes(beyond_block);
}

static void test_a_write_behind_a_block_is_noticed_when_it_is_freed(void **state)
{
    (void)state;
    assert_child_says(little_beyond_block, "was written");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_right_in_every_order),
        cmocka_unit_test(test_missing_barrier_gives_a_wrong_sum),
        cmocka_unit_test(test_warp_functions_match_definition),
        cmocka_unit_test(test_shared_memory_of_every_block_begins_as_nan),
        cmocka_unit_test(test_blocks_and_threads_of_three_dimensions),
        cmocka_unit_test(test_launches_that_a_gpu_refuses_are_refused),
        cmocka_unit_test(test_wrong_kernels_end_the_process_with_a_sentence),
        cmocka_unit_test(test_a_write_behind_a_block_is_noticed_when_it_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
