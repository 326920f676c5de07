/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a node over Mbed TLS: key files, and lists of revoked devices. What they do to
 * sessions is in secure_mbedtls_devices.c. */
#include "key_set.h"

#include "base/bytes.h"

#include <mbedtls/pem.h>
#include <mbedtls/platform.h>
#include <mbedtls/platform_util.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define REVOKED_BEGIN "-----BEGIN UWASA REVOKED DEVICES-----"
#define REVOKED_END "-----END UWASA REVOKED DEVICES-----"
static const char begin[] = "-----BEGIN ", end[] = "-----END ";

int uw_sha256(const uint8_t *bytes, size_t n, uint8_t digest[32])
{
    return mbedtls_md(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), bytes, n, digest);
}

int uw_random_init(mbedtls_entropy_context *entropy, mbedtls_ctr_drbg_context *random)
{
    static const unsigned char purpose[] = "uwasa keys";
    mbedtls_entropy_init(entropy);
    mbedtls_ctr_drbg_init(random);
    return mbedtls_ctr_drbg_seed(random, mbedtls_entropy_func, entropy, purpose, sizeof purpose);
}

int uw_pk_parse(mbedtls_pk_context *pk, const char *text, mbedtls_ctr_drbg_context *random)
{
    const unsigned char *bytes = (const unsigned char *)text;
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
    return mbedtls_pk_parse_key(pk, bytes, strlen(text) + 1u, NULL, 0, mbedtls_ctr_drbg_random,
                                random);
#else
    (void)random;
    return mbedtls_pk_parse_key(pk, bytes, strlen(text) + 1u, NULL, 0);
#endif
}

static bool is_pair(const mbedtls_pk_context *public, const mbedtls_pk_context *private,
                    mbedtls_ctr_drbg_context *random)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
    return mbedtls_pk_check_pair(public, private, mbedtls_ctr_drbg_random, random) == 0;
#else
    (void)random;
    return mbedtls_pk_check_pair(public, private) == 0;
#endif
}

uint32_t uw_root_id(const mbedtls_x509_crt *root)
{
    uint8_t digest[32] = {0};
    (void)uw_sha256(root->pk_raw.p, root->pk_raw.len, digest);
    return uw_get_u32(digest);
}

void uw_name_hash(const char *name, uint8_t hash[UW_REVOKED_NAME_BYTES])
{
    uint8_t digest[32] = {0};
    (void)uw_sha256((const uint8_t *)name, strlen(name), digest);
    memcpy(hash, digest, UW_REVOKED_NAME_BYTES);
}

bool uw_is_device_name(const char *name, size_t bytes)
{
    bool fine = bytes > 0 && bytes < UW_DEVICE_NAME_BYTES;
    for (size_t i = 0; fine && i < bytes; i++) {
        unsigned char c = (unsigned char)name[i];
        fine = c < 128 && (isalnum(c) || c == '.' || c == '_' || c == '-');
    }
    return fine;
}

/* ---- a key file ---- */

static void free_set(struct uw_key_set *set)
{
    if (set == NULL) {
        return;
    }
    for (uint32_t i = 0; i < UW_SECURE_KEYS_MAX; i++) {
        mbedtls_pk_free(&set->key[i].own);
        mbedtls_x509_crt_free(&set->key[i].certificate);
        mbedtls_x509_crt_free(&set->key[i].root);
    }
    mbedtls_x509_crt_free(&set->roots);
    mbedtls_ctr_drbg_free(&set->random);
    mbedtls_entropy_free(&set->entropy);
    mbedtls_platform_zeroize(set, sizeof *set);
    mbedtls_free(set);
}

