/* SPDX-License-Identifier: Apache-2.0 */
#include "node_report.h"

#include "uwasa/board.h"
#include "uwasa/hash.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STATUS_US 1000000u
#define ALONE_US 5000000u
#define UNHEARD_US 10000000u        /* time without any other node, if there are no seeds */
#define WAITING_US 1000000u
#define UNREACHED_US 10000000u      /* time without an answer from a peer that others know */
#define OWN_BYTES 64u               /* addresses of this machine: any of a version will do */
#define STILL_US 30000000u
#define STILL_ROUNDS 10u

void uw_node_report_init(struct uw_node_report *r)
{
    r->events.file = NULL;
    r->status_us = r->alone_us = r->waiting_us = 0;
    r->every_us = r->step_us = r->table_us = 0;
    memset(r->kind_us, 0, sizeof r->kind_us);
    r->waiting_logged = false;
    r->seeds = NULL;
    atomic_store(&r->refused, false);
    atomic_store(&r->refused_n, 0);
    r->accuracy = -1.0;
    uw_progress_init(&r->progress);
    pthread_mutex_init(&r->lock, NULL);
}

int uw_node_report_open(struct uw_node_report *r, const char *path, const char *name,
                        struct uw_error *err)
{
    int rc = uw_events_open(&r->events, path, UW_EVENTS_KEEP | UW_EVENTS_ROTATE, err);
    if (rc == UW_OK) {
        cJSON *ev = uw_event("start");
        cJSON_AddStringToObject(ev, "name", name);
        uw_events_put(&r->events, ev);
    }
    return rc;
}

void uw_node_report_backend(struct uw_node_report *r, const struct uw_job *job)
{
    cJSON *ev = uw_event("backend");
    cJSON_AddStringToObject(ev, "backend", job->config.kernels->name);
    uw_job_device_json(job, ev);
    uw_events_put(&r->events, ev);
}

void uw_node_report_rank(struct uw_node_report *r, const char *name)
{
    snprintf(r->progress.who, sizeof r->progress.who, "%.31s: ", name);
}

void uw_node_report_log(struct uw_node_report *r, const char *format, ...)
{
    char line[512] = "";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&r->lock);
    uw_progress_print(&r->progress, "%s", line);
    pthread_mutex_unlock(&r->lock);
}

/* Whether a frequent event may be written, the last one of which was written at *last_us. */
static bool is_due(const struct uw_node_report *r, uint64_t *last_us, uint64_t now_us)
{
    bool due = *last_us == 0 || now_us - *last_us >= r->every_us;
    *last_us = due ? now_us : *last_us;
    return due;
}

static bool has_seeds(const struct uw_node_report *r)
{
    return r->carrier != UW_STACK_SERIAL && !uw_stack_is_radio(r->carrier);
}

void uw_node_report_listening(struct uw_node_report *r, enum uw_stack_carrier carrier,
                              const char *address, const struct uw_opt_list *seeds)
{
    cJSON *ev = uw_event("listening");
    cJSON_AddStringToObject(ev, "address", address);
    uw_events_put(&r->events, ev);
    uw_node_report_log(r, "listening on %s", address);
    r->carrier = carrier;
    r->seeds = seeds;
    snprintf(r->address, sizeof r->address, "%s", address);
    uint64_t wait_us = !has_seeds(r) ? UNHEARD_US : seeds->n > 0 ? ALONE_US : 0;
    r->alone_us = wait_us != 0 ? uw_board_now_us() + wait_us : 0;
}

/* Name of the place where a node would be received from. */
static const char *missing(enum uw_stack_carrier carrier)
{
    switch (carrier) {
    case UW_STACK_SERIAL:
        return "at the other end, with this key, run, \"baud\" and \"mtu\", another \"name\", and "
               "wires that cross";
    case UW_STACK_BUS:
        return "on this line, with this key, run, \"baud\" and \"mtu\", another \"name\" and "
               "another \"address\"";
    case UW_STACK_RADIO:
        return "within reach, with this key, run, \"radio\" and \"mtu\", another \"name\" and "
               "another \"address\"";
    default:
        return "there, with this key, run, \"link\" and \"tls\", and another \"name\"";
    }
}

