/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_check.h - what is wrong with a node's configuration: the field, and why
 *
 * A program tells it in its own words: it maps the field to the key, the flag or the symbol that
 * the field comes from, and puts the sentence behind it.
 *
 *     if (uw_node_check(&config, &fault) < 0) {
 *         const char *key = fault.field == offsetof(struct uw_node_config, slices_n) ? "slices"
 *                                                                                    : fault.name;
 *         printf("%s %s\n", key, fault.sentence);
 *
 * Memory     none is kept; texts are constants      Blocking  never      Context  any thread
 */
#ifndef UWASA_NODE_CHECK_H
#define UWASA_NODE_CHECK_H

#include "uwasa/cplusplus.h"

#include <stddef.h>

UW_C_BEGIN

struct uw_node_config;

struct uw_node_fault {
    size_t field;                   /* offsetof(struct uw_node_config, slices_n) */
    const char *name;               /* of that field, "slices_n" */
    const char *sentence;           /* to stand behind a name: "needs 32 at most" */
};

/* Does what is chosen go together, and does each field do something? Memory is not looked at, which
 * uw_node_bind judges too: params, snapshot, velocity and spare may be NULL. Of link only frames
 * and shared are read, of image, direct, samples and gradients only whether they are there.
 *
 *   fault  written when something is wrong: the first field found; may be NULL
 *
 * uw_node_bind refuses the same with the same code, but for fields that would do nothing: it
 * overlooks them.
 *
 * Returns UW_OK, UW_ERR_INVALID, UW_ERR_UNSUPPORTED (the link does not carry it). */
int uw_node_check(const struct uw_node_config *config, struct uw_node_fault *fault);

/* The same for uw_node_bind_listed: also what static peers exclude, and the number of seeds. */
int uw_node_check_listed(const struct uw_node_config *config, struct uw_node_fault *fault);

UW_C_END

#endif
