/* SPDX-License-Identifier: Apache-2.0
 *
 * shuffle_wire.h - messages of a lease of samples
 *
 *     byte  0       version << 4 | UW_WIRE_SHUFFLE
 *     bytes 1..4    CRC-32C as in wire.h
 *     byte  5       act; bytes 6..7: 0
 *     bytes 8..11   run
 *     bytes 12..23  the lease at the receiver: slot u32, nonce u64; 0: not known
 *     bytes 24..35  the lease at the sender
 *     bytes 36..    offer: sample_n u32, classes u32, chunk_n u32, lease in ms u32
 *                   want:  base u32, wanted u32, chunk_n u32
 *                   data:  offset u32, label u32, then floats
 *
 * All numbers are little-endian. Only `data` carries anything of a sample.
 *
 * Memory     caller's      Blocking  never      Context  any thread
 */
#ifndef UW_NET_SHUFFLE_WIRE_H
#define UW_NET_SHUFFLE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#define UW_SHUFFLE_HEAD_BYTES 36u
#define UW_SHUFFLE_DATA_BYTES 44u   /* of a data message before its floats */
#define UW_SHUFFLE_LEAST_BYTES 52u  /* the largest message without floats */

enum uw_shuffle_act {
    UW_SHUFFLE_OFFER = 1,
    UW_SHUFFLE_WANT,
    UW_SHUFFLE_DATA,
    UW_SHUFFLE_READY,
    UW_SHUFFLE_COMMIT,
    UW_SHUFFLE_DONE,
    UW_SHUFFLE_END,
    UW_SHUFFLE_OVER
};

/* A lease as one side knows it. A nonce is never used twice, not even after a restart. */
struct uw_lease_ref {
    uint32_t slot;
    uint64_t nonce;                 /* 0: none */
};

struct uw_shuffle_message {
    enum uw_shuffle_act act;
    struct uw_lease_ref to, from;
    uint32_t sample_n, classes, lease_ms;    /* offer */
    uint32_t chunk_n;               /* offer, want: largest chunk, floats */
    uint32_t base, wanted;          /* want: chunk base + i for every set bit i */
    uint32_t offset_n, label;       /* data */
    uint32_t count_n;
    const uint8_t *floats;          /* parsed: into the datagram, not aligned */
};

/* Encode.
 *   floats  [m->count_n], for data
 * Returns the bytes written or UW_ERR_TOOBIG. */
int uw_shuffle_encode(const struct uw_shuffle_message *m, uint32_t run, const float *floats,
                      void *buf, uint32_t cap_bytes);

/* Parse a message that begins with UW_WIRE_SHUFFLE, of any run.
 *   run  set
 *   m    written on success
 * Returns UW_OK or UW_ERR_CORRUPT (damaged, cut, malformed). */
int uw_shuffle_decode(const void *buf, uint32_t buf_bytes, uint32_t *run,
                      struct uw_shuffle_message *m);

/* Copy a parsed message's floats. Returns whether all are finite. */
bool uw_shuffle_floats(const struct uw_shuffle_message *m, float *out);

#endif
