/* SPDX-License-Identifier: Apache-2.0
 *
 * A Zephyr device that keeps learning: the main thread trains on built-in digits; a thread of
 * higher priority serves its parameters and pulls its peers' over UDP. boards/zephyr/README.md
 * describes how to build and run it. */
#include "zephyr_node.h"

#include "board_models.h"

#include "uwasa/mix.h"
#include "uwasa/node_parts.h"
#include "uwasa/zephyr.h"

#include <stdio.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/net/socket.h>

/* Its name until Zephyr 3.4 is the second one. */
#if __has_include(<zephyr/random/random.h>)
#include <zephyr/random/random.h>
#else
#include <zephyr/random/rand32.h>
#endif

#define MEMBERS 8u
#define STATIONS 16u
#define WINDOW_BYTES (32u * 1024u)
#define STATUS_US 10000000u
#define WAIT_MAX_US 20000u
#define SETTLE_US 10000000u
#define NETWORK_PRIORITY 1

static struct uw_zephyr_node app;
static uint8_t memory[CONFIG_UWASA_NODE_ARENA_KB * 1024u] __aligned(UW_ARENA_ALIGN);
static struct k_thread network_thread;
static K_THREAD_STACK_DEFINE(network_stack, CONFIG_UWASA_NODE_STACK);

static int take(struct uw_zephyr_node *n, const char *what, size_t bytes, void **out)
{
    int rc = uw_arena_take(&n->arena, bytes, out);
    return rc < 0 ? uw_error_set(&n->err, rc, "%s: %u bytes do not fit CONFIG_UWASA_NODE_ARENA_KB",
                                 what, (unsigned)bytes)
                  : UW_OK;
}

static const struct uw_mix_rule *rule_of(const struct uw_settings *s)
{
    return s->rule == UW_SET_RULE_QG ? &uw_mix_qg : &uw_mix_none;
}

static int open_model(struct uw_zephyr_node *n)
{
    static uint8_t workspace[UW_MODEL_WORKSPACE_BYTES(16)] __aligned(UW_ARENA_ALIGN);
    const struct uw_settings *s = &n->settings;
    const struct uw_mix_rule *rule = rule_of(s);
    const struct uw_model_config config = {
        .def = s->model == UW_SET_MODEL_LENET5 ? &lenet5_def : &mlp_def,
        .kernels = &board_models_kernels, .batch_n = s->batch,
        .optimizer = {.lr = s->lr, .momentum = rule->frozen ? 0.9f : 0.0f,
                      .frozen = rule->frozen},
        .mixing_velocity = rule->velocity, .snapshot = true, .input = true,
        .workspace = workspace, .workspace_bytes = sizeof workspace};
    int rc = uw_model_bind(&n->model, &config, &n->arena, &n->err);
    if (rc == UW_OK) {
        uw_model_init_weights(&n->model, s->seed);
    }
    n->model_bytes = n->arena.used_bytes;
    return rc;
}

static int open_data(struct uw_zephyr_node *n)
{
    const struct uw_settings *s = &n->settings;
    const struct uw_digits_config own = {.seed = s->seed,
                                         .classes_mask = uw_settings_classes(s->classes)};
    const struct uw_digits_config test = {.seed = 1, .test = true, .samples_n = s->eval_samples};
    int rc = uw_digits_init(&n->digits, &own);
    rc = rc < 0 ? rc : uw_digits_init(&n->test, &test);
    const struct uw_loader_config loader = {.dataset = &n->digits.base, .batch_n = s->batch,
                                            .seed = s->seed};
    rc = rc < 0 ? rc : uw_loader_init(&n->loader, &loader);
    n->accuracy = -1.0f;
    return rc < 0 ? uw_error_set(&n->err, rc, "data: %s", uw_status_text(rc)) : UW_OK;
}

static int open_secure(struct uw_zephyr_node *n)
{
#ifdef CONFIG_UWASA_SECURE
    struct uw_secure_dtls_config c = {
        .lower = &n->zsock.link, .identity = n->settings.run, .sessions_n = MEMBERS,
        .handshakes_n = 2, .entropy = uw_zephyr_entropy, .event = uw_zephyr_report_peer,
        .user = n};
    c.memory_bytes = uw_secure_dtls_bytes(&c);
    int rc = take(n, "secure channel", c.memory_bytes, &c.memory);
    if (rc == UW_OK) {
        (void)uw_key_parse(n->settings.key, c.key);
        rc = uw_secure_dtls_init(&n->secure, &c);
        uw_key_wipe(c.key, sizeof c.key);
        n->link = &n->secure.link;
    }
    return rc;
#else
    return uw_error_set(&n->err, UW_ERR_UNSUPPORTED, "key: needs CONFIG_UWASA_SECURE");
#endif
}

