/* SPDX-License-Identifier: Apache-2.0
 *
 * The features of sound: beside PyTorch's in float64 (gen_sound.py prints the vectors), beside the
 * plain sums of the header's formula for odd sizes, silence, and limits. */
#include "test_support.h"

#include "uwasa/sound.h"
#include "uwasa/status.h"

#define PI 3.14159265358979323846
#define TOLERANCE 2e-5f

static const float of_words[] = {
    5.0794270f, 1.3637419f, 1.1363980f, 0.2064016f, 0.2371612f, 0.7233942f, 1.2307099f, 1.2198783f,
    0.8272190f, -0.0766600f, 5.0503007f, 1.3969495f, 1.1684016f, 0.2121608f, 0.2248609f, 0.6940504f,
    1.2569685f, 1.2082536f, 0.8052738f, -0.1449377f, 5.0371220f, 1.3980723f, 1.1813323f, 0.2187735f,
    0.2146508f, 0.6772262f, 1.2619171f, 1.2131589f, 0.8022937f, -0.1632990f,
};
static const float of_mels[] = {
    1.9623368f, 1.8270173f, 1.1678155f, 0.4988931f, 1.5228401f, 1.7842239f, 1.5186427f, 0.5051044f,
    0.3590985f, 0.3464345f, 0.4225130f, 0.4139235f, 0.3941185f, 0.4391762f, 0.4086123f, 0.4692993f,
    0.4388265f, 0.4756686f, 0.4568835f, 0.4949461f, 0.4942373f, 0.4930661f, 0.5286758f, 0.5105275f,
    1.9643816f, 1.8259865f, 1.1783011f, 0.5528366f, 1.5222112f, 1.7851790f, 1.5210933f, 0.5994172f,
    0.1831398f, 0.0469617f, 0.4459441f, 0.2701924f, 0.1358238f, 0.2501278f, 0.1248041f, 0.3455828f,
    0.2191093f, 0.6021287f, 0.3837966f, 0.3555538f, 0.2796310f, 0.3666786f, 0.4747583f, 0.5910146f,
};

static const struct uw_sound_config words = {.rate_hz = 16000, .window_n = 480, .hop_n = 320,
                                             .frames_n = 3, .mels_n = 40, .cepstra_n = 10,
                                             .low_hz = 20.0f, .high_hz = 8000.0f};

static void fill(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        double t = i;
        x[i] = (float)(0.5 * sin(0.05 * t) + 0.25 * sin(0.31 * t + 1.0) + 0.01 * sin(t * t));
    }
}

/* Set up in a guarded block; release s->window. */
static void open_sound(struct uw_sound *s, const struct uw_sound_config *c)
{
    size_t bytes;
    assert_int_equal(uw_sound_measure(c, &bytes), UW_OK);
    void *memory = uw_test_block(bytes);
    assert_int_equal(uw_sound_init(s, c, memory, bytes - 1u), UW_ERR_NOMEM);
    assert_int_equal(uw_sound_init(s, c, memory, bytes), UW_OK);
    assert_ptr_equal(s->window, memory);
}

static void expect_features(const struct uw_sound_config *c, const float *want, size_t want_n)
{
    struct uw_sound s;
    uint32_t n = uw_sound_clip_n(c), y_n = c->frames_n * uw_sound_features_n(c);
    float *x = uw_test_floats(n), *y = uw_test_floats(y_n);
    assert_int_equal(y_n, want_n);
    open_sound(&s, c);
    fill(x, n);
    uw_sound_clip(&s, x, y);
    for (uint32_t i = 0; i < y_n; i++) {
        if (!(fabsf(y[i] - want[i]) <= TOLERANCE)) {
            fail_msg("feature %u is %.8f, not %.8f", (unsigned)i, (double)y[i], (double)want[i]);
        }
    }
    uw_test_release(x);
    uw_test_release(y);
    uw_test_release(s.window);
}

static void test_sound_features_are_those_of_pytorch(void **state)
{
    (void)state;
    const struct uw_sound_config mels = {.rate_hz = 8000, .window_n = 200, .hop_n = 80,
                                         .frames_n = 2, .mels_n = 24, .high_hz = 3800.0f};
    expect_features(&words, of_words, sizeof of_words / sizeof of_words[0]);
    expect_features(&mels, of_mels, sizeof of_mels / sizeof of_mels[0]);
}

/* ---- the plain sums ---- */

