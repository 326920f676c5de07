/* SPDX-License-Identifier: Apache-2.0
 *
 * Scenarios, mutated. What is refused must come with a sentence that names the file; what is not
 * must draw, within the limits. */
#include "fuzz.h"

#include "sim/sim.h"
#include "sim/sim_file.h"

#include <string.h>

#define DEVICES_MAX 2000u       /* that are drawn here */

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const char *const inputs[] = {
        "{\"model\": \"mlp\"}",
        "{\"model\": \"mlp\", \"skew\": \"sorted\", \"lr\": 0.1, \"momentum_rule\": \"none\",\n"
        "\"nodes\": 40, \"bandwidth\": {\"up\": 1e6, \"down\": {\"uniform\": [1e6, 2e7]}},\n"
        "\"latency\": {\"log-normal\": {\"median\": 0.02, \"sigma\": 0.5}}, \"loss\": 0.01,\n"
        "\"step\": {\"seconds\": {\"values\": [0.1, 0.2]}},\n"
        "\"stragglers\": {\"share\": 0.1, \"factor\": 10},\n"
        "\"availability\": {\"churn\": {\"up\": 60, \"down\": 10, \"forgets\": 0.5}},\n"
        "\"cells\": {\"nodes\": 7, \"shared\": true, \"bandwidth\": 2e6, \"out_latency\": 1}}",
        "{\"model\": \"mlp\", \"seed\": 7, \"nodes\": [\n"
        "{\"count\": 3, \"device\": \"phone\", \"radio\": {\"count\": 2, \"bandwidth\": 1e6}},\n"
        "{\"name\": \"b\", \"count\": 4, \"step\": {\"device\": \"phone\"}, \"speed\": 0.5,\n"
        " \"cells\": {\"sizes\": [1, 3], \"out_bandwidth\": 1e5},\n"
        " \"bandwidth\": {\"log-normal\": {\"median\": 1e7, \"decades\": 2}},\n"
        " \"availability\": {\"diurnal\": {\"period\": 100, \"up\": 0.5, \"spread\": 30}}}]}"};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        uw_fuzz_add(corpus, inputs[i], strlen(inputs[i]));
    }
}

static bool within(uint64_t bits)
{
    return bits == 0 || (bits >= (uint64_t)UW_SIM_BITS_MIN && bits <= (uint64_t)UW_SIM_BITS_MAX);
}

static bool is_sound(const struct uw_sim_fleet *f)
{
    for (uint32_t i = 0; i < f->devices_n; i++) {
        const struct uw_sim_device *v = &f->devices[i];
        if (!within(v->up_bits_per_s) || !within(v->down_bits_per_s) || v->step_us == 0 ||
            v->latency_us > (uint64_t)(UW_SIM_LATENCY_MAX * 1e6) ||
            !(v->loss >= 0.0f && v->loss <= 1.0f) ||
            (v->cell != UW_SIM_NO_CELL && v->cell >= f->cells_n)) {
            return false;
        }
        for (uint32_t a = 0; a < v->absences_n; a++) {
            if (v->absences[a].from_us >= v->absences[a].to_us ||
                (a != 0 && v->absences[a].from_us <= v->absences[a - 1u].to_us)) {
                return false;
            }
        }
    }
    return true;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    struct uw_sim_options o = {.nodes = 0};
    struct uw_sim_file f;
    struct uw_sim_draw d = {.absences = NULL};
    const struct uw_sim_cost cost = {.measured_us = 1000, .multiply_adds = 1000000};
    const struct uw_sim_options said = {.bandwidth = UINT64_MAX, .latency = -1.0,
                                        .step_seconds = -1.0};
    struct uw_error err = {.text = ""};
    int rc = uw_sim_file_parse(&f, "c.json", (const char *)input, bytes, uw_sim_flags, &o, &err);
    bool named = strncmp(err.text, "c.json:", 7) == 0;
    if (rc == UW_OK) {
        rc = uw_sim_file_flags(&f, &said, false, &err);
        named = rc == UW_OK;
    }
    uint32_t n = rc == UW_OK ? uw_sim_scenario_devices(&f.scenario) : 0;
    if (n != 0 && n <= DEVICES_MAX) {
        rc = uw_sim_draw_open(&d, &f.scenario, &cost, &err);
        named = rc == UW_OK ? is_sound(&d.fleet) : err.text[0] != '\0';
    }
    uw_sim_draw_close(&d);
    uw_sim_file_close(&f);
    return named ? -rc : -1;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"scenario", add_inputs, try_one, 0}, argc, argv);
}
