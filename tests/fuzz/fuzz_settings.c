/* SPDX-License-Identifier: Apache-2.0
 *
 * A board's settings: whatever is typed or lies in its flash, what is set is whole and allowed, a
 * word that is refused changes nothing, and what is written reads back as the same. */
#include "fuzz.h"

#include "settings.h"

#include "uwasa/secure.h"

#include <string.h>

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const char *const words[] = {
        "name=n0 run=test address=10.0.2.15/24:4433 gateway=10.0.2.2 loopback=10.0.2.2",
        "seeds=10.0.2.2:4433,10.0.2.3:4433 advertise=127.0.0.1:9 classes=0,4,8 model=lenet5",
        "key=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff link=serial",
        "rule=none schedule=cosine events=json flash=file batch=64 period=100000 steps=1000000000",
        "data=uart samples=60000 seconds=100000000 elapsed=99999999 data=digits",
        "seconds=1 seed=4294967295 consensus_rounds=1000 eval_seconds=5 eval_samples=10000",
        "checkpoint_seconds=1 window=1048576 ram=4294967295 exit=1 lr=0.000001 lr=1000"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        uw_fuzz_add(corpus, words[i], strlen(words[i]));
    }
}

static int is_allowed(const struct uw_settings *s)
{
    static struct uw_settings cut;
    const char *seed[UW_SETTINGS_SEEDS_MAX];
    uint8_t key[UW_KEY_BYTES];
    uint32_t commas = 0, seeds_n;
    for (const char *c = s->seeds; *c != '\0'; c++) {
        commas += *c == ',';
    }
    cut = *s;
    seeds_n = uw_settings_seeds(cut.seeds, seed);
    for (uint32_t i = 0; i < seeds_n; i++) {
        if (seed[i][0] == '\0') {
            return 0;
        }
    }
    return s->rule <= UW_SET_RULE_QG && uw_settings_classes(s->classes) != UINT32_MAX &&
           (s->key[0] == '\0' || uw_key_parse(s->key, key) == UW_OK) &&
           seeds_n == (s->seeds[0] != '\0' ? commas + 1u : 0) && s->batch >= 1 && s->batch <= 64 &&
           s->period >= 1 && s->samples <= 60000 && s->elapsed <= 100000000 &&
           s->data <= UW_SET_DATA_UART && s->model <= UW_SET_MODEL_LENET5 &&
           s->link <= UW_SET_LINK_BUS &&
           s->schedule <= UW_SET_LR_COSINE && s->events <= UW_SET_EVENTS_JSON &&
           s->eval_samples >= 1 && s->lr >= 0.0f && s->lr <= 1000.0f;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    static struct uw_settings s, again;
    char text[4096], written[2 * UW_SETTINGS_TEXT_BYTES];
    struct uw_error err;
    memcpy(text, input, bytes);
    text[bytes] = '\0';
    uw_settings_init(&s);
    int rc = uw_settings_read(&s, text, &err);
    if ((rc < 0 && memchr(err.text, '\0', sizeof err.text) == NULL) || !is_allowed(&s)) {
        return -1;
    }
    int n = uw_settings_write(&s, written, sizeof written);
    uw_settings_init(&again);
    if (n < 0 || uw_settings_read(&again, written, &err) < 0 ||
        memcmp(&s.data, &again.data, sizeof s - offsetof(struct uw_settings, data)) != 0 ||
        strcmp(s.seeds, again.seeds) != 0 || strcmp(s.key, again.key) != 0) {
        return -1;
    }
    return n < (int)UW_SETTINGS_TEXT_BYTES ? -rc : 64;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"settings", add_inputs, try_one, 2000}, argc,
                       argv);
}
