/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

#include "file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FILE_BYTES_MAX = 1 << 28, PIXELS_MAX = 1 << 26 };

bool uw_image_is_name(const char *name)
{
    static const char *const endings[] = {".png", ".jpg", ".jpeg", ".pgm", ".ppm"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t e = strlen(endings[i]);
        if (n > e && name[0] != '.' && strcasecmp(name + n - e, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

int uw_image_allocate(struct uw_image *m)
{
    if (m->width == 0 || m->height == 0) {
        return UW_ERR_CORRUPT;
    }
    if (m->width > UW_IMAGE_SIDE_MAX || m->height > UW_IMAGE_SIDE_MAX ||
        m->width * m->height > PIXELS_MAX) {
        return UW_ERR_TOOBIG;
    }
    m->pixels = malloc((size_t)m->width * m->height * m->channels);
    return m->pixels != NULL ? UW_OK : UW_ERR_NOMEM;
}

/* ---- PGM and PPM ---- */

/* The next number of the header, behind blanks and comments; 0: there is none. */
static uint32_t next_number(const uint8_t *bytes, size_t n, size_t *at)
{
    uint32_t number = 0;
    while (*at < n && (isspace(bytes[*at]) || bytes[*at] == '#')) {
        if (bytes[*at] == '#') {
            while (*at < n && bytes[*at] != '\n') {
                ++*at;
            }
        } else {
            ++*at;
        }
    }
    for (; *at < n && isdigit(bytes[*at]) && number < 1000000u; ++*at) {
        number = number * 10u + (uint32_t)(bytes[*at] - '0');
    }
    return number;
}

static int decode_pnm(struct uw_image *m, const uint8_t *bytes, size_t n)
{
    size_t at = 2;
    m->channels = bytes[1] == '6' ? 3 : 1;
    m->width = next_number(bytes, n, &at);
    m->height = next_number(bytes, n, &at);
    uint32_t most = next_number(bytes, n, &at);
    if (most == 0 || most > 255) {
        return most > 255 ? UW_ERR_UNSUPPORTED : UW_ERR_CORRUPT;
    }
    int rc = uw_image_allocate(m);
    size_t pixels_n = (size_t)m->width * m->height * m->channels;
    if (rc < 0 || n - at < 1 || n - at - 1 < pixels_n) {
        return rc < 0 ? rc : UW_ERR_CORRUPT;
    }
    for (size_t i = 0; i < pixels_n; i++) {
        uint32_t value = bytes[at + 1 + i];
        m->pixels[i] = (uint8_t)(value < most ? value * 255u / most : 255u);
    }
    return UW_OK;
}

/* ---- any of them ---- */

static int decode(struct uw_image *m, const uint8_t *bytes, size_t n, const char **kind)
{
    *kind = "image";
    if (n > 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0) {
        *kind = "PNG";
        return uw_image_decode_png(m, bytes, n);
    }
    if (n > 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0) {
        *kind = "JPEG";
        return uw_image_decode_jpeg(m, bytes, n);
    }
    if (n > 2 && bytes[0] == 'P' && (bytes[1] == '5' || bytes[1] == '6')) {
        return decode_pnm(m, bytes, n);
    }
    return UW_ERR_UNSUPPORTED;
}

static int explain(int rc, const char *path, const char *kind, struct uw_error *err)
{
    bool known = kind[0] != 'i';
    switch (rc) {
    case UW_ERR_CORRUPT:
        return uw_error_set(err, rc, "%.140s: is a damaged %s", path, kind);
    case UW_ERR_UNSUPPORTED:
        return uw_error_set(err, rc, "%.120s: %s", path,
                            known ? kind[0] == 'P' ? "this build lacks libpng: PNG cannot be read"
                                                   : "this build lacks libjpeg: JPEG cannot be read"
                                  : "no PNG, JPEG, PGM or PPM of 8 bits");
    case UW_ERR_TOOBIG:
        return uw_error_set(err, rc, "%.120s: more than %u pixels wide or high, or 64 million "
                            "in all", path, UW_IMAGE_SIDE_MAX);
    default:
        return uw_error_set(err, rc, "%.140s: %s", path, uw_status_text(rc));
    }
}

int uw_image_open(struct uw_image *m, const char *path, struct uw_error *err)
{
    struct uw_file f;
    const char *kind;
    *m = (struct uw_image){.channels = 1};
    int rc = uw_file_open(&f, path, NULL, err);
    if (rc < 0) {
        return rc;
    }
    bool fits = f.bytes <= FILE_BYTES_MAX;
    uint8_t *bytes = NULL;
    rc = fits ? uw_file_load(&f, &bytes, err) : UW_OK;
    if (rc == UW_OK) {
        rc = decode(m, bytes, fits ? (size_t)f.bytes : 0, &kind);
        rc = rc < 0 ? explain(rc, path, kind, err) : rc;
    }
    free(bytes);
    uw_file_close(&f);
    return rc;
}

/* ---- sizes ---- */

/* A pixel of the wanted channel. */
static float pixel(const struct uw_image *m, uint32_t y, uint32_t x, uint32_t channels, uint32_t c)
{
    const uint8_t *p = m->pixels + ((size_t)y * m->width + x) * m->channels;
    if (m->channels == 1 || channels == 3) {
        return p[m->channels == 1 ? 0 : c];
    }
    return 0.299f * (float)p[0] + 0.587f * (float)p[1] + 0.114f * (float)p[2];
}

/* The sum of a row's pixels from `from` to `until`, parts of pixels at both ends. */
static float row_sum(const struct uw_image *m, uint32_t y, float from, float until,
                     uint32_t channels, uint32_t c)
{
    float sum = 0.0f;
    for (uint32_t x = (uint32_t)from; x < m->width && (float)x < until; x++) {
        float left = (float)x > from ? (float)x : from;
        float right = (float)(x + 1) < until ? (float)(x + 1) : until;
        sum += (right - left) * pixel(m, y, x, channels, c);
    }
    return sum;
}

static uint8_t covered(const struct uw_image *m, const float box[4], uint32_t channels, uint32_t c)
{
    float sum = 0.0f;
    for (uint32_t y = (uint32_t)box[0]; y < m->height && (float)y < box[1]; y++) {
        float top = (float)y > box[0] ? (float)y : box[0];
        float bottom = (float)(y + 1) < box[1] ? (float)(y + 1) : box[1];
        sum += (bottom - top) * row_sum(m, y, box[2], box[3], channels, c);
    }
    float mean = sum / ((box[1] - box[0]) * (box[3] - box[2])) + 0.5f;
    return mean < 255.0f ? (uint8_t)mean : 255;
}

void uw_image_fit(const struct uw_image *m, uint32_t channels, uint32_t height, uint32_t width,
                  uint8_t *out)
{
    float high = (float)m->height / (float)height, wide = (float)m->width / (float)width;
    for (uint32_t c = 0; c < channels; c++) {
        for (uint32_t y = 0; y < height; y++) {
            for (uint32_t x = 0; x < width; x++) {
                const float box[4] = {(float)y * high, (float)(y + 1) * high, (float)x * wide,
                                      (float)(x + 1) * wide};
                *out++ = covered(m, box, channels, c);
            }
        }
    }
}

void uw_image_close(struct uw_image *m)
{
    free(m->pixels);
    *m = (struct uw_image){.pixels = NULL};
}
