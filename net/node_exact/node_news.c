/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of exact averages: node_averages.h. */
#include "node_averages.h"
#include "node_direct_priv.h"
#include "node/node_state.h"

#include <stdio.h>
#include <string.h>

#define TIME_BYTES 24u
#define EXPECTED_BYTES (TIME_BYTES + 16u)

static const char *name_of(struct uw_node_state *s, uint32_t id)
{
    const struct uw_member *m = uw_node_member(s, id);
    return m != NULL ? m->name : uw_node_own(s, id) ? s->membership.members[0].name : "?";
}

static struct uw_node_event event_of(enum uw_node_event_kind kind, const char *peer,
                                     uint64_t duration_us, uint32_t nodes_n)
{
    return (struct uw_node_event){.kind = kind, .peer = peer, .address = "",
                                  .station = UW_LINK_STATION_NONE, .duration_us = duration_us,
                                  .chunks_n = nodes_n};
}

void uw_node_report_pair(struct uw_node_state *s, const struct uw_cell_news *news)
{
    const char *who = name_of(s, s->pairs->partner);
    uint64_t us = news->duration_us;
    struct uw_node_event e = event_of(UW_NODE_AVERAGED, who, us, news->ranks_n);
    if (news->kind == UW_CELL_NEWS_COMMITTED && news->ranks_n > 1u) {
        e.bytes = 2u * s->config.params->size_n * (uint64_t)sizeof(float);
        s->counters.averages_done++;
        snprintf(s->text, UW_NODE_TEXT_BYTES, "paired with %s in %u.%03u s", who, uw_whole_s(us),
                 (unsigned)(us / 1000u % 1000u));
    } else if (news->kind == UW_CELL_NEWS_ABORTED) {
        e.kind = UW_NODE_AVERAGE_CUT;
        s->counters.averages_cut++;
        snprintf(s->text, UW_NODE_TEXT_BYTES,
                 "the exchange with %s was given up after %u.%u s: the old parameters stay", who,
                 uw_whole_s(us), uw_tenth_s(us));
    } else if (news->kind == UW_CELL_NEWS_LATE) {
        e.kind = UW_NODE_AVERAGE_LATE;
        snprintf(s->text, UW_NODE_TEXT_BYTES, "%s is late: this round goes on without it", who);
    } else {
        return;
    }
    uw_node_report(s, &e);
}

/* "0.031 s"; below 10 ms in "0.42 ms". */
static void write_time(char *text, size_t cap, uint64_t us)
{
    if (us < 10000u) {
        snprintf(text, cap, "%u.%02u ms", (unsigned)(us / 1000u), (unsigned)(us / 10u % 100u));
    } else {
        snprintf(text, cap, "%u.%03u s", uw_whole_s(us), (unsigned)(us / 1000u % 1000u));
    }
}

/* ", predicted 0.031 s", or nothing. */
static const char *predicted(const struct uw_node_state *s, char text[EXPECTED_BYTES])
{
    uint64_t us = (uint64_t)(s->cost->predicted_s * 1e6f);
    char took[TIME_BYTES];
    text[0] = '\0';
    if (us != 0) {
        write_time(took, sizeof took, us);
        snprintf(text, EXPECTED_BYTES, ", predicted %s", took);
    }
    return text;
}

void uw_node_report_version(struct uw_node_state *s, const struct uw_member *m)
{
    char seen[UW_LINK_ADDRESS_BYTES];
    struct uw_node_event e = event_of(UW_NODE_WRONG_VERSION, m->name, 0, 0);
    if (uw_node_is_news(s, e.kind, m->id)) {
        e.address = uw_node_address(s, m, m->station, seen);
        snprintf(s->text, UW_NODE_TEXT_BYTES,
                 "%s (%s) runs another version of the protocol: it averages by version %u, this "
                 "node by %u, so they do not average together until the older one is updated",
                 e.peer, e.address, (unsigned)m->averaging->protocol, UW_AVERAGES_PROTOCOL);
        uw_node_report(s, &e);
    }
}

void uw_node_report_unable(struct uw_node_state *s)
{
    struct uw_node_event e = event_of(UW_NODE_MEMBERS_FULL, "", 0, 0);
    if (uw_node_is_news(s, e.kind, 0)) {
        snprintf(s->text, UW_NODE_TEXT_BYTES,
                 "averages need a memory or a link that this node does not have: it goes on alone");
        uw_node_report(s, &e);
    }
}

