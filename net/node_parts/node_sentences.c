/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node_pull.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const whys[UW_WHYS_N] = {
    [UW_WHY_NONE] = "",
    [UW_WHY_CHUNK] = "a chunk was refused",
    [UW_WHY_LATE] = "it took much longer than earlier pulls",
    [UW_WHY_GONE] = "the peer is gone",
    [UW_WHY_SILENT] = "the peer is silent",
    [UW_WHY_NOT_READY] = "it has no model to share yet",
    [UW_WHY_MODEL] = "it trains another model",
    [UW_WHY_NARROW] = "its link carries too small messages",
    [UW_WHY_SLEEPS] = "the peer sleeps",
};

__attribute__((format(printf, 2, 3)))
static void print(struct uw_node_state *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->text, UW_NODE_TEXT_BYTES, format, args);
    va_end(args);
}

static unsigned thousandth_s(uint64_t us)
{
    return (unsigned)(us / 1000u % 1000u);
}

static void write_member(struct uw_node_state *s, const struct uw_node_event *e)
{
    unsigned alive = (unsigned)uw_membership_alive(&s->membership);
    unsigned whole_s = uw_whole_s(e->duration_us), tenth_s = uw_tenth_s(e->duration_us);
    const char *ending = alive == 1u ? "" : "s", *name = e->peer, *address = e->address;
    bool pulls = s->config.mode != UW_NODE_ALLREDUCE;
    switch (e->kind) {
    case UW_NODE_ALIVE:
        print(s, "peer %s (%s) joined: %u peer%s alive", name, address, alive, ending);
        break;
    case UW_NODE_SUSPECT:
        print(s, "peer %s (%s) silent for %u.%u s: suspected, %s%u other%s%s", name, address,
              whole_s, tenth_s, pulls ? "pulls go to " : "", alive, ending, pulls ? "" : " alive");
        break;
    case UW_NODE_DEAD:
        print(s, "peer %s (%s) silent for %u.%u s: dead, retried every few seconds", name,
              address, whole_s, tenth_s);
        break;
    case UW_NODE_REJOINED:
        print(s, "peer %s (%s) is back after %u.%u s: %u peer%s alive", name, address, whole_s,
              tenth_s, alive, ending);
        break;
    case UW_NODE_RESTARTED:
        print(s, "peer %s (%s) was restarted", name, address);
        break;
    case UW_NODE_LEFT:
        print(s, "peer %s (%s) left the run: %u peer%s alive", name, address, alive, ending);
        break;
    default:
        print(s, "seed %s does not resolve: retried every few seconds", address);
        break;
    }
}

static void write_stopped(struct uw_node_state *s, const struct uw_node_event *e, const char *why)
{
    bool moved = e->kind == UW_NODE_PULL_MOVED;
    print(s, "pull from %s (%s) %s after %u.%u s, %s: %u of %u chunks arrived, %s", e->peer,
          e->address, moved ? "stopped" : "cut", uw_whole_s(e->duration_us),
          uw_tenth_s(e->duration_us), why, (unsigned)e->chunks_n, (unsigned)e->chunks_total_n,
          moved ? "another peer serves the rest"
                : "the rest of the model is unchanged");
}

static const char *and_more(unsigned n, char text[24])
{
    text[0] = '\0';
    if (n != 0) {
        snprintf(text, 24, " and %u more", n);
    }
    return text;
}

static void write_refused_model(struct uw_node_state *s, const struct uw_node_event *e,
                                const struct uw_node_cause *c)
{
    uint64_t until_us = c->m != NULL ? uw_node_peer(s, c->m)->avoid_until_us : 0;
    char pause[40] = "";
    if (until_us > s->outer_us) {
        snprintf(pause, sizeof pause, ", no pulls from it for %u s",
                 uw_whole_s(until_us - s->outer_us));
    }
    print(s, "the model of %s (%s) %s: refused%s", e->peer, e->address,
          e->kind == UW_NODE_CHUNK_OUTLIER ? "is too far from this node's"
                                           : "holds a NaN or infinity", pause);
}

