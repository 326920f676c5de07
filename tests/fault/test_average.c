/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact averages among the nodes that ship, on virtual time. */
#include "fault/average_world.h"

#include "node_exact/node_averages.h"
#include "wire/part.h"

#include "uwasa/rng.h"

static bool all_equal(const struct world *w)
{
    for (uint32_t i = 1; i < w->n; i++) {
        if (memcmp(w->nodes[0].x, w->nodes[i].x, w->size_n * sizeof(float)) != 0) {
            return false;
        }
    }
    return true;
}

static void nodes_average(uint32_t n, bool streams)
{
    struct average_world *a = average_world_new(n, streams ? 3001 : 301, 300);
    if (streams) {
        average_world_stream(a, UINT32_MAX);
    }
    world_start(a->w);
    average_world_run(a, 20000000);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(a->w->nodes[i].rounds > 50);
    }
    assert_true(a->committed_n > 50);
    assert_int_equal(a->streamed_n, streams ? a->committed_n : 0);
    assert_int_equal(average_world_split(a), 0);
    average_world_free(a);
}

static void test_nodes_average_exactly_every_period(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 7; n++) {
        nodes_average(n, false);
        nodes_average(n, true);
    }
}

static void rank_dies(uint32_t dead, bool streams)
{
    struct average_world *a = average_world_new(4, 5000, 300);
    a->w->impairment.rate_bits_per_s = 4000000;
    if (streams) {
        average_world_stream(a, UINT32_MAX);
    }
    world_start(a->w);
    average_world_run(a, 10000000);
    uint32_t before = a->committed_n;
    assert_true(before > 5);
    while (!a->nodes[dead].waits) {
        average_world_run(a, 1000);
    }
    average_world_run(a, 20000);
    world_down(a->w, dead);
    average_world_forget(a, dead);
    average_world_run(a, 30000000);
    assert_true(a->committed_n > before + 20u);
    assert_int_equal(average_world_split(a), 0);
    uint32_t named = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const char *text = a->w->nodes[i].text[UW_NODE_AVERAGE_CUT];
        char who[16];
        snprintf(who, sizeof who, ", %s is ", a->w->nodes[dead].name);
        named += i != dead && strstr(text, who) != NULL;
    }
    assert_true(named > 0);
    assert_int_equal(a->streamed_n, streams ? a->committed_n : 0);
    average_world_free(a);
}

static void test_rank_that_dies_is_named_and_the_others_go_on(void **state)
{
    (void)state;
    for (uint32_t dead = 0; dead < 4; dead++) {
        rank_dies(dead, false);
        rank_dies(dead, true);
    }
}

/* Where one node's link is not reliable, nobody streams; once it has gone, the others do. */
static void test_rank_on_a_lossy_link_keeps_the_others_from_streaming(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(4, 3000, 300);
    average_world_stream(a, 7u);
    world_start(a->w);
    average_world_run(a, 10000000);
    uint32_t before = a->committed_n;
    assert_true(before > 20);
    assert_int_equal(a->streamed_n, 0);
    world_down(a->w, 3);
    average_world_forget(a, 3);
    average_world_run(a, 30000000);
    assert_true(a->streamed_n > 20);
    assert_int_equal(average_world_split(a), 0);
    average_world_free(a);
}

/* What a broken connection takes with it is not sent again: the round is given up, and the next one
 * goes on. */
