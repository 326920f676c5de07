/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "bench/bench_kernels.h"
#include "base/events.h"
#include "job/recipe.h"
#include "node/node_config.h"
#include "links/link_stack.h"
#include "base/progress.h"

#include "uwasa/hash.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static float rate(const char *text, uint64_t step, uint64_t epoch)
{
    struct uw_schedule s;
    assert_int_equal(uw_lr_parse(text, &s), UW_OK);
    return uw_schedule_lr(&s, 0.8, &(struct uw_schedule_at){step, epoch, (double)step / 100});
}

static void test_lr_each_schedule_gives_its_rate(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t step, epoch;
        double want;
    } cases[] = {
        {"constant", 7, 3, 0.8},           {"step:2:0.5", 9, 0, 0.8},
        {"step:2:0.5", 9, 1, 0.8},         {"step:2:0.5", 9, 2, 0.4},
        {"step:2:0.5", 9, 5, 0.2},         {"step:2:0.5", 9, UINT64_MAX, 0.0},
        {"step:10s:0.1", 9, 9, 0.8},       {"step:10s:0.1", 10, 0, 0.08},
        {"step:10s:0.1", 29, 0, 0.008},    {"multistep:2,4:0.5", 0, 1, 0.8},
        {"multistep:2,4:0.5", 0, 3, 0.4},  {"multistep:2,4:0.5", 0, 4, 0.2},
        {"multistep:50s,60s:0.1", 55, 9, 0.08},
        {"cosine", 0, 0, 0.8},             {"cosine", 50, 0, 0.4},
        {"cosine", 100, 0, 0.0},           {"cosine:0.5", 100, 0, 0.4},
        {"linear", 25, 0, 0.6},            {"linear:0.5", 100, 0, 0.4},
        {"warmup:10+constant", 0, 0, 0.08},    {"warmup:10+constant", 9, 0, 0.8},
        {"warmup:4+linear", 1, 0, 0.396},      {"warmup:4+step:10s:0.1", 12, 0, 0.08},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double got = (double)rate(cases[i].text, cases[i].step, cases[i].epoch);
        if (!(fabs(got - cases[i].want) < 1e-6)) {
            fail_msg("%s at step %u is %g", cases[i].text, (unsigned)cases[i].step, got);
        }
    }
}

static void test_lr_malformed_schedules_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "const", "step", "step:", "step:0:1", "step:1", "step:1:", "step:1:0", "step:1:2",
        "step:1:nan", "step:1:0.5x", "step:-1:0.5", "cosine:9", "cosine:", "linear:-1",
        "step:99999999999999999999:0.5", "multistep:1,2", "multistep:1,2s:0.5", "multistep::0.5",
        "multistep:1,2,3,4,5,6,7,8,9:0.5", "warmup:5", "warmup:0+cosine", "warmup:5+",
        "warmup:5+warmup:5+cosine", "step:1s:0.5s"};
    struct uw_schedule s;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (uw_lr_parse(bad[i], &s) != UW_ERR_INVALID) {
            fail_msg("%s was taken", bad[i]);
        }
    }
}

static void test_text_times_and_bytes_read_well(void **state)
{
    (void)state;
    char text[UW_TEXT_BYTES];
    assert_string_equal(uw_text_time(0.2, text), "0:00");
    assert_string_equal(uw_text_time(61.0, text), "1:01");
    assert_string_equal(uw_text_time(3723.0, text), "1:02:03");
    assert_string_equal(uw_text_time(-1.0, text), "?");
    assert_string_equal(uw_text_time((double)INFINITY, text), "?");
    assert_string_equal(uw_text_bytes(1023.0, text), "1023 B");
    assert_string_equal(uw_text_bytes(1536.0, text), "1.5 KiB");
    assert_string_equal(uw_text_bytes(3.0 * 1024 * 1024 * 1024, text), "3.0 GiB");
}

