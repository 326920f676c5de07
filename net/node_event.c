/* SPDX-License-Identifier: Apache-2.0 */
#include "node_state.h"

#include <stdio.h>
#include <string.h>

#define QUIET_US 10000000u
#define TIME_BYTES 24u
#define EXPECTED_BYTES (TIME_BYTES + 16u)

const char *uw_node_event_name(enum uw_node_event_kind kind)
{
    static const char *const names[] = {
#define EVENT_NAME(kind, name) name,
        UW_NODE_EVENT_LIST(EVENT_NAME)
#undef EVENT_NAME
    };
    return (uint32_t)kind < UW_NODE_EVENTS_N ? names[kind] : "unknown";
}

const char *uw_member_state_name(enum uw_member_state state)
{
    static const char *const names[] = {"unknown", "alive", "suspect", "dead", "left"};
    return (uint32_t)state < sizeof names / sizeof names[0] ? names[state] : "unknown";
}

/* The address a member gave, or the one it is seen at. */
static const char *address_of(struct uw_node_state *s, const struct uw_member *m,
                              uint16_t station, char seen[UW_LINK_ADDRESS_BYTES])
{
    if (m != NULL && m->address[0] != '\0') {
        return m->address;
    }
    if (uw_link_describe(s->config.link, m != NULL ? m->station : station, seen) != UW_OK) {
        strcpy(seen, "?");
    }
    return seen;
}

static void report(struct uw_node_state *s, struct uw_node_event *e)
{
    e->text = s->text;
    e->now_us = s->now_us - s->clock_us;
    if (s->config.on_event != NULL) {
        s->config.on_event(s->config.event_arg, e);
    }
}

/* True the first time, then once in ten seconds. */
static bool worth_telling(struct uw_node_state *s, enum uw_node_event_kind kind, uint32_t key)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < UW_NODE_QUIETS; i++) {
        if (s->quiet[i].kind == kind && s->quiet[i].key == key &&
            s->now_us < s->quiet[i].until_us) {
            return false;
        }
        if (s->quiet[i].until_us < s->quiet[oldest].until_us) {
            oldest = i;
        }
    }
    s->quiet[oldest].kind = kind;
    s->quiet[oldest].key = key;
    s->quiet[oldest].until_us = s->now_us + QUIET_US;
    return true;
}

static unsigned tenths(uint64_t us)
{
    return (unsigned)(us / 100000u % 10u);
}

static unsigned seconds(uint64_t us)
{
    return (unsigned)(us / 1000000u);
}

void uw_node_member_changed(void *arg, enum uw_node_event_kind kind, const struct uw_member *m,
                            uint64_t silent_us)
{
    struct uw_node_state *s = arg;
    char seen[UW_LINK_ADDRESS_BYTES];
    uw_node_cell_stale(s);
    if (kind == UW_NODE_DEAD || kind == UW_NODE_LEFT || kind == UW_NODE_RESTARTED) {
        uw_node_cell_gone(s, m->id);
    }
    if (s->config.on_event == NULL) {
        return;
    }
    const char *address = address_of(s, m, m->station, seen);
    unsigned alive = (unsigned)uw_membership_alive(&s->membership);
    const char *ending = alive == 1u ? "" : "s";
    bool pulls = s->config.mode != UW_NODE_ALLREDUCE;
    char *text = s->text;
    size_t cap = sizeof s->text;
    switch (kind) {
    case UW_NODE_ALIVE:
        snprintf(text, cap, "peer %s (%s) is here: %u peer%s alive", m->name, address, alive,
                 ending);
        break;
    case UW_NODE_SUSPECT:
        snprintf(text, cap, "peer %s (%s) silent for %u.%u s: suspected, %s%u other%s%s", m->name,
                 address, seconds(silent_us), tenths(silent_us), pulls ? "pulls go to " : "", alive,
                 ending, pulls ? "" : " alive");
        break;
    case UW_NODE_DEAD:
        snprintf(text, cap,
                 "peer %s (%s) silent for %u.%u s: given up, called again every few seconds",
                 m->name, address, seconds(silent_us), tenths(silent_us));
        break;
    case UW_NODE_REJOINED:
        snprintf(text, cap, "peer %s (%s) is back after %u.%u s: %u peer%s alive", m->name,
                 address, seconds(silent_us), tenths(silent_us), alive, ending);
        break;
    case UW_NODE_RESTARTED:
        snprintf(text, cap, "peer %s (%s) was restarted: known as before", m->name, address);
        break;
    case UW_NODE_LEFT:
        snprintf(text, cap, "peer %s (%s) left the run: %u peer%s alive", m->name, address, alive,
                 ending);
        break;
    case UW_NODE_SEED_FAILED:
        snprintf(text, cap, "seed %s does not resolve: tried again every few seconds", address);
        break;
    default:
        return;
    }
    struct uw_node_event e = {
        .kind = kind, .peer = m->name, .address = address, .station = m->station,
        .duration_us = silent_us};
    report(s, &e);
}

