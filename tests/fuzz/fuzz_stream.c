/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a stream of samples, from any local sender: numbers stay within their array, labels
 * within their range. */
#include "fuzz.h"

#include "stream_lines.h"
#include "stream_names.h"

#include "uwasa/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_N 3u

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const char *const lines[] = {
        "1,-2.5,3e1,4", "1;2;3;0", " 1 2\t3 65535", "{\"x\": [1, 2, 3], \"label\": 3}",
        "{\"label\":0,\"x\":[.5,-1,2]}", "a,b,c,label", "1,2,3", "{\"x\": [1, 2, 3]}",
        "1,2,3,ok", "1 2 3 \"2\"", "b,label,c,a",
        "a;b;c;y;z", "{\"a\": 1, \"b\": 2, \"c\": true, \"label\": 0}",
        "{\"x\": [1, 2, 3], \"label\": \"ok\"}", "1,2,3,-2.5",
        "{\"x\": [1, null, 3], \"label\": [7, 8]}"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        uw_fuzz_add(corpus, lines[i], strlen(lines[i]));
    }
}

/* The text as a header, as a line below one, and as the names of a new model. */
static int try_names(const char *text, const struct uw_data_columns *names, float *x)
{
    static const struct uw_stream_wanted wanted = {SAMPLE_N, UW_STREAM_LABEL, 1, false,
                                                   false};
    static const struct uw_table_options said = {.label = NULL};
    static const char head[] = "label,c,b,a";
    struct uw_data_columns own = {.features_n = 0};
    struct uw_error err = {.text = ""};
    bool behind;
    uint32_t label;
    int outcome = 0;
    for (int i = 0; i < 2; i++) {
        struct uw_stream_order order;
        bool found = uw_stream_order_take(&order, i == 0 ? text : head, names, &wanted, &said,
                                          &behind, &err) == 1;
        const struct uw_stream_form form = {.sample_n = SAMPLE_N, .behind = UW_STREAM_LABEL,
                                            .names = names, .order = found ? &order : NULL};
        outcome = outcome * 2 + (uw_stream_read_line(text, &form, x, &label, &err) == UW_OK);
        uw_stream_order_close(&order);
    }
    outcome = outcome * 2 + (uw_stream_names_take(&own, text, &wanted, &said, &err) == 1);
    uw_data_columns_free(&own);
    return outcome;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    static char ok[] = "ok", two[] = "2", worn[] = "worn";
    static char *const named[] = {ok, worn}, *const numbered[] = {ok, two};
    static bool gap[SAMPLE_N];
    static const struct uw_stream_form forms[] = {
        {.sample_n = SAMPLE_N},
        {.sample_n = SAMPLE_N, .behind = UW_STREAM_LABEL},
        {.sample_n = SAMPLE_N, .behind = UW_STREAM_LABEL, .classes = named, .classes_n = 2},
        {.sample_n = SAMPLE_N, .behind = UW_STREAM_LABEL, .classes = numbered, .classes_n = 2},
        {.sample_n = SAMPLE_N, .behind = UW_STREAM_VALUE},
        {.sample_n = SAMPLE_N, .behind = UW_STREAM_VALUE, .behind_n = 2, .gap = gap}};
    static char a[] = "a", b[] = "b", c[] = "c", of_label[] = "label";
    static char *features[] = {a, b, c};
    static const struct uw_data_columns names = {.features_n = SAMPLE_N, .features = features,
                                                 .label = of_label};
    int outcome = 0;
    char *text = malloc(bytes + 1u);
    float *x = malloc((SAMPLE_N + 2u) * sizeof *x);
    memcpy(text, input, bytes);
    text[bytes] = '\0';
    uint32_t n = uw_stream_count(text, &forms[0]);
    outcome = (int)(n < 7 ? n : 7);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const struct uw_stream_form *f = &forms[i];
        uint32_t label = UINT32_MAX, most = f->classes != NULL ? f->classes_n - 1u : 65535;
        struct uw_error err = {.text = ""};
        x[SAMPLE_N] = 0.0f;
        int rc = uw_stream_read_line(text, f, x, &label, &err);
        bool good = rc == UW_OK ? label <= most && isfinite(x[0]) && isfinite(x[1]) &&
                                      isfinite(x[2]) && isfinite(x[3])
                                : rc == UW_ERR_CORRUPT && err.text[0] != '\0';
        if (!good) {
            outcome = -1;
            break;
        }
        outcome = outcome * 2 + (rc == UW_OK);
    }
    outcome = outcome < 0 ? outcome : outcome * 8 + try_names(text, &names, x);
    free(text);
    free(x);
    return outcome;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"stream", add_inputs, try_one, 256}, argc, argv);
}
