/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody sits on the wire or calls without a key: nothing wrong is delivered, no session that
 * is up is lost, and strangers take only what is set aside for them. */
#include "secure_world.h"

#define MIDDLE WORLD_NODES      /* station of raw[0]; two nodes that talk through it know only it */
#define HELLO_MAX 256u

static struct world world;
static const struct node_config plain_node;

/* A datagram caught on the wire. */
struct caught {
    uint16_t from;
    uint32_t bytes;
    uint8_t data[WORLD_MTU];
};

static struct caught tape[256];
static size_t tape_n;

static bool catch_one(struct uw_link *at, struct caught *c)
{
    int rc = uw_link_recv(at, &c->from, c->data, sizeof c->data);
    c->bytes = rc > 0 ? (uint32_t)rc : 0;
    return rc >= 0;
}

static void put(struct uw_link *at, uint16_t to, const struct caught *c)
{
    assert_int_equal(uw_link_send(at, to, c->data, c->bytes), UW_OK);
}

/* Node 0 and node 1, each of which believes the other to be at MIDDLE: pass everything on,
 * `copies` times, and tape it. */
static void relay(int steps, int copies)
{
    struct uw_link *middle = &world.raw[0].link;
    for (int i = 0; i < steps; i++) {
        struct caught c;
        while (catch_one(middle, &c)) {
            if (tape_n < sizeof tape / sizeof tape[0]) {
                tape[tape_n++] = c;
            }
            for (int copy = 0; copy < copies; copy++) {
                put(middle, c.from == 0 ? 1 : 0, &c);
            }
        }
        world_run(&world, 2000);
    }
}

static void open_through_the_middle(uint64_t seed, int copies)
{
    world_open(&world, seed);
    tape_n = 0;
    struct node *a = node_open(&world, 0, &plain_node);
    struct node *b = node_open(&world, 1, &plain_node);
    for (int i = 0; i < 100 && b->received[MIDDLE] == 0; i++) {
        (void)node_say(a, MIDDLE, 1);
        relay(5, copies);
    }
    assert_true(uw_secure_dtls_is_up(&a->dtls, MIDDLE));
    assert_true(uw_secure_dtls_is_up(&b->dtls, MIDDLE));
    assert_int_equal(b->received[MIDDLE], 1);
}

static void expect_passage(void)
{
    struct node *a = &world.node[0];
    struct node *b = &world.node[1];
    uint32_t heard[2] = {a->received[MIDDLE], b->received[MIDDLE]};
    assert_int_equal(node_say(a, MIDDLE, 3), UW_OK);
    assert_int_equal(node_say(b, MIDDLE, 4), UW_OK);
    relay(3, 1);
    assert_int_equal(a->received[MIDDLE], heard[0] + 1);
    assert_int_equal(b->received[MIDDLE], heard[1] + 1);
}

static void test_attack_every_datagram_three_times_is_delivered_once(void **state)
{
    (void)state;
    open_through_the_middle(1, 3);
    struct node *b = &world.node[1];
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(node_say(&world.node[0], MIDDLE, (uint8_t)i), UW_OK);
        relay(2, 3);
    }
    assert_int_equal(b->received[MIDDLE], 21);
    assert_int_equal(b->dtls.stats.handshakes_n, 1);
    world_close(&world);
}

static void test_attack_replay_of_a_whole_session_changes_nothing(void **state)
{
    (void)state;
    open_through_the_middle(2, 1);
    expect_passage();
    size_t n = tape_n;
    /* The taped hellos made the session; their copies must not take a slot. */
    for (size_t i = 0; i < n; i++) {
        if (tape[i].data[0] == 22 && tape[i].data[13] == 1) {
            put(&world.raw[0].link, tape[i].from == 0 ? 1 : 0, &tape[i]);
        }
    }
    world_run(&world, 2000);
    struct caught answer;
    while (catch_one(&world.raw[0].link, &answer)) {
    }
    for (size_t i = 0; i < 2; i++) {
        assert_true(uw_link_step(&world.node[i].dtls.link, world.now_us) == UINT64_MAX);
    }
    uint32_t heard[2] = {world.node[0].received[MIDDLE], world.node[1].received[MIDDLE]};
    for (int again = 0; again < 3; again++) {
        for (size_t i = 0; i < n; i++) {
            put(&world.raw[0].link, tape[i].from == 0 ? 1 : 0, &tape[i]);
            world_run(&world, 2000);
            while (catch_one(&world.raw[0].link, &answer)) {
            }
        }
    }
    assert_int_equal(world.node[0].received[MIDDLE], heard[0]);
    assert_int_equal(world.node[1].received[MIDDLE], heard[1]);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(world.node[i].dtls.stats.handshakes_n, 1);
        assert_int_equal(world.node[i].events[UW_SECURE_PEER_CLOSED], 0);
        assert_true(uw_link_step(&world.node[i].dtls.link, world.now_us) == UINT64_MAX);
    }
    expect_passage();
    world_close(&world);
}

