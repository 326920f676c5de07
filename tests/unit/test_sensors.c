/* SPDX-License-Identifier: Apache-2.0
 *
 * Sensors of machines that are not here: their sysfs, made up in a folder. */
#include "test_support.h"

#include "uwasa/sensors.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

struct shown {
    const char *file, *text;
};

static char root[64];
static struct uw_board_sensors sensors;

static int set_up(void **state)
{
    (void)state;
    strcpy(root, "sensors.XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Write the files, up to one without a name, and look for sensors. */
static int show(const struct shown *files)
{
    for (; files->file != NULL; files++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", root, files->file);
        for (char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
            *slash = '\0';
            mkdir(path, 0700);
            *slash = '/';
        }
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, "%s\n", files->text);
        fclose(f);
    }
    return uw_board_sensors_find(&sensors, root);
}

static void expect(uint32_t power_mw, int32_t temperature_mc, uint32_t battery_percent)
{
    struct uw_vitals v = uw_board_sensors_read(&sensors);
    assert_int_equal(v.power_mw, power_mw);
    assert_int_equal(v.temperature_mc, temperature_mc);
    assert_int_equal(v.battery_percent, battery_percent);
}

static void test_machine_without_sensors_tells_nothing(void **state)
{
    (void)state;
    assert_int_equal(show((const struct shown[]){{NULL, NULL}}), 0);
    expect(0, 0, 0);
    assert_int_equal(uw_board_sensors_find(&sensors, "/nowhere"), 0);
    expect(0, 0, 0);
    char endless[400];
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1u] = '\0';
    assert_int_equal(uw_board_sensors_find(&sensors, endless), UW_ERR_TOOBIG);
    expect(0, 0, 0);
}

/* Orin Nano and NX: the input rail is all of it, the others are parts. */
static void test_input_rail_of_a_jetson_is_its_power_and_its_hottest_zone_told(void **state)
{
    (void)state;
    assert_int_equal(show((const struct shown[]){
                         {"class/hwmon/hwmon0/name", "nvme"},
                         {"class/hwmon/hwmon3/name", "ina3221"},
                         {"class/hwmon/hwmon3/in1_label", "VDD_CPU_GPU_CV"},
                         {"class/hwmon/hwmon3/in1_input", "4936"},
                         {"class/hwmon/hwmon3/curr1_input", "712"},
                         {"class/hwmon/hwmon3/in2_label", "VDD_IN"},
                         {"class/hwmon/hwmon3/in2_input", "5000"},
                         {"class/hwmon/hwmon3/curr2_input", "1500"},
                         {"class/hwmon/hwmon3/in3_label", "VDD_SOC"},
                         {"class/hwmon/hwmon3/in3_input", "4936"},
                         {"class/hwmon/hwmon3/curr3_input", "304"},
                         {"class/thermal/thermal_zone0/type", "cpu-thermal"},
                         {"class/thermal/thermal_zone0/temp", "48312"},
                         {"class/thermal/thermal_zone1/type", "gpu-thermal"},
                         {"class/thermal/thermal_zone1/temp", "51093"},
                         {"class/thermal/thermal_zone2/type", "cv0-thermal"},
                         {"class/thermal/thermal_zone2/temp", "-256000"},
                         {"class/thermal/thermal_zone5/type", "PMIC-Die"},
                         {"class/thermal/thermal_zone5/temp", "100000"},
                         {NULL, NULL}}),
                     1 + 3);
    expect(7500, 51093, 0);
}

/* AGX Orin: no rail is all of it, and one of the second monitor is part of another. */
static void test_rails_that_are_no_part_of_another_are_added(void **state)
{
    (void)state;
    assert_int_equal(show((const struct shown[]){{"class/hwmon/hwmon1/name", "ina3221"},
                                                 {"class/hwmon/hwmon1/in1_label", "VDD_GPU_SOC"},
                                                 {"class/hwmon/hwmon1/in1_input", "20000"},
                                                 {"class/hwmon/hwmon1/curr1_input", "300"},
                                                 {"class/hwmon/hwmon1/in2_label", "VDD_CPU_CV"},
                                                 {"class/hwmon/hwmon1/in2_input", "20000"},
                                                 {"class/hwmon/hwmon1/curr2_input", "100"},
                                                 {"class/hwmon/hwmon1/in3_label", "VIN_SYS_5V0"},
                                                 {"class/hwmon/hwmon1/in3_input", "5000"},
                                                 {"class/hwmon/hwmon1/curr3_input", "800"},
                                                 {"class/hwmon/hwmon2/name", "ina3221"},
                                                 {"class/hwmon/hwmon2/in1_label", "NC"},
                                                 {"class/hwmon/hwmon2/in2_label",
                                                  "VDDQ_VDD2_1V8AO"},
                                                 {"class/hwmon/hwmon2/in2_input", "5000"},
                                                 {"class/hwmon/hwmon2/curr2_input", "500"},
                                                 {NULL, NULL}}),
                     3);
    expect(12000, 0, 0);
}