static int open_link(struct uw_zephyr_node *n)
{
    char bind[8];
    snprintf(bind, sizeof bind, ":%u", (unsigned)CONFIG_UWASA_NODE_PORT);
    struct uw_link_zsock_config c = {.bind = bind, .stations_n = STATIONS,
                                     .burst_bytes = CONFIG_UWASA_NODE_BURST_BYTES,
                                     .burst_n = CONFIG_UWASA_NODE_BURST_MESSAGES};
    c.memory_bytes = uw_link_zsock_bytes(&c);
    int rc = take(n, "link", c.memory_bytes, &c.memory);
    rc = rc < 0 ? rc : uw_link_zsock_init(&n->zsock, &c, &n->err);
    n->link = &n->zsock.link;
    return rc < 0 || n->settings.key[0] == '\0' ? rc : open_secure(n);
}

/* Starts are not counted here. A returning node learns its last incarnation from its peers and uses
 * a higher one, so a random number with room above is enough. */
static uint32_t incarnation(void)
{
    return sys_rand32_get() / 2u + 1u;
}

static int open_node(struct uw_zephyr_node *n)
{
    static const char *seed[UW_SETTINGS_SEEDS_MAX];
    static const struct uw_node_parts parts = {.answers = &uw_node_answers,
                                               .sentences = &uw_node_sentences};
    struct uw_settings *s = &n->settings;
    const struct uw_node_config c = {
        .name = s->name, .run = s->run, .address = s->advertise, .seeds = seed,
        .seeds_n = uw_settings_seeds(s->seeds, seed), .incarnation = incarnation(), .link = n->link,
        .parts = &parts,
        .params = &n->model.params, .snapshot = &n->model.snapshot,
        .velocity = n->model.velocity, .newcomer = true, .rule = rule_of(s),
        .period_steps = s->period, .seed = s->seed, .window_bytes = WINDOW_BYTES,
        .members_max = MEMBERS, .on_event = uw_zephyr_report_event, .event_arg = n};
    struct uw_node_fault fault;
    if (uw_node_check(&c, &fault) < 0) {
        bool advertise = fault.field == offsetof(struct uw_node_config, address);
        return uw_error_set(&n->err, UW_ERR_INVALID, "CONFIG_UWASA_NODE_SETTINGS: %s %s",
                            advertise ? "advertise" : fault.name, fault.sentence);
    }
    return uw_node_bind(&n->node, &c, &n->arena, &n->err);
}

/* Refuse settings of other boards that this program does not support. */
static int refuse_others(struct uw_zephyr_node *n)
{
    static const char *const known[] = {"name", "run", "key", "advertise", "seeds", "classes",
                                         "model", "rule", "batch", "period", "steps", "seconds",
                                         "seed", "consensus_rounds", "eval_seconds",
                                         "eval_samples", "lr"};
    static char set[UW_SETTINGS_TEXT_BYTES], usual[UW_SETTINGS_TEXT_BYTES];
    struct uw_settings none;
    uw_settings_init(&none);
    for (uint32_t i = 0; uw_settings_format(&none, i, usual, sizeof usual) >= 0; i++) {
        (void)uw_settings_format(&n->settings, i, set, sizeof set);
        size_t length = strcspn(set, "=");
        bool other = strcmp(set, usual) != 0;
        for (size_t k = 0; other && k < sizeof known / sizeof known[0]; k++) {
            other = strlen(known[k]) != length || memcmp(known[k], set, length) != 0;
        }
        if (other) {
            return uw_error_set(&n->err, UW_ERR_UNSUPPORTED, "%s: not on Zephyr", set);
        }
    }
    return UW_OK;
}

static int open_all(struct uw_zephyr_node *n)
{
    uw_arena_init(&n->arena, memory, sizeof memory);
    uw_settings_init(&n->settings);
    int rc = uw_settings_read(&n->settings, CONFIG_UWASA_NODE_SETTINGS, &n->err);
    rc = rc < 0 ? rc : refuse_others(n);
    rc = rc < 0 ? rc : open_model(n);
    rc = rc < 0 ? rc : open_data(n);
    rc = rc < 0 ? rc : open_link(n);
    rc = rc < 0 ? rc : open_node(n);
    n->network_bytes = n->arena.used_bytes - n->model_bytes;
    uw_arena_seal(&n->arena);
    return rc;
}

/* The only place that waits for the network. */
static void run_network(void *p1, void *p2, void *p3)
{
    struct uw_zephyr_node *n = p1;
    uint64_t status_us = uw_zephyr_now_us() + STATUS_US;
    (void)p2;
    (void)p3;
    for (;;) {
        uint64_t now_us = uw_zephyr_now_us();
        uint64_t due_us = uw_node_step(&n->node, now_us);
        if (now_us >= status_us) {
            uw_zephyr_report_status(n, now_us);
            status_us = now_us + STATUS_US;
        }
        uint64_t wait_us = due_us > now_us ? due_us - now_us : 0;
        wait_us = wait_us < WAIT_MAX_US ? wait_us : WAIT_MAX_US;
        struct zsock_pollfd fd = {.fd = n->link->fd, .events = ZSOCK_POLLIN};
        (void)zsock_poll(&fd, 1, (int)((wait_us + 999u) / 1000u));
    }
}

