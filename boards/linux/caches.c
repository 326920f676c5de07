/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/board.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define INDEXES 10u

/* The first word of a file that describes cache `index` of the first core. */
static bool word_of(uint32_t index, const char *what, char *word)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/%s", (unsigned)index,
             what);
    FILE *f = fopen(path, "re");
    bool found = f != NULL && fscanf(f, "%31s", word) == 1;
    if (f != NULL) {
        fclose(f);
    }
    return found;
}

uint32_t uw_board_cache_bytes(uint32_t level)
{
    for (uint32_t i = 0; i < INDEXES; i++) {
        char word[32];
        unsigned at = 0;
        unsigned long long size = 0;
        char unit = 'B';
        if (!word_of(i, "level", word) || sscanf(word, "%u", &at) != 1 || at != level ||
            !word_of(i, "type", word) || strcmp(word, "Instruction") == 0 ||
            !word_of(i, "size", word) || sscanf(word, "%llu%c", &size, &unit) < 1) {
            continue;
        }
        size *= unit == 'K' ? 1024u : unit == 'M' ? 1024u * 1024u : 1u;
        return size <= UINT32_MAX ? (uint32_t)size : UINT32_MAX;
    }
    return 0;
}
