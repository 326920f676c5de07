/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings from /sys: sensors and cache sizes. */
#include "uwasa/sensors.h"

#include "uwasa/board.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHIP "/class/hwmon/hwmon%u/"
#define SUPPLY "/class/power_supply/%s/"
#define CHIPS 32u
#define CHANNELS 3u                 /* of an INA3221; its fourth is a sum of shunt voltages */
#define COLDEST_MC (-60 * 1000)     /* outside this range a sensor is off or no thermometer */
#define HOTTEST_MC (150 * 1000)

/* The first word of a file below the root; "" if it cannot be read. */
static const char *word_of(const char *root, char word[64], const char *format, ...)
{
    char path[320];
    size_t root_bytes = strlen(root);
    memcpy(path, root, root_bytes);
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(path + root_bytes, sizeof path - root_bytes, format, args);
    va_end(args);
    word[0] = '\0';
    FILE *f = bytes < 0 || (size_t)bytes >= sizeof path - root_bytes ? NULL : fopen(path, "re");
    if (f != NULL) {
        if (fscanf(f, "%63s", word) != 1) {
            word[0] = '\0';
        }
        fclose(f);
    }
    return word;
}

static bool is_one_of(const char *word, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(word, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Add a power rail. Returns true if it feeds all others: then it alone is measured. */
static bool add_rail(struct uw_board_sensors *s, uint8_t chip, uint8_t channel, bool input)
{
    s->rails_n = input ? 0 : s->rails_n;
    if (s->rails_n < UW_BOARD_RAILS_MAX) {
        s->rail[s->rails_n].chip = chip;
        s->rail[s->rails_n++].channel = channel;
    }
    return input;
}

/* Find the power rails of a Jetson. On a Thor an INA238 measures the input. */
static void find_rails(struct uw_board_sensors *s)
{
    static const char *const inputs[] = {"VDD_IN", "5V_IN", "POM_5V_IN"};
    static const char *const parts[] = {"", "NC", "VDDQ_VDD2_1V8AO"}; /* fed by VIN_SYS_5V0 */
    char word[64];
    bool all = false;
    for (uint8_t chip = 0; chip < CHIPS && !all; chip++) {
        word_of(s->root, word, CHIP "name", (unsigned)chip);
        if (strcmp(word, "ina238") == 0) {
            all = add_rail(s, chip, 1, true);
        }
        bool jetson = strcmp(word, "ina3221") == 0;
        for (uint8_t channel = 1; jetson && channel <= CHANNELS && !all; channel++) {
            word_of(s->root, word, CHIP "in%u_label", (unsigned)chip, (unsigned)channel);
            if (!is_one_of(word, parts, sizeof parts / sizeof parts[0])) {
                all = add_rail(s, chip, channel,
                               is_one_of(word, inputs, sizeof inputs / sizeof inputs[0]));
            }
        }
    }
}

/* Skips PMIC-Die, which on a Jetson always reads 100 degrees. */
static void find_zones(struct uw_board_sensors *s)
{
    char word[64];
    for (uint8_t zone = 0; zone < UW_BOARD_ZONES_MAX; zone++) {
        word_of(s->root, word, "/class/thermal/thermal_zone%u/type", (unsigned)zone);
        if (word[0] != '\0' && strcmp(word, "PMIC-Die") != 0) {
            s->zone[s->zones_n++] = zone;
        }
    }
}

/* Find the machine's own batteries; that of a mouse, for example, has the scope Device. */
static void find_batteries(struct uw_board_sensors *s)
{
    char path[200];
    char word[64];
    snprintf(path, sizeof path, "%s/class/power_supply", s->root);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return;
    }
    for (struct dirent *e = readdir(folder); e != NULL && s->batteries_n < UW_BOARD_BATTERIES_MAX;
         e = readdir(folder)) {
        size_t bytes = strlen(e->d_name) + 1u;
        if (e->d_name[0] != '.' && bytes <= sizeof s->battery[0] &&
            strcmp(word_of(s->root, word, SUPPLY "type", e->d_name), "Battery") == 0 &&
            strcmp(word_of(s->root, word, SUPPLY "scope", e->d_name), "Device") != 0) {
            memcpy(s->battery[s->batteries_n++], e->d_name, bytes);
        }
    }
    closedir(folder);
}

int uw_board_sensors_find(struct uw_board_sensors *s, const char *root)
{
    *s = (struct uw_board_sensors){.rails_n = 0};
    size_t bytes = strlen(root) + 1u;
    if (bytes > sizeof s->root) {
        return UW_ERR_TOOBIG;
    }
    memcpy(s->root, root, bytes);
    find_rails(s);
    find_zones(s);
    find_batteries(s);
    return (int)(s->rails_n + s->zones_n + s->batteries_n);
}

/* Sum over the rails of millivolts times milliamperes. */
static double rails_mw(const struct uw_board_sensors *s)
{
    char word[64];
    double mw = 0.0;
    for (uint32_t i = 0; i < s->rails_n; i++) {
        unsigned chip = s->rail[i].chip;
        unsigned channel = s->rail[i].channel;
        double mv = strtod(word_of(s->root, word, CHIP "in%u_input", chip, channel), NULL);
        double ma = strtod(word_of(s->root, word, CHIP "curr%u_input", chip, channel), NULL);
        mw += mv * ma / 1e3;
    }
    return mw;
}

/* The power that a battery delivers; 0 while it is charged. Its files are in millionths; drivers
 * differ in the sign of the current. */
static double battery_mw(const struct uw_board_sensors *s, const char *name)
{
    char word[64];
    if (strcmp(word_of(s->root, word, SUPPLY "status", name), "Discharging") != 0) {
        return 0.0;
    }
    double uw = strtod(word_of(s->root, word, SUPPLY "power_now", name), NULL);
    double ua = strtod(word_of(s->root, word, SUPPLY "current_now", name), NULL);
    double uv = strtod(word_of(s->root, word, SUPPLY "voltage_now", name), NULL);
    double mw = uw != 0.0 ? uw / 1e3 : ua * uv / 1e9;
    return mw < 0.0 ? -mw : mw;
}

static int32_t hottest_mc(const struct uw_board_sensors *s)
{
    char word[64];
    long hottest = 0;
    for (uint32_t i = 0; i < s->zones_n; i++) {
        long mc = strtol(word_of(s->root, word, "/class/thermal/thermal_zone%u/temp",
                                 (unsigned)s->zone[i]), NULL, 10);
        if (mc != 0 && mc > COLDEST_MC && mc < HOTTEST_MC && (hottest == 0 || mc > hottest)) {
            hottest = mc;
        }
    }
    return (int32_t)hottest;
}

struct uw_vitals uw_board_sensors_read(const struct uw_board_sensors *s)
{
    struct uw_vitals v = {.temperature_mc = hottest_mc(s)};
    char word[64];
    double mw = s->rails_n > 0 ? rails_mw(s) : 0.0;
    uint32_t percent = 0;
    uint32_t known_n = 0;
    for (uint32_t i = 0; i < s->batteries_n; i++) {
        mw += s->rails_n > 0 ? 0.0 : battery_mw(s, s->battery[i]);
        word_of(s->root, word, SUPPLY "capacity", s->battery[i]);
        unsigned long left = strtoul(word, NULL, 10);
        if (word[0] != '\0' && left <= 100) {
            percent += left > 0 ? (uint32_t)left : 1u;
            known_n++;
        }
    }
    v.power_mw = mw > 0.0 && mw < 1e9 ? (uint32_t)(mw + 0.5) : 0;
    v.battery_percent = known_n > 0 ? percent / known_n : 0;
    return v;
}

#define INDEXES 10u
#define CACHE "/devices/system/cpu/cpu0/cache/index%u/" /* first core */

uint32_t uw_board_cache_bytes(uint32_t level)
{
    for (uint32_t i = 0; i < INDEXES; i++) {
        char word[64];
        unsigned at = 0;
        unsigned long long size = 0;
        char unit = 'B';
        if (sscanf(word_of("/sys", word, CACHE "level", (unsigned)i), "%u", &at) != 1 ||
            at != level ||
            strcmp(word_of("/sys", word, CACHE "type", (unsigned)i), "Instruction") == 0 ||
            sscanf(word_of("/sys", word, CACHE "size", (unsigned)i), "%llu%c", &size, &unit) < 1) {
            continue;
        }
        size *= unit == 'K' ? 1024u : unit == 'M' ? 1024u * 1024u : 1u;
        return size <= UINT32_MAX ? (uint32_t)size : UINT32_MAX;
    }
    return 0;
}