static void test_events_numbers_read_back_to_the_same_bits(void **state)
{
    (void)state;
    const double values[] = {0.1, 1.0 / 3.0, 2.302585092994046, 1e-300, 123456789012345.0};
    char path[] = "/tmp/uwasa-events-XXXXXX";
    char line[256];
    struct uw_events e;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(uw_events_open(&e, path, UW_EVENTS_NEW, NULL), UW_OK);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        cJSON *ev = uw_event("step");
        cJSON_AddNumberToObject(ev, "loss", values[i]);
        uw_events_put(&e, ev);
    }
    assert_int_equal(uw_events_close(&e, NULL), UW_OK);
    FILE *f = fdopen(fd, "r");
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_non_null(fgets(line, sizeof line, f));
        assert_memory_equal(line, "{\"event\":\"step\",\"loss\":", 23);
        assert_true(strtod(line + 23, NULL) == values[i]);
    }
    fclose(f);
    remove(path);
}

static void test_events_floats_are_short_and_read_back(void **state)
{
    (void)state;
    static const struct {
        float value;
        const char *text;
    } all[] = {{0.05f, "{\"x\":0.05}"}, {0.1f, "{\"x\":0.1}"}, {0.0f, "{\"x\":0}"},
               {16777217.0f, "{\"x\":16777216}"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        cJSON *o = cJSON_CreateObject();
        uw_event_float(o, "x", all[i].value);
        char *text = cJSON_PrintUnformatted(o);
        assert_string_equal(text, all[i].text);
        assert_true((float)cJSON_GetObjectItem(o, "x")->valuedouble == all[i].value);
        cJSON_free(text);
        cJSON_Delete(o);
    }
}

static void test_events_to_a_full_device_fail_at_close(void **state)
{
    (void)state;
    struct uw_events e;
    struct uw_error err = {.text = ""};
    if (uw_events_open(&e, "/dev/full", UW_EVENTS_NEW, &err) < 0) {
        skip();
    }
    uw_events_put(&e, uw_event("done"));
    assert_int_equal(uw_events_close(&e, &err), UW_ERR_IO);
    assert_non_null(strstr(err.text, "/dev/full"));
    assert_int_equal(uw_events_close(&e, &err), UW_OK);
}

static void test_node_config_set_overrides_the_file(void **state)
{
    (void)state;
    const char *text = "{\"name\": \"a\", \"run\": \"r\", \"key\": \"k\", \"model\": \"mlp\", "
                       "\"batch\": 4}";
    struct uw_node_file f;
    struct uw_error err = {.text = ""};
    char path[] = "/tmp/uwasa-config-XXXXXX";
    int fd = mkstemp(path);
    FILE *out = fdopen(fd, "w");
    fputs(text, out);
    fclose(out);
    const struct uw_opt_sets set = {2, {{"batch=9", "9", false},
                                          {"emulate.delay_ms", "1.5", true}}};
    assert_int_equal(uw_node_config_load(&f, path, &set, &err), UW_OK);
    assert_int_equal(f.o.batch, 9);
    assert_true(f.o.emulate_delay_ms == 1.5);
    assert_int_equal(f.o.exchange.period.n, 10);
    assert_true(uw_exchange_share(&f.o.exchange) == 0.0);
    assert_ptr_equal(f.o.exchange.rule, &uw_mix_qg);
    assert_ptr_equal(uw_exchange_peers(&f.o.exchange), &uw_peer_schedule_random);
    uw_node_config_deinit(&f);
    const struct uw_opt_sets adapts = {1, {{"period", "auto", true}}};
    assert_int_equal(uw_node_config_load(&f, path, &adapts, &err), UW_OK);
    assert_true(f.o.exchange.period.automatic);
    assert_true((float)uw_exchange_share(&f.o.exchange) == 0.1f);
    uw_node_config_deinit(&f);
    const struct uw_opt_sets half = {2, {{"period", "auto", true}, {"share=0.5", "0.5", false}}};
    assert_int_equal(uw_node_config_load(&f, path, &half, &err), UW_OK);
    assert_true(uw_exchange_share(&f.o.exchange) == 0.5);
    uw_node_config_deinit(&f);
    const struct uw_opt_sets wrong = {1, {{"name", "two words", true}}};
    assert_int_equal(uw_node_config_load(&f, path, &wrong, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "--name two words: \"name\" needs 1 to 31 printable"));
    uw_node_config_deinit(&f);
    remove(path);
}

static int read_graph(const char *text, struct uw_exchange *x, struct uw_error *err)
{
    char path[] = "/tmp/uwasa-graph-XXXXXX";
    FILE *out = fdopen(mkstemp(path), "w");
    fputs(text, out);
    fclose(out);
    *x = (struct uw_exchange){.graph_file = path};
    int rc = uw_exchange_read(x, err);
    remove(path);
    return rc;
}

static void test_graphs_are_read_from_files(void **state)
{
    static const char *const wrong[] = {"a\n", "a a\n", "a b 0.5 c\n", "a b 0\n", "a b 1\n",
                                        "a b x\n", "a b\nb a\n", "a b 0.6\na c 0.6\n", "",
                                        "# a b\n", "a b nan\n", "a b -0.5\n"};
    struct uw_exchange x;
    struct uw_error err = {.text = ""};
    (void)state;
    assert_int_equal(read_graph("# links\n\na b\n  b\tc 0.25 # weak\r\nc a", &x, &err), UW_OK);
    assert_int_equal(x.graph.edges_n, 3);
    assert_int_equal(x.graph.edges[1].id[0], uw_hash32_text("b"));
    assert_int_equal(x.graph.edges[1].id[1], uw_hash32_text("c"));
    assert_true(x.graph.edges[0].weight == 0.0f && x.graph.edges[1].weight == 0.25f);
    uw_exchange_close(&x);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(read_graph(wrong[i], &x, &err), UW_ERR_INVALID);
        assert_non_null(strstr(err.text, strchr(wrong[i], 'a') == wrong[i] ? "each link once"
                                                                            : "has no link"));
        uw_exchange_close(&x);
    }
    x = (struct uw_exchange){.graph_file = "/nowhere/graph"};
    assert_int_equal(uw_exchange_read(&x, &err), UW_ERR_IO);
}