/* Log once that no node was received for a while. */
static void log_alone(struct uw_node_report *r, uint32_t rows_n, uint64_t now_us)
{
    if (rows_n > 1 || atomic_load(&r->refused)) {
        r->alone_us = 0;
    } else if (r->alone_us != 0 && now_us >= r->alone_us) {
        bool seeds = has_seeds(r);
        r->alone_us = 0;
        uw_node_report_log(r, "%s %s%s: is a node %s?%s",
                           seeds ? "no answer from" : "nothing is received at",
                           seeds ? r->seeds->item[0] : r->address,
                           seeds && r->seeds->n > 1 ? " or another seed" : "", missing(r->carrier),
                           r->waiting_logged ? "" : " Training goes on alone");
    }
}

void uw_node_report_waiting(struct uw_node_report *r, struct uw_node_net *net, uint64_t now_us,
                            uint32_t nodes_n)
{
    const struct uw_node_member *rows;
    struct uw_node_counters counters;
    r->waiting_us = r->waiting_us != 0 ? r->waiting_us : now_us;
    if (r->waiting_logged || now_us - r->waiting_us < WAITING_US) {
        return;
    }
    uint32_t rows_n = uw_node_net_members(net, &rows, &counters), here = 1;
    for (uint32_t i = 1; i < rows_n; i++) {
        bool same = strcmp(rows[i].cell, rows[0].cell) == 0;
        here += same && rows[i].state == UW_MEMBER_ALIVE ? 1u : 0u;
    }
    r->waiting_logged = true;
    if (here < nodes_n && counters.averages_done == 0) {
        uw_node_report_log(r, "waiting for %u more node%s: the first average is over %u",
                           (unsigned)(nodes_n - here), nodes_n - here == 1 ? "" : "s",
                           (unsigned)nodes_n);
    }
}

void uw_node_report_step(struct uw_node_report *r, uint64_t step, double loss, double samples,
                         double samples_per_s)
{
    r->loss = loss;
    r->samples_per_s = samples_per_s;
    if (!is_due(r, &r->step_us, uw_board_now_us())) {
        return;
    }
    cJSON *ev = uw_event("step");
    UW_EVENT_NUMBERS(ev, {"step", (double)step}, {"loss", loss}, {"samples", samples});
    uw_event_float(ev, "samples_per_s", (float)samples_per_s);
    uw_events_put(&r->events, ev);
}

void uw_node_report_eval(struct uw_node_report *r, uint64_t step, const struct uw_score *score,
                         bool final)
{
    r->accuracy = score->accuracy;
    cJSON *ev = uw_event("eval");
    UW_EVENT_NUMBERS(ev, {"step", (double)step}, {"test_accuracy", score->accuracy},
                     {"test_loss", score->loss}, {"test_samples", (double)score->samples_n});
    cJSON_AddBoolToObject(ev, "final", final);
    uw_events_put(&r->events, ev);
    if (final) {
        char text[UW_SCORE_TEXT_BYTES];
        uw_node_report_log(r, "%s", uw_score_text(score, text));
    }
}

bool uw_node_report_is_still(uint64_t idle_us, uint64_t took_us, uint64_t steps, uint32_t period)
{
    double round_us = steps != 0 ? (double)took_us / (double)steps * period : 0.0;
    return idle_us >= STILL_US && (double)idle_us >= STILL_ROUNDS * round_us;
}

void uw_node_report_still(struct uw_node_report *r, uint64_t step, uint64_t idle_us, bool over)
{
    cJSON *ev = uw_event("still");
    UW_EVENT_NUMBERS(ev, {"step", (double)step}, {"seconds", (double)idle_us / 1e6});
    cJSON_AddBoolToObject(ev, "over", over);
    uw_events_put(&r->events, ev);
    uw_node_report_log(r, over ? "training goes on after step %llu, after %.0f s"
                               : "training stands still: no step after step %llu for %.0f s, it "
                                 "waits for others",
                       (unsigned long long)step, (double)idle_us / 1e6);
}

