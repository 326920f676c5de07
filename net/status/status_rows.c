/* SPDX-License-Identifier: Apache-2.0 */
#include "status_rows.h"

#include <string.h>

void uw_status_row(const uwasa_Row *row, struct uw_node_member *to)
{
    const uwasa_Peer *peer = &row->peer;
    const uwasa_Progress *p = &row->progress;
    *to = (struct uw_node_member){
        .state = (enum uw_member_state)peer->state,
        .incarnation = peer->incarnation,
        .step = p->step,
        .rounds = p->rounds,
        .version = p->version,
        .loss = p->loss,
        .accuracy = p->accuracy,
        .samples_per_s = p->samples_per_s,
        .pulled_bytes = p->pulled_bytes,
        .vitals = {.power_mw = p->power_mw,
                   .temperature_mc = p->temperature_mc,
                   .battery_percent = p->battery_percent},
        .silent_us = row->silent_us,
        .rtt_us = row->rtt_us,
        .from_bytes = row->from_bytes,
        .refused_n = row->refused_n,
        .same_model = row->same_model,
    };
    memcpy(to->name, peer->name, sizeof to->name);
    memcpy(to->address, peer->address, sizeof to->address);
    memcpy(to->cell, row->averaging.cell, sizeof to->cell);
}

/* Both structs name their fields alike. */
#define COUNTERS(X) \
    X(sent_bytes) \
    X(received_bytes) \
    X(pulled_bytes) \
    X(served_bytes) \
    X(pulls_done) \
    X(pulls_cut) \
    X(pulls_refused) \
    X(pulls_stale) \
    X(chunks_mixed) \
    X(refused_nonfinite) \
    X(refused_outlier) \
    X(refused_run) \
    X(refused_model) \
    X(refused_corrupt) \
    X(chunks_again) \
    X(chunks_twice) \
    X(unknown_messages) \
    X(averaged_bytes) \
    X(averages_done) \
    X(averages_cut) \
    X(pairs_half) \
    X(samples_in) \
    X(samples_out) \
    X(sample_bytes) \
    X(membership_bytes)

void uw_status_counters_to_wire(const struct uw_node_counters *from, uwasa_Counters *to)
{
#define COPY(field) to->field = from->field;
    COUNTERS(COPY)
#undef COPY
}

void uw_status_counters_from_wire(const uwasa_Counters *from, struct uw_node_counters *to)
{
#define COPY(field) to->field = from->field;
    COUNTERS(COPY)
#undef COPY
}
