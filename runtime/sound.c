/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/sound.h"

#include "uwasa/fmath.h"
#include "uwasa/status.h"

#define TWO_PI 6.2831853071795865f
#define FLOOR 1e-6f
#define LOG10_OVER_3 0.14476482730108395f       /* 1 / (3 ln 10) */
#define WINDOW_MOST 8192u
#define MELS_MOST 256u

static uint32_t fft_n_of(const struct uw_sound_config *c)
{
    uint32_t n = 4;
    while (n < c->window_n) {
        n *= 2;
    }
    return n;
}

uint32_t uw_sound_features_n(const struct uw_sound_config *c)
{
    return c->cepstra_n != 0 ? c->cepstra_n : c->mels_n;
}

uint32_t uw_sound_clip_n(const struct uw_sound_config *c)
{
    return c->window_n + (c->frames_n - 1u) * c->hop_n;
}

int uw_sound_measure(const struct uw_sound_config *c, size_t *bytes)
{
    uint32_t n = fft_n_of(&(struct uw_sound_config){
        .window_n = c->window_n < WINDOW_MOST ? c->window_n : WINDOW_MOST});
    size_t floats = (size_t)c->window_n + 2u * n + n / 2u + 1u + c->mels_n + 2u + c->mels_n +
                    (size_t)c->cepstra_n * c->mels_n;
    *bytes = floats * sizeof(float);
    return c->rate_hz != 0 && c->window_n != 0 && c->window_n <= WINDOW_MOST && c->hop_n != 0 &&
                   c->frames_n != 0 && c->mels_n != 0 && c->mels_n <= MELS_MOST &&
                   c->cepstra_n <= c->mels_n && c->low_hz >= 0.0f && c->low_hz < c->high_hz &&
                   c->high_hz <= 0.5f * (float)c->rate_hz
               ? UW_OK
               : UW_ERR_INVALID;
}

/* ---- tables ---- */

/* The cosine of a turn's share k / n; exact where an axis is met. */
static float cosine_of(uint32_t k, uint32_t n)
{
    k %= n;
    k = 2u * k > n ? n - k : k;         /* cos(-a) = cos(a) */
    if (4u * k > n) {                   /* cos(pi - a) = -cos(a) */
        return -uw_cosf(TWO_PI * (float)(n - 2u * k) / (float)(2u * n));
    }
    return 4u * k == n ? 0.0f : uw_cosf(TWO_PI * (float)k / (float)n);
}

static float mel_of(float hz)
{
    return 1127.0f * uw_logf(1.0f + hz / 700.0f);
}

static void fill(struct uw_sound *s)
{
    const struct uw_sound_config *c = &s->config;
    for (uint32_t i = 0; i < c->window_n; i++) {
        s->window[i] = 0.5f - 0.5f * cosine_of(i, c->window_n);
    }
    for (uint32_t k = 0; k < s->fft_n / 2u; k++) {
        s->turn[2u * k] = cosine_of(k, s->fft_n);
        s->turn[2u * k + 1u] = -cosine_of(k + 3u * (s->fft_n / 4u), s->fft_n);  /* -sin */
    }
    float low = mel_of(c->low_hz), step = (mel_of(c->high_hz) - low) / (float)(c->mels_n + 1u);
    for (uint32_t m = 0; m < c->mels_n + 2u; m++) {
        s->edge[m] = 700.0f * (uw_expf((low + step * (float)m) / 1127.0f) - 1.0f);
    }
    for (uint32_t j = 0; j < c->cepstra_n; j++) {
        float a = uw_sqrtf((j == 0 ? 1.0f : 2.0f) / (float)c->mels_n);
        for (uint32_t m = 0; m < c->mels_n; m++) {
            s->cosine[j * c->mels_n + m] = a * cosine_of(j * (2u * m + 1u), 4u * c->mels_n);
        }
    }
}

int uw_sound_init(struct uw_sound *s, const struct uw_sound_config *c, void *memory, size_t bytes)
{
    size_t need;
    float *at = memory;
    int rc = uw_sound_measure(c, &need);
    if (rc < 0 || bytes < need) {
        return rc < 0 ? rc : UW_ERR_NOMEM;
    }
    *s = (struct uw_sound){.config = *c, .fft_n = fft_n_of(c)};
    s->window = at;
    s->turn = s->window + c->window_n;
    s->work = s->turn + s->fft_n;
    s->power = s->work + s->fft_n;
    s->edge = s->power + s->fft_n / 2u + 1u;
    s->mel = s->edge + c->mels_n + 2u;
    s->cosine = s->mel + c->mels_n;
    fill(s);
    return UW_OK;
}