static void test_round_that_lacks_a_part_is_begun_anew(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(2, 20000, 300);
    a->w->impairment.rate_bits_per_s = 8000000;
    average_world_stream(a, 3u);
    world_start(a->w);
    average_world_run(a, 10000000);
    for (uint32_t i = 0; i < 10; i++) {
        struct uw_link_emulated *l = &a->w->nodes[i % 2u].emulated;
        const struct uw_allreduce *e = &a->w->nodes[0].node.state->cell->allreduce;
        while (e->state != UW_ALLREDUCE_RUNNING || e->stream.recv_k == 0) {
            average_world_run(a, 1000);
        }
        uw_link_emulated_cut(l, UW_LINK_STATION_BROADCAST, UW_EMULATED_OUT);
        average_world_run(a, 3000);
        uw_link_emulated_cut(l, UW_LINK_STATION_BROADCAST, 0);
        uint32_t before = a->committed_n;
        average_world_run(a, 10000000);
        assert_true(a->committed_n > before + 20);
    }
    assert_true(a->w->nodes[0].events[UW_NODE_AVERAGE_CUT] > 5);
    assert_int_equal(a->streamed_n, a->committed_n);
    assert_int_equal(average_world_split(a), 0);
    average_world_free(a);
}

/* A path begins to lose large messages, and the link of that end finds out in the middle of a
 * round. */
static void test_rounds_go_on_in_smaller_parts_when_a_path_becomes_narrower(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(4, 5000, 300);
    a->w->impairment.rate_bits_per_s = 4000000;
    world_start(a->w);
    average_world_run(a, 10000000);
    uint32_t before = a->committed_n;
    assert_true(before > 5);
    struct world_node *n = &a->w->nodes[2];
    struct uw_impairment how = a->w->impairment;
    how.mtu_bytes = 200;
    while (!a->nodes[2].waits) {
        average_world_run(a, 1000);
    }
    assert_int_equal(uw_link_emulated_impair(&n->emulated, &how, NULL), UW_OK);
    average_world_run(a, 200000);
    n->emulated.link.mtu_bytes = 200;
    uint64_t then_us = a->w->now_us;
    while (a->committed_n < before + 10u) {
        average_world_run(a, 10000);
        assert_true(a->w->now_us < then_us + 20000000u);    /* no round waits for its deadline */
    }
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t rounds = a->w->nodes[i].rounds;
        average_world_run(a, 5000000);
        assert_true(a->w->nodes[i].rounds > rounds);
    }
    assert_int_equal(average_world_split(a), 0);
    average_world_free(a);
}

static void test_rank_that_comes_back_takes_part_again(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(4, 1000, 300);
    world_start(a->w);
    average_world_run(a, 5000000);
    world_down(a->w, 2);
    average_world_forget(a, 2);
    average_world_run(a, 20000000);
    struct uw_node_config c = world_config(a->w, 2);
    c.newcomer = true;
    for (uint32_t k = 0; k < a->w->size_n; k++) {
        a->w->nodes[2].x[k] = 100.0f;
    }
    world_up_with(a->w, 2, c);
    average_world_run(a, 20000000);
    assert_int_equal(a->w->nodes[2].events[UW_NODE_ADOPTED], 1);
    assert_true(a->w->nodes[2].rounds > 20);
    assert_int_equal(average_world_split(a), 0);
    average_world_free(a);
}

static void test_slow_node_is_left_out_and_takes_part_when_it_is_ready(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(4, 200, 300);
    a->w->config.gather_us = 2000000;
    a->w->train_us = 20000;
    a->w->nodes[3].slowness = 100;      /* ten seconds a round, the others 0.1 */
    world_start(a->w);
    average_world_run(a, 120000000);
    assert_true(a->w->nodes[0].rounds > 30);
    assert_true(a->w->nodes[3].rounds > 3);
    uint32_t late = 0;
    for (uint32_t i = 0; i < 4; i++) {
        late += a->w->nodes[i].events[UW_NODE_AVERAGE_LATE];
    }
    assert_true(late > 0);
    average_world_free(a);
}

static void diverge(struct world_node *n)
{
    for (uint32_t k = 0; k < n->world->size_n; k++) {
        n->x[k] = n->progress.step > 100 ? 1e6f : n->x[k] + 0.01f;
    }
}

