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
        if (digit > 9u || digit > max || n > (max - digit) / 10u) {
            return false;
        }
        n = n * 10u + digit;
    }
    *number = n;
    return true;
}
