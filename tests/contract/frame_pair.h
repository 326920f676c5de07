/* SPDX-License-Identifier: Apache-2.0
 *
 * Two ends of a link over a radio of frames, for every radio there is. */
#ifndef UWASA_TEST_FRAME_PAIR_H
#define UWASA_TEST_FRAME_PAIR_H

#include "link_pair.h"

static inline void open_frame_end(struct pair *p, size_t i, struct uw_radio *radio)
{
    const struct uw_link_frame_config config = {.radio = radio};
    assert_int_equal(uw_link_frame_init(&p->frame[i], &config), UW_OK);
    p->link[i] = &p->frame[i].link;
    p->to[i] = radio->address == 0 ? 1 : 0;
    p->all_exist = true;
}

static inline const char *open_frame(struct pair *p)
{
    open_emulated(p);
    for (size_t i = 0; i < 2; i++) {
        const struct uw_radio_link_config config = {.lower = p->link[i],
                                                    .no_broadcasts = i == 0};
        assert_int_equal(uw_radio_link_init(&p->radio[i], &config), UW_OK);
        p->lower[i] = p->link[i];
        open_frame_end(p, i, &p->radio[i].base);
    }
    return NULL;
}

static inline void open_bus_end(struct pair *p, uint16_t i, struct uw_serial *serial)
{
    struct uw_radio_bus_config config = {.serial = serial, .address = i, .frame_bytes = 200};
    config.memory_bytes = uw_radio_bus_bytes(&config);
    config.memory = block(p, config.memory_bytes);
    assert_int_equal(uw_radio_bus_init(&p->bus[i], &config), UW_OK);
    p->waits = true;
    open_frame_end(p, i, &p->bus[i].base);
}

static inline const char *open_bus(struct pair *p)
{
    serial_pipe_join(&p->pipe[0], &p->pipe[1]);
    p->pipe[0].take_bytes = 5;
    for (uint16_t i = 0; i < 2; i++) {
        open_bus_end(p, i, &p->pipe[i].base);
    }
    return NULL;
}

static inline const char *open_multicast(struct pair *p)
{
    p->real_time = true;
    for (uint16_t i = 0; i < 2; i++) {
        char group[UW_LINK_ADDRESS_BYTES];
        snprintf(group, sizeof group, "239.255.85.87:%u", 20000u + (unsigned)getpid() % 40000u);
        const struct uw_radio_udp_config config = {.group = group, .address = i,
                                                   .frame_bytes = UW_RADIO_FRAME_MAX};
        if (uw_radio_udp_init(&p->multicast[i], &config, NULL) != UW_OK) {
            return "this machine has no multicast on its loopback interface";
        }
        open_frame_end(p, i, &p->multicast[i].base);
    }
    return NULL;
}

#endif
