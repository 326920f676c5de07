/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's generator for keys, on a POSIX host. */
#ifndef UWASA_TEST_ZEPHYR_RANDOM_H
#define UWASA_TEST_ZEPHYR_RANDOM_H

#include <sys/random.h>

static inline int sys_csrand_get(void *dst, size_t len)
{
    return getrandom(dst, len, 0) == (ssize_t)len ? 0 : -5;
}

#endif
