/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node's configuration says of its link, its sleep and its period: checked key by key. */
#include "test_support.h"

#include "node/node_config.h"

struct wrong_config {
    const char *json, *sentence;
};

static void refuse_all(const struct wrong_config *wrong, size_t wrong_n)
{
    for (size_t i = 0; i < wrong_n; i++) {
        struct uw_node_file f;
        struct uw_error err = {.text = ""};
        const char *json = wrong[i].json;
        assert_int_equal(uw_node_config_parse(&f, "f", json, strlen(json), &err), UW_ERR_INVALID);
        if (strstr(err.text, wrong[i].sentence) == NULL) {
            fail_msg("%s instead of %s", err.text, wrong[i].sentence);
        }
        uw_node_config_deinit(&f);
    }
}

#define LINE(link, more)                                                                \
    "{\"name\": \"n\", \"run\": \"r\", \"key\": \"k\", \"model\": \"mlp\",\n"                 \
    "\"link\": " link more "}"

static void test_config_of_a_serial_line_is_an_object_and_is_checked(void **state)
{
    (void)state;
    static const struct wrong_config wrong[] = {
        {LINE("{\"serial\": \"tty\", \"baud\": 115201}", ""),
         "f:2: \"link.baud\" needs a rate that serial lines have"},
        {LINE("{\"serial\": \"tty\",\n\"baud\": 1}", ""), "f:3: \"link.baud\" needs a whole"},
        {LINE("{\"baud\": 9600}", ""), "f:2: \"link.baud\" needs \"link.serial\""},
        {LINE("{\"seriel\": \"tty\"}", ""), "f:2: unknown key \"link.seriel\", did you mean"},
        {LINE("{\"serial\": 5}", ""), "f:2: \"link.serial\""},
        {LINE("\"serial\"", ""), "f:2: \"link\" needs udp, tcp, mpi, {\"serial\": DEV"},
        {LINE("\"radio\"", ""), "or {\"radio\": \"udp:GROUP:PORT\", \"address\": N}"},
        {LINE("\"smoke\"", ""), "f:2: \"link\" needs udp"},
        {LINE("{}", ""), "f:2: \"link\" needs udp, tcp, mpi, {"},
        {LINE("{\"serial\": \"tty\"}", ",\n\"seeds\": [\"a:1\"]"),
         "f:3: \"seeds\" is not for"},
        {LINE("{\"serial\": \"tty\"}", ",\n\"listen\": \":1\""),
         "f:3: \"listen\" is not for"},
        {LINE("{\"serial\": \"tty\"}", ", \"advertise\": \"a:1\""), "\"advertise\" is not for"},
        {LINE("{\"serial\": \"tty\"}", ", \"mtu\": 2049"), "\"mtu\" needs at most 2048"},
        {LINE("{\"serial\": \"tty\"}", ", \"tls\": false"), "serial lines are always encrypted"},
        {LINE("{\"serial\": \"tty\"}", ", \"emulate\": {\"loss\": 0.1, \"far\": [\"a:1\"]}"),
         "\"emulate.far\" is not for"},
    };
    struct uw_node_file f;
    struct uw_error err = {.text = ""};
    refuse_all(wrong, sizeof wrong / sizeof wrong[0]);
    static const char good[] = LINE("{\"serial\": \"tty\"}", ", \"mtu\": 2048");
    assert_int_equal(uw_node_config_parse(&f, "f", good, sizeof good - 1, &err), UW_OK);
    assert_int_equal(f.o.carrier, UW_STACK_SERIAL);
    assert_string_equal(f.o.link_serial, "tty");
    assert_int_equal(f.o.link_baud, 115200);
    assert_int_equal(f.o.seeds.n, 1);
    assert_string_equal(f.o.seeds.item[0], "peer");
    uw_node_config_deinit(&f);
    static const char plain[] = LINE("\"tcp\"", "");
    assert_int_equal(uw_node_config_parse(&f, "f", plain, sizeof plain - 1, &err), UW_OK);
    assert_int_equal(f.o.carrier, UW_STACK_TCP);
    uw_node_config_deinit(&f);
}

#define GROUP "\"radio\": \"udp:239.255.85.87:4785\""

