/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip_node.h"

#include "uwasa/hash.h"
#include "uwasa/secure_memory.h"

#include <stdio.h>
#include <string.h>

#define LOSS_MAX 9e12                   /* limit of %f in boards/cortex_m/format.c */

static bool as_json(const struct uw_firmware *f)
{
    return f->settings.events == UW_SET_EVENTS_JSON;
}

/* Escape a text for JSON; truncated to fit. */
static void escape(const char *text, char *out, size_t bytes)
{
    size_t n = 0;
    for (; *text != '\0' && n + 2u < bytes; text++) {
        if (*text == '"' || *text == '\\') {
            out[n++] = '\\';
        }
        out[n++] = *text >= ' ' && *text <= '~' ? *text : '?';
    }
    out[n] = '\0';
}

static double seconds(uint64_t us)
{
    return (double)us / 1e6;
}

void uw_firmware_report_plan(const struct uw_firmware *f)
{
    extern uint8_t uw_data_start[], uw_bss_end[], uw_stack_start[], uw_stack_end[];
    size_t fixed = (size_t)(uw_bss_end - uw_data_start);
    if (as_json(f)) {
        uw_console_line("{\"event\":\"plan\",\"model\":\"%s\",\"parameters\":%u,\"total_bytes\":%u,"
                        "\"network_bytes\":%u,\"samples_bytes\":%u,\"static_bytes\":%u,"
                        "\"stack_bytes\":%u}",
                        f->model.config.def->name, (unsigned)f->need.parameters_n,
                        (unsigned)f->need.total_bytes, (unsigned)f->network_bytes,
                        (unsigned)f->samples_bytes, (unsigned)fixed,
                        (unsigned)(uw_stack_end - uw_stack_start));
        return;
    }
    uw_console_line("%s, %u parameters, minibatch %u: %u bytes", f->model.config.def->name,
                    (unsigned)f->need.parameters_n, (unsigned)f->settings.batch,
                    (unsigned)f->need.total_bytes);
    for (uint32_t p = 0; p < UW_PURPOSES_N; p++) {
        size_t bytes = uw_model_need_of(&f->need, (enum uw_purpose)p);
        if (bytes > 0) {
            uw_console_line("  %-12s %9u  %s", uw_purpose_name((enum uw_purpose)p),
                            (unsigned)bytes, f->regions.region[f->regions.of[p]].name);
        }
    }
    uw_console_line("  %-12s %9u  %s", "network", (unsigned)f->network_bytes,
                    f->regions.region[0].name);
    uw_console_line("  %-12s %9u  of %u", "stack", (unsigned)uw_machine_stack_bytes(),
                    (unsigned)(uw_stack_end - uw_stack_start));
    uw_console_line("  %-12s %9u", "static", (unsigned)fixed);
    if (f->samples_bytes > 0) {
        uw_console_line("  %-12s %9u  %s", "samples", (unsigned)f->samples_bytes,
                        f->regions.region[f->regions.n - 1u].name);
    }
    for (uint32_t i = 0; i < f->regions.n; i++) {
        uw_console_line("region %s: %u of %u bytes used", f->regions.region[i].name,
                        (unsigned)f->arena[i].used_bytes, (unsigned)f->arena[i].capacity_bytes);
    }
}

void uw_firmware_report_samples(const struct uw_firmware *f)
{
    const struct uw_samples *s = &f->uart;
    if (s->link != NULL) {
        uw_console_line(as_json(f) ? "{\"event\":\"samples\",\"held\":%u,\"room\":%u,"
                                              "\"received\":%u,\"damaged\":%u,\"wanted\":%u}"
                                            : "samples: %u of %u held, %u received, %u damaged; "
                                              "a minibatch takes %u",
                        (unsigned)s->held, (unsigned)s->base.samples_n, (unsigned)s->received,
                        (unsigned)uw_samples_damaged(s), (unsigned)f->settings.batch);
    }
}

