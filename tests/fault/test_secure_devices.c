/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of devices: who has a certificate of the root is in, until the root revokes the device;
 * keys change while nodes have the old one, both or the new one. */
#include "secure_world.h"

#include "base/cpu.h"

#include "uwasa/secure_keys.h"

#define ECDHE_ECDSA_CHACHA 0xcca9u
#define ECDHE_ECDSA_CCM 0xc0acu
#define CONNECT_US 60000000u
#define REFUSED_US 3000000u
#define A_KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define B_KEY "f0f102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"

static struct world world;
static struct uw_secure_keys keys[WORLD_NODES];
static struct uw_error err;
static char root[UW_DEVICE_TEXT_BYTES], other_root[UW_DEVICE_TEXT_BYTES];
static char text[2][2u * UW_DEVICE_TEXT_BYTES], lists[UW_REVOKED_TEXT_BYTES];

static int make_roots(void **state)
{
    (void)state;
    return uw_root_create(root, &err) < 0 || uw_root_create(other_root, &err) < 0;
}

static const char *device(const char *of, const char *name)
{
    assert_int_equal(uw_root_device(of, "", name, text[0], &err), UW_OK);
    return text[0];
}

/* The file with one key after another. */
static const char *both(const char *first, const char *second)
{
    char joined[sizeof text[1]];
    assert_true(snprintf(joined, sizeof joined, "%s%s", first, second) < (int)sizeof joined);
    return strcpy(text[1], joined);
}

static struct node *open_node(uint16_t i, const char *file)
{
    assert_int_equal(uw_secure_keys_init(&keys[i], file, &err), UW_OK);
    const struct node_config c = {.keys = &keys[i]};
    return node_open(&world, i, &c);
}

static void load(uint16_t i, const char *file)
{
    assert_int_equal(uw_secure_keys_load(&keys[i], file, &err), 1);
}

static void close_all(void)
{
    world_close(&world);
    for (size_t i = 0; i < WORLD_NODES; i++) {
        uw_secure_keys_deinit(&keys[i]);
    }
}

static void revoke(const char *name)
{
    assert_true(uw_root_revoke(root, lists, name, &err) > 0);
}

static void learn(uint16_t i)
{
    assert_int_equal(uw_secure_keys_revoke_text(&keys[i], lists), 1);
}

static bool is_up(uint16_t i, uint16_t with)
{
    return uw_secure_dtls_is_up(&world.node[i].dtls, with);
}

/* Neither end gets a session, whoever calls. */
static void expect_no_session(struct node *a, struct node *b)
{
    assert_true(world_connect(&world, a, b->self, REFUSED_US) == UINT64_MAX);
    assert_true(world_connect(&world, b, a->self, REFUSED_US) == UINT64_MAX);
}

static void test_devices_of_a_root_talk_with_forward_secrecy(void **state)
{
    (void)state;
    world_open(&world, 1);
    struct node *a = open_node(0, device(root, "attic")), *b = open_node(1, device(root, "cellar"));
    assert_true(world_connect(&world, a, 1, CONNECT_US) != UINT64_MAX);
    expect_talk(&world, a, b);
    uint16_t suite = uw_secure_dtls_suite(&b->dtls, 0);
    assert_int_equal(suite, uw_cpu_has_aes() ? ECDHE_ECDSA_CCM : ECDHE_ECDSA_CHACHA);
    assert_string_equal(uw_secure_keys_device(&keys[1], 0), "cellar");
    assert_null(uw_secure_keys_run_key(&keys[1]));
    close_all();
}

static void test_strangers_are_refused_and_told(void **state)
{
    (void)state;
    world_open(&world, 2);
    struct node *a = open_node(0, device(root, "attic"));
    struct node *other = open_node(1, device(other_root, "attic")), *run = open_node(2, A_KEY);
    expect_no_session(a, other);
    expect_no_session(a, run);
    assert_true(a->events[UW_SECURE_PEER_REFUSED] >= 2);
    assert_true(other->events[UW_SECURE_PEER_REFUSED] >= 1);
    assert_true(run->events[UW_SECURE_PEER_REFUSED] >= 1);
    assert_non_null(strstr(run->last_text[UW_SECURE_PEER_REFUSED], "does not hold this run's key"));
    close_all();
}

