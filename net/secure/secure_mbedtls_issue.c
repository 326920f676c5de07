/* SPDX-License-Identifier: Apache-2.0
 *
 * What the root does: certificates of devices, and the list of those that are revoked. */
#include "key_set.h"

#include "base/bytes.h"

#include <mbedtls/ecp.h>
#include <mbedtls/platform_util.h>

#include <stdio.h>
#include <string.h>

#define SERIAL_BYTES 19u                /* of 20 at most */
#define FROM "19700101000000"           /* devices without a clock live in 1970 */
#define UNTIL "99991231235959"          /* no expiry: RFC 5280, 4.1.2.5 */

struct issuer {
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_pk_context root, device;
    mbedtls_x509_crt certificate;       /* the root's */
    mbedtls_x509write_cert writer;
};

static int begin(struct issuer *is)
{
    mbedtls_pk_init(&is->root);
    mbedtls_pk_init(&is->device);
    mbedtls_x509_crt_init(&is->certificate);
    mbedtls_x509write_crt_init(&is->writer);
    return uw_random_init(&is->entropy, &is->random);
}

static void finish(struct issuer *is)
{
    mbedtls_x509write_crt_free(&is->writer);
    mbedtls_x509_crt_free(&is->certificate);
    mbedtls_pk_free(&is->device);
    mbedtls_pk_free(&is->root);
    mbedtls_ctr_drbg_free(&is->random);
    mbedtls_entropy_free(&is->entropy);
}

static int no_randomness(struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_IO, "the system gave no random numbers");
}

static int draw_key(struct issuer *is, mbedtls_pk_context *pk)
{
    int code = mbedtls_pk_setup(pk, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));
    return code != 0 ? code
                     : mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*pk),
                                           mbedtls_ctr_drbg_random, &is->random);
}

/* The number is random: that of a root is what strangers cannot know of it. */
static int set_serial(struct issuer *is)
{
    unsigned char serial[SERIAL_BYTES];
    int code = mbedtls_ctr_drbg_random(&is->random, serial, sizeof serial);
    serial[0] = (unsigned char)((serial[0] & 0x3fu) | 0x40u);   /* positive, and of full length */
#if MBEDTLS_VERSION_NUMBER >= 0x03040000
    return code != 0 ? code
                     : mbedtls_x509write_crt_set_serial_raw(&is->writer, serial, sizeof serial);
#else
    mbedtls_mpi number;
    mbedtls_mpi_init(&number);
    code = code != 0 ? code : mbedtls_mpi_read_binary(&number, serial, sizeof serial);
    code = code != 0 ? code : mbedtls_x509write_crt_set_serial(&is->writer, &number);
    mbedtls_mpi_free(&number);
    return code;
#endif
}

/* Append a certificate of `subject` for a key, and the key itself before it. */
static int write_certificate(struct issuer *is, mbedtls_pk_context *pk, const char *subject,
                             bool is_root, char *text)
{
    mbedtls_x509write_cert *w = &is->writer;
    size_t n = strlen(text);
    mbedtls_x509write_crt_set_md_alg(w, MBEDTLS_MD_SHA256);
    mbedtls_x509write_crt_set_subject_key(w, pk);
    mbedtls_x509write_crt_set_issuer_key(w, &is->root);
    int code = mbedtls_pk_write_key_pem(pk, (unsigned char *)text + n, UW_DEVICE_TEXT_BYTES - n);
    code = code != 0 ? code : set_serial(is);
    code = code != 0 ? code : mbedtls_x509write_crt_set_subject_name(w, subject);
    code = code != 0 ? code : mbedtls_x509write_crt_set_issuer_name(w, "CN=uwasa root");
    code = code != 0 ? code : mbedtls_x509write_crt_set_validity(w, FROM, UNTIL);
    code = code != 0 ? code
                     : mbedtls_x509write_crt_set_basic_constraints(w, is_root, is_root ? 0 : -1);
    code = code != 0 ? code
                     : mbedtls_x509write_crt_set_key_usage(
                           w, is_root ? MBEDTLS_X509_KU_KEY_CERT_SIGN
                                      : MBEDTLS_X509_KU_DIGITAL_SIGNATURE);
    n = strlen(text);
    return code != 0 ? code
                     : mbedtls_x509write_crt_pem(w, (unsigned char *)text + n,
                                                 UW_DEVICE_TEXT_BYTES - n, mbedtls_ctr_drbg_random,
                                                 &is->random);
}

