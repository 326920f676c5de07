/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells: whatever happens, no round counts for one and not for another. */
#include "unit/cell_bus.h"

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
    assert_int_equal(answer_to(&b, &next)->status, UW_CELL_RUNNING);
    assert_int_equal(b.stations[0].cell.state, UW_CELL_IN_ROUND);
    assert_null(answer_to(&b, &next));              /* a copy begins nothing anew */
    assert_int_equal(b.stations[0].cell.round, 2);
}

/* What a station said in its first wait comes in its third: while it waits, or in the round. */
static void test_late_news_of_an_earlier_wait_ends_no_round(void **state)
{
    (void)state;
    for (uint32_t waits = 0; waits < 2; waits++) {
        static struct bus b;
        struct uw_cell_message late = {.asks = 0};
        set_up(&b, 3);
        for (uint32_t round = 1; round <= 3; round++) {
            struct uw_cell *head = &b.stations[2].cell;
            enum uw_cell_state when = waits ? UW_CELL_WAITING : UW_CELL_IN_ROUND;
            bool heard = false;
            ask_all(&b);
            b.stations[1].cell.repeat_us += waits ? 200000 : 0;     /* all wait for it */
            for (uint32_t k = 0; k < 200; k++) {
                tick(&b);
                for (uint32_t i = 0; i < b.letters_n && late.asks == 0; i++) {
                    late = b.letters[i].from == id_of(0) ? b.letters[i].m : late;
                }
                if (round == 3 && k > 20 && head->state == when && !heard) {
                    heard = true;
                    uw_cell_receive(head, id_of(0), &late, b.now_us);
                }
            }
            assert_int_equal(heard, round == 3);
        }
        assert_int_equal(late.act, UW_CELL_READY);
        assert_int_equal(b.rounds_n, 3);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(b.rounds[i].committed, 7);
            assert_int_equal(b.stations[i].news[UW_CELL_NEWS_ABORTED], 0);
        }
    }
}

static void sleep_head(struct bus *b, struct station *head)
{
    head->asleep = true;
    run(b, 10 * SECOND);
    head->asleep = false;
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
        b.stations[i].cell.config.is_last = true;
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
        cmocka_unit_test(test_late_news_of_an_earlier_wait_ends_no_round),
        cmocka_unit_test(test_head_that_slept_blames_nobody),
        cmocka_unit_test(test_head_knows_who_has_not_heard_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
