/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include "uwasa/fmath.h"

#include <pb_decode.h>
#include <pb_encode.h>

#include <stdbool.h>
#include <string.h>

static const pb_msgdesc_t *fields_of(enum uw_wire_type type)
{
    switch (type) {
    case UW_WIRE_HELLO:
    case UW_WIRE_PING:
    case UW_WIRE_ACK:
        return uwasa_Ping_fields;
    case UW_WIRE_WANT:
        return uwasa_Want_fields;
    case UW_WIRE_REFUSE:
        return uwasa_Refuse_fields;
    case UW_WIRE_GOODBYE:
        return uwasa_Goodbye_fields;
    case UW_WIRE_STATUS_REQUEST:
        return uwasa_StatusRequest_fields;
    case UW_WIRE_STATUS_REPLY:
        return uwasa_StatusReply_fields;
    case UW_WIRE_CELL:
        return uwasa_Cell_fields;
    case UW_WIRE_DATA:
    case UW_WIRE_PART:
    case UW_WIRE_SHUFFLE:
    default:
        return NULL;
    }
}

int uw_message_encode(const struct uw_message *m, void *buf, uint32_t cap_bytes)
{
    const pb_msgdesc_t *fields = fields_of(m->type);
    if (fields == NULL) {
        return UW_ERR_INVALID;
    }
    if (cap_bytes < UW_WIRE_HEAD_BYTES) {
        return UW_ERR_TOOBIG;
    }
    uint8_t *out = buf;
    pb_ostream_t stream = pb_ostream_from_buffer(out + UW_WIRE_HEAD_BYTES,
                                                 cap_bytes - UW_WIRE_HEAD_BYTES);
    if (!pb_encode(&stream, fields, &m->ping)) {
        return UW_ERR_TOOBIG;
    }
    uint32_t bytes = (uint32_t)stream.bytes_written + UW_WIRE_HEAD_BYTES;
    uw_wire_seal(out, m->type, bytes);
    return (int)bytes;
}

int uw_message_encode_data(const struct uw_data *d, const float *floats, void *buf,
                           uint32_t cap_bytes)
{
    uint32_t bytes = UW_WIRE_DATA_BYTES + d->count_n * 4u;
    if (cap_bytes < bytes) {
        return UW_ERR_TOOBIG;
    }
    uint8_t *p = buf;
    uw_put_u32(p + 5, d->run);
    uw_put_u16(p + 9, d->transfer);
    uw_put_u16(p + 11, d->seq);
    uw_put_u32(p + 13, d->version);
    uw_put_u32(p + 17, d->offset_n);
    uw_put_u16(p + 21, d->count_n);
    uw_put_floats(p + UW_WIRE_DATA_BYTES, floats, d->count_n);
    uw_wire_seal(p, UW_WIRE_DATA, bytes);
    return (int)bytes;
}

static int parse_data(const uint8_t *p, uint32_t bytes, struct uw_data *d)
{
    if (bytes < UW_WIRE_DATA_BYTES) {
        return UW_ERR_CORRUPT;
    }
    d->run = uw_get_u32(p + 5);
    d->transfer = uw_get_u16(p + 9);
    d->seq = uw_get_u16(p + 11);
    d->version = uw_get_u32(p + 13);
    d->offset_n = uw_get_u32(p + 17);
    d->count_n = uw_get_u16(p + 21);
    d->floats = p + UW_WIRE_DATA_BYTES;
    if (d->count_n == 0 || bytes - UW_WIRE_DATA_BYTES != d->count_n * 4u) {
        return UW_ERR_CORRUPT;
    }
    return UW_OK;
}

/* These texts end up on terminals and in log files. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text > '~') {
            return false;
        }
    }
    return true;
}

static bool peer_is_sound(const uwasa_Peer *p)
{
    return p->name[0] != '\0' && is_plain(p->name) && is_plain(p->address) &&
           (uint32_t)p->state <= (uint32_t)uwasa_State_LEFT;
}

static bool ping_is_sound(const uwasa_Ping *p)
{
    bool sound = p->has_self && peer_is_sound(&p->self) && is_plain(p->progress.cell);
    for (pb_size_t i = 0; i < p->peers_count; i++) {
        sound = sound && peer_is_sound(&p->peers[i]);
    }
    return sound;
}

static bool reply_is_sound(const uwasa_StatusReply *r)
{
    bool sound = true;
    for (pb_size_t i = 0; i < r->rows_count; i++) {
        sound = sound && r->rows[i].has_peer && peer_is_sound(&r->rows[i].peer) &&
                is_plain(r->rows[i].progress.cell);
    }
    return sound;
}

static bool is_sound(const struct uw_message *m)
{
    switch (m->type) {
    case UW_WIRE_HELLO:
    case UW_WIRE_PING:
    case UW_WIRE_ACK:
        return ping_is_sound(&m->ping);
    case UW_WIRE_WANT:
        return m->want.transfer <= UINT16_MAX && m->want.seq <= UINT16_MAX &&
               m->want.chunk_n != 0 && m->want.chunk_n <= UINT16_MAX && m->want.wanted != 0;
    case UW_WIRE_REFUSE:
        return is_plain(m->refuse.name) && is_plain(m->refuse.address);
    case UW_WIRE_GOODBYE:
        return m->goodbye.has_self && peer_is_sound(&m->goodbye.self);
    case UW_WIRE_STATUS_REPLY:
        return reply_is_sound(&m->status_reply);
    case UW_WIRE_CELL:
        return m->cell.act != 0;
    case UW_WIRE_STATUS_REQUEST:
    case UW_WIRE_DATA:
    case UW_WIRE_PART:
    case UW_WIRE_SHUFFLE:
    default:
        return true;
    }
}

int uw_message_decode(const void *buf, uint32_t buf_bytes, struct uw_message *m)
{
    const uint8_t *p = buf;
    if (buf_bytes < UW_WIRE_HEAD_BYTES) {
        return UW_ERR_CORRUPT;
    }
    /* The checksum before the type: a damaged type is damage, not a later version. */
    if (uw_get_u32(p + 1) != uw_wire_checksum(p, buf_bytes)) {
        return UW_ERR_CORRUPT;
    }
    enum uw_wire_type type = (enum uw_wire_type)(p[0] & 15u);
    if (p[0] >> 4 != UW_WIRE_VERSION) {
        return UW_ERR_UNSUPPORTED;
    }
    if (type == UW_WIRE_DATA) {
        m->type = type;
        return parse_data(p, buf_bytes, &m->data);
    }
    const pb_msgdesc_t *fields = fields_of(type);
    if (fields == NULL) {
        return UW_ERR_UNSUPPORTED;
    }
    m->type = type;
    pb_istream_t stream = pb_istream_from_buffer(p + UW_WIRE_HEAD_BYTES,
                                                 buf_bytes - UW_WIRE_HEAD_BYTES);
    if (!pb_decode(&stream, fields, &m->ping) || !is_sound(m)) {
        return UW_ERR_CORRUPT;
    }
    return UW_OK;
}

int uw_message_floats(const struct uw_data *d, float *out)
{
    uw_get_floats(out, d->floats, d->count_n);
    return uw_all_finite(out, d->count_n) ? UW_OK : UW_ERR_NONFINITE;
}
