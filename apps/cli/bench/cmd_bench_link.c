/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_link.h"
#include "base/args.h"
#include "base/commands.h"
#include "base/events.h"
#include "base/progress.h"
#include "job/job.h"
#include "links/link_cost.h"

#include "uwasa/board.h"
#include "uwasa/link_serial.h"
#include "uwasa/serial_tty.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINKS "udp, tcp, serial, 802154, espnow or bus:BAUD"
#define PHY_BYTES_802154 6u         /* in front of a frame of 127 */
#define BYTES_FAST (64u << 20)
#define BYTES_NARROW 40000u
#define WINDOWS_FAST 5u
#define BAUD_DEFAULT 115200u
#define NODES_DEFAULT 8u
#define QUIET_US 2000000u           /* progress is shown only after this time */
#define TARGET_BYTES_PER_S 250e6    /* of UDP on one machine, encrypted: 2 Gbit/s */

struct options {
    struct uw_bench_link b;
    struct uw_choice exchange;      /* 0: pull, 1: average */
    struct uw_choice cipher;        /* 0: auto, else ciphers[at - 1] */
    const char *json;
    bool access;
};

#define ROW(...) UW_OPT_ROW(struct options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("link", UW_OPT_TEXT, b.link, 0, 0, "LINK",
        "udp or tcp on this machine, or serial over two pseudo terminals, encrypted as by `uwasa "
        "node` (udp); a radio in virtual time: 802154, espnow; a bus in virtual time, without "
        "collisions: bus:9600"),
    ROW("exchange", UW_OPT_CHOICE, exchange, 0, 0, "pull|average",
        "pull: one node pulls from another; average: all nodes of a radio average by broadcast "
        "(pull)"),
    ROW("bytes", UW_OPT_BYTES, b.bytes, 4, 4294967292.0, "N",
        "size of the parameters, four bytes a float (40000; udp and tcp: 64M)"),
    ROW("loss", UW_OPT_REAL, b.loss, 0, 0.8, "F", "share of messages lost, up to 0.8 (0)"),
    ROW("rate", UW_OPT_U64, b.rate_bits_per_s, 1000, 1e12, "BITS_PER_S",
        "bits a second of the link (udp, tcp: not limited; a line: 115200; a radio: its own)"),
    ROW("latency", UW_OPT_REAL, b.latency_s, 0, 60, "S", "additional latency, one way (0)"),
    ROW("nodes", UW_OPT_U32, b.nodes, 2, UW_BENCH_LINK_NODES_MAX, "N",
        "radio: nodes that share the channel (8)"),
    ROW("access", UW_OPT_FLAG, access, 0, 0, NULL,
        "radio: each frame also takes the mean time of channel access; a bus always does"),
    ROW("pulls", UW_OPT_U32, b.pulls, 1, UW_BENCH_LINK_NODES_MAX, "K",
        "radio: nodes that pull at once, each from the next one (1)"),
    ROW("code", UW_OPT_FLAG, b.code, 0, 0, NULL,
        "radio: pulls fetch chunks in a lossless code, as with \"code\" of a node"),
    ROW("windows", UW_OPT_U32, b.windows, 1, UW_BENCH_LINK_WINDOWS_MAX, "N",
        "udp, tcp, serial: pulls, one after the other; the median counts (5; serial: 1)"),
    ROW("mtu", UW_OPT_BYTES_U32, b.mtu_bytes, 256, 65507, "BYTES",
        "udp, tcp, serial: largest message (as of a node)"),
    ROW("cipher", UW_OPT_CHOICE, cipher, 0, 0, "auto|chacha20-poly1305|aes-128-ccm|aes-128-gcm",
        "udp, tcp, serial: cipher of DTLS or TLS (auto, as a node chooses: from 4 MiB on "
        "aes-128-ccm where the processor has AES, else chacha20-poly1305)"),
    ROW("clear", UW_OPT_FLAG, b.clear, 0, 0, NULL, "tcp: no encryption"),
    ROW("seed", UW_OPT_U64, b.seed, 0, 0, "N", "seed of parameters and losses (1)"),
    ROW("pcap", UW_OPT_TEXT, b.pcap, 0, 0, "FILE",
        "write the messages of one node for Wireshark, as `uwasa node --pcap`"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write events as JSON lines"),
};

