/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes on a line of many stations: whatever comes, what is delivered is from an address and fits,
 * and a frame behind it arrives. The corpus: what stations say. The checksums of most short frames
 * are made right after a mutation. */
#include "fuzz.h"
#include "line_form.h"

#include "serial_line.h"

#include "uwasa/link_frame.h"
#include "uwasa/radio_bus.h"

#include <stdlib.h>

#define FRAME 120u
#define SMALL 50u               /* room of a receiver that is in a hurry */
#define LOOK_US 500u
#define WAIT_US 200000u

static struct serial_line line;
static struct uw_radio_bus buses[2];
static struct uw_link_frame links[2];
static uint64_t now_us;

static int open_stations(void)
{
    static _Alignas(16) uint8_t memory[2][1024];
    int rc = UW_OK;
    serial_line_open(&line, 3, 1000000);
    now_us = 0;
    for (uint16_t i = 0; i < 2 && rc == UW_OK; i++) {
        const struct uw_radio_bus_config c = {.serial = &line.at[i].base, .address = i,
                                              .memory = memory[i],
                                              .memory_bytes = sizeof memory[i],
                                              .frame_bytes = FRAME};
        const struct uw_link_frame_config f = {.radio = &buses[i].base};
        rc = uw_radio_bus_init(&buses[i], &c);
        rc = rc < 0 ? rc : uw_link_frame_init(&links[i], &f);
    }
    return rc;
}

static void step(void)
{
    now_us += LOOK_US;
    serial_line_run(&line, now_us);
    (void)uw_link_step(&links[0].link, now_us);
    (void)uw_link_step(&links[1].link, now_us);
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const uint32_t sizes[] = {0, 1, 5, 60, FRAME};
    uint8_t message[FRAME], heard[512];
    for (size_t i = 0; i < 2u * sizeof sizes / sizeof sizes[0]; i++) {
        for (uint32_t k = 0; k < FRAME; k++) {
            message[k] = (uint8_t)(i < 3 ? 0 : k);
        }
        if (open_stations() < 0) {
            abort();
        }
        step();
        (void)uw_link_send(&links[0].link, i % 2 == 0 ? 1 : UW_LINK_STATION_BROADCAST, message,
                           sizes[i / 2]);
        for (int k = 0; k < 20; k++) {
            step();
        }
        int n = line.at[2].base.ops->read(&line.at[2].base, heard, sizeof heard);
        uw_fuzz_add(corpus, heard, (size_t)n);
    }
}

static int try_one(const uint8_t *input, size_t bytes)
{
    uint8_t buf[FRAME];
    uint16_t from;
    int delivered = 0;
    if (open_stations() < 0) {
        return -1;
    }
    struct uw_serial *s = &line.at[2].base;
    (void)s->ops->write(s, input, (uint32_t)bytes);
    uint32_t spoken_us = (uint32_t)bytes * 10u;
    for (bool sent = false; now_us < spoken_us + WAIT_US;) {
        step();
        if (!sent && now_us > spoken_us) {
            sent = uw_link_send(&links[0].link, 1, "hello", 5) == UW_OK;
        }
        for (uint16_t i = 0; i < 2; i++) {
            int n = uw_link_recv(&links[i].link, &from, buf, i == 0 ? sizeof buf : SMALL);
            if (n > (int)FRAME || (n >= 0 && from > UW_RADIO_ADDRESS_MAX)) {
                return -1;
            }
            delivered += n >= 0;
            if (i == 1 && n == 5 && from == 0 && memcmp(buf, "hello", 5) == 0) {
                line.at[1].closed = true;
                step();
                return uw_link_recv(&links[1].link, &from, buf, FRAME) == UW_ERR_CLOSED &&
                               links[1].link.fd == -1
                           ? delivered < 9 ? delivered : 9
                           : -1;
            }
        }
    }
    return -1;
}

static void seal(uint8_t *input, size_t bytes)
{
    uw_fuzz_seal_line(input, bytes, UW_RADIO_BUS_CRC_START);
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"bus", add_inputs, try_one, 2000};
    return uw_fuzz_run_form(&target, &(struct uw_fuzz_form){.seal = seal}, argc, argv);
}
