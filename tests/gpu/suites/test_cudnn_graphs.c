/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions' graphs, given to the cuDNN that is installed, on a machine without a GPU: for one
 * that is only described its heuristics answer, and its engines are made ready. Nothing runs. What
 * takes cuDNN's handle, which needs a GPU, takes the description in its place. */
#include "test_support.h"

#include "cuda/products.h"

#include <dlfcn.h>

/* Compute capability 9.0, 132 multiprocessors. */
static const char h200[] =
    "{\"deviceName\": \"NVIDIA H200\", \"deviceVer\": 900, \"smVersion\": 900, \"deviceId\": 0,"
    "\"cudaDeviceId\": 0, \"pciDeviceId\": 0, \"driverVer\": 13000, \"multiProcessorCount\": 132,"
    "\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64],"
    "\"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"maxCtasPerSM\": 32,"
    "\"warpSize\": 32, \"regsPerBlock\": 65536, \"maxRegistersPerSM\": 65536,"
    "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": 232448,"
    "\"reservedSharedMemoryPerBlock\": 1024, \"maxSharedMemoryPerSM\": 233472,"
    "\"l2CacheSize\": 62914560, \"totalMem\": 150000000000, \"totalGlobalMem\": 150000000000,"
    "\"clockRate\": 1980000, \"smClockRateKHz\": 1980000, \"memClockRateKHz\": 3201000,"
    "\"isTccDriver\": 0, \"supportCoopLaunch\": 1}";

static struct uw_cuda_libraries real;
static cudnnBackendDescriptor_t described, ran_plan;
static uint32_t refused_n;
static struct uw_cuda_products products;
static struct uw_cuda gpu = {.products = &products};

static cudnnStatus_t describe(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name)
{
    return real.cudnnBackendSetAttribute(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &described);
}

static cudnnStatus_t set_attribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (type == CUDNN_TYPE_HANDLE) {    /* of a graph, of a plan */
        return name < CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP
                   ? describe(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)
                   : CUDNN_STATUS_SUCCESS;
    }
    cudnnStatus_t status = real.cudnnBackendSetAttribute(d, name, type, n, values);
    refused_n += status != CUDNN_STATUS_SUCCESS;
    return status == CUDNN_STATUS_SUCCESS && name == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH
               ? describe(d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)
               : status;
}

static cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t pack)
{
    ran_plan = plan;
    return handle == NULL && pack != NULL ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}

static void load(void *library, const char *name, void *to)
{
    void *found = dlsym(library, name);
    assert_non_null(found);
    memcpy(to, &found, sizeof found);
}

static int set_up(void **state)
{
    (void)state;
    void *library = dlopen(UWASA_TEST_CUDNN, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "skipped: %s\n", dlerror());
        exit(77);
    }
    load(library, "cudnnBackendCreateDescriptor", &real.cudnnBackendCreateDescriptor);
    load(library, "cudnnBackendDestroyDescriptor", &real.cudnnBackendDestroyDescriptor);
    load(library, "cudnnBackendSetAttribute", &real.cudnnBackendSetAttribute);
    load(library, "cudnnBackendGetAttribute", &real.cudnnBackendGetAttribute);
    load(library, "cudnnBackendFinalize", &real.cudnnBackendFinalize);
    products.libraries = real;
    products.libraries.cudnnBackendSetAttribute = set_attribute;
    products.libraries.cudnnBackendExecute = execute;
    if (real.cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &described) !=
            CUDNN_STATUS_SUCCESS ||
        real.cudnnBackendSetAttribute(described, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                      CUDNN_TYPE_CHAR, sizeof h200, h200) !=
            CUDNN_STATUS_SUCCESS ||
        real.cudnnBackendFinalize(described) != CUDNN_STATUS_SUCCESS) {
        fprintf(stderr, "skipped: this cuDNN takes no description of a GPU\n");
        exit(77);
    }
    return 0;
}