static const struct uw_args_spec spec = {
    .command = "bench link",
    .summary = "measure a pull of parameters from node to node over a link",
    .usage = "[flags]",
    .example = "uwasa bench link --link 802154 --loss 0.2 --json -",
    .epilogue =
        "The time runs from the start of a pull to its end. The share compares the parameters\n"
        "with\n"
        "the capacity of the link in this time. Capacity of a radio: the bytes of longest frames,\n"
        "headers included, sent back to back (127 of 802.15.4, so the MAC's 11, uwasa's own\n"
        "headers, the tag, requests, membership and idle air all count against it). Of serial:\n"
        "the bytes of the line, ten bits each. Of others: --rate; without it no share is shown.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

/* All of them with forward secrecy. */
static const struct cipher {
    const char *name;
    uint16_t suites[2];
} ciphers[] = {
    {"chacha20-poly1305", {0xccac, 0}},     /* ECDHE-PSK */
    {"aes-128-ccm", {0xc0a6, 0}},           /* DHE-PSK */
    {"aes-128-gcm", {0x00aa, 0}},           /* DHE-PSK */
};

/* NULL: none of them. */
static const struct cipher *find_cipher(uint16_t suite)
{
    for (size_t i = 0; i < sizeof ciphers / sizeof ciphers[0]; i++) {
        if (suite == ciphers[i].suites[0]) {
            return &ciphers[i];
        }
    }
    return NULL;
}

/* Whether TARGET_BYTES_PER_S applies. */
static bool has_target(const struct uw_bench_link *b)
{
    bool plain = b->rate_bits_per_s == 0 && b->loss <= 0.0 && b->latency_s <= 0.0;
    return b->radio == NULL && b->carrier == UW_STACK_UDP && plain && b->bytes >= BYTES_FAST;
}

static int by_seconds(const void *a, const void *b)
{
    const struct uw_bench_link_window *x = a, *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* Bytes that the link can carry in so many seconds; 0: not known. payload: without the radio's own
 * headers. */
static double capacity_bytes(const struct uw_bench_link *b, double seconds, bool payload)
{
    const struct uw_radio_profile *p = b->radio;
    if (p == NULL) {
        return seconds * (double)b->rate_bits_per_s / (b->carrier == UW_STACK_SERIAL ? 10 : 8);
    }
    uint32_t phy = p->kind == UW_RADIO_802154 ? PHY_BYTES_802154 : 0;
    uint32_t bytes = p->frame_bytes + (payload ? 0 : p->overhead_bytes - phy);
    return seconds * 1e9 / (double)uw_radio_profile_airtime_ns(p, p->frame_bytes) * bytes;
}

static struct uw_link_cost cost_of(const struct uw_bench_link *b, double loss)
{
    const struct uw_link_cost_config config = {
        .link = *b->radio, .floats_n = (uint32_t)(b->bytes / sizeof(float)), .nodes_n = b->nodes,
        .loss = loss, .share = 1.0};
    struct uw_link_cost cost;
    uw_link_cost(&config, &cost);
    return cost;
}

/* What `uwasa plan --link` predicts. */
static double predicted_s(const struct uw_bench_link *b)
{
    const struct uw_link_cost cost = cost_of(b, b->loss);
    return b->average             ? cost.average.seconds
           : b->pulls == b->nodes ? cost.round.seconds
                                  : cost.pull.seconds * b->pulls;
}

static void put_plan(cJSON *ev, const struct uw_bench_link *b, const struct uw_bench_link_window *m)
{
    const struct uw_link_cost once = cost_of(b, 0.0);
    cJSON_AddNumberToObject(ev, "predicted_seconds", predicted_s(b));
    if (b->average) {
        double model_s = once.chunks * 1e-9 *
                         (double)uw_radio_profile_airtime_ns(b->radio, b->radio->frame_bytes);
        cJSON_AddBoolToObject(ev, "exact", m->exact);
        UW_EVENT_NUMBERS(ev, {"heard_share", m->received}, {"chunks", (double)m->chunks},
                         {"missed_chunks", (double)m->missed}, {"air_models", m->air_s / model_s});
    }
}

/* Bytes of parameters that moved from one node to another or, in an average, to all others; each
 * receiver counts for itself. */
static double moved_bytes(const struct uw_bench_link *b, const struct uw_bench_link_window *m)
{
    return (double)b->bytes * (b->average ? b->nodes * m->received : b->pulls);
}

static void put_done(struct uw_events *events, const struct uw_bench_link *b,
                     const struct uw_bench_link_window *w, uint32_t windows)
{
    const struct uw_bench_link_window *m = &w[windows / 2u];
    double moved = moved_bytes(b, m);
    double capacity = capacity_bytes(b, m->seconds, false);
    cJSON *ev = uw_event("done");
    cJSON_AddStringToObject(ev, "link", b->link);
    cJSON_AddStringToObject(ev, "exchange", b->average ? "average" : "pull");
    cJSON_AddBoolToObject(ev, "clear", b->clear);
    UW_EVENT_NUMBERS(ev, {"bytes", (double)b->bytes}, {"nodes", b->nodes});
    if (!b->average) {
        cJSON_AddNumberToObject(ev, "pulls", b->pulls);
    }
    UW_EVENT_NUMBERS(ev, {"loss", b->loss}, {"seconds", m->seconds});
    if (b->radio == NULL) {
        cJSON_AddNumberToObject(ev, "seconds_low", w[0].seconds);
        cJSON_AddNumberToObject(ev, "seconds_high", w[windows - 1u].seconds);
    }
    cJSON_AddNumberToObject(ev, "goodput_bytes_per_s", moved / m->seconds);
    if (has_target(b)) {
        cJSON_AddNumberToObject(ev, "target_bytes_per_s", TARGET_BYTES_PER_S);
    }
    if (find_cipher(m->suite) != NULL) {
        cJSON_AddStringToObject(ev, "cipher", find_cipher(m->suite)->name);
    }
    if (capacity > 0.0) {
        cJSON_AddNumberToObject(ev, "capacity_share", moved / capacity);
    }
    cJSON_AddNumberToObject(ev, "data_frames", (double)m->data_frames);
    cJSON_AddNumberToObject(ev, "control_frames", (double)m->control_frames);
    cJSON_AddNumberToObject(ev, "membership_frames", (double)m->membership_frames);
    if (b->radio != NULL) {
        UW_EVENT_NUMBERS(ev, {"payload_share", moved / capacity_bytes(b, m->seconds, true)},
                         {"air_frames", (double)m->air_frames}, {"air_seconds", m->air_s});
        put_plan(ev, b, m);
    }
    uw_events_put(events, ev);
}

static void print(const struct uw_bench_link *b, const struct uw_bench_link_window *w,
                  uint32_t windows)
{
    const struct uw_bench_link_window *m = &w[windows / 2u];
    double moved = moved_bytes(b, m);
    double capacity = capacity_bytes(b, m->seconds, false);
    if (b->average) {
        printf("average of %u nodes' %lu bytes", (unsigned)b->nodes, (unsigned long)b->bytes);
    } else {
        printf("%u pull%s of %lu bytes", (unsigned)b->pulls, b->pulls == 1 ? "" : "s at once",
               (unsigned long)b->bytes);
    }
    printf(" over %s%s: %.3f s", b->link, b->clear ? ", not encrypted" : "", m->seconds);
    if (windows > 1u) {
        printf(" (%.3f to %.3f)", w[0].seconds, w[windows - 1u].seconds);
    }
    printf("%s, %.4g bytes/s", b->radio != NULL ? " of virtual time" : "", moved / m->seconds);
    if (capacity > 0.0) {
        printf(", %.1f %% of its capacity", 100.0 * moved / capacity);
    }
    if (find_cipher(m->suite) != NULL) {
        printf(", %s", find_cipher(m->suite)->name);
    }
    if (has_target(b)) {
        printf(", %.2f of the target of %.4g", moved / m->seconds / TARGET_BYTES_PER_S,
               TARGET_BYTES_PER_S);
    }
    printf("\nframes: %lu of parameters, %lu of control, %lu of membership\n",
           (unsigned long)m->data_frames, (unsigned long)m->control_frames,
           (unsigned long)m->membership_frames);
    if (b->radio != NULL) {
        printf("the air: %lu frames among %u nodes, busy %.1f %% of the time\n",
               (unsigned long)m->air_frames, (unsigned)b->nodes,
               fmin(100.0, 100.0 * m->air_s / m->seconds));
        printf("uwasa plan --link predicts %.3f s%s\n", predicted_s(b),
               b->radio->access_us == 0 ? ", as airtime" : "");
    }
    if (b->average && m->exact) {
        printf("the mean is exact\n");
    } else if (b->average) {
        printf("the mean is not exact: all but %llu of %llu chunks were received, %.1f %% of the "
               "others' parameters, which count above\n", (unsigned long long)m->missed,
               (unsigned long long)m->chunks, floor(1000.0 * m->received) / 10.0);
    }
}

static int run(const struct uw_bench_link *b, struct uw_events *events, struct uw_error *err)
{
    struct uw_bench_link_window windows[UW_BENCH_LINK_WINDOWS_MAX];
    b->progress->next_us = uw_board_now_us() + QUIET_US;
    int rc = b->radio != NULL ? uw_bench_link_radio(b, windows, err)
                              : uw_bench_link_line(b, windows, err);
    uw_progress_clear(b->progress);
    if (rc < 0) {
        return rc;
    }
    qsort(windows, b->windows, sizeof windows[0], by_seconds);
    put_done(events, b, windows, b->windows);
    if (!uw_events_take_stdout(events)) {
        print(b, windows, b->windows);
    }
    return UW_OK;
}

/* The first given flag that has no effect on the link; NULL: none. */
static struct uw_rule idle_flag(const struct options *o, const struct uw_radio_profile *radio)
{
    static const char nothing[] = "means nothing to --link";
    const struct uw_bench_link *b = &o->b;
    bool bus = radio != NULL && radio->kind == UW_RADIO_BUS, line = radio == NULL;
    return uw_rule_broken(UW_RULES(
        {b->suites != NULL && (!line || b->clear), "cipher", nothing},
        {b->clear && b->carrier != UW_STACK_TCP, "clear", nothing},
        {b->loss > 0.0 && b->carrier == UW_STACK_TCP, "loss", nothing},
        {b->nodes != 0 && line, "nodes", nothing}, {b->pulls != 0 && line, "pulls", nothing},
        {o->access && (line || bus), "access", nothing},
        {b->rate_bits_per_s != 0 && bus, "rate", nothing}, {b->code && line, "code", nothing},
        {b->average && line, "exchange", nothing}, {b->windows != 0 && !line, "windows", nothing},
        {b->mtu_bytes != 0 && !line, "mtu", nothing}));
}

/* Fill in defaults for what was not given. */
static void fill(struct options *o, struct uw_radio_profile *radio)
{
    struct uw_bench_link *b = &o->b;
    bool serial = b->carrier == UW_STACK_SERIAL;
    bool fast = radio == NULL && !serial;
    b->radio = radio;
    b->bytes = b->bytes != 0 ? b->bytes : fast ? BYTES_FAST : BYTES_NARROW;
    b->windows = b->windows != 0 ? b->windows : fast ? WINDOWS_FAST : 1u;
    b->nodes = b->nodes != 0 ? b->nodes : radio != NULL ? NODES_DEFAULT : 2u;
    b->pulls = b->pulls != 0 ? b->pulls : 1u;
    if (radio != NULL) {
        radio->access_us = o->access || radio->kind == UW_RADIO_BUS ? radio->access_us : 0;
        radio->rate_bits_per_s = b->rate_bits_per_s != 0 ? b->rate_bits_per_s
                                                         : radio->rate_bits_per_s;
    } else if (b->rate_bits_per_s == 0 && serial) {
        b->rate_bits_per_s = BAUD_DEFAULT;
    }
}

/* Check the numbers. Returns an exit status, or -1 if all are right. */
static int check(const struct uw_bench_link *b, bool pulls)
{
    if (b->bytes % sizeof(float) != 0) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE, "--bytes %lu: needs a multiple of 4",
                            (unsigned long)b->bytes);
    }
    if (b->average && b->code) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE, "--code: means nothing to --exchange "
                            "average, pulls ask for it");
    }
    if (b->pulls > b->nodes || (b->average && pulls)) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE,
                            b->average ? "--pulls %u: means nothing to --exchange average"
                                       : "--pulls %u: needs --nodes or fewer",
                            (unsigned)b->pulls);
    }
    bool serial = b->carrier == UW_STACK_SERIAL;
    if (serial && b->mtu_bytes > UW_LINK_SERIAL_MTU_MAX) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE, "--mtu %u: needs at most %u over serial",
                            (unsigned)b->mtu_bytes, UW_LINK_SERIAL_MTU_MAX);
    }
    if (serial &&
        (b->rate_bits_per_s > UINT32_MAX ||
         !uw_serial_tty_baud_ok((uint32_t)b->rate_bits_per_s))) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE, "--rate %lu: needs a rate that serial "
                            "lines have, 9600 or 115200 or 1000000",
                            (unsigned long)b->rate_bits_per_s);
    }
    return -1;
}

