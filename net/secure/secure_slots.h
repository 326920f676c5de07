/* SPDX-License-Identifier: Apache-2.0
 *
 * secure_slots.h - the sessions of a secure channel, by station, and the peers that failed
 *
 * A station has at most one session that is up and one handshake in progress; the second is how
 * a restarted peer replaces the first. */
#ifndef UWASA_SECURE_SLOTS_H
#define UWASA_SECURE_SLOTS_H

#include "secure_tls.h"

#define UW_SECURE_HANDSHAKE_MAX_US 30000000u
#define UW_SECURE_START_MAX 32u         /* burst of handshakes that unknown peers may start ... */
#define UW_SECURE_START_US 50000u       /* ... and the interval afterwards */
/* A byte in front of every message: allows empty messages, which DTLS drops. */
#define UW_SECURE_MESSAGE_MARK 0u
/* Or a probe of the path: its size u16, then zeros up to it; and the answer, the size that came. */
#define UW_SECURE_PROBE_MARK 1u
#define UW_SECURE_PROBED_MARK 2u
#define UW_SECURE_PROBE_BYTES 2u

enum uw_secure_state { UW_SECURE_FREE, UW_SECURE_HANDSHAKE, UW_SECURE_UP };

struct uw_secure_slot {
    enum uw_secure_state state;
    bool client;
    bool proven;                        /* of a server: the peer has proved that it holds the key */
    bool was_held;                      /* by the caller, before the channel held the station */
    bool random_known;
    uint16_t station;
    int output_rc;                      /* of the lower link, for the last datagram */
    uint64_t started_us, heard_us;      /* heard: last authenticated message */
    uint8_t random[UW_WIRE_RANDOM_BYTES];   /* of the ClientHello, ours or the peer's */
    struct uw_secure_dtls *owner;
    struct uw_tls_session *tls;
    char address[UW_LINK_ADDRESS_BYTES];
};

/* secure_path.c */
struct uw_secure_paths {
    size_t slot_bytes;
    /* A probe of so many bytes has arrived at the other end. */
    void (*probed)(struct uw_secure_slot *slot, uint32_t bytes);
    /* Send probes that are due, and set the link's mtu. Returns the time of the next call. */
    uint64_t (*step)(struct uw_secure_dtls *s);
};

/* Report an event of a station. */
void uw_secure_report(struct uw_secure_dtls *s, enum uw_secure_event_kind kind, uint16_t station,
                      const char *text);

/* The slot of a station in one state, or NULL. */
struct uw_secure_slot *uw_secure_find(const struct uw_secure_dtls *s, uint16_t station,
                                      enum uw_secure_state state);

enum uw_secure_side {
    UW_SECURE_CLIENT,
    UW_SECURE_SERVER,
    UW_SECURE_SERVER_PROVEN,            /* of a peer that has proved that it holds the key */
};

/* Start a handshake in a free slot, or in that of a stale handshake of the same side. A peer that
 * has proved that it holds the key takes the slot of the oldest that has not.
 * Returns UW_OK, UW_ERR_AGAIN (no slot), UW_ERR_NOMEM. */
int uw_secure_start(struct uw_secure_dtls *s, uint16_t station, const char *address,
                    enum uw_secure_side side, struct uw_secure_slot **out);

/* Release a slot without an event; the last slot of a station restores its hold. */
void uw_secure_release(struct uw_secure_slot *slot, bool notify);

/* End a session that was up, with an event. */
void uw_secure_end(struct uw_secure_slot *slot, const char *how, bool notify);

/* Handle a result of the engine; the slot may be free afterwards. */
void uw_secure_conclude(struct uw_secure_slot *slot, enum uw_tls_result result);

/* Is this peer's back-off still running? A silent peer may start a handshake at any time, but this
 * end waits longer each time before it starts one (calling). */
bool uw_secure_must_wait(struct uw_secure_dtls *s, const char *address, bool calling);

/* Note that a peer did not finish a handshake. */
void uw_secure_note_restart(struct uw_secure_dtls *s, const char *address);

#endif