static void test_addresses_written_wrongly_are_seen(void **state)
{
    (void)state;
    static const char *const good[] = {"10.0.0.9:4433", "gateway:1", "[::1]:65535",
                                       "[fe80::1%2]:1"};
    static const char *const bad[] = {"",     "10.0.0.9", "10.0.0.9:", "a:65536", "a:1x", "a:-1",
                                      "a: 1", "::1:4433", "[::1]",     "[::1]1",  "[::1:1"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(uw_stack_address_ok(good[i], false));
        assert_true(uw_stack_address_ok(good[i], true));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(uw_stack_address_ok(bad[i], false));
        assert_false(uw_stack_address_ok(bad[i], true));
    }
    assert_true(uw_stack_address_ok(":4433", true));
    assert_true(uw_stack_address_ok("10.0.0.9:0", true));
    assert_false(uw_stack_address_ok(":4433", false));
    assert_false(uw_stack_address_ok("10.0.0.9:0", false));
}

static void check_file(const char *path, const char *want)
{
    char got[512] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    (void)fread(got, 1, sizeof got - 1, f);
    fclose(f);
    assert_string_equal(got, want);
}

static void test_table_of_blocks_one_row_a_machine(void **state)
{
    (void)state;
    char path[] = "/tmp/uwasa-table-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    const char *text = "static const\n    {\"neon\", {1, 2, 0}, 8, 12},\n"
                       "    {NULL, {0, 0, 0}, 0, 0},\n};\n";
    assert_int_equal(write(fd, text, strlen(text)), (int)strlen(text));
    close(fd);
    struct uw_error err;
    struct uw_table_row row = {"avx2", {1, 2, 0}, 6, 16};
    assert_int_equal(uw_bench_table_put(path, &row, &err), UW_OK);
    row.columns = 32;
    assert_int_equal(uw_bench_table_put(path, &row, &err), UW_OK);
    check_file(path, "static const\n    {\"neon\", {1, 2, 0}, 8, 12},\n"
                     "    {\"avx2\", {1, 2, 0}, 6, 32},\n    {NULL, {0, 0, 0}, 0, 0},\n};\n");
    row.rows = 0;
    assert_int_equal(uw_bench_table_put(path, &row, &err), UW_OK);
    check_file(path, text);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(uw_bench_table_put(path, &row, &err), UW_ERR_CORRUPT);
    unlink(path);
    assert_int_equal(uw_bench_table_put(path, &row, &err), UW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, path));
}

