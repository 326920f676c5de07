/* SPDX-License-Identifier: Apache-2.0
 *
 * message.h - encode and parse the messages between nodes
 *
 *     bytes 0..4   as in wire.h
 *     bytes 5..    control: a message of proto/uwasa.proto
 *                  data:    run u32, transfer u16, seq u16, version u32, offset u32, count u16,
 *                           then count floats
 *
 * All numbers are little-endian. The checksum detects damage on links without one of their own, and
 * truncation at the end of a field, which protobuf would accept.
 *
 * A link of frames is of one run and has a checksum; messages on it have short forms:
 *
 *     byte  0      as in wire.h
 *     bytes 1..    control: a message of proto/uwasa.proto without its run; a ping without fields
 *                           that do not fit (Ping.left_out)
 *                  wants:   transfer u8, seq u8, chunk_n u16, spread u16 in 16 us, model u32 (its
 *                           low half), mixed u32; then base u24, wanted u64 of up to 8 wants
 *                  cast:    turn u8, chunk u20 | tag << 20, then the floats, equally many in every
 *                           chunk of a turn but the last; none: the end of this turn. The tag: bits
 *                           4 (chunk mod 8) .. of a checksum of the participants
 *                  cast want: as wants, with the turn instead of the transfer
 *                  data:    version u8, chunk u20 | seq << 20, then the floats: with the link's own
 *                           header 8 bytes in all
 *                  coded:   the same, with the floats in the code of float_code.h. For pulls whose
 *                           wants have UW_WANT_CODED in their chunk_n. A chunk whose code is too
 *                           long is sent as two data messages, of n - n / 3 of its n floats and the
 *                           rest
 *
 * Short forms have only the low bits of numbers. The receiver adds the rest: it chose the numbers
 * of transfers and wants, and versions are near its peer's last report. A late chunk of an earlier
 * transfer counts as one of this transfer: it is a piece of the same peer's parameters. A pull from
 * several peers (node_lanes.c) has a transfer with each, whose wants request different chunks.
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

#define UW_WIRE_DATA_BYTES 23u      /* header of a data message */
#define UW_WIRE_SHORT_DATA_BYTES 5u
#define UW_WIRE_SHORT_CHUNKS (1u << 20)     /* range of chunk numbers in short forms */
#define UW_WIRE_SHORT_SEQS 16u              /* range of want numbers in short forms */

/* Header bytes of a data message, on a link of frames or another. */
static inline uint32_t uw_wire_data_bytes(bool frames)
{
    return frames ? UW_WIRE_SHORT_DATA_BYTES : UW_WIRE_DATA_BYTES;
}

/* Flag in the chunk_n of a want: chunks are larger than a message. They are sent in a code if that
 * is short enough (float_code.h), else in two parts. */
#define UW_WANT_CODED 0x8000u

/* A request for chunks base + i, bit i of wanted. */
struct uw_want {
    uint64_t wanted;
    uint32_t chunk_n, base;
    uint32_t spread_us;             /* send the answers evenly over this time */
    uint16_t transfer, seq;
};

static inline uint32_t uw_want_chunk_n(const struct uw_want *want)
{
    return want->chunk_n & ~UW_WANT_CODED;
}

/* Floats of the first part of a chunk of n floats in two parts. */
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
    uint16_t coded_bytes;           /* size in the code of float_code.h; 0: plain floats */
    const uint8_t *floats;          /* parsed: into the datagram, not aligned */
};

/* Any message. */
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

/* A control type: its fields, and a check of their values (may be NULL). A program links the forms
 * that it uses. */
struct uw_message_form {
    const pb_msgdesc_t *fields;
    bool (*is_sound)(const void *body);
};
/* The form of a type that every node uses; NULL: of another type. */
const struct uw_message_form *uw_message_form_of(enum uw_wire_type type);

extern const struct uw_message_form uw_form_ping;           /* hello, ping, ack: uwasa_Ping */
extern const struct uw_message_form uw_form_want, uw_form_refuse, uw_form_goodbye, uw_form_cell,
    uw_form_status_request, uw_form_status_reply;           /* uwasa_Want, ... */

/* Encode the body of a control message, the struct of its form.
 *   frames  for a link of frames
 * Returns the bytes written or UW_ERR_TOOBIG (above cap_bytes). */
int uw_message_write(bool frames, enum uw_wire_type type, const struct uw_message_form *form,
                     const void *body, void *buf, uint32_t cap_bytes);

/* Check a datagram and get its type.
 * Returns an enum uw_wire_type or an unknown type; UW_ERR_CORRUPT, UW_ERR_UNSUPPORTED (of another
 * version). */
int uw_message_type(bool frames, const void *buf, uint32_t buf_bytes);

/* Append another body, with other field numbers, to a message of so many bytes. Each
 * uw_message_read ignores the fields of the other body.
 * Returns the new size in bytes or UW_ERR_TOOBIG (above cap_bytes; the message is unchanged). */
int uw_message_append(bool frames, const struct uw_message_form *form, const void *body, void *buf,
                      uint32_t bytes, uint32_t cap_bytes);

/* Parse a datagram of the form's type. Makes its names and addresses printable, without spaces.
 *   body  the struct of the form, written
 * Returns UW_OK or UW_ERR_CORRUPT (malformed). */
