/* SPDX-License-Identifier: Apache-2.0
 *
 * link_radio.h - the part of a simulated network that is a radio channel
 */
#ifndef UWASA_SIM_LINK_RADIO_H
#define UWASA_SIM_LINK_RADIO_H

#include "medium.h"

#include "uwasa/radio_profile.h"

/* Bytes of a node's message. */
uint32_t uw_sim_radio_mtu(const struct uw_radio_profile *p);

/* What a link over it tells of itself. */
void uw_sim_radio_link(struct uw_link *l, const struct uw_radio_profile *p, uint16_t own);

/* As struct uw_link_ops. */
int uw_sim_radio_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes);

/* A message's time has come, at stage UW_SIM_AT_AIR or UW_SIM_OFF_AIR. */
void uw_sim_radio_step(struct uw_sim_net *n, struct uw_sim_message *m);

#endif
