/* SPDX-License-Identifier: Apache-2.0
 *
 * exact_weights [--print] - train every network of networks.c for 100 steps in exact mode, on
 * every exact table, with one thread and with three in the least memory, and compare the SHA-256
 * of the weights with those in expected.h, which hold on every processor. Runs without an operating
 * system.
 *
 * When the reference kernels change on purpose:  exact_weights --print > tests/exact/expected.h */
#include "networks.h"
#include "sha256.h"

#include "expected.h"

#include "uwasa/backends.h"
#include "uwasa/exact.h"

#include <stdio.h>
#include <string.h>

#define STEPS 100u

static _Alignas(16) unsigned char memory[768 * 1024];

/* Threads that are not there: tasks in an odd order, as any of them. */
static void run_scrambled(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n)
{
    for (uint32_t i = tasks_n; i-- > 0;) {
        fn(arg, i, (i * 7u + 1u) % w->threads);
    }
}

static const struct uw_workers_ops scrambled = {.name = "scrambled", .run = run_scrambled};

static void fill(const struct exact_network *n, struct uw_model *m, struct uw_rng *rng)
{
    for (size_t i = 0; i < (size_t)n->batch_n * m->input_n; i++) {
        m->input[i] = n->vocabulary != 0 ? (float)uw_rng_below(rng, n->vocabulary)
                                         : uw_rng_normal(rng);
    }
    for (uint32_t i = 0; i < n->batch_n; i++) {
        m->label[i] = uw_rng_below(rng, m->classes);
    }
}

/* Weights, statistics and loss, least significant byte first. */
static void hash(const struct uw_model *m, double loss, char text[65])
{
    struct uw_sha256 s;
    uw_sha256_begin(&s);
    for (uint32_t i = 0; i <= m->params.size_n; i++) {
        float value = i < m->params.size_n ? m->params.x[i] : (float)loss;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        const uint8_t byte[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
                                 (uint8_t)(bits >> 24)};
        uw_sha256_add(&s, byte, sizeof byte);
    }
    uw_sha256_end(&s, text);
}

static int train(const struct exact_network *n, const struct uw_kernels *k, uint32_t threads,
                 char text[65])
{
    struct uw_workers workers = {.ops = &scrambled, .threads = threads};
    struct uw_model_config config = {
        .def = &n->def, .kernels = k, .workers = threads > 1 ? &workers : NULL,
        .batch_n = n->batch_n, .micro_n = n->micro_n, .mode = n->mode, .optimizer = n->optimizer,
        .input = true};
    struct uw_step_result result = {0};
    struct uw_error err = {.text = ""};
    struct uw_model m;
    struct uw_rng rng;
    memset(memory, 0xff, sizeof memory);            /* NaN */
    int rc = uw_model_open(&m, &config, memory, sizeof memory, 1, &err);
    for (size_t least = 4096; threads > 1 && least < sizeof memory; least += 1024) {
        config.budget_bytes = least;                /* activations are computed again */
        rc = uw_model_open(&m, &config, memory, sizeof memory, 1, &err);
        least = rc == UW_OK ? sizeof memory : least;
    }
    uw_rng_seed(&rng, 2);
    for (uint32_t step = 0; step < STEPS && rc == UW_OK; step++) {
        const struct uw_schedule_at at = {.step = step, .progress = (double)step / STEPS};
        fill(n, &m, &rng);
        m.optimizer.lr = uw_schedule_lr(&n->schedule, (double)n->optimizer.lr, &at);
        rc = uw_model_train_step(&m, &(struct uw_minibatch){.n = n->batch_n}, &result, &err);
    }
    if (rc < 0) {
        printf("%s, kernels %s: %s\n", n->def.name, k->name, err.text);
        return rc;
    }
    hash(&m, result.loss, text);
    return UW_OK;
}

/* Returns the number of mistakes. */
static int check(const struct exact_network *n, const char *want)
{
    int bad = 0;
    for (uint32_t i = 0; uw_kernels_at(i) != NULL; i++) {
        const struct uw_kernels *k = uw_kernels_at(i);
        for (uint32_t threads = 1; k->exact && threads <= 3; threads += 2) {
            char text[65] = "";
            bool good = train(n, k, threads, text) == UW_OK && strcmp(text, want) == 0;
            printf("%-12s %-6s %u  %s  %s\n", n->def.name, k->name, (unsigned)threads, text,
                   good ? "ok" : "DIFFERS");
            bad += good ? 0 : 1;
        }
    }
    return bad;
}

static int print(void)
{
    printf("/* SPDX-License-Identifier: Apache-2.0\n *\n * Written by exact_weights --print. */\n"
           "static const char *const expected[] = {\n");
    for (uint32_t i = 0; i < exact_networks_n; i++) {
        char text[65];
        if (train(&exact_networks[i], &uw_kernels_ref, 1, text) < 0) {
            return 1;
        }
        printf("    \"%s\", /* %s */\n", text, exact_networks[i].def.name);
    }
    printf("};\n");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--print") == 0) {
        return print();
    }
    if (uw_exact_check() < 0) {
        printf("this build or processor does not round as IEEE 754 says\n");
        return 1;
    }
    int bad = sizeof expected / sizeof expected[0] == exact_networks_n ? 0 : 1;
    for (uint32_t i = 0; i < exact_networks_n && bad == 0; i++) {
        bad += check(&exact_networks[i], expected[i]);
    }
    printf(bad == 0 ? "exact: the expected bits\n" : "NOT the expected bits\n");
    return bad != 0;
}
