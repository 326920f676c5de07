/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/sim_devices.h"
#include "uwasa/sim_fleet.h"

#include <stdlib.h>
#include <string.h>

#define GPU_REASON "a quarter: small minibatches, memory shared with the CPU"

static const struct uw_sim_kind kinds[] = {
    {.name = "cortex-m4f", .what = "STM32F446, one Cortex-M4F",
     .clock_hz = 180e6, .per_cycle = 1.0 / 4.0, .efficiency = 0.6,
     .source = "STM32F446 datasheet: 180 MHz; Cortex-M4 reference manual: a fused multiply-add is "
               "3 cycles, with its share of loads 4; 0.6: what lies between products, flash"},
    {.name = "esp32-s3", .what = "ESP32-S3, one core of two, the other has the radio",
     .clock_hz = 240e6, .per_cycle = 1.0 / 4.0, .efficiency = 0.6,
     .link_bits_per_s = 20000000,
     .source = "ESP32-S3 datasheet: 240 MHz; madd.s is one a cycle, and the reference kernels, all "
               "there is for Xtensa, have two loads and a count beside it; 0.6: flash and PSRAM",
     .link_source = "ESP-IDF Wi-Fi guide: 20 Mbit/s of TCP in the open"},
    {.name = "cortex-m7", .what = "STM32H743, one Cortex-M7",
     .clock_hz = 480e6, .per_cycle = 1.0 / 1.5625, .efficiency = 0.6,
     .source = "STM32H743 datasheet: 480 MHz; tools/count_instructions: 1.56 instructions for a "
               "multiply-add in the register tile, one a cycle; 0.6: what lies between, caches"},
    {.name = "raspberry-pi-zero-2", .what = "RP3A0, four Cortex-A53",
     .clock_hz = 1.0e9, .per_cycle = 4 * 4, .efficiency = 0.3,
     .source = "product brief: four at 1 GHz; Cortex-A53: one NEON multiply-add of four a cycle; "
               "0.3: tools/count_instructions has 80 % of them in the tile, LPDDR2 feeds all four"},
    {.name = "raspberry-pi-4", .what = "BCM2711, four Cortex-A72",
     .clock_hz = 1.5e9, .per_cycle = 4 * 4, .efficiency = 0.35,
     .link_bits_per_s = 1000000000,
     .source = "product brief: four at 1.5 GHz; Cortex-A72: one NEON multiply-add of four a cycle "
               "(vfpbench: 8 flop); 0.35: as Linpack in double precision, 8 of 24 Gflop/s",
     .link_source = "product brief: Gigabit Ethernet"},
    {.name = "phone", .what = "a mid-range one, two Cortex-A78 of its eight cores",
     .clock_hz = 2.4e9, .per_cycle = 2 * 8, .efficiency = 0.3,
     .source = "such as Snapdragon 695 or Dimensity 1080: two big cores near 2.4 GHz; Cortex-A78: "
               "two NEON multiply-adds of four a cycle; 0.3: heat, and it is somebody's phone"},
    {.name = "jetson-orin-nano", .what = "Jetson Orin Nano 8 GB, its GPU",
     .clock_hz = 625e6, .per_cycle = 1024, .efficiency = 0.25,
     .link_bits_per_s = 1000000000,
     .source = "datasheet: 1024 CUDA cores, 625 MHz; one multiply-add each a cycle; " GPU_REASON,
     .link_source = "developer kit: Gigabit Ethernet"},
    {.name = "desktop", .what = "eight cores with AVX2",
     .clock_hz = 3.5e9, .per_cycle = 8 * 16, .efficiency = 0.5,
     .link_bits_per_s = 1000000000,
     .source = "eight cores that sustain 3.5 GHz, two multiply-adds of eight a cycle; 0.5: "
               "uwasa bench train reaches more with large minibatches, less with small ones",
     .link_source = "Gigabit Ethernet on the board"},
    {.name = "jetson-orin", .what = "Jetson AGX Orin 64 GB, its GPU",
     .clock_hz = 1.3e9, .per_cycle = 2048, .efficiency = 0.25,
     .link_bits_per_s = 10000000000,
     .source = "technical brief: 2048 CUDA cores, 5.3 Tflop/s of fp32 at 1.3 GHz; " GPU_REASON,
     .link_source = "developer kit: 10 Gigabit Ethernet"},
};

double uw_sim_kind_rate(const struct uw_sim_kind *kind)
{
    return kind->clock_hz * kind->per_cycle * kind->efficiency;
}

const struct uw_sim_kind *uw_sim_kind_at(uint32_t i)
{
    return i < sizeof kinds / sizeof kinds[0] ? &kinds[i] : NULL;
}

const struct uw_sim_kind *uw_sim_kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

/* ---- fleets ---- */

void uw_sim_fleet_count(const struct uw_sim_fleet *f, uint32_t *counts)
{
    memset(counts, 0, f->cells_n * sizeof *counts);
    for (uint32_t i = 0; i < f->devices_n; i++) {
        if (f->devices[i].cell != UW_SIM_NO_CELL) {
            counts[f->devices[i].cell]++;
        }
    }
}

uint64_t uw_sim_fleet_first_away_us(const struct uw_sim_fleet *f)
{
    uint64_t first_us = UINT64_MAX;
    for (uint32_t i = 0; i < f->devices_n; i++) {
        const struct uw_sim_device *v = &f->devices[i];
        if (v->absences_n != 0 && v->absences[0].from_us < first_us) {
            first_us = v->absences[0].from_us;
        }
    }
    return first_us;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double uw_sim_fleet_trained_us(const struct uw_sim_fleet *f, double steps)
{
    double *times_us = malloc(f->devices_n * sizeof *times_us);
    if (times_us == NULL) {
        return -1.0;
    }
    for (uint32_t i = 0; i < f->devices_n; i++) {
        const struct uw_sim_device *v = &f->devices[i];
        double us = steps * (double)v->step_us;
        for (uint32_t a = 0; a < v->absences_n && (double)v->absences[a].from_us < us; a++) {
            us += (double)(v->absences[a].to_us - v->absences[a].from_us);
        }
        times_us[i] = us;
    }
    qsort(times_us, f->devices_n, sizeof *times_us, by_value);
    double half_us = times_us[(f->devices_n - 1u) / 2u];
    free(times_us);
    return half_us;
}
