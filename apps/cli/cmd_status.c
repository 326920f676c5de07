/* SPDX-License-Identifier: Apache-2.0 */
#include "base/args.h"
#include "base/commands.h"
#include "base/events.h"
#include "base/progress.h"
#include "base/stop.h"
#include "links/keyfile.h"
#include "links/link_stack.h"
#include "node/node_report.h"

#include "uwasa/board.h"
#include "uwasa/status_client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REFRESH_US 1000000u
#define WAIT_US 50000u

struct options {
    const char *key, *run;
    struct uw_choice link;
    double timeout;
    bool json, once, no_tls;
};

#define ROW(...) UW_OPT_ROW(struct options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("key", UW_OPT_TEXT, key, 0, 0, "FILE", "key of the run or of a device"),
    ROW("run", UW_OPT_TEXT, run, 0, 0, "TEXT", "name of the run"),
    ROW("link", UW_OPT_CHOICE, link, 0, 0, "udp|tcp|serial|bus|radio",
        "the link of the node (udp); serial, bus and radio do not carry a status"),
    ROW("no-tls", UW_OPT_FLAG, no_tls, 0, 0, NULL,
        "with --link tcp: the run has \"tls\": false, so no encryption and no key"),
    ROW("timeout", UW_OPT_REAL, timeout, 0.1, 3600, "S",
        "stop after this time without an answer (5)"),
    ROW("once", UW_OPT_FLAG, once, 0, 0, NULL, "print one table, even on a terminal"),
    ROW("json", UW_OPT_FLAG, json, 0, 0, NULL, "write one JSON object"),
};

static const struct uw_args_spec spec = {
    .command = "status",
    .summary = "show a run as one of its nodes sees it",
    .usage = "ADDRESS --key FILE --run NAME [--link L] [--no-tls]",
    .example = "uwasa status 10.0.0.9:4433 --key run.key --run home",
    .epilogue = "The line below the table names the kernels or the GPU of the node that answers.\n"
                "On a terminal the table is refreshed every second until Ctrl-C.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .positional_max = 1,
};

#define FARES_BYTES 48u
#define RELEASE_BYTES 16u
#define VERSION_BYTES 40u

/* Columns of a device's power, temperature and so on, or their titles (v NULL); "" unless a node of
 * the run reports them. */
static const char *vitals_of(bool told, const struct uw_vitals *v, char text[FARES_BYTES])
{
    char power[16] = "-";
    char temperature[16] = "-";
    char battery[16] = "-";
    text[0] = '\0';
    if (told && v == NULL) {
        return "    power     temp  battery";
    }
    if (told) {
        if (v->power_mw != 0) {
            snprintf(power, sizeof power, "%.2f W", v->power_mw / 1e3);
        }
        if (v->temperature_mc != 0) {
            snprintf(temperature, sizeof temperature, "%.1f C", v->temperature_mc / 1e3);
        }
        if (v->battery_percent != 0) {
            snprintf(battery, sizeof battery, "%u %%", (unsigned)v->battery_percent);
        }
        snprintf(text, FARES_BYTES, " %8s %8s %8s", power, temperature, battery);
    }
    return text;
}

/* "0.1.0", or "-" of a program that does not tell. */
static const char *release_of(uint32_t release, char text[RELEASE_BYTES])
{
    snprintf(text, RELEASE_BYTES, release == 0 ? "-" : "%u.%u.%u", (unsigned)(release >> 16),
             (unsigned)(release >> 8 & 255u), (unsigned)(release & 255u));
    return text;
}

/* The column "version", if not all run the same. */
static const char *version_of(bool differs, const struct uw_node_member *m,
                              char text[VERSION_BYTES])
{
    char release[RELEASE_BYTES];
    char protocol[16] = "-";
    if (m->protocol != 0) {
        snprintf(protocol, sizeof protocol, "%u", (unsigned)m->protocol);
    }
    snprintf(text, VERSION_BYTES, " %8s %8s", release_of(m->release, release), protocol);
    text[differs ? strlen(text) : 0] = '\0';
    return text;
}

static void print_counters(const struct uw_node_counters *c)
{
    char a[UW_TEXT_BYTES];
    char b[UW_TEXT_BYTES];
    printf("sent %s, received %s, pulls %u done, %u cut, %u refused, %u stale, "
           "averages %u done, %u cut\n",
           uw_text_bytes((double)c->sent_bytes, a), uw_text_bytes((double)c->received_bytes, b),
           (unsigned)c->pulls_done, (unsigned)c->pulls_cut, (unsigned)c->pulls_refused,
           (unsigned)c->pulls_stale, (unsigned)c->averages_done, (unsigned)c->averages_cut);
    if (c->samples_in + c->samples_out != 0) {
        printf("samples %llu lent, %llu borrowed\n", (unsigned long long)c->samples_out,
               (unsigned long long)c->samples_in);
    }
}

