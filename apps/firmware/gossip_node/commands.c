/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip_node.h"

#include <string.h>

static void show(const struct uw_firmware *f)
{
    char text[UW_SETTINGS_SEEDS_MAX * UW_SETTINGS_ADDRESS_BYTES + 16u];
    for (uint32_t i = 0; uw_settings_format(&f->kept, i, text, sizeof text) >= 0; i++) {
        uw_console_line("%s", text);
    }
}

static void set(struct uw_firmware *f, const char *words)
{
    struct uw_settings s = f->kept;
    struct uw_error err = {.text = ""};
    if (uw_settings_read(&s, words, &err) < 0) {
        uw_console_line("%s", err.text);
    } else {
        f->kept = s;
        uw_console_line("set; \"save\" keeps it, and it counts from the next start");
    }
    uw_key_wipe(&s, sizeof s);          /* it contains the key */
}

static void carry_out(struct uw_firmware *f, int (*what)(struct uw_firmware *f), const char *done)
{
    struct uw_error before = f->err;
    if (what(f) < 0) {
        uw_console_line("%s", f->err.text);
        f->err = before;
        return;
    }
    uw_console_line("%s", done);
}

void uw_firmware_command(struct uw_firmware *f, const char *line)
{
    bool runs = f->node.state != NULL;
    if (!runs && (strcmp(line, "status") == 0 || strcmp(line, "plan") == 0)) {
        uw_console_line("not running: %s", f->err.text);
    } else if (strcmp(line, "status") == 0) {
        uw_firmware_report_status(f);
    } else if (strcmp(line, "plan") == 0) {
        uw_firmware_report_plan(f);
    } else if (strcmp(line, "show") == 0) {
        show(f);
    } else if (strncmp(line, "set ", 4) == 0) {
        set(f, line + 4);
    } else if (strcmp(line, "save") == 0) {
        carry_out(f, uw_firmware_save_settings, "saved; \"reset\" starts with it");
    } else if (strcmp(line, "forget") == 0) {
        carry_out(f, uw_firmware_forget_checkpoint,
              "forgotten, until the next is due; \"reset\" starts afresh");
    } else if (strcmp(line, "reset") == 0) {
        uw_machine.reset();
    } else {
        uw_console_line("\"%.40s\": status, plan, show, set KEY=VALUE..., save, forget or reset",
                        line);
    }
}
