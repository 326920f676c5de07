/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_capture.h - a link that records the messages of another link in a pcap file
 *
 * The capture forwards every call to the lower link, optional entries included. Its public fields
 * are those of the lower link after the last call. A copy of each message sent or received goes to
 * a writer, such as a file or a UART. Put the capture below a secure channel to record what others
 * on the wire see. A lower link that encrypts by itself (TCP with TLS) hands over the plain text:
 * keep such a file secret.
 *
 * File      24 bytes: magic a1b2c3d4, version 2.4, no time zone, the largest record, link type 147
 *           (LINKTYPE_USER0)
 * Record    16 bytes: seconds, microseconds, bytes kept and bytes of the original, both with the
 *           pseudo header; then the pseudo header; then the message, cut to snap_bytes
 *
 *     byte  0      1, version of this header
 *     byte  1      its length, 12; a longer header has more fields behind these
 *     byte  2      0 received, 1 sent, 2 put back: the message received last from this station was
 *                  deferred (uw_link_defer) and comes again; such a record has no message
 *     byte  3      bits of the link: 1 reliable, 2 encrypts below this, 4 frames, 8 shared;
 *                  128: records before this one are missing, the writer had no room
 *     bytes 4..5   station of the other end, fffe: broadcast
 *     bytes 6..7   station of this end, ffff: each end numbers stations by itself
 *     bytes 8..11  bytes of the message before it was cut
 *
 * A message is what the link carries: a DTLS record, a secure frame (uwasa/secure_frames.h), or a
 * plain message of net/wire/message.h, in its short form if bit 4 (frames) is set. Averages are in
 * net/wire/part.h and net/cell/cell.h, samples in net/shuffle/shuffle.h.
 *
 * All numbers are little-endian. Times are those of the last step, plus epoch_us.
 *
 * Units      bytes unless a name ends in _us
 * Memory     caller supplies uw_link_capture_bytes(); it and the lower link are borrowed until
 *            deinit, which leaves the lower link open
 * Blocking   as the writer          Context  one thread per link; the writer is called from it
 * Source     Internet-Draft draft-ietf-opsawg-pcap, "PCAP Capture File Format"
 */
#ifndef UWASA_LINK_CAPTURE_H
#define UWASA_LINK_CAPTURE_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"

UW_C_BEGIN

#define UW_CAPTURE_FILE_HEAD_BYTES 24u
#define UW_CAPTURE_RECORD_HEAD_BYTES 16u
#define UW_CAPTURE_PSEUDO_BYTES 12u
#define UW_CAPTURE_LINKTYPE 147u
#define UW_CAPTURE_SNAP_MAX (256u * 1024u)      /* readers refuse much more */

enum uw_capture_kind { UW_CAPTURE_RECEIVED, UW_CAPTURE_SENT, UW_CAPTURE_PUT_BACK };

enum uw_capture_flags {
    UW_CAPTURE_RELIABLE = 1,
    UW_CAPTURE_SECURE = 2,
    UW_CAPTURE_FRAMES = 4,
    UW_CAPTURE_SHARED = 8,
    UW_CAPTURE_GAP = 128
};

/* Write a whole record or nothing.
 * Returns UW_OK; UW_ERR_AGAIN: no room, this record is lost; another code: the writer failed and is
 * not called again. */
typedef int (*uw_capture_write_fn)(void *arg, const void *record, uint32_t record_bytes);

struct uw_link_capture_config {
    struct uw_link *lower;
    uw_capture_write_fn write;
    void *arg;                  /* passed to write */
    void *memory;
    size_t memory_bytes;
    uint32_t snap_bytes;        /* bytes kept of a message; 0: the lower link's mtu_bytes at init,
                                   at most UW_CAPTURE_SNAP_MAX */
    uint64_t epoch_us;          /* time since 1970 at now_us == 0; 0: unknown */
};

struct uw_link_capture {
    struct uw_link link;
    struct uw_link_ops ops;     /* optional entries are set where the lower link's are */
    struct uw_link *lower;
    uw_capture_write_fn write;
    void *arg;
    uint8_t *record;
    uint32_t snap_bytes;
    uint16_t viewed_from;       /* station of the last message */
    bool gap;
    int failure;                /* UW_OK or the writer's error; the link goes on */
    uint64_t now_us, epoch_us;
    uint64_t records_n;         /* records written */
    uint64_t missed_n;          /* records lost */
};

/* Bytes of memory for one record; SIZE_MAX when the configuration is not allowed. */
size_t uw_link_capture_bytes(const struct uw_link_capture_config *config);

/* Write the file header and wrap config->lower.
 *
 * Returns UW_OK, UW_ERR_INVALID (no lower link or writer, snap_bytes out of bounds), UW_ERR_NOMEM
 * (memory smaller than uw_link_capture_bytes), or what the writer returned. */
int uw_link_capture_init(struct uw_link_capture *c, const struct uw_link_capture_config *config);

UW_C_END
#endif
