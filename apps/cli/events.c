/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include "open_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int uw_events_open(struct uw_events *e, const char *path, struct uw_error *err)
{
    e->file = NULL;
    e->path = path;
    e->failed = false;
    if (path == NULL) {
        return UW_OK;
    }
    e->file = strcmp(path, "-") == 0 ? stdout : uw_open_file(path, true);
    if (e->file == NULL) {
        return uw_error_set(err, UW_ERR_IO, "--json %s: %s", path, strerror(errno));
    }
    return UW_OK;
}

bool uw_events_take_stdout(const struct uw_events *e)
{
    return e->file == stdout;
}

cJSON *uw_event(const char *name)
{
    cJSON *event = cJSON_CreateObject();
    cJSON_AddStringToObject(event, "event", name);
    return event;
}

void uw_event_float(cJSON *event, const char *key, float value)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) {
            break;
        }
    }
    cJSON_AddNumberToObject(event, key, strtod(text, NULL));
}

void uw_events_put(struct uw_events *e, cJSON *event)
{
    if (e->file != NULL) {
        char *line = cJSON_PrintUnformatted(event);
        if (line == NULL || fprintf(e->file, "%s\n", line) < 0 || fflush(e->file) != 0) {
            e->failed = true;
        }
        cJSON_free(line);
    }
    cJSON_Delete(event);
}

int uw_events_close(struct uw_events *e, struct uw_error *err)
{
    if (e->file != NULL && e->file != stdout && fclose(e->file) != 0) {
        e->failed = true;
    }
    e->file = NULL;
    if (e->failed) {
        e->failed = false;
        return uw_error_set(err, UW_ERR_IO, "--json %s: an event could not be written", e->path);
    }
    return UW_OK;
}