static double mel_hz(const struct uw_sound_config *c, uint32_t m)
{
    double low = 1127.0 * log(1.0 + (double)c->low_hz / 700.0);
    double high = 1127.0 * log(1.0 + (double)c->high_hz / 700.0);
    return 700.0 * (exp((low + (high - low) * m / (c->mels_n + 1.0)) / 1127.0) - 1.0);
}

static double power_of(const struct uw_sound_config *c, uint32_t fft_n, uint32_t k, const float *x)
{
    double re = 0.0, im = 0.0;
    for (uint32_t i = 0; i < c->window_n; i++) {
        double w = 0.5 - 0.5 * cos(2.0 * PI * i / c->window_n), a = 2.0 * PI * i * k / fft_n;
        re += w * (double)x[i] * cos(a);
        im -= w * (double)x[i] * sin(a);
    }
    return re * re + im * im;
}

static double plain_mel(const struct uw_sound_config *c, uint32_t fft_n, uint32_t m, const float *x)
{
    double low = mel_hz(c, m), top = mel_hz(c, m + 1), high = mel_hz(c, m + 2), sum = 1e-6;
    for (uint32_t k = 0; k <= fft_n / 2; k++) {
        double hz = (double)k * c->rate_hz / fft_n;
        double t = fmin((hz - low) / (top - low), (high - hz) / (high - top));
        sum += t > 0.0 ? t * power_of(c, fft_n, k, x) : 0.0;
    }
    return 1.0 + log10(sum) / 3.0;
}

static void test_sound_features_are_the_plain_sums_at_every_size(void **state)
{
    (void)state;
    static const uint32_t windows[] = {1, 2, 3, 4, 5, 31, 32, 33, 255, 256, 257};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        const struct uw_sound_config c = {.rate_hz = 8000, .window_n = windows[i], .hop_n = 7,
                                          .frames_n = 2, .mels_n = 5, .low_hz = 100.0f,
                                          .high_hz = 4000.0f};
        struct uw_sound s;
        float *x = uw_test_floats(windows[i] + 7u), *y = uw_test_floats(10);
        open_sound(&s, &c);
        fill(x, windows[i] + 7u);
        uw_sound_clip(&s, x, y);
        for (uint32_t k = 0; k < 10; k++) {
            double want = plain_mel(&c, s.fft_n, k % 5, x + 7u * (k / 5));
            if (!(fabs((double)y[k] - want) <= 1e-4)) {
                fail_msg("window %u, feature %u: %.8f, not %.8f", (unsigned)windows[i],
                         (unsigned)k, (double)y[k], want);
            }
        }
        uw_test_release(x);
        uw_test_release(y);
        uw_test_release(s.window);
    }
}

static void test_sound_of_silence_is_minus_one(void **state)
{
    (void)state;
    struct uw_sound_config c = words;
    struct uw_sound s;
    float x[480] = {0.0f}, y[40];
    c.cepstra_n = 0;
    open_sound(&s, &c);
    uw_sound_frame(&s, x, y);
    for (int m = 0; m < 40; m++) {
        assert_true(fabsf(y[m] + 1.0f) < 1e-6f);
    }
    uw_test_release(s.window);
}

static void test_sound_refuses_what_it_cannot_compute(void **state)
{
    (void)state;
    size_t bytes;
    struct uw_sound_config c[9];
    for (int i = 0; i < 9; i++) {
        c[i] = words;
        assert_int_equal(uw_sound_measure(&c[i], &bytes), UW_OK);
    }
    c[0].rate_hz = 0;
    c[1].window_n = 8193;
    c[2].window_n = 0;
    c[3].hop_n = 0;
    c[4].frames_n = 0;
    c[5].mels_n = 257;
    c[6].cepstra_n = 41;
    c[7].low_hz = 8000.0f;
    c[8].high_hz = 8001.0f;
    for (int i = 0; i < 9; i++) {
        struct uw_sound s;
        float memory[4];
        assert_int_equal(uw_sound_measure(&c[i], &bytes), UW_ERR_INVALID);
        assert_int_equal(uw_sound_init(&s, &c[i], memory, sizeof memory), UW_ERR_INVALID);
    }
    c[1].window_n = UINT32_MAX;
    assert_int_equal(uw_sound_measure(&c[1], &bytes), UW_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_features_are_those_of_pytorch),
        cmocka_unit_test(test_sound_features_are_the_plain_sums_at_every_size),
        cmocka_unit_test(test_sound_of_silence_is_minus_one),
        cmocka_unit_test(test_sound_refuses_what_it_cannot_compute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
