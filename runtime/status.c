/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/status.h"

#include <stddef.h>
#include <stdio.h>

const char *uw_status_name(int code)
{
    switch (code) {
#define STATUS_NAME(name, value, text) \
    case value:                        \
        return "UW_" #name;
        UW_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    default:
        return "UW_ERR_UNKNOWN";
    }
}

const char *uw_status_text(int code)
{
    switch (code) {
#define STATUS_TEXT(name, value, text) \
    case value:                        \
        return text;
        UW_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    default:
        return "unknown status";
    }
}

int uw_error_set(struct uw_error *err, int code, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        err->code = code;
        if (vsnprintf(err->text, sizeof err->text, format, args) < 0) {
            err->text[0] = '\0';
        }
        va_end(args);
    }
    return code;
}
