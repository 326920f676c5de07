/* SPDX-License-Identifier: Apache-2.0
 *
 * host_digits N IMAGES LABELS - write the first N built-in digits as IDX files of bytes */
#include "uwasa/digits.h"

#include <stdio.h>
#include <stdlib.h>

static void put_u32(FILE *f, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8) {
        putc((int)(v >> shift & 0xffu), f);
    }
}

int main(int argc, char **argv)
{
    struct uw_digits d;
    if (argc != 4 || uw_digits_init(&d, &(struct uw_digits_config){.seed = 1}) < 0) {
        return 2;
    }
    uint32_t n = (uint32_t)strtoul(argv[1], NULL, 10);
    FILE *images = fopen(argv[2], "wb"), *labels = fopen(argv[3], "wb");
    if (images == NULL || labels == NULL) {
        return 1;
    }
    put_u32(images, 0x00000803);
    put_u32(images, n);
    put_u32(images, UW_DIGITS_SIDE);
    put_u32(images, UW_DIGITS_SIDE);
    put_u32(labels, 0x00000801);
    put_u32(labels, n);
    for (uint32_t i = 0; i < n; i++) {
        float x[UW_DIGITS_PIXELS_N];
        uint32_t label;
        if (d.base.ops->read(&d.base, i, x, &label) < 0) {
            return 1;
        }
        for (uint32_t k = 0; k < UW_DIGITS_PIXELS_N; k++) {
            putc((int)(x[k] * 255.0f + 0.5f), images);
        }
        putc((int)label, labels);
    }
    return fclose(images) == 0 && fclose(labels) == 0 ? 0 : 1;
}
