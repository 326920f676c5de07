/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_probe - prints what this board has for training: GPU, shared memory, sensors
 *
 * Exits with 0 if GPU and processor share memory, with 1 if they do not or there is no GPU. */
#include "uwasa/sensors.h"
#include "uwasa/unified.h"

#include <stdio.h>

#define TAKEN_BYTES (64u << 20)

static const char *yes(bool b)
{
    return b ? "yes" : "no";
}

static int probe_gpu(void)
{
    struct uw_cuda_info gpu;
    struct uw_unified memory = {.base = NULL};
    struct uw_error err = {.text = ""};
    int rc = uw_gpu_find(&gpu, &err);
    if (rc == UW_OK) {
        printf("GPU             %s, compute capability %u.%u%s\n"
               "its memory      %.1f GB, %.1f GB free\n"
               "sharing         managed %s, by both at once %s, mapped %s\n",
               gpu.name, (unsigned)gpu.major, (unsigned)gpu.minor,
               gpu.integrated ? ", one memory with the processor" : "",
               (double)gpu.memory_bytes / 1e9, (double)gpu.free_bytes / 1e9, yes(gpu.managed),
               yes(gpu.concurrent), yes(gpu.mapped));
        rc = uw_unified_take(&gpu, TAKEN_BYTES, &memory);
        rc = rc < 0 ? rc : uw_unified_check(&memory, &err);
    }
    if (rc < 0) {
        printf("%s\n", err.text[0] != '\0' ? err.text : uw_status_text(rc));
    } else {
        printf("unified memory  %s; processor and GPU see each other's numbers\n",
               uw_unified_pages_name(memory.pages));
    }
    uw_unified_release(&memory);
    return rc;
}

static void print_sensors(void)
{
    struct uw_board_sensors sensors;
    int n = uw_board_sensors_find(&sensors, "/sys");
    struct uw_vitals v = uw_board_sensors_read(&sensors);
    printf("sensors         %d", n < 0 ? 0 : n);
    if (v.power_mw != 0) {
        printf(", %.2f W", v.power_mw / 1e3);
    }
    if (v.temperature_mc != 0) {
        printf(", %.1f C", v.temperature_mc / 1e3);
    }
    if (v.battery_percent != 0) {
        printf(", battery %u %%", (unsigned)v.battery_percent);
    }
    printf("\n");
}

int main(void)
{
    int rc = probe_gpu();
    print_sensors();
    return rc < 0;
}