/* Writing fails after byte n, for every n. */
static void test_table_of_blocks_is_whole_after_a_full_disk(void **state)
{
    (void)state;
    char path[] = "/tmp/uwasa-table-XXXXXX", part[sizeof path + 5];
    const char *text = "static const\n    {NULL, {0, 0, 0}, 0, 0},\n};\n";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (int)strlen(text));
    close(fd);
    snprintf(part, sizeof part, "%s.part", path);
    struct uw_table_row row = {"avx2", {1, 2, 0}, 6, 16};
    struct uw_error err;
    struct rlimit all, few;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    few = all;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    for (few.rlim_cur = 0; few.rlim_cur < 70; few.rlim_cur++) {
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
        int rc = uw_bench_table_put(path, &row, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
        assert_int_equal(rc, UW_ERR_IO);
        check_file(path, text);
        assert_int_not_equal(access(part, F_OK), 0);
    }
    assert_int_equal(uw_bench_table_put(path, &row, &err), UW_OK);
    signal(SIGXFSZ, before);
    unlink(path);
}

static void test_table_of_blocks_that_is_a_pipe_is_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/uwasa-table-XXXXXX";
    assert_non_null(mkdtemp(path));
    char pipe[sizeof path + 5];
    snprintf(pipe, sizeof pipe, "%s/pipe", path);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    struct uw_table_row row = {"avx2", {1, 2, 0}, 6, 16};
    struct uw_error err;
    alarm(20);          /* not to wait for a writer */
    assert_int_equal(uw_bench_table_put(pipe, &row, &err), UW_ERR_CORRUPT);
    alarm(0);
    unlink(pipe);
    rmdir(path);
}

/* Two stacks with TCP beside UDP: a message larger than any datagram, encrypted. */
static void test_stack_opens_tcp_beside_udp(void **state)
{
    (void)state;
    static struct uw_stack stacks[2];
    static uint8_t out[200000], in[200000];
    const uint8_t key[UW_KEY_BYTES] = {4};
    char address[UW_LINK_ADDRESS_BYTES];
    uint16_t to, from;
    struct uw_error err;
    memset(out, 0x5a, sizeof out);
    for (size_t i = 0; i < 2; i++) {
        const struct uw_stack_config c = {.carrier = UW_STACK_TCP, .listen = "127.0.0.1:0",
                                          .mtu_bytes = 262144, .run = "parts",
                                          .key = key, .peers_n = 2};
        assert_int_equal(uw_stack_open(&stacks[i], &c, &err), UW_OK);
        assert_true(stacks[i].top->secure);
        assert_true(uw_stack_bytes(&stacks[i]) > 2 * sizeof out);
    }
    assert_int_equal(uw_link_tcp_local(&stacks[1].tcp, address), UW_OK);
    assert_int_equal(uw_link_resolve(stacks[0].top, address, &to), UW_OK);
    int rc = UW_ERR_AGAIN, got = UW_ERR_AGAIN;
    for (int i = 0; i < 20000 && got == UW_ERR_AGAIN; i++) {
        for (size_t k = 0; k < 2; k++) {
            (void)uw_link_step(stacks[k].top, (uint64_t)i * 200u);
        }
        rc = rc == UW_OK ? rc : uw_link_send(stacks[0].top, to, out, sizeof out);
        (void)uw_link_recv(stacks[0].top, &from, in, 1);
        got = uw_link_recv(stacks[1].top, &from, in, sizeof in);
        usleep(100);
    }
    assert_int_equal(got, sizeof out);
    assert_memory_equal(in, out, sizeof out);
    for (size_t i = 0; i < 2; i++) {
        uw_stack_close(&stacks[i]);
        uw_stack_close(&stacks[i]);
        assert_null(stacks[i].top);
    }
}