void uw_node_counters_put(cJSON *ev, const struct uw_node_counters *c)
{
#define PUT(field) cJSON_AddNumberToObject(ev, #field, (double)c->field);
    UW_NODE_COUNTERS(PUT)
    cJSON_AddNumberToObject(ev, "period_steps", c->period_steps);
}

/* Nodes with another key or run are counted by the secure channel: they get no further. */
static void put_counters(cJSON *ev, struct uw_node_report *r, struct uw_node_counters c)
{
    c.refused_run += atomic_load(&r->refused_n);
    uw_node_counters_put(ev, &c);
}

static void put_status(struct uw_node_report *r, const struct uw_node_member *rows,
                       uint32_t rows_n, const struct uw_node_counters *counters, uint64_t step)
{
    cJSON *ev = uw_event("status");
    cJSON_AddNumberToObject(ev, "step", (double)step);
    put_counters(ev, r, *counters);
    if (rows_n > 0) {
        uw_event_vitals(ev, &rows[0].vitals);
    }
    cJSON *members = cJSON_AddArrayToObject(ev, "members");
    for (uint32_t i = 1; i < rows_n; i++) {
        cJSON *m = cJSON_CreateObject();
        cJSON_AddStringToObject(m, "name", rows[i].name);
        cJSON_AddStringToObject(m, "address", rows[i].address);
        cJSON_AddStringToObject(m, "state", uw_member_state_name(rows[i].state));
        UW_EVENT_NUMBERS(m, {"step", rows[i].step}, {"from_bytes", (double)rows[i].from_bytes});
        uw_event_vitals(m, &rows[i].vitals);
        cJSON_AddItemToArray(members, m);
    }
    uw_events_put(&r->events, ev);
}

/* Does this node have an address of the version of a peer's? True where that is not known. */
static bool has_version_of(struct uw_node_net *net, const char *address)
{
    uint8_t own[OWN_BYTES];
    uint32_t n = uw_stack_own_addresses(&net->stack, own, sizeof own);
    uint8_t version = address[0] == '[' ? 6 : 4;
    bool has = n == 0;
    for (uint32_t at = 0; at < n; at += own[at] == 4 ? 7u : 19u) {
        has = has || own[at] == version;
    }
    return has;
}

/* Report once who does not answer although others know it, and what may stand in the way. */
static void tell_unreached(struct uw_node_report *r, struct uw_node_net *net,
                           const struct uw_node_member *m)
{
    uint32_t hash = uw_hash32_text(m->name);
    char text[320];
    for (uint32_t i = 0; i < r->unreached_n; i++) {
        if (r->unreached[i] == hash) {
            return;
        }
    }
    if (r->unreached_n == sizeof r->unreached / sizeof r->unreached[0]) {
        return;
    }
    r->unreached[r->unreached_n++] = hash;
    if (has_version_of(net, m->address)) {
        snprintf(text, sizeof text,
                 "others know %s at %s, but it does not answer this node: a firewall, or a NAT; "
                 "\"advertise\" of %s may name an address that leads to it",
                 m->name, m->address, m->name);
    } else {
        snprintf(text, sizeof text,
                 "others know %s at %s, but this node, at \"listen\" %s, has no address of IPv%c: "
                 "the two meet through others only",
                 m->name, m->address, r->address, m->address[0] == '[' ? '6' : '4');
    }
    cJSON *ev = uw_event("unreached");
    cJSON_AddStringToObject(ev, "peer", m->name);
    cJSON_AddStringToObject(ev, "address", m->address);
    cJSON_AddStringToObject(ev, "text", text);
    uw_events_put(&r->events, ev);
    uw_node_report_log(r, "%s", text);
}

/* Of a static list nobody but this node knows a peer, whose name is its address. */
static void look_for_unreached(struct uw_node_report *r, struct uw_node_net *net,
                               const struct uw_node_member *rows, uint32_t rows_n)
{
    bool ip = r->carrier == UW_STACK_UDP || r->carrier == UW_STACK_TCP;
    for (uint32_t i = 1; ip && i < rows_n; i++) {
        const struct uw_node_member *m = &rows[i];
        if (m->state == UW_MEMBER_UNKNOWN && m->silent_us >= UNREACHED_US &&
            strcmp(m->name, m->address) != 0) {
            tell_unreached(r, net, m);
        }
    }
}

