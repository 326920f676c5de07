/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a stream of samples, from any local sender: numbers stay within their array, labels
 * within their range. */
#include "fuzz.h"

#include "stream_lines.h"

#include "uwasa/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_N 3u

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const char *const lines[] = {
        "1,-2.5,3e1,4", "1;2;3;0", " 1 2\t3 65535", "{\"x\": [1, 2, 3], \"label\": 3}",
        "{\"label\":0,\"x\":[.5,-1,2]}", "a,b,c,label", "1,2,3", "{\"x\": [1, 2, 3]}"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        uw_fuzz_add(corpus, lines[i], strlen(lines[i]));
    }
}

static int try_one(const uint8_t *input, size_t bytes)
{
    int outcome = 0;
    char *text = malloc(bytes + 1u);
    float *x = malloc(SAMPLE_N * sizeof *x);
    memcpy(text, input, bytes);
    text[bytes] = '\0';
    for (int labelled = 0; labelled < 2; labelled++) {
        uint32_t label = UINT32_MAX, n = uw_stream_count(text);
        struct uw_error err = {.text = ""};
        int rc = uw_stream_read_line(text, labelled != 0, SAMPLE_N, x, &label, &err);
        bool good = rc == UW_OK ? label <= 65535 && isfinite(x[0]) && isfinite(x[1]) &&
                                      isfinite(x[2])
                                : rc == UW_ERR_CORRUPT && err.text[0] != '\0';
        if (!good) {
            outcome = -1;
            break;
        }
        outcome = outcome * 64 + (int)(n < 7 ? n : 7) * 2 + (rc == UW_OK);
    }
    free(text);
    free(x);
    return outcome;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"stream", add_inputs, try_one, 256}, argc, argv);
}