static struct uw_key_set *new_set(void)
{
    struct uw_key_set *set = mbedtls_calloc(1, sizeof *set);
    if (set == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < UW_SECURE_KEYS_MAX; i++) {
        mbedtls_pk_init(&set->key[i].own);
        mbedtls_x509_crt_init(&set->key[i].certificate);
        mbedtls_x509_crt_init(&set->key[i].root);
    }
    mbedtls_x509_crt_init(&set->roots);
    if (uw_random_init(&set->entropy, &set->random) != 0) {
        free_set(set);
        return NULL;
    }
    return set;
}

static int refuse(struct uw_error *err, int code, const char *sentence)
{
    return uw_error_set(err, code, "%s", sentence);
}

/* The next key of a file, or NULL with err filled. */
static struct uw_device_key *next_key(struct uw_key_set *set, struct uw_error *err)
{
    if (set->keys_n == UW_SECURE_KEYS_MAX) {
        (void)refuse(err, UW_ERR_CORRUPT, "has more than two keys");
        return NULL;
    }
    return &set->key[set->keys_n++];
}

/* A word that is not PEM has to be a run key. */
static int read_run_key(struct uw_key_set *set, const char *word, size_t n, struct uw_error *err)
{
    char digits[UW_KEY_TEXT_BYTES] = "";
    struct uw_device_key *key = next_key(set, err);
    if (key == NULL) {
        return UW_ERR_CORRUPT;
    }
    memcpy(digits, word, n < sizeof digits ? n : 0);
    int rc = uw_key_parse(digits, key->run_key);
    uw_key_wipe(digits, sizeof digits);
    uint8_t digest[32] = {0};
    (void)uw_sha256(key->run_key, sizeof key->run_key, digest);
    (void)uw_sha256(digest, sizeof digest, digest);
    snprintf(key->label, sizeof key->label, "%08x", (unsigned)uw_get_u32(digest));
    return rc < 0 ? refuse(err, UW_ERR_CORRUPT, "needs exactly 64 hex digits, or a device's key as "
                                                "uwasa keygen --device makes it")
                  : UW_OK;
}

/* The device's name in its certificate: there is one, as the root writes it. */
bool uw_read_name(const mbedtls_x509_crt *c, char name[UW_DEVICE_NAME_BYTES])
{
    static const unsigned char common_name[] = {0x55, 0x04, 0x03};
    uint32_t n = 0;
    for (const mbedtls_x509_name *at = &c->subject; at != NULL; at = at->next) {
        if (at->oid.len != sizeof common_name ||
            memcmp(at->oid.p, common_name, sizeof common_name) != 0 ||
            !uw_is_device_name((const char *)at->val.p, at->val.len)) {
            return false;
        }
        memcpy(name, at->val.p, at->val.len);
        name[at->val.len] = '\0';
        n++;
    }
    return n == 1;
}

/* A block of PEM: a private key begins a device's key, two certificates complete it. */
static int read_block(struct uw_key_set *set, const char *block, struct uw_error *err)
{
    const unsigned char *bytes = (const unsigned char *)block;
    size_t n = strlen(block) + 1u;
    struct uw_device_key *key = set->keys_n > 0 ? &set->key[set->keys_n - 1u] : NULL;
    bool within = key != NULL && key->is_device && key->root.raw.p == NULL;
    if (strstr(block, "PRIVATE KEY-----") != NULL) {
        key = within ? NULL : next_key(set, err);
        if (key == NULL) {
            return within ? refuse(err, UW_ERR_CORRUPT, "has a key without certificates")
                          : UW_ERR_CORRUPT;
        }
        key->is_device = true;
        if (uw_pk_parse(&key->own, block, &set->random) == 0 &&
            mbedtls_pk_can_do(&key->own, MBEDTLS_PK_ECKEY)) {
            return UW_OK;
        }
    } else if (strstr(block, "BEGIN CERTIFICATE-----") != NULL && within) {
        bool first = key->certificate.raw.p == NULL;
        if (mbedtls_x509_crt_parse(first ? &key->certificate : &key->root, bytes, n) == 0) {
            return UW_OK;
        }
    }
    return refuse(err, UW_ERR_CORRUPT, "is not a key as uwasa keygen makes it");
}

