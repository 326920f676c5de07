/* SPDX-License-Identifier: Apache-2.0
 *
 * What the largest messages are, and whether a link carries them. */
#include "node_ping.h"

#include <string.h>

#define PACE_WIDEST_MS (1u << 20)   /* of those that take so many bytes on the wire */
#define SCRATCH_BYTES 512u          /* more than it takes */

/* The most that this device will tell of itself. */
static void fill_widest(const struct uw_node_state *s, uwasa_Ping *ping)
{
    *ping = (uwasa_Ping){
        .run = 1, .model = 1, .seq = UINT32_MAX, .has_self = true, .has_progress = true};
    ping->self = (uwasa_Peer){.incarnation = UINT32_MAX, .state = uwasa_State_ALIVE,
                              .pace_ms = PACE_WIDEST_MS};
    strcpy(ping->self.name, s->config.name);
    if (s->config.address != NULL) {
        strcpy(ping->self.address, s->config.address);
    }
    ping->progress = (uwasa_Progress){
        .step = UINT32_MAX, .rounds = UINT32_MAX, .version = UINT32_MAX,
        .loss = 1.0f, .accuracy = 1.0f, .samples_per_s = 1.0f,
        .pulled_bytes = UINT64_MAX, .newcomer = true,
        .battery_percent = 100, .shuffles = s->config.samples != NULL,
        .hears = s->config.link->frames ? s->buffer_bytes : 0};
    if (s->averages != NULL) {
        ping->has_averaging = true;
        s->averages->widest(&s->config, &ping->averaging);
    }
    if (s->config.sleep.period_us != 0) {
        uint32_t period_ms = (uint32_t)(s->config.sleep.period_us / 1000u);
        ping->progress.sleep_ms = ping->progress.awake_ms = ping->progress.since_ms = period_ms;
        ping->progress.sleep_label = UINT16_MAX;
    }
    if (s->config.vitals) {
        ping->progress.power_mw = UW_VITALS_POWER_MAX_MW;
        ping->progress.temperature_mc = UW_VITALS_HOTTEST_MC;
    }
}

int uw_node_check_mtu(struct uw_node_state *s, struct uw_error *err)
{
    uwasa_Ping ping;
    fill_widest(s, &ping);
    while (s->config.link->frames && ping.left_out < UW_NODE_LEFT_OUT_MOST) {
        s->config.parts->frames->leave_out(&ping);
    }
    uint8_t scratch[SCRATCH_BYTES];
    int bytes = uw_message_write(s->config.link->frames, UW_WIRE_PING, &uw_form_ping, &ping,
                                 scratch, sizeof scratch);
    if (bytes < 0 || (uint32_t)bytes > s->buffer_bytes) {
        return uw_error_set(err, UW_ERR_TOOBIG,
                            "link %s carries %u bytes: with this name and address it takes %d",
                            s->config.link->ops != NULL ? s->config.link->ops->name : "?",
                            (unsigned)s->buffer_bytes, bytes);
    }
    return UW_OK;
}