static void test_attack_any_flipped_bit_is_not_delivered(void **state)
{
    (void)state;
    open_through_the_middle(3, 1);
    struct uw_link *middle = &world.raw[0].link;
    struct node *b = &world.node[1];
    struct caught c, d;
    assert_int_equal(node_say(&world.node[0], MIDDLE, 9), UW_OK);
    assert_true(catch_one(middle, &c));
    uint32_t heard = b->received[MIDDLE];
    for (uint32_t bit = 0; bit < c.bytes * 8u; bit++) {
        d = c;
        d.data[bit / 8u] ^= (uint8_t)(1u << (bit % 8u));
        put(middle, 1, &d);
        if (bit % 16u == 15u) {
            world_run(&world, 2000);
        }
    }
    for (uint32_t bytes = 0; bytes < c.bytes; bytes++) {
        d = c;
        d.bytes = bytes;
        put(middle, 1, &d);
        if (bytes % 16u == 15u) {
            world_run(&world, 2000);
        }
    }
    world_run(&world, 2000);
    while (catch_one(middle, &d)) {
    }
    /* A flip in the record's version or length bytes may leave it readable only if DTLS does not
     * authenticate them; it authenticates all. */
    assert_int_equal(b->received[MIDDLE], heard);
    assert_int_equal(b->events[UW_SECURE_PEER_CLOSED], 0);
    put(middle, 1, &c);
    world_run(&world, 2000);
    assert_int_equal(b->received[MIDDLE], heard + 1);
    expect_passage();
    world_close(&world);
}

/* Any byte but those of the run's name, which a peer is told to be wrong. */
static uint32_t any_byte(struct uw_rng *rng, const struct caught *c)
{
    static const char name[] = "fault";
    for (;;) {
        uint32_t at = uw_rng_below(rng, c->bytes);
        bool named = false;
        for (uint32_t k = 0; k < sizeof name - 1u && k <= at; k++) {
            named = named || (at - k + sizeof name - 1u <= c->bytes &&
                              memcmp(c->data + at - k, name, sizeof name - 1u) == 0);
        }
        if (!named) {
            return at;
        }
    }
}

/* Every datagram of the handshake damaged at one byte: refused or repeated, never half up. */
static void test_attack_handshake_with_any_datagram_damaged_ends_well(void **state)
{
    (void)state;
    struct uw_link *middle = &world.raw[0].link;
    uint64_t seed = uw_test_seed(4);
    for (uint32_t run = 0; run < 60; run++) {
        struct uw_rng rng;
        struct caught c;
        uint32_t count = 0;
        uw_rng_seed(&rng, uw_rng_mix(seed, run));
        world_open(&world, run);
        struct node *a = node_open(&world, 0, &plain_node);
        struct node *b = node_open(&world, 1, &plain_node);
        for (int i = 0; i < 4000 && b->received[MIDDLE] == 0; i++) {
            (void)node_say(a, MIDDLE, 1);
            while (catch_one(middle, &c)) {
                if (count++ == run % 7u) {
                    c.data[any_byte(&rng, &c)] ^= (uint8_t)(1u + uw_rng_below(&rng, 255));
                }
                put(middle, c.from == 0 ? 1 : 0, &c);
            }
            world_run(&world, 4000);
        }
        assert_int_equal(b->received[MIDDLE], 1);
        expect_passage();
        assert_int_equal(a->events[UW_SECURE_PEER_REFUSED], 0); /* one bad MAC accuses nobody */
        assert_int_equal(b->events[UW_SECURE_PEER_REFUSED], 0);
        world_close(&world);
    }
}