/* Certificates of devices without a clock do not expire. */
static int ignore_times(void *user, mbedtls_x509_crt *c, int depth, uint32_t *flags)
{
    (void)user;
    (void)c;
    (void)depth;
    *flags &= ~(uint32_t)(MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE);
    return 0;
}

static int check_key(struct uw_key_set *set, struct uw_device_key *key, struct uw_error *err)
{
    uint32_t flags = 0;
    if (!key->is_device) {
        return UW_OK;
    }
    if (key->root.raw.p == NULL || !uw_read_name(&key->certificate, key->name)) {
        return refuse(err, UW_ERR_CORRUPT, "has a key without its two certificates");
    }
    key->root_id = uw_root_id(&key->root);
    snprintf(key->label, sizeof key->label, "%08x", (unsigned)key->root_id);
    if (!is_pair(&key->certificate.pk, &key->own, &set->random) ||
        mbedtls_x509_crt_verify(&key->certificate, &key->root, NULL, NULL, &flags, ignore_times,
                                NULL) != 0) {
        return refuse(err, UW_ERR_DENIED, "has a certificate that is not its root's or not its "
                                          "key's");
    }
    bool known = false;
    for (const mbedtls_x509_crt *r = &set->roots; r != NULL; r = r->next) {
        known = known || (r->raw.p != NULL && uw_root_id(r) == key->root_id);
    }
    const mbedtls_x509_buf *root = &key->root.raw;
    if (!known && mbedtls_x509_crt_parse_der(&set->roots, root->p, root->len) != 0) {
        return refuse(err, UW_ERR_NOMEM, "is too much for the memory");
    }
    return UW_OK;
}

/* Read one key, or a part of it, at *text. Returns 1, 0 (the end) or a code. */
static int read_some(struct uw_key_set *set, const char **text, struct uw_error *err)
{
    char block[UW_DEVICE_TEXT_BYTES];
    const char *at = *text + strspn(*text, " \t\r\n"), *last;
    if (*at == '\0') {
        return 0;
    }
    if (*at == '#') {
        *text = at + strcspn(at, "\n");
        return 1;
    }
    int rc;
    if (strncmp(at, begin, sizeof begin - 1u) != 0) {
        last = at + strcspn(at, " \t\r\n");
        rc = read_run_key(set, at, (size_t)(last - at), err);
    } else {
        last = strstr(at, end);
        last = last != NULL ? last + strcspn(last, "\n") : at + strlen(at);
        if ((size_t)(last - at) >= sizeof block - 1u) {
            return refuse(err, UW_ERR_CORRUPT, "has a key that is too long");
        }
        memcpy(block, at, (size_t)(last - at));
        memcpy(block + (last - at), "\n", 2);
        rc = read_block(set, block, err);
        mbedtls_platform_zeroize(block, sizeof block);
    }
    *text = last;
    return rc < 0 ? rc : 1;
}

static int read_set(const char *text, struct uw_key_set **out, struct uw_error *err)
{
    struct uw_key_set *set = new_set();
    if (set == NULL) {
        return refuse(err, UW_ERR_NOMEM, "is too much for the memory");
    }
    (void)uw_sha256((const uint8_t *)text, strlen(text), set->digest);
    int rc = 1;
    while (rc == 1) {
        rc = read_some(set, &text, err);
    }
    if (rc == 0 && set->keys_n == 0) {
        rc = refuse(err, UW_ERR_CORRUPT, "needs exactly 64 hex digits, or a device's key as uwasa "
                                         "keygen --device makes it");
    }
    for (uint32_t i = 0; i < set->keys_n && rc == 0; i++) {
        rc = check_key(set, &set->key[i], err);
    }
    if (rc < 0) {
        free_set(set);
        return rc;
    }
    *out = set;
    return UW_OK;
}

