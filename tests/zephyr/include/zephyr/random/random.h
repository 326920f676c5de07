/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's generators, on a POSIX host. */
#ifndef UWASA_TEST_ZEPHYR_RANDOM_H
#define UWASA_TEST_ZEPHYR_RANDOM_H

#include <stdint.h>
#include <sys/random.h>

static inline int sys_csrand_get(void *dst, size_t len)
{
    return getrandom(dst, len, 0) == (ssize_t)len ? 0 : -5;
}

static inline uint32_t sys_rand32_get(void)
{
    uint32_t value = 0;
    (void)getrandom(&value, sizeof value, 0);
    return value;
}

#endif
