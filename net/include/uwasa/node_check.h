/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_check.h - check a node's configuration: the wrong field and a sentence
 *
 * A program maps the field to its own key, flag or symbol and prints the sentence behind it.
 *
 *     if (uw_node_check(&config, &fault) < 0) {
 *         const char *key = fault.field == offsetof(struct uw_node_config, slices_n) ? "slices"
 *                                                                                    : fault.name;
 *         printf("%s %s\n", key, fault.sentence);
 *
 * Memory     nothing is kept; texts are constants      Blocking  never      Context  any thread
 */
#ifndef UWASA_NODE_CHECK_H
#define UWASA_NODE_CHECK_H

#include "uwasa/cplusplus.h"

#include <stddef.h>

UW_C_BEGIN

struct uw_node_config;

struct uw_node_fault {
    size_t field;                   /* offsetof(struct uw_node_config, slices_n) */
    const char *name;               /* name of the field, "slices_n" */
    const char *sentence;           /* follows a name: "needs 32 at most" */
};

/* Check that the fields of a configuration work together and that each has an effect. Memory is
 * not checked (uw_node_bind does): params, snapshot, velocity and spare may be NULL. Of link only
 * frames and shared are read; image, direct, samples and gradients are only compared with NULL.
 *
 *   fault  written on error: the first wrong field; may be NULL
 *
 * uw_node_bind returns the same errors, but ignores fields without an effect.
 *
 * Returns UW_OK, UW_ERR_INVALID, UW_ERR_UNSUPPORTED (the link cannot carry it). */
int uw_node_check(const struct uw_node_config *config, struct uw_node_fault *fault);

/* The same for uw_node_bind_listed: also the number of seeds and all that static peers exclude. */
int uw_node_check_listed(const struct uw_node_config *config, struct uw_node_fault *fault);

UW_C_END

#endif