static void test_node_that_diverges_spoils_nobody(void **state)
{
    (void)state;
    for (uint32_t bad = 0; bad < 3; bad++) {        /* one of them is the head */
        struct average_world *a = average_world_new(3, 300, 300);
        a->w->nodes[bad].train = diverge;
        world_start(a->w);
        average_world_run(a, 30000000);
        uint32_t told = 0;
        for (uint32_t i = 0; i < 3; i++) {
            const float *shown = a->w->nodes[i].snapshot.data;
            told += a->w->nodes[i].events[UW_NODE_AVERAGE_OUTLIER];
            for (uint32_t k = 0; i != bad && k < a->w->size_n; k++) {
                assert_true(fabsf(shown[k]) < 1000.0f);
            }
            assert_true(i == bad || a->w->nodes[i].rounds > 100);
        }
        assert_true(told > 0);
        average_world_free(a);
    }
}

/* A small number often, any now and then. */
static uint32_t odd(struct uw_rng *rng)
{
    return uw_rng_below(rng, 4) != 0 ? uw_rng_below(rng, 9) : uw_rng_u32(rng);
}

static uint32_t nonsense_part(struct uw_rng *rng, const struct uw_node_state *s, uint8_t *buf,
                              uint32_t cap)
{
    float floats[70];
    struct uw_part p = {.type = (enum uw_part_type)(1u + uw_rng_below(rng, 5)),
                        .reply = uw_rng_below(rng, 4) == 0,
                        .group = s->cell->scopes[0].cell.group,
                        .round = s->cell->scopes[0].cell.round + uw_rng_below(rng, 3) - 1u,
                        .step = (uint16_t)odd(rng), .op = (uint16_t)odd(rng),
                        .seq = (uint16_t)odd(rng), .offset_n = odd(rng) * 60u,
                        .count_n = 1u + uw_rng_below(rng, 69), .floats = floats};
    p.want = (struct uw_want){.transfer = p.step, .seq = p.seq, .base = odd(rng),
                              .chunk_n = uw_rng_below(rng, 2) != 0 ? 1u + odd(rng) : 68u,
                              .wanted = 1u | (uint64_t)uw_rng_u32(rng) << 20,
                              .spread_us = odd(rng)};
    for (uint32_t i = 0; i < 70; i++) {
        uint32_t bits = uw_rng_u32(rng);
        memcpy(&floats[i], &bits, sizeof bits);
    }
    int bytes = uw_part_encode(&p, s->run, true, buf, cap);
    return bytes > 0 ? (uint32_t)bytes : 0;
}

static uint32_t nonsense_cell(struct uw_rng *rng, const struct uw_node_state *s, uint8_t *buf,
                              uint32_t cap)
{
    struct uw_message m = {.type = UW_WIRE_CELL};
    const struct uw_cell *c = &s->cell->scopes[0].cell;
    m.cell = (uwasa_Cell){.run = s->run, .model = s->model, .scope = odd(rng) % 3u,
                          .act = odd(rng) % 6u + 1u,
                          .group = uw_rng_below(rng, 3) != 0 ? c->group : odd(rng),
                          .round = c->round + uw_rng_below(rng, 3) - 1u, .status = odd(rng),
                          .kind = odd(rng), .step = odd(rng), .waits_for = odd(rng),
                          .culprit = odd(rng), .incarnation = odd(rng),
                          .rms = (float)odd(rng), .ids_count = (pb_size_t)(odd(rng) % 65u)};
    for (uint32_t i = 0; i < m.cell.ids_count; i++) {
        m.cell.ids[i] = uw_rng_below(rng, 2) != 0 ? uw_name_id("a") + odd(rng) % 3u : odd(rng);
    }
    int bytes = uw_message_encode(&m, buf, cap);
    return bytes > 0 ? (uint32_t)bytes : 0;
}

/* A member with the key that says anything: no crash, nobody hangs, training goes on. What it says
 * may end rounds, and be averaged in. */
