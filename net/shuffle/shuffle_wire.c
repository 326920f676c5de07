/* SPDX-License-Identifier: Apache-2.0 */
#include "shuffle.h"

#include "wire/wire.h"

#include "uwasa/fmath.h"
#include "uwasa/status.h"

#define WANT_BYTES 48u

static void put_ref(uint8_t *p, const struct uw_lease_ref *r)
{
    uw_put_u32(p, r->slot);
    uw_put_u64(p + 4, r->nonce);
}

static struct uw_lease_ref get_ref(const uint8_t *p)
{
    return (struct uw_lease_ref){uw_get_u32(p),
                                uw_get_u64(p + 4)};
}

/* Bytes of a message of that kind without floats; 0: there is no such kind. */
static uint32_t fixed_bytes(uint32_t act)
{
    switch (act) {
    case UW_SHUFFLE_OFFER:
        return UW_SHUFFLE_LEAST_BYTES;
    case UW_SHUFFLE_WANT:
        return WANT_BYTES;
    case UW_SHUFFLE_DATA:
        return UW_SHUFFLE_DATA_BYTES;
    case UW_SHUFFLE_READY:
    case UW_SHUFFLE_COMMIT:
    case UW_SHUFFLE_DONE:
    case UW_SHUFFLE_END:
    case UW_SHUFFLE_OVER:
        return UW_SHUFFLE_HEAD_BYTES;
    default:
        return 0;
    }
}

int uw_shuffle_encode(const struct uw_shuffle_message *m, uint32_t run, const float *floats,
                      void *buf, uint32_t cap_bytes)
{
    uint8_t *p = buf;
    uint32_t count_n = m->act == UW_SHUFFLE_DATA ? m->count_n : 0;
    uint64_t bytes = fixed_bytes((uint32_t)m->act) + (uint64_t)count_n * 4u;
    if (bytes > cap_bytes) {
        return UW_ERR_TOOBIG;
    }
    p[5] = (uint8_t)m->act;
    uw_put_u16(p + 6, 0);
    uw_put_u32(p + 8, run);
    put_ref(p + 12, &m->to);
    put_ref(p + 24, &m->from);
    if (m->act == UW_SHUFFLE_OFFER || m->act == UW_SHUFFLE_WANT) {
        bool want = m->act == UW_SHUFFLE_WANT;
        uw_put_u32(p + 36, want ? m->base : m->sample_n);
        uw_put_u32(p + 40, want ? m->wanted : m->classes);
        uw_put_u32(p + 44, m->chunk_n);
        if (!want) {
            uw_put_u32(p + 48, m->lease_ms);
        }
    } else if (m->act == UW_SHUFFLE_DATA) {
        uw_put_u32(p + 36, m->offset_n);
        uw_put_u32(p + 40, m->label);
        uw_put_floats(p + UW_SHUFFLE_DATA_BYTES, floats, count_n);
    }
    uw_wire_seal(p, UW_WIRE_SHUFFLE, (uint32_t)bytes);
    return (int)bytes;
}

int uw_shuffle_decode(const void *buf, uint32_t buf_bytes, uint32_t *run,
                      struct uw_shuffle_message *m)
{
    const uint8_t *p = buf;
    if (buf_bytes < UW_SHUFFLE_HEAD_BYTES ||
        p[0] != (uint8_t)(UW_WIRE_VERSION << 4 | (uint32_t)UW_WIRE_SHUFFLE) ||
        uw_get_u32(p + 1) != uw_wire_checksum(p, buf_bytes)) {
        return UW_ERR_CORRUPT;
    }
    uint32_t fixed = fixed_bytes(p[5]);
    uint32_t body = buf_bytes - fixed;
    bool data = p[5] == (uint8_t)UW_SHUFFLE_DATA;
    if (fixed == 0 || buf_bytes < fixed || (data ? body == 0 || body % 4u != 0 : body != 0)) {
        return UW_ERR_CORRUPT;
    }
    *run = uw_get_u32(p + 8);
    *m = (struct uw_shuffle_message){.act = (enum uw_shuffle_act)p[5], .to = get_ref(p + 12),
                                     .from = get_ref(p + 24)};
    if (data) {
        m->offset_n = uw_get_u32(p + 36);
        m->label = uw_get_u32(p + 40);
        m->count_n = body / 4u;
        m->floats = p + UW_SHUFFLE_DATA_BYTES;
    } else if (m->act == UW_SHUFFLE_OFFER || m->act == UW_SHUFFLE_WANT) {
        m->sample_n = m->base = uw_get_u32(p + 36);
        m->classes = m->wanted = uw_get_u32(p + 40);
        m->chunk_n = uw_get_u32(p + 44);
        m->lease_ms = m->act == UW_SHUFFLE_OFFER ? uw_get_u32(p + 48) : 0;
        return m->chunk_n != 0 ? UW_OK : UW_ERR_CORRUPT;
    }
    return UW_OK;
}

bool uw_shuffle_floats(const struct uw_shuffle_message *m, float *out)
{
    uw_get_floats(out, m->floats, m->count_n);
    return uw_all_finite(out, m->count_n);
}
