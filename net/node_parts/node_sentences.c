/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node_lanes.h"

#include <stdio.h>

static const char *const whys[UW_WHYS_N] = {
    [UW_WHY_NONE] = "",
    [UW_WHY_CHUNK] = "a chunk was refused",
    [UW_WHY_LATE] = "it took far longer than pulls usually do",
    [UW_WHY_GONE] = "the peer is gone",
    [UW_WHY_SILENT] = "the peer fell silent",
    [UW_WHY_NOT_READY] = "it has nothing to show yet",
    [UW_WHY_MODEL] = "it trains another model",
    [UW_WHY_NARROW] = "its link is too narrow",
    [UW_WHY_SLEEPS] = "the peer sleeps",
};

static void write_member(struct uw_node_state *s, const struct uw_node_event *e)
{
    unsigned alive = (unsigned)uw_membership_alive(&s->membership);
    const char *ending = alive == 1u ? "" : "s", *name = e->peer, *address = e->address;
    bool pulls = s->config.mode != UW_NODE_ALLREDUCE;
    uint64_t silent_us = e->duration_us;
    char *text = s->text;
    size_t cap = UW_NODE_TEXT_BYTES;
    switch (e->kind) {
    case UW_NODE_ALIVE:
        snprintf(text, cap, "peer %s (%s) is here: %u peer%s alive", name, address, alive,
                 ending);
        break;
    case UW_NODE_SUSPECT:
        snprintf(text, cap, "peer %s (%s) silent for %u.%u s: suspected, %s%u other%s%s", name,
                 address, uw_whole_s(silent_us), uw_tenth_s(silent_us),
                 pulls ? "pulls go to " : "", alive, ending, pulls ? "" : " alive");
        break;
    case UW_NODE_DEAD:
        snprintf(text, cap,
                 "peer %s (%s) silent for %u.%u s: given up, called again every few seconds",
                 name, address, uw_whole_s(silent_us), uw_tenth_s(silent_us));
        break;
    case UW_NODE_REJOINED:
        snprintf(text, cap, "peer %s (%s) is back after %u.%u s: %u peer%s alive", name,
                 address, uw_whole_s(silent_us), uw_tenth_s(silent_us), alive, ending);
        break;
    case UW_NODE_RESTARTED:
        snprintf(text, cap, "peer %s (%s) was restarted: known as before", name, address);
        break;
    case UW_NODE_LEFT:
        snprintf(text, cap, "peer %s (%s) left the run: %u peer%s alive", name, address, alive,
                 ending);
        break;
    case UW_NODE_SEED_FAILED:
        snprintf(text, cap, "seed %s does not resolve: tried again every few seconds", address);
        break;
    default:
        break;
    }
}

/* How far a pull came. */
static void write_progress(struct uw_node_state *s, const struct uw_node_event *e, const char *why)
{
    const struct uw_node_pull *p = &s->pull;
    const struct uw_pull *t = &p->transfer;
    const char *name = e->peer, *address = e->address;
    enum uw_node_event_kind kind = e->kind;
    uint64_t took_us = e->duration_us;
    char *text = s->text;
    size_t cap = UW_NODE_TEXT_BYTES;
    if (kind == UW_NODE_PULL_STARTED) {
        snprintf(text, cap, "pull from %s (%s): %u chunks of %u floats%s", name, address,
                 (unsigned)t->chunks, (unsigned)t->chunk_n,
                 p->what_for == UW_PULL_TO_ADOPT ? ", to take over its model" : "");
    } else if (kind == UW_NODE_PULL_DONE) {
        uint32_t more = s->further != NULL ? s->further->asked_n : 0;
        char others[24] = "";
        if (more != 0) {
            snprintf(others, sizeof others, " and %u more", (unsigned)more);
        }
        snprintf(text, cap, "pulled %llu bytes from %s (%s)%s in %u.%03u s",
                 (unsigned long long)p->bytes, name, address, others, uw_whole_s(took_us),
                 (unsigned)(took_us / 1000u % 1000u));
    } else {
        snprintf(text, cap, "pull from %s (%s) %s after %u.%u s, %s: %u of %u chunks arrived, %s",
                 name, address, kind == UW_NODE_PULL_MOVED ? "stopped" : "cut", uw_whole_s(took_us),
                 uw_tenth_s(took_us), why, (unsigned)e->chunks_n, (unsigned)e->chunks_total_n,
                 kind == UW_NODE_PULL_MOVED ? "another peer is asked for the rest"
                                            : "the rest of the model stays as it was");
    }
}