static void print_table(const struct uw_node_member *m, uint32_t n,
                        const struct uw_node_counters *c, const char *kernels)
{
    char pulled[UW_TEXT_BYTES];
    int name_n = 4;
    int address_n = 9;
    bool cells = false;
    bool told = false;
    bool differs = false;
    char f[FARES_BYTES];
    char version[VERSION_BYTES];
    char release[RELEASE_BYTES];
    for (uint32_t i = 0; i < n; i++) {
        const struct uw_vitals *v = &m[i].vitals;
        told = told || v->power_mw != 0 || v->temperature_mc != 0 || v->battery_percent != 0;
        cells = cells || m[i].cell[0] != '\0';
        differs = differs || (m[i].state == UW_MEMBER_ALIVE && (m[i].release != m[0].release ||
                                                                m[i].protocol != m[0].protocol));
        int length = (int)strlen(m[i].name);
        name_n = length > name_n ? length : name_n;
        length = (int)strlen(m[i].address);
        address_n = length > address_n ? length : address_n;
    }
    printf("%-*s %-*s %-7s %7s %7s %8s %6s %8s %9s%s%s%s\n", name_n, "node", address_n, "address",
           "state", "step", "loss", "accuracy", "rounds", "rtt", "pulled", vitals_of(told, NULL, f),
           differs ? "  version protocol" : "", cells ? "  cell" : "");
    for (uint32_t i = 0; i < n; i++) {
        char accuracy[16];
        char rtt[16];
        snprintf(accuracy, sizeof accuracy, m[i].accuracy < 0 ? "-" : "%.1f %%",
                 100.0 * (double)m[i].accuracy);
        snprintf(rtt, sizeof rtt, m[i].rtt_us == 0 ? "-" : "%.1f ms", m[i].rtt_us / 1e3);
        printf("%-*s %-*s %-7s %7u %7.4f %8s %6u %8s %9s%s%s%s%s\n", name_n, m[i].name, address_n,
               i == 0 ? "this node" : m[i].address, uw_member_state_name(m[i].state),
               (unsigned)m[i].step, (double)m[i].loss, accuracy, (unsigned)m[i].rounds, rtt,
               uw_text_bytes((double)m[i].pulled_bytes, pulled), vitals_of(told, &m[i].vitals, f),
               version_of(differs, &m[i], version), cells ? "  " : "",
               cells ? m[i].cell : "");
    }
    for (uint32_t i = 0; i < n; i++) {
        if (m[i].still_s != 0 && m[i].state != UW_MEMBER_LEFT) {
            printf("%s stands still: no step for %u s\n", m[i].name, (unsigned)m[i].still_s);
        }
    }
    if (kernels[0] != '\0') {
        printf("this node trains with %s\n", kernels);
    }
    if (n > 0 && m[0].release != 0) {
        printf("it runs uwasa %s%s\n", release_of(m[0].release, release),
               differs ? ", others another version" : "");
    }
    print_counters(c);
}

/* "cuda: NVIDIA Orin" as train, eval and plan show it. */
static void add_backend(cJSON *out, const char *kernels)
{
    const char *colon = strchr(kernels, ':');
    char name[UW_NODE_KERNELS_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(kernels, ":"), kernels);
    if (name[0] != '\0') {
        cJSON_AddStringToObject(out, "backend", name);
    }
    if (colon != NULL) {
        cJSON *device = cJSON_AddObjectToObject(out, "device");
        cJSON_AddStringToObject(device, "name", colon + 1 + strspn(colon + 1, " "));
    }
}

static void print_json(const struct uw_node_member *m, uint32_t n,
                       const struct uw_node_counters *c, const char *kernels)
{
    cJSON *out = cJSON_CreateObject();
    char release[RELEASE_BYTES];
    add_backend(out, kernels);
    cJSON *members = cJSON_AddArrayToObject(out, "members");
    for (uint32_t i = 0; i < n; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", m[i].name);
        cJSON_AddStringToObject(row, "address", m[i].address);
        cJSON_AddStringToObject(row, "state", uw_member_state_name(m[i].state));
        cJSON_AddNumberToObject(row, "step", m[i].step);
        uw_event_float(row, "loss", m[i].loss);
        if (m[i].accuracy >= 0) {
            uw_event_float(row, "accuracy", m[i].accuracy);
        } else {
            cJSON_AddNullToObject(row, "accuracy");
        }
        uw_event_float(row, "samples_per_s", m[i].samples_per_s);
        UW_EVENT_NUMBERS(row, {"rounds", m[i].rounds}, {"rtt_us", m[i].rtt_us},
                         {"silent_us", (double)m[i].silent_us},
                         {"pulled_bytes", (double)m[i].pulled_bytes}, {"refused", m[i].refused_n},
                         {"still_s", m[i].still_s});
        cJSON_AddStringToObject(row, "cell", m[i].cell);
        cJSON_AddStringToObject(row, "version", release_of(m[i].release, release));
        cJSON_AddNumberToObject(row, "protocol", m[i].protocol);
        uw_event_vitals(row, &m[i].vitals);
        cJSON_AddItemToArray(members, row);
    }
    uw_node_counters_put(out, c);
    uw_event_print(stdout, out);
}

