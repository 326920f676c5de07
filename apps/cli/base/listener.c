/* SPDX-License-Identifier: Apache-2.0 */
#include "listener.h"

#include <stdarg.h>
#include <stdio.h>

void uw_tell(const struct uw_listener *l, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (l != NULL) {
        l->line(l->arg, line);
    } else {
        fprintf(stderr, "%s\n", line);
    }
}