/* How a member caused the end of a round, as far as is known. */
static const char *why_cut(struct uw_node_state *s, uint32_t id)
{
    const struct uw_member *m = uw_node_member(s, id);
    return m == NULL || m->state == UW_MEMBER_ALIVE ? " is late or has ended its training"
           : m->state == UW_MEMBER_LEFT             ? " has left the run"
                                                    : " is silent";
}

static void write_cut(struct uw_node_state *s, const struct uw_node_scope *o,
                      const struct uw_cell_news *news, const char *who)
{
    bool nobody = news->id == UW_CELL_NOBODY;
    bool by_link = o->cell.direct && !s->config.parts->directs->has_quit(s, news->id);
    char took[TIME_BYTES];
    write_time(took, sizeof took, news->duration_us);
    snprintf(s->text, UW_NODE_TEXT_BYTES,
             "an average over %u nodes%s%s was given up after %s%s%s%s: the old parameters stay, "
             "%s%s",
             (unsigned)news->ranks_n, o->cell.direct ? " by " : "",
             o->cell.direct ? s->cell->direct->hooks->name : "", took, nobody ? "" : ", ", who,
             nobody ? "" : why_cut(s, news->id),
             nobody ? "it is tried again" : "the others try again",
             !by_link ? ""
             : nobody ? " over the network"
                      : ", with it over the network at first");
}

/* Two nodes do not hear each other; told now and then. */
static void report_apart(struct uw_node_state *s, const struct uw_cell_news *news)
{
    bool own = news->kind == UW_CELL_NEWS_APART;
    const char *other = own ? "this node" : name_of(s, news->other);
    struct uw_node_event e = event_of(UW_NODE_APART, name_of(s, news->id), 0, 0);
    if (!uw_node_is_news(s, e.kind, news->id ^ news->other)) {
        return;
    }
    snprintf(s->text, UW_NODE_TEXT_BYTES,
             "%s and %s do not hear each other: an average takes one of them, in turns",
             name_of(s, news->id), other);
    uw_node_report(s, &e);
}

void uw_node_report_far(struct uw_node_state *s, uint32_t id)
{
    bool result = id == UW_CELL_NOBODY;
    struct uw_node_event e = event_of(UW_NODE_AVERAGE_OUTLIER, result ? "" : name_of(s, id), 0, 0);
    if (!uw_node_is_news(s, e.kind, id)) {
        return;
    }
    if (result) {
        snprintf(s->text, UW_NODE_TEXT_BYTES, "an average was too far from this node's parameters: "
                                              "it is refused, and the next ones are by sweep");
    } else {
        snprintf(s->text, UW_NODE_TEXT_BYTES,
                 "what %s sends is too far from this node's parameters, or against what it learns: "
                 "not averaged with",
                 e.peer);
    }
    uw_node_report(s, &e);
}

