/* SPDX-License-Identifier: Apache-2.0
 *
 * message.h - every datagram between nodes, encoded and parsed
 *
 *     bytes 0..4   as in wire.h
 *     bytes 5..    control: a message of proto/uwasa.proto
 *                  data:    run u32, transfer u16, seq u16, version u32, offset u32, count u16,
 *                           then count floats
 *
 * All numbers are little-endian. The checksum catches what a link without one of its own lets
 * through, and a message cut at a field's border, which protobuf alone would accept.
 *
 * On a link of frames, which is of one run and has a checksum of its own, every byte counts:
 *
 *     byte  0      as in wire.h
 *     bytes 1..    control: a message of proto/uwasa.proto without its run; a ping without what
 *                           does not fit (Ping.left_out)
 *                  wants:   transfer u8, seq u8, chunk_n u16, spread u16 in 16 us, model u32 (its
 *                           low half), mixed u32; then base u24, wanted u64 of up to 8 wants
 *                  cast:    turn u8, chunk u20 | tag << 20, then the floats, as many in every chunk
 *                           of a turn: the last ends with the vector; none: nothing more of this
 *                           turn. The tag: bits 4 (chunk mod 8) .. of a checksum of who takes part
 *                  cast want: as wants, the turn in place of the transfer
 *                  data:    version u8, chunk u20 | seq << 20, then the floats: with the link's own
 *                           header 8 bytes in all
 *                  coded:   the same, the floats in the code of float_code.h. Of a pull whose wants
 *                           have UW_WANT_CODED in their chunk_n; a chunk that is too long in it
 *                           comes as two data messages, of n - n / 3 floats of its n and the rest
 *
 * There numbers are their low bits; the receiver has the rest: transfers and wants are its own, and
 * versions are near the one its peer told of. A chunk that is late, of an earlier transfer, is
 * taken for one of this: it is a piece of the same peer's parameters. A pull from several peers
 * (node_lanes.h) is a transfer with each, of which the wants ask for other chunks.
 *
 * Memory     caller's      Blocking  never      Context  any thread
 */
#ifndef UW_NET_MESSAGE_H
#define UW_NET_MESSAGE_H

#include "uwasa.pb.h"
#include "wire.h"

#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_WIRE_DATA_BYTES 23u      /* of a data message before its floats */
#define UW_WIRE_SHORT_DATA_BYTES 5u
#define UW_WIRE_SHORT_CHUNKS (1u << 20)     /* chunks that short forms can tell apart */
#define UW_WIRE_SHORT_SEQS 16u              /* and wants */

/* Of a data message before its floats, on a link of frames or another. */
static inline uint32_t uw_wire_data_bytes(bool frames)
{
    return frames ? UW_WIRE_SHORT_DATA_BYTES : UW_WIRE_DATA_BYTES;
}

/* In the chunk_n of a question: chunks are larger than a message carries. They come in a code when
 * that is short enough (float_code.h), else in two parts. */
#define UW_WANT_CODED 0x8000u

/* One question for chunks base + i, bit i of wanted. */
struct uw_want {
    uint64_t wanted;
    uint32_t chunk_n, base;
    uint32_t spread_us;             /* answer evenly over this time */
    uint16_t transfer, seq;
};

static inline uint32_t uw_want_chunk_n(const struct uw_want *want)
{
    return want->chunk_n & ~UW_WANT_CODED;
}

/* Of a chunk of n floats that comes in two parts, those of the first. */
static inline uint32_t uw_first_part_n(uint32_t n)
{
    return n - n / 3u;
}

/* A chunk: floats offset_n .. offset_n + count_n - 1 of the peer's snapshot. */
struct uw_data {
    uint32_t run;
    uint16_t transfer;              /* the pull it belongs to, chosen by the receiver */
    uint16_t seq;                   /* of the want it answers */
    uint32_t version;
    uint32_t offset_n;
    uint16_t count_n;
    uint16_t coded_bytes;           /* 0: they are as they are; else in the code of float_code.h */
    const uint8_t *floats;          /* parsed: into the datagram, not aligned */
};

