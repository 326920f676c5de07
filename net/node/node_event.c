/* SPDX-License-Identifier: Apache-2.0 */
#include "node_pull.h"

#include <string.h>

#define QUIET_US 10000000u
#define QUIET_VERSION_US UINT64_C(3600000000)

const char *uw_node_event_name(enum uw_node_event_kind kind)
{
    static const char names[] =     /* smaller on boards than a table of pointers */
#define EVENT_NAME(kind, name) name "\0"
        UW_NODE_EVENT_LIST(EVENT_NAME) "unknown";
#undef EVENT_NAME
    const char *name = names;
    for (uint32_t i = 0; i < (uint32_t)kind && i < UW_NODE_EVENTS_N; i++) {
        name += strlen(name) + 1u;
    }
    return name;
}

const char *uw_member_state_name(enum uw_member_state state)
{
    static const char *const names[] = {"unknown", "alive", "suspect", "dead", "left"};
    return (uint32_t)state < sizeof names / sizeof names[0] ? names[state] : "unknown";
}

const char *uw_node_address(struct uw_node_state *s, const struct uw_member *m, uint16_t station,
                            char seen[UW_LINK_ADDRESS_BYTES])
{
    if (m != NULL && m->address[0] != '\0') {
        return m->address;
    }
    if (uw_link_describe(s->config.link, m != NULL ? m->station : station, seen) != UW_OK) {
        strcpy(seen, "?");
    }
    return seen;
}

void uw_node_report(struct uw_node_state *s, struct uw_node_event *e)
{
    e->text = s->text != NULL ? s->text : "";
    e->now_us = s->outer_us - s->clock_us;
    if (s->config.on_event != NULL) {
        s->config.on_event(s->config.event_arg, e);
    }
}

void uw_node_event_report(struct uw_node_state *s, struct uw_node_event *e,
                          const struct uw_node_cause *c)
{
    const struct uw_node_sentences *sentences = s->config.parts->sentences;
    if (s->config.on_event == NULL) {
        return;
    }
    if (sentences != NULL) {
        sentences->write(s, e, c);
    } else if (s->text != NULL) {
        s->text[0] = '\0';
    }
    uw_node_report(s, e);
}

bool uw_node_is_news(struct uw_node_state *s, enum uw_node_event_kind kind, uint32_t key)
{
    struct uw_node_quiet *oldest = s->quiet;
    for (struct uw_node_quiet *q = s->quiet; q != NULL && q < s->quiet + UW_NODE_QUIETS; q++) {
        if (q->kind == kind && q->key == key && s->now_us < q->until_us) {
            return false;
        }
        oldest = q->until_us < oldest->until_us ? q : oldest;
    }
    if (oldest != NULL) {
        uint64_t quiet_us = kind == UW_NODE_WRONG_VERSION ? QUIET_VERSION_US : QUIET_US;
        *oldest = (struct uw_node_quiet){.kind = kind, .key = key,
                                         .until_us = s->now_us + quiet_us};
    }
    return oldest != NULL;
}

void uw_node_member_changed(void *arg, enum uw_node_event_kind kind, const struct uw_member *m,
                            uint64_t silent_us)
{
    struct uw_node_state *s = arg;
    char seen[UW_LINK_ADDRESS_BYTES];
    bool gone = kind == UW_NODE_DEAD || kind == UW_NODE_LEFT || kind == UW_NODE_RESTARTED;
    if (s->averages != NULL) {
        s->averages->stale(s);
        if (gone) {
            s->averages->gone(s, m->id);
        }
    }
    if (s->cast != NULL && gone) {
        s->config.parts->casts->gone(s, m->id);
    }
    if (s->config.on_event == NULL) {
        return;
    }
    struct uw_node_event e = {
        .kind = kind, .peer = m->name, .address = uw_node_address(s, m, m->station, seen),
        .station = m->station, .duration_us = silent_us};
    uw_node_event_report(s, &e, &(struct uw_node_cause){.m = m});
}

void uw_node_forget(void *arg, const struct uw_member *m, bool restarted)
{
    struct uw_node_state *s = arg;
    struct uw_node_peer *peer = uw_node_peer(s, m);
    size_t kept = restarted ? offsetof(struct uw_node_peer, avoid_until_us) : 0;
    memset((char *)peer + kept, 0, sizeof *peer - kept);
    if (s->averages != NULL) {
        s->averages->forget(s, m->place);
    }
    if (s->cast != NULL) {
        s->config.parts->casts->forget(s, m->place);
    }
}

void uw_node_event_pull(struct uw_node_state *s, const struct uw_member *m,
                         enum uw_node_event_kind kind, enum uw_node_why why)
{
    const struct uw_pull *t = &s->pull.first.transfer;
    char seen[UW_LINK_ADDRESS_BYTES];
    if (s->config.on_event == NULL) {
        return;
    }
    struct uw_node_event e = {
        .kind = kind, .peer = m != NULL ? m->name : "?",
        .address = m != NULL ? uw_node_address(s, m, m->station, seen) : "?",
        .station = m != NULL ? m->station : UW_LINK_STATION_NONE, .bytes = s->pull.bytes,
        .duration_us = s->now_us - t->started_us, .chunks_total_n = t->chunks,
        .chunks_n = t->have_chunks - uw_node_lanes_missing(s)};
    uw_node_event_report(s, &e, &(struct uw_node_cause){.m = m, .why = why});
}

void uw_node_event_refused(struct uw_node_state *s, enum uw_node_event_kind kind,
                            uint16_t station, const struct uw_node_cause *c)
{
    char seen[UW_LINK_ADDRESS_BYTES];
    if (uw_node_is_news(s, kind, station)) {
        struct uw_node_event e = {.kind = kind,
                                  .peer = c->m != NULL      ? c->m->name
                                          : c->name != NULL ? c->name
                                                            : "",
                                  .address = uw_node_address(s, c->m, station, seen),
                                  .station = station};
        uw_node_event_report(s, &e, c);
    }
}
