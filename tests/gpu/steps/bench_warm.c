/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_warm - what uwasa bench train times has been recorded before
 *
 * Steps with the one and with the other minibatch's place are graphs of their own: all of them are
 * recorded, of training and of testing, and longer measurements record none. */
#include "bench/bench_train.h"

#include "control.h"

static uint64_t recorded(uint32_t windows)
{
    const struct uw_bench_train bench = {.work = "mlp:2", .backend = {"cuda", UW_BACKEND_CUDA},
                                         .windows = windows, .seconds = 1e-9, .json = true};
    struct uw_error err = {.text = ""};
    uint64_t before = uw_emulated_recordings();
    int rc = uw_bench_train(stdout, &bench, &err);
    if (rc < 0) {
        printf("%s\n", err.text);
    }
    return rc < 0 ? 0 : uw_emulated_recordings() - before;
}

int main(void)
{
    uint64_t few = recorded(1), more = recorded(9);
    printf("recordings %llu, %llu\n", (unsigned long long)few, (unsigned long long)more);
    return !(few == 4 && more == few);
}
