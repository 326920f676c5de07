/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include "uwasa/fmath.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <stdbool.h>
#include <string.h>

#define PEERS_NUMBER 6u             /* field number of Ping.peers, which is not in its struct */

/* These texts appear on terminals and in log files. */
static bool is_printable(const char *text, char least)
{
    for (; *text >= least && *text <= '~'; text++) {
    }
    return *text == '\0';
}

static bool is_plain(const char *text)
{
    return is_printable(text, '!');
}

static bool peer_is_sound(const uwasa_Peer *p)
{
    return p->name[0] != '\0' && is_plain(p->name) && is_plain(p->address) &&
           (uint32_t)p->state <= (uint32_t)uwasa_State_LEFT;
}

static bool ping_is_sound(const void *body)
{
    const uwasa_Ping *p = body;
    return p->has_self && peer_is_sound(&p->self) && is_plain(p->averaging.cell);
}

static bool want_is_sound(const void *body)
{
    const uwasa_Want *w = body;
    return w->transfer <= UINT16_MAX && w->seq <= UINT16_MAX && w->chunk_n != 0 &&
           w->chunk_n <= UINT16_MAX && w->wanted != 0;
}

static bool refuse_is_sound(const void *body)
{
    const uwasa_Refuse *r = body;
    return is_plain(r->name) && is_plain(r->address);
}

static bool goodbye_is_sound(const void *body)
{
    const uwasa_Goodbye *g = body;
    return g->has_self && peer_is_sound(&g->self);
}

static bool reply_is_sound(const void *body)
{
    const uwasa_StatusReply *r = body;
    bool sound = is_printable(r->kernels, ' ');
    for (pb_size_t i = 0; i < r->rows_count; i++) {
        sound = sound && r->rows[i].has_peer && peer_is_sound(&r->rows[i].peer) &&
                is_plain(r->rows[i].averaging.cell);
    }
    return sound;
}

static bool cell_is_sound(const void *body)
{
    const uwasa_Cell *c = body;
    return c->act != 0;
}

const struct uw_message_form uw_form_ping = {uwasa_Ping_fields, ping_is_sound};
const struct uw_message_form uw_form_want = {uwasa_Want_fields, want_is_sound};
const struct uw_message_form uw_form_refuse = {uwasa_Refuse_fields, refuse_is_sound};
const struct uw_message_form uw_form_goodbye = {uwasa_Goodbye_fields, goodbye_is_sound};
const struct uw_message_form uw_form_status_request = {uwasa_StatusRequest_fields, NULL};
const struct uw_message_form uw_form_status_reply = {uwasa_StatusReply_fields, reply_is_sound};
const struct uw_message_form uw_form_cell = {uwasa_Cell_fields, cell_is_sound};

static uint32_t head_bytes(bool frames)
{
    return frames ? UW_WIRE_SHORT_HEAD_BYTES : UW_WIRE_HEAD_BYTES;
}

static int finish(bool frames, enum uw_wire_type type, uint8_t *out, uint32_t bytes)
{
    if (frames) {
        out[0] = uw_wire_first(type);
    } else {
        uw_wire_seal(out, type, bytes);
    }
    return (int)bytes;
}

/* Encode a body behind so many bytes. */
static int encode_at(bool frames, enum uw_wire_type type, const struct uw_message_form *form,
                     const void *body, uint8_t *out, uint32_t bytes, uint32_t cap_bytes)
{
    if (cap_bytes < bytes) {
        return UW_ERR_TOOBIG;
    }
    pb_ostream_t stream = pb_ostream_from_buffer(out + bytes, cap_bytes - bytes);
    if (!pb_encode(&stream, form->fields, body)) {
        return UW_ERR_TOOBIG;
    }
    return finish(frames, type, out, bytes + (uint32_t)stream.bytes_written);
}

int uw_message_write(bool frames, enum uw_wire_type type, const struct uw_message_form *form,
                     const void *body, void *buf, uint32_t cap_bytes)
{
    return encode_at(frames, type, form, body, buf, head_bytes(frames), cap_bytes);
}

int uw_message_append(bool frames, const struct uw_message_form *form, const void *body, void *buf,
                      uint32_t bytes, uint32_t cap_bytes)
{
    uint8_t *out = buf;
    return encode_at(frames, (enum uw_wire_type)(out[0] & 15u), form, body, out, bytes, cap_bytes);
}

int uw_message_add_peer(bool frames, const uwasa_Peer *peer, void *buf, uint32_t bytes,
                        uint32_t cap_bytes)
{
    uint8_t *out = buf;
    pb_ostream_t stream = pb_ostream_from_buffer(out + bytes, cap_bytes - bytes);
    if (!pb_encode_tag(&stream, PB_WT_STRING, PEERS_NUMBER) ||
        !pb_encode_submessage(&stream, uwasa_Peer_fields, peer)) {
        return UW_ERR_TOOBIG;
    }
    return finish(frames, (enum uw_wire_type)(out[0] & 15u), out,
                  bytes + (uint32_t)stream.bytes_written);
}

