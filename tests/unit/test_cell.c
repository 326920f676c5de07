/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells by themselves: some of them on a bus that takes its time, on virtual time; what is averaged
 * is a span of time. Whatever happens, no round counts for one and not for another. */
#include "test_support.h"

#include "cell.h"

#include "uwasa/status.h"

#define STATIONS_MAX 5u
#define LETTERS_MAX 256u
#define ROUNDS_MAX 32u
#define TICK_US 5000u
#define DELAY_US 30000u             /* several steps */
#define SECOND 1000000u

struct bus;

struct station {
    struct bus *bus;
    struct uw_cell cell;
    struct uw_cell_member members[STATIONS_MAX];
    _Alignas(16) uint8_t memory[1024];
    bool up, asleep;
    uint64_t late_us;               /* what it sends takes so much longer */
    uint64_t works_us, ready_at_us; /* its part in an all-reduce takes so long; is done then */
    uint32_t commits, given_up;
    uint32_t news[UW_CELL_NEWS_TAKEN_OVER + 1u];
};

struct letter {
    uint64_t at_us;
    uint32_t from, to;
    struct uw_cell_message m;
};

struct verdict {
    uint32_t group, round, committed, aborted;      /* bits of stations */
};

struct bus {
    uint64_t now_us;
    uint32_t n, letters_n, rounds_n;
    struct station stations[STATIONS_MAX];
    struct letter letters[LETTERS_MAX];
    struct verdict rounds[ROUNDS_MAX];
};

static uint32_t id_of(uint32_t station)
{
    return 10u + station;
}

static uint32_t place_of(const struct station *s)
{
    return (uint32_t)(s - s->bus->stations);
}

static void on_send(void *arg, uint32_t to, const struct uw_cell_message *m)
{
    struct station *s = arg;
    struct bus *b = s->bus;
    assert_true(b->letters_n < LETTERS_MAX);
    b->letters[b->letters_n++] = (struct letter){.at_us = b->now_us + DELAY_US + s->late_us,
                                                 .from = id_of(place_of(s)), .to = to, .m = *m};
}

static enum uw_allreduce_kind on_choose(void *arg, uint32_t ranks_n, float hints[UW_CELL_HINTS])
{
    (void)arg;
    (void)ranks_n;
    (void)hints;
    return UW_ALLREDUCE_RING;
}

static void on_begin(void *arg)
{
    struct station *s = arg;
    s->ready_at_us = s->bus->now_us + s->works_us;
}

static struct verdict *verdict_of(struct bus *b, uint32_t group, uint32_t round)
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

static void on_decided(void *arg, bool commit)
{
    struct station *s = arg;
    struct verdict *v = verdict_of(s->bus, s->cell.group, s->cell.round);
    *(commit ? &v->committed : &v->aborted) |= 1u << place_of(s);
    s->commits += commit;
}

static void on_give_up(void *arg)
{
    ((struct station *)arg)->given_up++;
}

static uint32_t on_progress(void *arg, uint32_t *waits_for)
{
    (void)arg;
    *waits_for = UW_RANK_NONE;
    return 1;
}

static void on_news(void *arg, const struct uw_cell_news *news)
{
    ((struct station *)arg)->news[news->kind]++;
}

