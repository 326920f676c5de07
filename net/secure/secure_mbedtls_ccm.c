/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-CCM and HKDF of Mbed TLS, 2.28 and 3.x. */
#include "secure_ccm.h"

#include "base/bytes.h"

#include <mbedtls/ccm.h>
#include <mbedtls/hkdf.h>
#include <mbedtls/md.h>
#if defined(MBEDTLS_ENTROPY_C)
#include <mbedtls/entropy.h>
#endif

#include <string.h>

#define LABEL "uwasa frames 1"

struct uw_frames_key {
    mbedtls_ccm_context ccm;
    bool ready;
};

size_t uw_frames_key_bytes(void)
{
    return sizeof(struct uw_frames_key);
}

void uw_frames_key_wipe(struct uw_frames_key *k)
{
    if (k->ready) {
        mbedtls_ccm_free(&k->ccm);
    }
    k->ready = false;
}

int uw_frames_key_derive(struct uw_frames_key *k, const uint8_t run_key[UW_KEY_BYTES],
                         const char *run, uint32_t epoch)
{
    uint8_t info[sizeof LABEL - 1u + 4u], key[UW_CCM_KEY_BYTES];
    memcpy(info, LABEL, sizeof LABEL - 1u);
    uw_put_u32(info + sizeof LABEL - 1u, epoch);
    uw_frames_key_wipe(k);
    mbedtls_ccm_init(&k->ccm);
    k->ready = true;
    int rc = mbedtls_hkdf(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), (const uint8_t *)run,
                          strlen(run), run_key, UW_KEY_BYTES, info, sizeof info, key, sizeof key);
    if (rc == 0) {
        rc = mbedtls_ccm_setkey(&k->ccm, MBEDTLS_CIPHER_ID_AES, key, 8u * sizeof key);
    }
    uw_key_wipe(key, sizeof key);
    if (rc != 0) {
        uw_frames_key_wipe(k);
    }
    return rc == 0 ? UW_OK : UW_ERR_NOMEM;
}

int uw_ccm_seal(struct uw_frames_key *k, const struct uw_ccm_frame *f)
{
    int rc = mbedtls_ccm_encrypt_and_tag(&k->ccm, f->body_bytes, f->nonce, sizeof f->nonce,
                                         f->head, f->head_bytes, f->body, f->body,
                                         f->body + f->body_bytes, UW_CCM_TAG_BYTES);
    return rc == 0 ? UW_OK : UW_ERR_IO;
}

int uw_ccm_open(struct uw_frames_key *k, const struct uw_ccm_frame *f)
{
    int rc = mbedtls_ccm_auth_decrypt(&k->ccm, f->body_bytes, f->nonce, sizeof f->nonce, f->head,
                                      f->head_bytes, f->body, f->body, f->body + f->body_bytes,
                                      UW_CCM_TAG_BYTES);
    return rc == 0 ? UW_OK : rc == MBEDTLS_ERR_CCM_AUTH_FAILED ? UW_ERR_DENIED : UW_ERR_IO;
}

static int system_random(uint8_t *out, size_t bytes)
{
#if defined(MBEDTLS_ENTROPY_C) && !defined(MBEDTLS_NO_PLATFORM_ENTROPY)
    mbedtls_entropy_context context;
    mbedtls_entropy_init(&context);
    int rc = mbedtls_entropy_func(&context, out, bytes);
    mbedtls_entropy_free(&context);
    return rc;
#else
    (void)out;
    (void)bytes;
    return -1;
#endif
}

int uw_ccm_random(int (*entropy)(void *user, uint8_t *out, size_t bytes), void *user,
                  uint8_t *out, size_t bytes)
{
    int rc = entropy != NULL ? entropy(user, out, bytes) : system_random(out, bytes);
    return rc == 0 ? UW_OK : UW_ERR_IO;
}
