/* SPDX-License-Identifier: Apache-2.0
 *
 * Broadcast averages without a node: chunks of other sizes, and the pace. */
#include "test_support.h"

#include "transfer/cast.h"

#include "uwasa/rng.h"

#include <stdlib.h>

#define SIZE_N 1003u
#define CHUNK_US 1000u

struct side {
    struct uw_cast c;
    void *memory;
    uint8_t got[SIZE_N];            /* how often each float of the other came to be mixed */
};

static void open_side(struct side *s, uint32_t most_n)
{
    struct uw_arena arena;
    memset(s, 0, sizeof *s);
    s->memory = malloc(4096);
    assert_non_null(s->memory);
    uw_arena_init(&arena, s->memory, 4096);
    assert_int_equal(uw_cast_place(&s->c, &arena, SIZE_N, 8, most_n, 3, CHUNK_US), UW_OK);
}

/* One chunk of `from`, if it has any now; is_lost: nobody hears it. */
static void send(struct side *from, uint32_t from_id, struct side *to, uint64_t now_us,
                 bool is_lost)
{
    uint32_t chunk, skip_n = 0;
    if (!uw_cast_next(&from->c, now_us, &chunk)) {
        return;
    }
    bool word = chunk == from->c.chunks;
    const struct uw_cast_chunk in = {.turn = from->c.turn,
                                     .tag = word ? 0 : uw_cast_tag(&from->c, chunk),
                                     .chunk = word ? 0 : chunk,
                                     .count_n = word ? 0 : from->c.chunk_n};
    uint32_t offset_n = word ? 0 : uw_cast_offset(&from->c, chunk);
    uw_cast_sent(&from->c, chunk, now_us);
    if (!is_lost && uw_cast_check(&to->c, from_id, &in, now_us, &skip_n) == UW_OK) {
        assert_int_equal(in.chunk * in.count_n, offset_n + skip_n);
        for (uint32_t i = skip_n; i < in.count_n; i++) {
            to->got[offset_n + i]++;
        }
        uw_cast_arrived(&to->c, from_id, in.chunk);
    }
}

static void ask(struct side *from, struct side *to, uint64_t now_us)
{
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    uint32_t id, n;
    while ((n = uw_cast_ask(&from->c, now_us, UW_SHORT_WANTS_MOST, &id, wants)) != 0) {
        for (uint32_t i = 0; i < n; i++) {
            uw_cast_wanted(&to->c, &wants[i], now_us);
        }
    }
}

/* Everybody's pass goes by unheard, or parts of it: whoever asks does not know how large the
 * other's chunks are. */
static void test_cast_chunks_of_other_sizes_come_once_each(void **state)
{
    static const uint32_t sizes[][2] = {{25, 25}, {25, 13}, {9, 31}, {31, 8}, {17, 59}};
    (void)state;
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(1));
    for (uint32_t k = 0; k < 5u * 3u; k++) {
        struct side a, b;
        uint64_t now_us = 1000000;
        bool over = false;
        open_side(&a, 59);
        open_side(&b, 59);
        uw_cast_begin(&a.c, 1, &(uint32_t){2}, 1, sizes[k % 5u][0], now_us);
        uw_cast_begin(&b.c, 2, &(uint32_t){1}, 1, sizes[k % 5u][1], now_us);
        for (uint32_t t = 0; t < 4000 && !over; t++, now_us += CHUNK_US / 2u) {
            bool unheard = k / 5u == 0 && (!a.c.passed || !b.c.passed);
            send(&a, 1, &b, now_us, unheard || uw_rng_below(&rng, 4) < k / 5u);
            send(&b, 2, &a, now_us, unheard || uw_rng_below(&rng, 4) < k / 5u);
            ask(&a, &b, now_us);
            ask(&b, &a, now_us);
            (void)uw_cast_over(&a.c, now_us);
            (void)uw_cast_over(&b.c, now_us);
            over = !a.c.active && !b.c.active;
        }
        assert_true(over && uw_cast_is_exact(&a.c) && uw_cast_is_exact(&b.c));
        for (uint32_t i = 0; i < SIZE_N; i++) {
            assert_int_equal(a.got[i], 1);
            assert_int_equal(b.got[i], 1);
        }
        free(a.memory);
        free(b.memory);
    }
}

static void test_cast_of_another_view_is_not_exact(void **state)
{
    (void)state;
    struct side a, b;
    uint64_t now_us = 1000000;
    open_side(&a, 59);
    open_side(&b, 59);
    uw_cast_begin(&a.c, 1, &(uint32_t){2}, 1, 25, now_us);
    uw_cast_begin(&b.c, 2, (uint32_t[]){1, 3}, 2, 25, now_us);
    for (uint32_t t = 0; t < 4000 && a.c.active; t++, now_us += CHUNK_US / 2u) {
        send(&a, 1, &b, now_us, false);
        send(&b, 2, &a, now_us, false);
        (void)uw_cast_over(&a.c, now_us);
    }
    assert_false(a.c.active);
    assert_int_equal(a.c.peers[0].have_n, a.c.chunks);
    assert_false(uw_cast_is_exact(&a.c));
    free(a.memory);
    free(b.memory);
}

