/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that stand still while others go on, nodes that leave a cell, and ranks of which some were
 * not in the average before. */
#include "unit/cell_bus.h"

static uint32_t on_steady_progress(void *arg, uint32_t *waits_for)
{
    *waits_for = UW_RANK_NONE;
    return (uint32_t)(((const struct station *)arg)->bus->now_us / 50000u);
}

/* The head sees that the round goes on, and polls nobody. */
static void test_who_stands_still_for_long_does_not_give_up_a_head_that_answers(void **state)
{
    (void)state;
    static struct bus b;
    set_up(&b, 3);
    b.stations[0].works_us = b.stations[1].works_us = SECOND / 2u;
    for (uint32_t i = 0; i < 8; i++) {          /* it learns how long a round takes */
        ask_all(&b);
        run(&b, SECOND);
    }
    b.stations[0].works_us = b.stations[1].works_us = 4 * SECOND;
    b.stations[1].cell.config.progress = on_steady_progress;
    ask_all(&b);
    run(&b, 6 * SECOND);
    assert_int_equal(b.rounds_n, 9);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(b.rounds[i].committed, 7);
        assert_int_equal(b.rounds[i].aborted, 0);
    }
}

static void test_who_leaves_is_not_waited_for(void **state)
{
    (void)state;
    static struct bus b;
    set_up(&b, 3);
    ask_all(&b);
    run(&b, SECOND);
    assert_int_equal(b.rounds[0].committed, 7);
    uw_cell_leave(&b.stations[0].cell, b.now_us);
    run(&b, 2 * DELAY_US);
    ask(&b, 1);
    ask(&b, 2);
    run(&b, SECOND / 2);
    assert_int_equal(b.stations[1].commits, 2);
    assert_int_equal(b.stations[2].commits, 2);
    ask_all(&b);
    run(&b, SECOND);
    assert_int_equal(b.stations[0].commits, 2);         /* and takes part again */
}

static void expect_unequal(struct bus *b, uint32_t stations, bool unequal)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if ((stations >> i & 1u) != 0) {
            ask(b, i);
        }
    }
    run(b, 6 * SECOND);         /* longer than the head waits for others */
    for (uint32_t i = 0; i < b->n; i++) {
        if ((stations >> i & 1u) != 0) {
            assert_int_equal(b->stations[i].cell.state, UW_CELL_IDLE);
            assert_int_equal(b->stations[i].cell.unequal, unequal);
        }
    }
}

static void test_all_ranks_know_whether_they_began_with_one_model(void **state)
{
    (void)state;
    static struct bus b;
    set_up(&b, 3);
    expect_unequal(&b, 7, false);
    expect_unequal(&b, 6, false);
    expect_unequal(&b, 7, true);
    expect_unequal(&b, 7, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_stands_still_for_long_does_not_give_up_a_head_that_answers),
        cmocka_unit_test(test_who_leaves_is_not_waited_for),
        cmocka_unit_test(test_all_ranks_know_whether_they_began_with_one_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
