/* SPDX-License-Identifier: Apache-2.0
 *
 * block.h - large pieces of memory, all zeros, in large pages where the system has them
 *
 * Context    any thread
 */
#ifndef UWASA_SIM_BLOCK_H
#define UWASA_SIM_BLOCK_H

#include <stddef.h>

/* Take a block, aligned to 64 bytes or more; NULL: none to be had. */
void *uw_sim_block_take(size_t bytes);

/* Give it back; block may be NULL. bytes: as it was taken. */
void uw_sim_block_give(void *block, size_t bytes);

#endif