/* Returns 1, 0 (no more) or UW_ERR_CORRUPT. */
static int next_peer(bool frames, const void *buf, uint32_t buf_bytes, uint32_t *at,
                     uwasa_Peer *peer)
{
    uint32_t head = head_bytes(frames), bytes = buf_bytes - head;
    pb_istream_t stream =
        pb_istream_from_buffer((const uint8_t *)buf + head + *at, bytes - *at);
    bool found = false, fine = true;
    while (fine && !found && stream.bytes_left > 0) {
        pb_wire_type_t wire;
        uint32_t number;
        bool eof;
        fine = pb_decode_tag(&stream, &wire, &number, &eof);
        found = fine && number == PEERS_NUMBER;
        fine = fine && (found ? wire == PB_WT_STRING &&
                                    pb_decode_ex(&stream, uwasa_Peer_fields, peer,
                                                 PB_DECODE_DELIMITED)
                              : pb_skip_field(&stream, wire));
    }
    *at = bytes - (uint32_t)stream.bytes_left;
    return !fine || (found && !peer_is_sound(peer)) ? UW_ERR_CORRUPT : found;
}

int uw_message_peers(bool frames, const void *buf, uint32_t buf_bytes)
{
    uwasa_Peer peer;
    uint32_t n = 0, at = 0;
    int rc = 1;
    while (rc > 0 && n <= UW_MESSAGE_PEERS_MOST) {
        rc = next_peer(frames, buf, buf_bytes, &at, &peer);
        n += rc > 0;
    }
    return rc < 0 || n > UW_MESSAGE_PEERS_MOST ? UW_ERR_CORRUPT : (int)n;
}

bool uw_message_next_peer(bool frames, const void *buf, uint32_t buf_bytes, uint32_t *at,
                          uwasa_Peer *peer)
{
    return next_peer(frames, buf, buf_bytes, at, peer) > 0;
}

int uw_message_type(bool frames, const void *buf, uint32_t buf_bytes)
{
    const uint8_t *p = buf;
    if (buf_bytes < head_bytes(frames)) {
        return UW_ERR_CORRUPT;
    }
    /* Check the checksum before the type: a damaged type is not a later version. */
    if (!frames && uw_get_u32(p + 1) != uw_wire_checksum(p, buf_bytes)) {
        return UW_ERR_CORRUPT;
    }
    return p[0] >> 4 == UW_WIRE_VERSION ? p[0] & 15 : UW_ERR_UNSUPPORTED;
}

int uw_message_read(bool frames, const struct uw_message_form *form, const void *buf,
                    uint32_t buf_bytes, void *body)
{
    const uint8_t *p = buf;
    uint32_t head = head_bytes(frames);
    if (buf_bytes < head) {
        return UW_ERR_CORRUPT;
    }
    pb_istream_t stream = pb_istream_from_buffer(p + head, buf_bytes - head);
    if (!pb_decode(&stream, form->fields, body) ||
        (form->is_sound != NULL && !form->is_sound(body))) {
        return UW_ERR_CORRUPT;
    }
    return UW_OK;
}

const struct uw_message_form *uw_message_form_of(enum uw_wire_type type)
{
    switch (type) {
    case UW_WIRE_HELLO:
    case UW_WIRE_PING:
    case UW_WIRE_ACK:
        return &uw_form_ping;
    case UW_WIRE_WANT:
        return &uw_form_want;
    case UW_WIRE_REFUSE:
        return &uw_form_refuse;
    case UW_WIRE_GOODBYE:
        return &uw_form_goodbye;
    default:
        return NULL;
    }
}

/* The form of any type, including those of optional parts. */
static const struct uw_message_form *form_of(enum uw_wire_type type)
{
    return type == UW_WIRE_STATUS_REQUEST ? &uw_form_status_request
           : type == UW_WIRE_STATUS_REPLY ? &uw_form_status_reply
           : type == UW_WIRE_CELL         ? &uw_form_cell
                                          : uw_message_form_of(type);
}

int uw_message_encode(const struct uw_message *m, void *buf, uint32_t cap_bytes)
{
    const struct uw_message_form *form = form_of(m->type);
    return form != NULL ? uw_message_write(false, m->type, form, &m->ping, buf, cap_bytes)
                        : UW_ERR_INVALID;
}

int uw_message_decode(const void *buf, uint32_t buf_bytes, struct uw_message *m)
{
    int type = uw_message_type(false, buf, buf_bytes);
    if (type < 0) {
        return type;
    }
    const struct uw_message_form *form = form_of((enum uw_wire_type)type);
    if (form == NULL && type != UW_WIRE_DATA) {
        return UW_ERR_UNSUPPORTED;
    }
    m->type = (enum uw_wire_type)type;
    return form != NULL ? uw_message_read(false, form, buf, buf_bytes, &m->ping)
                        : uw_message_read_data(buf, buf_bytes, &m->data);
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

int uw_message_read_data(const void *buf, uint32_t buf_bytes, struct uw_data *d)
{
    const uint8_t *p = buf;
    if (buf_bytes < UW_WIRE_DATA_BYTES) {
        return UW_ERR_CORRUPT;
    }
    d->run = uw_get_u32(p + 5);
    d->transfer = uw_get_u16(p + 9);
    d->seq = uw_get_u16(p + 11);
    d->version = uw_get_u32(p + 13);
    d->offset_n = uw_get_u32(p + 17);
    d->count_n = uw_get_u16(p + 21);
    d->coded_bytes = 0;
    d->floats = p + UW_WIRE_DATA_BYTES;
    if (d->count_n == 0 || buf_bytes - UW_WIRE_DATA_BYTES != d->count_n * 4u) {
        return UW_ERR_CORRUPT;
    }
    return UW_OK;
}

int uw_message_floats(const struct uw_data *d, float *out)
{
    uw_get_floats(out, d->floats, d->count_n);
    return uw_all_finite(out, d->count_n) ? UW_OK : UW_ERR_NONFINITE;
}
