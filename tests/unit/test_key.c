/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "uwasa/secure.h"

static void test_key_text_leads_back_to_the_key(void **state)
{
    (void)state;
    uint8_t key[UW_KEY_BYTES], back[UW_KEY_BYTES];
    char text[UW_KEY_TEXT_BYTES], upper[UW_KEY_TEXT_BYTES + 4];
    for (unsigned start = 0; start < 256; start++) {
        for (unsigned i = 0; i < UW_KEY_BYTES; i++) {
            key[i] = (uint8_t)(start + i * 37u);
        }
        uw_key_format(key, text);
        assert_int_equal(strlen(text), 64);
        assert_int_equal(strspn(text, "0123456789abcdef"), 64);
        assert_int_equal(uw_key_parse(text, back), UW_OK);
        assert_memory_equal(key, back, sizeof key);
        snprintf(upper, sizeof upper, " %s\r\n", text);
        for (char *p = upper; *p != '\0'; p++) {
            *p = (char)(*p >= 'a' && *p <= 'f' ? *p - 32 : *p);
        }
        assert_int_equal(uw_key_parse(upper, back), UW_OK);
        assert_memory_equal(key, back, sizeof key);
    }
}

static void test_key_any_wrong_character_or_length_is_refused(void **state)
{
    (void)state;
    uint8_t key[UW_KEY_BYTES];
    char text[80];
    for (unsigned at = 0; at < 64; at++) {
        for (unsigned c = 1; c < 256; c++) {
            memset(text, '3', 64);
            text[64] = '\0';
            text[at] = (char)c;
            bool hex = strchr("0123456789abcdefABCDEF", (int)c) != NULL;
            assert_int_equal(uw_key_parse(text, key), hex ? UW_OK : UW_ERR_INVALID);
        }
    }
    for (unsigned length = 0; length < 70; length++) {
        memset(text, 'a', length);
        text[length] = '\0';
        memset(key, 1, sizeof key);
        assert_int_equal(uw_key_parse(text, key), length == 64 ? UW_OK : UW_ERR_INVALID);
        assert_int_equal(key[31], length == 64 ? 0xaa : 0);
    }
}

static void test_key_wipe_zeroes_what_it_is_given_and_no_more(void **state)
{
    (void)state;
    uint8_t bytes[UW_KEY_BYTES + 2u];
    memset(bytes, 0x5a, sizeof bytes);
    uw_key_wipe(bytes + 1, UW_KEY_BYTES);
    uw_key_wipe(bytes, 0);
    for (size_t i = 0; i < sizeof bytes; i++) {
        assert_int_equal(bytes[i], i == 0 || i == sizeof bytes - 1u ? 0x5a : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_text_leads_back_to_the_key),
        cmocka_unit_test(test_key_any_wrong_character_or_length_is_refused),
        cmocka_unit_test(test_key_wipe_zeroes_what_it_is_given_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