/* How far a pull came. */
static void write_progress(struct uw_node_state *s, enum uw_node_event_kind kind, const char *name,
                           const char *address, const char *why)
{
    const struct uw_node_pull *p = &s->pull;
    const struct uw_pull *t = &p->transfer;
    uint64_t took_us = s->now_us - t->started_us;
    char *text = s->text;
    size_t cap = sizeof s->text;
    if (kind == UW_NODE_PULL_STARTED) {
        snprintf(text, cap, "pull from %s (%s): %u chunks of %u floats%s", name, address,
                 (unsigned)t->chunks, (unsigned)t->chunk_n,
                 p->adopt ? ", to take over its model" : "");
    } else if (kind == UW_NODE_PULL_DONE) {
        snprintf(text, cap, "pulled %llu bytes from %s (%s) in %u.%u s",
                 (unsigned long long)p->bytes, name, address, seconds(took_us), tenths(took_us));
    } else {
        snprintf(text, cap, "pull from %s (%s) %s after %u.%u s, %s: %u of %u chunks arrived, %s",
                 name, address, kind == UW_NODE_PULL_MOVED ? "stopped" : "cut", seconds(took_us),
                 tenths(took_us), why, (unsigned)t->have_chunks, (unsigned)t->chunks,
                 kind == UW_NODE_PULL_MOVED ? "another peer is asked for the rest"
                                            : "the rest of the model stays as it was");
    }
}

void uw_node_tell_pull(struct uw_node_state *s, enum uw_node_event_kind kind, const char *why)
{
    const struct uw_node_pull *p = &s->pull;
    const struct uw_pull *t = &p->transfer;
    const struct uw_member *m = uw_node_pull_member(s);
    char seen[UW_LINK_ADDRESS_BYTES];
    if (s->config.on_event == NULL) {
        return;
    }
    const char *name = m != NULL ? m->name : "?";
    const char *address = m != NULL ? address_of(s, m, m->station, seen) : "?";
    uint64_t avoid_us = m != NULL && m->avoid_until_us > s->now_us ? m->avoid_until_us - s->now_us
                                                                   : 0;
    char *text = s->text;
    size_t cap = sizeof s->text;
    switch (kind) {
    case UW_NODE_PULL_STARTED:
    case UW_NODE_PULL_DONE:
    case UW_NODE_PULL_CUT:
    case UW_NODE_PULL_MOVED:
        write_progress(s, kind, name, address, why);
        break;
    case UW_NODE_PULL_REFUSED:
        snprintf(text, cap, "peer %s (%s) does not serve: %s; another one next time", name,
                 address, why);
        break;
    case UW_NODE_CHUNK_NONFINITE:
    case UW_NODE_CHUNK_OUTLIER:
        snprintf(text, cap, "a chunk from %s (%s) %s: refused, no pulls from it for %u s", name,
                 address,
                 kind == UW_NODE_CHUNK_OUTLIER ? "is far from all we know"
                                               : "holds a NaN or infinity",
                 seconds(avoid_us));
        break;
    case UW_NODE_ADOPTED:
        snprintf(text, cap, "took over the model of %s (%s), which is at step %u", name, address,
                 m != NULL ? (unsigned)m->progress.step : 0u);
        break;
    default:
        return;
    }
    struct uw_node_event e = {
        .kind = kind, .peer = name, .address = address,
        .station = m != NULL ? m->station : UW_LINK_STATION_NONE, .bytes = p->bytes,
        .duration_us = s->now_us - t->started_us, .chunks_n = t->have_chunks,
        .chunks_total_n = t->chunks};
    report(s, &e);
}

static const char *name_of(const struct uw_node_state *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->membership.members_n; i++) {
        if (s->membership.members[i].id == id) {
            return s->membership.members[i].name;
        }
    }
    return "?";
}

