/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/sound.h - what a model hears: mel spectra of sound, on a host and on a board the same
 *
 * Sound is cut into frames of window_n samples, a new one every hop_n. Of each frame
 *
 *     P[k] = |sum over n of w[n] x[n] e^(-2 pi i k n / fft_n)|^2   w[n] = (1 - cos(2 pi n / N)) / 2
 *     E[m] = sum over k of t_m(k rate / fft_n) P[k]                  N = window_n
 *     y[m] = 1 + log10(E[m] + 1e-6) / 3                              -1 for silence
 *     c[j] = a[j] sum over m of y[m] cos(pi j (m + 1/2) / M)         M = mels_n, j < cepstra_n
 *
 * where a[0] = sqrt(1 / M), a[j] = sqrt(2 / M), and t_m is the triangle between the frequencies m,
 * m + 1 and m + 2 of M + 2 that lie evenly on the mel scale, 1127 ln(1 + f / 700), from low_hz to
 * high_hz: E is that of torchaudio's MelSpectrogram(center=False). fft_n is the power of two from
 * window_n on. The features of a frame are y, or c where cepstra_n is not 0.
 *
 *     uw_sound_measure(&config, &bytes);              `uwasa train` prints the configuration
 *     uw_sound_init(&s, &config, memory, bytes);
 *     uw_sound_clip(&s, x, m.input);                  a model's sample, or frame by frame:
 *     uw_sound_frame(&s, x, features);
 *
 * Units      samples from -1 to 1: those of 16 bits divided by 32768
 * Layout     a clip's features are [frames_n][features of a frame]
 * Memory     the caller's; 9 KiB for 480 samples, 40 mels and 10 cepstra. No heap
 * Blocking   until computed      Context  one thread at a time for a struct
 */
#ifndef UWASA_SOUND_H
#define UWASA_SOUND_H

#include "uwasa/cplusplus.h"

#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

struct uw_sound_config {
    uint32_t rate_hz;
    uint32_t window_n, hop_n;   /* samples; window_n up to 8192 */
    uint32_t frames_n;          /* of a clip */
    uint32_t mels_n;            /* up to 256 */
    uint32_t cepstra_n;         /* up to mels_n; 0: the features are the mels */
    float low_hz, high_hz;      /* high_hz up to half the rate */
};

struct uw_sound {
    struct uw_sound_config config;
    uint32_t fft_n;
    float *window;              /* [window_n] */
    float *turn;                /* [fft_n] cosines and sines */
    float *work;                /* [fft_n] */
    float *power;               /* [fft_n / 2 + 1] */
    float *edge;                /* [mels_n + 2] Hz */
    float *mel;                 /* [mels_n] */
    float *cosine;              /* [cepstra_n][mels_n] */
};

/* Features of a frame. */
uint32_t uw_sound_features_n(const struct uw_sound_config *c);

/* Samples of a clip: window_n + (frames_n - 1) hop_n. */
uint32_t uw_sound_clip_n(const struct uw_sound_config *c);

/* Bytes that uw_sound_init needs. Returns UW_OK, or UW_ERR_INVALID (a limit above is exceeded, a
 * number is 0, or low_hz is not below high_hz). */
int uw_sound_measure(const struct uw_sound_config *c, size_t *bytes);

/* Compute the tables in memory, aligned to floats, which s keeps. Returns UW_OK, UW_ERR_INVALID or
 * UW_ERR_NOMEM (too few bytes). */
int uw_sound_init(struct uw_sound *s, const struct uw_sound_config *c, void *memory, size_t bytes);

/* Compute the features of one frame.
 *   x  [window_n]      read
 *   y  [features_n]    written; may not overlap x */
void uw_sound_frame(struct uw_sound *s, const float *x, float *y);

/* Compute the features of a clip: uw_sound_frame every hop_n samples.
 *   x  [uw_sound_clip_n]           read
 *   y  [frames_n][features_n]      written; may not overlap x */
void uw_sound_clip(struct uw_sound *s, const float *x, float *y);

UW_C_END
#endif