void uw_node_report_cell(struct uw_node_state *s, const struct uw_node_scope *o,
                       const struct uw_cell_news *news)
{
    const char *who = news->id != UW_CELL_NOBODY ? name_of(s, news->id) : "";
    const char *algorithm = o->cell.direct ? s->cell->direct->hooks->name
                                           : uw_allreduce_name(o->cell.kind);
    const char *named = uw_node_own(s, news->id) ? "this node" : who;
    unsigned others = news->ranks_n > 0 ? (unsigned)news->ranks_n - 1u : 0u;
    char expected[EXPECTED_BYTES], took[TIME_BYTES];
    char *text = s->text;
    const size_t cap = UW_NODE_TEXT_BYTES;
    struct uw_node_event e = event_of(UW_NODE_AVERAGED, who, news->duration_us, news->ranks_n);
    if (news->kind == UW_CELL_NEWS_APART || news->kind == UW_CELL_NEWS_BROKEN) {
        report_apart(s, news);
        return;
    }
    if (news->kind == UW_CELL_NEWS_COMMITTED && others == 0) {
        return;
    }
    switch (news->kind) {
    case UW_CELL_NEWS_COMMITTED:
        e.bytes = s->config.params->size_n * (uint64_t)sizeof(float);
        s->counters.averages_done++;
        write_time(took, sizeof took, news->duration_us);
        snprintf(text, cap, "averaged exactly with %u other%s in %s by %s%s", others,
                 others == 1u ? "" : "s", took, algorithm, predicted(s, expected));
        break;
    case UW_CELL_NEWS_ABORTED:
        e.kind = UW_NODE_AVERAGE_CUT;
        s->counters.averages_cut++;
        write_cut(s, o, news, named);
        break;
    case UW_CELL_NEWS_LATE:
        e.kind = UW_NODE_AVERAGE_LATE;
        snprintf(text, cap, "%s is late: the average goes on without it", named);
        break;
    case UW_CELL_NEWS_OUTLIER:
        e.kind = UW_NODE_AVERAGE_OUTLIER;
        if (!uw_node_is_news(s, e.kind, news->id)) {
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
        if (s->cell->name[0] == '\0' || o->scope != UW_AVERAGE_CELL) {
            return;
        }
        e.kind = UW_NODE_HEAD;
        bool all = s->cell->name[0] == '*' && strchr(s->cell->name, UW_CELL_DIVIDED) == NULL;
        snprintf(text, cap, "%s leads the averages%s%s", named, all ? "" : " of cell ",
                 all ? "" : s->cell->name);
        break;
    }
    uw_node_report(s, &e);
}

void uw_node_report_gradients(struct uw_node_state *s, enum uw_node_event_kind kind)
{
    static const char *const whys[] = {
        [UW_GRADIENTS_LATE] = "holds up the step",
        [UW_GRADIENTS_GONE] = "is gone",
        [UW_GRADIENTS_ENDED] = "has ended its training",
        [UW_GRADIENTS_DIFFERS] = "has other parameters",
        [UW_GRADIENTS_KNOCKED] = "would like to take part",
        [UW_GRADIENTS_DEVICE] = "cannot add by its device, the next group goes over the network",
        [UW_GRADIENTS_BACK] = "can add by its device again",
    };
    const struct uw_node_gradients *g = s->gradients;
    unsigned others = (unsigned)g->ranks_n - 1u;
    struct uw_node_event e = event_of(kind, "", s->now_us - g->began_us, g->ranks_n);
    if (kind == UW_NODE_GRADIENTS) {
        snprintf(s->text, UW_NODE_TEXT_BYTES,
                 "gradients are averaged every step with %u other%s by %s", others,
                 others == 1u ? "" : "s",
                 g->overlap.group.whole != NULL ? s->cell->direct->hooks->name
                                                : uw_allreduce_name(g->overlap.config.kind));
    } else {
        bool self = uw_node_own(s, g->culprit);
        e.peer = g->culprit == UW_CELL_NOBODY ? "a member"
                 : self                       ? "this node"
                                              : name_of(s, g->culprit);
        const char *why = self && g->why == UW_GRADIENTS_GONE ? "stops" : whys[g->why];
        snprintf(s->text, UW_NODE_TEXT_BYTES,
                 "%s %s: gradients are not averaged with %u other%s any more, the next average of "
                 "the parameters says with whom", e.peer, why, others,
                 others == 1u ? "" : "s");
    }
    uw_node_report(s, &e);
}

void uw_node_report_retreat(struct uw_node_state *s, const struct uw_member *from)
{
    const struct uw_node_pairs *p = s->pairs;
    uint32_t n = p->rounds_n < UW_PAIRS_WINDOW ? p->rounds_n : UW_PAIRS_WINDOW;
    struct uw_node_event e = event_of(UW_NODE_RETREAT, from != NULL ? from->name : "", 0, 0);
    if (from != NULL) {
        snprintf(s->text, UW_NODE_TEXT_BYTES,
                 "%s has given up gradient tracking: this node goes on with quasi-global momentum "
                 "too", from->name);
    } else {
        snprintf(s->text, UW_NODE_TEXT_BYTES,
                 "%u of the last %u pairs were half-open: gradient tracking is given up, the run "
                 "goes on with quasi-global momentum", (unsigned)p->half_n, (unsigned)n);
    }
    uw_node_report(s, &e);
}

void uw_node_report_bridge(struct uw_node_state *s, enum uw_node_event_kind kind,
                         uint64_t silent_us)
{
    const struct uw_member *m = uw_node_pull_member(s);
    char seen[UW_LINK_ADDRESS_BYTES];
    struct uw_node_event e = event_of(kind, "", silent_us, 0);
    if (kind == UW_NODE_CELL_ALONE) {
        snprintf(s->text, UW_NODE_TEXT_BYTES,
                 "no other cell can be reached for %u.%u s: cell %s goes on alone",
                 uw_whole_s(silent_us), uw_tenth_s(silent_us), s->cell->name);
    } else {
        e.peer = m != NULL ? m->name : "?";
        e.address = m != NULL ? uw_node_address(s, m, m->station, seen) : "?";
        snprintf(s->text, UW_NODE_TEXT_BYTES,
                 "cell %s mixes with cell %s through %s (%s), after %u.%u s alone", s->cell->name,
                 m != NULL ? m->averaging->cell : "?", e.peer, e.address,
                 uw_whole_s(silent_us), uw_tenth_s(silent_us));
    }
    uw_node_report(s, &e);
}