void uw_node_tell_pair(struct uw_node_state *s, const struct uw_cell_news *news)
{
    const char *who = name_of(s, s->pairs.partner);
    uint64_t us = news->duration_us;
    struct uw_node_event e = {.peer = who, .address = "", .station = UW_LINK_STATION_NONE,
                              .duration_us = us, .chunks_n = news->ranks_n};
    if (news->kind == UW_CELL_NEWS_COMMITTED && news->ranks_n > 1u) {
        e.kind = UW_NODE_AVERAGED;
        e.bytes = 2u * s->config.params->size_n * (uint64_t)sizeof(float);
        s->counters.averages_done++;
        snprintf(s->text, sizeof s->text, "paired with %s in %u.%03u s", who, seconds(us),
                 (unsigned)(us / 1000u % 1000u));
    } else if (news->kind == UW_CELL_NEWS_ABORTED) {
        e.kind = UW_NODE_AVERAGE_CUT;
        s->counters.averages_cut++;
        snprintf(s->text, sizeof s->text,
                 "the exchange with %s was given up after %u.%u s: the old parameters stay", who,
                 seconds(us), tenths(us));
    } else if (news->kind == UW_CELL_NEWS_LATE) {
        e.kind = UW_NODE_AVERAGE_LATE;
        snprintf(s->text, sizeof s->text, "%s is late: this round goes on without it", who);
    } else {
        return;
    }
    report(s, &e);
}

/* "0.031 s"; below 10 ms in "0.42 ms". */
static void write_time(char *text, size_t cap, uint64_t us)
{
    if (us < 10000u) {
        snprintf(text, cap, "%u.%02u ms", (unsigned)(us / 1000u), (unsigned)(us / 10u % 100u));
    } else {
        snprintf(text, cap, "%u.%03u s", seconds(us), (unsigned)(us / 1000u % 1000u));
    }
}

/* ", predicted 0.031 s", or nothing. */
static const char *predicted(const struct uw_node_state *s, char text[EXPECTED_BYTES])
{
    uint64_t us = (uint64_t)(s->cost.predicted_s * 1e6f);
    char took[TIME_BYTES];
    text[0] = '\0';
    if (us != 0) {
        write_time(took, sizeof took, us);
        snprintf(text, EXPECTED_BYTES, ", predicted %s", took);
    }
    return text;
}

void uw_node_tell_full(struct uw_node_state *s)
{
    struct uw_node_event e = {.kind = UW_NODE_MEMBERS_FULL, .peer = "", .address = "",
                              .station = UW_LINK_STATION_NONE};
    if (worth_telling(s, e.kind, 0)) {
        snprintf(s->text, sizeof s->text,
                 "averages have no place for this node (%u at most), or it has no memory or link "
                 "for them: it goes on alone",
                 (unsigned)s->cell.scopes[UW_AVERAGE_CELL].cell.config.ranks_max);
        report(s, &e);
    }
}

/* What a member did to end a round: as far as can be told from here. */
static const char *why_cut(const struct uw_node_state *s, uint32_t id)
{
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        if (m->id == id && m->state != UW_MEMBER_ALIVE) {
            return m->state == UW_MEMBER_LEFT ? " has left the run" : " is silent";
        }
    }
    return " is late or has ended its training";
}

static void write_cut(struct uw_node_state *s, const struct uw_cell_news *news, const char *who)
{
    bool nobody = news->id == UW_CELL_NOBODY;
    char took[TIME_BYTES];
    write_time(took, sizeof took, news->duration_us);
    snprintf(s->text, sizeof s->text,
             "an average over %u nodes was given up after %s%s%s%s: the old parameters stay, %s",
             (unsigned)news->ranks_n, took, nobody ? "" : ", ", who,
             nobody ? "" : why_cut(s, news->id),
             nobody ? "it is tried again" : "the others try again");
}

