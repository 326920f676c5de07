/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/board.h"

#include <sys/mman.h>

/* From here on, small pages cost more than a large one that is not all used. */
#define HUGE_WORTH ((size_t)32 * 1024 * 1024)

/* mmap refuses a length of 0. */
static size_t mapped_bytes(size_t bytes)
{
    return bytes == 0 ? 1 : bytes;
}

int uw_board_memory_take(size_t bytes, void **out)
{
    void *p =
        mmap(NULL, mapped_bytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *out = p == MAP_FAILED ? NULL : p;
#ifdef MADV_HUGEPAGE
    if (*out != NULL && bytes >= HUGE_WORTH) {
        (void)madvise(p, bytes, MADV_HUGEPAGE); /* a wish: without it, the same but slower */
    }
#endif
    return *out == NULL ? UW_ERR_NOMEM : UW_OK;
}

void uw_board_memory_release(void *p, size_t bytes)
{
    if (p != NULL) {
        munmap(p, mapped_bytes(bytes));
    }
}