/* Without the key, from the address of a peer whose session works: the peer is not blamed. */
static void test_attack_calls_in_the_name_of_a_peer_do_not_blame_it(void **state)
{
    (void)state;
    static const struct node_config another = {.key = 9};
    open_through_the_middle(6, 1);
    struct node *a = &world.node[0];
    struct node *c = node_open(&world, 2, &another);
    uint32_t calls = 0;
    for (uint32_t i = 0; i < 5000; i++) {
        struct caught d;
        (void)node_say(c, MIDDLE, 1);
        while (catch_one(&world.raw[0].link, &d)) {
            put(&world.raw[0].link, d.from == 2 ? 0 : 2, &d);
            calls += d.from == 2;
        }
        world_run(&world, 10000);
    }
    assert_true(calls > 10);
    assert_int_equal(a->events[UW_SECURE_PEER_REFUSED], 0);
    assert_true(a->dtls.stats.refused_n > 2);
    node_kill(c);
    expect_passage();
    world_close(&world);
}

static void test_attack_garbage_flood_leaves_sessions_and_slots_alone(void **state)
{
    (void)state;
    open_through_the_middle(5, 1);
    struct uw_rng rng;
    struct node *a = &world.node[0];
    uw_rng_seed(&rng, uw_test_seed(5));
    for (uint32_t i = 0; i < 20000; i++) {
        struct caught c;
        c.bytes = uw_rng_below(&rng, i % 10 == 0 ? WORLD_MTU + 1u : 80);
        for (uint32_t k = 0; k < c.bytes; k++) {
            c.data[k] = (uint8_t)uw_rng_u32(&rng);
        }
        if (i % 2 == 0 && tape_n != 0) { /* or something that once was real, damaged */
            c = tape[uw_rng_below(&rng, (uint32_t)tape_n)];
            for (uint32_t k = 0; k < 1u + i % 5u; k++) {
                c.data[uw_rng_below(&rng, c.bytes)] = (uint8_t)uw_rng_u32(&rng);
            }
        }
        put(&world.raw[i % 3].link, 0, &c); /* from the peer's own address as well */
        if (i % 32 == 31) {
            world_run(&world, 2000);
            for (size_t r = 0; r < 3; r++) {
                while (catch_one(&world.raw[r].link, &c)) {
                }
            }
        }
    }
    assert_int_equal(a->events[UW_SECURE_PEER_CLOSED], 0);
    assert_int_equal(a->dtls.stats.handshakes_n, 1);
    world_run(&world, 2000);
    struct caught rest;
    while (catch_one(&world.raw[0].link, &rest)) {
    }
    expect_passage();
    world_close(&world);
}

/* A ClientHello as small as may be; seed makes its random. Returns its size. */
static uint32_t make_hello(struct caught *c, uint32_t seed, const uint8_t *cookie,
                           uint8_t cookie_bytes)
{
    static const uint8_t tail[] = {0, 6, 0xcc, 0xac, 0, 0xa8, 0xcc, 0xab,   /* suites ... */
                                   1, 0};                                   /* ... compression */
    struct uw_rng rng;
    uint8_t *p = c->data;
    uint32_t body = 2u + 32u + 1u + 1u + cookie_bytes + (uint32_t)sizeof tail;
    memset(p, 0, HELLO_MAX);
    p[0] = 22;
    p[1] = p[25] = 0xfe;
    p[2] = p[26] = 0xfd;
    p[10] = cookie_bytes != 0;
    p[12] = (uint8_t)(body + 12u);
    p[13] = 1;
    p[16] = p[24] = (uint8_t)body;
    p[18] = cookie_bytes != 0;
    uw_rng_seed(&rng, seed);
    for (size_t i = 0; i < 32; i++) {
        p[27 + i] = (uint8_t)uw_rng_u32(&rng);
    }
    p[60] = cookie_bytes;
    if (cookie_bytes != 0) {
        memcpy(p + 61, cookie, cookie_bytes);
    }
    memcpy(p + 61 + cookie_bytes, tail, sizeof tail);
    return c->bytes = 13u + 12u + body;
}