/* Nobody repairs while another sends: who asks in the middle of its own pass asks in vain, and so
 * often that it gives up. */
static void test_cast_who_sends_does_not_ask(void **state)
{
    (void)state;
    struct side a, b;
    uint64_t now_us = 1000000;
    uint32_t sent_n = 0, chunk, skip_n, id;
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    open_side(&a, 59);
    open_side(&b, 59);
    uw_cast_begin(&a.c, 1, &(uint32_t){2}, 1, 25, now_us);
    uw_cast_begin(&b.c, 2, &(uint32_t){1}, 1, 25, now_us);
    const struct uw_cast_chunk in = {.turn = b.c.turn, .tag = uw_cast_tag(&b.c, 0),
                                     .count_n = b.c.chunk_n};
    assert_int_equal(uw_cast_check(&a.c, 2, &in, now_us, &skip_n), UW_OK);
    uw_cast_arrived(&a.c, 2, 0);
    for (; !a.c.passed && sent_n < 1000; now_us += CHUNK_US) {
        if (uw_cast_next(&a.c, now_us, &chunk)) {
            uw_cast_sent(&a.c, chunk, now_us);
            sent_n++;
        }
        assert_true(sent_n == 0 ||
                    uw_cast_ask(&a.c, now_us, UW_SHORT_WANTS_MOST, &id, wants) == 0);
    }
    assert_int_equal(sent_n, a.c.chunks);
    while (uw_cast_ask(&a.c, now_us, UW_SHORT_WANTS_MOST, &id, wants) == 0) {
        now_us += CHUNK_US;
        assert_true(now_us < 1200000);
    }
    assert_int_equal(wants[0].base, 1);
    free(a.memory);
    free(b.memory);
}

/* Who waits in a turn hears a question about the next one: it goes on with those that have, and
 * does not wait for what they have no more. */
static void test_cast_a_question_about_a_later_turn_tells_of_it(void **state)
{
    (void)state;
    struct side a, b;
    uint64_t now_us = 1000000;
    uint32_t id = 0;
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    open_side(&a, 59);
    open_side(&b, 59);
    uw_cast_begin(&a.c, 1, &(uint32_t){2}, 1, 25, now_us);
    uw_cast_begin(&b.c, 2, &(uint32_t){1}, 1, 25, now_us);
    uw_cast_begin(&b.c, 2, &(uint32_t){1}, 1, 25, now_us);
    while (uw_cast_ask(&b.c, now_us, UW_SHORT_WANTS_MOST, &id, wants) == 0) {
        now_us += CHUNK_US;
        assert_true(now_us < 2000000);
    }
    struct uw_want earlier = wants[0];
    earlier.transfer = (uint16_t)(wants[0].transfer - 2u);
    uw_cast_wanted(&a.c, &earlier, now_us);
    assert_false(uw_cast_over(&a.c, now_us));
    uw_cast_wanted(&a.c, &wants[0], now_us);
    assert_true(uw_cast_over(&a.c, now_us));
    assert_false(uw_cast_is_exact(&a.c));
    uw_cast_begin(&a.c, 1, &(uint32_t){2}, 1, 25, now_us);
    assert_int_equal(a.c.turn, b.c.turn);
    free(a.memory);
    free(b.memory);
}

/* A channel that carries a chunk in capacity_us loses what is sent faster, and a part of all. */
static uint32_t lost(const struct uw_cast_pace *p, uint32_t capacity_us, uint32_t always)
{
    uint32_t beyond = p->us < capacity_us ? 1000u - p->us * 1000u / capacity_us : 0;
    return beyond + (1000u - beyond) * always / 1000u;
}

static void test_cast_pace_finds_what_a_channel_carries(void **state)
{
    static const struct {
        uint32_t first_us, capacity_us, always;
    } cases[] = {{1000, 300, 0}, {1000, 4000, 0}, {1000, 300, 300}, {1000, 3000, 200}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct uw_cast_pace p;
        uint32_t sum_us = 0;
        uw_cast_pace_init(&p, cases[k].first_us, true);
        for (uint32_t turn = 0; turn < 120; turn++) {
            uw_cast_pace_learn(&p, 1000, lost(&p, cases[k].capacity_us, cases[k].always));
            sum_us += turn >= 60 ? p.us : 0;
        }
        print_message("capacity %u us, %u of 1000 always lost: %u us\n",
                      (unsigned)cases[k].capacity_us, (unsigned)cases[k].always,
                      (unsigned)(sum_us / 60u));
        assert_in_range(sum_us / 60u, cases[k].capacity_us * 2u / 3u, cases[k].capacity_us * 2u);
    }
    struct uw_cast_pace told;
    uw_cast_pace_init(&told, 500, false);
    uw_cast_pace_learn(&told, 100, 90);
    uw_cast_pace_learn(&told, 100, 0);
    assert_int_equal(told.us, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cast_chunks_of_other_sizes_come_once_each),
        cmocka_unit_test(test_cast_of_another_view_is_not_exact),
        cmocka_unit_test(test_cast_who_sends_does_not_ask),
        cmocka_unit_test(test_cast_a_question_about_a_later_turn_tells_of_it),
        cmocka_unit_test(test_cast_pace_finds_what_a_channel_carries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
