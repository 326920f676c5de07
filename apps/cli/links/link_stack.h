/* SPDX-License-Identifier: Apache-2.0
 *
 * link_stack.h - the links of a node, one on the other
 *
 *     UDP or a serial line, a bad network if asked for, DTLS
 *     a radio or a bus, frames, a bad network if asked for, secure frames
 *     TCP with TLS or without, a bad network if asked for
 *     MPI, a bad network if asked for
 *
 * What is captured is what the carrier takes and gives, below the bad network and DTLS; of TCP with
 * TLS, the messages that it protects.
 *
 * Memory     the board's, taken by open and given back by close
 * Blocking   open, while a host's name to listen on is looked up; close of MPI, until all ranks
 *            close      Context  one thread
 */
#ifndef UWASA_CLI_LINK_STACK_H
#define UWASA_CLI_LINK_STACK_H

#include "capture_file.h"

#include "uwasa/link_emulated.h"
#include "uwasa/link_frame.h"
#include "uwasa/link_mpi.h"
#include "uwasa/link_serial.h"
#include "uwasa/link_tcp.h"
#include "uwasa/link_udp.h"
#include "uwasa/radio_bus.h"
#include "uwasa/radio_udp.h"
#include "uwasa/secure.h"
#include "uwasa/secure_frames.h"
#include "uwasa/secure_stream.h"
#include "uwasa/serial_tty.h"

/* The first three in the order of the words "udp|tcp|mpi". */
enum uw_stack_carrier {
    UW_STACK_UDP, UW_STACK_TCP, UW_STACK_MPI, UW_STACK_SERIAL, UW_STACK_BUS, UW_STACK_RADIO
};

/* Does it carry frames, and name nodes by numbers? */
static inline bool uw_stack_is_radio(enum uw_stack_carrier carrier)
{
    return carrier == UW_STACK_BUS || carrier == UW_STACK_RADIO;
}

/* A model of so many bytes makes a run that is worth dear handshakes. */
#define UW_STACK_BULK_BYTES (4u << 20)

struct uw_stack_config {
    enum uw_stack_carrier carrier;      /* MPI: after uw_link_mpi_begin */
    bool plain;                         /* TCP without TLS */
    const char *listen;                 /* as struct uw_link_udp_config.bind; UDP and TCP */
    const char *device;                 /* of the serial line or the bus */
    uint32_t baud;
    const char *group, *interface;      /* of the radio, as struct uw_radio_udp_config */
    uint16_t address;                   /* on the radio or the bus */
    const char *run;                    /* identity of the secure channel */
    const uint16_t *suites;             /* as in struct uw_secure_dtls_config, as bulk */
    bool bulk;
    const uint8_t *key;                 /* [UW_KEY_BYTES], copied; not for MPI nor plain TCP */
    uint32_t mtu_bytes;                 /* 0: TCP and MPI 65600, others as they have it */
    bool together;                      /* UDP: as in struct uw_link_udp_config */
    uint16_t peers_n;                   /* sessions at once */
    const struct uw_impairment *bad;    /* NULL or all zero: no emulation */
    uint64_t bad_seed;
    const char *const *far;             /* [far_n] bad towards these addresses only; none: all */
    uint32_t far_n;
    uint64_t cut_from_us, cut_us;       /* and cut after so long, for so long; 0: never */
    const char *pcap;                   /* file to capture to; NULL: none */
    void (*event)(void *user, const struct uw_secure_event *event);     /* may be NULL */
    /* (optional: NULL means none) The serial line or the bus is gone, or back; called by
     * uw_stack_step. */
    void (*on_device)(void *user, const char *device, bool gone);
    void *user;
    /* (optional: NULL means none) One more link over the others: gets the top, returns the new one,
     * which outlives the stack. */
    struct uw_link *(*over)(void *arg, struct uw_link *top);
    void *over_arg;
};

struct uw_stack_block {
    void *at;
    size_t bytes;
};

struct uw_stack {
    struct uw_link_udp udp;
    struct uw_link_emulated emulated;
    struct uw_secure_dtls secure;
    struct uw_secure_stream tls;
    struct uw_link_tcp tcp;
    struct uw_link_mpi mpi;
    struct uw_serial_tty tty;
    struct uw_link_serial serial;
    struct uw_capture_file capture;
    struct uw_radio_udp multicast;
    struct uw_radio_bus bus;
    struct uw_link_frame frame;
    struct uw_secure_frames frames;
    struct uw_link *base;               /* the carrier's */
    struct uw_link *top;                /* that the node uses */
    struct uw_stack_block blocks[4];
    const char *const *far;
    uint32_t far_n;
    uint64_t opened_us, cut_from_us, cut_us;
    bool cut;
    bool gone;                          /* the device, as it was reported last */
    void (*on_device)(void *user, const char *device, bool gone);
    void *user;
};

/* Is the text written as an address: "10.0.0.9:4433", "gateway:4433", "[fe80::1]:4433"? One to
 * listen on may leave out the host and have port 0. Whether it exists is another question. */
bool uw_stack_address_ok(const char *text, bool listen);

/* The largest message over TCP and MPI among nodes with a model of so many bytes. */
uint32_t uw_stack_stream_mtu(size_t model_bytes);

/* Of secure channels: the board's random bytes; user is not looked at. */
int uw_stack_entropy(void *user, uint8_t *out, size_t bytes);

/* Open the links. Returns UW_OK or a code of the link that failed, err filled. Close in every
 * case. */
int uw_stack_open(struct uw_stack *s, const struct uw_stack_config *config, struct uw_error *err);

/* The address to give to peers, "127.0.0.1:40001", of MPI the rank, of a radio or a bus the short
 * address, of a serial line its device.
 * Returns UW_OK, UW_ERR_CLOSED. */
int uw_stack_local(const struct uw_stack *s, char text[UW_LINK_ADDRESS_BYTES]);

/* Cut or heal what is emulated, as its time has come; report a device that is gone or back. */
void uw_stack_step(struct uw_stack *s, uint64_t now_us);

/* Bytes of memory taken. */
size_t uw_stack_bytes(const struct uw_stack *s);

/* Close them and give the memory back. Safe on a zeroed struct and twice. */
void uw_stack_close(struct uw_stack *s);

#endif