int uw_root_create(char text[UW_DEVICE_TEXT_BYTES], struct uw_error *err)
{
    struct issuer is;
    text[0] = '\0';
    int rc = begin(&is) == 0 ? UW_OK : no_randomness(err);
    if (rc == UW_OK && (draw_key(&is, &is.root) != 0 ||
                        write_certificate(&is, &is.root, "CN=uwasa root", true, text) != 0)) {
        rc = uw_error_set(err, UW_ERR_NOMEM, "a root could not be made: out of memory");
    }
    finish(&is);
    return rc;
}

static int read_root(struct issuer *is, const char *text, struct uw_error *err)
{
    const unsigned char *bytes = (const unsigned char *)text;
    return uw_pk_parse(&is->root, text, &is->random) == 0 &&
                   mbedtls_x509_crt_parse(&is->certificate, bytes, strlen(text) + 1u) == 0 &&
                   is->certificate.MBEDTLS_PRIVATE(ca_istrue) != 0
               ? UW_OK
               : uw_error_set(err, UW_ERR_CORRUPT, "is not a root as uwasa keygen --root makes it");
}

/* The root's own list in a text; number 0: none is there. Returns UW_OK or UW_ERR_CORRUPT. */
static int read_list(struct issuer *is, const char *text, uint8_t list[UW_REVOKED_BYTES_MAX],
                     struct uw_revoked *r, struct uw_error *err)
{
    int bytes;
    memset(r, 0, sizeof *r);
    while ((bytes = uw_revoked_next(&text, list)) != 0) {
        if (bytes < 0 || uw_revoked_read(list, (uint32_t)bytes, r) < 0 ||
            r->root != uw_root_id(&is->certificate) ||
            uw_revoked_verify(r, list, &is->certificate) < 0) {
            return uw_error_set(err, UW_ERR_CORRUPT, "the list of revoked devices beside it is "
                                                     "damaged, or not this root's");
        }
        return UW_OK;
    }
    return UW_OK;
}

static int check_name(const char *name, struct uw_error *err)
{
    return uw_is_device_name(name, strlen(name))
               ? UW_OK
               : uw_error_set(err, UW_ERR_INVALID, "needs 1 to 31 letters, digits, '.', '_' or "
                                                   "'-'");
}

static int check_not_revoked(const struct uw_revoked *r, const char *name, struct uw_error *err)
{
    uint8_t hash[UW_REVOKED_NAME_BYTES];
    uw_name_hash(name, hash);
    return !uw_revoked_has(r, hash)
               ? UW_OK
               : uw_error_set(err, UW_ERR_DENIED, "is revoked, for good: give the new key "
                                                  "another name");
}

/* Append the root's certificate. */
static int append_root(const char *root, char *text)
{
    const char *at = strstr(root, "-----BEGIN CERTIFICATE-----");
    size_t n = strlen(text);
    if (at == NULL || strlen(at) >= UW_DEVICE_TEXT_BYTES - n) {
        return -1;
    }
    memcpy(text + n, at, strlen(at) + 1u);
    return 0;
}