void uw_node_report_status(struct uw_node_report *r, struct uw_node_net *net, uint64_t now_us,
                           uint64_t step, uint64_t steps, double left_s)
{
    const struct uw_node_member *rows;
    struct uw_node_counters counters;
    bool event_due = now_us - r->status_us >= STATUS_US;
    bool line_due = uw_progress_due(&r->progress, now_us);
    uw_events_rotate(&r->events);
    if (!event_due && !line_due) {
        return;
    }
    uint32_t rows_n = uw_node_net_members(net, &rows, &counters);
    log_alone(r, rows_n, now_us);
    if (event_due) {
        r->status_us = now_us;
        look_for_unreached(r, net, rows, rows_n);
        if (is_due(r, &r->table_us, now_us)) {
            put_status(r, rows, rows_n, &counters, step);
        }
    }
    if (line_due) {
        uint32_t alive = 0;
        char pulled[UW_TEXT_BYTES];
        char limit[32] = "";
        char accuracy[32] = "";
        char left[32] = "";
        char averaged[40] = "";
        char eta[UW_TEXT_BYTES];
        for (uint32_t i = 1; i < rows_n; i++) {
            alive += rows[i].state == UW_MEMBER_ALIVE ? 1u : 0u;
        }
        if (steps != UINT64_MAX) {
            snprintf(limit, sizeof limit, "/%llu", (unsigned long long)steps);
        }
        if (r->accuracy >= 0.0) {
            snprintf(accuracy, sizeof accuracy, "  accuracy %.1f %%", 100.0 * r->accuracy);
        }
        if (left_s >= 0.0) {
            snprintf(left, sizeof left, "  ETA %s", uw_text_time(left_s, eta));
        }
        if (counters.averages_done != 0) {
            snprintf(averaged, sizeof averaged, "  averaged %u time%s",
                     (unsigned)counters.averages_done, counters.averages_done == 1 ? "" : "s");
        }
        uw_text_bytes((double)counters.pulled_bytes, pulled);
        pthread_mutex_lock(&r->lock);
        uw_progress_show(&r->progress, "step %llu%s  loss %.4f%s  %u of %u peers  %s %s%s%s",
                         (unsigned long long)step, limit, r->loss, accuracy, (unsigned)alive,
                         rows_n > 0 ? (unsigned)rows_n - 1u : 0u,
                         r->broadcasts ? "received" : "pulled", pulled, averaged, left);
        pthread_mutex_unlock(&r->lock);
    }
}

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

static void print_taken(const struct uw_node_report *r, const struct uw_node_counters *c)
{
    char text[UW_TEXT_BYTES];
    uint32_t all = c->averages_done + c->averages_cut;
    uw_text_bytes((double)c->pulled_bytes, text);
    if (r->broadcasts) {
        printf("received       %s in %u average%s, %u of them exact\n", text, (unsigned)all,
               plural(all), (unsigned)c->averages_done);
        return;
    }
    if (c->pulls_done == 0 && c->pulled_bytes != 0) {
        printf("pulled         %s of an unfinished pull\n", text);
    } else {
        printf("pulled         %s in %u pull%s\n", text, (unsigned)c->pulls_done,
               plural(c->pulls_done));
    }
    printf("averaged       %u time%s\n", (unsigned)c->averages_done, plural(c->averages_done));
}

static void print_done(const struct uw_node_report *r, const struct uw_node_summary *s)
{
    const struct uw_node_counters *c = &s->counters;
    char text[UW_TEXT_BYTES];
    if (r->progress.who[0] != '\0') {
        printf("node           %.*s\n", (int)strcspn(r->progress.who, ":"), r->progress.who);
    }
    if (s->score != NULL) {
        uw_score_print(s->score);
    }
    printf("steps          %llu in %.1f s\n", (unsigned long long)s->step, s->seconds);
    print_taken(r, c);
    printf("sent           %s\n", uw_text_bytes((double)c->sent_bytes, text));
    if (c->samples_in + c->samples_out != 0) {
        printf("samples        %llu lent, %llu borrowed\n", (unsigned long long)c->samples_out,
               (unsigned long long)c->samples_in);
    }
}

