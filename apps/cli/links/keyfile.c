/* SPDX-License-Identifier: Apache-2.0 */
#include "keyfile.h"

#include "base/open_file.h"
#include "base/stop.h"

#include "uwasa/board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 1024u
#define LISTS_BYTES (UW_SECURE_KEYS_MAX * UW_REVOKED_TEXT_BYTES)

int uw_keyfile_write(const char *file, const char *text, bool is_secret, bool force,
                     struct uw_error *err)
{
    char part[PATH_BYTES];
    const char *target = file;
    struct stat st;
    if (stat(file, &st) == 0 && !S_ISREG(st.st_mode)) {     /* a device would be replaced, too */
        return uw_error_set(err, UW_ERR_DENIED, "%s: is not a regular file", file);
    }
    if (force) { /* replace the old file only when the new one is complete */
        if (snprintf(part, sizeof part, "%s.part", file) >= (int)sizeof part) {
            return uw_error_set(err, UW_ERR_IO, "%.100s...: the name is too long", file);
        }
        unlink(part);
        target = part;
    }
    int fd = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_secret ? 0600 : 0644);
    if (fd < 0 && errno == EEXIST) {
        return uw_error_set(err, UW_ERR_DENIED, "%s: exists already, --force replaces it", file);
    }
    if (fd < 0) {
        return uw_error_set(err, UW_ERR_IO, "%s: %s", file, strerror(errno));
    }
    size_t bytes = strlen(text);
    bool written = write(fd, text, bytes) == (ssize_t)bytes && fsync(fd) == 0;
    written = close(fd) == 0 && written;
    if (!written || (force && rename(part, file) != 0)) {
        unlink(target);
        return uw_error_set(err, UW_ERR_IO, "%s: cannot be written", file);
    }
    return UW_OK;
}

int uw_keyfile_create(const char *file, bool force, struct uw_error *err)
{
    uint8_t key[UW_KEY_BYTES];
    char text[UW_KEY_TEXT_BYTES + 1u];
    if (uw_board_entropy(key, sizeof key) < 0) {
        return uw_error_set(err, UW_ERR_IO, "%s: the system gave no random numbers", file);
    }
    uw_key_format(key, text);
    strcpy(text + UW_KEY_TEXT_BYTES - 1u, "\n");
    int rc = uw_keyfile_write(file, text, true, force, err);
    uw_key_wipe(key, sizeof key);
    uw_key_wipe(text, sizeof text);
    return rc;
}

int uw_keyfile_text(const char *file, char *text, size_t cap_bytes, bool *exposed,
                    struct uw_error *err)
{
    struct stat st;
    FILE *f = uw_open_file(file, false);
    if (f == NULL) {
        return uw_error_set(err, errno == ENOENT ? UW_ERR_NOTFOUND : UW_ERR_IO,
                            "key %.180s: %s%s", file, strerror(errno),
                            errno == ENOENT ? "; uwasa keygen makes one" : "");
    }
    *exposed = fstat(fileno(f), &st) == 0 && (st.st_mode & 077) != 0;
    size_t n = fread(text, 1, cap_bytes, f);
    bool failed = ferror(f) != 0;
    fclose(f);
    text[n < cap_bytes ? n : cap_bytes - 1u] = '\0';
    return failed ? uw_error_set(err, UW_ERR_IO, "key %.180s: cannot be read", file)
           : strlen(text) != n
               ? uw_error_set(err, UW_ERR_CORRUPT, "key %.180s: is no text, or too long", file)
               : UW_OK;
}

int uw_keyfile_read(const char *file, uint8_t key[UW_KEY_BYTES], struct uw_error *err)
{
    struct uw_keyfile f;
    int rc = uw_keyfile_open(&f, file, err);
    const uint8_t *found = rc == UW_OK ? uw_secure_keys_run_key(&f.keys) : NULL;
    if (found != NULL) {
        memcpy(key, found, UW_KEY_BYTES);
    } else if (rc == UW_OK) {
        rc = uw_error_set(err, UW_ERR_CORRUPT, "key %.180s: is that of a device, boards need a "
                                               "run key", file);
    }
    uw_keyfile_close(&f);
    return rc;
}

