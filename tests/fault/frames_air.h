/* SPDX-License-Identifier: Apache-2.0
 *
 * frames_air.h - stations with secure frames on one air, on virtual time, and what passed there
 *
 * Everything sent is taped: tests lose it, hold it back, change it, and send it again in anybody's
 * name. Each message has a number of its own; a station that gets one twice, or changed, fails the
 * test, and so does a nonce that goes out twice.
 *
 * Context  test's thread */
#ifndef UWASA_TESTS_FRAMES_AIR_H
#define UWASA_TESTS_FRAMES_AIR_H

#include "test_support.h"

#include "uwasa/rng.h"
#include "uwasa/secure_frames.h"
#ifdef UW_TEST_SECURE_BOARD
#include "uwasa/secure_memory.h"
#endif

#define AIR_STATIONS 24u
#define AIR_RING 512u
#define AIR_NUMBERS 16384u          /* messages in a test */
#define AIR_MESSAGE_MIN 4u
#define AIR_TLS_BYTES 65536u        /* of all stations, where they are built as boards */

struct air;

struct air_frame {
    uint16_t from, to;
    uint32_t bytes;
    uint8_t *data;
};

struct air_node {
    struct uw_link lower;
    struct air *air;
    bool up;
    bool jammed;                    /* its radio takes nothing now */
    uint32_t ring[AIR_RING], ring_at, ring_n;   /* of the tape */
    struct uw_secure_frames frames;
    void *memory;
    struct uw_rng entropy;
    uint32_t events[5];
    char text[5][UW_SECURE_TEXT_BYTES];
    uint8_t got[AIR_NUMBERS];       /* by number; outlives restarts */
    uint32_t got_n;
};

/* A nonce that went out. */
struct air_nonce {
    uint64_t id, counter;
};

struct air {
    uint64_t now_us, seed;
    float loss;                     /* at each receiver */
    bool echo;                      /* radios hear what they send themselves */
    bool held;                      /* nothing arrives but by air_deliver */
    bool copies;                    /* devices share an identity: a nonce may go out twice, ... */
    uint32_t twice_n;               /* ... which is counted */
    struct uw_rng rng;
    uint32_t number;                /* of the last message */
    struct air_frame *tape;
    uint32_t tape_n, tape_cap;
    struct air_nonce *nonces;       /* a hash table */
    uint32_t nonces_n;
    void *tls;
    struct air_node node[AIR_STATIONS];
};

struct air *air_new(uint64_t seed, uint32_t mtu_bytes);
void air_free(struct air *a);

/* Start a station; c may be NULL: what it leaves out are key 7, run "air". Returns init's code. */
int air_try(struct air *a, uint16_t i, const struct uw_secure_frames_config *c);
struct air_node *air_up(struct air *a, uint16_t i, const struct uw_secure_frames_config *c);

/* Gone without a word. */
void air_down(struct air *a, uint16_t i);

/* Send the next number. Returns send's code. */
int air_say(struct air *a, uint16_t from, uint16_t to, uint32_t bytes);

/* Let time pass; everybody steps and receives every 10 ms. */
void air_run(struct air *a, uint64_t us);

/* Say something every 50 ms until something has arrived. Returns the time that it took; fails after
 * limit_us. */
uint64_t air_talk(struct air *a, uint16_t from, uint16_t to, uint64_t limit_us);

/* Stations 0 and 1, up, which know each other. */
struct air *air_of_two(uint64_t seed, uint32_t mtu_bytes);

/* Let a frame of the tape arrive at a station. */
void air_deliver(struct air *a, uint32_t frame, uint16_t at);

/* Put a frame on the air as if `from` had sent it. Returns its number on the tape; it arrives. */
uint32_t air_forge(struct air *a, uint16_t from, uint16_t to, const void *data, uint32_t bytes);

/* Put what is on the tape from `first` to `end` - 1 on the air once more. */
void air_replay(struct air *a, uint32_t first, uint32_t end);

#endif
