/* SPDX-License-Identifier: Apache-2.0 */
#include "start.h"

#include "uwasa/machine.h"

#define PATTERN 0xa5a5a5a5u

extern uint32_t uw_stack_start[], uw_stack_end[];

void uw_stack_paint(void)
{
    uint32_t *here = __builtin_frame_address(0);
    for (uint32_t *p = uw_stack_start; p < here - 16; p++) {
        *p = PATTERN;
    }
}

size_t uw_machine_stack_bytes(void)
{
    const uint32_t *p = uw_stack_start;
    while (p < uw_stack_end && *p == PATTERN) {
        p++;
    }
    return (size_t)((const char *)uw_stack_end - (const char *)p);
}
