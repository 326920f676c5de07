/* SPDX-License-Identifier: Apache-2.0
 *
 * notes.h - sentences about what was found in a file (private)
 */
#ifndef UWASA_DATA_NOTES_H
#define UWASA_DATA_NOTES_H

#include <stdint.h>

#define UW_NOTES_MAX 16u
#define UW_NOTE_BYTES 400u

struct uw_notes {
    char text[UW_NOTES_MAX][UW_NOTE_BYTES];
    uint32_t n;
};

#define UW_TOKENS_ARE_SCALED \
    "WARNING: an embedding of the model takes whole numbers, which the scale changes: leave " \
    "scale= out, and scale other columns in the file"

/* Add a sentence; the last ones are lost when there are too many. */
void uw_note(struct uw_notes *n, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Add to the end of a text, as far as it fits. Returns the new length. */
uint32_t uw_note_add(char *text, uint32_t used, uint32_t bytes, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

#endif
