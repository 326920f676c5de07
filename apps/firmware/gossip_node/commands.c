/* SPDX-License-Identifier: Apache-2.0 */
#include "console.h"
#include "gossip_node.h"

#include <string.h>

static void show(const struct uw_firmware *f)
{
    char text[UW_SETTINGS_SEEDS_MAX * UW_SETTINGS_ADDRESS_BYTES + 16u];
    for (uint32_t i = 0; uw_settings_tell(&f->settings, i, text, sizeof text) >= 0; i++) {
        uw_console_line("%s", text);
    }
}

void uw_firmware_command(struct uw_firmware *f, const char *line)
{
    if (strcmp(line, "status") == 0) {
        uw_firmware_report_status(f);
    } else if (strcmp(line, "plan") == 0) {
        uw_firmware_report_plan(f);
    } else if (strcmp(line, "show") == 0) {
        show(f);
    } else if (strcmp(line, "reset") == 0) {
        uw_machine.reset();
    } else {
        uw_console_line("\"%.40s\": status, plan, show or reset", line);
    }
}