static void test_member_that_talks_nonsense_hangs_nobody(void **state)
{
    (void)state;
    struct world *w = world_new(4, 300, 300);
    struct uw_rng rng;
    uw_rng_seed(&rng, w->seed);
    w->config.mode = UW_NODE_ALLREDUCE;
    w->config.gather_us = 2000000;
    w->config.round_us = 3000000;
    w->train_us = 5000;
    world_start(w);
    world_run(w, 5000000);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t to = uw_rng_below(&rng, 3);
        uint8_t buf[300];
        uint32_t bytes = uw_rng_below(&rng, 2) != 0
                             ? nonsense_part(&rng, w->nodes[to].node.state, buf, sizeof buf)
                             : nonsense_cell(&rng, w->nodes[to].node.state, buf, sizeof buf);
        (void)uw_link_send(&w->nodes[3].emulated.link, (uint16_t)to, buf, bytes);
        if (i % 4u == 0) {
            world_tick(w);
        }
    }
    uint32_t steps[3];
    for (uint32_t i = 0; i < 3; i++) {
        steps[i] = w->nodes[i].progress.step;
    }
    world_down(w, 3);
    world_run(w, 60000000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(w->nodes[i].progress.step > steps[i] + 100u);
    }
    world_free(w);
}

static void test_nodes_agree_at_the_end_of_gossip(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(5, 500, 300);
    a->w->config.mode = UW_NODE_GOSSIP;
    a->w->config.agree = true;
    for (uint32_t i = 0; i < 5; i++) {
        a->w->nodes[i].after = NULL;
    }
    world_start(a->w);
    world_run(a->w, 5000000);
    assert_false(all_equal(a->w));
    for (uint32_t i = 0; i < 5; i++) {
        a->w->nodes[i].train = NULL;
        a->w->nodes[i].progress.lr = 0.0f;
        uw_node_agree(&a->w->nodes[i].node);
    }
    uint64_t until_us = a->w->now_us + 20000000;
    while (!all_equal(a->w) && a->w->now_us < until_us) {
        world_tick(a->w);
    }
    assert_true(all_equal(a->w));
    average_world_free(a);
}

/* Messages of the one must not be taken for those of the other. */
static void test_rounds_of_the_cell_and_of_the_run_have_groups_of_their_own(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(4, 2000, 300);
    a->w->config.agree = true;
    world_start(a->w);
    average_world_run(a, 5000000);
    for (uint32_t i = 0; i < 4; i++) {
        a->w->nodes[i].train = NULL;
    }
    for (uint32_t i = 0; i < 4; i++) {
        while (a->nodes[i].waits) {
            average_world_run(a, 1000);
        }
        a->w->nodes[i].after = NULL;    /* which looks at the rounds of cells */
        a->w->nodes[i].progress.lr = 0.0f;
        uw_node_agree(&a->w->nodes[i].node);
    }
    world_run(a->w, 5000000);
    assert_true(all_equal(a->w));
    for (uint32_t i = 0; i < 4; i++) {
        const struct uw_node_scope *scopes = a->w->nodes[i].node.state->cell->scopes;
        assert_int_not_equal(scopes[UW_AVERAGE_CELL].cell.group, 0);
        assert_int_not_equal(scopes[UW_AVERAGE_RUN].cell.group, 0);
        assert_int_not_equal(scopes[UW_AVERAGE_CELL].cell.group, scopes[UW_AVERAGE_RUN].cell.group);
        assert_int_equal(a->w->nodes[i].events[UW_NODE_AVERAGE_CUT], 0);
    }
    average_world_free(a);
}

