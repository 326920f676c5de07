/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/vitals.h - how a device fares: power, temperature, battery
 *
 * A board reads its sensors (uw_board_sensors_read of uwasa/sensors.h on Linux), training hands the
 * values to its node with its progress, and the others see them in their member table.
 *
 * Units      _mw milliwatts, _mc thousandths of a degree Celsius
 */
#ifndef UWASA_VITALS_H
#define UWASA_VITALS_H

#include <stdint.h>

/* More is told to others as so much: four and three bytes on the wire. */
#define UW_VITALS_POWER_MAX_MW ((1u << 28) - 1u)
#define UW_VITALS_HOTTEST_MC ((1 << 20) - 1)

/* Each 0 when it is not known; a sensor that does not work often says 0, too. */
struct uw_vitals {
    uint32_t power_mw;              /* drawn by the device, as much of it as its sensors cover */
    int32_t temperature_mc;         /* of its hottest part */
    uint32_t battery_percent;       /* 1 .. 100: what is left in it */
};

#endif
