/* SPDX-License-Identifier: Apache-2.0 */
#include "link_stack.h"

#include "uwasa/board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int uw_stack_entropy(void *user, uint8_t *out, size_t bytes)
{
    (void)user;
    return uw_board_entropy(out, bytes);
}

/* Memory for a link, entered in its configuration. */
static int take(struct uw_stack_block *b, size_t bytes, void **memory, size_t *memory_bytes,
                struct uw_error *err)
{
    int rc = bytes == SIZE_MAX ? UW_ERR_INVALID : uw_board_memory_take(bytes, &b->at);
    if (rc < 0) {
        return uw_error_set(err, rc, "the network: %s", uw_status_text(rc));
    }
    b->bytes = *memory_bytes = bytes;
    *memory = b->at;
    return UW_OK;
}

/* Turn an error of a link's init into a sentence. Returns rc. */
static int named(int rc, const char *what, struct uw_error *err)
{
    return rc < 0 ? uw_error_set(err, rc, "%s: %s", what, uw_status_text(rc)) : rc;
}

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
    struct uw_radio_bus_config bus = {.serial = &s->tty.base, .address = config->address,
                                      .frame_bytes = config->mtu_bytes};
    (void)uw_board_entropy((uint8_t *)&bus.seed, sizeof bus.seed);  /* else by the address */
    int rc = uw_serial_tty_open(&s->tty, config->device, config->baud, err);
    rc = rc < 0 ? rc : take(&s->blocks[0], uw_radio_bus_bytes(&bus), &bus.memory,
                            &bus.memory_bytes, err);
    return rc < 0 ? rc : named(uw_radio_bus_init(&s->bus, &bus), config->device, err);
}

static int open_radio(struct uw_stack *s, const struct uw_stack_config *config,
                      struct uw_error *err)
{
    bool is_bus = config->carrier == UW_STACK_BUS;
    const struct uw_link_frame_config frame = {.radio = is_bus ? &s->bus.base
                                                               : &s->multicast.base};
    int rc = is_bus ? open_bus(s, config, err) : open_multicast(s, config, err);
    s->top = &s->frame.link;
    return rc < 0 ? rc : named(uw_link_frame_init(&s->frame, &frame), "the radio", err);
}

static struct uw_secure_keys *keys_of(const struct uw_stack_config *config)
{
    return config->keyfile != NULL ? &config->keyfile->keys : NULL;
}

static int secure_radio(struct uw_stack *s, const struct uw_stack_config *config,
                        struct uw_error *err)
{
    /* Without a store: this start's identity is drawn at random. */
    struct uw_secure_frames_config secure = {.lower = s->top,
                                             .run = config->run,
                                             .peers_n = config->peers_n,
                                             .entropy = uw_stack_entropy,
                                             .event = config->event,
                                             .user = config->user};
    const uint8_t *key = config->keyfile != NULL ? uw_secure_keys_run_key(&config->keyfile->keys)
                                                 : config->key;
    if (key == NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "key %.160s: is that of a device, for which "
                                                 "messages of a radio or bus are too short: they "
                                                 "need a run key, from uwasa keygen FILE",
                            config->keyfile->file);
    }
    int rc = take(&s->blocks[2], uw_secure_frames_bytes(&secure), &secure.memory,
                  &secure.memory_bytes, err);
    if (rc == UW_OK) {
        memcpy(secure.key, key, UW_KEY_BYTES);
        rc = named(uw_secure_frames_init(&s->frames, &secure), "the secure channel", err);
        uw_key_wipe(secure.key, sizeof secure.key);
        s->top = &s->frames.link;
    }
    return rc;
}

bool uw_stack_address_ok(const char *text, bool listen)
{
    bool bracket = text[0] == '[';
    const char *host = text + (bracket ? 1 : 0);
    const char *end = strchr(host, bracket ? ']' : ':');
    const char *colon = end != NULL && bracket ? end + 1 : end;
    if (colon == NULL || colon[0] != ':' || colon[1] < '0' || colon[1] > '9') {
        return false;
    }
    char *rest;
    unsigned long port = strtoul(colon + 1, &rest, 10);
    return *rest == '\0' && port <= UINT16_MAX && (listen || (port > 0 && end > host));
}

