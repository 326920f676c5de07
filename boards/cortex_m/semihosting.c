/* SPDX-License-Identifier: Apache-2.0 */
#include "semihosting.h"

#include "uwasa/machine.h"

#include <string.h>

enum {
    SYS_OPEN = 0x01,
    SYS_CLOSE = 0x02,
    SYS_WRITE = 0x05,
    SYS_READ = 0x06,
    SYS_SEEK = 0x0a,
    SYS_FLEN = 0x0c,
    SYS_GET_CMDLINE = 0x15,
    SYS_EXIT_EXTENDED = 0x20
};

#define STOPPED_APPLICATION_EXIT 0x20026u
#define MODE_READ 1u                /* "rb" */
#define MODE_READ_WRITE 3u          /* "r+b" */
#define MODE_CREATE 7u              /* "w+b" */

static int call(int operation, void *block)
{
    register int r0 __asm("r0") = operation;
    register void *r1 __asm("r1") = block;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

int uw_semihosting_arguments(char *text, size_t bytes)
{
    uintptr_t block[2] = {(uintptr_t)text, bytes};
    if (call(SYS_GET_CMDLINE, block) != 0 || bytes == 0) {
        return UW_ERR_UNSUPPORTED;
    }
    text[bytes - 1u] = '\0';
    return UW_OK;
}

void uw_semihosting_exit(int status)
{
    uintptr_t block[2] = {STOPPED_APPLICATION_EXIT, (uintptr_t)status};
    (void)call(SYS_EXIT_EXTENDED, block);
}

static int open_as(const char *path, uintptr_t mode)
{
    uintptr_t block[3] = {(uintptr_t)path, mode, strlen(path)};
    return call(SYS_OPEN, block);
}

int uw_semihosting_open(const char *path)
{
    int handle = open_as(path, MODE_READ_WRITE);
    return handle >= 0 ? handle : open_as(path, MODE_CREATE);
}

int uw_semihosting_open_to_read(const char *path)
{
    return open_as(path, MODE_READ);
}

void uw_semihosting_close(int handle)
{
    uintptr_t block[1] = {(uintptr_t)handle};
    (void)call(SYS_CLOSE, block);
}

long uw_semihosting_length(int handle)
{
    uintptr_t block[1] = {(uintptr_t)handle};
    return call(SYS_FLEN, block);
}

static bool seek(int handle, uint32_t at)
{
    uintptr_t block[2] = {(uintptr_t)handle, at};
    return call(SYS_SEEK, block) == 0;
}

bool uw_semihosting_read_next(int handle, void *buf, uint32_t bytes)
{
    uintptr_t block[3] = {(uintptr_t)handle, (uintptr_t)buf, bytes};
    return call(SYS_READ, block) == 0;
}

bool uw_semihosting_read(int handle, uint32_t at, void *buf, uint32_t bytes)
{
    return seek(handle, at) && uw_semihosting_read_next(handle, buf, bytes);
}

bool uw_semihosting_write(int handle, uint32_t at, const void *buf, uint32_t bytes)
{
    uintptr_t block[3] = {(uintptr_t)handle, (uintptr_t)buf, bytes};
    return seek(handle, at) && call(SYS_WRITE, block) == 0;
}