int uw_root_device(const char *root, const char *lists, const char *name,
                   char text[UW_DEVICE_TEXT_BYTES], struct uw_error *err)
{
    struct issuer is;
    struct uw_revoked revoked;
    uint8_t list[UW_REVOKED_BYTES_MAX];
    char subject[UW_DEVICE_NAME_BYTES + 3u];
    text[0] = '\0';
    int rc = begin(&is) == 0 ? UW_OK : no_randomness(err);
    rc = rc < 0 ? rc : check_name(name, err);
    rc = rc < 0 ? rc : read_root(&is, root, err);
    rc = rc < 0 ? rc : read_list(&is, lists, list, &revoked, err);
    rc = rc < 0 ? rc : check_not_revoked(&revoked, name, err);
    if (rc == UW_OK) {
        snprintf(subject, sizeof subject, "CN=%s", name);
        if (draw_key(&is, &is.device) != 0 ||
            write_certificate(&is, &is.device, subject, false, text) != 0 ||
            append_root(root, text) != 0) {
            rc = uw_error_set(err, UW_ERR_NOMEM, "a key could not be made: out of memory");
        }
    }
    finish(&is);
    return rc;
}

/* Sign what is in the list. Returns all its bytes, 0: it failed. */
static uint32_t sign(struct issuer *is, uint8_t list[UW_REVOKED_BYTES_MAX], uint32_t bytes)
{
    uint8_t digest[32];
    size_t n = 0;
    if (uw_sha256(list, bytes, digest) != 0) {
        return 0;
    }
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
    int code = mbedtls_pk_sign(&is->root, MBEDTLS_MD_SHA256, digest, sizeof digest, list + bytes,
                               UW_REVOKED_BYTES_MAX - bytes, &n, mbedtls_ctr_drbg_random,
                               &is->random);
#else
    int code = mbedtls_pk_sign(&is->root, MBEDTLS_MD_SHA256, digest, sizeof digest, list + bytes,
                               &n, mbedtls_ctr_drbg_random, &is->random);
#endif
    return code == 0 ? bytes + (uint32_t)n : 0;
}

/* Write the list that follows r, which is in `list`, with one more name. */
static int write_next(struct issuer *is, const struct uw_revoked *r,
                      uint8_t list[UW_REVOKED_BYTES_MAX], const char *name,
                      char lists[UW_REVOKED_TEXT_BYTES], struct uw_error *err)
{
    uint32_t n = r->names_n;
    if (n == UW_REVOKED_MAX) {
        return uw_error_set(err, UW_ERR_FULL, "%u devices are revoked, the list is full: make a "
                                              "new root, and keys of it for those that stay",
                            (unsigned)UW_REVOKED_MAX);
    }
    uw_name_hash(name, list + UW_REVOKED_HEAD_BYTES + (size_t)n * UW_REVOKED_NAME_BYTES);
    uw_revoked_write_head(list, uw_root_id(&is->certificate), r->number + 1u, n + 1u);
    uint32_t bytes = sign(is, list, UW_REVOKED_HEAD_BYTES + (n + 1u) * UW_REVOKED_NAME_BYTES);
    return bytes != 0 && uw_revoked_print(list, bytes, lists) != 0
               ? UW_OK
               : uw_error_set(err, UW_ERR_NOMEM, "a list could not be made: out of memory");
}

int uw_root_revoke(const char *root, char lists[UW_REVOKED_TEXT_BYTES], const char *name,
                   struct uw_error *err)
{
    struct issuer is;
    struct uw_revoked revoked;
    uint8_t list[UW_REVOKED_BYTES_MAX], hash[UW_REVOKED_NAME_BYTES];
    int rc = begin(&is) == 0 ? UW_OK : no_randomness(err);
    rc = rc < 0 ? rc : check_name(name, err);
    rc = rc < 0 ? rc : read_root(&is, root, err);
    rc = rc < 0 ? rc : read_list(&is, lists, list, &revoked, err);
    if (rc == UW_OK) {
        uw_name_hash(name, hash);
        bool known = uw_revoked_has(&revoked, hash);
        rc = known ? UW_OK : write_next(&is, &revoked, list, name, lists, err);
        rc = rc < 0 ? rc : (int)(revoked.names_n + (known ? 0u : 1u));
    }
    finish(&is);
    return rc;
}
