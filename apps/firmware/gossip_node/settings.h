/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.h - the settings of a board: name, run, key, addresses, how to train
 *
 * Settings are words "key=value" separated by spaces: from the emulator's arguments, from a line on
 * the console, or from the board's flash.
 *
 * Memory     all static      Context  main loop */
#ifndef UW_FIRMWARE_SETTINGS_H
#define UW_FIRMWARE_SETTINGS_H

#include "uwasa/status.h"

#include <stddef.h>
#include <stdint.h>

#define UW_SETTINGS_TEXT_BYTES 1024u    /* of all settings as text */
#define UW_SETTINGS_SEEDS_MAX 6u
#define UW_SETTINGS_ADDRESS_BYTES 48u

/* Settings with a choice of words: "digits", ... */
enum uw_setting_data { UW_SET_DATA_DIGITS, UW_SET_DATA_UART };
enum uw_setting_model { UW_SET_MODEL_MLP, UW_SET_MODEL_LENET5 };
enum uw_setting_link { UW_SET_LINK_ETHERNET, UW_SET_LINK_SERIAL, UW_SET_LINK_BUS };
enum uw_setting_rule { UW_SET_RULE_NONE, UW_SET_RULE_QG };
enum uw_setting_schedule { UW_SET_LR_CONSTANT, UW_SET_LR_COSINE };
enum uw_setting_events { UW_SET_EVENTS_TEXT, UW_SET_EVENTS_JSON };

struct uw_settings {
    char name[32], run[32];
    char key[65];                       /* 64 hex digits */
    char address[UW_SETTINGS_ADDRESS_BYTES];    /* "10.0.2.15/24:4433" */
    char gateway[16], loopback[16];
    char advertise[UW_SETTINGS_ADDRESS_BYTES];  /* address at which others reach this board */
    char seeds[UW_SETTINGS_SEEDS_MAX * UW_SETTINGS_ADDRESS_BYTES];  /* separated by commas */
    char classes[24];                   /* digits to train on: "0,4,8" */
    char flash[128];                    /* emulator: file of the host with the flash's content */
    uint32_t data, model, link;         /* enum uw_setting_data and so on */
    uint32_t rule, schedule, events;    /* schedule: of lr over steps or seconds */
    uint32_t batch, period, steps, seconds, seed;
    uint32_t elapsed;                   /* part of the seconds that was over before this start */
    uint32_t consensus_rounds;          /* after training, without steps */
    uint32_t eval_seconds, eval_samples;
    uint32_t checkpoint_seconds;
    uint32_t window;                    /* bytes of chunks that may wait for the end of a step */
    uint32_t samples;                   /* data=uart: samples to keep; 0: as many as fit */
    uint32_t ram;                       /* limit of bytes used of the regions; 0: all */
    uint32_t station;                   /* this board's address on a bus */
    uint32_t exit;                      /* emulator: 1 ends it after training */
    float lr;
};

/* The defaults. */
void uw_settings_init(struct uw_settings *s);

/* Set from words. Returns UW_OK or UW_ERR_INVALID: err names the word and what is allowed, and the
 * words before it have been set. */
int uw_settings_read(struct uw_settings *s, const char *words, struct uw_error *err);

/* Check combinations of settings. Returns UW_OK or UW_ERR_INVALID; err then names one. */
int uw_settings_check(const struct uw_settings *s, struct uw_error *err);

/* Write a setting's name and value, "lr=0.05"; the key's value only as "(set)" or "(none)".
 * Returns the length, negative: there are no more than `index` settings. */
int uw_settings_format(const struct uw_settings *s, uint32_t index, char *text, size_t bytes);

/* Write all settings as words, the key too, for the flash. Returns the length or UW_ERR_TOOBIG. */
int uw_settings_write(const struct uw_settings *s, char *text, size_t bytes);

/* Split the text of seeds at its commas, in place. Returns the number of seeds. */
uint32_t uw_settings_seeds(char *text, const char *seed[UW_SETTINGS_SEEDS_MAX]);

/* "0,4,8" as a mask; 0: all. Returns UINT32_MAX when it is malformed. */
uint32_t uw_settings_classes(const char *text);

#endif
