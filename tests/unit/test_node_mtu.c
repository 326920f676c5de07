/* SPDX-License-Identifier: Apache-2.0
 *
 * The narrowest link that a node takes carries all that the node may come to tell of itself. */
#include "test_support.h"

#include "node_averages.h"

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

static const struct uw_link_ops no_ops = {.name = "none"};
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
    atomic_store(&s->gossip.newcomer, true);
    s->counters.pulled_bytes = UINT64_MAX;
    m->members[0].incarnation = UINT32_MAX;
    m->states_n[UW_MEMBER_ALIVE] = 4000;
    m->config.rate_bytes_per_s = 1;
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
    uw_node_fill_ping(s, UW_WIRE_PING, UINT32_MAX, 0);
    assert_true(s->message->ping.self.pace_ms >= 600000u);
    uint8_t buf[MTU_MOST];
    int told = uw_message_write(UW_WIRE_PING, &uw_form_ping, &s->message->ping, buf, sizeof buf);
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
        assert_true(cell->ranks_max == UW_NODE_RANKS_MAX ||
                    start_bytes(cell->ranks_max + 1u) > (int)mtu);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_narrowest_link_carries_the_longest_ping),
        cmocka_unit_test(test_average_has_no_more_ranks_than_its_first_message_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
