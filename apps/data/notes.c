/* SPDX-License-Identifier: Apache-2.0 */
#include "notes.h"

#include <stdarg.h>
#include <stdio.h>

void uw_note(struct uw_notes *n, const char *format, ...)
{
    va_list args;
    if (n->n == UW_NOTES_MAX) {
        return;
    }
    va_start(args, format);
    vsnprintf(n->text[n->n], UW_NOTE_BYTES, format, args);
    va_end(args);
    for (char *at = n->text[n->n++]; *at != '\0'; at++) {      /* names may have breaks of lines */
        *at = *at == '\n' || *at == '\r' ? ' ' : *at;
    }
}

uint32_t uw_note_add(char *text, uint32_t used, uint32_t bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = used < bytes ? vsnprintf(text + used, bytes - used, format, args) : 0;
    va_end(args);
    used += n > 0 ? (uint32_t)n : 0;
    return used < bytes ? used : bytes - 1;
}