static void write_pull(struct uw_node_state *s, const struct uw_node_event *e,
                       const struct uw_node_cause *c)
{
    const struct uw_node_pull *p = &s->pull;
    const struct uw_member *m = c->m;
    const char *name = e->peer, *address = e->address;
    char more[24];
    switch (e->kind) {
    case UW_NODE_PULL_STARTED:
        print(s, "pull from %s (%s): %u chunks of %u floats%s", name, address,
              (unsigned)p->first.transfer.chunks, (unsigned)p->first.transfer.chunk_n,
              p->what_for == UW_PULL_TO_ADOPT ? ", to take over its model" : "");
        break;
    case UW_NODE_PULL_DONE:
        print(s, "pulled %llu bytes from %s (%s)%s in %u.%03u s", (unsigned long long)p->bytes,
              name, address, and_more(s->further != NULL ? s->further->asked_n : 0, more),
              uw_whole_s(e->duration_us), thousandth_s(e->duration_us));
        break;
    case UW_NODE_PULL_REFUSED:
        print(s, "peer %s (%s) refused a pull: %s", name, address,
              whys[c->why]);
        break;
    case UW_NODE_CHUNK_NONFINITE:
    case UW_NODE_CHUNK_OUTLIER:
        write_refused_model(s, e, c);
        break;
    case UW_NODE_ADOPTED:
        print(s, "took over the model of %s (%s), which is at step %u%s", name, address,
              m != NULL ? (unsigned)m->progress.step : 0u,
              s->config.trained_steps != 0 ? ": the checkpoint is at less than half of it" : "");
        break;
    default:
        write_stopped(s, e, whys[c->why]);
        break;
    }
}

static void write_refused(struct uw_node_state *s, const struct uw_node_event *e,
                          const struct uw_node_cause *c)
{
    if (e->kind == UW_NODE_WRONG_RUN) {
        print(s, "%s belongs to another run, ours is \"%.64s\": refused", e->address,
              s->config.run);
    } else if (e->kind == UW_NODE_WRONG_VERSION) {
        print(s, "%s%s%s%s runs another version of the protocol: this node cannot read what it "
                 "sends and exchanges nothing with it until the older one is updated",
              e->peer, e->peer[0] != '\0' ? " (" : "", e->address, e->peer[0] != '\0' ? ")" : "");
    } else if (e->kind == UW_NODE_MEMBERS_FULL) {
        print(s, "the run has more nodes than the table of %u members: the others get answers, and "
                 "exact averages go by parts of the run; a larger \"members\" knows them all",
              (unsigned)s->config.members_max);
    } else if (e->kind == UW_NODE_WRONG_MODEL) {
        print(s, "peer %s (%s) trains another model (hash %08lx%08lx, ours %08lx%08lx): no pulls "
                 "between us",
              e->peer, e->address, (unsigned long)(c->hash >> 32),
              (unsigned long)(c->hash & 0xffffffffu), (unsigned long)(s->model >> 32),
              (unsigned long)(s->model & 0xffffffffu));
    } else if (c->own) {
        print(s, "another device of the run has the name %s, too (reported by %s): rename one",
              s->config.name, e->address);
    } else {
        print(s, "%s uses the name of another live peer: refused", e->address);
    }
}

/* A broadcast average; exact averages write their own sentences. */
static void write_cast(struct uw_node_state *s, const struct uw_node_event *e)
{
    unsigned others = (unsigned)e->chunks_n - 1u;
    unsigned mute_n = (unsigned)(e->chunks_total_n - e->chunks_n);
    bool exact = e->kind == UW_NODE_AVERAGED;
    char mute[UW_NODE_NAME_BYTES + 64u] = "", more[24];
    if (mute_n != 0) {
        snprintf(mute, sizeof mute, "; %s%s sent nothing: excluded until it sends", e->peer,
                 and_more(mute_n - 1u, more));
    }
    print(s, "averaged%s with %u other%s in %u.%03u s by broadcast%s%s", exact ? " exactly" : "",
          others, others == 1u ? "" : "s", uw_whole_s(e->duration_us),
          thousandth_s(e->duration_us), exact ? "" : ", incomplete", mute);
}

static void write_sentence(struct uw_node_state *s, const struct uw_node_event *e,
                           const struct uw_node_cause *c)
{
    switch (e->kind) {
    case UW_NODE_WRONG_RUN:
    case UW_NODE_WRONG_MODEL:
    case UW_NODE_WRONG_VERSION:
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
