/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/sensors.h - power, temperature and battery of a Linux machine, as sysfs shows them
 *
 * Gateways, phones and Jetsons have them in the same files; what a machine lacks is 0.
 *
 *     struct uw_board_sensors s;
 *     uw_board_sensors_find(&s, "/sys");
 *     ... now and then: progress.vitals = uw_board_sensors_read(&s);
 *
 * Power is what the monitors of a Jetson (INA3221, INA238) measure: its input where one of them
 * does, else the sum of the rails that are not part of another. Elsewhere it is what the batteries
 * give while they discharge. The temperature is that of the hottest thermal zone.
 *
 * Memory     the caller's struct; the name of the folder is copied
 * Blocking   up to the sensors: some are behind a slow bus          Context  any thread
 * Source     the kernel's Documentation/hwmon/ina3221.rst, ABI/testing/sysfs-class-power
 */
#ifndef UWASA_SENSORS_H
#define UWASA_SENSORS_H

#include "uwasa/cplusplus.h"
#include "uwasa/status.h"
#include "uwasa/vitals.h"

#include <stdint.h>

UW_C_BEGIN

#define UW_BOARD_RAILS_MAX 8u
#define UW_BOARD_ZONES_MAX 64u
#define UW_BOARD_BATTERIES_MAX 2u

struct uw_board_sensors {
    char root[160];
    struct {
        uint8_t chip, channel;      /* class/hwmon/hwmon<chip>/curr<channel>_input */
    } rail[UW_BOARD_RAILS_MAX];
    uint8_t zone[UW_BOARD_ZONES_MAX];
    char battery[UW_BOARD_BATTERIES_MAX][32];
    uint32_t rails_n, zones_n, batteries_n;
};

/* Look for sensors; what is plugged in later is not seen.
 *
 *   root  "/sys"; tests have one of their own, and a folder that is not there has none
 *
 * Returns how many there are, UW_ERR_TOOBIG (root is too long: there are none then). */
int uw_board_sensors_find(struct uw_board_sensors *s, const char *root);

/* Read them. One that fails counts as not there. */
struct uw_vitals uw_board_sensors_read(const struct uw_board_sensors *s);

UW_C_END
#endif
