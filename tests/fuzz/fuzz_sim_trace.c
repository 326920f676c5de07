/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces of who is away when, mutated. What is taken is in order and apart. */
#include "fuzz.h"

#include "uwasa/sim_scenario.h"

#include <stdlib.h>
#include <string.h>

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const char text[] = "# node,from,to\n0,1,2\n1, 0.5 ,1000\r\n\n0,2,3.25,1\n2,0,4,0";
    uw_fuzz_add(corpus, text, sizeof text - 1u);
    uw_fuzz_add(corpus, "3,1,2,1\n", 8);
}

static int try_one(const uint8_t *input, size_t bytes)
{
    struct uw_sim_away *away;
    uint32_t n;
    struct uw_error err = {.text = ""};
    int rc = uw_sim_trace_read("t.csv", (const char *)input, bytes, &away, &n, &err);
    bool good = rc == UW_OK ? (away != NULL) == (n != 0)
                            : away == NULL && strncmp(err.text, "t.csv:", 6) == 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct uw_sim_away *a = &away[i], *b = i != 0 ? &away[i - 1u] : NULL;
        good = good && a->absence.from_us < a->absence.to_us &&
               (b == NULL || b->node < a->node ||
                (b->node == a->node && b->absence.to_us <= a->absence.from_us));
    }
    free(away);
    return good ? -rc : -1;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"sim_trace", add_inputs, try_one, 0}, argc, argv);
}
