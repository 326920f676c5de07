/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/sim_fleet.h"

#include <stdlib.h>
#include <string.h>

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
