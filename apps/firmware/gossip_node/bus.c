/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip_node.h"

#include "uwasa/link_frame.h"
#include "uwasa/radio_bus.h"
#include "uwasa/secure_frames.h"

#define TLS_BYTES 1536u                 /* three keys of 288, and a derivation */
#define PEERS 8u

const struct uw_node_frames *const uw_firmware_frames = &uw_node_frames;

struct bus {
    struct uw_radio_bus radio;
    struct uw_link_frame frame;
    struct uw_secure_frames secure;
};

static int open_radio(struct uw_firmware *f, struct bus *b)
{
    struct uw_radio_bus_config c = {.serial = uw_machine.serial,
                                    .address = (uint16_t)f->settings.station,
                                    .seed = f->settings.seed};
    int rc = uw_firmware_take(f, "link", uw_radio_bus_bytes(&c), &c.memory);
    c.memory_bytes = uw_radio_bus_bytes(&c);
    rc = rc < 0 ? rc : uw_radio_bus_init(&b->radio, &c);
    const struct uw_link_frame_config frame = {.radio = &b->radio.base};
    return rc < 0 ? rc : uw_link_frame_init(&b->frame, &frame);
}

/* A random identity at each start: so no counter must be kept over restarts. */
static int open_secure(struct uw_firmware *f, struct bus *b)
{
    struct uw_secure_frames_config c = {
        .lower = &b->frame.link, .run = f->settings.run, .peers_n = PEERS,
        .entropy = uw_firmware_entropy, .event = uw_firmware_report_peer, .user = f};
    c.memory_bytes = uw_secure_frames_bytes(&c);
    int rc = uw_firmware_take_secure(f, TLS_BYTES, c.memory_bytes, &c.memory, c.key);
    if (rc < 0) {
        return rc;
    }
    rc = uw_secure_frames_init(&b->secure, &c);
    uw_key_wipe(c.key, sizeof c.key);
    return rc < 0 ? uw_error_set(&f->err, rc, "secure channel: %s", uw_status_text(rc)) : UW_OK;
}

int uw_firmware_open_bus(struct uw_firmware *f)
{
    void *at = NULL;
    if (uw_machine.serial == NULL) {
        return uw_error_set(&f->err, UW_ERR_UNSUPPORTED, "link=bus: this board has no second UART");
    }
    if (f->settings.key[0] == '\0') {
        return uw_error_set(&f->err, UW_ERR_INVALID, "link=bus: needs a key");
    }
    int rc = uw_firmware_take(f, "link", sizeof(struct bus), &at);
    rc = rc < 0 ? rc : open_radio(f, at);
    rc = rc < 0 ? rc : open_secure(f, at);
    f->link = rc < 0 ? NULL : &((struct bus *)at)->secure.link;
    return rc;
}
