/* SPDX-License-Identifier: Apache-2.0
 *
 * gossip_node.h - the parts of the firmware: memory, network, training, reports
 *
 * Everything is set up once from the memory that the linker file leaves, then sealed; there is no
 * heap. The network is polled between layers (uw_firmware_poll), so a peer waits for an answer at
 * most as long as the longest layer takes.
 *
 * Context    main loop */
#ifndef UW_FIRMWARE_GOSSIP_NODE_H
#define UW_FIRMWARE_GOSSIP_NODE_H

#include "samples.h"
#include "settings.h"

#include "uwasa/dataset.h"
#include "uwasa/digits.h"
#include "uwasa/link_lwip.h"
#include "uwasa/link_serial.h"
#include "uwasa/machine.h"
#include "uwasa/model.h"
#include "uwasa/node.h"
#include "uwasa/node_parts.h"
#include "uwasa/region.h"
#include "uwasa/secure.h"
#include "uwasa/storage_flash.h"

struct uw_firmware {
    struct uw_settings settings;
    struct uw_error err;
    /* memory.c */
    struct uw_arena arena[UW_MACHINE_REGIONS_MAX];
    struct uw_regions regions;
    struct uw_model_need need;
    struct uw_model model;
    const struct uw_mix_rule *rule;     /* as set, or simpler if memory is short */
    bool snapshot;
    /* network.c */
    struct uw_link_lwip lwip;
    struct uw_link_serial serial;       /* for the network or for samples */
    struct uw_secure_dtls secure;
    struct uw_link *link;
    struct uw_node node;
    uint64_t network_due_us;
    size_t network_bytes, tls_bytes;
    /* storage.c */
    struct uw_storage_flash storage;
    struct uw_settings kept;            /* to be written to flash */
    uint32_t boots;
    bool storage_open, polling, erasing;
    uint64_t saved_us;
    /* training.c */
    struct uw_digits digits, test;
    struct uw_samples uart;             /* link NULL: trains on digits instead */
    size_t samples_bytes;
    struct uw_loader loader;
    uint64_t started_us, samples;
    uint64_t trained_us;            /* before this start */
    uint32_t step, rounds_left;
    double loss;
    float accuracy;                     /* negative: not tested yet */
    bool training, adopting, waiting, done;
    uint64_t reported_us, tested_us;
    uint64_t longest_us;                /* between two polls of the network */
    uint64_t polled_us;
};

/* memory.c: take the regions of the board; then plan and bind the model in them, after the link has
 * allocated its part of the first region, and leaving room for the node. If memory is short, first
 * momentum between nodes is given up, then the snapshot. Each returns UW_OK or fills f->err. */
void uw_firmware_open_memory(struct uw_firmware *f);
int uw_firmware_open_model(struct uw_firmware *f);
void uw_firmware_seal(struct uw_firmware *f);

/* storage.c: settings, the count of starts and the checkpoint, in flash. */

/* Read the settings, over the defaults; then the emulator's arguments. */
int uw_firmware_open_settings(struct uw_firmware *f);

/* Write f->kept. */
int uw_firmware_save_settings(struct uw_firmware *f);

/* Count this start, and resume from the checkpoint if there is one of this model. A board without
 * enough flash only reports that. */
int uw_firmware_open_checkpoint(struct uw_firmware *f);
int uw_firmware_save_checkpoint(struct uw_firmware *f);

/* Make the next start train from the beginning, unless a checkpoint is saved before it. */
int uw_firmware_forget_checkpoint(struct uw_firmware *f);

/* network.c */

/* True randomness; user is ignored. Returns 0, or anything else for failure. */
int uw_firmware_entropy(void *user, uint8_t *out, size_t bytes);

/* Allocate from the first region. Returns UW_OK, or fills f->err, which names `what` it is for. */
int uw_firmware_take(struct uw_firmware *f, const char *what, size_t bytes, void **out);

/* The same for a secure channel's memory and tls_bytes for Mbed TLS, which is then set up. Also
 * gets the run's key, which the caller must wipe. */
int uw_firmware_take_secure(struct uw_firmware *f, size_t tls_bytes, size_t bytes, void **out,
                            uint8_t key[UW_KEY_BYTES]);

int uw_firmware_open_link(struct uw_firmware *f);
int uw_firmware_open_node(struct uw_firmware *f);

/* Bytes that the node needs for a model of size_n parameters in segments_n tensors. Returns them,
 * or fills f->err. */
int uw_firmware_node_bytes(struct uw_firmware *f, uint32_t size_n, uint32_t segments_n);

/* Poll the network and the console. Also the hook of struct uw_model. */
void uw_firmware_poll(struct uw_firmware *f);

/* training.c */
int uw_firmware_open_data(struct uw_firmware *f);

/* Do one training step, or whatever else the node has to do now. Returns UW_OK or fills f->err. */
int uw_firmware_train(struct uw_firmware *f);

/* Training time, including the time before a reset that the checkpoint recorded. */
uint64_t uw_firmware_trained_us(const struct uw_firmware *f);

/* data_uart.c: samples from the second UART, stored in the rest of the last region. */

/* Bytes that the model and the node must leave for them; 0: not used. */
size_t uw_firmware_samples_bytes(const struct uw_firmware *f);

/* Begin to receive them, if used. Returns UW_OK or fills f->err. */
int uw_firmware_open_samples(struct uw_firmware *f);

/* report.c */
void uw_firmware_report_start(const struct uw_firmware *f);
void uw_firmware_report_step(const struct uw_firmware *f);
void uw_firmware_report_eval(const struct uw_firmware *f, bool final);
void uw_firmware_report_error(const struct uw_firmware *f);
void uw_firmware_report_done(const struct uw_firmware *f);
void uw_firmware_report_event(void *arg, const struct uw_node_event *e);
void uw_firmware_report_peer(void *arg, const struct uw_secure_event *e);
void uw_firmware_report_status(const struct uw_firmware *f);
void uw_firmware_report_samples(const struct uw_firmware *f);
void uw_firmware_report_plan(const struct uw_firmware *f);
float uw_firmware_samples_per_s(const struct uw_firmware *f);

/* console.c: lines to and from a person, or a program, over a board's console. Output goes through
 * a ring buffer that empties at the UART's pace, so printing never delays training. Lines that do
 * not fit are dropped and counted. */

/* Print one line; '\n' is added. */
void uw_console_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Send and receive bytes. Returns a received line, without its end, valid until the next call;
 * NULL: none. */
const char *uw_console_step(void);

/* Whether all output was sent. */
bool uw_console_empty(void);

/* Lines that were dropped so far. */
uint32_t uw_console_dropped(void);

/* bus.c, or bus_none.c where UWASA_SECURE_FRAMES is off. link=bus: frames on a line that many
 * stations share, authenticated and encrypted one by one. */

/* The node's optional part for frames; NULL: this firmware has none. */
extern const struct uw_node_frames *const uw_firmware_frames;

/* Set up the bus at the second UART and the secure channel on it: f->link. Allocates from the first
 * region. Returns UW_OK or fills f->err. */
int uw_firmware_open_bus(struct uw_firmware *f);

/* commands.c: carry out a line of the console. */
void uw_firmware_command(struct uw_firmware *f, const char *line);

#endif