void uw_node_report_done(struct uw_node_report *r, const struct uw_node_summary *s)
{
    cJSON *ev = uw_event("done");
    cJSON_AddNumberToObject(ev, "step", (double)s->step);
    if (s->score != NULL) {
        UW_EVENT_NUMBERS(ev, {"test_accuracy", s->score->accuracy}, {"test_loss", s->score->loss});
    }
    cJSON_AddNumberToObject(ev, "samples", (double)s->samples);
    uw_event_float(ev, "samples_per_s", (float)s->samples_per_s);
    UW_EVENT_NUMBERS(ev, {"seconds", s->seconds}, {"arena_bytes", (double)s->arena_bytes},
                     {"network_bytes", (double)s->network_bytes},
                     {"peak_rss_bytes", (double)uw_board_peak_rss_bytes()});
    put_counters(ev, r, s->counters);
    if (r->broadcasts) {
        cJSON_AddNumberToObject(ev, "agreed_nodes", r->agreed_n);
    }
    cJSON_AddBoolToObject(ev, "interrupted", s->interrupted);
    if (s->still_s != 0) {
        cJSON_AddNumberToObject(ev, "still_seconds", s->still_s);
    }
    bool quiet = uw_events_take_stdout(&r->events);
    uw_events_put(&r->events, ev);
    uw_progress_clear(&r->progress);
    if (!quiet) {
        print_done(r, s);
    }
}

static bool is_pull(const struct uw_node_event *event)
{
    return event->kind >= UW_NODE_PULL_STARTED && event->kind <= UW_NODE_PULL_MOVED;
}

static void put_event(struct uw_node_report *r, const struct uw_node_event *event)
{
    bool pull = is_pull(event);
    bool average = event->kind >= UW_NODE_AVERAGED && event->kind <= UW_NODE_GRADIENTS_CUT;
    if ((pull || average) && !is_due(r, &r->kind_us[event->kind], uw_board_now_us())) {
        return;
    }
    cJSON *ev = uw_event(pull ? "pull" : average ? "average" : "member");
    cJSON_AddStringToObject(ev, "kind", uw_node_event_name(event->kind));
    cJSON_AddStringToObject(ev, "peer", event->peer);
    cJSON_AddStringToObject(ev, "address", event->address);
    cJSON_AddStringToObject(ev, "text", event->text);
    if (pull) {
        cJSON_AddNumberToObject(ev, "bytes", (double)event->bytes);
        cJSON_AddNumberToObject(ev, "seconds", (double)event->duration_us / 1e6);
    }
    if (average) {
        UW_EVENT_NUMBERS(ev, {"nodes", event->chunks_n},
                         {"seconds", (double)event->duration_us / 1e6});
    }
    uw_events_put(&r->events, ev);
}

void uw_node_report_event(void *arg, const struct uw_node_event *event)
{
    struct uw_node_report *r = arg;
    put_event(r, event);
    if (event->kind == UW_NODE_NAME_TAKEN || event->kind == UW_NODE_WRONG_RUN ||
        event->kind == UW_NODE_WRONG_VERSION) {
        atomic_store(&r->refused, true);
    }
    if (event->kind == UW_NODE_AVERAGED &&
        atomic_exchange(&r->averaged_n, event->chunks_n) == event->chunks_n) {
        return;     /* like the one before: the progress line counts them */
    }
    if (!is_pull(event)) {
        uw_node_report_log(r, "%s", event->text);
    }
}

static void report_path(struct uw_node_report *r, const char *kind, const char *text)
{
    cJSON *ev = uw_event("path");
    cJSON_AddStringToObject(ev, "kind", kind);
    cJSON_AddStringToObject(ev, "text", text);
    uw_events_put(&r->events, ev);
    uw_node_report_log(r, "%s", text);
}