static bool lists_path(const char *file, char path[PATH_BYTES])
{
    return snprintf(path, PATH_BYTES, "%s.revoked", file) < (int)PATH_BYTES;
}

static uint32_t numbers(const struct uw_secure_keys *k)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < k->roots_n; i++) {
        sum += k->lists[i].number;
    }
    return sum;
}

/* Take the lists beside a key. Returns UW_OK, also if there is no file. */
static int read_lists(struct uw_keyfile *f, struct uw_error *err)
{
    char path[PATH_BYTES], text[LISTS_BYTES + 1u];
    bool exposed;
    if (f->keys.roots_n == 0 || !lists_path(f->file, path)) {
        return UW_OK;
    }
    int rc = uw_keyfile_text(path, text, sizeof text, &exposed, err);
    if (rc < 0) {
        return rc == UW_ERR_NOTFOUND ? UW_OK : rc;
    }
    return uw_secure_keys_revoke_text(&f->keys, text) >= 0
               ? UW_OK
               : uw_error_set(err, UW_ERR_CORRUPT, "%.180s: is damaged, or not signed by the root "
                                                   "of this key: copy the root's again", path);
}

/* Read the key and its lists, at first or again. Returns 1 (other keys are set), 0, or a code. */
static int read_files(struct uw_keyfile *f, bool again, struct uw_error *err)
{
    char text[UW_KEYFILE_TEXT_BYTES];
    struct uw_error why = {.text = ""};
    int rc = uw_keyfile_text(f->file, text, sizeof text, &f->exposed, err);
    if (rc == UW_OK) {
        rc = again ? uw_secure_keys_load(&f->keys, text, &why)
                   : uw_secure_keys_init(&f->keys, text, &why);
        if (rc < 0) {
            (void)uw_error_set(err, rc, "key %.140s: %.110s", f->file, why.text);
        }
    }
    uw_key_wipe(text, sizeof text);
    int lists = rc < 0 ? rc : read_lists(f, err);
    return lists < 0 && !again ? lists : rc;
}

int uw_keyfile_open(struct uw_keyfile *f, const char *file, struct uw_error *err)
{
    memset(f, 0, sizeof *f);
    f->file = file;
    f->hangups_n = uw_stop_hangups();
    int rc = read_files(f, false, err);
    f->changes_n = f->keys.changes_n;
    f->numbers = numbers(&f->keys);
    return rc;
}

/* Store the lists, which are newer than those in the file. */
static int store_lists(const struct uw_keyfile *f, struct uw_error *err)
{
    char path[PATH_BYTES], text[LISTS_BYTES + 1u];
    (void)uw_secure_keys_lists(&f->keys, text);
    return lists_path(f->file, path) ? uw_keyfile_write(path, text, false, true, err)
                                     : uw_error_set(err, UW_ERR_IO, "%.100s...: the name is too "
                                                                    "long", f->file);
}

bool uw_keyfile_step(struct uw_keyfile *f, struct uw_keyfile_news *news)
{
    struct uw_error err = {.text = ""};
    uint32_t hangups_n = uw_stop_hangups();
    if (hangups_n == f->hangups_n && f->keys.changes_n == f->changes_n) {
        return false;
    }
    memset(news, 0, sizeof *news);
    if (hangups_n != f->hangups_n) {
        f->hangups_n = hangups_n;
        news->loaded = read_files(f, true, &err) == 1;
    }
    f->changes_n = f->keys.changes_n;
    uint32_t now = numbers(&f->keys);
    if (now != f->numbers && now != 0) {
        news->devices_n = uw_secure_keys_revoked_n(&f->keys, &news->list_number);
        if (err.text[0] == '\0') {
            (void)store_lists(f, &err);
        }
    }
    f->numbers = now;
    snprintf(news->trouble, sizeof news->trouble, "%s", err.text);
    return news->loaded || news->list_number != 0 || news->trouble[0] != '\0';
}

void uw_keyfile_close(struct uw_keyfile *f)
{
    uw_secure_keys_deinit(&f->keys);
    f->file = NULL;
}