void uw_firmware_report_error(const struct uw_firmware *f)
{
    char text[UW_ERROR_TEXT_BYTES];
    escape(f->err.text, text, sizeof text);
    bool json = as_json(f);
    uw_console_line(json ? "{\"event\":\"error\",\"text\":\"%s\"}" : "%s",
                    json ? text : f->err.text);
}

void uw_firmware_report_start(const struct uw_firmware *f)
{
    char name[sizeof f->settings.name];
    escape(f->settings.name, name, sizeof name);
    static const char *const cause[] = {"power", "pin", "software", "watchdog"};
    if (as_json(f)) {
        uw_console_line("{\"event\":\"start\",\"name\":\"%s\",\"board\":\"%s\",\"core\":\"%s\","
                        "\"reset\":\"%s\",\"step\":%u,\"kernels\":\"%s\",\"seconds\":%.6f}",
                        name, uw_machine.name, uw_machine.core,
                        cause[uw_machine.reset_cause()], (unsigned)f->step,
                        f->model.config.kernels->name, seconds(uw_machine_now_us()));
    } else {
        uw_console_line("uwasa on %s (%s), node %s, started by %s, step %u", uw_machine.name,
                        uw_machine.core, f->settings.name, cause[uw_machine.reset_cause()],
                        (unsigned)f->step);
    }
}

void uw_firmware_report_step(const struct uw_firmware *f)
{
    double at = seconds(uw_machine_now_us() - f->started_us);
    char loss[24] = "null";             /* JSON has neither nan nor infinity */
    if (f->loss < LOSS_MAX) {
        (void)snprintf(loss, sizeof loss, "%.4f", f->loss);
    }
    if (as_json(f)) {
        uw_console_line("{\"event\":\"step\",\"step\":%u,\"loss\":%s,\"samples\":%llu,"
                        "\"seconds\":%.3f,\"samples_per_s\":%.1f}",
                        (unsigned)f->step, loss, (unsigned long long)f->samples, at,
                        (double)uw_firmware_samples_per_s(f));
    } else {
        uw_console_line("step %u, loss %.4f, %.1f samples/s", (unsigned)f->step, f->loss,
                        (double)uw_firmware_samples_per_s(f));
    }
}

void uw_firmware_report_eval(const struct uw_firmware *f, bool final)
{
    if (as_json(f)) {
        uw_console_line("{\"event\":\"eval\",\"step\":%u,\"test_accuracy\":%.4f,\"samples\":%u,"
                        "\"final\":%s}",
                        (unsigned)f->step, (double)f->accuracy, (unsigned)f->test.base.samples_n,
                        final ? "true" : "false");
    } else {
        uw_console_line("test after step %u: %.1f %% of %u", (unsigned)f->step,
                        100.0 * (double)f->accuracy, (unsigned)f->test.base.samples_n);
    }
}

static bool sealed(const struct uw_firmware *f)
{
    bool all = true;
    for (uint32_t i = 0; i < f->regions.n; i++) {
        all = all && f->arena[i].sealed;
    }
    return all;
}

void uw_firmware_report_done(const struct uw_firmware *f)
{
    const struct uw_params *p = &f->model.params;
    /* A hash of the parameters' bits, to compare boards. */
    uint64_t hash = uw_hash64(UW_HASH64_START, p->x, p->size_n * sizeof *p->x);
    struct uw_node_counters c;
    (void)uw_node_status(&f->node, uw_machine_now_us(), NULL, 0, &c);
    if (as_json(f)) {
        uw_console_line("{\"event\":\"done\",\"step\":%u,\"test_accuracy\":%.4f,\"seconds\":%.1f,"
                        "\"samples_per_s\":%.1f,\"sent_bytes\":%llu,\"pulled_bytes\":%llu,"
                        "\"pulls_done\":%u,"
                        "\"longest_poll_us\":%llu,\"stack_bytes\":%u,\"chunks_again\":%u,"
                        "\"chunks_twice\":%u,"
                        "\"dropped\":%llu,\"tls_peak_bytes\":%u,\"lines_dropped\":%u,"
                        "\"sealed\":%s,\"weights\":\"%016llx\"}",
                        (unsigned)f->step, (double)f->accuracy,
                        seconds(uw_machine_now_us() - f->started_us),
                        (double)uw_firmware_samples_per_s(f), (unsigned long long)c.sent_bytes,
                        (unsigned long long)c.pulled_bytes, (unsigned)c.pulls_done,
                        (unsigned long long)f->longest_us,
                        (unsigned)uw_machine_stack_bytes(), (unsigned)c.chunks_again,
                        (unsigned)c.chunks_twice,
                        (unsigned long long)f->lwip.link.stats.dropped_n,
                        (unsigned)uw_secure_memory_peak_bytes(), (unsigned)uw_console_dropped(),
                        sealed(f) ? "true" : "false", (unsigned long long)hash);
    } else {
        uw_console_line("done after %u steps: %.1f %%; serving others", (unsigned)f->step,
                        100.0 * (double)f->accuracy);
    }
}

