/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/sensors.h - power, temperature and battery of a Linux machine, from sysfs
 *
 * Gateways, phones and Jetsons have them in the same files; missing values are 0.
 *
 *     struct uw_board_sensors s;
 *     uw_board_sensors_find(&s, "/sys");
 *     ... now and then: progress.vitals = uw_board_sensors_read(&s);
 *
 * The power of a Jetson is that of its monitors (INA3221, INA238): the input if it is measured,
 * else the sum of the rails that are not part of another. On other machines it is the batteries'
 * discharge power. The temperature is that of the hottest thermal zone.
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

/* Find the sensors that are present now.
 *
 *   root  "/sys", or a test's folder; a missing folder has no sensors
 *
 * Returns their number, or UW_ERR_TOOBIG (root is too long: no sensors). */
int uw_board_sensors_find(struct uw_board_sensors *s, const char *root);

/* Read the sensors. One that fails counts as missing. */
struct uw_vitals uw_board_sensors_read(const struct uw_board_sensors *s);

UW_C_END
#endif