static void test_config_of_a_radio_or_a_bus_has_an_address_and_is_checked(void **state)
{
    (void)state;
    static const struct wrong_config wrong[] = {
        {LINE("{" GROUP "}", ""), "\"link.address\" is missing"},
        {LINE("{\"bus\": \"tty\"}", ""), "\"link.address\" is missing"},
        {LINE("{\"bus\": \"tty\", \"address\": 65534}", ""), "f:2: \"link.address\" needs"},
        {LINE("{\"address\": 3}", ""), "\"link.address\" needs \"link.radio\""},
        {LINE("{\"serial\": \"tty\", \"address\": 3}", ""), "\"link.address\" needs"},
        {LINE("{\"bus\": \"tty\", \"serial\": \"tty\"}", ""), "is given twice"},
        {LINE("{\"bus\": \"tty\", " GROUP "}", ""), "is given twice"},
        {LINE("{" GROUP ", \"address\": 3, \"baud\": 9600}", ""), "\"link.baud\" needs"},
        {LINE("{\"bus\": \"tty\", \"address\": 3, \"baud\": 9601}", ""), "rate that serial"},
        {LINE("{\"bus\": \"tty\", \"address\": 3, \"interface\": \"10.0.0.1\"}", ""),
         "\"link.interface\" needs"},
        {LINE("{\"radio\": \"239.255.85.87:4785\", \"address\": 3}", ""), "a multicast group"},
        {LINE("{\"radio\": \"udp:10.0.0.1:4785\", \"address\": 3}", ""), "a multicast group"},
        {LINE("{\"radio\": \"udp:239.255.85.87\", \"address\": 3}", ""), "a multicast group"},
        {LINE("{" GROUP ", \"address\": 3}", ", \"listen\": \":1\""), "\"listen\" is not for"},
        {LINE("{" GROUP ", \"address\": 3}", ", \"mtu\": 1281"), "\"mtu\" needs at most 1280"},
        {LINE("{" GROUP ", \"address\": 3}", ", \"mtu\": 50"), "f:2: \"mtu\" needs"},
        {LINE("{" GROUP ", \"address\": 3}", ", \"seeds\": [\"a:1\"]"), "has \"a:1\", needs numb"},
        {LINE("{" GROUP ", \"address\": 3}", ", \"tls\": false"), "always encrypted"},
        {LINE("{" GROUP ", \"address\": 3}", ", \"exchange\": \"auto\""), "needs gossip or b"},
        {LINE("\"udp\"", ", \"exchange\": \"broadcast\""), "broadcast needs a radio or a bus"},
        {LINE("{\"serial\": \"tty\"}", ", \"exchange\": \"broadcast\""), "broadcast needs"},
        {LINE("{" GROUP ", \"address\": 3}",
              ", \"exchange\": \"broadcast\", \"momentum_rule\": \"slowmo\""),
         "\"momentum_rule\" is not for a radio or a bus"},
        {LINE("{" GROUP ", \"address\": 3}",
              ", \"exchange\": \"broadcast\", \"momentum_rule\": \"kgt\""),
         "\"momentum_rule\" is not for a radio or a bus"},
        {LINE("{" GROUP ", \"address\": 3}", ", \"exchange\": \"broadcast\", \"slices\": 2"),
         "\"slices\" needs 1, or up to 32"},
        {LINE("{" GROUP ", \"address\": 3}", ", \"shuffle\": 0.1"),
         "\"shuffle\" is not for a radio or a bus"},
        {LINE("{" GROUP ", \"address\": 3}", ", \"algorithm\": \"ring\""),
         "\"algorithm\" needs exact averages"},
        {LINE("\"udp\"", ", \"mtu\": 255"), "\"mtu\" needs 256 or more"},
    };
    static const char *const good[] = {
        LINE("{" GROUP ", \"address\": 3}", ", \"seeds\": [\"65533\", \"0\"], \"mtu\": 51"),
        LINE("{\"bus\": \"tty\", \"address\": 0}",
             ", \"exchange\": \"broadcast\", \"period\": \"auto\", \"share\": 0.2")};
    refuse_all(wrong, sizeof wrong / sizeof wrong[0]);
    for (size_t i = 0; i < 2; i++) {
        struct uw_node_file f;
        struct uw_error err = {.text = ""};
        assert_int_equal(uw_node_config_parse(&f, "f", good[i], strlen(good[i]), &err), UW_OK);
        assert_int_equal(f.o.carrier, i == 0 ? UW_STACK_RADIO : UW_STACK_BUS);
        assert_int_equal(f.o.link_address, i == 0 ? 3 : 0);
        assert_int_equal(f.o.link_baud, i == 0 ? 0 : 115200);
        uw_node_config_deinit(&f);
    }
}