static int exchange(struct uw_zephyr_node *n, float lr)
{
    const struct uw_node_progress p = {.step = n->step, .lr = lr, .loss = (float)n->loss,
                                       .accuracy = n->accuracy};
    int rc = uw_node_after_step(&n->node, &p);
    return rc < 0 ? uw_error_set(&n->err, rc, "exchange: %s", uw_status_text(rc)) : rc;
}

static int test(struct uw_zephyr_node *n)
{
    struct uw_model *m = &n->model;
    uint32_t samples_n = n->test.base.samples_n, correct = 0;
    double loss = 0.0;
    for (uint32_t i = 0, k; i < samples_n; i += k) {
        for (k = 0; k < n->settings.batch && i + k < samples_n; k++) {
            (void)n->test.base.ops->read(&n->test.base, i + k, m->input + k * m->input_n,
                                         &m->label[k]);
        }
        int rc = uw_model_evaluate(m, &(struct uw_minibatch){.n = k}, &loss, &correct);
        if (rc < 0) {
            return uw_error_set(&n->err, rc, "test: %s", uw_status_text(rc));
        }
    }
    n->accuracy = (float)correct / (float)samples_n;
    return UW_OK;
}

static int train_one(struct uw_zephyr_node *n)
{
    struct uw_step_result result;
    int samples = uw_loader_next(&n->loader, n->model.input, n->model.label, NULL);
    if (samples < 0) {
        return uw_error_set(&n->err, samples, "data: %s", uw_status_text(samples));
    }
    int rc = uw_model_train_step(&n->model, &(struct uw_minibatch){.n = (uint32_t)samples},
                                 &result, &n->err);
    if (rc < 0) {
        return rc;
    }
    n->loss = n->step == 0 ? result.loss : 0.95 * n->loss + 0.05 * result.loss;
    n->step++;
    if (CONFIG_UWASA_NODE_REST_MS > 0) {
        k_msleep(CONFIG_UWASA_NODE_REST_MS);
    }
    return exchange(n, n->settings.lr);
}

static bool must_wait(int rc)
{
    return rc >= 0 && (rc & (UW_NODE_ADOPTING | UW_NODE_AVERAGING)) != 0;
}

static int train(struct uw_zephyr_node *n)
{
    const struct uw_settings *s = &n->settings;
    uint64_t start_us = uw_zephyr_now_us(), tested_us = start_us;
    int rc = exchange(n, 0.0f);
    while (rc >= 0 && (s->steps == 0 || n->step < s->steps)) {
        uint64_t now_us = uw_zephyr_now_us();
        if (s->seconds != 0 && now_us - start_us >= (uint64_t)s->seconds * 1000000u) {
            break;
        }
        if (must_wait(rc)) {
            k_msleep(1);
            rc = exchange(n, 0.0f);
            continue;
        }
        rc = train_one(n);
        if (rc >= 0 && !must_wait(rc) && s->eval_seconds != 0 &&
            now_us - tested_us >= (uint64_t)s->eval_seconds * 1000000u) {
            int tested = test(n);
            rc = tested < 0 ? tested : rc;
            uw_zephyr_report_test(n);
            tested_us = now_us;
        }
    }
    return rc < 0 ? rc : UW_OK;
}

/* After training: rounds without steps make the models agree; a node without peers skips them. */
static int settle(struct uw_zephyr_node *n)
{
    int rc = UW_OK;
    uint64_t end_us = uw_zephyr_now_us() + SETTLE_US;
    uint32_t left = n->settings.consensus_rounds;
    while (rc >= 0 && left > 0 && (must_wait(rc) || uw_zephyr_now_us() < end_us)) {
        k_msleep(1);
        rc = exchange(n, 0.0f);
        left -= rc >= 0 && (rc & UW_NODE_ROUND) != 0;
    }
    return rc < 0 ? rc : test(n);
}

int main(void)
{
    struct uw_zephyr_node *n = &app;
    int rc = open_all(n);
    if (rc == UW_OK) {
        uw_zephyr_report_start(n);
        k_thread_create(&network_thread, network_stack, K_THREAD_STACK_SIZEOF(network_stack),
                        run_network, n, NULL, NULL, K_PRIO_PREEMPT(NETWORK_PRIORITY), 0,
                        K_NO_WAIT);
        rc = train(n);
        rc = rc < 0 ? rc : settle(n);
    }
    if (rc < 0) {
        printk("%s\n", n->err.text);
        return 0;
    }
    uw_zephyr_report_done(n);
    return k_thread_join(&network_thread, K_FOREVER);
}
