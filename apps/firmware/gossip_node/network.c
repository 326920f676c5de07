/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip_node.h"

#include "uwasa/mix.h"
#include "uwasa/secure_memory.h"

#include <string.h>

#define TLS_BYTES 10752u                /* six sessions and their handshakes took 9336 */
#define MEMBERS 8u
#define SERVES_SMALL 4u                 /* peers served at once if the window is small */
#define STATIONS 16u
#define SESSIONS 6u
#define HANDSHAKES 2u
#define LARGE_BYTES (1024u * 1024u)     /* of a region */
#define WINDOW_LARGE_BYTES (48u * 1024u)
#define WINDOW_SMALL_BYTES (8u * 1024u)
/* With -DUWASA_STATIC_PEERS=ON the seeds are the only peers, and membership is not linked. */
#if UWASA_STATIC_PEERS
#define node_measure uw_node_measure_listed
#define node_bind uw_node_bind_listed
#else
#define node_measure uw_node_measure
#define node_bind uw_node_bind
#endif

#define CHACHA20_POLY1305 0xccabu       /* TLS_PSK_WITH_CHACHA20_POLY1305_SHA256 */

int uw_firmware_entropy(void *user, uint8_t *out, size_t bytes)
{
    (void)user;
    return uw_machine_entropy(out, bytes);
}

int uw_firmware_take(struct uw_firmware *f, const char *what, size_t bytes, void **out)
{
    int rc = uw_arena_take(&f->arena[0], bytes, out);
    return rc < 0 ? uw_error_set(&f->err, rc, "%s: region %s has no %u bytes left", what,
                                 f->regions.region[0].name, (unsigned)bytes)
                  : UW_OK;
}

static int open_lwip(struct uw_firmware *f)
{
    const struct uw_settings *s = &f->settings;
    struct uw_link_lwip_config c = {
        .ethernet = uw_machine.ethernet, .address = s->address,
        .gateway = s->gateway[0] != '\0' ? s->gateway : NULL,
        .loopback = s->loopback[0] != '\0' ? s->loopback : NULL, .stations_n = STATIONS,
        .seed = s->seed};
    if (c.ethernet == NULL) {
        return uw_error_set(&f->err, UW_ERR_UNSUPPORTED, "this board has no Ethernet: link=serial");
    }
    c.memory_bytes = uw_link_lwip_bytes(&c);
    int rc = uw_firmware_take(f, "link", c.memory_bytes, &c.memory);
    return rc < 0 ? rc : uw_link_lwip_init(&f->lwip, &c, &f->err);
}

static int open_serial(struct uw_firmware *f)
{
    struct uw_link_serial_config c = {.serial = uw_machine.serial};
    if (c.serial == NULL) {
        return uw_error_set(&f->err, UW_ERR_UNSUPPORTED, "link=serial: this board has none");
    }
    c.memory_bytes = uw_link_serial_bytes(&c);
    int rc = uw_firmware_take(f, "link", c.memory_bytes, &c.memory);
    return rc < 0 ? rc : uw_link_serial_init(&f->serial, &c);
}

int uw_firmware_take_secure(struct uw_firmware *f, size_t tls_bytes, size_t bytes, void **out,
                            uint8_t key[UW_KEY_BYTES])
{
    void *tls = NULL;
    int rc = uw_firmware_take(f, "secure channel", tls_bytes, &tls);
    rc = rc < 0 ? rc : uw_firmware_take(f, "secure channel", bytes, out);
    if (rc < 0) {
        return rc;
    }
    f->tls_bytes = tls_bytes;
    uw_secure_memory_init(tls, tls_bytes);
    (void)uw_key_parse(f->settings.key, key);
    return UW_OK;
}

static int open_secure(struct uw_firmware *f)
{
    static const uint16_t suites[] = {CHACHA20_POLY1305, 0};
    struct uw_secure_dtls_config c = {
        .lower = f->link, .identity = f->settings.run, .sessions_n = SESSIONS,
        .handshakes_n = HANDSHAKES, .suites = suites, .entropy = uw_firmware_entropy,
        .event = uw_firmware_report_peer, .user = f};
    c.memory_bytes = uw_secure_dtls_bytes(&c);
    int rc = uw_firmware_take_secure(f, TLS_BYTES, c.memory_bytes, &c.memory, c.key);
    if (rc < 0) {
        return rc;
    }
    rc = uw_secure_dtls_init(&f->secure, &c);
    uw_key_wipe(c.key, sizeof c.key);
    return rc < 0 ? uw_error_set(&f->err, rc, "secure channel: %s", uw_status_text(rc)) : UW_OK;
}

