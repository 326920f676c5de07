/* SPDX-License-Identifier: Apache-2.0
 *
 * The narrowest link that a node takes carries all that the node may come to tell of itself. */
#include "test_support.h"

#include "node/node_state.h"
#include "node_exact/node_averages.h"

#include "uwasa/sample_pool.h"

#define SIZE_N 64u
#define MTU_MOST 600u
#define HOPS_MOST 8u

struct bench {
    struct uw_link link;
    struct uw_segment segment;
    struct uw_params params;
    struct uw_snapshot snapshot;
    struct uw_sample_pool pool;
    struct uw_node node;
    float x[SIZE_N], v[SIZE_N], s[SIZE_N], spare[2u * SIZE_N];
    _Alignas(16) uint8_t memory[4u << 20];
};

static bool no_hold(struct uw_link *l, uint16_t station, bool hold)
{
    (void)l;
    (void)station;
    (void)hold;
    return false;
}

static const struct uw_link_ops no_ops = {.name = "none", .hold = no_hold};
static struct bench bench;

static void store(atomic_uint_least32_t *a, uint32_t v)
{
    atomic_store_explicit(a, v, memory_order_relaxed);
}

/* As if it had run for ever. */
static void grow_old(struct uw_node_state *s)
{
    struct uw_membership *m = &s->membership;
    const uint32_t one = 0x3f800000u;   /* 1.0f */
    store(&s->gossip.step, UINT32_MAX);
    store(&s->gossip.rounds, UINT32_MAX);
    store(&s->gossip.version, UINT32_MAX);
    store(&s->gossip.loss, one);
    store(&s->gossip.accuracy, one);
    store(&s->gossip.samples_per_s, one);
    store(&s->gossip.power_mw, UINT32_MAX);
    store(&s->gossip.temperature_mc, (uint32_t)INT32_MIN / 2u);
    store(&s->gossip.battery_percent, UINT32_MAX);
    store(&s->gossip.still_s, UINT32_MAX);
    atomic_store(&s->gossip.newcomer, true);
    s->counters.pulled_bytes = UINT64_MAX;
    m->members[0].incarnation = UINT32_MAX;
    m->states_n[UW_MEMBER_ALIVE] = 4000;
    m->config.rate_mbytes_per_s = 1000;
    if (s->cell != NULL) {
        s->cell->deaf_n = s->config.members_max;
        s->cell->scopes[UW_AVERAGE_CELL].cell.head = UINT32_MAX;
        s->cell->scopes[UW_AVERAGE_RUN].cell.head = UINT32_MAX;
    }
    if (s->cell != NULL && s->cell->near.on) {
        s->cell->near.hops = HOPS_MOST;
        s->cell->near.train_us = UINT32_MAX / 8u;
        store(&s->cell->average.drift, one);
        if (strlen(s->cell->name) < 9u) {    /* else it goes by its own name at first */
            strcpy(s->cell->name, "~ffffffff");
        }
    }
    if (s->pairs != NULL && s->pairs->ends != NULL) {
        s->pairs->state = UW_PAIRS_RETREATED;
    }
}

static void set_up(struct uw_node_config *c)
{
    struct bench *b = &bench;
    b->segment = (struct uw_segment){.name = "w", .size_n = SIZE_N};
    b->params = (struct uw_params){.x = b->x, .size_n = SIZE_N, .segments = &b->segment,
                                   .segments_n = 1, .hash = 1};
    b->snapshot = (struct uw_snapshot){.data = b->s, .size_n = SIZE_N};
    b->link = (struct uw_link){.ops = &no_ops, .fd = -1};
    c->run = "run";
    c->parts = &uw_node_parts_all;
    c->link = &b->link;
    c->params = &b->params;
    c->snapshot = &b->snapshot;
    c->velocity = b->v;
    c->spare = b->spare;
}

static struct uw_node_state *bind(const struct uw_node_config *c)
{
    struct uw_arena arena;
    struct uw_error err = {.text = ""};
    uw_arena_init(&arena, bench.memory, sizeof bench.memory);
    assert_int_equal(uw_node_bind(&bench.node, c, &arena, &err), UW_OK);
    return bench.node.state;
}

