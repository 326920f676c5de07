/* SPDX-License-Identifier: Apache-2.0
 *
 * Stand-ins for what only an emulator provides. */
#include "uwasa/machine.h"

int uw_machine_arguments(char *text, size_t bytes)
{
    (void)bytes;
    text[0] = '\0';
    return UW_OK;
}

int uw_machine_flash_file(const char *path)
{
    (void)path;
    return UW_ERR_UNSUPPORTED;
}

void uw_machine_exit(int status)
{
    (void)status;
    uw_machine.reset();
}
