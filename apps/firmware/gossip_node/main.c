/* SPDX-License-Identifier: Apache-2.0
 *
 * A board that keeps learning: trains on the built-in digits or on samples from its second UART,
 * pulls its peers' parameters by gossip, serves its own. See boards/README.md. */
#include "gossip_node.h"

#define WATCHDOG_MS 8000u

static struct uw_firmware firmware;

static int open_all(struct uw_firmware *f)
{
    int rc = uw_firmware_open_settings(f);
    if (rc < 0) {
        return rc;
    }
    uw_firmware_open_memory(f);
    rc = uw_firmware_open_link(f);
    rc = rc < 0 ? rc : uw_firmware_open_model(f);
    rc = rc < 0 ? rc : uw_firmware_open_data(f);
    rc = rc < 0 ? rc : uw_firmware_open_checkpoint(f);
    rc = rc < 0 ? rc : uw_firmware_open_node(f);
    rc = rc < 0 ? rc : uw_firmware_open_samples(f);
    uw_firmware_seal(f);
    return rc;
}

static void flush(void)
{
    while (!uw_console_empty()) {
        (void)uw_console_step();
    }
}

/* After a failure keep only the console running: the settings may be wrong and can be changed. */
static void stay(struct uw_firmware *f)
{
    if (!uw_machine.emulated) {
        uw_console_line("stopped; \"set\", \"save\" and \"reset\" start it anew");
    }
    while (!uw_machine.emulated) {
        uw_firmware_poll(f);
    }
}

int main(void)
{
    struct uw_firmware *f = &firmware;
    int rc = open_all(f);
    if (rc == UW_OK) {
        uw_firmware_report_start(f);
        uw_firmware_report_plan(f);
        if (uw_machine.watchdog_start != NULL) {
            uw_machine.watchdog_start(WATCHDOG_MS);
        }
    }
    bool ends = uw_machine.emulated && f->settings.exit != 0;   /* a board would restart */
    while (rc == UW_OK && !(f->done && ends)) {
        uw_firmware_poll(f);
        rc = uw_firmware_train(f);
        bool idle = !f->training || f->adopting || f->waiting;
        if (idle && f->network_due_us > uw_machine_now_us() && uw_machine.wait != NULL) {
            uw_machine.wait();
        }
    }
    if (rc < 0) {
        uw_firmware_report_error(f);
        stay(f);
    }
    flush();
    return rc < 0 ? 1 : 0;
}
