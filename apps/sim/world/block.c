/* SPDX-License-Identifier: Apache-2.0
 *
 * Over mmap. The walk from node to node touches a page or two each of hundreds of megabytes: with
 * pages of 2 MiB the processor finds them in its table. */
#include "block.h"

#include <sys/mman.h>

void *uw_sim_block_take(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    (void)madvise(block, bytes, MADV_HUGEPAGE);
#endif
    return block;
}

void uw_sim_block_give(void *block, size_t bytes)
{
    if (block != NULL) {
        (void)munmap(block, bytes);
    }
}
