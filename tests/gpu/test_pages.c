/* SPDX-License-Identifier: Apache-2.0
 *
 * Which pages a GPU and the processor share, by the GPU's attributes: the decision, and what an
 * open GPU takes. */
#include "test_support.h"

#include "control.h"

#include "uwasa/cuda.h"

#include <cuda_runtime_api.h>
#include <string.h>

static void test_pages_follow_from_the_attributes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        struct uw_cuda_info a = {.integrated = (i & 1u) != 0, .managed = (i & 2u) != 0,
                                 .concurrent = (i & 4u) != 0, .mapped = (i & 8u) != 0};
        enum uw_cuda_pages other = a.mapped ? UW_CUDA_PAGES_MAPPED : UW_CUDA_PAGES_NONE;
        bool managed = a.integrated && a.managed;
        assert_int_equal(uw_cuda_pages(&a, false), managed ? UW_CUDA_PAGES_MANAGED : other);
        assert_int_equal(uw_cuda_pages(&a, true),
                         managed && a.concurrent ? UW_CUDA_PAGES_MANAGED : other);
    }
}

static void check_kind(struct uw_cuda *gpu, enum uw_cuda_memory kind, enum cudaMemoryType want)
{
    struct cudaPointerAttributes a;
    struct uw_error err;
    void *x;
    assert_int_equal(uw_cuda_take(gpu, kind, 100, &x, &err), UW_OK);
    assert_int_equal(cudaPointerGetAttributes(&a, x), cudaSuccess);
    assert_int_equal(a.type, want);
}

static void check_open(const char *settings, bool shares)
{
    struct uw_cuda *gpu;
    struct uw_cuda_info info;
    struct uw_error err;
    uw_emulated_settings(settings);
    assert_int_equal(uw_cuda_open(&gpu, &(struct uw_cuda_config){.device = 0}, &err), UW_OK);
    uw_cuda_info(gpu, &info);
    assert_int_equal(info.integrated, strstr(settings, "integrated") != NULL);
    assert_int_equal(info.concurrent, !info.integrated || strstr(settings, "concurrent") != NULL);
    assert_int_equal(info.managed, strstr(settings, "no-managed") == NULL);
    assert_int_equal(uw_cuda_kernels(gpu)->device->shares_parameters, shares);
    check_kind(gpu, UW_CUDA_KERNELS, cudaMemoryTypeDevice);
    check_kind(gpu, UW_CUDA_PINNED, cudaMemoryTypeHost);
    check_kind(gpu, UW_CUDA_SHARED, shares ? cudaMemoryTypeManaged : cudaMemoryTypeHost);
    uw_cuda_close(gpu);
    uw_emulated_settings("");
}

static void test_parameters_are_shared_where_kernels_may_cache_them(void **state)
{
    (void)state;
    check_open("", false);
    check_open("no-managed", false);
    check_open("integrated", true);
    check_open("integrated,concurrent", true);
    check_open("integrated,no-managed", false);
}

static void test_pages_without_a_handle(void **state)
{
    (void)state;
    struct uw_cuda_info info;
    struct uw_error err;
    void *base, *device;
    uw_emulated_settings("integrated");
    assert_int_equal(uw_cuda_probe(0, &info, &err), UW_OK);
    assert_true(info.major == 8 && info.multiprocessors > 0 && info.free_bytes > 0);
    for (int at_once = 0; at_once < 2; at_once++) {
        enum uw_cuda_pages pages = uw_cuda_pages(&info, at_once != 0);
        assert_int_equal(uw_cuda_pages_take(pages, 100, &base, &device), UW_OK);
        assert_non_null(device);
        memset(base, 1, 100);
        uw_cuda_pages_give(pages, base);
        assert_int_equal(uw_cuda_pages_take(pages, (size_t)1 << 40, &base, &device), UW_ERR_NOMEM);
        assert_null(base);
    }
    assert_int_equal(uw_cuda_pages_take(UW_CUDA_PAGES_NONE, 100, &base, &device),
                     UW_ERR_UNSUPPORTED);
    assert_int_equal(uw_cuda_probe(1, &info, &err), UW_ERR_NOTFOUND);
    assert_string_equal(err.text, "GPU 1: there are 1, from 0 on");
    uw_emulated_settings("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_follow_from_the_attributes),
        cmocka_unit_test(test_parameters_are_shared_where_kernels_may_cache_them),
        cmocka_unit_test(test_pages_without_a_handle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
