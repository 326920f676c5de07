/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node_pull.h"

#include "base/bits.h"
#include "wire/float_code.h"

#include "uwasa/fmath.h"

#include <string.h>

#define HEAD_BYTES UW_WIRE_SHORT_DATA_BYTES

static int write_chunk(struct uw_serve_item *item, const struct uw_data *d, const float *x,
                       void *buf, uint32_t cap_bytes)
{
    uint32_t plain_n = uw_node_plain_n(item->chunk_n), first_n = uw_first_part_n(d->count_n);
    uint32_t frame_bytes = uw_min_u32(cap_bytes, HEAD_BYTES + 4u * plain_n);
    struct uw_data part = *d;
    part.count_n = 0;
    if (item->part == 0 && frame_bytes > HEAD_BYTES) {
        uint8_t *p = buf;
        int bytes = uw_float_encode(x, d->count_n, p + HEAD_BYTES, frame_bytes - HEAD_BYTES);
        if (bytes > 0) {
            (void)uw_message_encode_short_data(&part, item->chunk, x, buf, cap_bytes);
            p[0] = uw_wire_first(UW_WIRE_DATA_CODED);
            return (int)HEAD_BYTES + bytes;
        }
        item->more = d->count_n > plain_n;
        part.count_n = (uint16_t)(item->more ? first_n : d->count_n);
        return uw_message_encode_short_data(&part, item->chunk, x, buf, cap_bytes);
    }
    part.count_n = (uint16_t)(d->count_n - first_n);
    return uw_message_encode_short_data(&part, item->chunk, x + first_n, buf, cap_bytes);
}

static int read_coded(const void *buf, uint32_t bytes, const struct uw_short_data *known,
                      struct uw_data *d)
{
    uint8_t head[HEAD_BYTES + 4u] = {0};    /* as of a chunk of one float */
    const uint8_t *p = buf;
    int n = bytes > HEAD_BYTES ? uw_float_decode(p + HEAD_BYTES, bytes - HEAD_BYTES, NULL,
                                                 known->chunk_n)
                               : UW_ERR_CORRUPT;
    if (n < 0) {
        return UW_ERR_CORRUPT;
    }
    memcpy(head, p, HEAD_BYTES);
    int rc = uw_message_read_short_data(head, sizeof head, known, d);
    d->count_n = (uint16_t)n;
    d->coded_bytes = (uint16_t)(bytes - HEAD_BYTES);
    d->floats = p + HEAD_BYTES;
    return rc;
}

/* A second part is recognised by its size only. */
static int read_chunk(const void *buf, uint32_t bytes, const struct uw_short_data *known,
                      uint32_t size_n, struct uw_data *d)
{
    const uint8_t *p = buf;
    if ((p[0] & 15u) == UW_WIRE_DATA_CODED) {
        return read_coded(buf, bytes, known, d);
    }
    int rc = uw_message_read_short_data(buf, bytes, known, d);
    if (rc < 0 || d->offset_n >= size_n) {
        return UW_ERR_CORRUPT;
    }
    uint32_t n = uw_min_u32(known->chunk_n, size_n - d->offset_n), first_n = uw_first_part_n(n);
    if (d->count_n == n - first_n && d->count_n != n) {
        d->offset_n += first_n;
    }
    return UW_OK;
}

static int floats_of(const struct uw_data *d, float *out)
{
    (void)uw_float_decode(d->floats, d->coded_bytes, out, d->count_n);
    return uw_all_finite(out, d->count_n) ? UW_OK : UW_ERR_NONFINITE;
}

const struct uw_node_codes uw_node_codes = {.write = write_chunk,
                                            .read = read_chunk,
                                            .floats = floats_of};
