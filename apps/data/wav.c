/* SPDX-License-Identifier: Apache-2.0 */
#include "wav.h"

#include <string.h>
#include <strings.h>

#define PCM 1u
#define FLOAT 3u
#define EXTENSIBLE 0xfffeu
#define CHANNELS_MOST 8u
#define PIECE_BYTES 4096u
#define PIPE_BYTES 0x7ff00000u      /* this or more: not known, as programs write to a pipe */

bool uw_wav_is_name(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && strcasecmp(name + n - 4, ".wav") == 0;
}

static uint64_t little(const uint8_t *p, uint32_t bytes)
{
    uint64_t value = 0;
    while (bytes-- > 0) {
        value = value << 8 | p[bytes];
    }
    return value;
}

static int corrupt(const struct uw_wav *w, const char *what, struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_CORRUPT, "%.160s: is no WAV file: %s", w->file.path, what);
}

static int take_format(struct uw_wav *w, const uint8_t *p, uint32_t bytes, struct uw_error *err)
{
    uint32_t tag = (uint32_t)little(p, 2);
    if (bytes < 16) {
        return corrupt(w, "its format is cut off", err);
    }
    w->channels_n = (uint32_t)little(p + 2, 2);
    w->rate_hz = (uint32_t)little(p + 4, 4);
    w->bits = (uint32_t)little(p + 14, 2);
    tag = tag == EXTENSIBLE && bytes >= 26 ? (uint32_t)little(p + 24, 2) : tag;
    w->is_float = tag == FLOAT;
    bool good = (tag == PCM && (w->bits == 8 || w->bits == 16 || w->bits == 24 || w->bits == 32)) ||
                (tag == FLOAT && (w->bits == 32 || w->bits == 64));
    if (!good || w->channels_n == 0 || w->channels_n > CHANNELS_MOST || w->rate_hz == 0) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "%.120s: WAV of format %u, %u bits, %u channels: allowed are PCM of 8, "
                            "16, 24 or 32 bits and floats of 32 or 64, 1 to 8 channels",
                            w->file.path, (unsigned)tag, (unsigned)w->bits,
                            (unsigned)w->channels_n);
    }
    return UW_OK;
}

static int find_chunks(struct uw_wav *w, struct uw_error *err)
{
    uint8_t head[40];
    uint64_t at = 12;
    if (w->file.bytes < 12 || uw_file_read(&w->file, 0, head, 12) < 0 ||
        memcmp(head, "RIFF", 4) != 0 || memcmp(head + 8, "WAVE", 4) != 0) {
        return corrupt(w, "it does not begin with RIFF and WAVE", err);
    }
    while (at + 8u <= w->file.bytes) {
        if (uw_file_read(&w->file, at, head, 8) < 0) {
            return uw_file_read_error(&w->file, at, err);
        }
        uint64_t bytes = little(head + 4, 4), left = w->file.bytes - at - 8u;
        uint32_t have = bytes < left ? (uint32_t)bytes : left < sizeof head ? (uint32_t)left
                                                                           : (uint32_t)sizeof head;
        have = have < sizeof head ? have : (uint32_t)sizeof head;
        at += 8;
        if (memcmp(head, "data", 4) == 0) {
            if (w->rate_hz == 0) {
                return corrupt(w, "its format comes after its data", err);
            }
            if (bytes > left && bytes < PIPE_BYTES) {
                return corrupt(w, "it is cut off: its header tells more samples than it has", err);
            }
            w->at = at;
            w->samples_n = (bytes < left ? bytes : left) / (w->bits / 8u * w->channels_n);
            return w->samples_n != 0 ? UW_OK : corrupt(w, "it has no sample", err);
        }
        bool format = memcmp(head, "fmt ", 4) == 0;
        if (format && uw_file_read(&w->file, at, head, have) < 0) {
            return uw_file_read_error(&w->file, at, err);
        }
        int rc = format ? take_format(w, head, have, err) : UW_OK;
        if (rc < 0) {
            return rc;
        }
        at += bytes + (bytes & 1u);
    }
    return corrupt(w, "it has no data", err);
}

int uw_wav_open(struct uw_wav *w, const char *path, struct uw_error *err)
{
    *w = (struct uw_wav){.rate_hz = 0};
    int rc = uw_file_open(&w->file, path, NULL, err);
    rc = rc < 0 ? rc : find_chunks(w, err);
    if (rc < 0) {
        uw_wav_close(w);
    }
    return rc;
}

/* One number as it is stored, from -1 to 1. */
static float value_of(const struct uw_wav *w, const uint8_t *p)
{
    uint64_t raw = little(p, w->bits / 8u);
    if (w->is_float && w->bits == 64) {
        double d;
        memcpy(&d, &raw, sizeof d);
        return (float)d;
    }
    if (w->is_float) {
        uint32_t low = (uint32_t)raw;
        float f;
        memcpy(&f, &low, sizeof f);
        return f;
    }
    if (w->bits == 8) {
        return ((float)raw - 128.0f) / 128.0f;
    }
    int64_t half = (int64_t)1 << (w->bits - 1u), value = (int64_t)raw;
    return (float)(value >= half ? value - 2 * half : value) / (float)half;
}

int uw_wav_read(const struct uw_wav *w, int64_t first, uint32_t n, float *x, struct uw_error *err)
{
    uint8_t piece[PIECE_BYTES];
    uint32_t bytes = w->bits / 8u * w->channels_n, most = PIECE_BYTES / bytes;
    for (uint32_t i = 0; i < n;) {
        int64_t at = first + (int64_t)i;
        if (at < 0 || at >= (int64_t)w->samples_n) {
            x[i++] = 0.0f;
            continue;
        }
        uint64_t left = w->samples_n - (uint64_t)at;
        uint32_t take = n - i < most ? n - i : most;
        take = left < take ? (uint32_t)left : take;
        uint64_t offset = w->at + (uint64_t)at * bytes;
        if (uw_file_read(&w->file, offset, piece, (size_t)take * bytes) < 0) {
            return uw_file_read_error(&w->file, offset, err);
        }
        for (uint32_t k = 0; k < take; k++, i++) {
            float sum = 0.0f;
            for (uint32_t c = 0; c < w->channels_n; c++) {
                sum += value_of(w, piece + (size_t)k * bytes + c * (w->bits / 8u));
            }
            x[i] = sum / (float)w->channels_n;
        }
    }
    return UW_OK;
}

void uw_wav_close(struct uw_wav *w)
{
    uw_file_close(&w->file);
}
