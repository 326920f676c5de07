/* SPDX-License-Identifier: Apache-2.0 */
#include "keyfile.h"

#include "base/open_file.h"

#include "uwasa/board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int uw_keyfile_create(const char *file, bool force, struct uw_error *err)
{
    uint8_t key[UW_KEY_BYTES];
    char text[UW_KEY_TEXT_BYTES];
    char part[1024];
    const char *target = file;
    struct stat st;
    if (stat(file, &st) == 0 && !S_ISREG(st.st_mode)) {     /* a device would be replaced, too */
        return uw_error_set(err, UW_ERR_DENIED, "%s: is not a regular file", file);
    }
    if (uw_board_entropy(key, sizeof key) < 0) {
        return uw_error_set(err, UW_ERR_IO, "%s: the system gave no random numbers", file);
    }
    if (force) { /* replace the old key only when the new one is complete */
        if (snprintf(part, sizeof part, "%s.part", file) >= (int)sizeof part) {
            return uw_error_set(err, UW_ERR_IO, "%.100s...: the name is too long", file);
        }
        unlink(part);
        target = part;
    }
    int fd = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        return uw_error_set(err, UW_ERR_DENIED, "%s: exists already, --force replaces it", file);
    }
    if (fd < 0) {
        return uw_error_set(err, UW_ERR_IO, "%s: %s", file, strerror(errno));
    }
    uw_key_format(key, text);
    text[UW_KEY_TEXT_BYTES - 1u] = '\n';
    bool written = write(fd, text, sizeof text) == (ssize_t)sizeof text && fsync(fd) == 0;
    uw_key_wipe(key, sizeof key);
    uw_key_wipe(text, sizeof text);
    written = close(fd) == 0 && written;
    if (!written || (force && rename(part, file) != 0)) {
        unlink(target);
        return uw_error_set(err, UW_ERR_IO, "%s: cannot be written", file);
    }
    return UW_OK;
}

int uw_keyfile_read(const char *file, uint8_t key[UW_KEY_BYTES], bool *exposed,
                    struct uw_error *err)
{
    char text[256];
    struct stat st;
    FILE *f = uw_open_file(file, false);
    if (f == NULL) {
        return uw_error_set(err, errno == ENOENT ? UW_ERR_NOTFOUND : UW_ERR_IO,
                            "key %.180s: %s%s", file, strerror(errno),
                            errno == ENOENT ? "; uwasa keygen makes one" : "");
    }
    *exposed = fstat(fileno(f), &st) == 0 && (st.st_mode & 077) != 0;
    size_t n = fread(text, 1, sizeof text - 1u, f);
    bool failed = ferror(f) != 0;
    fclose(f);
    text[n] = '\0';
    int rc = failed ? UW_ERR_IO : UW_OK;
    if (failed) {
        uw_error_set(err, rc, "key %.180s: cannot be read", file);
    } else if (strlen(text) != n || uw_key_parse(text, key) < 0) {
        rc = uw_error_set(err, UW_ERR_CORRUPT, "key %.180s: needs exactly 64 hex digits", file);
    }
    uw_key_wipe(text, sizeof text);
    return rc;
}
