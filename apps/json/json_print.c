/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    char *text;
    size_t used, room;
    bool failed;                /* no memory */
};

static void put(struct writer *w, const char *text, size_t n)
{
    if (!w->failed && w->room - w->used <= n) {
        size_t room = 2 * (w->room + n) + 64;
        char *more = realloc(w->text, room);
        w->failed = more == NULL;
        w->text = w->failed ? w->text : more;
        w->room = w->failed ? w->room : room;
    }
    if (!w->failed) {
        memcpy(w->text + w->used, text, n);
        w->used += n;
    }
}

static void put_text(struct writer *w, const char *text)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    put(w, "\"", 1);
    for (; *text != '\0'; text++) {
        char escape[8];
        const char *found = strchr(plain, *text);
        if (found != NULL) {
            put(w, (char[]){'\\', letter[found - plain]}, 2);
        } else if ((unsigned char)*text < 32u) {
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*text);
            put(w, escape, 6);
        } else {
            put(w, text, 1);
        }
    }
    put(w, "\"", 1);
}

/* The fewest digits that read back to the same number, of two that are tried. */
static void put_number(struct writer *w, double x)
{
    char text[40] = "null";
    if (isfinite(x)) {
        snprintf(text, sizeof text, "%1.15g", x);
        if (strtod(text, NULL) < x || strtod(text, NULL) > x) {
            snprintf(text, sizeof text, "%1.17g", x);
        }
    }
    put(w, text, strlen(text));
}

static void put_value(struct writer *w, const cJSON *item)
{
    bool object = item->type == cJSON_Object;
    switch (item->type) {
    case cJSON_Object:
    case cJSON_Array:
        put(w, object ? "{" : "[", 1);
        for (const cJSON *e = item->child; e != NULL; e = e->next) {
            if (object) {
                put_text(w, e->string);
                put(w, ":", 1);
            }
            put_value(w, e);
            put(w, ",", e->next != NULL ? 1 : 0);
        }
        put(w, object ? "}" : "]", 1);
        break;
    case cJSON_String:
        put_text(w, item->valuestring);
        break;
    case cJSON_Number:
        put_number(w, item->valuedouble);
        break;
    default:
        put(w, item->type == cJSON_True ? "true" : item->type == cJSON_False ? "false" : "null",
            item->type == cJSON_False ? 5 : 4);
        break;
    }
}

char *cJSON_PrintUnformatted(const cJSON *item)
{
    struct writer w = {.text = NULL};
    if (item == NULL) {
        return NULL;
    }
    put_value(&w, item);
    put(&w, "", 1);
    if (w.failed) {
        free(w.text);
        return NULL;
    }
    return w.text;
}
