/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_inner.h - between stack.c and stack_radio.c */
#ifndef UWASA_CLI_STACK_INNER_H
#define UWASA_CLI_STACK_INNER_H

#include "link_stack.h"

/* Take memory of the board for a part. Returns UW_OK or a code, err filled. */
int uw_stack_take(struct uw_stack_block *b, size_t bytes, struct uw_error *err);

/* As the secure channels ask for it. */
int uw_stack_entropy(void *user, uint8_t *out, size_t bytes);

/* Open a radio or a bus and the link over it: s->top. Returns UW_OK or a code, err filled. */
int uw_stack_open_radio(struct uw_stack *s, const struct uw_stack_config *config,
                        struct uw_error *err);

/* Put the secure channel of radios on s->top. Returns UW_OK or a code, err filled. */
int uw_stack_secure_radio(struct uw_stack *s, const struct uw_stack_config *config,
                          struct uw_error *err);

#endif
