/* SPDX-License-Identifier: Apache-2.0
 *
 * The links of a node on a radio or a bus. */
#include "stack_inner.h"

#include "uwasa/board.h"

#include <string.h>

static int open_multicast(struct uw_stack *s, const struct uw_stack_config *config,
                          struct uw_error *err)
{
    const struct uw_radio_udp_config radio = {.group = config->group,
                                              .interface = config->interface,
                                              .address = config->address,
                                              .frame_bytes = config->mtu_bytes};
    return uw_radio_udp_init(&s->multicast, &radio, err);
}

static int open_bus(struct uw_stack *s, const struct uw_stack_config *config, struct uw_error *err)
{
    struct uw_stack_block *b = &s->blocks[0];
    struct uw_radio_bus_config bus = {.serial = &s->tty.base, .address = config->address,
                                      .frame_bytes = config->mtu_bytes};
    int rc = uw_serial_tty_open(&s->tty, config->device, config->baud, err);
    rc = rc < 0 ? rc : uw_stack_take(b, uw_radio_bus_bytes(&bus), err);
    if (rc < 0) {
        return rc;
    }
    (void)uw_board_entropy((uint8_t *)&bus.seed, sizeof bus.seed);  /* else by the address */
    bus.memory = b->at;
    bus.memory_bytes = b->bytes;
    rc = uw_radio_bus_init(&s->bus, &bus);
    return rc < 0 ? uw_error_set(err, rc, "%s: %s", config->device, uw_status_text(rc)) : UW_OK;
}

int uw_stack_open_radio(struct uw_stack *s, const struct uw_stack_config *config,
                        struct uw_error *err)
{
    bool is_bus = config->carrier == UW_STACK_BUS;
    int rc = is_bus ? open_bus(s, config, err) : open_multicast(s, config, err);
    if (rc < 0) {
        return rc;
    }
    const struct uw_link_frame_config frame = {.radio = is_bus ? &s->bus.base
                                                               : &s->multicast.base};
    s->top = &s->frame.link;
    rc = uw_link_frame_init(&s->frame, &frame);
    return rc < 0 ? uw_error_set(err, rc, "the radio: %s", uw_status_text(rc)) : UW_OK;
}

int uw_stack_secure_radio(struct uw_stack *s, const struct uw_stack_config *config,
                          struct uw_error *err)
{
    struct uw_stack_block *b = &s->blocks[2];
    /* Without a store: this start's identity is drawn at random. */
    struct uw_secure_frames_config secure = {.lower = s->top,
                                             .run = config->run,
                                             .peers_n = config->peers_n,
                                             .entropy = uw_stack_entropy,
                                             .event = config->event,
                                             .user = config->user};
    int rc = uw_stack_take(b, uw_secure_frames_bytes(&secure), err);
    if (rc < 0) {
        return rc;
    }
    memcpy(secure.key, config->key, UW_KEY_BYTES);
    secure.memory = b->at;
    secure.memory_bytes = b->bytes;
    rc = uw_secure_frames_init(&s->frames, &secure);
    uw_key_wipe(secure.key, sizeof secure.key);
    if (rc < 0) {
        return uw_error_set(err, rc, "the secure channel: %s", uw_status_text(rc));
    }
    s->top = &s->frames.link;
    return UW_OK;
}
