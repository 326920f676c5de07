/* SPDX-License-Identifier: Apache-2.0
 *
 * stack.h - the links of a node, one on the other
 *
 *     UDP or a serial line, a bad network if asked for, DTLS
 *     TCP with TLS or without, a bad network if asked for
 *     MPI, a bad network if asked for
 *
 * Memory     the board's, taken by open and given back by close
 * Blocking   open, while a host's name to listen on is looked up; close of MPI, until all ranks
 *            close      Context  one thread
 */
#ifndef UWASA_CLI_STACK_H
#define UWASA_CLI_STACK_H

#include "uwasa/link_emulated.h"
#include "uwasa/link_mpi.h"
#include "uwasa/link_serial.h"
#include "uwasa/link_tcp.h"
#include "uwasa/link_udp.h"
#include "uwasa/secure.h"
#include "uwasa/secure_stream.h"
#include "uwasa/serial_tty.h"

enum uw_stack_carrier { UW_STACK_UDP, UW_STACK_TCP, UW_STACK_MPI, UW_STACK_SERIAL };

struct uw_stack_config {
    enum uw_stack_carrier carrier;      /* MPI: after uw_link_mpi_begin */
    bool plain;                         /* TCP without TLS */
    const char *listen;                 /* as struct uw_link_udp_config.bind; UDP and TCP */
    const char *device;                 /* of the serial line */
    uint32_t baud;
    const char *run;                    /* identity of the secure channel */
    const uint8_t *key;                 /* [UW_KEY_BYTES], copied; not for MPI nor plain TCP */
    uint32_t mtu_bytes;                 /* 0: UDP and serial as their links have it, else
                                           65600 */
    uint16_t peers_n;                   /* sessions at once */
    const struct uw_impairment *bad;    /* NULL or all zero: no emulation */
    uint64_t bad_seed;
    const char *const *far;             /* [far_n] bad towards these addresses only; none: all */
    uint32_t far_n;
    uint64_t cut_from_us, cut_us;       /* and cut after so long, for so long; 0: never */
    void (*event)(void *user, const struct uw_secure_event *event);     /* may be NULL */
    void *user;
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
    struct uw_link *base;               /* the carrier's */
    struct uw_link *top;                /* to speak over */
    struct uw_stack_block blocks[4];
    const char *const *far;
    uint32_t far_n;
    uint64_t opened_us, cut_from_us, cut_us;
    bool cut;
};

/* Is the text written as an address: "10.0.0.9:4433", "gateway:4433", "[fe80::1]:4433"? One to
 * listen on may leave out the host and have port 0. Whether it exists is another question. */
bool uw_stack_address_ok(const char *text, bool listen);

/* Open the links. Returns UW_OK or a code of the link that failed, err filled. Close in every
 * case. */
int uw_stack_open(struct uw_stack *s, const struct uw_stack_config *config, struct uw_error *err);

/* The address that others may be told, "127.0.0.1:40001", of MPI the rank, of a
 * serial line its device.
 * Returns UW_OK, UW_ERR_CLOSED. */
int uw_stack_local(const struct uw_stack *s, char text[UW_LINK_ADDRESS_BYTES]);

/* Cut or heal what is emulated, as its time has come. */
void uw_stack_step(struct uw_stack *s, uint64_t now_us);

/* Bytes of memory taken. */
size_t uw_stack_bytes(const struct uw_stack *s);

/* Close them and give the memory back. Safe on a zeroed struct and twice. */
void uw_stack_close(struct uw_stack *s);

#endif
