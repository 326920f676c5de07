/* SPDX-License-Identifier: Apache-2.0
 *
 * races.h - who touches memory that another thread of the same launch touches, without order
 *
 * Kernels that are compiled with -fsanitize=thread call for every access the functions that the
 * thread sanitizer's library would have; here they are ours, and know what orders threads on a GPU:
 *
 *     __syncthreads           everything before it in the block and everything after
 *     __syncwarp              the same for the lanes of its mask; a shuffle or vote orders nothing
 *     fence, atomic ... atomic, fence
 *                             what the one block did before and the other does after
 *
 * Of each four bytes the last write and two reads are remembered, so that a race is found where its
 * two accesses come, whatever their turn was. One ends the process with a sentence. Locals are not
 * looked at.
 *
 * Source     PTX ISA, "Memory Consistency Model"; GCC's and LLVM's interface of -fsanitize=thread
 */
#ifndef UW_EMULATED_RACES_H
#define UW_EMULATED_RACES_H

#include "emulated.h"

/* What runs from here on: a launch, one of its blocks. `look` false: nothing is looked at. */
void races_launch(bool look);
void races_block(uint3 block, unsigned number);
/* Which of the block's threads: races_threads_end is none. */
void races_thread(unsigned index);
void races_threads_end(void);
/* All threads of the block have come to a barrier; the lanes of a mask, first being the warp's
 * first thread, to __syncwarp. */
void races_barrier(void);
void races_warp(unsigned first, unsigned mask);

#endif