static void write_pull(struct uw_node_state *s, const struct uw_node_event *e,
                       const struct uw_node_cause *c)
{
    const struct uw_member *m = c->m;
    const char *name = e->peer, *address = e->address;
    uint64_t until_us = m != NULL ? uw_node_peer(s, m)->avoid_until_us : 0;
    uint64_t avoid_us = until_us > s->outer_us ? until_us - s->outer_us : 0;
    char *text = s->text;
    size_t cap = UW_NODE_TEXT_BYTES;
    switch (e->kind) {
    case UW_NODE_PULL_STARTED:
    case UW_NODE_PULL_DONE:
    case UW_NODE_PULL_CUT:
    case UW_NODE_PULL_MOVED:
        write_progress(s, e, whys[c->why]);
        break;
    case UW_NODE_PULL_REFUSED:
        snprintf(text, cap, "peer %s (%s) does not serve: %s; another one next time", name,
                 address, whys[c->why]);
        break;
    case UW_NODE_CHUNK_NONFINITE:
    case UW_NODE_CHUNK_OUTLIER:
        snprintf(text, cap, "a chunk from %s (%s) %s: refused, no pulls from it for %u s", name,
                 address,
                 e->kind == UW_NODE_CHUNK_OUTLIER ? "is far from all we know"
                                                  : "holds a NaN or infinity",
                 uw_whole_s(avoid_us));
        break;
    case UW_NODE_ADOPTED:
        snprintf(text, cap, "took over the model of %s (%s), which is at step %u", name, address,
                 m != NULL ? (unsigned)m->progress.step : 0u);
        break;
    default:
        break;
    }
}

static void write_refused(struct uw_node_state *s, const struct uw_node_event *e,
                          const struct uw_node_cause *c)
{
    char *text = s->text;
    size_t cap = UW_NODE_TEXT_BYTES;
    if (e->kind == UW_NODE_WRONG_RUN) {
        snprintf(text, cap, "%s belongs to another run, ours is \"%.64s\": refused", e->address,
                 s->config.run);
    } else if (e->kind == UW_NODE_MEMBERS_FULL) {
        snprintf(text, cap, "%s is answered, not entered: the table of %u members is full",
                 e->address, (unsigned)s->config.members_max);
    } else if (e->kind == UW_NODE_WRONG_MODEL) {
        snprintf(text, cap,
                 "peer %s (%s) trains another model (hash %08lx%08lx, ours %08lx%08lx): no pulls "
                 "between us",
                 e->peer, e->address, (unsigned long)(c->hash >> 32),
                 (unsigned long)(c->hash & 0xffffffffu), (unsigned long)(s->model >> 32),
                 (unsigned long)(s->model & 0xffffffffu));
    } else if (c->own) {
        snprintf(text, cap,
                 "another device of the run is called %s too (told by %s): give each its own name",
                 s->config.name, e->address);
    } else {
        snprintf(text, cap, "%s uses the name of a peer that is alive elsewhere: refused",
                 e->address);
    }
}

/* Of averages by broadcast; others write their own. */
static void write_cast(struct uw_node_state *s, const struct uw_node_event *e)
{
    unsigned others = (unsigned)e->chunks_n - 1u;
    uint64_t us = e->duration_us;
    unsigned mute_n = (unsigned)(e->chunks_total_n - e->chunks_n);
    char who[UW_NODE_NAME_BYTES + 64u] = "", more[24] = "";
    if (mute_n > 1u) {
        snprintf(more, sizeof more, " and %u more", mute_n - 1u);
    }
    if (mute_n != 0) {
        snprintf(who, sizeof who, "; %s%s sent nothing: not waited for until heard", e->peer, more);
    }
    snprintf(s->text, UW_NODE_TEXT_BYTES,
             "averaged%s with %u other%s in %u.%03u s by broadcast%s%s",
             e->kind == UW_NODE_AVERAGED ? " exactly" : "", others, others == 1u ? "" : "s",
             uw_whole_s(us), (unsigned)(us / 1000u % 1000u),
             e->kind == UW_NODE_AVERAGED ? "" : ", with less than all of it", who);
}

static void write_sentence(struct uw_node_state *s, const struct uw_node_event *e,
                           const struct uw_node_cause *c)
{
    switch (e->kind) {
    case UW_NODE_WRONG_RUN:
    case UW_NODE_WRONG_MODEL:
    case UW_NODE_NAME_TAKEN:
    case UW_NODE_MEMBERS_FULL:
        write_refused(s, e, c);
        break;
    case UW_NODE_ALIVE:
    case UW_NODE_SUSPECT:
    case UW_NODE_DEAD:
    case UW_NODE_REJOINED:
    case UW_NODE_RESTARTED:
    case UW_NODE_LEFT:
    case UW_NODE_SEED_FAILED:
        write_member(s, e);
        break;
    case UW_NODE_AVERAGED:
    case UW_NODE_AVERAGE_CUT:
        write_cast(s, e);
        break;
    default:
        write_pull(s, e, c);
        break;
    }
}

const struct uw_node_sentences uw_node_sentences = {.write = write_sentence};