/* Any of them. */
struct uw_message {
    enum uw_wire_type type;
    union {
        uwasa_Ping ping;            /* hello, ping, ack */
        uwasa_Want want;
        struct uw_data data;
        uwasa_Refuse refuse;
        uwasa_Goodbye goodbye;
        uwasa_StatusRequest status_request;
        uwasa_StatusReply status_reply;
        uwasa_Cell cell;
    };
};

/* A control type: its fields, and what must hold of them (may be NULL). A program has those that it
 * names. */
struct uw_message_form {
    const pb_msgdesc_t *fields;
    bool (*is_sound)(const void *body);
};
/* The form of what every node speaks; NULL: of no such message. */
const struct uw_message_form *uw_message_form_of(enum uw_wire_type type);

extern const struct uw_message_form uw_form_ping;           /* hello, ping, ack: uwasa_Ping */
extern const struct uw_message_form uw_form_want, uw_form_refuse, uw_form_goodbye, uw_form_cell,
    uw_form_status_request, uw_form_status_reply;           /* uwasa_Want, ... */

/* Encode the body of a control message, the struct of its form.
 *   frames  for a link of frames
 * Returns the bytes written or UW_ERR_TOOBIG (above cap_bytes). */
int uw_message_write(bool frames, enum uw_wire_type type, const struct uw_message_form *form,
                     const void *body, void *buf, uint32_t cap_bytes);

/* What a datagram is, once its checksum holds.
 * Returns an enum uw_wire_type, maybe one that this program does not know; UW_ERR_CORRUPT,
 * UW_ERR_UNSUPPORTED (of another version). */
int uw_message_type(bool frames, const void *buf, uint32_t buf_bytes);

/* Append the fields of one more body to a message of so many bytes, numbered as none of its own.
 * Who knows both reads both: each uw_message_read passes over the other's.
 * Returns the bytes that it has then or UW_ERR_TOOBIG (above cap_bytes; it is as it was). */
int uw_message_append(bool frames, const struct uw_message_form *form, const void *body, void *buf,
                      uint32_t bytes, uint32_t cap_bytes);

/* Parse a datagram whose type is the form's. Names and addresses in it are printable and without
 * spaces afterwards.
 *   body  the struct of the form, written
 * Returns UW_OK or UW_ERR_CORRUPT (malformed). */
int uw_message_read(bool frames, const struct uw_message_form *form, const void *buf,
                    uint32_t buf_bytes, void *body);

#define UW_MESSAGE_PEERS_MOST 8u

/* Put one more peer's record into a hello, ping or ack of so many bytes.
 * Returns the bytes that it has then or UW_ERR_TOOBIG (above cap_bytes; it is as it was). */
int uw_message_add_peer(bool frames, const uwasa_Peer *peer, void *buf, uint32_t bytes,
                        uint32_t cap_bytes);

/* How many there are in one: at most UW_MESSAGE_PEERS_MOST, or UW_ERR_CORRUPT (more, malformed). */
int uw_message_peers(bool frames, const void *buf, uint32_t buf_bytes);

/* The next of them, of those that uw_message_peers has counted.
 *   at  0 at first, kept by the caller
 * Returns whether there is one. */
bool uw_message_next_peer(bool frames, const void *buf, uint32_t buf_bytes, uint32_t *at,
                          uwasa_Peer *peer);

/* Parse a datagram of type UW_WIRE_DATA. Its count is what has arrived.
 *   d  written on success; floats points into buf
 * Returns UW_OK or UW_ERR_CORRUPT. */
int uw_message_read_data(const void *buf, uint32_t buf_bytes, struct uw_data *d);