static void test_a_revoked_device_is_out_at_once_and_stays_out(void **state)
{
    (void)state;
    world_open(&world, 3);
    lists[0] = '\0';
    struct node *a = open_node(0, device(root, "attic")), *b = open_node(1, device(root, "cellar"));
    struct node *c = open_node(2, device(root, "shed"));
    expect_talk(&world, a, b);
    expect_talk(&world, a, c);
    expect_talk(&world, b, c);
    revoke("cellar");
    learn(0);
    world_run(&world, 2000);
    assert_false(is_up(0, 1));
    assert_true(is_up(0, 2) && is_up(1, 2));        /* node 2 does not know it yet */
    assert_non_null(strstr(a->last_text[UW_SECURE_PEER_CLOSED], "it is device cellar"));
    expect_no_session(a, b);
    assert_non_null(strstr(a->last_text[UW_SECURE_PEER_REFUSED],
                           "it is device cellar, whose key is revoked"));
    assert_non_null(strstr(b->last_text[UW_SECURE_PEER_REFUSED], "this device's key is revoked"));
    expect_talk(&world, a, c);
    learn(2);
    world_run(&world, 10000);
    expect_no_session(b, c);
    expect_talk(&world, a, c);
    assert_false(uw_secure_keys_is_revoked(&keys[2], 0));
    learn(1);
    assert_true(uw_secure_keys_is_revoked(&keys[1], 0));
    close_all();
}

/* The list arrives between the check of a certificate and the end of the handshake. */
static void test_a_handshake_does_not_outrun_the_list(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 12; steps++) {
        world_open(&world, 40 + steps);
        lists[0] = '\0';
        revoke("cellar");
        struct node *a = open_node(0, device(root, "attic"));
        struct node *b = open_node(1, device(root, "cellar"));
        (void)node_say(b, 0, 1);
        world_run(&world, 2000u * steps);
        learn(0);
        world_run(&world, 2000000);
        assert_false(is_up(0, 1));
        uint32_t heard = a->received[1];
        (void)node_say(b, 0, 1);
        world_run(&world, 1000000);
        assert_int_equal(a->received[1], heard);
        close_all();
    }
}

static void test_lists_that_are_damaged_foreign_or_old_change_nothing(void **state)
{
    (void)state;
    struct uw_secure_keys *k = &keys[0];
    uint8_t damaged[UW_REVOKED_BYTES_MAX + 1u];
    char older[sizeof lists], foreign[sizeof lists] = "";
    lists[0] = '\0';
    assert_int_equal(uw_secure_keys_init(k, device(root, "attic"), &err), UW_OK);
    revoke("cellar");
    strcpy(older, lists);
    revoke("shed");
    learn(0);
    const struct uw_revoked_list good = k->lists[0];
    assert_int_equal(good.number, 2);
    assert_int_equal(uw_secure_keys_revoke(k, good.list, good.bytes), 0);
    assert_int_equal(uw_secure_keys_revoke_text(k, older), 1);
    assert_int_equal(k->lists[0].number, 2);
    assert_true(uw_root_revoke(other_root, foreign, "attic", &err) == 1);
    assert_int_equal(uw_secure_keys_revoke_text(k, foreign), 1);    /* passed over */
    revoke("attic");
    struct uw_secure_keys other = {.ops = NULL};
    assert_int_equal(uw_secure_keys_init(&other, device(root, "porch"), &err), UW_OK);
    assert_int_equal(uw_secure_keys_revoke_text(&other, lists), 1);
    const struct uw_revoked_list next = other.lists[0];
    for (uint32_t n = 0; n < next.bytes; n++) {
        assert_true(uw_secure_keys_revoke(k, next.list, n) < 0);
    }
    for (uint32_t bit = 0; bit < next.bytes * 8u; bit++) {
        memcpy(damaged, next.list, next.bytes);
        damaged[bit / 8u] ^= (uint8_t)(1u << bit % 8u);
        assert_true(uw_secure_keys_revoke(k, damaged, next.bytes) <= 0);
    }
    memset(damaged, 0, sizeof damaged);
    memcpy(damaged, next.list, next.bytes);
    assert_true(uw_secure_keys_revoke(k, damaged, sizeof damaged) < 0);
    assert_int_equal(k->lists[0].number, 2);
    assert_false(uw_secure_keys_is_revoked(k, 0));
    assert_int_equal(uw_secure_keys_revoke(k, next.list, next.bytes), 1);
    assert_true(uw_secure_keys_is_revoked(k, 0));
    uw_secure_keys_deinit(&other);
    uw_secure_keys_deinit(k);
}

