/* SPDX-License-Identifier: Apache-2.0
 *
 * The processor may not touch the GPU's memory; all of it is counted. Probing finds what the
 * settings say. */
#include "fixture.h"

static volatile float *forbidden;

static void read_it(void)
{
    (void)*forbidden;
}

static void write_it(void)
{
    *forbidden = 1.0f;
}

static void read_behind_pinned(void)
{
    volatile float *x = pinned_floats(1024); /* whole pages */
    (void)x[1024];
}

static void test_processor_cannot_touch_device_memory(void **state)
{
    (void)state;
    float *x = gpu_floats(4), host[4] = {1.0f, 2.0f, 3.0f, 4.0f}, back[4] = {0.0f};
    forbidden = x;
    assert_child_crashes(read_it);
    OK(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
    assert_child_crashes(write_it); /* again after work that may */
    OK(cudaMemcpy(back, x, sizeof back, cudaMemcpyDeviceToHost));
    assert_memory_equal(back, host, sizeof host);
    assert_child_crashes(read_behind_pinned);
    OK(cudaFree(x));
}

static void test_fresh_memory_is_nan(void **state)
{
    (void)state;
    float *x = gpu_floats(1000), *host = pinned_floats(1000);
    OK(cudaMemcpy(host, x, 1000 * sizeof *x, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < 1000; i++) {
        assert_true(isnan(host[i]));
    }
    OK(cudaFree(x));
    OK(cudaFreeHost(host));
}

static void test_memory_is_counted_against_all_there_is(void **state)
{
    (void)state;
    void *x = NULL, *y = NULL;
    size_t free_bytes = 0, all_bytes = 0;
    uw_emulated_settings("memory=1000000");
    uint64_t taken = uw_emulated_taken();
    assert_int_equal(uw_emulated_used_bytes(), 0);
    OK(cudaMalloc(&x, 600000));
    assert_int_equal(cudaMalloc(&y, 400001), cudaErrorMemoryAllocation);
    assert_null(y);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    OK(cudaMemGetInfo(&free_bytes, &all_bytes));
    assert_int_equal(free_bytes, 400000);
    assert_int_equal(all_bytes, 1000000);
    OK(cudaHostAlloc(&y, 500000, cudaHostAllocMapped)); /* the processor's: not counted */
    assert_int_equal(uw_emulated_taken(), taken + 2);
    assert_int_equal(uw_emulated_used_bytes(), 600000);
    OK(cudaFree(x));
    OK(cudaFreeHost(y));
    assert_int_equal(uw_emulated_used_bytes(), 0);
    assert_int_equal(cudaFree(&free_bytes), cudaErrorInvalidValue);
    uw_emulated_settings("");
}

static float *managed_floats(size_t n)
{
    void *x = NULL;
    OK(cudaMallocManaged(&x, n * sizeof(float), cudaMemAttachGlobal));
    return x;
}

static void test_managed_memory_is_closed_while_the_gpu_works(void **state)
{
    (void)state;
    int value = 0;
    cudaStream_t other;
    uw_emulated_settings("integrated");
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrIntegrated, 0));
    assert_int_equal(value, 1);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrConcurrentManagedAccess, 0));
    assert_int_equal(value, 0);
    OK(cudaStreamCreate(&other));
    float *x = managed_floats(1), *device = gpu_floats(1);
    x[0] = 1.0f;
    OK(add(NULL, 1.0f, x));
    forbidden = x;
    assert_child_crashes(read_it);
    OK(cudaDeviceSynchronize());
    assert_true(x[0] == 2.0f);
    OK(cudaMemsetAsync(device, 0, sizeof *device, other)); /* any work, of any stream */
    assert_child_crashes(write_it);
    OK(cudaStreamSynchronize(NULL));
    assert_child_crashes(write_it);
    OK(cudaStreamSynchronize(other));
    x[0] = 3.0f;
    forbidden = device;
    assert_child_crashes(read_it);
    OK(cudaFree(x));
    OK(cudaFree(device));
    OK(cudaStreamDestroy(other));
    uw_emulated_settings("");
}

static void test_concurrent_memory_is_one(void **state)
{
    (void)state;
    int value = 0;
    uw_emulated_settings("integrated,concurrent");
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrConcurrentManagedAccess, 0));
    assert_int_equal(value, 1);
    float *x = managed_floats(1);
    x[0] = 1.0f;
    OK(add(NULL, 1.0f, x));
    assert_true(x[0] == 1.0f);
    OK(cudaDeviceSynchronize());
    assert_true(x[0] == 2.0f);
    OK(cudaFree(x));
    uw_emulated_settings("integrated,no-managed");
    void *none = NULL;
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrManagedMemory, 0));
    assert_int_equal(value, 0);
    assert_int_equal(cudaMallocManaged(&none, 4, cudaMemAttachGlobal), cudaErrorNotSupported);
    (void)cudaGetLastError();
    uw_emulated_settings("");
}

static void test_probing_finds_what_the_settings_say(void **state)
{
    (void)state;
    int n = -1, driver = -1;
    void *x = NULL;
    uw_emulated_settings("no-driver");
    OK(cudaDriverGetVersion(&driver));
    assert_int_equal(driver, 0);
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    assert_int_equal(cudaMalloc(&x, 4), cudaErrorInsufficientDriver);
    uw_emulated_settings("driver=11080");
    OK(cudaDriverGetVersion(&driver));
    assert_int_equal(driver, 11080);
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    uw_emulated_settings("no-gpu");
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    uw_emulated_settings("");
    OK(cudaGetDeviceCount(&n));
    assert_int_equal(n, 1);
    assert_int_equal(cudaSetDevice(1), cudaErrorInvalidDevice);
    (void)cudaGetLastError();
}

static void unknown_setting(void)
{
    uw_emulated_settings("integrated,fast");
}

static void test_unknown_settings_are_an_error(void **state)
{
    (void)state;
    assert_child_says(unknown_setting, "no setting fast");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processor_cannot_touch_device_memory),
        cmocka_unit_test(test_fresh_memory_is_nan),
        cmocka_unit_test(test_memory_is_counted_against_all_there_is),
        cmocka_unit_test(test_managed_memory_is_closed_while_the_gpu_works),
        cmocka_unit_test(test_concurrent_memory_is_one),
        cmocka_unit_test(test_probing_finds_what_the_settings_say),
        cmocka_unit_test(test_unknown_settings_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
