/* SPDX-License-Identifier: Apache-2.0
 *
 * wav.h - sound in a WAV file (private)
 *
 * PCM of 8, 16, 24 or 32 bits and IEEE floats of 32 or 64 bits, up to 8 channels, of which the mean
 * is taken. A last chunk that claims more than the file has ends with the file.
 *
 * Memory     none      Blocking  file access      Context  open and close: one thread; reads: any
 */
#ifndef UWASA_DATA_WAV_H
#define UWASA_DATA_WAV_H

#include "file.h"

struct uw_wav {
    struct uw_file file;
    uint32_t rate_hz, channels_n, bits;
    bool is_float;
    uint64_t at;                /* byte of the first sample */
    uint64_t samples_n;         /* of each channel */
};

bool uw_wav_is_name(const char *name);

/* Returns UW_OK, the codes of uw_file_open, UW_ERR_CORRUPT or UW_ERR_UNSUPPORTED (another coding);
 * err filled. */
int uw_wav_open(struct uw_wav *w, const char *path, struct uw_error *err);

/* Read n samples from `first` on, from -1 to 1; 0 outside of the file. Returns UW_OK or UW_ERR_IO,
 * err filled. */
int uw_wav_read(const struct uw_wav *w, int64_t first, uint32_t n, float *x, struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_wav_close(struct uw_wav *w);

#endif
