/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in models have as many parameters as the published ones. */
#include "test_support.h"

#include "model/model_json.h"

#include "uwasa/backends.h"

static struct uw_model_need measure(const struct uw_model_def *def)
{
    struct uw_model_need need = {.parameters_n = 0};
    struct uw_error err = {.text = ""};
    size_t workspace_bytes = UW_MODEL_WORKSPACE_BYTES(def->layers_n);
    void *workspace = uw_test_block(workspace_bytes);
    struct uw_model_config config = {.def = def, .kernels = &uw_kernels_ref, .batch_n = 1,
                                     .workspace = workspace, .workspace_bytes = workspace_bytes};
    if (uw_model_measure(&config, &need, &err) != UW_OK) {
        fail_msg("%s: %s", def->name, err.text);
    }
    uw_test_release(workspace);
    return need;
}

/* Where the counts come from:
 *   vgg16        convolutions of VGG16, 14 714 688, and 512 to 10
 *   vgg16-bn     and a scale and a shift for each of 4 224 channels
 *   alexnet      Caffe's bvlc_alexnet
 *   googlenet    Caffe's bvlc_googlenet: 13 378 280, of them 6 379 728 in auxiliary heads
 *   resnet20     He et al. write 0.27 M; shortcuts without parameters
 *   resnet50     torchvision: 25.557 M
 *   mobilenetv2  torchvision: 3 504 872, with 10 classes in place of 1000
 *   dscnn        MLPerf Tiny: 24 908, of them 1 152 running statistics
 *   autoencoder  MLPerf Tiny: 269 992, of them 2 064 running statistics
 *   gru          3 (154 (10 + 154) + 2 * 154) + 12 (154 + 1), PyTorch's two biases */
static const struct {
    const char *name;
    uint32_t parameters_n, statistics_n, auxiliary_n;
} counts[] = {
    {"mlp", 101770, 0, 0},
    {"lenet5", 61706, 0, 0},
    {"fedavg-cnn", 1663370, 0, 0},
    {"vgg16", 14714688 + 5130, 0, 0},
    {"vgg16-bn", 14714688 + 5130 + 2 * 4224, 2 * 4224, 0},
    {"alexnet", 60965224, 0, 0},
    {"googlenet", 13378280, 0, 6379728},
    {"resnet20", 269722, 1376, 0},
    {"resnet50", 25557032, 53120, 0},
    {"mobilenetv2", 3504872 - 990 * 1281, 34112, 0},
    {"dscnn", 24908 - 1152, 1152, 0},
    {"autoencoder", 269992 - 2064, 2064, 0},
    {"gru", 78552, 0, 0},
};

static void test_builtins_have_the_published_parameter_counts(void **state)
{
    (void)state;
    assert_int_equal(uw_model_builtins_n, sizeof counts / sizeof counts[0]);
    for (uint32_t i = 0; i < uw_model_builtins_n; i++) {
        struct uw_model_file m;
        struct uw_error err = {.text = ""};
        assert_string_equal(uw_model_builtins[i].name, counts[i].name);
        assert_int_equal(uw_model_load(&m, counts[i].name, &err), UW_OK);
        struct uw_model_need need = measure(&m.def);
        assert_int_equal(need.parameters_n, counts[i].parameters_n);
        assert_int_equal(need.statistics_n, counts[i].statistics_n);
        assert_int_equal(need.auxiliary_n, counts[i].auxiliary_n);
        assert_int_equal(need.trainable_n, need.parameters_n);
        uw_model_file_deinit(&m);
    }
}

/* The convolutions of the built-in vgg16 under the dense layers of the original. */
static void test_vgg16_with_the_imagenet_head_has_138357544_parameters(void **state)
{
    (void)state;
    static const struct uw_layer_def head[] = {
        {.kind = UW_LAYER_DENSE, .name = "fc6", .dense = {.out = 4096}},
        {.kind = UW_LAYER_RELU, .name = "relu6"},
        {.kind = UW_LAYER_DENSE, .name = "fc7", .dense = {.out = 4096}},
        {.kind = UW_LAYER_RELU, .name = "relu7"},
        {.kind = UW_LAYER_DENSE, .name = "fc8", .dense = {.out = 1000}},
    };
    struct uw_layer_def layers[64];
    struct uw_model_file m;
    struct uw_error err = {.text = ""};
    assert_int_equal(uw_model_load(&m, "vgg16", &err), UW_OK);
    uint32_t n = m.def.layers_n - 1;    /* all but its own dense layer */
    assert_in_range(n, 30, 50);
    memcpy(layers, m.def.layers, n * sizeof layers[0]);
    memcpy(layers + n, head, sizeof head);
    struct uw_model_def def = {.name = "vgg16-imagenet", .in_channels = 3, .in_h = 224, .in_w = 224,
                               .layers = layers, .layers_n = n + 5};
    assert_int_equal(measure(&def).parameters_n, 138357544);
    uw_model_file_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builtins_have_the_published_parameter_counts),
        cmocka_unit_test(test_vgg16_with_the_imagenet_head_has_138357544_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