/* Whether the link is not a radio; if so, sets its carrier. */
static bool is_line(const char *link, enum uw_stack_carrier *carrier)
{
    static const char *const names[] = {[UW_STACK_UDP] = "udp", [UW_STACK_TCP] = "tcp",
                                        [UW_STACK_SERIAL] = "serial"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i] != NULL && strcmp(link, names[i]) == 0) {
            *carrier = (enum uw_stack_carrier)i;
            return true;
        }
    }
    return false;
}

/* A radio with all nodes in range of each other and no duty cycle. */
static bool is_offered(const struct uw_radio_profile *p)
{
    return p->frames && p->broadcasts && p->duty_ppm == 0;
}

int uw_cmd_bench_link(int argc, char **argv)
{
    struct options o = {.b = {.link = "udp", .seed = 1}};
    struct uw_radio_profile profile = {.name = NULL};
    struct uw_error err = {.text = ""};
    struct uw_events events;
    struct uw_progress progress;
    uw_progress_init(&progress);
    o.b.progress = &progress;
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    if (status >= 0) {
        return status;
    }
    bool line = is_line(o.b.link, &o.b.carrier);
    if (!line && (uw_radio_profile_find(o.b.link, &profile) < 0 || !is_offered(&profile))) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE, "--link %s: needs " LINKS, o.b.link);
    }
    o.b.suites = o.cipher.at != 0 ? ciphers[o.cipher.at - 1].suites : NULL;
    o.b.average = o.exchange.at == 1;
    struct uw_rule idle = idle_flag(&o, line ? NULL : &profile);
    if (idle.broken) {
        return uw_cli_error(spec.command, UW_EXIT_USAGE, "--%s: %s %s", idle.name, idle.sentence,
                            o.b.link);
    }
    bool pulls = o.b.pulls != 0;
    fill(&o, line ? NULL : &profile);
    status = check(&o.b, pulls);
    if (status >= 0) {
        return status;
    }
    int rc = uw_events_open(&events, o.json, UW_EVENTS_TIMELESS, &err);
    rc = rc < 0 ? rc : run(&o.b, &events, &err);
    int closed = uw_events_close(&events, rc < 0 ? NULL : &err);
    rc = rc < 0 ? rc : closed;
    int failed = rc == UW_ERR_CORRUPT ? UW_EXIT_FAILED : uw_job_exit(rc);  /* flags of neither */
    return rc < 0 ? uw_cli_error(spec.command, failed, "%s", err.text) : UW_EXIT_DONE;
}
