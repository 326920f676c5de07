/* SPDX-License-Identifier: Apache-2.0 */
#include "number.h"

bool uw_read_number(const char *text, const char *end, uint32_t max, uint32_t *number)
{
    uint32_t n = 0;
    if (text == end) {
        return false;
    }
    for (; text != end; text++) {
        uint32_t digit = (uint32_t)(*text - '0');
        n = n * 10u + digit;
        if (digit > 9u || n > max) {
            return false;
        }
    }
    *number = n;
    return true;
}

void uw_write_number(uint32_t number, char text[11])
{
    uint32_t n = 1;
    for (uint32_t left = number; left >= 10u; left /= 10u) {
        n++;
    }
    text[n] = '\0';
    for (uint32_t left = number; n > 0; left /= 10u) {
        text[--n] = (char)('0' + left % 10u);
    }
}