static void test_config_of_sleep_and_period_names_the_key_and_its_line(void **state)
{
    (void)state;
    static const struct wrong_config wrong[] = {
        {LINE("\"udp\"", ",\n\"sleep\": {\"period\": 10}"),
         "f:3: \"sleep.period\" needs an awake time, too"},
        {LINE("\"udp\"", ",\n\"sleep\": {\"awake\": 1}"),
         "f:3: \"sleep.awake\" needs a sleep period"},
        {LINE("\"udp\"", ", \"sleep\": {\"period\": 10,\n\"awake\": 10}"),
         "f:3: \"sleep.awake\" needs less"},
        {LINE("\"udp\"", ", \"sleep\": {\"period\": 10,\n\"awake\": 0.01}"),
         "f:3: \"sleep.awake\" needs"},
        {LINE("\"udp\"", ", \"sleep\": {\n\"period\": 4000, \"awake\": 1}"),
         "f:3: \"sleep.period\" needs"},
        {LINE("\"udp\"", ", \"sleep\": {\"period\": 0.1003, \"awake\": 0.1001}"),
         "\"sleep.awake\" needs less"},       /* the same milliseconds */
        {LINE("\"udp\"", ", \"sleep\": {\n\"period\": 9, \"awake\": 1}, \"exchange\": \"auto\""),
         "f:3: \"sleep.period\" is for gossip and broadcast"},
        {LINE("\"udp\"", ", \"sleep\": {\n\"period\": 9, \"awake\": 1}, "
                         "\"momentum_rule\": \"kgt\""),
         "f:3: \"sleep.period\" is for gossip and broadcast"},
        {LINE("\"udp\"", ", \"sleep\": {\n\"period\": 9, \"awake\": 1}, \"shuffle\": 0.1"),
         "f:3: \"sleep.period\" is for gossip and broadcast"},
        {LINE("\"udp\"", ",\n\"period\": \"auto\", \"exchange\": \"auto\""),
         "f:3: \"period\" can adapt in gossip and broadcast only"},
        {LINE("\"udp\"", ",\n\"share\": 0.2"), "f:3: \"share\" needs \"period\": \"auto\""},
        {LINE("\"udp\"", ",\n\"slices\": 2, \"momentum_rule\": \"kgt\""),
         "f:3: \"slices\" needs 1, or up to 32 in gossip"},
    };
    refuse_all(wrong, sizeof wrong / sizeof wrong[0]);
    static const char good[] = LINE("\"udp\"", ", \"sleep\": {\"period\": 9, \"awake\": 1}, "
                                               "\"period\": \"auto\", \"slices\": 32");
    struct uw_node_file f;
    struct uw_error err = {.text = ""};
    assert_int_equal(uw_node_config_parse(&f, "f", good, sizeof good - 1, &err), UW_OK);
    assert_true(f.o.sleep_period == 9.0 && f.o.sleep_awake == 1.0 &&
                (float)uw_exchange_share(&f.o.exchange) == 0.1f);
    uw_node_config_deinit(&f);
}

/* A model over a slow radio takes longer than any number that suits a fast one. */
static void test_config_without_consensus_seconds_goes_on_while_parameters_come(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint64_t us, end_us;            /* of one that began at 1 s, where something came at 40 s */
    } cases[] = {{LINE("\"udp\"", ""), 10000000, 50000000},
                 {LINE("\"udp\"", ", \"consensus_seconds\": 10"), 10000000, 11000000},
                 {LINE("\"udp\"", ", \"consensus_seconds\": 0"), 0, 1000000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct uw_node_file f;
        struct uw_error err = {.text = ""};
        const char *json = cases[i].json;
        assert_int_equal(uw_node_config_parse(&f, "f", json, strlen(json), &err), UW_OK);
        assert_int_equal(uw_node_consensus_us(&f.o), cases[i].us);
        assert_int_equal(uw_node_consensus_end_us(&f.o, 1000000, 40000000), cases[i].end_us);
        uw_node_config_deinit(&f);
    }
}

enum { GOSSIP = 1, BROADCAST = 2, EXACT = 4 };

struct said_link {
    const char *json;
    bool shared;                    /* a radio or a bus, which has no exact averages */
};

struct said_exchange {
    const char *name;
    int kind;
};

struct said_key {
    const char *json, *name;
    int kinds;                      /* exchanges that it is for */
    bool wide, shared;              /* links that it is for */
};