static void expect_all_told(struct uw_node_config c)
{
    struct bench *b = &bench;
    struct uw_error err = {.text = ""};
    size_t bytes = 0;
    int rc = UW_ERR_TOOBIG;
    set_up(&c);
    c.members_max = 4;
    while (rc == UW_ERR_TOOBIG && b->link.mtu_bytes++ < MTU_MOST) {
        rc = uw_node_measure(&c, &bytes, &err);
    }
    assert_int_equal(rc, UW_OK);
    assert_true(bytes < sizeof b->memory);
    struct uw_node_state *s = bind(&c);
    grow_old(s);
    uw_node_fill_ping(s, UINT32_MAX);
    assert_true(s->message->ping.self.pace_ms >= 600000u);
    uint8_t buf[MTU_MOST];
    int told = uw_message_write(false, UW_WIRE_PING, &uw_form_ping, &s->message->ping, buf,
                                sizeof buf);
    print_message("%u bytes are needed, %d are told\n", (unsigned)b->link.mtu_bytes, told);
    assert_int_equal(told, b->link.mtu_bytes);
}

static void test_narrowest_link_carries_the_longest_ping(void **state)
{
    (void)state;
    const char *const longest = "a-name-of-thirty-one-characters";
    const struct uw_node_config gossip = {.name = "a"};
    struct uw_node_config c = gossip;
    expect_all_told(c);
    c.address = "[fd00:1234:5678:9abc:def0:1234:5678:9abc%wlan0-interface]:65535";
    c.agree = true;
    expect_all_told(c);
    c = gossip;
    c.rule = &uw_mix_kgt;
    expect_all_told(c);
    c = gossip;
    c.vitals = true;
    expect_all_told(c);
    c = gossip;
    c.samples = &bench.pool;
    expect_all_told(c);
    c = gossip;
    c.mode = UW_NODE_ALLREDUCE;
    c.head_weight = UINT32_MAX;
    expect_all_told(c);
    c.mode = UW_NODE_AUTO;
    expect_all_told(c);
    c.name = longest;
    expect_all_told(c);
    c.name = "a";
    c.cell = longest;
    expect_all_told(c);
}

/* The message that names so many ranks and begins the last round there can be. */
static int start_bytes(uint32_t ranks_n)
{
    static struct uw_message m;
    uint8_t buf[MTU_MOST];
    m = (struct uw_message){.type = UW_WIRE_CELL};
    m.cell = (uwasa_Cell){.run = 1, .model = 1, .scope = UW_AVERAGE_RUN, .act = UW_CELL_START,
                          .group = 1, .round = UINT32_MAX, .asks = UINT32_MAX,
                          .kind = UW_ALLREDUCE_KINDS_N,
                          .chunk_n = MTU_MOST, .ids_count = (pb_size_t)ranks_n,
                          .hints_count = UW_CELL_HINTS};
    return uw_message_encode(&m, buf, sizeof buf);
}

static void test_average_has_no_more_ranks_than_its_first_message_names(void **state)
{
    (void)state;
    struct uw_node_config c = {.name = "a", .mode = UW_NODE_ALLREDUCE};
    set_up(&c);
    c.members_max = 100;
    for (uint32_t mtu = 120; mtu < MTU_MOST; mtu += 11) {
        bench.link.mtu_bytes = mtu;
        const struct uw_cell_config *cell =
            &bind(&c)->cell->scopes[UW_AVERAGE_RUN].cell.config;
        assert_true(start_bytes(cell->ranks_max) <= (int)mtu);
        assert_true(cell->ranks_max == UW_NODE_RANKS_DEFAULT ||
                    start_bytes(cell->ranks_max + 1u) > (int)mtu);
    }
}

/* Frames have 20 bits for a chunk's number: of a model that takes more in the shortest frames none
 * are pulled in these. */
static void test_chunks_that_short_frames_cannot_tell_apart_are_not_asked_for(void **state)
{
    (void)state;
    static const struct uw_member other;
    for (uint32_t size_n = 8u << 20; size_n <= 8u * 1048576u + 1u; size_n++) {
        struct uw_node_config c = {.name = "a", .window_bytes = 65536, .members_max = 4};
        set_up(&c);
        bench.params.size_n = bench.segment.size_n = bench.snapshot.size_n = size_n;
        bench.link.frames = bench.link.numbered = true;
        bench.link.mtu_bytes = MTU_MOST;
        const struct uw_node_state *s = bind(&c);
        assert_true(uw_node_carries(s, uw_node_peer(s, &other), 1));
        bench.link.mtu_bytes = 40;
        assert_true(uw_node_carries(s, uw_node_peer(s, &other), 1) == (size_n <= 8u << 20));
    }
}

static uwasa_Ping ping_of(uint32_t v)
{
    uwasa_Ping p = {.model = 1, .seq = v, .has_self = true, .has_progress = true};
    strcpy(p.self.name, "b");
    p.self.incarnation = 5;
    p.self.state = uwasa_State_ALIVE;
    p.self.pace_ms = 1000u * v;
    p.progress = (uwasa_Progress){.step = v, .rounds = v, .version = v, .loss = (float)v,
                                  .accuracy = (float)v, .samples_per_s = (float)v,
                                  .pulled_bytes = v, .power_mw = v, .temperature_mc = (int32_t)v,
                                  .battery_percent = v, .hears = v};
    return p;
}

