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
