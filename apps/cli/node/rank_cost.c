/* SPDX-License-Identifier: Apache-2.0
 *
 * What an exchange takes over the link at work, by the closed cost of uwasa plan. */
#include "node_work.h"

#include "links/link_cost.h"

#include <stdio.h>

#define HOUR_S 3600.0
#define ABOUT_BYTES 32

/* A link's rate has the medium's own heads and gaps in it. */
static struct uw_radio_profile profile_of(const struct uw_link *l)
{
    return (struct uw_radio_profile){
        .rate_bits_per_s = l->rate_bits_per_s,
        .frame_bytes = l->mtu_bytes + (l->frames ? UW_SECURE_FRAMES_OVERHEAD
                                                 : UW_SECURE_OVERHEAD_BYTES),
        .byte_bits = 8, .crossings = 1, .broadcasts = l->shared, .shared = l->shared,
        .frames = l->frames};
}

static void about(double seconds, char text[ABOUT_BYTES])
{
    static const struct {
        double seconds, most;
        const char *name;
    } units[] = {{1.0, 100.0, "s"}, {60.0, 100.0, "min"}, {HOUR_S, 48.0, "h"},
                 {24.0 * HOUR_S, 1e30, "days"}};
    size_t i = 0;
    while (seconds / units[i].seconds >= units[i].most) {
        i++;
    }
    snprintf(text, ABOUT_BYTES, "%.0f %s", seconds / units[i].seconds, units[i].name);
}

void uw_node_work_tell_cost(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    const struct uw_link *link = r->net.stack.top;
    bool averages = uw_node_work_broadcasts(o), pulls = o->exchange.mode.at == UW_NODE_GOSSIP;
    double left = o->seconds - (double)uw_node_work_over_us(r) / 1e6;
    if (link->rate_bits_per_s == 0 || !(averages || pulls)) {
        return;
    }
    uint32_t slices = o->exchange.slices > 1u ? o->exchange.slices : 1u;
    const struct uw_link_cost_config config = {
        .link = profile_of(link), .floats_n = (r->job.model.params.size_n - 1u) / slices + 1u,
        .nodes_n = 2, .share = 1.0};
    struct uw_link_cost cost;
    uw_link_cost(&config, &cost);
    double seconds = averages ? cost.average.seconds : cost.pull.seconds;
    if (seconds > (o->seconds > 0.0 ? left : HOUR_S)) {
        char text[ABOUT_BYTES];
        about(seconds, text);
        uw_node_report_say(&r->report, "%s takes about %s here%s",
                           averages ? "an average of two nodes"
                           : slices > 1u ? "a pull of a slice" : "a pull", text,
                           o->seconds > 0.0 ? ", longer than the run" : "");
    }
}
