/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG by libjpeg (libjpeg-turbo), which reports errors by a jump. */
#include <stdio.h>      /* jpeglib.h needs it */

#include "image.h"

#include <jpeglib.h>
#include <setjmp.h>

struct handler {
    struct jpeg_error_mgr base;
    jmp_buf back;
};

static void jump_back(j_common_ptr info)
{
    longjmp(((struct handler *)info->err)->back, 1);
}

static void say_nothing(j_common_ptr info)
{
    (void)info;
}

int uw_image_decode_jpeg(struct uw_image *m, const uint8_t *bytes, size_t n)
{
    struct jpeg_decompress_struct info;
    struct handler handler;
    info.err = jpeg_std_error(&handler.base);
    handler.base.error_exit = jump_back;
    handler.base.output_message = say_nothing;
    if (setjmp(handler.back) != 0) {
        jpeg_destroy_decompress(&info);
        return UW_ERR_CORRUPT;
    }
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, bytes, n);
    (void)jpeg_read_header(&info, TRUE);
    bool grey = info.num_components == 1;
    info.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    (void)jpeg_start_decompress(&info);
    m->width = info.output_width;
    m->height = info.output_height;
    m->channels = grey ? 1 : 3;
    int rc = uw_image_allocate(m);
    while (rc == UW_OK && info.output_scanline < info.output_height) {
        uint8_t *row = m->pixels + (size_t)info.output_scanline * m->width * m->channels;
        (void)jpeg_read_scanlines(&info, &row, 1);
    }
    if (rc == UW_OK && info.err->num_warnings != 0) {
        rc = UW_ERR_CORRUPT;        /* cut off, for example */
    }
    jpeg_destroy_decompress(&info);
    return rc;
}
