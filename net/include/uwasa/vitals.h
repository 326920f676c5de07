/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/vitals.h - power, temperature and battery of a device
 *
 * A board reads its sensors (uw_board_sensors_read of uwasa/sensors.h on Linux), training passes
 * the values to its node with its progress, and peers show them in their member table.
 *
 * Units      _mw milliwatts, _mc thousandths of a degree Celsius
 */
#ifndef UWASA_VITALS_H
#define UWASA_VITALS_H

#include <stdint.h>

/* Limits of the values on the wire, four and three bytes; larger ones are clamped. */
#define UW_VITALS_POWER_MAX_MW ((1u << 28) - 1u)
#define UW_VITALS_HOTTEST_MC ((1 << 20) - 1)

/* 0 means not known; many broken sensors read 0, too. */
struct uw_vitals {
    uint32_t power_mw;              /* of the parts of the device that its sensors cover */
    int32_t temperature_mc;         /* of its hottest part */
    uint32_t battery_percent;       /* charge left, 1 .. 100 */
};

#endif
