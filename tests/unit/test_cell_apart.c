/* SPDX-License-Identifier: Apache-2.0
 *
 * Two nodes that do not hear each other are in no round together, and stop nobody's. */
#include "unit/cell_bus.h"

#define STATIONS 4u
#define ROUNDS 6u

static uint32_t on_deaf(void *arg, uint32_t ids[UW_CELL_DEAF_MAX])
{
    const struct station *s = arg;
    uint32_t n = 0;
    for (uint32_t i = 0; i < STATIONS; i++) {
        if ((s->deaf >> i & 1u) != 0) {
            ids[n++] = id_of(i);
        }
    }
    return n;
}

/* The rank of a station of the round that this one does not hear; UW_RANK_NONE: there is none. */
static uint32_t unheard_rank(const struct station *s)
{
    for (uint32_t i = 0; i < s->cell.ranks_n; i++) {
        if (!s->members[s->cell.ranks[i] - id_of(0)].usable) {
            return i;
        }
    }
    return UW_RANK_NONE;
}

/* With such a rank it never ends. */
static void on_begin_apart(void *arg)
{
    struct station *s = arg;
    s->ready_at_us = unheard_rank(s) != UW_RANK_NONE ? UINT64_MAX : s->bus->now_us + s->works_us;
}

static uint32_t on_progress_apart(void *arg, uint32_t *waits_for)
{
    *waits_for = unheard_rank(arg);
    return 1;
}

static void set_up_apart(struct bus *b, uint32_t one, uint32_t other)
{
    set_up(b, STATIONS);
    for (uint32_t i = 0; i < STATIONS; i++) {
        struct uw_cell_config *c = &b->stations[i].cell.config;
        c->deaf = on_deaf;
        c->begin = on_begin_apart;
        c->progress = on_progress_apart;
    }
    b->stations[one].members[other].usable = false;
    b->stations[other].members[one].usable = false;
}

/* Rounds of all that ask at the same time: either of the two is in each, in turns. */
static void expect_turns(struct bus *b, uint32_t one, uint32_t other)
{
    uint32_t pair = 1u << one | 1u << other, rest = 15u & ~pair, before = b->rounds_n, with_one = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        ask_all(b);
        run(b, SECOND);
        const struct verdict *v = &b->rounds[b->rounds_n - 1u];
        assert_int_equal(v->committed & rest, rest);
        assert_true((v->committed & pair) == 1u << one || (v->committed & pair) == 1u << other);
        assert_int_equal(v->aborted, 0);
        with_one += v->committed >> one & 1u;
        assert_int_equal(b->stations[one].cell.state, UW_CELL_IDLE);
        assert_int_equal(b->stations[other].cell.state, UW_CELL_IDLE);
    }
    assert_true(b->rounds_n > before);
    assert_int_equal(with_one, ROUNDS / 2u);
    assert_int_equal(b->stations[one].news[UW_CELL_NEWS_APART], ROUNDS / 2u);
    assert_int_equal(b->stations[other].news[UW_CELL_NEWS_APART], ROUNDS / 2u);
}

static void test_a_pair_that_is_told_takes_turns(void **state)
{
    (void)state;
    static struct bus b;
    set_up_apart(&b, 0, 1);
    b.stations[0].deaf = 2u;        /* one of them says so */
    expect_turns(&b, 0, 1);
}

/* Nobody knows of it before the first round. */
static void test_a_pair_is_found_within_three_seconds_and_takes_turns(void **state)
{
    (void)state;
    static struct bus b;
    set_up_apart(&b, 0, 1);
    ask_all(&b);
    run(&b, 3 * SECOND);
    assert_int_equal(b.rounds_n, 2);
    assert_int_equal(b.rounds[0].committed, 0);
    assert_int_equal(b.rounds[1].committed & 12u, 12u);
    assert_int_not_equal(b.rounds[1].committed & 3u, 3u);
    assert_int_not_equal(b.rounds[1].committed & 3u, 0u);
    assert_true(b.stations[3].news[UW_CELL_NEWS_BROKEN] > 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        ask_all(&b);
        run(&b, SECOND);
    }
    assert_int_equal(b.rounds_n, 2u + ROUNDS);
    assert_int_equal(b.stations[2].commits, 1u + ROUNDS);
    uint32_t fewest = b.stations[0].commits < b.stations[1].commits ? b.stations[0].commits
                                                                    : b.stations[1].commits;
    assert_true(fewest >= ROUNDS / 2u);
}

