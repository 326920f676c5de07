/* SPDX-License-Identifier: Apache-2.0 */
#include "utf8.h"

#include <stdbool.h>
#include <stdint.h>

size_t uw_utf8_bytes(const char *s, size_t most)
{
    uint8_t c = (uint8_t)s[0];
    size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0u) == 0xe0 ? 3
                                                        : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (n > most) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if (((uint8_t)s[i] & 0xc0u) != 0x80u) {
            return 0;
        }
    }
    uint8_t second = n > 1 ? (uint8_t)s[1] : 0;
    bool bad = (c == 0xe0 && second < 0xa0) || (c == 0xed && second >= 0xa0) ||
               (c == 0xf0 && second < 0x90) || (c == 0xf4 && second >= 0x90);
    return bad ? 0 : n;
}
