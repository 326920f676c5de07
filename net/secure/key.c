/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/secure.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* 0 .. 15, or negative, without a branch or a table lookup on the digit. */
static int digit_value(char c)
{
    int lower = (unsigned char)c | 0x20;
    int is_decimal = (('0' - 1 - lower) & (lower - '9' - 1)) < 0;
    int is_letter = (('a' - 1 - lower) & (lower - 'f' - 1)) < 0;
    is_decimal &= (unsigned char)c == lower;
    return is_decimal * (lower - '0') + is_letter * (lower - 'a' + 10) -
           (1 - is_decimal - is_letter) * 256;
}

int uw_key_parse(const char *text, uint8_t key[UW_KEY_BYTES])
{
    memset(key, 0, UW_KEY_BYTES);
    while (is_space(*text)) {
        text++;
    }
    int bad = 0;
    for (size_t i = 0; i < UW_KEY_BYTES; i++) {
        if (text[0] == '\0' || text[1] == '\0') {
            bad = -1;
            break;
        }
        int value = digit_value(text[0]) * 16 + digit_value(text[1]);
        bad |= digit_value(text[0]) | digit_value(text[1]);
        key[i] = (uint8_t)value;
        text += 2;
    }
    while (bad >= 0 && is_space(*text)) {
        text++;
    }
    if (bad < 0 || *text != '\0') {
        memset(key, 0, UW_KEY_BYTES);
        return UW_ERR_INVALID;
    }
    return UW_OK;
}

void uw_key_format(const uint8_t key[UW_KEY_BYTES], char text[UW_KEY_TEXT_BYTES])
{
    for (size_t i = 0; i < 2u * UW_KEY_BYTES; i++) {
        int value = (key[i / 2u] >> (i % 2u == 0 ? 4 : 0)) & 15;
        int letter = (9 - value) < 0;
        text[i] = (char)('0' + value + letter * ('a' - '0' - 10));
    }
    text[2u * UW_KEY_BYTES] = '\0';
}

/* Volatile, because C11 without annex K and boards without explicit_bzero offer nothing better. */
void uw_key_wipe(void *secret, size_t bytes)
{
    volatile uint8_t *p = secret;
    for (size_t i = 0; i < bytes; i++) {
        p[i] = 0;
    }
}
