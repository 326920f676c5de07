/* SPDX-License-Identifier: Apache-2.0
 *
 * shuffle.h - leases of samples between nodes: each sample is drawn on at most one node at any time
 *
 * Two nodes lend each other one sample each, for a term. A offers, B accepts:
 *
 *     A                                            B
 *     OFFER (no data) ---------------------------> keeps a sample b for it
 *     <------------------------------------- WANT  pulls a, chunk by chunk
 *     DATA a ------------------------------------> has all of a: draws b no more
 *     <------------------------------------ READY
 *     WANT --------------------------------------> A pulls b
 *     <----------------------------------- DATA b
 *     draws b in the place of a: COMMIT ---------> draws a in the place of b
 *     <------------------------------------- DONE
 *     ... when the term is over ...
 *     draws b no more: END ----------------------> draws a no more, b again
 *     <------------------------------------- OVER
 *     draws a again
 *
 * Requests are repeated until they are answered. Messages may be lost, repeated and reordered: each
 * names both sides' lease by unique numbers, so that old messages are recognised. Nodes lend only
 * to nodes with the same term.
 *
 * A lease expires without a message. The borrower stops by its own clock, `loan_us` after a time
 * before the owner lent the sample; the owner draws it again 5/4 `loan_us` after it lent it. A node
 * that dies, is cut off or pauses costs its peers only that time. A node that starts draws none of
 * its movable samples for as long, because a peer may still have them; therefore the term must not
 * change during a run. Clocks must agree within a quarter in speed, and run while a device sleeps.
 *
 * Messages (shuffle_wire.c), all numbers little-endian; only `data` carries anything of a sample:
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
 * Units      _us microseconds, _n counts samples or floats
 * Memory     a table from an arena; the pool is borrowed
 * Blocking   as the pool's source      Context  network thread
 */
#ifndef UW_NET_SHUFFLE_H
#define UW_NET_SHUFFLE_H

#include "uwasa/arena.h"
#include "uwasa/rng.h"
#include "uwasa/sample_pool.h"

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

#define UW_SHUFFLE_STARTING_MOST 4u /* leases starting at once, by own offers and by peers' each */

enum uw_lease_state {
    UW_LEASE_FREE,
    UW_LEASE_OFFERED,                /* A: waits for the first WANT */
    UW_LEASE_SENDING,                /* A: B pulls */
    UW_LEASE_PULLING,                /* A: pulls from B */
    UW_LEASE_RECEIVING,              /* B: pulls from A */
    UW_LEASE_READY,                  /* B: draws neither; waits for COMMIT */
    UW_LEASE_STANDING,               /* draws the other's sample */
    UW_LEASE_CLOSING                 /* draws neither; waits for its own */
};

/* A lease has the index of the pool's slot with the peer's sample. */
struct uw_lease {
    enum uw_lease_state state;
    uint32_t peer;                  /* identity */
    uint32_t home;                  /* own sample, as struct uw_sample_pool counts them */
    uint64_t nonce;
    struct uw_lease_ref theirs;      /* the peer's side; nonce 0: not known yet */
    bool away, unacked;             /* the own sample is lent; COMMIT is not answered */
    uint8_t tries;
    uint32_t label, chunk_n;        /* of the peer's sample; floats a chunk */
    uint32_t base, got, asked;      /* first missing chunk; bitmap from base on; requested below */
    uint64_t since_us;              /* the term begins */
    uint64_t back_us;               /* the own sample is drawn again then, at the latest */
    uint64_t repeat_us;
};

struct uw_shuffle_config {
    struct uw_sample_pool *pool;    /* NULL: off */
    uint32_t run;
    uint64_t loan_us;               /* whole milliseconds; nodes with another one lend nothing */
    uint64_t seed;
    uint8_t *buffer;                /* [buffer_bytes] to encode in; borrowed. A message that is
                                       handed in may lie there */
    uint32_t buffer_bytes;          /* UW_SHUFFLE_LEAST_BYTES or more */
    void *arg;
    /* Whom to offer to, an identity; 0: nobody this time. */
    uint32_t (*pick)(void *arg, uint32_t round);
    /* Hand a message to a node; lost when it cannot be sent. */
    void (*send)(void *arg, uint32_t to, const void *buf, uint32_t bytes);
};

struct uw_shuffle {
    struct uw_shuffle_config config;
    struct uw_lease *leases;          /* [pool->config.slots_n] */
    uint64_t *due;                  /* [slots_n] when to look at each; UINT64_MAX: it is free */
    struct uw_rng rng;
    bool started, open, stopped;
    uint64_t now_us, behind_us;     /* the pool's clock is now_us - behind_us */
    uint64_t open_us, offer_us, due_us;
    uint64_t key, nonces;
    uint32_t round, cursor;
    uint32_t own_n, other_n;        /* starting, by who offered */
    uint32_t starting[2u * UW_SHUFFLE_STARTING_MOST];   /* their slots */
    uint64_t in_n, out_n;           /* samples borrowed and lent so far */
    uint64_t sent_bytes;            /* of samples */
};

/* Longest time for which a sample is lent. */
uint64_t uw_shuffle_hold_us(uint64_t loan_us);

/* Allocate the table, and stop drawing movable samples. Returns as uw_arena_take. */
int uw_shuffle_place(struct uw_shuffle *s, struct uw_arena *arena,
                     const struct uw_shuffle_config *config);

/* Do what is due.
 *   behind_us  now_us less the pool's clock
 * Returns when it wants to run again, if nothing arrives; UINT64_MAX when it is off. */
uint64_t uw_shuffle_step(struct uw_shuffle *s, uint64_t now_us, uint64_t behind_us);

/* A message of this run from a node. Nothing is taken and nothing is answered while it is off. */
void uw_shuffle_receive(struct uw_shuffle *s, uint32_t from, const struct uw_shuffle_message *m,
                        uint64_t now_us);

/* End all leases, inform the peers, and start no more. */
void uw_shuffle_stop(struct uw_shuffle *s);

/* ---- messages; any thread ---- */

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
