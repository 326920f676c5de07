/* SPDX-License-Identifier: Apache-2.0 */
#include "part.h"

#include <string.h>

#define REPLY 0x80u

bool uw_part_head(const struct uw_part *p, uint32_t run, uint8_t *head)
{
    bool want = p->type == UW_PART_WANT;
    head[0] = uw_wire_first(UW_WIRE_PART);
    uw_put_u32(head + 1, 0);
    head[5] = (uint8_t)((uint32_t)p->type | (p->reply ? REPLY : 0u));
    uw_put_u16(head + 6, p->step);
    uw_put_u32(head + 8, run);
    uw_put_u32(head + 12, p->group);
    uw_put_u32(head + 16, p->round);
    uw_put_u32(head + 20, want ? p->want.base : p->offset_n);
    uw_put_u16(head + 24, want ? p->want.seq : p->seq);
    uw_put_u16(head + 26, p->op);
    return uw_is_little_endian();
}

int uw_part_encode(const struct uw_part *p, uint32_t run, bool checked, void *buf,
                   uint32_t cap_bytes)
{
    uint8_t *b = buf;
    uint64_t bytes = p->type == UW_PART_WANT   ? UW_PART_WANT_BYTES
                     : p->type == UW_PART_DATA ? UW_PART_HEAD_BYTES + (uint64_t)p->count_n * 4u
                                               : UW_PART_HEAD_BYTES;
    if (bytes > cap_bytes) {
        return UW_ERR_TOOBIG;
    }
    (void)uw_part_head(p, run, b);
    if (p->type == UW_PART_WANT) {
        uw_put_u64(b + 28, p->want.wanted);
        uw_put_u32(b + 36, p->want.chunk_n);
        uw_put_u32(b + 40, p->want.spread_us);
    } else if (p->type == UW_PART_DATA) {
        uw_put_floats(b + UW_PART_HEAD_BYTES, p->floats, p->count_n);
    }
    if (checked) {
        uw_wire_seal(b, UW_WIRE_PART, (uint32_t)bytes);
    }
    return (int)bytes;
}

static int parse_want(const uint8_t *b, uint32_t bytes, struct uw_part *p)
{
    if (bytes != UW_PART_WANT_BYTES) {
        return UW_ERR_CORRUPT;
    }
    p->want = (struct uw_want){.transfer = p->step, .seq = p->seq, .base = p->offset_n,
                               .wanted = uw_get_u64(b + 28),
                               .chunk_n = uw_get_u32(b + 36), .spread_us = uw_get_u32(b + 40)};
    return p->want.wanted != 0 && p->want.chunk_n != 0 ? UW_OK : UW_ERR_CORRUPT;
}

int uw_part_decode(void *buf, uint32_t buf_bytes, bool checked, uint32_t *run, struct uw_part *p)
{
    uint8_t *b = buf;
    if (buf_bytes < UW_PART_HEAD_BYTES ||
        b[0] != uw_wire_first(UW_WIRE_PART) ||
        (checked && uw_get_u32(b + 1) != uw_wire_checksum(b, buf_bytes))) {
        return UW_ERR_CORRUPT;
    }
    *run = uw_get_u32(b + 8);
    *p = (struct uw_part){.type = (enum uw_part_type)(b[5] & ~REPLY),
                          .reply = (b[5] & REPLY) != 0,
                          .step = uw_get_u16(b + 6),
                          .group = uw_get_u32(b + 12),
                          .round = uw_get_u32(b + 16),
                          .offset_n = uw_get_u32(b + 20),
                          .seq = uw_get_u16(b + 24),
                          .op = uw_get_u16(b + 26)};
    uint32_t body = buf_bytes - UW_PART_HEAD_BYTES;
    const uint8_t *sent = b + UW_PART_HEAD_BYTES;
    float *floats = (float *)(void *)(b + UW_PART_HEAD_BYTES - (uintptr_t)sent % sizeof(float));
    switch (p->type) {
    case UW_PART_DATA:
        p->count_n = body / 4u;
        if (!uw_is_little_endian()) {
            uw_get_floats(floats, sent, p->count_n);    /* from the first on, in place */
        } else if ((const uint8_t *)floats != sent) {
            memmove(floats, sent, p->count_n * sizeof *floats);
        }
        p->floats = floats;
        return body % 4u == 0 && p->count_n != 0 ? UW_OK : UW_ERR_CORRUPT;
    case UW_PART_WANT:
        return parse_want(b, buf_bytes, p);
    case UW_PART_WAIT:
    case UW_PART_GOT:
    case UW_PART_DONE:
        return body == 0 ? UW_OK : UW_ERR_CORRUPT;
    default:
        return UW_ERR_CORRUPT;
    }
}