/* ---- the keys of a node ---- */

/* Make the lists those of the roots that are there; those that stay keep theirs. */
static void set_roots(struct uw_secure_keys *k)
{
    struct uw_revoked_list before[UW_SECURE_KEYS_MAX];
    memcpy(before, k->lists, sizeof before);
    memset(k->lists, 0, sizeof k->lists);
    k->roots_n = 0;
    for (const mbedtls_x509_crt *r = &k->set->roots; r != NULL && r->raw.p != NULL; r = r->next) {
        struct uw_revoked_list *to = &k->lists[k->roots_n++];
        to->root = uw_root_id(r);
        for (uint32_t i = 0; i < UW_SECURE_KEYS_MAX; i++) {
            if (before[i].number != 0 && before[i].root == to->root) {
                *to = before[i];
            }
        }
    }
}

static void use_set(struct uw_secure_keys *k, struct uw_key_set *set)
{
    free_set(k->set);
    k->set = set;
    k->keys_n = set->keys_n;
    k->loads_n++;
    k->changes_n++;
    set_roots(k);
}

int uw_secure_keys_load(struct uw_secure_keys *k, const char *text, struct uw_error *err)
{
    struct uw_key_set *set = NULL;
    int rc = read_set(text, &set, err);
    if (rc < 0) {
        return rc;
    }
    if (k->set != NULL && memcmp(set->digest, k->set->digest, sizeof set->digest) == 0) {
        free_set(set);
        return 0;
    }
    use_set(k, set);
    return 1;
}

void uw_secure_keys_deinit(struct uw_secure_keys *k)
{
    free_set(k->set);
    memset(k, 0, sizeof *k);
}

const uint8_t *uw_secure_keys_run_key(const struct uw_secure_keys *k)
{
    for (uint32_t i = 0; i < k->keys_n; i++) {
        if (!k->set->key[i].is_device) {
            return k->set->key[i].run_key;
        }
    }
    return NULL;
}

const char *uw_secure_keys_device(const struct uw_secure_keys *k, uint32_t i)
{
    return i < k->keys_n ? k->set->key[i].name : "";
}

/* ---- lists ---- */

bool uw_keys_revoke(const struct uw_secure_keys *k, uint32_t root, const char *name)
{
    uint8_t hash[UW_REVOKED_NAME_BYTES];
    struct uw_revoked r;
    bool found = false;
    uw_name_hash(name, hash);
    for (uint32_t i = 0; i < k->roots_n; i++) {
        const struct uw_revoked_list *l = &k->lists[i];
        found = found || (l->root == root && l->number != 0 &&
                          uw_revoked_read(l->list, l->bytes, &r) == UW_OK &&
                          uw_revoked_has(&r, hash));
    }
    return found;
}

bool uw_secure_keys_is_revoked(const struct uw_secure_keys *k, uint32_t i)
{
    return i < k->keys_n && k->set->key[i].is_device &&
           uw_keys_revoke(k, k->set->key[i].root_id, k->set->key[i].name);
}

int uw_revoked_verify(const struct uw_revoked *r, const uint8_t *list, mbedtls_x509_crt *root)
{
    uint8_t digest[32];
    return uw_sha256(list, r->signed_bytes, digest) == 0 &&
                   mbedtls_pk_verify(&root->pk, MBEDTLS_MD_SHA256, digest, sizeof digest,
                                     r->signature, r->signature_bytes) == 0
               ? UW_OK
               : UW_ERR_DENIED;
}

int uw_secure_keys_revoke(struct uw_secure_keys *k, const uint8_t *list, uint32_t bytes)
{
    struct uw_revoked r;
    mbedtls_x509_crt *root = &k->set->roots;
    int rc = uw_revoked_read(list, bytes, &r);
    if (rc < 0) {
        return rc;
    }
    for (uint32_t i = 0; i < k->roots_n; i++, root = root->next) {
        struct uw_revoked_list *l = &k->lists[i];
        if (l->root != r.root) {
            continue;
        }
        if (r.number <= l->number) {
            return 0;
        }
        rc = uw_revoked_verify(&r, list, root);
        if (rc < 0) {
            return rc;
        }
        l->number = r.number;
        l->bytes = bytes;
        memcpy(l->list, list, bytes);
        k->changes_n++;
        return 1;
    }
    return UW_ERR_NOTFOUND;
}