/* Encode any control message.
 * Returns the bytes written, UW_ERR_TOOBIG (above cap_bytes), UW_ERR_INVALID (no control type). */
int uw_message_encode(const struct uw_message *m, void *buf, uint32_t cap_bytes);

/* Encode a chunk; d->floats is not looked at.
 *   floats  [d->count_n]
 * Returns the bytes written or UW_ERR_TOOBIG. */
int uw_message_encode_data(const struct uw_data *d, const float *floats, void *buf,
                           uint32_t cap_bytes);

/* Parse any datagram.
 *   m  written on success; data.floats points into buf
 * Returns UW_OK, UW_ERR_CORRUPT (damaged, cut, malformed), UW_ERR_UNSUPPORTED (a type or version
 * this program does not know). */
int uw_message_decode(const void *buf, uint32_t buf_bytes, struct uw_message *m);

/* The same on a link of frames.
 *   chunk  its number
 * Returns as uw_message_encode_data. */
int uw_message_encode_short_data(const struct uw_data *d, uint32_t chunk, const float *floats,
                                 void *buf, uint32_t cap_bytes);

/* What the receiver of a short chunk knows of it. */
struct uw_short_data {
    uint32_t chunk_n;               /* of its pull */
    uint16_t transfer, seq;         /* the same; seq is the last that was sent, ... */
    uint16_t asked_n;               /* ... of so many: what answers one before them is late */
    uint32_t version;               /* that the peer showed lately */
    bool coded;                     /* the pull is: chunks may be so, or in parts */
};

/* Parse a datagram of type UW_WIRE_DATA on a link of frames. Of one that answers a question of an
 * earlier pull, whose chunks may have been larger or smaller, the transfer is another.
 * Returns UW_OK or UW_ERR_CORRUPT. */
int uw_message_read_short_data(const void *buf, uint32_t buf_bytes,
                               const struct uw_short_data *known, struct uw_data *d);

/* Several questions of a pull in one message, on a link of frames. */
#define UW_SHORT_WANTS_MOST 8u

struct uw_short_wants {
    uint32_t model;                 /* its low half */
    uint32_t mixed;                 /* version that was mixed in; 0: none */
};

/* How many fit into a message of cap_bytes. */
uint32_t uw_message_short_wants(uint32_t cap_bytes);

/* Encode n of them, of one transfer, with consecutive seqs; buf has room. Returns the bytes. */
int uw_message_write_short_wants(enum uw_wire_type type, const struct uw_short_wants *head,
                                 const struct uw_want *wants, uint32_t n, void *buf);

/* Parse a datagram of type UW_WIRE_WANT or UW_WIRE_CAST_WANT on a link of frames.
 * Returns the number of wants or UW_ERR_CORRUPT. */
int uw_message_read_short_wants(const void *buf, uint32_t buf_bytes, struct uw_short_wants *head,
                                struct uw_want wants[UW_SHORT_WANTS_MOST]);

/* A chunk that is sent to all (cast.h). */
struct uw_cast_chunk {
    uint8_t turn;
    uint8_t tag;                    /* 4 bits of what its sender takes to be the cell */
    uint32_t chunk, count_n;
    const uint8_t *floats;          /* into the datagram, not aligned */
};

/* Encode one; head->floats is not looked at. Returns the bytes or UW_ERR_TOOBIG. */
int uw_message_write_cast(const struct uw_cast_chunk *head, const float *floats, void *buf,
                          uint32_t cap_bytes);

/* Parse a datagram of type UW_WIRE_CAST. Returns UW_OK or UW_ERR_CORRUPT. */
int uw_message_read_cast(const void *buf, uint32_t buf_bytes, struct uw_cast_chunk *chunk);

/* Copy a parsed chunk's floats.
 * Returns UW_OK, or UW_ERR_NONFINITE when one is NaN or infinite; out is written all the same. */
int uw_message_floats(const struct uw_data *d, float *out);

#endif
