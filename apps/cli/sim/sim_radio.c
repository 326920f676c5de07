/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_radio.h"

#include "links/link_cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double mean_loss(const struct uw_sim_scenario *s)
{
    double sum = 0.0, devices = 0.0;
    for (uint32_t g = 0; g < s->groups_n; g++) {
        sum += s->groups[g].count * s->groups[g].loss;
        devices += s->groups[g].count;
    }
    return devices > 0.0 ? sum / devices : 0.0;
}

struct uw_sim_radio uw_sim_radio_foresee(const struct uw_sim_options *o, uint32_t floats_n,
                                         uint64_t steps, double step_s)
{
    uint32_t slices = o->exchange.slices > 1u ? o->exchange.slices : 1u;
    double share = uw_exchange_share(&o->exchange);
    const struct uw_link_cost_config config = {
        .link = o->radio, .floats_n = (floats_n - 1u) / slices + 1u, .nodes_n = o->nodes,
        .loss = mean_loss(o->scenario), .share = share > 0.0 ? share : 1.0};
    struct uw_link_cost cost;
    uw_link_cost(&config, &cost);
    struct uw_sim_radio r = {.averages = o->exchange.mode.at == UW_NODE_BROADCAST};
    r.one_s = r.averages ? cost.average.seconds : cost.pull.seconds;
    r.round_s = r.averages ? cost.average.seconds : cost.round.seconds;
    double train_s = steps != UW_SIM_STEPS_ENDLESS ? (double)steps * step_s : o->virtual_seconds;
    train_s = o->virtual_seconds > 0.0 ? fmin(train_s, o->virtual_seconds) : train_s;
    double period_s = o->exchange.period.automatic ? cost.period_s : o->exchange.period.n * step_s;
    r.exchanges = floor(train_s / fmax(period_s, r.round_s)) * o->nodes;
    return r;
}

void uw_sim_radio_print(const struct uw_sim_options *o, const struct uw_sim_radio *r)
{
    const struct uw_radio_profile *p = &o->radio;
    char one[UW_TEXT_BYTES], round[UW_TEXT_BYTES];
    printf("%s: %.4g kbit/s, frames of %u bytes, one channel for all", o->link,
           1e-3 * (double)p->rate_bits_per_s, (unsigned)p->frame_bytes);
    if (p->duty_ppm != 0) {
        printf(", each sends for %.4g %% of the time at most", 1e-4 * p->duty_ppm);
    }
    if (r->averages) {
        printf("\nan average by broadcast takes %s: about %.0f in this run; see uwasa plan "
               "--link\n",
               uw_text_duration(r->one_s, one), r->exchanges / o->nodes);
    } else {
        printf("\none pull takes %s, one of every node %s: about %.0f pulls in this run; see uwasa "
               "plan --link\n", uw_text_duration(r->one_s, one),
               uw_text_duration(r->round_s, round), r->exchanges);
    }
}

void uw_sim_radio_print_none(const struct uw_sim_options *o, uint32_t floats_n)
{
    const struct uw_sim_radio r = uw_sim_radio_foresee(o, floats_n, 0, 0.0);
    char one[UW_TEXT_BYTES];
    printf("               nothing was exchanged: %s takes %s here, see uwasa plan --link %s\n",
           r.averages ? "an average" : "a pull", uw_text_duration(r.one_s, one), o->link);
}

void uw_sim_radio_put(cJSON *ev, const struct uw_sim_options *o, const struct uw_sim_radio *r)
{
    cJSON *at = cJSON_AddObjectToObject(ev, "radio");
    cJSON_AddStringToObject(at, "link", o->link);
    cJSON_AddNumberToObject(at, "bits_per_s", (double)o->radio.rate_bits_per_s);
    cJSON_AddNumberToObject(at, "frame_bytes", o->radio.frame_bytes);
    cJSON_AddNumberToObject(at, "duty", 1e-6 * o->radio.duty_ppm);
    cJSON_AddBoolToObject(at, "shared", o->radio.shared);
    cJSON_AddNumberToObject(at, "exchange_seconds", r->one_s);
    cJSON_AddNumberToObject(at, "round_seconds", r->round_s);
    cJSON_AddNumberToObject(at, "exchanges", r->exchanges);
}