uint32_t uw_secure_keys_revoked_n(const struct uw_secure_keys *k, uint32_t *number)
{
    struct uw_revoked r;
    uint32_t n = 0;
    *number = 0;
    for (uint32_t i = 0; i < k->roots_n; i++) {
        const struct uw_revoked_list *l = &k->lists[i];
        if (l->number != 0 && uw_revoked_read(l->list, l->bytes, &r) == UW_OK) {
            n += r.names_n;
            *number = l->number > *number ? l->number : *number;
        }
    }
    return n;
}

int uw_revoked_next(const char **text, uint8_t list[UW_REVOKED_BYTES_MAX])
{
    mbedtls_pem_context pem;
    size_t used = 0;
    const char *at = strstr(*text, REVOKED_BEGIN);
    if (at == NULL) {
        return 0;
    }
    const char *last = strstr(at, REVOKED_END);
    char block[UW_REVOKED_TEXT_BYTES + 1u];
    size_t n = last != NULL ? (size_t)(last - at) + sizeof REVOKED_END - 1u : sizeof block;
    if (n >= sizeof block) {
        return UW_ERR_CORRUPT;
    }
    memcpy(block, at, n);
    block[n] = '\0';
    mbedtls_pem_init(&pem);
    int rc = mbedtls_pem_read_buffer(&pem, REVOKED_BEGIN, REVOKED_END,
                                     (const unsigned char *)block, NULL, 0, &used);
    size_t bytes = 0;
    const unsigned char *from = NULL;
    if (rc == 0) {
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
        from = mbedtls_pem_get_buffer(&pem, &bytes);
#else
        from = pem.buf;
        bytes = pem.buflen;
#endif
    }
    bool fits = rc == 0 && bytes > 0 && bytes <= UW_REVOKED_BYTES_MAX;
    if (fits) {
        memcpy(list, from, bytes);
    }
    mbedtls_pem_free(&pem);
    *text = at + n;
    return fits ? (int)bytes : UW_ERR_CORRUPT;
}

uint32_t uw_revoked_print(const uint8_t *list, uint32_t bytes, char text[UW_REVOKED_TEXT_BYTES])
{
    size_t n = 0;
    return mbedtls_pem_write_buffer(REVOKED_BEGIN "\n", REVOKED_END "\n", list, bytes,
                                    (unsigned char *)text, UW_REVOKED_TEXT_BYTES, &n) == 0
               ? (uint32_t)strlen(text)
               : 0;
}

int uw_secure_keys_revoke_text(struct uw_secure_keys *k, const char *text)
{
    uint8_t list[UW_REVOKED_BYTES_MAX];
    int n = 0, bytes, rc = UW_OK;
    while (rc >= 0 && (bytes = uw_revoked_next(&text, list)) != 0) {
        rc = bytes < 0 ? bytes : uw_secure_keys_revoke(k, list, (uint32_t)bytes);
        rc = rc == UW_ERR_NOTFOUND ? UW_OK : rc;
        n++;
    }
    return rc < 0 ? rc : n;
}

uint32_t uw_secure_keys_lists(const struct uw_secure_keys *k,
                              char text[UW_SECURE_KEYS_MAX * UW_REVOKED_TEXT_BYTES])
{
    uint32_t n = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < k->roots_n; i++) {
        if (k->lists[i].number != 0) {
            n += uw_revoked_print(k->lists[i].list, k->lists[i].bytes, text + n);
        }
    }
    return n;
}
