/* SPDX-License-Identifier: Apache-2.0
 *
 * cell_bus.h - cells by themselves: some of them on a bus that takes its time, on virtual time;
 * what is averaged is a span of time */
#ifndef UWASA_TEST_CELL_BUS_H
#define UWASA_TEST_CELL_BUS_H

#include "test_support.h"

#include "cell/cell.h"

#include "uwasa/status.h"

#define STATIONS_MAX 5u
#define LETTERS_MAX 256u
#define ROUNDS_MAX 32u
#define TICK_US 5000u
#define DELAY_US 30000u /* several steps */
#define SECOND 1000000u

struct bus;

struct station {
    struct bus *bus;
    struct uw_cell cell;
    struct uw_cell_member members[STATIONS_MAX];
    _Alignas(16) uint8_t memory[1024];
    bool up, asleep;
    uint64_t slept_us; /* its clock stood still for so long */
    uint64_t late_us; /* what it sends takes so much longer */
    uint64_t works_us, ready_at_us; /* its part in an all-reduce takes so long; is done then */
    uint32_t commits, given_up;
    uint32_t news[UW_CELL_NEWS_TAKEN_OVER + 1u];
    uint32_t deaf; /* bits of stations that it says it does not hear */
};

struct letter {
    uint64_t at_us;
    uint32_t from, to;
    struct uw_cell_message m;
};

struct verdict {
    uint32_t group, round, committed, aborted; /* bits of stations */
};

struct bus {
    uint64_t now_us;
    uint32_t n, letters_n, rounds_n;
    struct station stations[STATIONS_MAX];
    struct letter letters[LETTERS_MAX];
    struct verdict rounds[ROUNDS_MAX];
};

static inline uint32_t id_of(uint32_t station)
{
    return 10u + station;
}

static inline uint32_t place_of(const struct station *s)
{
    return (uint32_t)(s - s->bus->stations);
}

static inline void on_send(void *arg, uint32_t to, const struct uw_cell_message *m)
{
    struct station *s = arg;
    struct bus *b = s->bus;
    assert_true(b->letters_n < LETTERS_MAX);
    assert_int_not_equal(to, id_of(place_of(s)));
    b->letters[b->letters_n++] = (struct letter){
        .at_us = b->now_us + DELAY_US + s->late_us, .from = id_of(place_of(s)), .to = to, .m = *m};
}

static inline enum uw_allreduce_kind on_choose(void *arg, struct uw_cell_message *start)
{
    (void)arg;
    (void)start;
    return UW_ALLREDUCE_RING;
}

static inline void on_begin(void *arg)
{
    struct station *s = arg;
    s->ready_at_us = s->bus->now_us + s->works_us;
}

static inline struct verdict *verdict_of(struct bus *b, uint32_t group, uint32_t round)
{
    uint32_t i = 0;
    while (i < b->rounds_n && (b->rounds[i].group != group || b->rounds[i].round != round)) {
        i++;
    }
    if (i == b->rounds_n) {
        assert_true(i < ROUNDS_MAX);
        b->rounds[b->rounds_n++] = (struct verdict){.group = group, .round = round};
    }
    return &b->rounds[i];
}

static inline void on_decided(void *arg, bool commit, uint32_t culprit)
{
    (void)culprit;
    struct station *s = arg;
    struct verdict *v = verdict_of(s->bus, s->cell.group, s->cell.round);
    *(commit ? &v->committed : &v->aborted) |= 1u << place_of(s);
    s->commits += commit;
}

static inline void on_give_up(void *arg)
{
    ((struct station *)arg)->given_up++;
}

static inline uint32_t on_progress(void *arg, uint32_t *waits_for)
{
    (void)arg;
    *waits_for = UW_RANK_NONE;
    return 1;
}

static inline void on_news(void *arg, const struct uw_cell_news *news)
{
    ((struct station *)arg)->news[news->kind]++;
}