/* The station with the highest number is head. */
static void set_up(struct bus *b, uint32_t n)
{
    memset(b, 0, sizeof *b);
    b->n = n;
    b->now_us = SECOND;
    for (uint32_t i = 0; i < n; i++) {
        struct station *s = &b->stations[i];
        const struct uw_cell_config c = {
            .self = id_of(i), .incarnation = 1, .ranks_max = STATIONS_MAX,
            .gather_us = 5 * SECOND, .round_us = 30 * SECOND, .arg = s, .send = on_send,
            .choose = on_choose, .begin = on_begin, .decided = on_decided, .give_up = on_give_up,
            .progress = on_progress, .tell = on_news};
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

static void deliver(struct bus *b)
{
    uint32_t kept = 0, all = b->letters_n;
    static struct letter due[LETTERS_MAX];
    uint32_t due_n = 0;
    for (uint32_t i = 0; i < all; i++) {
        bool waits = b->letters[i].at_us > b->now_us ||
                     b->stations[b->letters[i].to - id_of(0)].asleep;
        struct letter *place = waits ? &b->letters[kept++] : &due[due_n++];
        *place = b->letters[i];
    }
    b->letters_n = kept;
    for (uint32_t i = 0; i < due_n; i++) {
        struct station *s = &b->stations[due[i].to - id_of(0)];
        if (s->up) {
            uw_cell_take(&s->cell, due[i].from, &due[i].m, b->now_us);
        }
    }
}

static void tick(struct bus *b)
{
    deliver(b);
    for (uint32_t i = 0; i < b->n; i++) {
        struct station *s = &b->stations[i];
        if (!s->up || s->asleep) {
            continue;
        }
        if (s->cell.state == UW_CELL_IN_ROUND && b->now_us >= s->ready_at_us) {
            uw_cell_prepared(&s->cell, b->now_us);
        }
        (void)uw_cell_run(&s->cell, b->now_us);
    }
    b->now_us += TICK_US;
}

static void run(struct bus *b, uint64_t us)
{
    uint64_t until_us = b->now_us + us;
    while (b->now_us < until_us) {
        tick(b);
    }
}

static void ask(struct bus *b, uint32_t i)
{
    uw_cell_ask(&b->stations[i].cell, 1.0f, b->now_us);
}

static void ask_all(struct bus *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        ask(b, i);
    }
}

/* It is gone, and what it sent last to the stations of `lost` with it. */
static void vanish(struct bus *b, uint32_t station, uint32_t lost)
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

/* One learns that another is gone. */
static void learn(struct bus *b, uint32_t i, uint32_t gone)
{
    struct station *s = &b->stations[i];
    s->members[gone].usable = false;
    uw_cell_members(&s->cell, s->members, b->n);
    uw_cell_gone(&s->cell, id_of(gone), b->now_us);
}

/* All learn it some time later, one after the other, upwards or downwards. */
static void learn_all(struct bus *b, uint32_t gone, bool upwards)
{
    run(b, 200000);
    for (uint32_t k = 0; k < b->n; k++) {
        uint32_t i = upwards ? k : b->n - 1u - k;
        if (i != gone) {
            learn(b, i, gone);
            run(b, 45000);
        }
    }
}

static void check_rounds(const struct bus *b, uint32_t stations)
{
    for (uint32_t i = 0; i < b->rounds_n; i++) {
        const struct verdict *v = &b->rounds[i];
        if ((v->committed & stations) != 0 && (v->aborted & stations) != 0) {
            fail_msg("round %u: committed by %x, aborted by %x", (unsigned)v->round,
                     (unsigned)v->committed, (unsigned)v->aborted);
        }
    }
}

/* The head tells one rank, or at last nobody, that the round counts, and is gone. Who asks in its
 * place hears that late, after one that has a result and knows no more. */
static void test_taken_over_round_counts_when_all_have_a_result(void **state)
{
    (void)state;
    for (uint32_t knows = 0; knows < 4; knows++) {
        static struct bus b;
        set_up(&b, 4);
        ask_all(&b);
        while (b.stations[3].commits == 0) {
            tick(&b);
        }
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(b.stations[i].cell.state, UW_CELL_HAS_RESULT);
        }
        vanish(&b, 3, 7u & ~(1u << knows));
        b.stations[knows].late_us = 3u * DELAY_US;
        learn_all(&b, 3, true);
        run(&b, 2 * SECOND);
        assert_int_equal(b.rounds_n, 1);
        assert_int_equal(b.rounds[0].committed, 0xf);
        assert_int_equal(b.rounds[0].aborted, 0);
    }
}

static void test_taken_over_round_is_given_up_when_nobody_has_a_result(void **state)
{
    (void)state;
    static struct bus b;
    set_up(&b, 4);
    for (uint32_t i = 0; i < 4; i++) {
        b.stations[i].works_us = SECOND;
    }
    ask_all(&b);
    run(&b, 300000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(b.stations[i].cell.state, UW_CELL_IN_ROUND);
    }
    vanish(&b, 3, 7);
    learn_all(&b, 3, true);
    run(&b, 6 * SECOND);
    assert_int_equal(b.rounds_n, 2);
    assert_int_equal(b.rounds[0].aborted, 7);
    assert_int_equal(b.rounds[0].committed, 0);
    assert_int_equal(b.rounds[1].committed, 7);
    assert_int_equal(b.stations[0].news[UW_CELL_NEWS_TAKEN_OVER], 1);
}

/* At every moment of a round, with every set of survivors that its last words do not reach. */
static void test_head_that_vanishes_at_any_moment_parts_nobody(void **state)
{
    (void)state;
    uint32_t whole = 0, retried = 0;
    for (uint32_t n = 3; n <= STATIONS_MAX; n++) {
        uint32_t head = n - 1u, all = (1u << head) - 1u;
        for (uint32_t at = 0; at < 60; at++) {
            for (uint32_t lost = 0; lost <= all; lost++) {
                static struct bus b;
                set_up(&b, n);
                b.stations[lost % head].late_us = DELAY_US;
                b.stations[at % head].works_us = at % 3u == 0 ? 600000 : 50000;
                ask_all(&b);
                run(&b, at * TICK_US);
                vanish(&b, head, lost);
                learn_all(&b, head, (at & 1u) != 0);
                run(&b, 3 * SECOND);
                check_rounds(&b, all);
                for (uint32_t i = 0; i < head; i++) {
                    assert_int_equal(b.stations[i].cell.state, UW_CELL_IDLE);
                    assert_int_equal(b.stations[i].commits, 1);
                    assert_int_equal(b.stations[i].given_up, 0);
                }
                *(b.rounds_n == 1 ? &whole : &retried) += 1;
            }
        }
    }
    assert_true(whole > 100 && retried > 100);
}