void uw_node_tell_cell(struct uw_node_state *s, const struct uw_node_scope *o,
                       const struct uw_cell_news *news)
{
    const char *who = news->id != UW_CELL_NOBODY ? name_of(s, news->id) : "";
    const char *algorithm = uw_allreduce_name(o->cell.kind);
    const char *named = news->id == s->membership.members[0].id ? "this node" : who;
    unsigned others = news->ranks_n > 0 ? (unsigned)news->ranks_n - 1u : 0u;
    uint64_t us = news->duration_us;
    char expected[EXPECTED_BYTES], took[TIME_BYTES];
    char *text = s->text;
    size_t cap = sizeof s->text;
    struct uw_node_event e = {.peer = who, .address = "", .duration_us = us,
                              .station = UW_LINK_STATION_NONE, .chunks_n = news->ranks_n};
    if (news->kind == UW_CELL_NEWS_COMMITTED && others == 0) {
        return;
    }
    switch (news->kind) {
    case UW_CELL_NEWS_COMMITTED:
        e.kind = UW_NODE_AVERAGED;
        e.bytes = s->config.params->size_n * (uint64_t)sizeof(float);
        s->counters.averages_done++;
        write_time(took, sizeof took, us);
        snprintf(text, cap, "averaged exactly with %u other%s in %s by %s%s", others,
                 others == 1u ? "" : "s", took, algorithm, predicted(s, expected));
        break;
    case UW_CELL_NEWS_ABORTED:
        e.kind = UW_NODE_AVERAGE_CUT;
        s->counters.averages_cut++;
        write_cut(s, news, named);
        break;
    case UW_CELL_NEWS_LATE:
        e.kind = UW_NODE_AVERAGE_LATE;
        snprintf(text, cap, "%s is late: the average goes on without it", named);
        break;
    case UW_CELL_NEWS_OUTLIER:
        e.kind = UW_NODE_AVERAGE_OUTLIER;
        if (!worth_telling(s, e.kind, news->id)) {
            return;
        }
        snprintf(text, cap, "%s has diverged from the others: not averaged with", named);
        break;
    case UW_CELL_NEWS_TAKEN_OVER:
        e.kind = UW_NODE_HEAD_LOST;
        snprintf(text, cap, "%s led the average and is silent: this node decides", who);
        break;
    case UW_CELL_NEWS_HEAD:
    default:
        if (s->cell.name[0] == '\0' || o->scope != UW_AVERAGE_CELL) {
            return;
        }
        e.kind = UW_NODE_HEAD;
        snprintf(text, cap, "%s leads the averages%s%s", named,
                 s->cell.name[0] != '*' ? " of cell " : "",
                 s->cell.name[0] != '*' ? s->cell.name : "");
        break;
    }
    report(s, &e);
}

void uw_node_tell_gradients(struct uw_node_state *s, enum uw_node_event_kind kind)
{
    static const char *const whys[] = {
        [UW_GRADIENTS_LATE] = "holds up the step",
        [UW_GRADIENTS_GONE] = "is gone",
        [UW_GRADIENTS_ENDED] = "has ended its training",
        [UW_GRADIENTS_DIFFERS] = "has other parameters",
        [UW_GRADIENTS_KNOCKED] = "would like to take part",
    };
    const struct uw_node_gradients *g = &s->gradients;
    unsigned others = (unsigned)g->ranks_n - 1u;
    struct uw_node_event e = {.kind = kind, .peer = "", .address = "",
                              .station = UW_LINK_STATION_NONE, .chunks_n = g->ranks_n,
                              .duration_us = s->now_us - g->began_us};
    if (kind == UW_NODE_GRADIENTS) {
        snprintf(s->text, sizeof s->text,
                 "gradients are averaged every step with %u other%s by %s", others,
                 others == 1u ? "" : "s", uw_allreduce_name(g->overlap.config.kind));
    } else {
        bool self = g->culprit == s->membership.members[0].id;
        e.peer = g->culprit == UW_CELL_NOBODY ? "a member"
                 : self                       ? "this node"
                                              : name_of(s, g->culprit);
        const char *why = self && g->why == UW_GRADIENTS_GONE ? "stops" : whys[g->why];
        snprintf(s->text, sizeof s->text,
                 "%s %s: gradients are not averaged with %u other%s any more, the next average of "
                 "the parameters says with whom", e.peer, why, others,
                 others == 1u ? "" : "s");
    }
    report(s, &e);
}

