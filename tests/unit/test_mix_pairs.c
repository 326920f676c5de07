/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixing in pairs: the rule for gradient tracking, chunk by chunk and over whole vectors. */
#include "test_support.h"

#include "uwasa/mix.h"

static void test_pair_is_its_equation(void **state)
{
    (void)state;
    float z[3] = {1.0f, -2.0f, 0.5f}, x[3] = {1.0f, 2.0f, 3.0f}, m[3] = {0.0f, 1.0f, -1.0f};
    const float z_peer[3] = {2.0f, 2.0f, -0.5f}, x_peer[3] = {5.0f, -2.0f, 3.0f};
    uw_mix_kgt.pair(0.25f, 3, z, x, m, x_peer, z_peer, 1.0f);
    const float x_want[3] = {2.0f, 1.0f, 3.0f}, m_want[3] = {0.25f, 2.0f, -1.25f};
    for (uint32_t i = 0; i < 3; i++) {
        assert_float_equal(x[i], x_want[i], 0.0);
        assert_float_equal(m[i], m_want[i], 0.0);
    }
    float far[1] = {1.0f}, one[1] = {3.0f}, none[1] = {0.0f};
    uw_mix_kgt.pair(1.5f, 1, none, far, m, one, none, 1.0f);
    assert_float_equal(far[0], 4.0f, 0.0);      /* x and its share of what parts it from x_peer */
    uw_mix_mean_gradient(3, x, x_peer, 0.5f, z);
    assert_float_equal(z[0], -6.0f, 0.0);
    assert_float_equal(z[1], 6.0f, 0.0);
    uw_mix_mean_gradient(3, x, x_peer, 0.0f, z);
    assert_float_equal(z[0], 0.0f, 0.0);
}

/* Both sides from the mean of both vectors, whatever the share: what one tracker gains the other
 * loses, the mean of x stays; running statistics are mixed and not tracked. */
static void test_mean_of_two_vectors_is_a_pair(void **state)
{
    (void)state;
    enum { SIZE = 700, TRACKED = 600 };
    static const float weights[] = {0.0f, 0.5f, 0.25f, 0.8f};
    static float s[2][SIZE], x[2][SIZE], m[2][SIZE], v[2][2 * SIZE], old[2][SIZE];
    const struct uw_segment segments[2] = {
        {.name = "w", .size_n = TRACKED},
        {.name = "var", .offset_n = TRACKED, .size_n = SIZE - TRACKED, .statistic = true}};
    const float lr_sum[2] = {0.5f, 0.25f};
    for (size_t at = 0; at < sizeof weights / sizeof weights[0]; at++) {
        double w = weights[at] != 0.0f ? (double)weights[at] : 0.5;
        struct uw_params p[2];
        for (uint32_t i = 0; i < 2; i++) {
            p[i] = (struct uw_params){.x = x[i], .size_n = SIZE, .segments = segments,
                                      .segments_n = 2};
            for (uint32_t k = 0; k < SIZE; k++) {
                s[i][k] = sinf((float)(k + 50u * i));
                x[i][k] = old[i][k] = s[i][k] - 0.125f * cosf((float)(3u * k + i));
                m[i][k] = 0.0f;
            }
            uw_mix_pair_vector(&p[i], s[i], lr_sum[i], v[i]);
        }
        float mean[2 * SIZE];
        for (uint32_t k = 0; k < 2 * SIZE; k++) {
            mean[k] = 0.5f * (v[0][k] + v[1][k]);
        }
        for (uint32_t i = 0; i < 2; i++) {
            uw_mix_pair(&uw_mix_kgt, weights[at], &p[i], s[i], mean, m[i], lr_sum[i]);
        }
        for (uint32_t k = 0; k < SIZE; k++) {
            double z[2];
            for (uint32_t i = 0; i < 2; i++) {
                z[i] = k < TRACKED ? ((double)s[i][k] - (double)old[i][k]) / (double)lr_sum[i]
                                   : 0.0;
            }
            for (uint32_t i = 0; i < 2; i++) {
                double own = (double)old[i][k], peer = (double)old[1u - i][k];
                assert_true(fabs((double)x[i][k] - (own + w * (peer - own))) < 1e-6);
                assert_true(fabs((double)m[i][k] - w * (z[1u - i] - z[i])) < 1e-6);
            }
        }
    }
}

/* Each side changes by the mean of what both sides' steps changed; parameters stay apart, and
 * running statistics meet. */
static void test_updates_are_exchanged_and_parameters_are_not(void **state)
{
    (void)state;
    float s[2][4] = {{1.0f, -2.0f, 3.0f, 4.0f}, {5.0f, 1.0f, 0.5f, 8.0f}}, m[4] = {0.0f};
    const float update[2][3] = {{0.25f, -0.5f, 1.0f}, {-0.75f, 0.5f, 0.0f}};
    float x[2][4], v[2][8], mean[8];
    const struct uw_segment segments[2] = {
        {.name = "w", .size_n = 3}, {.name = "var", .offset_n = 3, .size_n = 1, .statistic = true}};
    struct uw_params p[2];
    for (uint32_t i = 0; i < 2; i++) {
        p[i] = (struct uw_params){.x = x[i], .size_n = 4, .segments = segments, .segments_n = 2};
        memcpy(x[i], s[i], sizeof x[i]);
        for (uint32_t k = 0; k < 3; k++) {
            x[i][k] += update[i][k];
        }
        uw_mix_pair_vector(&p[i], s[i], 0.5f, v[i]);
    }
    for (uint32_t k = 0; k < 8; k++) {
        mean[k] = 0.5f * (v[0][k] + v[1][k]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        uw_mix_pair(&uw_mix_updates, 0.0f, &p[i], s[i], mean, m, 0.5f);
        for (uint32_t k = 0; k < 3; k++) {
            assert_float_equal(x[i][k], s[i][k] + 0.5f * (update[0][k] + update[1][k]), 1e-6);
            assert_float_equal(m[k], 0.0f, 0.0);
        }
        assert_float_equal(x[i][3], 6.0f, 0.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pair_is_its_equation),
        cmocka_unit_test(test_mean_of_two_vectors_is_a_pair),
        cmocka_unit_test(test_updates_are_exchanged_and_parameters_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