static void test_nodes_together_wait_for_the_slow_one_and_not_for_the_dead(void **state)
{
    (void)state;
    struct average_world *a = average_world_new(4, 200, 300);
    a->w->config.gather_us = 30000000;
    a->w->config.together = true;
    a->w->config.cell_first_n = 4;
    a->w->train_us = 20000;
    a->w->nodes[3].slowness = 100;      /* ten seconds a round, the others 0.1 */
    world_start(a->w);
    average_world_run(a, 120000000);
    assert_true(a->committed_n > 8);
    for (uint32_t i = 0; i < a->rounds_n; i++) {
        assert_int_equal(a->rounds[i].ranks_n, 4);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(a->w->nodes[i].events[UW_NODE_AVERAGE_LATE], 0);
    }
    world_down(a->w, 3);
    average_world_forget(a, 3);
    uint32_t before = a->committed_n;
    average_world_run(a, 60000000);
    assert_true(a->committed_n > before + 50);
    average_world_free(a);
}

/* No node is in a round whose algorithm needs more room than it has. */
static void check_room(const struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        const struct uw_node_state *s = w->nodes[i].node.state;
        const struct uw_cell *c = &s->cell->scopes[UW_AVERAGE_CELL].cell;
        bool runs = c->state == UW_CELL_IN_ROUND || c->state == UW_CELL_HAS_RESULT;
        if (runs && c->ranks_n > 1 && c->kind == UW_ALLREDUCE_DOUBLING) {
            assert_true(s->cell->allreduce.config.scratch_n >= w->size_n);
        }
    }
}

/* The head has room for recursive doubling and wants it; of the others one has, or none. Who has
 * none says so and goes on without, at once and each time; the others average. */
static void test_ranks_without_room_for_the_algorithm_are_left_out(void **state)
{
    (void)state;
    const enum uw_allreduce_kind kind = UW_ALLREDUCE_DOUBLING;
    for (uint32_t able = 1; able <= 2; able++) {
        struct average_world *a = average_world_new(4, 20000, 1200);
        a->w->config.algorithm = &kind;
        a->w->config.gather_us = 2000000;
        a->w->config.round_us = 10000000;
        a->w->train_us = 20000;
        for (uint32_t i = 0; i < 4; i++) {
            struct uw_node_config c = world_config(a->w, i);
            c.head_weight = i == 0 ? 9 : 1;
            c.scratch_n = i < able ? a->w->size_n : 0;
            world_up_with(a->w, i, c);
        }
        for (uint32_t k = 0; k < 2000; k++) {
            average_world_run(a, 10000);
            check_room(a->w);
        }
        for (uint32_t i = 0; i < 4; i++) {
            const struct world_node *n = &a->w->nodes[i];
            assert_true(n->progress.step > 300);
            assert_true(i < able || a->nodes[i].given_up > 0);
            assert_true(able == 2 && i < able ? n->rounds > 50 : n->rounds == 0);
        }
        assert_true(a->w->nodes[0].events[UW_NODE_AVERAGE_CUT] > 0);
        assert_int_equal(average_world_split(a), 0);
        average_world_free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_average_exactly_every_period),
        cmocka_unit_test(test_rank_that_dies_is_named_and_the_others_go_on),
        cmocka_unit_test(test_rank_on_a_lossy_link_keeps_the_others_from_streaming),
        cmocka_unit_test(test_round_that_lacks_a_part_is_begun_anew),
        cmocka_unit_test(test_rounds_go_on_in_smaller_parts_when_a_path_becomes_narrower),
        cmocka_unit_test(test_rank_that_comes_back_takes_part_again),
        cmocka_unit_test(test_slow_node_is_left_out_and_takes_part_when_it_is_ready),
        cmocka_unit_test(test_node_that_diverges_spoils_nobody),
        cmocka_unit_test(test_member_that_talks_nonsense_hangs_nobody),
        cmocka_unit_test(test_nodes_agree_at_the_end_of_gossip),
        cmocka_unit_test(test_rounds_of_the_cell_and_of_the_run_have_groups_of_their_own),
        cmocka_unit_test(test_nodes_together_wait_for_the_slow_one_and_not_for_the_dead),
        cmocka_unit_test(test_ranks_without_room_for_the_algorithm_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