static void test_input_monitor_of_a_thor_stands_for_its_rails(void **state)
{
    (void)state;
    assert_int_equal(show((const struct shown[]){{"class/hwmon/hwmon4/name", "ina3221"},
                                                 {"class/hwmon/hwmon4/in1_label", "VDD_GPU"},
                                                 {"class/hwmon/hwmon4/in1_input", "12000"},
                                                 {"class/hwmon/hwmon4/curr1_input", "2000"},
                                                 {"class/hwmon/hwmon5/name", "ina238"},
                                                 {"class/hwmon/hwmon5/in1_input", "19000"},
                                                 {"class/hwmon/hwmon5/curr1_input", "3000"},
                                                 {NULL, NULL}}),
                     1);
    expect(57000, 0, 0);
}

/* A phone: the sign of the current is the driver's choice, and charging draws from the wall. */
static void test_battery_of_a_phone_is_its_power_while_it_discharges(void **state)
{
    (void)state;
    const struct shown phone[] = {{"class/power_supply/battery/type", "Battery"},
                                  {"class/power_supply/battery/capacity", "83"},
                                  {"class/power_supply/battery/status", "Discharging"},
                                  {"class/power_supply/battery/current_now", "-500000"},
                                  {"class/power_supply/battery/voltage_now", "4000000"},
                                  {"class/power_supply/usb/type", "USB"},
                                  {"class/power_supply/usb/capacity", "7"},
                                  {"class/power_supply/mouse/type", "Battery"},
                                  {"class/power_supply/mouse/scope", "Device"},
                                  {"class/power_supply/mouse/capacity", "5"},
                                  {NULL, NULL}};
    assert_int_equal(show(phone), 1);
    expect(2000, 0, 83);
    show((const struct shown[]){{"class/power_supply/battery/status", "Charging"}, {NULL, NULL}});
    expect(0, 0, 83);
    show((const struct shown[]){{"class/power_supply/battery/status", "Discharging"},
                                {"class/power_supply/battery/capacity", "0"},
                                {"class/power_supply/battery/power_now", "3141592"},
                                {NULL, NULL}});
    expect(3142, 0, 1);
}

static void test_sensor_that_fails_or_lies_counts_as_not_there(void **state)
{
    (void)state;
    show((const struct shown[]){{"class/thermal/thermal_zone0/type", "x"},
                                {"class/thermal/thermal_zone0/temp", "999999"},
                                {"class/thermal/thermal_zone1/type", "x"},
                                {"class/thermal/thermal_zone1/temp", "0"},
                                {"class/thermal/thermal_zone2/type", "x"},
                                {"class/thermal/thermal_zone3/type", "x"},
                                {"class/thermal/thermal_zone3/temp", "-5500"},
                                {"class/thermal/thermal_zone4/type", "x"},
                                {"class/thermal/thermal_zone4/temp", "0"},
                                {"class/hwmon/hwmon0/name", "ina3221"},
                                {"class/hwmon/hwmon0/in1_label", "VDD_IN"},
                                {"class/hwmon/hwmon0/in1_input", "5000"},
                                {"class/power_supply/b/type", "Battery"},
                                {"class/power_supply/b/capacity", "160"},
                                {NULL, NULL}});
    expect(0, -5500, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_machine_without_sensors_tells_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_input_rail_of_a_jetson_is_its_power_and_its_hottest_zone_told, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_rails_that_are_no_part_of_another_are_added, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_input_monitor_of_a_thor_stands_for_its_rails, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_battery_of_a_phone_is_its_power_while_it_discharges,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sensor_that_fails_or_lies_counts_as_not_there, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