static int open_udp(struct uw_stack *s, const struct uw_stack_config *config,
                    struct uw_error *err)
{
    struct uw_link_udp_config udp = {.bind = config->listen,
                                     .stations_n = (uint16_t)(2u * config->peers_n + 32u),
                                     .mtu_bytes = config->mtu_bytes,
                                     .together = config->together};
    int rc = take(&s->blocks[0], uw_link_udp_bytes(&udp), &udp.memory, &udp.memory_bytes, err);
    s->top = &s->udp.link;
    return rc < 0 ? rc : uw_link_udp_init(&s->udp, &udp, err);
}

/* Takes any message that a node sends. */
#define STREAM_MTU_BYTES (64u * 1024u + 64u)
#define EMULATED_QUEUE_N 1024u
#define EMULATED_QUEUE_BYTES (16u << 20)
#define LEAVE_LOOK_NS 1000000
#define KEYS_US 50000u

/* For nodes with a model. Every connection has buffers for two messages, so small models use small
 * ones. All nodes of a run have the same model, hence the same size. */
#define STREAM_MTU_LEAST 8192u
#define STREAM_MTU_MOST (62u * 1024u + 64u)     /* fits one packet with segmentation offload */
#define STREAM_MTU_PARTS 16u

uint32_t uw_stack_stream_mtu(size_t model_bytes)
{
    size_t part = model_bytes / STREAM_MTU_PARTS;
    return part < STREAM_MTU_LEAST  ? STREAM_MTU_LEAST
           : part > STREAM_MTU_MOST ? STREAM_MTU_MOST
                                    : (uint32_t)part;
}

static int open_tls(struct uw_stack *s, const struct uw_stack_config *config,
                    struct uw_error *err)
{
    struct uw_secure_stream_config tls = {.keys = keys_of(config),
                                          .identity = config->run,
                                          .suites = config->suites,
                                          .bulk = config->bulk,
                                          .entropy = uw_stack_entropy,
                                          .event = config->event,
                                          .user = config->user};
    int rc = take(&s->blocks[3], uw_secure_stream_bytes(&tls), &tls.memory, &tls.memory_bytes,
                  err);
    if (rc == UW_OK) {
        if (config->keyfile == NULL) {
            memcpy(tls.key, config->key, UW_KEY_BYTES);
        }
        rc = named(uw_secure_stream_init(&s->tls, &tls), "TLS", err);
        uw_key_wipe(tls.key, sizeof tls.key);
    }
    return rc;
}


static int open_stream(struct uw_stack *s, const struct uw_stack_config *config,
                       struct uw_error *err)
{
    int rc = config->plain ? UW_OK : open_tls(s, config, err);
    struct uw_link_tcp_config tcp = {.bind = config->listen,
                                     .guard = config->plain ? NULL : &s->tls.guard,
                                     .mtu_bytes = config->mtu_bytes != 0 ? config->mtu_bytes
                                                                         : STREAM_MTU_BYTES,
                                     .stations_n = (uint16_t)(config->peers_n + 8u),
                                     .narrow = config->narrow,
                                     .user = config->user};
    rc = rc < 0 ? rc : take(&s->blocks[0], uw_link_tcp_bytes(&tcp), &tcp.memory,
                            &tcp.memory_bytes, err);
    s->top = &s->tcp.link;
    return rc < 0 ? rc : uw_link_tcp_init(&s->tcp, &tcp, err);
}

static int open_mpi(struct uw_stack *s, const struct uw_stack_config *config,
                    struct uw_error *err)
{
    struct uw_link_mpi_config mpi = {.mtu_bytes = config->mtu_bytes != 0 ? config->mtu_bytes
                                                                         : STREAM_MTU_BYTES};
    int rc = take(&s->blocks[0], uw_link_mpi_bytes(&mpi), &mpi.memory, &mpi.memory_bytes, err);
    s->top = &s->mpi.link;
    return rc < 0 ? rc : uw_link_mpi_init(&s->mpi, &mpi, err);
}

static int open_line(struct uw_stack *s, const struct uw_stack_config *config,
                     struct uw_error *err)
{
    struct uw_link_serial_config serial = {.serial = &s->tty.base, .mtu_bytes = config->mtu_bytes};
    int rc = uw_serial_tty_open(&s->tty, config->device, config->baud, err);
    rc = rc < 0 ? rc : take(&s->blocks[0], uw_link_serial_bytes(&serial), &serial.memory,
                            &serial.memory_bytes, err);
    s->top = &s->serial.link;
    return rc < 0 ? rc : named(uw_link_serial_init(&s->serial, &serial), config->device, err);
}