/* Get a cookie as any stranger can that receives at its address. */
static void ask_cookie(struct uw_link *stranger, struct caught *answer)
{
    struct caught hello;
    make_hello(&hello, 1, NULL, 0);
    put(stranger, 0, &hello);
    world_run(&world, 2000);
    assert_true(catch_one(stranger, answer));
    assert_int_equal(answer->bytes, 60);
    assert_true(answer->bytes <= hello.bytes); /* nothing to amplify */
    assert_int_equal(answer->data[13], 3);
    assert_int_equal(answer->data[27], 32);
}

static void test_attack_hellos_without_cookie_cost_no_slot(void **state)
{
    (void)state;
    struct caught c;
    world_open(&world, 6);
    struct node *a = node_open(&world, 0, &plain_node);
    for (uint32_t i = 0; i < 2000; i++) {
        uint8_t wrong[40] = {(uint8_t)i};
        make_hello(&c, i, wrong, (uint8_t)(i % 3 == 0 ? 0 : i % 3 == 1 ? 32 : i % 40));
        put(&world.raw[i % WORLD_RAW].link, 0, &c);
        world_run(&world, 2000);
        assert_true(catch_one(&world.raw[i % WORLD_RAW].link, &c));
        assert_int_equal(c.bytes, 60);
    }
    assert_int_equal(a->dtls.stats.strangers_n, 2000);
    assert_int_equal(a->dtls.stats.limited_n + a->dtls.stats.failed_n, 0);
    assert_true(uw_link_step(&a->dtls.link, world.now_us) == UINT64_MAX);
    world_close(&world);
}

static void test_attack_cookie_of_another_address_or_time_is_worth_nothing(void **state)
{
    (void)state;
    struct caught cookie, c;
    world_open(&world, 7);
    node_open(&world, 0, &plain_node);
    ask_cookie(&world.raw[0].link, &cookie);
    make_hello(&c, 1, cookie.data + 28, 32);
    put(&world.raw[1].link, 0, &c);
    world_run(&world, 2000);
    assert_true(catch_one(&world.raw[1].link, &c));
    assert_int_equal(c.bytes, 60); /* asked again */
    world_run(&world, 130000000);
    make_hello(&c, 1, cookie.data + 28, 32);
    put(&world.raw[0].link, 0, &c);
    world_run(&world, 2000);
    assert_true(catch_one(&world.raw[0].link, &c));
    assert_int_equal(c.bytes, 60);
    world_close(&world);
}

/* Strangers that pass the cookie and then say nothing hold every slot set aside: sessions live
 * on, and a peer with the key gets in as soon as one of theirs is stale. */
static void test_attack_slots_full_of_silent_strangers_delay_but_do_not_lock_out(void **state)
{
    (void)state;
    struct node_config few = {.sessions_n = 2, .handshakes_n = 3};
    struct caught cookie[WORLD_RAW], c;
    world_open(&world, 8);
    struct node *a = node_open(&world, 0, &few);
    struct node *b = node_open(&world, 1, &plain_node);
    struct node *late = node_open(&world, 2, &plain_node);
    assert_true(world_connect(&world, b, 0, 1000000) != UINT64_MAX);
    world_run(&world, 3000000);
    for (size_t i = 0; i < WORLD_RAW; i++) {
        ask_cookie(&world.raw[i].link, &cookie[i]);
    }
    uint64_t took = UINT64_MAX;
    for (uint32_t i = 0; i < 15000; i++) {
        struct uw_link *stranger = &world.raw[i % WORLD_RAW].link;
        make_hello(&c, i, cookie[i % WORLD_RAW].data + 28, 32);
        put(stranger, 0, &c);
        world_run(&world, 2000);
        while (catch_one(stranger, &c)) {
        }
        if (i > 100 && node_say(late, 0, 1) == UW_OK) {
            took = i;
            break;
        }
        assert_true(uw_secure_dtls_is_up(&a->dtls, 1));
    }
    assert_true(took != UINT64_MAX);
    assert_true(a->dtls.stats.limited_n > 0);
    assert_true(uw_secure_dtls_is_up(&a->dtls, 1));
    expect_talk(&world, a, b);
    expect_talk(&world, a, late);
    world_close(&world);
}

