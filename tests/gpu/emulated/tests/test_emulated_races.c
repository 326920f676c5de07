/* SPDX-License-Identifier: Apache-2.0
 *
 * Races are found where there is one, in whatever order threads take turns, and nowhere else. */
#include "fixture.h"

#define N 128

static enum launch_between between;
static int variant;
static float *memory;

static void neighbours(void)
{
    (void)launch_neighbours(NULL, between, variant, memory);
    (void)cudaDeviceSynchronize();
}

static void last_block(void)
{
    (void)launch_last_block(NULL, between, (unsigned *)(void *)memory, memory + 1, memory + 3);
    (void)cudaDeviceSynchronize();
}

static void raise_flag(void)
{
    (void)launch_raise(NULL, variant, (unsigned *)(void *)memory);
    (void)cudaDeviceSynchronize();
}

/* found: the words of the race; NULL: it goes through */
static void check(void (*launch)(void), const char *found)
{
    static const char *const settings[] = {"races,seed=0", "races,seed=1", "races,seed=2",
                                           "races,seed=3"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        void *at = NULL;
        uw_emulated_settings(settings[i]);
        OK(cudaMallocManaged(&at, N * sizeof(float), cudaMemAttachGlobal));
        memset(at, 0, N * sizeof(float));
        memory = at;
        if (found == NULL) {
            launch();
        } else {
            assert_child_says(launch, found);
        }
        OK(cudaFree(at));
    }
    uw_emulated_settings("");
}

static void test_what_orders_neighbours(void **state)
{
    (void)state;
    static const struct {
        enum launch_between between;
        bool orders;
    } cases[] = {{BETWEEN_BARRIER, true}, {BETWEEN_WARP_SYNC, true}, {BETWEEN_SHUFFLE, false},
                 {BETWEEN_NOTHING, false}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        between = cases[i / 2].between;
        variant = i % 2 == 1;
        check(neighbours, cases[i / 2].orders ? NULL : "emulated CUDA: a race at ");
    }
}

static void test_what_orders_blocks(void **state)
{
    (void)state;
    between = BETWEEN_FENCES;
    check(last_block, NULL);
    between = BETWEEN_TICKET; /* without fences */
    check(last_block, "emulated CUDA: a race at ");
    between = BETWEEN_NOTHING;
    check(last_block, "nothing orders the two");
}

static void test_equal_values_race_too_but_not_as_volatile(void **state)
{
    (void)state;
    variant = 0;
    check(raise_flag, "kernels.cu:");
    variant = 1;
    check(raise_flag, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_orders_neighbours),
        cmocka_unit_test(test_what_orders_blocks),
        cmocka_unit_test(test_equal_values_race_too_but_not_as_volatile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
