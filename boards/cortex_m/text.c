/* SPDX-License-Identifier: Apache-2.0
 *
 * String and memory functions of the C library that are called rarely and on little data. newlib's
 * are optimized for speed and 1.5 kB larger. memcpy, memset and memcmp stay newlib's. */
#include <stdint.h>
#include <string.h>

size_t strlen(const char *text)
{
    size_t n = 0;
    while (text[n] != '\0') {
        n++;
    }
    return n;
}

char *strcpy(char *restrict to, const char *restrict from)
{
    for (size_t i = 0; (to[i] = from[i]) != '\0'; i++) {
    }
    return to;
}

int strncmp(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int difference = (unsigned char)a[i] - (unsigned char)b[i];
        if (difference != 0 || a[i] == '\0') {
            return difference;
        }
    }
    return 0;
}

int strcmp(const char *a, const char *b)
{
    return strncmp(a, b, SIZE_MAX);
}

void *memchr(const void *bytes, int byte, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == (unsigned char)byte) {
            return (void *)(uintptr_t)(p + i);
        }
    }
    return NULL;
}

void *memmove(void *to, const void *from, size_t n)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    if ((uintptr_t)t <= (uintptr_t)f) {
        for (size_t i = 0; i < n; i++) {
            t[i] = f[i];
        }
    } else {
        while (n-- > 0) {
            t[n] = f[n];
        }
    }
    return to;
}