/* One configuration, as the ranks of an MPI job read it. */
static void test_config_of_a_rank_has_its_numbers_and_files_of_its_own(void **state)
{
    (void)state;
    static const char json[] =
        "{\"name\": \"n\", \"run\": \"r\", \"model\": \"mlp\", \"link\": \"mpi\", "
        "\"shard\": \"{rank}/{size}\", \"checkpoint\": \"a.b/w.safetensors\", "
        "\"data\": \"{size}{rank}{rank}{x}\", \"events\": \"events\", \"members\": 2}";
    struct uw_node_file f;
    struct uw_error err = {.text = ""};
    assert_int_equal(uw_node_config_parse(&f, "f", json, sizeof json - 1, &err), UW_OK);
    assert_int_equal(uw_node_config_rank(&f, 12, 70, &err), UW_OK);
    assert_string_equal(f.o.name, "n12");
    assert_string_equal(f.o.checkpoint, "a.b/w.12.safetensors");
    assert_string_equal(f.o.events, "events.12");
    assert_string_equal(f.o.data, "701212{x}");
    assert_int_equal(f.o.shard_i, 12);
    assert_int_equal(f.o.shards_n, 70);
    assert_int_equal(f.o.seeds.n, UW_OPT_LIST_MAX);
    assert_string_equal(f.o.seeds.item[63], "63");
    assert_int_equal(f.o.members, 71);
    assert_int_equal(f.o.together, 70);
    assert_int_equal(f.o.cell_first, 70);
    uw_node_config_deinit(&f);
    uw_node_config_deinit(&f);

    static const char said[] =
        "{\"name\": \"{rank}of{size}\", \"run\": \"r\", \"model\": \"mlp\", "
        "\"link\": \"mpi\", \"together\": 0, \"checkpoint\": \"w\", \"events\": \"-\"}";
    assert_int_equal(uw_node_config_parse(&f, "f", said, sizeof said - 1, &err), UW_OK);
    assert_int_equal(uw_node_config_rank(&f, 0, 1, &err), UW_OK);
    assert_string_equal(f.o.name, "0of1");
    assert_string_equal(f.o.checkpoint, "w");       /* it is the only one */
    assert_string_equal(f.o.events, "-");
    assert_int_equal(f.o.together, 0);
    uw_node_config_deinit(&f);

    static const char wrong[] =
        "{\"name\": \"n\", \"run\": \"r\", \"model\": \"mlp\", \"link\": \"mpi\", "
        "\"shard\": \"{rank}/3\"}";
    assert_int_equal(uw_node_config_parse(&f, "f", wrong, sizeof wrong - 1, &err), UW_OK);
    assert_int_equal(uw_node_config_rank(&f, 3, 4, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "shard"));
    uw_node_config_deinit(&f);

    static const char many[] =
        "{\"name\": \"n\", \"run\": \"r\", \"model\": \"mlp\", \"link\": \"mpi\", "
        "\"exchange\": \"allreduce\"}";
    assert_int_equal(uw_node_config_parse(&f, "f", many, sizeof many - 1, &err), UW_OK);
    assert_int_equal(uw_node_config_rank(&f, 255, 256, &err), UW_OK);
    uw_node_config_deinit(&f);
    assert_int_equal(uw_node_config_parse(&f, "f", many, sizeof many - 1, &err), UW_OK);
    assert_int_equal(uw_node_config_rank(&f, 63, 257, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "257 ranks, and 256 at most"));
    uw_node_config_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stack_opens_tcp_beside_udp),
        cmocka_unit_test(test_config_of_a_rank_has_its_numbers_and_files_of_its_own),
        cmocka_unit_test(test_lr_each_schedule_gives_its_rate),
        cmocka_unit_test(test_lr_malformed_schedules_are_refused),
        cmocka_unit_test(test_text_times_and_bytes_read_well),
        cmocka_unit_test(test_events_numbers_read_back_to_the_same_bits),
        cmocka_unit_test(test_events_floats_are_short_and_read_back),
        cmocka_unit_test(test_events_to_a_full_device_fail_at_close),
        cmocka_unit_test(test_node_config_set_overrides_the_file),
        cmocka_unit_test(test_graphs_are_read_from_files),
        cmocka_unit_test(test_addresses_written_wrongly_are_seen),
        cmocka_unit_test(test_table_of_blocks_one_row_a_machine),
        cmocka_unit_test(test_table_of_blocks_is_whole_after_a_full_disk),
        cmocka_unit_test(test_table_of_blocks_that_is_a_pipe_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