static void test_a_list_is_full_at_64_devices_and_says_so(void **state)
{
    (void)state;
    char name[UW_DEVICE_NAME_BYTES], before[sizeof lists];
    lists[0] = '\0';
    for (int i = 0; i < (int)UW_REVOKED_MAX; i++) {
        snprintf(name, sizeof name, "device-%d", i);
        assert_int_equal(uw_root_revoke(root, lists, name, &err), i + 1);
    }
    strcpy(before, lists);
    assert_int_equal(uw_root_revoke(root, lists, "one-more", &err), UW_ERR_FULL);
    assert_non_null(strstr(err.text, "64 devices are revoked"));
    assert_int_equal(uw_root_revoke(root, lists, "device-7", &err), (int)UW_REVOKED_MAX);
    assert_string_equal(before, lists);
    assert_int_equal(uw_root_device(root, lists, "device-63", text[0], &err), UW_ERR_DENIED);
    assert_int_equal(uw_root_device(root, lists, "one-more", text[0], &err), UW_OK);
    assert_int_equal(uw_secure_keys_init(&keys[0], text[0], &err), UW_OK);
    learn(0);
    assert_true(keys[0].lists[0].bytes > UW_REVOKED_BYTES_MAX - 80u);
    uw_secure_keys_deinit(&keys[0]);
}

/* Nodes pass from the old file over both keys to the new file, one after the other, and any two of
 * neighbouring files talk. */
static void rotate(const char *old, const char *new, uint64_t seed)
{
    char file[3][sizeof text[1]];
    strcpy(file[0], old);
    strcpy(file[1], both(old, new));
    strcpy(file[2], new);
    for (int i = 0; i < 4; i++) {
        const char *first = file[i / 2 + i % 2], *second = file[i / 2 + 1 - i % 2];
        world_open(&world, seed + (uint64_t)i);
        struct node *a = open_node(0, first), *b = open_node(1, second);
        assert_true(world_connect(&world, a, 1, CONNECT_US) != UINT64_MAX);
        expect_talk(&world, a, b);
        close_all();
    }
    world_open(&world, seed + 4u);
    struct node *a = open_node(0, file[0]), *b = open_node(1, file[0]);
    expect_talk(&world, a, b);
    for (uint16_t step = 1; step <= 2; step++) {
        for (uint16_t i = 0; i < 2; i++) {
            load(i, file[step]);
            world_run(&world, 2000);
            assert_false(is_up(i, (uint16_t)(1 - i)));
            expect_talk(&world, a, b);
        }
    }
    struct node *late = open_node(2, file[0]);
    expect_no_session(a, late);
    close_all();
}

static void test_a_run_key_changes_while_nodes_talk(void **state)
{
    (void)state;
    rotate(A_KEY, B_KEY, 60);
}

static void test_a_root_changes_while_nodes_talk(void **state)
{
    (void)state;
    char old[UW_DEVICE_TEXT_BYTES];
    strcpy(old, device(root, "attic"));
    rotate(old, device(other_root, "attic"), 70);
}

static void test_a_run_changes_from_its_key_to_devices_while_nodes_talk(void **state)
{
    (void)state;
    char new[UW_DEVICE_TEXT_BYTES];
    strcpy(new, device(root, "attic"));
    rotate(A_KEY, new, 80);
}

