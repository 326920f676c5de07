/* SPDX-License-Identifier: Apache-2.0
 *
 * attack.h - attackers among the nodes of a world (private)
 *
 * An attacker trains as others do, but its node exchanges other parameters: n->shown, written
 * before each of its steps from the published models of the honest nodes.
 */
#ifndef UWASA_SIM_WORLD_ATTACK_H
#define UWASA_SIM_WORLD_ATTACK_H

#include "uwasa/sim_world.h"

/* Allocate n->shown for an attacker that shows another model than its own.
 * Returns UW_OK or UW_ERR_NOMEM. */
int uw_attack_open(struct uw_world_node *n);

/* Write what it shows. Not while an average uses it. */
void uw_attack_show(const struct uw_world *w, struct uw_world_node *n);

/* Free n->shown; safe twice. */
void uw_attack_close(struct uw_world_node *n);

#endif
