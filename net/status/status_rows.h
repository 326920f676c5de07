/* SPDX-License-Identifier: Apache-2.0
 *
 * status_rows.h - rows and counters of the live view, between the wire and the public structs
 *
 * Memory  caller's      Blocking  never      Context  any thread
 */
#ifndef UW_NET_STATUS_ROWS_H
#define UW_NET_STATUS_ROWS_H

#include "uwasa.pb.h"

#include "uwasa/node_status.h"

void uw_status_row(const uwasa_Row *row, struct uw_node_member *to);

void uw_status_counters_to_wire(const struct uw_node_counters *from, uwasa_Counters *to);

#endif
