/* SPDX-License-Identifier: Apache-2.0
 *
 * A cipher that is none, in place of Mbed TLS: for what secure frames take without it. */
#include "secure/secure_ccm.h"

#include <string.h>

struct uw_frames_key {
    uint32_t epoch;
};

size_t uw_frames_key_bytes(void)
{
    return sizeof(struct uw_frames_key);
}

int uw_frames_key_derive(struct uw_frames_key *k, const uint8_t run_key[UW_KEY_BYTES],
                         const char *run, uint32_t epoch)
{
    (void)run_key;
    (void)run;
    k->epoch = epoch;
    return UW_OK;
}

void uw_frames_key_wipe(struct uw_frames_key *k)
{
    k->epoch = 0;
}

int uw_ccm_seal(struct uw_frames_key *k, const struct uw_ccm_frame *f)
{
    memset(f->body + f->body_bytes, (int)(k->epoch & 0x7fu), UW_CCM_TAG_BYTES);
    return UW_OK;
}

int uw_ccm_open(struct uw_frames_key *k, const struct uw_ccm_frame *f)
{
    return f->body[f->body_bytes] == (k->epoch & 0x7fu) ? UW_OK : UW_ERR_DENIED;
}

int uw_ccm_random(int (*entropy)(void *user, uint8_t *out, size_t bytes), void *user,
                  uint8_t *out, size_t bytes)
{
    return entropy != NULL && entropy(user, out, bytes) == 0 ? UW_OK : UW_ERR_IO;
}