static void test_a_file_that_is_no_key_or_the_same_changes_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "#\n", "00", A_KEY "x", A_KEY B_KEY A_KEY,
                                      "-----BEGIN EC PRIVATE KEY-----\n"};
    world_open(&world, 5);
    char file[UW_DEVICE_TEXT_BYTES], part[UW_DEVICE_TEXT_BYTES];
    strcpy(file, device(root, "attic"));
    struct node *a = open_node(0, file), *b = open_node(1, device(root, "cellar"));
    expect_talk(&world, a, b);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(uw_secure_keys_load(&keys[0], bad[i], &err), UW_ERR_CORRUPT);
    }
    for (size_t n = 0; n < strlen(file) - 1u; n += 7) {     /* cut off */
        snprintf(part, n + 1u, "%s", file);
        assert_true(uw_secure_keys_load(&keys[0], part, &err) < 0);
    }
    /* Certificates of another root, and of another key. */
    const char *certificates = strstr(file, "-----BEGIN CERTIFICATE");
    const char *others = strstr(device(root, "shed"), "-----BEGIN CERTIFICATE");
    snprintf(part, sizeof part, "%.*s%s", (int)(certificates - file), file, others);
    assert_int_equal(uw_secure_keys_load(&keys[0], part, &err), UW_ERR_DENIED);
    others = strstr(other_root, "-----BEGIN CERTIFICATE");
    const char *its_root = strstr(certificates + 1, "-----BEGIN CERTIFICATE");
    snprintf(part, sizeof part, "%.*s%s", (int)(its_root - file), file, others);
    assert_int_equal(uw_secure_keys_load(&keys[0], part, &err), UW_ERR_DENIED);
    assert_int_equal(uw_secure_keys_load(&keys[0], file, &err), 0);
    world_run(&world, 10000);
    assert_true(is_up(0, 1) && is_up(1, 0));
    close_all();
}

/* Does it get to a while strangers use up all handshakes? */
static bool gets_in(struct node *a, struct node *caller)
{
    for (int i = 0; i < 500; i++) {
        a->dtls.started_us = world.now_us + 60000000u;
        if (node_say(caller, a->self, 1) == UW_OK) {
            return true;
        }
        world_run(&world, 2000);
    }
    return false;
}

/* While strangers have used up all handshakes, who has either key of a node is let in. */
static void test_devices_prove_their_key_before_a_handshake(void **state)
{
    (void)state;
    char first[UW_DEVICE_TEXT_BYTES];
    strcpy(first, device(root, "attic"));
    world_open(&world, 7);
    struct node *a = open_node(0, both(A_KEY, first));
    struct node *b = open_node(1, device(root, "cellar")), *c = open_node(2, A_KEY);
    struct node *stranger = open_node(3, device(other_root, "shed"));
    assert_false(gets_in(a, stranger));
    assert_true(a->dtls.stats.limited_n > 0 && a->dtls.stats.refused_n == 0);
    assert_true(gets_in(a, b));
    assert_true(gets_in(a, c));
    close_all();
}

static void test_handshakes_of_devices_survive_loss_at_the_smallest_mtu(void **state)
{
    (void)state;
    for (uint64_t run = 0; run < 4u; run++) {
        world_open(&world, uw_rng_mix(uw_test_seed(6), run));
        for (uint16_t i = 0; i < 2; i++) {
            char name[] = "device-with-the-longest-name-00";
            name[30] = (char)('0' + i);
            assert_int_equal(uw_secure_keys_init(&keys[i], device(root, name), &err), UW_OK);
            const struct node_config c = {.keys = &keys[i], .mtu_bytes = UW_SECURE_LOWER_MTU_MIN,
                                          .send = {.loss = 0.1f * (float)run, .delay_us = 5000}};
            (void)node_open(&world, i, &c);
        }
        assert_true(world_connect(&world, &world.node[0], 1, CONNECT_US) != UINT64_MAX);
        expect_talk(&world, &world.node[0], &world.node[1]);
        close_all();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_of_a_root_talk_with_forward_secrecy),
        cmocka_unit_test(test_strangers_are_refused_and_told),
        cmocka_unit_test(test_a_revoked_device_is_out_at_once_and_stays_out),
        cmocka_unit_test(test_a_handshake_does_not_outrun_the_list),
        cmocka_unit_test(test_lists_that_are_damaged_foreign_or_old_change_nothing),
        cmocka_unit_test(test_a_list_is_full_at_64_devices_and_says_so),
        cmocka_unit_test(test_a_run_key_changes_while_nodes_talk),
        cmocka_unit_test(test_a_root_changes_while_nodes_talk),
        cmocka_unit_test(test_a_run_changes_from_its_key_to_devices_while_nodes_talk),
        cmocka_unit_test(test_a_file_that_is_no_key_or_the_same_changes_nothing),
        cmocka_unit_test(test_devices_prove_their_key_before_a_handshake),
        cmocka_unit_test(test_handshakes_of_devices_survive_loss_at_the_smallest_mtu),
    };
    return cmocka_run_group_tests(tests, make_roots, NULL);
}
