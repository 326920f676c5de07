/* SPDX-License-Identifier: Apache-2.0
 *
 * node_config_check.h - between node_config.c and node_config_rank.c */
#ifndef UWASA_CLI_NODE_CONFIG_CHECK_H
#define UWASA_CLI_NODE_CONFIG_CHECK_H

#include "node_config.h"

/* Check what belongs together. Returns UW_OK or UW_ERR_INVALID, err filled. */
int uw_node_config_check(struct uw_node_file *f, struct uw_error *err);

#endif
