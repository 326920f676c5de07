/* SPDX-License-Identifier: Apache-2.0
 *
 * choices.h - how nodes exchange: words that uwasa node and uwasa sim have in common */
#ifndef UWASA_CLI_CHOICES_H
#define UWASA_CLI_CHOICES_H

#define UW_EXCHANGES "gossip|allreduce|hierarchical|auto"   /* uw_node_mode_find */
#define UW_PEER_SCHEDULES "random|matching|exponential|dissemination|hypercube|base2"
#define UW_MOMENTUM_RULES "qg|noloco|slowmo|diloco|kgt|none"    /* uw_mix_find */

#endif