/* Ask for the table once. Returns the number of rows, or a code. */
static int ask(struct uw_status_client *client, struct uw_link *link, struct uw_stop *stop,
               struct uw_node_member *m, struct uw_node_counters *c)
{
    for (;;) {
        uint64_t now_us = uw_board_now_us();
        int rc = uw_status_client_step(client, now_us, m, UW_NODE_MEMBERS_MAX, c);
        if (rc != UW_ERR_AGAIN || uw_stop_asked(stop)) {
            return rc;
        }
        uint64_t wait_us = client->next_us > now_us ? client->next_us - now_us : 0;
        wait_us = wait_us < WAIT_US ? wait_us : WAIT_US;
        struct pollfd fd = {.fd = link->fd, .events = POLLIN};
        poll(&fd, 1, (int)((wait_us + 999u) / 1000u));
    }
}

static int watch(const struct options *o, const char *address, struct uw_link *link,
                 struct uw_error *err)
{
    struct uw_node_member *m = calloc(UW_NODE_MEMBERS_MAX, sizeof *m);
    struct uw_status_client client;
    struct uw_node_counters counters = {0};
    struct uw_stop stop;
    bool live = isatty(STDOUT_FILENO) == 1 && !o->once && !o->json;
    bool answered = false;
    if (m == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "no memory for %u members",
                            (unsigned)UW_NODE_MEMBERS_MAX);
    }
    uw_stop_init(&stop);
    int rc = uw_status_client_init(&client, link, address);
    client.timeout_us = (uint64_t)(o->timeout * 1e6);
    while (rc >= 0 && !stop.asked) {
        rc = ask(&client, link, &stop, m, &counters);
        if (rc >= 0) {
            answered = true;
            fputs(live ? "\033[H\033[2J" : "", stdout);
            (o->json ? print_json : print_table)(m, (uint32_t)rc, &counters, client.kernels);
            fflush(stdout);
        }
        uint64_t until_us = uw_board_now_us() + REFRESH_US;
        while (live && rc >= 0 && !uw_stop_asked(&stop) && uw_board_now_us() < until_us) {
            poll(NULL, 0, (int)(WAIT_US / 1000u));
        }
        if (!live) {
            break;
        }
    }
    free(m);
    if (stop.asked) {
        return answered ? UW_OK : uw_error_set(err, UW_ERR_CLOSED, "stopped before an answer");
    }
    if (rc >= 0) {
        return UW_OK;
    }
    if (rc == UW_ERR_TIMEOUT) {
        return uw_error_set(err, rc,
                            "%.100s: no answer for %.1f s: check the address, --key, --run, "
                            "--link and --no-tls", address, o->timeout);
    }
    if (rc == UW_ERR_UNSUPPORTED) {
        return uw_error_set(err, rc, "%.100s: runs another version of the protocol, whose status "
                                     "this program cannot read: ask with the node's own program",
                            address);
    }
    return uw_error_set(err, rc, "%.100s: %s", address,
                        rc == UW_ERR_NOTFOUND ? "no such host" : uw_status_text(rc));
}

int uw_cmd_status(int argc, char **argv)
{
    struct options o = {.timeout = 5.0, .link = {"udp", UW_STACK_UDP}};
    struct uw_error err = {.text = ""};
    struct uw_stack stack = {.top = NULL};
    const char *address = NULL;
    struct uw_keyfile key = {.file = NULL};
    int status = uw_args_parse(&spec, argc, argv, &o, &address);
    if (status >= 0) {
        return status;
    }
    bool tcp = o.link.at == UW_STACK_TCP, keyless = o.key == NULL && !o.no_tls;
    if (address == NULL || keyless || o.run == NULL) {
        return uw_cli_error("status", UW_EXIT_USAGE, "%s: is needed, see uwasa status --help",
                            address == NULL ? "ADDRESS"
                            : keyless       ? "--key"
                                            : "--run");
    }
    if (!tcp && o.link.at != UW_STACK_UDP) {
        return uw_cli_error("status", UW_EXIT_USAGE, "--link %s: carries no status; see the "
                                                     "events \"status\" of a node, uwasa node "
                                                     "--json FILE",
                            o.link.word);
    }
    if (o.no_tls && !tcp) {
        return uw_cli_error("status", UW_EXIT_USAGE,
                            "--no-tls: is for --link tcp, udp is always encrypted");
    }
    if (!uw_stack_address_ok(address, false)) {
        return uw_cli_error("status", UW_EXIT_USAGE,
                            "%s: needs HOST:PORT of a node, 10.0.0.9:4433 or [fe80::9]:4433",
                            address);
    }
    int rc = o.no_tls ? UW_OK : uw_keyfile_open(&key, o.key, &err);
    if (rc == UW_OK) {
        const struct uw_stack_config config = {
            .carrier = tcp ? UW_STACK_TCP : UW_STACK_UDP, .plain = o.no_tls,
            .run = o.run, .keyfile = o.no_tls ? NULL : &key, .peers_n = 2};
        rc = uw_stack_open(&stack, &config, &err);
    }
    rc = rc < 0 ? rc : watch(&o, address, stack.top, &err);
    uw_stack_close(&stack);
    uw_keyfile_close(&key);
    return rc < 0 ? uw_cli_error("status", rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED,
                                 "%s", err.text)
                  : UW_EXIT_DONE;
}
