/* SPDX-License-Identifier: Apache-2.0
 *
 * node_config_check.h - between the files node_config*.c */
#ifndef UWASA_CLI_NODE_CONFIG_CHECK_H
#define UWASA_CLI_NODE_CONFIG_CHECK_H

#include "node_config.h"

#include <string.h>

/* Check what belongs together. Returns UW_OK or UW_ERR_INVALID, err filled. */
int uw_node_config_check(struct uw_node_file *f, struct uw_error *err);

/* "2/4" into shard 2 of 4; NULL into 0 of 0. Returns UW_OK or UW_ERR_INVALID. */
int uw_node_config_shard(const char *text, uint32_t *shard, uint32_t *shards_n);

/* A sentence that begins with the assignment of the key or, without one, with the file and the
 * line of the key when it is there; then the key. Returns UW_ERR_INVALID. */
int uw_node_config_fail(struct uw_node_file *f, const char *key, const char *sentence,
                        struct uw_error *err);

static inline int fail_key(struct uw_node_file *f, const char *key, const char *sentence,
                           struct uw_error *err)
{
    return uw_node_config_fail(f, key, sentence, err);
}

/* Where "link" is a text that names none, f->json.err becomes what to write for all of them. */
void uw_node_config_check_kind(struct uw_node_file *f);

/* The same of an assignment that was refused with rc, err filled, if it is one of "link".
 * Returns rc. */
int uw_node_config_refuse_kind(const char *assignment, int rc, struct uw_error *err);

/* Set o.link from what the object "link" has. Returns UW_OK or UW_ERR_INVALID, err filled. */
int uw_node_config_choose_link(struct uw_node_file *f, struct uw_error *err);

static inline bool is_link(const struct uw_node_options *o, const char *name)
{
    return strcmp(o->link, name) == 0;
}

/* Check the addresses, and what the link cannot have.
 * Returns UW_OK or UW_ERR_INVALID, err filled. */
int uw_node_config_check_link(struct uw_node_file *f, struct uw_error *err);

#endif