/* What a station that waits answers to a START. */
static const struct uw_cell_message *answer_to(struct bus *b, const struct uw_cell_message *start)
{
    struct station *s = &b->stations[0];
    b->letters_n = 0;
    uw_cell_take(&s->cell, id_of(1), start, b->now_us);
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

static void test_start_of_a_round_that_cannot_be_is_answered_with_aborted(void **state)
{
    (void)state;
    static struct bus b;
    set_up(&b, 2);
    const struct uw_cell_message good = {.act = UW_CELL_START, .group = 7, .round = 1,
                                         .kind = UW_ALLREDUCE_RING, .ids_n = 2,
                                         .ids = {id_of(0), id_of(1)}};
    struct uw_cell_message bad[6] = {good, good, good, good, good, good};
    bad[0].ids_n = STATIONS_MAX + 1u;
    bad[1].kind = UW_ALLREDUCE_KINDS_N;
    bad[2].kind = (enum uw_allreduce_kind)1000;
    bad[3].ids[0] = id_of(4);
    bad[4].ids_n = 0;
    bad[5].asks = 4711;     /* a wait of its last life */
    assert_int_equal(answer_to(&b, &good)->status, UW_CELL_ABORTED);    /* it has not asked */
    ask(&b, 0);
    for (uint32_t i = 0; i < 6; i++) {
        bad[i].group += i + 1u;
        assert_int_equal(answer_to(&b, &bad[i])->status, UW_CELL_ABORTED);
        assert_int_equal(b.stations[0].cell.state, UW_CELL_WAITING);
        bad[i].ids_n = 2;
        bad[i].kind = UW_ALLREDUCE_RING;
        bad[i].ids[0] = id_of(0);
        bad[i].asks = 0;
        assert_int_equal(answer_to(&b, &bad[i])->status, UW_CELL_ABORTED);  /* once and for all */
    }
    struct uw_cell_message next = good;
    next.round = 2;
    next.asks = b.stations[0].cell.asks;
    assert_null(answer_to(&b, &next));
    assert_int_equal(b.stations[0].cell.state, UW_CELL_IN_ROUND);
    assert_null(answer_to(&b, &next));              /* a copy begins nothing anew */
    assert_int_equal(b.stations[0].cell.round, 2);
}

static void sleep_head(struct bus *b, struct station *head)
{
    head->asleep = true;
    run(b, 10 * SECOND);
    head->asleep = false;
    uw_cell_slept(&head->cell, 10 * SECOND);
}

/* Rounds in which the middle station is ready half a second after the others; in one of them the
 * head sleeps for ten seconds, at every moment of it. */
static void test_head_that_slept_blames_nobody(void **state)
{
    (void)state;
    for (uint32_t at = 0; at < 30; at++) {
        static struct bus b;
        set_up(&b, 3);
        for (uint32_t round = 0; round < 8; round++) {
            ask(&b, 0);
            ask(&b, 2);
            for (uint32_t k = 0; k < 40; k++) {
                if (round == 6 && k == at) {
                    sleep_head(&b, &b.stations[2]);
                }
                if (k == 20) {
                    ask(&b, 1);
                }
                run(&b, 25000);
            }
            for (uint32_t i = 0; i < 3; i++) {
                assert_int_equal(b.stations[i].commits, round + 1u);
                assert_int_equal(b.stations[i].given_up, 0);
                assert_int_equal(b.stations[i].news[UW_CELL_NEWS_LATE], 0);
                assert_int_equal(b.stations[i].news[UW_CELL_NEWS_ABORTED], 0);
            }
        }
        assert_int_equal(b.rounds_n, 8);
    }
}

/* The end of the last round, after which nodes leave: the head stays until all know of it, but not
 * for ever. */
static void test_head_knows_who_has_not_heard_the_end(void **state)
{
    (void)state;
    static struct bus b;
    set_up(&b, 3);
    for (uint32_t i = 0; i < 3; i++) {
        b.stations[i].cell.config.tells_all = true;
    }
    struct uw_cell *head = &b.stations[2].cell;
    assert_false(uw_cell_owes(head));
    ask_all(&b);
    while (b.stations[2].commits == 0) {
        tick(&b);
    }
    b.letters_n = 0;                /* nobody hears it the first time */
    while (uw_cell_owes(head)) {
        tick(&b);
    }
    assert_int_equal(b.rounds_n, 1);
    assert_int_equal(b.rounds[0].committed, 7);
    assert_true(b.now_us < 2 * SECOND);

    ask_all(&b);
    while (b.stations[2].commits == 1) {
        tick(&b);
    }
    b.stations[0].asleep = true;
    run(&b, 2 * SECOND);
    assert_true(uw_cell_owes(head));
    run(&b, 2 * SECOND);
    assert_false(uw_cell_owes(head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken_over_round_counts_when_all_have_a_result),
        cmocka_unit_test(test_taken_over_round_is_given_up_when_nobody_has_a_result),
        cmocka_unit_test(test_head_that_vanishes_at_any_moment_parts_nobody),
        cmocka_unit_test(test_start_of_a_round_that_cannot_be_is_answered_with_aborted),
        cmocka_unit_test(test_head_that_slept_blames_nobody),
        cmocka_unit_test(test_head_knows_who_has_not_heard_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
