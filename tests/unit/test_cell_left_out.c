/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is not averaged with waits for nothing. */
#include "unit/cell_bus.h"

/* The last of five for whom four places are left, and be it the head. */
static void test_who_has_no_place_goes_on_at_once(void **state)
{
    (void)state;
    for (uint32_t last = 0; last < 5; last += 4u) {
        static struct bus b;
        set_up(&b, 5);
        b.stations[4].cell.config.ranks_max = 4;
        for (uint32_t i = 0; i < 5; i++) {
            if (i != last) {
                ask(&b, i);
            }
        }
        run(&b, 100000);
        ask(&b, last);
        run(&b, 100000);
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(b.stations[i].given_up, i == last);
            assert_int_equal(b.stations[i].news[UW_CELL_NEWS_FULL], i == last);
        }
        run(&b, SECOND);
        assert_int_equal(b.rounds_n, 1);
        assert_int_equal(b.rounds[0].committed, 31u & ~(1u << last));
    }
}

/* The first of three, in the first round. */
static void end_a_round(struct bus *b)
{
    set_up(b, 3);
    ask_all(b);
    while (b->stations[0].cell.state != UW_CELL_IN_ROUND) {
        tick(b);
    }
    uw_cell_refuse(&b->stations[0].cell, false, b->now_us);
}

/* In the first round one of three diverges; the others try again without it. Its head does not
 * ask it for two seconds: it does not wait for that. */
static void test_who_has_just_ended_a_round_goes_on_at_once(void **state)
{
    (void)state;
    static struct bus b;
    end_a_round(&b);
    run(&b, 500000);
    assert_int_equal(b.stations[0].given_up, 1);
    assert_int_equal(b.stations[0].cell.state, UW_CELL_IDLE);
    run(&b, SECOND);
    assert_int_equal(b.stations[1].commits, 1);
    assert_int_equal(b.stations[2].commits, 1);
    run(&b, SECOND);
    ask_all(&b);
    run(&b, 2 * SECOND);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(b.stations[i].commits, i == 0 ? 1 : 2);
    }
}

/* A word of the wait that was refused comes when the exile is over, and the refusal when the next
 * wait has begun: neither counts, and nobody's round is ended by them. */
static void test_late_words_of_a_refused_wait_do_not_count(void **state)
{
    (void)state;
    static struct bus b;
    end_a_round(&b);
    run(&b, SECOND);
    assert_int_equal(b.stations[0].given_up, 1);
    const struct uw_cell *refused = &b.stations[0].cell;
    const struct uw_cell_message late = {.act = UW_CELL_READY, .rms = 1.0f, .asks = refused->asks,
                                         .incarnation = refused->config.incarnation};
    const struct uw_cell_message refusal = {.act = UW_CELL_STATE, .status = UW_CELL_ABORTED,
                                            .asks = late.asks, .culprit = id_of(2)};
    run(&b, 2 * SECOND);
    uw_cell_receive(&b.stations[2].cell, id_of(0), &late, b.now_us);
    ask(&b, 1);
    ask(&b, 2);
    run(&b, SECOND);
    assert_int_equal(b.rounds[b.rounds_n - 1u].committed, 6);
    assert_int_equal(b.rounds[b.rounds_n - 1u].aborted, 0);
    ask(&b, 0);
    assert_int_equal(refused->head, id_of(2));
    uw_cell_receive(&b.stations[0].cell, id_of(2), &refusal, b.now_us);
    assert_int_equal(refused->state, UW_CELL_WAITING);
    ask(&b, 1);
    ask(&b, 2);
    run(&b, SECOND);
    assert_int_equal(b.rounds[b.rounds_n - 1u].committed, 7);
}

/* It has no memory for what the head has chosen. */
static void test_who_cannot_average_as_the_others_do_goes_on_at_once(void **state)
{
    (void)state;
    static struct bus b;
    set_up(&b, 2);
    ask(&b, 0);
    const struct uw_cell_message start = {
        .act = UW_CELL_START, .group = 7, .round = 1, .kind = UW_ALLREDUCE_KINDS_N, .ids_n = 2,
        .ids = {id_of(0), id_of(1)}, .asks = b.stations[0].cell.asks};
    assert_int_equal(answer_to(&b, &start)->status, UW_CELL_ABORTED);
    assert_int_equal(b.stations[0].given_up, 1);
    assert_int_equal(b.stations[0].news[UW_CELL_NEWS_UNABLE], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_has_no_place_goes_on_at_once),
        cmocka_unit_test(test_who_has_just_ended_a_round_goes_on_at_once),
        cmocka_unit_test(test_late_words_of_a_refused_wait_do_not_count),
        cmocka_unit_test(test_who_cannot_average_as_the_others_do_goes_on_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