static void report(const struct uw_firmware *f, const char *event, const char *kind,
                   const char *peer, const char *sentence)
{
    char text[200], name[UW_NODE_NAME_BYTES];
    escape(sentence, text, sizeof text);
    escape(peer, name, sizeof name);
    if (as_json(f)) {
        uw_console_line("{\"event\":\"%s\",\"kind\":\"%s\",\"peer\":\"%s\",\"text\":\"%s\"}", event,
                        kind, name, text);
    } else {
        uw_console_line("%s", sentence);
    }
}

/* The library's own sentences (uw_node_sentences) would take 6 kB of flash. */
void uw_firmware_report_event(void *arg, const struct uw_node_event *e)
{
    char text[120];
    if (e->kind == UW_NODE_PULL_STARTED) {
        return;
    }
    bool pull = e->kind >= UW_NODE_PULL_STARTED && e->kind <= UW_NODE_CHUNK_OUTLIER;
    if (pull) {
        (void)snprintf(text, sizeof text, "%s %s: %llu bytes in %.1f s",
                       uw_node_event_name(e->kind), e->peer, (unsigned long long)e->bytes,
                       seconds(e->duration_us));
    } else {
        (void)snprintf(text, sizeof text, "%s %s (%s)", e->peer, uw_node_event_name(e->kind),
                       e->address);
    }
    report(arg, pull ? "pull" : "member", uw_node_event_name(e->kind), e->peer, text);
}

void uw_firmware_report_peer(void *arg, const struct uw_secure_event *e)
{
    static const char *const kind[] = {"up", "refused", "silent", "closed", "warning"};
    report(arg, "peer", kind[e->kind], "", e->text);
}

void uw_firmware_report_status(const struct uw_firmware *f)
{
    struct uw_node_member rows[8];
    struct uw_node_counters c;
    uint32_t n = uw_node_status(&f->node, uw_machine_now_us(), rows, 8, &c);
    uw_console_line("%-12s %-9s %7s %8s %8s %6s", "node", "state", "step", "loss", "accuracy",
                    "rounds");
    for (uint32_t i = 0; i < n; i++) {
        const struct uw_node_member *m = &rows[i];
        char accuracy[12] = "-";
        if (m->accuracy >= 0.0f) {
            (void)snprintf(accuracy, sizeof accuracy, "%.1f %%", 100.0 * (double)m->accuracy);
        }
        uw_console_line("%-12s %-9s %7u %8.4f %8s %6u", m->name, uw_member_state_name(m->state),
                        (unsigned)m->step, (double)m->loss, accuracy, (unsigned)m->rounds);
    }
    uw_firmware_report_samples(f);
    uw_console_line("sent %llu B, received %llu B, %u pulls done, %u cut; secure channel %u of "
                    "%u B; stack %u B; longest poll %llu us; %u lines dropped",
                    (unsigned long long)c.sent_bytes, (unsigned long long)c.received_bytes,
                    (unsigned)c.pulls_done, (unsigned)c.pulls_cut,
                    (unsigned)uw_secure_memory_peak_bytes(), (unsigned)f->tls_bytes,
                    (unsigned)uw_machine_stack_bytes(), (unsigned long long)f->longest_us,
                    (unsigned)uw_console_dropped());
}