static const struct uw_conv2d shapes[] = {
    {.in_channels = 64, .in_h = 32, .in_w = 32, .out_channels = 128, .out_h = 32, .out_w = 32,
     .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1, .pad_h = 1, .pad_w = 1,
     .dilation_h = 1, .dilation_w = 1, .groups = 1},
    {.in_channels = 3, .in_h = 224, .in_w = 224, .out_channels = 64, .out_h = 112, .out_w = 112,
     .kernel_h = 7, .kernel_w = 7, .stride_h = 2, .stride_w = 2, .pad_h = 3, .pad_w = 3,
     .dilation_h = 1, .dilation_w = 1, .groups = 1},
    {.in_channels = 32, .in_h = 14, .in_w = 14, .out_channels = 64, .out_h = 14, .out_w = 14,
     .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1, .pad_h = 2, .pad_w = 2,
     .dilation_h = 2, .dilation_w = 2, .groups = 4}};

/* The keys that a part's engines have; returns how many. */
static uint32_t open_part(const struct uw_conv2d *v, enum uw_conv2d_part part, bool accumulate,
                          uint64_t wanted, uint64_t keys[UW_CONV2D_ENGINES_MAX])
{
    struct uw_conv2d_graph g;
    bool any = uw_conv2d_graph_open(&gpu, v, 32, part, accumulate, 256u << 20, wanted, &g);
    uint32_t n = g.engines_n;
    assert_true(any == (n > 0));
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = g.engines[i].key;
        assert_true(g.engines[i].workspace_bytes <= 256u << 20);
    }
    uw_conv2d_graph_close(&products.libraries, &g);
    return n;
}

static void test_every_part_has_engines_that_are_found_again(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int part = 0; part < (int)UW_CONV2D_PARTS; part++) {
            uint64_t keys[UW_CONV2D_ENGINES_MAX], again[UW_CONV2D_ENGINES_MAX];
            bool adds = part == UW_CONV2D_BW_PARAM;
            uint32_t n = open_part(&shapes[s], (enum uw_conv2d_part)part, adds, 0, keys);
            assert_true(n > 0);
            for (uint32_t i = 0; i < n; i++) {
                assert_true(keys[i] != 0);
                for (uint32_t k = 0; k < i; k++) {
                    assert_true(keys[k] != keys[i]);
                }
            }
            assert_int_equal(open_part(&shapes[s], (enum uw_conv2d_part)part, adds, keys[n - 1],
                                       again), 1);
            assert_true(again[0] == keys[n - 1]);
            assert_int_equal(open_part(&shapes[s], (enum uw_conv2d_part)part, adds, 1, again), 0);
        }
    }
    assert_int_equal(refused_n, 0);
}

static void test_gradients_of_inputs_are_added_too(void **state)
{
    (void)state;
    uint64_t keys[UW_CONV2D_ENGINES_MAX];
    assert_true(open_part(&shapes[0], UW_CONV2D_BW_INPUT, true, 0, keys) > 0);
    assert_int_equal(refused_n, 0);
}

static void test_tf32_has_other_engines(void **state)
{
    (void)state;
    uint64_t exact[UW_CONV2D_ENGINES_MAX], tf32[UW_CONV2D_ENGINES_MAX];
    uint32_t exact_n = open_part(&shapes[0], UW_CONV2D_FW, false, 0, exact), found = 0;
    gpu.config.tf32 = true;
    assert_true(open_part(&shapes[0], UW_CONV2D_FW, false, 0, tf32) > 0);
    gpu.config.tf32 = false;
    for (uint32_t i = 0; i < exact_n; i++) {
        found += exact[i] == tf32[0] ? 1 : 0;
    }
    assert_int_equal(found, 0);         /* what is fastest with it is not taken without */
}

static void test_addresses_go_with_the_plan(void **state)
{
    (void)state;
    static _Alignas(16) float a[4], b[4], out[4], workspace[4];
    const struct uw_exec e = {.kernels = &gpu.kernels};
    struct uw_conv2d_graph g;
    assert_true(uw_conv2d_graph_open(&gpu, &shapes[0], 32, UW_CONV2D_FW, false, 256u << 20, 0, &g));
    for (uint32_t i = 0; i < g.engines_n; i++) {
        ran_plan = NULL;
        assert_int_equal(uw_conv2d_graph_run(&e, &g, &g.engines[i], a, b, out, workspace), UW_OK);
        assert_ptr_equal(ran_plan, g.engines[i].plan);
    }
    uw_conv2d_graph_close(&products.libraries, &g);
    assert_int_equal(refused_n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_part_has_engines_that_are_found_again),
        cmocka_unit_test(test_gradients_of_inputs_are_added_too),
        cmocka_unit_test(test_tf32_has_other_engines),
        cmocka_unit_test(test_addresses_go_with_the_plan),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
