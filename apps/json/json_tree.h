/* SPDX-License-Identifier: Apache-2.0
 *
 * json_tree.h - making nodes (private to apps/json) */
#ifndef UWASA_JSON_TREE_H
#define UWASA_JSON_TREE_H

#include <cjson/cJSON.h>

/* A node of that type, zeroed otherwise; NULL: no memory. */
cJSON *uw_json_new(int type);

/* Put a node behind the parent's children. */
void uw_json_append(cJSON *parent, cJSON *item);

#endif