/* 3,000 handshakes a second that bring the cookie and go no further, from many addresses: a
 * newcomer with the key is let in as if nobody else called, and no session is disturbed. */
static void test_attack_flood_of_handshakes_does_not_keep_a_newcomer_out(void **state)
{
    (void)state;
    struct caught cookie[WORLD_RAW], c;
    world_open(&world, 11);
    struct node *a = node_open(&world, 0, &plain_node);
    struct node *b = node_open(&world, 1, &plain_node), *late = NULL;
    assert_true(world_connect(&world, b, 0, 1000000) != UINT64_MAX);
    for (size_t i = 0; i < WORLD_RAW; i++) {
        ask_cookie(&world.raw[i].link, &cookie[i]);
    }
    uint32_t said = 0, heard = a->received[1];
    for (uint32_t i = 0; i < 12000; i++) {
        struct uw_link *stranger = &world.raw[i % WORLD_RAW].link;
        make_hello(&c, i, cookie[i % WORLD_RAW].data + 28, 32);
        put(stranger, 0, &c);
        if (i % 6 == 5) {
            said += node_say(b, 0, (uint8_t)i) == UW_OK;
            world_run(&world, 2000);
        }
        while (catch_one(stranger, &c)) {
        }
        if (i == 9000) {
            late = node_open(&world, 2, &plain_node);
        }
        if (late != NULL && late->events[UW_SECURE_PEER_UP] == 0) {
            (void)node_say(late, 0, 1);
            assert_true(i < 9600);      /* 0.2 s */
        }
    }
    assert_int_equal(said, 2000);
    assert_int_equal(a->received[1], heard + said);
    assert_true(a->dtls.stats.limited_n > 10000);
    expect_talk(&world, a, late);
    world_close(&world);
}

/* A datagram of a proof, or what passes for one, and a hello behind it. */
static void make_proven_hello(struct caught *c, const uint8_t proof[29], uint32_t seed,
                              const uint8_t *cookie)
{
    struct caught hello;
    make_hello(&hello, seed, cookie, 32);
    memcpy(c->data, proof, 29);
    memcpy(c->data + 29, hello.data, hello.bytes);
    c->bytes = 29u + hello.bytes;
}

/* Is it answered by a ServerHello? */
static bool gets_a_slot(struct uw_link *stranger)
{
    struct caught c;
    bool slot = false;
    world_run(&world, 2000);
    while (catch_one(stranger, &c)) {
        slot = slot || (c.data[0] == 22 && c.data[13] == 2);
    }
    return slot;
}

/* The proof of a peer is worth nothing in front of another hello or at another address; nor is
 * garbage, nor that of another run. */
static void test_attack_proof_of_somebody_else_takes_no_slot(void **state)
{
    (void)state;
    struct caught cookie[4], real = {.bytes = 0}, c;
    const struct node_config few = {.handshakes_n = 3}, other_run = {.identity = "other"};
    world_open(&world, 12);
    struct node *a = node_open(&world, 0, &few);
    struct node *b = node_open(&world, 1, &plain_node);
    for (size_t i = 1; i < 4; i++) {
        ask_cookie(&world.raw[i].link, &cookie[i]);
    }
    for (int i = 0; i < 20 && real.bytes == 0; i++) {      /* b calls: its proof is caught */
        (void)node_say(b, MIDDLE, 1);
        while (catch_one(&world.raw[0].link, &c)) {
            if (c.from == 1 && c.data[0] == 23) {
                real = c;
            } else {
                put(&world.raw[0].link, c.from == 0 ? 1 : 0, &c);
            }
        }
        world_run(&world, 2000);
    }
    assert_true(real.bytes > 29);
    node_kill(b);
    for (uint32_t i = 1; i < 3; i++) {                      /* strangers have the slots */
        make_hello(&c, i, cookie[i].data + 28, 32);
        put(&world.raw[i].link, 0, &c);
        assert_true(gets_a_slot(&world.raw[i].link));
    }
    uint64_t limited = a->dtls.stats.limited_n;
    make_proven_hello(&c, real.data, 7, cookie[3].data + 28);
    put(&world.raw[3].link, 0, &c);
    assert_false(gets_a_slot(&world.raw[3].link));
    assert_int_equal(a->dtls.stats.limited_n, limited + 1);
    put(&world.raw[3].link, 0, &real);                      /* whole: the cookie is not for here */
    assert_false(gets_a_slot(&world.raw[3].link));
    memset(c.data + 13, 0, 16);
    put(&world.raw[3].link, 0, &c);
    assert_false(gets_a_slot(&world.raw[3].link));
    struct node *d = node_open(&world, 2, &other_run);
    assert_true(world_connect(&world, d, 0, 500000) == UINT64_MAX);
    assert_int_equal(a->dtls.stats.refused_n + a->dtls.stats.failed_n, 0);
    put(&world.raw[0].link, 0, &real);                      /* where it belongs, it takes one */
    assert_true(gets_a_slot(&world.raw[0].link));
    assert_int_equal(a->dtls.stats.failed_n, 1);
    world_close(&world);
}