static int open_dtls(struct uw_firmware *f)
{
    bool serial = f->settings.link == UW_SET_LINK_SERIAL;
    int rc = serial ? open_serial(f) : open_lwip(f);
    f->link = serial ? &f->serial.link : &f->lwip.link;
    if (rc == UW_OK && f->settings.key[0] != '\0') {
        rc = open_secure(f);
        f->link = &f->secure.link;
    }
    return rc;
}

int uw_firmware_open_link(struct uw_firmware *f)
{
    size_t used = f->arena[0].used_bytes;
    bool bus = f->settings.link == UW_SET_LINK_BUS;
    int rc = bus ? uw_firmware_open_bus(f) : open_dtls(f);
    f->network_bytes = f->arena[0].used_bytes - used;
    return rc;
}

static const char *seed[UW_SETTINGS_SEEDS_MAX];

static struct uw_node_config node_config(struct uw_firmware *f, const struct uw_params *params)
{
    static char text[sizeof f->settings.seeds];
    static struct uw_node_parts parts = {.answers = &uw_node_answers};
    const struct uw_settings *s = &f->settings;
    bool large = f->arena[0].capacity_bytes >= LARGE_BYTES;
    uint32_t window = s->window != 0 ? s->window : large ? WINDOW_LARGE_BYTES : WINDOW_SMALL_BYTES;
    parts.frames = uw_firmware_frames;
    memcpy(text, s->seeds, sizeof text);
    return (struct uw_node_config){
        .name = s->name, .run = s->run, .address = s->advertise, .seeds = seed,
        .seeds_n = uw_settings_seeds(text, seed), .incarnation = f->boots, .link = f->link,
        .params = params, .snapshot = f->snapshot ? &f->model.snapshot : NULL,
        .velocity = f->model.velocity, .newcomer = true, .trained_steps = (uint32_t)f->step,
        .rule = f->rule, .period_steps = s->period, .seed = s->seed,
        .window_bytes = window, .members_max = MEMBERS,
        .serves_max = window > WINDOW_SMALL_BYTES ? 0 : SERVES_SMALL,
        .parts = &parts, .on_event = uw_firmware_report_event, .event_arg = f};
}

int uw_firmware_node_bytes(struct uw_firmware *f, uint32_t size_n, uint32_t segments_n)
{
    const struct uw_params params = {.size_n = size_n, .segments_n = segments_n};
    const struct uw_node_config c = node_config(f, &params);
    size_t bytes = 0;
    int rc = node_measure(&c, &bytes, &f->err);
    return rc < 0 ? rc : (int)bytes;
}

/* Drop malformed seeds, which the node would try again for ever. */
static void drop_bad_seeds(struct uw_firmware *f, struct uw_node_config *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->seeds_n; i++) {
        uint16_t station;
        if (uw_link_resolve(f->link, c->seeds[i], &station) == UW_ERR_INVALID) {
            uw_console_line("seeds=%s: no address; going on without it", c->seeds[i]);
        } else {
            seed[n++] = c->seeds[i];
        }
    }
    c->seeds_n = n;
}

int uw_firmware_open_node(struct uw_firmware *f)
{
    struct uw_node_config c = node_config(f, &f->model.params);
    size_t used = f->arena[0].used_bytes;
    drop_bad_seeds(f, &c);
    int rc = node_bind(&f->node, &c, &f->arena[0], &f->err);
    f->network_bytes += f->arena[0].used_bytes - used;
    return rc;
}

static void feed(void)
{
    if (uw_machine.watchdog_feed != NULL) {
        uw_machine.watchdog_feed();
    }
}

void uw_firmware_poll(struct uw_firmware *f)
{
    if (f->polling) {               /* called again while a command erases flash */
        feed();
        return;
    }
    f->polling = true;
    uint64_t now_us = uw_machine_now_us();
    uint64_t since_us = now_us - f->polled_us;
    f->longest_us = f->polled_us != 0 && since_us > f->longest_us ? since_us : f->longest_us;
    if (f->node.state != NULL) {
        f->network_due_us = uw_node_step(&f->node, now_us);
    }
    if (f->uart.link != NULL) {
        uw_samples_step(&f->uart, now_us);
    }
    const char *line = f->erasing ? NULL : uw_console_step();
    if (line != NULL) {
        uw_firmware_command(f, line);
    }
    feed();
    f->polled_us = uw_machine_now_us();
    f->polling = false;
}