static int open_carrier(struct uw_stack *s, const struct uw_stack_config *config,
                        struct uw_error *err)
{
    int rc = UW_ERR_INVALID;
    switch (config->carrier) {
    case UW_STACK_UDP: rc = open_udp(s, config, err); break;
    case UW_STACK_TCP: rc = open_stream(s, config, err); break;
    case UW_STACK_MPI: rc = open_mpi(s, config, err); break;
    case UW_STACK_SERIAL: rc = open_line(s, config, err); break;
    case UW_STACK_BUS:
    case UW_STACK_RADIO: rc = open_radio(s, config, err); break;
    }
    s->base = s->top;
    return rc;
}

int uw_stack_local(const struct uw_stack *s, char text[UW_LINK_ADDRESS_BYTES])
{
    if (s->base == &s->serial.link) {
        snprintf(text, UW_LINK_ADDRESS_BYTES, "%.63s", s->tty.path);
        return UW_OK;
    }
    if (s->base == &s->frame.link) {
        return uw_link_describe(s->base, s->base->own, text);
    }
    return s->base == &s->mpi.link   ? uw_link_describe(s->base, s->mpi.rank, text)
           : s->base == &s->tcp.link ? uw_link_tcp_local(&s->tcp, text)
                                     : uw_link_udp_local(&s->udp, text);
}

uint32_t uw_stack_own_addresses(void *arg, uint8_t *out, uint32_t cap_bytes)
{
    const struct uw_stack *s = arg;
    return s->base == &s->tcp.link   ? uw_link_tcp_own(&s->tcp, out, cap_bytes)
           : s->base == &s->udp.link ? uw_link_udp_own(&s->udp, out, cap_bytes)
                                     : 0;
}

static int open_capture(struct uw_stack *s, const struct uw_stack_config *config,
                        struct uw_error *err)
{
    if (config->pcap == NULL) {
        return UW_OK;
    }
    int rc = uw_capture_file_open(&s->capture, config->pcap, s->top, err);
    s->top = &s->capture.link.link;
    return rc;
}

static bool is_far(void *arg, uint16_t station)
{
    struct uw_stack *s = arg;
    char address[UW_LINK_ADDRESS_BYTES];
    if (uw_link_describe(s->base, station, address) != UW_OK) {
        return false;
    }
    for (uint32_t i = 0; i < s->far_n; i++) {
        if (strcmp(s->far[i], address) == 0) {
            return true;
        }
    }
    return false;
}

static void report_device(struct uw_stack *s)
{
    if (s->tty.away != s->gone) {
        s->gone = s->tty.away;
        if (s->on_device != NULL) {
            s->on_device(s->user, s->tty.path, s->gone);
        }
    }
}

void uw_stack_step(struct uw_stack *s, uint64_t now_us)
{
    struct uw_keyfile_news news;
    report_device(s);
    if (s->keyfile != NULL && now_us >= s->keys_us) {
        s->keys_us = now_us + KEYS_US;
        if (uw_keyfile_step(s->keyfile, &news) && s->on_keys != NULL) {
            s->on_keys(s->user, s->keyfile, &news);
        }
    }
    uint64_t at_us = now_us - s->opened_us;
    bool cut = s->cut_us != 0 && at_us >= s->cut_from_us && at_us < s->cut_from_us + s->cut_us;
    if (cut != s->cut) {
        s->cut = cut;
        (void)uw_link_emulated_cut(&s->emulated, UW_LINK_STATION_BROADCAST,
                                   cut ? UW_EMULATED_BOTH : 0);
    }
}