/* Somebody without the key takes over the address of a peer: the old session stays. */
static void test_attack_impostor_at_a_known_address_does_not_end_the_session(void **state)
{
    (void)state;
    struct node_config wrong = {.key = 9};
    world_open(&world, 9);
    struct node *a = node_open(&world, 0, &plain_node);
    struct node *b = node_open(&world, 1, &plain_node);
    assert_true(world_connect(&world, b, 0, 1000000) != UINT64_MAX);
    expect_talk(&world, a, b);
    uint32_t heard = a->received[1];
    node_kill(b);
    b = node_open(&world, 1, &wrong);
    assert_true(world_connect(&world, b, 0, 5000000) == UINT64_MAX);
    assert_true(uw_secure_dtls_is_up(&a->dtls, 1));
    assert_int_equal(a->events[UW_SECURE_PEER_CLOSED], 0);
    assert_int_equal(a->received[1], heard);
    assert_int_equal(node_say(a, 1, 1), UW_OK);     /* into the void: b cannot read it */
    world_run(&world, 100000);
    assert_int_equal(b->received[0], 0);
    world_close(&world);
}

/* Alerts in the clear, the cheapest forgery, from the peer's own address. */
static void test_attack_forged_alerts_do_not_end_a_session(void **state)
{
    (void)state;
    open_through_the_middle(10, 1);
    for (uint32_t i = 0; i < 256; i++) {
        struct caught c = {.bytes = 15};
        const uint8_t alert[15] = {21, 0xfe, 0xfd, 0, (uint8_t)(i & 1), 0, 0, 0, 0, 9,
                                   (uint8_t)i, 0,    2,    (uint8_t)(1 + i / 128), (uint8_t)i};
        memcpy(c.data, alert, sizeof alert);
        put(&world.raw[0].link, 0, &c);
        put(&world.raw[0].link, 1, &c);
        world_run(&world, 2000);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(world.node[i].events[UW_SECURE_PEER_CLOSED], 0);
    }
    expect_passage();
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attack_every_datagram_three_times_is_delivered_once),
        cmocka_unit_test(test_attack_replay_of_a_whole_session_changes_nothing),
        cmocka_unit_test(test_attack_any_flipped_bit_is_not_delivered),
        cmocka_unit_test(test_attack_handshake_with_any_datagram_damaged_ends_well),
        cmocka_unit_test(test_attack_calls_in_the_name_of_a_peer_do_not_blame_it),
        cmocka_unit_test(test_attack_garbage_flood_leaves_sessions_and_slots_alone),
        cmocka_unit_test(test_attack_hellos_without_cookie_cost_no_slot),
        cmocka_unit_test(test_attack_cookie_of_another_address_or_time_is_worth_nothing),
        cmocka_unit_test(test_attack_slots_full_of_silent_strangers_delay_but_do_not_lock_out),
        cmocka_unit_test(test_attack_flood_of_handshakes_does_not_keep_a_newcomer_out),
        cmocka_unit_test(test_attack_proof_of_somebody_else_takes_no_slot),
        cmocka_unit_test(test_attack_impostor_at_a_known_address_does_not_end_the_session),
        cmocka_unit_test(test_attack_forged_alerts_do_not_end_a_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