/* The station that would lead is one of the pair: another one, that all hear, does. */
static void test_who_hears_all_leads(void **state)
{
    (void)state;
    static struct bus b;
    set_up_apart(&b, 0, 3);
    b.stations[0].deaf = 8u;
    b.stations[3].deaf = 1u;
    for (uint32_t i = 0; i < STATIONS; i++) {
        b.stations[i].members[0].deaf = b.stations[i].members[3].deaf = 1;
        uw_cell_members(&b.stations[i].cell, b.stations[i].members, STATIONS);
        assert_int_equal(b.stations[i].cell.head, id_of(1));
    }
    expect_turns(&b, 0, 3);
}

/* Its head does not lead, because the others hear one that it does not. */
static void test_who_asks_one_that_does_not_lead_goes_on(void **state)
{
    (void)state;
    static struct bus b;
    set_up_apart(&b, 0, 3);
    b.stations[0].members[2].weight = 1;
    uw_cell_members(&b.stations[0].cell, b.stations[0].members, STATIONS);
    assert_int_equal(b.stations[0].cell.head, id_of(2));
    ask(&b, 0);
    run(&b, 2 * SECOND);
    assert_int_equal(b.stations[0].given_up, 1);
    assert_int_equal(b.stations[0].news[UW_CELL_NEWS_APART], 1);
}

/* Of those that it hears both follow one that it does not hear: it leads itself, at once. */
static void test_who_cannot_follow_the_others_leads_itself(void **state)
{
    (void)state;
    static struct bus b;
    set_up_apart(&b, 0, 3);
    for (uint32_t k = 0; k < 4; k++) {
        b.stations[0].members[k].deaf = 1;
        b.stations[0].members[k].head = k != 0 ? id_of(3) : UW_CELL_NOBODY;
    }
    uw_cell_members(&b.stations[0].cell, b.stations[0].members, STATIONS);
    assert_int_equal(b.stations[0].cell.head, id_of(0));
    ask(&b, 0);
    run(&b, SECOND);
    assert_int_equal(b.stations[0].commits + b.stations[0].given_up, 1);
}

/* The rank of the other one of the first two stations; UW_RANK_NONE: it is not in the round. */
static uint32_t other_rank(const struct station *s)
{
    uint32_t i = 0;
    while (i < s->cell.ranks_n && s->cell.ranks[i] != id_of(1u - place_of(s))) {
        i++;
    }
    return i < s->cell.ranks_n ? i : UW_RANK_NONE;
}

static void on_begin_hole(void *arg)
{
    struct station *s = arg;
    s->ready_at_us = other_rank(s) != UW_RANK_NONE ? UINT64_MAX : s->bus->now_us + s->works_us;
}

static uint32_t on_progress_hole(void *arg, uint32_t *waits_for)
{
    *waits_for = other_rank(arg);
    return 1;
}

/* Messages of the all-reduce do not pass between two that hear each other's pings: the head finds
 * it, and both remember it, for the next head. */
static void test_a_black_hole_is_found_and_remembered_by_both(void **state)
{
    (void)state;
    static struct bus b;
    set_up(&b, STATIONS);
    for (uint32_t i = 0; i < 2; i++) {
        b.stations[i].cell.config.begin = on_begin_hole;
        b.stations[i].cell.config.progress = on_progress_hole;
    }
    ask_all(&b);
    run(&b, 3 * SECOND);
    assert_int_equal(b.stations[3].news[UW_CELL_NEWS_BROKEN], 1);
    assert_int_equal(b.rounds_n, 2);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t ids[UW_CELL_DEAF_MAX];
        uint32_t n = uw_cell_deaf(&b.stations[i].cell, b.now_us, ids);
        assert_true(n == 1 && ids[0] == id_of(1u - i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pair_that_is_told_takes_turns),
        cmocka_unit_test(test_a_pair_is_found_within_three_seconds_and_takes_turns),
        cmocka_unit_test(test_who_hears_all_leads),
        cmocka_unit_test(test_who_cannot_follow_the_others_leads_itself),
        cmocka_unit_test(test_a_black_hole_is_found_and_remembered_by_both),
        cmocka_unit_test(test_who_asks_one_that_does_not_lead_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