/* ---- a frame ---- */

/* Bring z[n] into the order of reversed bits. */
static void reverse(float *z, uint32_t n)
{
    for (uint32_t i = 1, k = 0; i < n; i++) {
        uint32_t bit = n / 2u;
        for (; (k & bit) != 0; bit /= 2u) {
            k ^= bit;
        }
        k ^= bit;
        if (i < k) {
            float re = z[2u * i], im = z[2u * i + 1u];
            z[2u * i] = z[2u * k];
            z[2u * i + 1u] = z[2u * k + 1u];
            z[2u * k] = re;
            z[2u * k + 1u] = im;
        }
    }
}

/* Fourier transform of n complex numbers in place; turn has those of 2 n. */
static void transform(float *z, uint32_t n, const float *turn)
{
    reverse(z, n);
    for (uint32_t half = 1; half < n; half *= 2u) {
        uint32_t step = n / half;           /* of 2 n turns */
        for (uint32_t k = 0; k < half; k++) {
            float c = turn[2u * k * step], d = turn[2u * k * step + 1u];
            for (uint32_t i = k; i < n; i += 2u * half) {
                float *a = z + 2u * i, *b = a + 2u * half;
                float re = c * b[0] - d * b[1], im = c * b[1] + d * b[0];
                b[0] = a[0] - re;
                b[1] = a[1] - im;
                a[0] += re;
                a[1] += im;
            }
        }
    }
}

/* The power of 2 n real numbers from the transform of n pairs. */
static void take_power(const struct uw_sound *s)
{
    uint32_t n = s->fft_n / 2u;
    const float *z = s->work;
    s->power[0] = (z[0] + z[1]) * (z[0] + z[1]);
    s->power[n] = (z[0] - z[1]) * (z[0] - z[1]);
    for (uint32_t k = 1; k < n; k++) {
        const float *a = z + 2u * k, *b = z + 2u * (n - k), *t = s->turn + 2u * k;
        float even_re = 0.5f * (a[0] + b[0]), even_im = 0.5f * (a[1] - b[1]);
        float odd_re = 0.5f * (a[1] + b[1]), odd_im = 0.5f * (b[0] - a[0]);
        float re = even_re + t[0] * odd_re - t[1] * odd_im;
        float im = even_im + t[0] * odd_im + t[1] * odd_re;
        s->power[k] = re * re + im * im;
    }
}

static void take_mels(const struct uw_sound *s)
{
    float bin_hz = (float)s->config.rate_hz / (float)s->fft_n;
    for (uint32_t m = 0; m < s->config.mels_n; m++) {
        float low = s->edge[m], top = s->edge[m + 1u], high = s->edge[m + 2u], sum = 0.0f;
        for (uint32_t k = (uint32_t)(low / bin_hz); k <= s->fft_n / 2u; k++) {
            float hz = (float)k * bin_hz;
            float up = (hz - low) / (top - low), down = (high - hz) / (high - top);
            float weight = up < down ? up : down;
            if (hz >= high) {
                break;
            }
            sum += weight > 0.0f ? weight * s->power[k] : 0.0f;
        }
        s->mel[m] = 1.0f + LOG10_OVER_3 * uw_logf(sum + FLOOR);
    }
}

void uw_sound_frame(struct uw_sound *s, const float *x, float *y)
{
    const struct uw_sound_config *c = &s->config;
    for (uint32_t i = 0; i < s->fft_n; i++) {
        s->work[i] = i < c->window_n ? s->window[i] * x[i] : 0.0f;
    }
    transform(s->work, s->fft_n / 2u, s->turn);
    take_power(s);
    take_mels(s);
    for (uint32_t j = 0; j < c->cepstra_n; j++) {
        float sum = 0.0f;
        for (uint32_t m = 0; m < c->mels_n; m++) {
            sum += s->mel[m] * s->cosine[j * c->mels_n + m];
        }
        y[j] = sum;
    }
    for (uint32_t m = 0; c->cepstra_n == 0 && m < c->mels_n; m++) {
        y[m] = s->mel[m];
    }
}

void uw_sound_clip(struct uw_sound *s, const float *x, float *y)
{
    for (uint32_t t = 0; t < s->config.frames_n; t++) {
        uw_sound_frame(s, x + (size_t)t * s->config.hop_n,
                       y + (size_t)t * uw_sound_features_n(&s->config));
    }
}