/* What was left out of a ping is what its sender told last. */
static void test_what_a_ping_leaves_out_stays_as_it_was_told(void **state)
{
    (void)state;
    struct uw_node_config c = {.name = "a"};
    set_up(&c);
    c.members_max = 4;
    bench.link.frames = true;
    bench.link.mtu_bytes = 120;
    struct uw_node_state *s = bind(&c);
    struct uw_member *m = NULL;
    const uwasa_Ping told = ping_of(7);
    assert_int_equal(uw_membership_update(&s->membership, 3, false, &told, 1000, &m), UW_OK);
    for (uint32_t n = 0; n <= UW_NODE_LEFT_OUT_MOST; n++) {
        uwasa_Ping p = ping_of(9), out;
        uint8_t buf[120];
        int before = (int)sizeof buf, bytes = 0;
        for (uint32_t i = 0; i <= n; i++) {
            if (i != 0) {
                uw_node_frames.leave_out(&p);
            }
            bytes = uw_message_write(true, UW_WIRE_PING, &uw_form_ping, &p, buf, sizeof buf);
            assert_true(bytes > 0 && (i <= 1 || bytes < before));
            before = bytes;
        }
        assert_int_equal(p.left_out, n);
        assert_int_equal(uw_message_read(true, &uw_form_ping, buf, (uint32_t)bytes, &out), UW_OK);
        uw_node_frames.fill_in(s, 3, &out);
        const uint32_t got[] = {(uint32_t)out.progress.pulled_bytes, out.progress.power_mw,
                                (uint32_t)out.progress.samples_per_s,
                                (uint32_t)out.progress.accuracy, (uint32_t)out.progress.loss,
                                out.progress.rounds, out.self.pace_ms / 1000u,
                                out.progress.battery_percent};
        for (uint32_t i = 0; i < sizeof got / sizeof got[0]; i++) {
            assert_int_equal(got[i], i < n ? 7 : 9);
        }
        assert_int_equal(out.progress.step, n >= UW_NODE_LEFT_OUT_MOST - 1u ? 7 : 9);
        assert_int_equal(out.progress.hears, n == UW_NODE_LEFT_OUT_MOST ? 7 : 9);
        assert_int_equal(out.progress.version, 9);
        assert_int_equal(out.model, 1);
    }
    uwasa_Ping stranger = ping_of(9);
    while (stranger.left_out < UW_NODE_LEFT_OUT_MOST) {
        uw_node_frames.leave_out(&stranger);
    }
    uw_node_frames.fill_in(s, 2, &stranger);           /* who is new has this device's model */
    assert_int_equal(stranger.model, 1);
    assert_int_equal(stranger.progress.rounds, 0);
    stranger.left_out = UINT32_MAX;             /* of a later program */
    uw_node_frames.fill_in(s, 3, &stranger);
    assert_int_equal(stranger.progress.rounds, 7);
}

static size_t measured(uint32_t size_n, size_t window_bytes, bool frames)
{
    struct uw_error err = {.text = ""};
    struct uw_node_config c = {.name = "n", .window_bytes = window_bytes, .members_max = 8};
    size_t bytes = 0;
    set_up(&c);
    bench.params.size_n = bench.segment.size_n = bench.snapshot.size_n = size_n;
    bench.link.mtu_bytes = frames ? 40 : 1232;
    bench.link.frames = frames;
    assert_int_equal(uw_node_measure(&c, &bytes, &err), UW_OK);
    return bytes;
}

/* By default a ring that holds what a round brings; of large models 512 KiB. */
static void test_a_small_model_takes_little_memory(void **state)
{
    (void)state;
    for (int frames = 0; frames < 2; frames++) {
        size_t given = measured(82, 512u << 10, frames), own = measured(82, 0, frames);
        print_message("82 floats: %zu bytes, with a window of 512 KiB %zu\n", own, given);
        assert_true(own < given && own < (64u << 10));
        assert_true(measured(4000, 0, frames) > own);
        assert_true(measured(1u << 20, 0, 0) == measured(1u << 20, 512u << 10, 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_narrowest_link_carries_the_longest_ping),
        cmocka_unit_test(test_what_a_ping_leaves_out_stays_as_it_was_told),
        cmocka_unit_test(test_average_has_no_more_ranks_than_its_first_message_names),
        cmocka_unit_test(test_a_small_model_takes_little_memory),
        cmocka_unit_test(test_chunks_that_short_frames_cannot_tell_apart_are_not_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