static int open_emulated(struct uw_stack *s, const struct uw_stack_config *config,
                         struct uw_error *err)
{
    static const struct uw_impairment fine;
    bool bad = config->bad != NULL && memcmp(config->bad, &fine, sizeof fine) != 0;
    if (!bad && config->cut_us == 0) {
        return UW_OK;
    }
    uint32_t most_n = EMULATED_QUEUE_BYTES / s->top->mtu_bytes;
    uint32_t queue_n = most_n < EMULATED_QUEUE_N ? most_n : EMULATED_QUEUE_N;
    s->far = config->far;
    s->far_n = config->far_n;
    s->opened_us = uw_board_now_us();
    s->cut_from_us = config->cut_from_us;
    s->cut_us = config->cut_us;
    struct uw_link_emulated_config emulated = {.lower = s->top,
                                               .queue_n = queue_n,
                                               .seed = config->bad_seed,
                                               .send = bad ? *config->bad : fine,
                                               .far = config->far_n != 0 ? is_far : NULL,
                                               .far_arg = s};
    int rc = take(&s->blocks[1], uw_link_emulated_bytes(&emulated), &emulated.memory,
                  &emulated.memory_bytes, err);
    rc = rc < 0 ? rc : named(uw_link_emulated_init(&s->emulated, &emulated),
                             "the emulated network", err);
    s->top = &s->emulated.link;
    return rc;
}

static int open_secure(struct uw_stack *s, const struct uw_stack_config *config,
                       struct uw_error *err)
{
    struct uw_secure_dtls_config secure = {.lower = s->top,
                                           .keys = keys_of(config),
                                           .identity = config->run,
                                           .sessions_n = (uint16_t)(2u * config->peers_n),
                                           .suites = config->suites,
                                           .bulk = config->bulk,
                                           .paths = config->carrier == UW_STACK_UDP
                                                        ? &uw_secure_paths : NULL,
                                           .entropy = uw_stack_entropy,
                                           .event = config->event,
                                           .user = config->user};
    int rc = take(&s->blocks[2], uw_secure_dtls_bytes(&secure), &secure.memory,
                  &secure.memory_bytes, err);
    if (rc == UW_OK) {
        if (config->keyfile == NULL) {
            memcpy(secure.key, config->key, UW_KEY_BYTES);
        }
        rc = named(uw_secure_dtls_init(&s->secure, &secure), "the secure channel", err);
        uw_key_wipe(secure.key, sizeof secure.key);
        s->top = &s->secure.link;
    }
    return rc;
}

int uw_stack_open(struct uw_stack *s, const struct uw_stack_config *config, struct uw_error *err)
{
    memset(s, 0, sizeof *s);
    s->on_device = config->on_device;
    s->keyfile = config->keyfile;
    s->on_keys = config->on_keys;
    s->user = config->user;
    int rc = open_carrier(s, config, err);
    rc = rc < 0 ? rc : open_capture(s, config, err);
    rc = rc < 0 ? rc : open_emulated(s, config, err);
    bool own = config->carrier == UW_STACK_TCP || config->carrier == UW_STACK_MPI;
    if (rc == UW_OK && uw_stack_is_radio(config->carrier)) {
        rc = secure_radio(s, config, err);
    } else if (rc == UW_OK && !own) {
        rc = open_secure(s, config, err);
    }
    if (rc == UW_OK && config->over != NULL) {
        s->top = config->over(config->over_arg, s->top);
    }
    return rc;
}

size_t uw_stack_bytes(const struct uw_stack *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof s->blocks / sizeof s->blocks[0]; i++) {
        bytes += s->blocks[i].bytes;
    }
    return bytes;
}

void uw_stack_close(struct uw_stack *s)
{
    while (!uw_link_mpi_leave(&s->mpi)) {
        nanosleep(&(struct timespec){.tv_nsec = LEAVE_LOOK_NS}, NULL);
    }
    uw_link_deinit(&s->secure.link);
    uw_link_deinit(&s->frames.link);
    uw_link_deinit(&s->emulated.link);
    uw_capture_file_close(&s->capture);
    uw_link_deinit(&s->frame.link);
    uw_radio_udp_deinit(&s->multicast);
    uw_link_deinit(&s->udp.link);
    uw_link_deinit(&s->tcp.link);
    uw_link_deinit(&s->mpi.link);
    uw_link_deinit(&s->serial.link);
    uw_serial_tty_close(&s->tty);
    uw_secure_stream_deinit(&s->tls);
    for (size_t i = 0; i < sizeof s->blocks / sizeof s->blocks[0]; i++) {
        uw_board_memory_release(s->blocks[i].at, s->blocks[i].bytes);
    }
    memset(s->blocks, 0, sizeof s->blocks);
    s->base = s->top = NULL;
}
