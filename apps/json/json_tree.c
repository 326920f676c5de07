/* SPDX-License-Identifier: Apache-2.0 */
#include "json_tree.h"

#include <stdlib.h>
#include <string.h>

cJSON *uw_json_new(int type)
{
    cJSON *item = calloc(1, sizeof *item);
    if (item != NULL) {
        item->type = type;
    }
    return item;
}

void uw_json_append(cJSON *parent, cJSON *item)
{
    if (parent->child == NULL) {
        parent->child = item;
        item->prev = item;
    } else {
        cJSON *last = parent->child->prev;
        last->next = item;
        item->prev = last;
        parent->child->prev = item;
    }
}

void cJSON_free(void *text)
{
    free(text);
}

void cJSON_Delete(cJSON *item)
{
    while (item != NULL) {
        cJSON *next = item->next;
        cJSON_Delete(item->child);
        free(item->valuestring);
        free(item->string);
        free(item);
        item = next;
    }
}

static cJSON_bool is(const cJSON *item, int types)
{
    return item != NULL && (item->type & types) != 0;
}

cJSON_bool cJSON_IsArray(const cJSON *item)
{
    return is(item, cJSON_Array);
}

cJSON_bool cJSON_IsObject(const cJSON *item)
{
    return is(item, cJSON_Object);
}

cJSON_bool cJSON_IsString(const cJSON *item)
{
    return is(item, cJSON_String);
}

cJSON_bool cJSON_IsNumber(const cJSON *item)
{
    return is(item, cJSON_Number);
}

cJSON_bool cJSON_IsBool(const cJSON *item)
{
    return is(item, cJSON_True | cJSON_False);
}

cJSON_bool cJSON_IsTrue(const cJSON *item)
{
    return is(item, cJSON_True);
}

int cJSON_GetArraySize(const cJSON *item)
{
    int n = 0;
    const cJSON *e;
    cJSON_ArrayForEach(e, item) {
        n++;
    }
    return n;
}

cJSON *cJSON_GetArrayItem(const cJSON *item, int index)
{
    cJSON *e = item != NULL && index >= 0 ? item->child : NULL;
    for (; e != NULL && index > 0; index--) {
        e = e->next;
    }
    return e;
}

cJSON *cJSON_GetObjectItemCaseSensitive(const cJSON *object, const char *name)
{
    cJSON *e = object != NULL && name != NULL ? object->child : NULL;
    while (e != NULL && (e->string == NULL || strcmp(e->string, name) != 0)) {
        e = e->next;
    }
    return e;
}

char *cJSON_GetStringValue(const cJSON *item)
{
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

cJSON *cJSON_CreateObject(void)
{
    return uw_json_new(cJSON_Object);
}

cJSON *cJSON_CreateDoubleArray(const double *x, int n)
{
    cJSON *array = uw_json_new(cJSON_Array);
    for (int i = 0; i < n && array != NULL; i++) {
        cJSON *e = uw_json_new(cJSON_Number);
        if (e == NULL) {
            cJSON_Delete(array);
            return NULL;
        }
        e->valuedouble = x[i];
        uw_json_append(array, e);
    }
    return array;
}

static char *copy_of(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

cJSON_bool cJSON_AddItemToObject(cJSON *object, const char *name, cJSON *item)
{
    char *key = object != NULL && item != NULL ? copy_of(name) : NULL;
    if (key == NULL) {
        return 0;
    }
    free(item->string);
    item->string = key;
    uw_json_append(object, item);
    return 1;
}

/* Of a node that may be missing for want of memory. */
static cJSON *add(cJSON *object, const char *name, cJSON *item)
{
    if (item != NULL && !cJSON_AddItemToObject(object, name, item)) {
        cJSON_Delete(item);
        return NULL;
    }
    return item;
}

cJSON *cJSON_AddObjectToObject(cJSON *object, const char *name)
{
    return add(object, name, uw_json_new(cJSON_Object));
}

cJSON *cJSON_AddNumberToObject(cJSON *object, const char *name, double x)
{
    cJSON *item = uw_json_new(cJSON_Number);
    if (item != NULL) {
        item->valuedouble = x;
    }
    return add(object, name, item);
}

cJSON *cJSON_AddStringToObject(cJSON *object, const char *name, const char *text)
{
    cJSON *item = uw_json_new(cJSON_String);
    if (item != NULL) {
        item->valuestring = copy_of(text);
        if (item->valuestring == NULL) {
            cJSON_Delete(item);
            return NULL;
        }
    }
    return add(object, name, item);
}

cJSON *cJSON_AddBoolToObject(cJSON *object, const char *name, cJSON_bool x)
{
    return add(object, name, uw_json_new(x ? cJSON_True : cJSON_False));
}