void uw_node_tell_retreat(struct uw_node_state *s, const struct uw_member *told_by)
{
    const struct uw_node_pairs *p = &s->pairs;
    uint32_t n = p->rounds_n < UW_PAIRS_WINDOW ? p->rounds_n : UW_PAIRS_WINDOW;
    struct uw_node_event e = {.kind = UW_NODE_RETREAT, .peer = told_by != NULL ? told_by->name : "",
                              .address = "", .station = UW_LINK_STATION_NONE};
    if (told_by != NULL) {
        snprintf(s->text, sizeof s->text,
                 "%s has given up gradient tracking: this node goes on with quasi-global momentum "
                 "too", told_by->name);
    } else {
        snprintf(s->text, sizeof s->text,
                 "%u of the last %u pairs were half-open: gradient tracking is given up, the run "
                 "goes on with quasi-global momentum", (unsigned)p->half_n, (unsigned)n);
    }
    report(s, &e);
}

void uw_node_tell_bridge(struct uw_node_state *s, enum uw_node_event_kind kind,
                         uint64_t silent_us)
{
    const struct uw_member *m = uw_node_pull_member(s);
    char seen[UW_LINK_ADDRESS_BYTES];
    struct uw_node_event e = {.kind = kind, .peer = "", .address = "",
                              .station = UW_LINK_STATION_NONE, .duration_us = silent_us};
    if (kind == UW_NODE_CELL_ALONE) {
        snprintf(s->text, sizeof s->text,
                 "no other cell can be reached for %u.%u s: cell %s goes on alone",
                 seconds(silent_us), tenths(silent_us), s->cell.name);
    } else {
        e.peer = m != NULL ? m->name : "?";
        e.address = m != NULL ? address_of(s, m, m->station, seen) : "?";
        snprintf(s->text, sizeof s->text,
                 "cell %s mixes with cell %s through %s (%s), after %u.%u s alone", s->cell.name,
                 m != NULL ? m->progress.cell : "?", e.peer, e.address, seconds(silent_us),
                 tenths(silent_us));
    }
    report(s, &e);
}

static void report_refused(struct uw_node_state *s, enum uw_node_event_kind kind,
                           uint16_t station, const struct uw_member *m, const char *address)
{
    struct uw_node_event e = {.kind = kind, .peer = m != NULL ? m->name : "", .address = address,
                              .station = station};
    report(s, &e);
}

void uw_node_tell_refused(struct uw_node_state *s, enum uw_node_event_kind kind, uint16_t station,
                          const struct uw_member *m)
{
    char seen[UW_LINK_ADDRESS_BYTES];
    if (s->config.on_event == NULL || !worth_telling(s, kind, station)) {
        return;
    }
    const char *address = address_of(s, m, station, seen);
    if (kind == UW_NODE_WRONG_RUN) {
        snprintf(s->text, sizeof s->text, "%s belongs to another run, ours is \"%.64s\": refused",
                 address, s->config.run);
    } else {
        snprintf(s->text, sizeof s->text,
                 "%s is answered, not entered: the table of %u members is full", address,
                 (unsigned)s->config.members_max);
    }
    report_refused(s, kind, station, m, address);
}

void uw_node_tell_wrong_model(struct uw_node_state *s, uint16_t station, const struct uw_member *m,
                              uint64_t hash)
{
    char seen[UW_LINK_ADDRESS_BYTES];
    if (!worth_telling(s, UW_NODE_WRONG_MODEL, station)) {
        return;
    }
    const char *address = address_of(s, m, station, seen);
    snprintf(s->text, sizeof s->text,
             "peer %s (%s) trains another model (hash %08lx%08lx, ours %08lx%08lx): no pulls "
             "between us",
             m != NULL ? m->name : "", address, (unsigned long)(hash >> 32),
             (unsigned long)(hash & 0xffffffffu), (unsigned long)(s->model >> 32),
             (unsigned long)(s->model & 0xffffffffu));
    report_refused(s, UW_NODE_WRONG_MODEL, station, m, address);
}

void uw_node_tell_name_taken(struct uw_node_state *s, uint16_t station, const struct uw_member *m,
                             bool own)
{
    char seen[UW_LINK_ADDRESS_BYTES];
    if (!worth_telling(s, UW_NODE_NAME_TAKEN, station)) {
        return;
    }
    const char *address = address_of(s, m, station, seen);
    if (own) {
        snprintf(s->text, sizeof s->text,
                 "another device of the run is called %s too (told by %s): give each its own name",
                 s->config.name, address);
    } else {
        snprintf(s->text, sizeof s->text,
                 "%s uses the name of a peer that is alive elsewhere: refused", address);
    }
    report_refused(s, UW_NODE_NAME_TAKEN, station, m, address);
}