int uw_message_read(bool frames, const struct uw_message_form *form, const void *buf,
                    uint32_t buf_bytes, void *body);

#define UW_MESSAGE_PEERS_MOST 8u

/* Append a peer's record to a hello, ping or ack of so many bytes.
 * Returns the new size in bytes or UW_ERR_TOOBIG (above cap_bytes; the message is unchanged). */
int uw_message_add_peer(bool frames, const uwasa_Peer *peer, void *buf, uint32_t bytes,
                        uint32_t cap_bytes);

/* Count the peers' records: at most UW_MESSAGE_PEERS_MOST, or UW_ERR_CORRUPT (more, malformed). */
int uw_message_peers(bool frames, const void *buf, uint32_t buf_bytes);

/* Get the next record, after uw_message_peers.
 *   at  state of the iteration, initially 0
 * Returns whether there is one. */
bool uw_message_next_peer(bool frames, const void *buf, uint32_t buf_bytes, uint32_t *at,
                          uwasa_Peer *peer);

/* Further addresses of a device in a hello, ping or ack follow its record, that of the sender the
 * body. Each is a byte 4 or 6, the IP address and the port, big-endian. Programs that do not know
 * the field skip it. */
#define UW_MESSAGE_ALSO_MOST 46u    /* bytes: two of IPv6 and one of IPv4 */

/* Append those of the last record; also_bytes 0: changes nothing.
 * Returns as uw_message_add_peer. */
int uw_message_add_also(bool frames, const uint8_t *also, uint32_t also_bytes, void *buf,
                        uint32_t bytes, uint32_t cap_bytes);

/* Find those of the record that ends at `at`, of uw_message_next_peer; 0: of the sender.
 *   also_bytes  set to their size; 0: none
 * Returns a pointer into buf. */
const uint8_t *uw_message_also(bool frames, const void *buf, uint32_t buf_bytes, uint32_t at,
                               uint32_t *also_bytes);

/* Parse a datagram of type UW_WIRE_DATA. Its count agrees with its size.
 *   d  written on success; floats points into buf
 * Returns UW_OK or UW_ERR_CORRUPT. */
int uw_message_read_data(const void *buf, uint32_t buf_bytes, struct uw_data *d);

/* Encode any control message.
 * Returns the bytes written, UW_ERR_TOOBIG (above cap_bytes), UW_ERR_INVALID (no control type). */
int uw_message_encode(const struct uw_message *m, void *buf, uint32_t cap_bytes);

/* Encode a chunk; d->floats is not used.
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

/* The state of a pull, to parse its short chunks. */
struct uw_short_data {
    uint32_t chunk_n;               /* of the pull */
    uint16_t transfer, seq;         /* of the pull; of its last want */
    uint16_t asked_n;               /* wants sent: answers to earlier ones are late */
    uint32_t version;               /* the peer's last report */
    bool coded;                     /* chunks may be coded, or in parts */
};

/* Parse a datagram of type UW_WIRE_DATA on a link of frames. A late answer to a want of an earlier
 * pull, whose chunks may have another size, gets another transfer.
 * Returns UW_OK or UW_ERR_CORRUPT. */
int uw_message_read_short_data(const void *buf, uint32_t buf_bytes,
                               const struct uw_short_data *known, struct uw_data *d);

/* Several wants of a pull in one message, on a link of frames. */
#define UW_SHORT_WANTS_MOST 8u

struct uw_short_wants {
    uint32_t model;                 /* low half of its hash */
    uint32_t mixed;                 /* last version mixed in; 0: none */
};

/* Number of wants that fit a message of cap_bytes. */
uint32_t uw_message_short_wants(uint32_t cap_bytes);

/* Encode n wants of one transfer with consecutive seqs; buf must be large enough. Returns the
 * bytes. */
int uw_message_write_short_wants(enum uw_wire_type type, const struct uw_short_wants *head,
                                 const struct uw_want *wants, uint32_t n, void *buf);

/* Parse a datagram of type UW_WIRE_WANT or UW_WIRE_CAST_WANT on a link of frames.
 * Returns the number of wants or UW_ERR_CORRUPT. */
int uw_message_read_short_wants(const void *buf, uint32_t buf_bytes, struct uw_short_wants *head,
                                struct uw_want wants[UW_SHORT_WANTS_MOST]);

/* A broadcast chunk (cast.h). */
struct uw_cast_chunk {
    uint8_t turn;
    uint8_t tag;                    /* 4 bits of the checksum of its sender's participants */
    uint32_t chunk, count_n;
    const uint8_t *floats;          /* into the datagram, not aligned */
};

/* Encode a chunk; head->floats is not used. Returns the bytes or UW_ERR_TOOBIG. */
int uw_message_write_cast(const struct uw_cast_chunk *head, const float *floats, void *buf,
                          uint32_t cap_bytes);

/* Parse a datagram of type UW_WIRE_CAST. Returns UW_OK or UW_ERR_CORRUPT. */
int uw_message_read_cast(const void *buf, uint32_t buf_bytes, struct uw_cast_chunk *chunk);

/* Copy a parsed chunk's floats.
 * Returns UW_OK, or UW_ERR_NONFINITE when one is NaN or infinite; out is written in any case. */
int uw_message_floats(const struct uw_data *d, float *out);

#endif