/* The station with the highest number is head. */
static inline void set_up(struct bus *b, uint32_t n)
{
    memset(b, 0, sizeof *b);
    b->n = n;
    b->now_us = SECOND;
    for (uint32_t i = 0; i < n; i++) {
        struct station *s = &b->stations[i];
        const struct uw_cell_config c = {.self = id_of(i),
                                         .incarnation = 1,
                                         .ranks_max = STATIONS_MAX,
                                         .gather_us = 5 * SECOND,
                                         .round_us = 30 * SECOND,
                                         .arg = s,
                                         .send = on_send,
                                         .choose = on_choose,
                                         .begin = on_begin,
                                         .decided = on_decided,
                                         .give_up = on_give_up,
                                         .progress = on_progress,
                                         .report = on_news};
        struct uw_arena arena;
        uw_arena_init(&arena, s->memory, sizeof s->memory);
        assert_int_equal(uw_cell_place(&s->cell, &arena, &c), UW_OK);
        s->bus = b;
        s->up = true;
        s->works_us = 50000u + 20000u * i;
        for (uint32_t k = 0; k < n; k++) {
            s->members[k] =
                (struct uw_cell_member){.id = id_of(k), .weight = k == n - 1u, .usable = true};
        }
        uw_cell_members(&s->cell, s->members, n);
    }
}

static inline uint64_t clock_of(const struct station *s)
{
    return s->bus->now_us - s->slept_us;
}

static inline void deliver(struct bus *b)
{
    uint32_t kept = 0, all = b->letters_n;
    static struct letter due[LETTERS_MAX];
    uint32_t due_n = 0;
    for (uint32_t i = 0; i < all; i++) {
        bool waits =
            b->letters[i].at_us > b->now_us || b->stations[b->letters[i].to - id_of(0)].asleep;
        struct letter *place = waits ? &b->letters[kept++] : &due[due_n++];
        *place = b->letters[i];
    }
    b->letters_n = kept;
    for (uint32_t i = 0; i < due_n; i++) {
        struct station *s = &b->stations[due[i].to - id_of(0)];
        if (s->up) {
            uw_cell_receive(&s->cell, due[i].from, &due[i].m, clock_of(s));
        }
    }
}

static inline void tick(struct bus *b)
{
    deliver(b);
    for (uint32_t i = 0; i < b->n; i++) {
        struct station *s = &b->stations[i];
        s->slept_us += s->asleep ? TICK_US : 0;
        if (!s->up || s->asleep) {
            continue;
        }
        if (s->cell.state == UW_CELL_IN_ROUND && b->now_us >= s->ready_at_us) {
            uw_cell_prepared(&s->cell, clock_of(s));
        }
        (void)uw_cell_run(&s->cell, clock_of(s));
    }
    b->now_us += TICK_US;
}

static inline void run(struct bus *b, uint64_t us)
{
    uint64_t until_us = b->now_us + us;
    while (b->now_us < until_us) {
        tick(b);
    }
}

static inline void ask(struct bus *b, uint32_t i)
{
    uw_cell_ask(&b->stations[i].cell, 1.0f, clock_of(&b->stations[i]));
}

static inline void ask_all(struct bus *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        ask(b, i);
    }
}

/* It is gone, and what it sent last to the stations of `lost` with it. */
static inline void vanish(struct bus *b, uint32_t station, uint32_t lost)
{
    uint32_t kept = 0;
    b->stations[station].up = false;
    for (uint32_t i = 0; i < b->letters_n; i++) {
        const struct letter *l = &b->letters[i];
        if (l->from != id_of(station) || (lost >> (l->to - id_of(0)) & 1u) == 0) {
            b->letters[kept++] = *l;
        }
    }
    b->letters_n = kept;
}

/* What a station that waits answers to a START. */
static inline const struct uw_cell_message *answer_to(struct bus *b,
                                                      const struct uw_cell_message *start)
{
    struct station *s = &b->stations[0];
    b->letters_n = 0;
    uw_cell_receive(&s->cell, id_of(1), start, clock_of(s));
    if (b->letters_n == 0) {
        return NULL;
    }
    assert_int_equal(b->letters_n, 1);
    assert_int_equal(b->letters[0].to, id_of(1));
    assert_int_equal(b->letters[0].m.act, UW_CELL_STATE);
    assert_int_equal(b->letters[0].m.group, start->group);
    assert_int_equal(b->letters[0].m.round, start->round);
    return &b->letters[0].m;
}

#endif