void uw_node_report_narrow(void *arg, const char *address, uint32_t segment_bytes)
{
    char text[UW_SECURE_TEXT_BYTES];
    snprintf(text, sizeof text,
             "large TCP segments do not reach %.63s: sends %u bytes at most; "
             "sysctl net.ipv4.tcp_mtu_probing=1 finds the largest",
             address, (unsigned)segment_bytes);
    report_path(arg, "narrow", text);
}

static void report_warning(struct uw_node_report *r, const char *text)
{
    cJSON *ev = uw_event("warning");
    cJSON_AddStringToObject(ev, "text", text);
    uw_events_put(&r->events, ev);
    uw_node_report_log(r, "%s", text);
}

void uw_node_report_revoked(struct uw_node_report *r, const struct uw_keyfile *f)
{
    char text[160];
    snprintf(text, sizeof text, "the key of this device, %s, is revoked: no node that knows it "
             "talks to this one", uw_secure_keys_device(&f->keys, 0));
    report_warning(r, text);
}

void uw_node_report_keys(void *arg, const struct uw_keyfile *f, const struct uw_keyfile_news *news)
{
    struct uw_node_report *r = arg;
    uint32_t n = f->keys.keys_n;
    if (news->loaded) {
        cJSON *ev = uw_event("keys");
        UW_EVENT_NUMBERS(ev, {"keys", n});
        uw_events_put(&r->events, ev);
        uw_node_report_log(r, "loaded %u key%s from %s: %s", (unsigned)n, n == 1 ? "" : "s",
                           f->file, uw_stack_is_radio(r->carrier)
                                        ? "a radio or bus takes a new one at the next start"
                                        : "sessions begin again");
    }
    if (news->list_number != 0) {
        cJSON *ev = uw_event("revoked");
        UW_EVENT_NUMBERS(ev, {"number", news->list_number}, {"devices", news->devices_n});
        uw_events_put(&r->events, ev);
        uw_node_report_log(r, "%u device%s revoked", (unsigned)news->devices_n,
                           news->devices_n == 1 ? " is" : "s are");
    }
    if (news->list_number != 0 && uw_secure_keys_is_revoked(&f->keys, 0)) {
        uw_node_report_revoked(r, f);
    }
    if (news->trouble[0] != '\0') {
        report_warning(r, news->trouble);
    }
}

void uw_node_report_secure(void *arg, const struct uw_secure_event *event)
{
    struct uw_node_report *r = arg;
    bool refused = event->kind == UW_SECURE_PEER_REFUSED;
    if (event->kind == UW_SECURE_PATH_NARROW || event->kind == UW_SECURE_PATH_WIDE) {
        report_path(r, event->kind == UW_SECURE_PATH_WIDE ? "wide" : "narrow", event->text);
    }
    if (refused || event->kind == UW_SECURE_WARNING) {
        atomic_store(&r->refused, true);
        atomic_fetch_add(&r->refused_n, refused ? 1u : 0u);
        cJSON *ev = uw_event(refused ? "refused" : "warning");
        cJSON_AddStringToObject(ev, "text", event->text);
        uw_events_put(&r->events, ev);
        uw_node_report_log(r, "%s", event->text);
    }
}

void uw_node_report_device(void *arg, const char *device, bool gone)
{
    struct uw_node_report *r = arg;
    char text[320];
    snprintf(text, sizeof text, gone ? "%.255s is gone: looked for again every second"
                                     : "%.255s is there again", device);
    cJSON *ev = uw_event("device");
    cJSON_AddStringToObject(ev, "kind", gone ? "gone" : "back");
    cJSON_AddStringToObject(ev, "device", device);
    cJSON_AddStringToObject(ev, "text", text);
    uw_events_put(&r->events, ev);
    uw_node_report_log(r, "%s", text);
}

int uw_node_report_close(struct uw_node_report *r, struct uw_error *err)
{
    uw_progress_clear(&r->progress);
    pthread_mutex_destroy(&r->lock);
    return uw_events_close(&r->events, err);
}
