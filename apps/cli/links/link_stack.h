/* SPDX-License-Identifier: Apache-2.0
 *
 * link_stack.h - the stack of links of a node, from the bottom to the top
 *
 *     UDP or a serial line, a bad network if asked for, DTLS
 *     a radio or a bus, frames, a bad network if asked for, secure frames
 *     TCP with TLS or without, a bad network if asked for
 *     MPI, a bad network if asked for
 *
 * A capture records what the carrier sends and receives, below the bad network and DTLS; for TCP
 * with TLS, the messages before encryption.
 *
 * Memory     the board's, allocated by open and freed by close
 * Blocking   open, while a host's name to listen on is looked up; close of MPI, until all ranks
 *            close      Context  one thread
 */
#ifndef UWASA_CLI_LINK_STACK_H
#define UWASA_CLI_LINK_STACK_H

#include "capture_file.h"
#include "keyfile.h"

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

/* Whether the carrier sends frames and names nodes by numbers. */
static inline bool uw_stack_is_radio(enum uw_stack_carrier carrier)
{
    return carrier == UW_STACK_BUS || carrier == UW_STACK_RADIO;
}

/* From this model size on, a run justifies more expensive handshakes: `bulk`. */
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
    const uint16_t *suites;             /* like bulk, as in struct uw_secure_dtls_config */
    bool bulk;
    struct uw_keyfile *keyfile;         /* borrowed; uw_stack_step looks after it. NULL: key */
    const uint8_t *key;                 /* [UW_KEY_BYTES], copied; unused by MPI and plain TCP */
    uint32_t mtu_bytes;                 /* 0: TCP and MPI 65600, others their default */
    bool together;                      /* UDP: as in struct uw_link_udp_config */
    uint16_t peers_n;                   /* sessions at once; over UDP twice as many: those who have
                                           this node in their tables may be others than its own */
    const struct uw_impairment *bad;    /* NULL or all zero: no emulation */
    uint64_t bad_seed;
    const char *const *far;             /* [far_n] only these addresses are bad; none: all are */
    uint32_t far_n;
    uint64_t cut_from_us, cut_us;       /* cut them off after cut_from_us, for cut_us; 0: never */
    const char *pcap;                   /* file to capture to; NULL: none */
    void (*event)(void *user, const struct uw_secure_event *event);     /* may be NULL */
    /* (optional: NULL means none) As of struct uw_link_tcp_config. */
    void (*narrow)(void *user, const char *address, uint32_t segment_bytes);
    /* (optional: NULL means none) Called by uw_stack_step if the serial line or bus is lost or has
     * returned. */
    void (*on_device)(void *user, const char *device, bool gone);
    /* (optional: NULL means none) Called by uw_stack_step when the keys have changed. */
    void (*on_keys)(void *user, const struct uw_keyfile *f, const struct uw_keyfile_news *news);
    void *user;
    /* (optional: NULL means none) Puts one more link over the stack: gets the top link, returns the
     * new one, which must outlive the stack. */
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
    struct uw_link *top;                /* used by the node */
    struct uw_stack_block blocks[4];
    const char *const *far;
    uint32_t far_n;
    uint64_t opened_us, cut_from_us, cut_us;
    bool cut;
    struct uw_keyfile *keyfile;
    uint64_t keys_us;                   /* when to look after it again */
    void (*on_keys)(void *user, const struct uw_keyfile *f, const struct uw_keyfile_news *news);
    bool gone;                          /* whether the device was last reported as lost */
    void (*on_device)(void *user, const char *device, bool gone);
    void *user;
};

/* Whether the text has the form of an address: "10.0.0.9:4433", "gateway:4433", "[fe80::1]:4433".
 * An address to listen on may omit the host and have port 0. Does not look the host up. */
bool uw_stack_address_ok(const char *text, bool listen);

/* The largest message over TCP and MPI for a model of so many bytes. */
uint32_t uw_stack_stream_mtu(size_t model_bytes);

/* Entropy callback for secure channels: the board's random bytes; user is ignored. */
int uw_stack_entropy(void *user, uint8_t *out, size_t bytes);

/* Open the links. Returns UW_OK or a code of the link that failed, err filled. Close in every
 * case. */
int uw_stack_open(struct uw_stack *s, const struct uw_stack_config *config, struct uw_error *err);

/* The address for peers to use: "127.0.0.1:40001"; for MPI the rank, for a radio or bus the short
 * address, for a serial line its device.
 * Returns UW_OK, UW_ERR_CLOSED. */
int uw_stack_local(const struct uw_stack *s, char text[UW_LINK_ADDRESS_BYTES]);

/* The addresses of this machine at which a carrier over IP can be reached, as
 * uw_node_config.own_addresses; arg is the stack. */
uint32_t uw_stack_own_addresses(void *arg, uint8_t *out, uint32_t cap_bytes);

/* Disconnect or reconnect the emulated network when due; report a device that is lost or back; load
 * keys again after SIGHUP. Before a step of the node. */
void uw_stack_step(struct uw_stack *s, uint64_t now_us);

/* Bytes of allocated memory. */
size_t uw_stack_bytes(const struct uw_stack *s);

/* Close the links and free the memory. Safe on a zeroed struct and twice. */
void uw_stack_close(struct uw_stack *s);

#endif
