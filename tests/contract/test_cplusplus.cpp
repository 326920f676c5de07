// SPDX-License-Identifier: Apache-2.0
//
// A C++ program that uses the library: it learns to read digits and sends a parameter over a link.
#include "uwasa/backends.h"
#include "uwasa/digits.h"
#include "uwasa/link_loopback.h"
#include "uwasa/model.h"

#include <cstdio>
#include <vector>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            return 1; \
        } \
    } while (0)

static std::vector<uw_layer_def> layers()
{
    std::vector<uw_layer_def> table(3);
    table[0].kind = UW_LAYER_DENSE;
    table[0].name = "fc1";
    table[0].dense.out = 32;
    table[1].kind = UW_LAYER_RELU;
    table[1].name = "relu1";
    table[2].kind = UW_LAYER_DENSE;
    table[2].name = "fc2";
    table[2].dense.out = UW_DIGITS_CLASSES;
    return table;
}

static int train(uw_model &m, uw_digits &digits)
{
    constexpr uint32_t batch_n = 32;
    uw_loader loader;
    uw_loader_config config{};
    config.dataset = &digits.base;
    config.batch_n = batch_n;
    CHECK(uw_loader_init(&loader, &config) == UW_OK);
    uint32_t right = 0;
    uw_error err;
    for (int step = 0; step < 600; step++) {
        uw_minibatch b{};
        b.n = static_cast<uint32_t>(uw_loader_next(&loader, m.input, m.label, NULL));
        CHECK(b.n == batch_n);
        uw_step_result r;
        CHECK(uw_model_train_step(&m, &b, &r, &err) == UW_OK);
        right += step < 580 ? 0 : r.correct_n;
    }
    std::printf("%u of %u right\n", right, 20 * batch_n);
    CHECK(right > 16 * batch_n);
    return 0;
}

static int exchange(const uw_model &m)
{
    uw_loopback_config config{};
    config.endpoints_n = 2;
    std::vector<uint64_t> memory(uw_loopback_hub_bytes(&config) / sizeof(uint64_t) + 1);
    config.memory = memory.data();
    config.memory_bytes = memory.size() * sizeof(uint64_t);
    uw_loopback_hub hub;
    CHECK(uw_loopback_hub_init(&hub, &config) == UW_OK);
    uw_link_loopback end[2];
    CHECK(uw_link_loopback_init(&end[0], &hub, 0) == UW_OK);
    CHECK(uw_link_loopback_init(&end[1], &hub, 1) == UW_OK);
    float received = 0.0f;
    uint16_t from;
    CHECK(uw_link_send(&end[0].link, 1, &m.params.x[7], sizeof received) == UW_OK);
    CHECK(uw_link_recv(&end[1].link, &from, &received, sizeof received) == sizeof received);
    CHECK(from == 0 && received == m.params.x[7]);
    uw_link_deinit(&end[0].link);
    uw_link_deinit(&end[1].link);
    return 0;
}

int main()
{
    const std::vector<uw_layer_def> table = layers();
    uw_model_def def{};
    def.name = "reader";
    def.in_channels = UW_DIGITS_PIXELS_N;
    def.layers = table.data();
    def.layers_n = static_cast<uint32_t>(table.size());
    uw_model_config config{};
    config.def = &def;
    config.kernels = uw_kernels_best();
    config.batch_n = 32;
    config.input = true;
    config.snapshot = true;
    config.optimizer.lr = 0.2f;
    std::vector<unsigned char> memory(1 << 20);
    uw_model m;
    uw_error err;
    if (uw_model_open(&m, &config, memory.data(), memory.size(), 1, &err) != UW_OK) {
        std::puts(err.text);
        return 1;
    }
    uw_digits digits;
    uw_digits_config digits_config{};
    CHECK(uw_digits_init(&digits, &digits_config) == UW_OK);
    CHECK(train(m, digits) == 0);
    CHECK(uw_snapshot_publish(&m.snapshot, m.params.x, 600) == UW_OK && m.snapshot.version == 1);
    return exchange(m);
}