/* Does all this go together? If not a sentence has to name what does not. */
static bool expect_used_or_named(const struct said_link *link, const struct said_exchange *exchange,
                                 const struct said_key *key)
{
    bool meets = exchange->kind == GOSSIP || link->shared == (exchange->kind == BROADCAST);
    bool good = meets && (key->kinds & exchange->kind) != 0 &&
                (link->shared ? key->shared : key->wide);
    char json[320], named[32];
    struct uw_node_file f;
    struct uw_error err = {.text = ""};
    int bytes = snprintf(json, sizeof json, LINE("%s", ", \"exchange\": \"%s\", %s"), link->json,
                         exchange->name, key->json);
    snprintf(named, sizeof named, "\"%s", key->name);
    int rc = uw_node_config_parse(&f, "f", json, (size_t)bytes, &err);
    bool named_one = strstr(err.text, named) != NULL ||
                     (!meets && strstr(err.text, "\"exchange\"") != NULL);
    if (rc != (good ? UW_OK : UW_ERR_INVALID) || (!good && !named_one)) {
        fail_msg("%s: %s", json, rc == UW_OK ? "taken" : err.text);
    }
    uw_node_config_deinit(&f);
    return good;
}

/* Nothing that is asked for is left out silently. */
static void test_config_each_key_is_used_or_refused_by_its_name(void **state)
{
    (void)state;
    static const struct said_link links[] = {
        {"\"udp\"", false}, {"\"tcp\"", false}, {"\"mpi\"", false},
        {"{\"serial\": \"tty\"}", false}, {"{" GROUP ", \"address\": 3}", true},
        {"{\"bus\": \"tty\", \"address\": 3}", true}};
    static const struct said_exchange exchanges[] = {
        {"gossip", GOSSIP}, {"broadcast", BROADCAST}, {"allreduce", EXACT},
        {"hierarchical", EXACT}, {"auto", EXACT}};
    static const struct said_key keys[] = {
        {"\"seed\": 2", "seed", GOSSIP | BROADCAST | EXACT, true, true},
        {"\"slices\": 2", "slices", GOSSIP, true, true},
        {"\"pull_peers\": 2", "pull_peers", GOSSIP, true, true},
        {"\"slices\": 4, \"pull_peers\": 8", "slices", GOSSIP, true, true},
        {"\"slices\": 5, \"pull_peers\": 8", "slices", 0, true, true},
        {"\"pull_peers\": 2, \"peer_schedule\": \"matching\"", "pull_peers", 0, true, true},
        {"\"code\": true", "code", GOSSIP, false, true},
        {"\"sleep\": {\"period\": 9, \"awake\": 1}", "sleep", GOSSIP | BROADCAST, true, true},
        {"\"period\": \"auto\"", "period", GOSSIP | BROADCAST, true, true},
        {"\"period\": 5, \"share\": 0.2", "share", 0, true, true},
        {"\"shuffle\": 0.1", "shuffle", GOSSIP | EXACT, true, false},
        {"\"algorithm\": \"ring\"", "algorithm", GOSSIP | EXACT, true, false}};
    uint32_t good_n = 0;
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        for (size_t k = 0; k < sizeof exchanges / sizeof exchanges[0]; k++) {
            for (size_t j = 0; j < sizeof keys / sizeof keys[0]; j++) {
                good_n += expect_used_or_named(&links[i], &exchanges[k], &keys[j]);
            }
        }
    }
    assert_int_equal(good_n, 4u * (8u + 3u * 3u) + 2u * (7u + 3u));
}

static void test_config_knows_every_momentum_rule(void **state)
{
    (void)state;
    char words[] = UW_MOMENTUM_RULES;
    size_t words_n = 0;
    for (char *word = strtok(words, "|"); word != NULL; word = strtok(NULL, "|")) {
        assert_non_null(uw_mix_find(word));
        words_n++;
    }
    for (size_t i = 0; i < words_n; i++) {
        assert_non_null(uw_mix_rules[i]);
    }
    assert_null(uw_mix_rules[words_n]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_of_a_radio_or_a_bus_has_an_address_and_is_checked),
        cmocka_unit_test(test_config_of_a_serial_line_is_an_object_and_is_checked),
        cmocka_unit_test(test_config_of_sleep_and_period_names_the_key_and_its_line),
        cmocka_unit_test(test_config_without_consensus_seconds_goes_on_while_parameters_come),
        cmocka_unit_test(test_config_each_key_is_used_or_refused_by_its_name),
        cmocka_unit_test(test_config_knows_every_momentum_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
