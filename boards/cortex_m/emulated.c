/* SPDX-License-Identifier: Apache-2.0
 *
 * For builds that only an emulator runs. Emulated boards have no entropy source, so the host's
 * /dev/urandom is used, if there is one. A build for a real board has real.c instead of this file
 * and must define its own uw_machine_entropy to link. */
#include "semihosting.h"

#include "uwasa/flash_emulated.h"
#include "uwasa/machine.h"

#include <string.h>

int uw_machine_entropy(void *buf, size_t bytes)
{
    static int file = -1;
    if (file < 0) {
        file = uw_semihosting_open_to_read("/dev/urandom");
    }
    return file >= 0 && uw_semihosting_read_next(file, buf, (uint32_t)bytes) ? UW_OK : UW_ERR_IO;
}

/* Replace "@FILE", the last word of text, with the words of the file. A pipe is an error since its
 * length is not known: the board would start without its key. */
static int take_file(char *text, size_t bytes)
{
    char *at = strrchr(text, ' ');
    if (at == NULL || at[1] != '@') {
        return UW_OK;
    }
    int file = uw_semihosting_open_to_read(at + 2);
    long length = file >= 0 ? uw_semihosting_length(file) : 0;
    size_t room = bytes - (size_t)(at + 1 - text);
    bool fits = length > 0 && (size_t)length < room;
    bool read = fits && uw_semihosting_read_next(file, at + 1, (uint32_t)length);
    if (file >= 0) {
        uw_semihosting_close(file);
    }
    at[read ? 1 + length : 0] = '\0';
    if (!read) {
        return file < 0 ? UW_ERR_NOTFOUND : length <= 0 ? UW_ERR_INVALID
                                           : fits      ? UW_ERR_IO
                                                       : UW_ERR_TOOBIG;
    }
    return memchr(at + 1, '\0', (size_t)length) == NULL ? UW_OK : UW_ERR_CORRUPT;
}

/* The first word is the program's name. */
int uw_machine_arguments(char *text, size_t bytes)
{
    int rc = UW_ERR_TOOBIG;         /* the program's name is always present */
    if (uw_semihosting_arguments(text, bytes) == UW_OK) {
        size_t name = strcspn(text, " ");
        memmove(text, text + name, strlen(text + name) + 1u);
        rc = take_file(text, bytes);
    }
    text[0] = rc < 0 ? '\0' : text[0];
    return rc;
}

int uw_machine_flash_file(const char *path)
{
    return uw_flash_emulated_open((struct uw_flash_emulated *)uw_machine.flash, path);
}

void uw_machine_exit(int status)
{
    uw_semihosting_exit(status);
}
