/* SPDX-License-Identifier: Apache-2.0 */
#include "array.h"

#include "file.h"
#include "inflate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    END_BYTES = 22, END_SEARCHED = END_BYTES + 65535, ENTRY_BYTES = 46, LOCAL_BYTES = 30,
    STORED = 0, DEFLATED = 8
};

/* A member of the archive. */
struct member {
    char name[80];
    uint32_t method, crc, packed_bytes, bytes, local_at;
};

struct archive {
    struct uw_file file;
    uint8_t *directory;
    uint32_t directory_bytes, at;
};

static uint32_t u16(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t u32(const uint8_t *p)
{
    return u16(p) | u16(p + 2) << 16;
}

static int corrupt(const struct archive *z, struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_CORRUPT, "%.140s: is no archive of arrays (.npz), or cut off",
                        z->file.path);
}

/* Read the directory at the archive's end. */
static int read_directory(struct archive *z, struct uw_error *err)
{
    uint64_t bytes = z->file.bytes;
    size_t n = bytes < END_SEARCHED ? (size_t)bytes : END_SEARCHED;
    uint8_t *tail = malloc(n + 1);
    size_t at = n;
    if (tail == NULL || uw_file_read(&z->file, bytes - n, tail, n) < 0) {
        free(tail);
        return tail == NULL ? uw_error_set(err, UW_ERR_NOMEM, "%.140s: no memory", z->file.path)
                            : uw_file_read_error(&z->file, bytes - n, err);
    }
    for (size_t i = 0; n >= END_BYTES && i <= n - END_BYTES; i++) {
        at = memcmp(tail + i, "PK\5\6", 4) == 0 ? i : at;
    }
    uint32_t start = at < n ? u32(tail + at + 16) : 0;
    z->directory_bytes = at < n ? u32(tail + at + 12) : 0;
    free(tail);
    if (z->directory_bytes == 0 || start > bytes || z->directory_bytes > bytes - start) {
        return corrupt(z, err);
    }
    z->directory = malloc(z->directory_bytes);
    return z->directory != NULL &&
                   uw_file_read(&z->file, start, z->directory, z->directory_bytes) == UW_OK
               ? UW_OK
               : corrupt(z, err);
}

/* Returns 1: *m is the next member; 0: there are no more; or a code. */
static int next_member(struct archive *z, struct member *m, struct uw_error *err)
{
    uint32_t left = z->directory_bytes - z->at;
    const uint8_t *p = z->directory + z->at;
    if (left == 0) {
        return 0;
    }
    if (left < ENTRY_BYTES || memcmp(p, "PK\1\2", 4) != 0) {
        return corrupt(z, err);
    }
    uint32_t name_bytes = u16(p + 28), all = ENTRY_BYTES + name_bytes + u16(p + 30) + u16(p + 32);
    if (all > left) {
        return corrupt(z, err);
    }
    *m = (struct member){.method = u16(p + 10), .crc = u32(p + 16), .packed_bytes = u32(p + 20),
                         .bytes = u32(p + 24), .local_at = u32(p + 42)};
    uint32_t kept = name_bytes < sizeof m->name ? name_bytes : (uint32_t)sizeof m->name - 1;
    memcpy(m->name, p + ENTRY_BYTES, kept);
    if (kept > 4 && strcmp(m->name + kept - 4, ".npy") == 0) {
        m->name[kept - 4] = '\0';
    }
    z->at += all;
    return 1;
}

/* Of zip archives (ISO 3309). */
static uint32_t crc_of(const uint8_t *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX, table[256];
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) {
            table[i] = table[i] >> 1 ^ ((table[i] & 1u) != 0 ? 0xedb88320u : 0);
        }
    }
    for (size_t i = 0; i < n; i++) {
        crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255u];
    }
    return ~crc;
}

/* Whether a name is in a list "A|B". */
static bool is_in_list(const char *list, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (strcspn(at, "|") == bytes && strncmp(at, name, bytes) == 0) {
            return true;
        }
    }
    return false;
}

static int find(struct archive *z, const char *names, struct member *m, struct uw_error *err)
{
    char list[160] = "";
    int rc;
    while ((rc = next_member(z, m, err)) == 1) {
        if (is_in_list(names, m->name)) {
            return UW_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%.40s", used == 0 ? "" : ", ", m->name);
    }
    return rc < 0 ? rc
                  : uw_error_set(err, UW_ERR_NOTFOUND,
                                 "%.70s: no array %.50s inside; it has \"%.110s\"", z->file.path,
                                 names, list);
}

static int read_member(struct archive *z, const struct member *m, uint8_t **out,
                       struct uw_error *err)
{
    uint8_t local[LOCAL_BYTES];
    bool packed = m->method == DEFLATED;
    if (m->bytes == UINT32_MAX || m->packed_bytes == UINT32_MAX) {
        return uw_error_set(err, UW_ERR_TOOBIG, "%.100s: %.40s has 4 GB or more: save it as .npy",
                            z->file.path, m->name);
    }
    if ((!packed && (m->method != STORED || m->bytes != m->packed_bytes)) ||
        uw_file_read(&z->file, m->local_at, local, sizeof local) < 0 ||
        memcmp(local, "PK\3\4", 4) != 0) {
        return corrupt(z, err);
    }
    uint64_t at = (uint64_t)m->local_at + LOCAL_BYTES + u16(local + 26) + u16(local + 28);
    if (at > z->file.bytes || m->packed_bytes > z->file.bytes - at) {
        return corrupt(z, err);
    }
    uint8_t *bytes = malloc((size_t)m->packed_bytes + 1);
    *out = packed ? malloc((size_t)m->bytes + 1) : bytes;
    int rc = bytes == NULL || *out == NULL
                 ? uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory", z->file.path) : UW_OK;
    if (rc == UW_OK && uw_file_read(&z->file, at, bytes, m->packed_bytes) < 0) {
        rc = uw_file_read_error(&z->file, at, err);
    }
    if (rc == UW_OK && packed) {
        rc = uw_inflate_block(bytes, m->packed_bytes, *out, m->bytes);
        rc = rc == UW_ERR_UNSUPPORTED
                 ? uw_error_set(err, rc, "%.100s: is compressed, and this build has no zlib: save "
                                "it with numpy.savez", z->file.path)
             : rc < 0 ? corrupt(z, err) : rc;
    }
    if (rc == UW_OK && crc_of(*out, m->bytes) != m->crc) {
        rc = uw_error_set(err, UW_ERR_CORRUPT, "%.100s: array %.40s is damaged: its check sum is "
                          "another", z->file.path, m->name);
    }
    if (packed || rc < 0) {
        free(bytes);
    }
    if (rc < 0) {
        if (packed) {
            free(*out);
        }
        *out = NULL;
    }
    return rc;
}

int uw_array_open_npz(struct uw_array *a, const char *path, const char *names,
                      struct uw_error *err)
{
    struct archive z = {.directory = NULL};
    struct member m;
    uint8_t *bytes = NULL;
    *a = (struct uw_array){.memory = NULL};
    int rc = uw_file_open(&z.file, path, NULL, err);
    if (rc < 0) {
        return rc;
    }
    rc = read_directory(&z, err);
    rc = rc < 0 ? rc : find(&z, names, &m, err);
    rc = rc < 0 ? rc : read_member(&z, &m, &bytes, err);
    if (rc == UW_OK) {
        snprintf(a->name, sizeof a->name, "%s", m.name);
        rc = uw_array_parse(a, bytes, m.bytes, path, err);
    }
    free(z.directory);
    uw_file_close(&z.file);
    return rc;
}
