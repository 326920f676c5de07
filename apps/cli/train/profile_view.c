/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_view.h"

#include <stdio.h>

struct line {
    const char *name, *kind;
    double forward_ms, bw_input_ms, bw_param_ms;
    double gflops;              /* of all passes together; 0: no products */
    uint32_t parameters_n;
    double bytes;               /* of the parameters and one sample's input and output */
};

static double size_of(const uint32_t dim[UW_AXES_MAX], uint32_t rank)
{
    double n = 1.0;
    for (uint32_t i = 0; i < rank; i++) {
        n *= dim[i];
    }
    return n;
}

static struct line line_of(const struct uw_model *m, uint32_t row, uint64_t samples)
{
    const struct uw_profile_row *r = &m->profile->rows[row];
    struct line l = {.name = "(loss)", .kind = "",
                     .forward_ms = (double)r->forward_us / 1e3,
                     .bw_input_ms = (double)r->bw_input_us / 1e3,
                     .bw_param_ms = (double)r->bw_param_us / 1e3};
    struct uw_layer_info info;

    if (row == m->layers_n) {
        return l;
    }
    uw_model_layer_info(m, row, &info);
    l.name = info.name;
    l.kind = info.kind;
    l.parameters_n = info.parameters_n;
    l.bytes = 4.0 * (size_of(info.in, info.in_rank) + size_of(info.out, info.out_rank) +
                     info.parameters_n);
    double ms = l.forward_ms + l.bw_input_ms + l.bw_param_ms;
    if (ms > 0.0) {
        l.gflops = 2.0 * info.passes * (double)info.multiply_adds * (double)samples / (ms * 1e6);
    }
    return l;
}

static void put_event(struct uw_events *events, const struct line *l)
{
    cJSON *ev = uw_event("profile");
    cJSON_AddStringToObject(ev, "layer", l->name);
    cJSON_AddStringToObject(ev, "type", l->kind);
    UW_EVENT_NUMBERS(ev, {"forward_ms", l->forward_ms}, {"bw_input_ms", l->bw_input_ms},
                     {"bw_param_ms", l->bw_param_ms}, {"gflop_per_s", l->gflops},
                     {"bytes", l->bytes});
    uw_events_put(events, ev);
}

void uw_profile_report(const struct uw_model *m, uint64_t samples, struct uw_events *events)
{
    if (m->profile == NULL) {
        return;
    }
    bool quiet = uw_events_take_stdout(events);
    double all_ms = 0.0;
    for (uint32_t i = 0; i <= m->layers_n; i++) {
        struct line l = line_of(m, i, samples);
        all_ms += l.forward_ms + l.bw_input_ms + l.bw_param_ms;
        put_event(events, &l);
    }
    if (quiet) {
        return;
    }
    printf("%-18s %-12s %10s %10s %10s %6s %9s %11s\n", "layer", "type", "forward ms",
           "input ms", "param ms", "share", "GFLOP/s", "bytes");
    for (uint32_t i = 0; i <= m->layers_n; i++) {
        struct line l = line_of(m, i, samples);
        double ms = l.forward_ms + l.bw_input_ms + l.bw_param_ms;
        printf("%-18.18s %-12.12s %10.1f %10.1f %10.1f %5.1f%% %9.2f %11.0f\n", l.name, l.kind,
               l.forward_ms, l.bw_input_ms, l.bw_param_ms,
               all_ms > 0.0 ? 100.0 * ms / all_ms : 0.0, l.gflops, l.bytes);
    }
    putchar('\n');
}
