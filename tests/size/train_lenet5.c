/* SPDX-License-Identifier: Apache-2.0
 *
 * train_lenet5 - lenet5 learns ten made-up digits on a board: batch 1, plan mode immediate, plain
 * SGD, everything in one sealed arena. No network, no checkpoint: what tools/size_report counts as
 * the runtime. Prints the plan, and exits 1 when it did not learn or memory was not as measured. */
#include "size_models.h"

#include "uwasa/rng.h"

#include <stdio.h>

#define STEPS 150u
#define LAYERS_N 12u
#define DIGITS 10u

static _Alignas(16) unsigned char memory[280000];
static _Alignas(16) unsigned char workspace[UW_MODEL_WORKSPACE_BYTES(LAYERS_N)];
static struct uw_model model;
static uint32_t pauses;

static void count_pause(void *arg)
{
    (void)arg;
    pauses++;
}

/* A digit is noise of its own. */
static void make_digit(uint32_t digit, float *x, uint32_t n)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, digit);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = uw_rng_uniform(&rng);
    }
}

static int fail(const struct uw_error *err)
{
    puts(err->text);
    return 1;
}

static void print_need(const struct uw_model_need *need)
{
    printf("parameters %lu optimizer %lu activations %lu scratch %lu input %lu graph %lu "
           "total %lu\n",
           (unsigned long)need->parameters_bytes, (unsigned long)need->optimizer_bytes,
           (unsigned long)need->activations_bytes, (unsigned long)need->scratch_bytes,
           (unsigned long)need->input_bytes, (unsigned long)need->graph_bytes,
           (unsigned long)need->total_bytes);
}

int main(void)
{
    const struct uw_model_config config = {.def = &lenet5_def, .kernels = &size_models_kernels,
                                           .batch_n = 1, .optimizer = {.lr = 0.01f}, .input = true,
                                           .workspace = workspace,
                                           .workspace_bytes = sizeof workspace};
    struct uw_model_need need;
    struct uw_arena arena;
    struct uw_error err;
    uint32_t right = 0;

    uw_arena_init(&arena, memory, sizeof memory);
    if (uw_model_measure(&config, &need, &err) < 0 ||
        uw_model_bind(&model, &config, &arena, &err) < 0) {
        return fail(&err);
    }
    uw_arena_seal(&arena);
    print_need(&need);
    uw_model_init_weights(&model, 1);
    model.between = count_pause;
    for (uint32_t step = 0; step < STEPS; step++) {
        struct uw_step_result r;
        make_digit(step % DIGITS, model.input, model.input_n);
        model.label[0] = step % DIGITS;
        if (uw_model_train_step(&model, &(struct uw_minibatch){.n = 1}, &r, &err) < 0) {
            return fail(&err);
        }
        right += step >= STEPS - DIGITS ? r.correct_n : 0;
    }
    printf("right %lu of %u, %lu pauses\n", (unsigned long)right, DIGITS, (unsigned long)pauses);
    return right >= 8 && arena.used_bytes == need.total_bytes && pauses > STEPS * LAYERS_N ? 0 : 1;
}
