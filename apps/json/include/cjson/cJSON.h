/* SPDX-License-Identifier: Apache-2.0
 *
 * cjson/cJSON.h - JSON in builds without libraries: what the program uses of cJSON's interface
 *
 * The names and their meaning are cJSON's, so that who includes <cjson/cJSON.h> gets cJSON where it
 * is and this where the build takes no libraries (UWASA_NET off). A value is a node; the members of
 * an object, or the elements of an array, are a list from `child` over `next`.
 *
 * Memory     heap; cJSON_Delete gives a tree back, cJSON_free a text
 * Blocking   never      Context  any thread, one at a time for each tree
 * Source     RFC 8259
 */
#ifndef UWASA_JSON_CJSON_H
#define UWASA_JSON_CJSON_H

#include <stddef.h>

enum {
    cJSON_False = 1 << 0,
    cJSON_True = 1 << 1,
    cJSON_NULL = 1 << 2,
    cJSON_Number = 1 << 3,
    cJSON_String = 1 << 4,
    cJSON_Array = 1 << 5,
    cJSON_Object = 1 << 6
};

typedef int cJSON_bool;

typedef struct cJSON {
    struct cJSON *next, *prev;  /* the first one's prev is the last one */
    struct cJSON *child;
    int type;
    char *valuestring;          /* of a string */
    double valuedouble;         /* of a number */
    char *string;               /* the key, of a member */
} cJSON;

/* Objects and arrays nested deeper than this are not read. */
#define CJSON_NESTING_LIMIT 1000

/* Read a text of so many bytes, its NUL among them.
 *   end         set to where reading ended, or to the mistake; may be NULL
 *   nothing_follows   else text behind the value is no mistake
 * Returns the tree, or NULL: no JSON, or no memory. */
cJSON *cJSON_ParseWithLengthOpts(const char *text, size_t bytes, const char **end,
                                 cJSON_bool nothing_follows);

/* The tree as text without blanks, to be given to cJSON_free; NULL: no memory. Numbers read back
 * to the same double; one that is not finite becomes null. */
char *cJSON_PrintUnformatted(const cJSON *item);

/* Give back a text. NULL is nothing. */
void cJSON_free(void *text);

/* Give back a tree. NULL is nothing. */
void cJSON_Delete(cJSON *item);

/* What a node is; NULL is nothing of all. */
cJSON_bool cJSON_IsArray(const cJSON *item);
cJSON_bool cJSON_IsObject(const cJSON *item);
cJSON_bool cJSON_IsString(const cJSON *item);
cJSON_bool cJSON_IsNumber(const cJSON *item);
cJSON_bool cJSON_IsBool(const cJSON *item);
cJSON_bool cJSON_IsTrue(const cJSON *item);

/* Elements or members; 0 of NULL and of anything else. */
int cJSON_GetArraySize(const cJSON *item);

/* The one at that place, from 0; NULL: there is none. */
cJSON *cJSON_GetArrayItem(const cJSON *item, int index);

/* The first member of that name; NULL: there is none. */
cJSON *cJSON_GetObjectItemCaseSensitive(const cJSON *object, const char *name);

/* The text of a string, which stays the node's; NULL: it is none. */
char *cJSON_GetStringValue(const cJSON *item);

/* New trees; NULL: no memory. */
cJSON *cJSON_CreateObject(void);
cJSON *cJSON_CreateDoubleArray(const double *x, int n);

/* Put a value, which then belongs to the object, behind its members; the key is copied. NULL is not
 * added. Returns 1, or 0: no memory; the value is the caller's then. */
cJSON_bool cJSON_AddItemToObject(cJSON *object, const char *name, cJSON *item);

/* A new value behind the members. Returns it; NULL: no memory. */
cJSON *cJSON_AddObjectToObject(cJSON *object, const char *name);
cJSON *cJSON_AddNumberToObject(cJSON *object, const char *name, double x);
cJSON *cJSON_AddStringToObject(cJSON *object, const char *name, const char *text);
cJSON *cJSON_AddBoolToObject(cJSON *object, const char *name, cJSON_bool x);

#define cJSON_ArrayForEach(element, array)                                              \
    for ((element) = (array) != NULL ? (array)->child : NULL; (element) != NULL;        \
         (element) = (element)->next)

#endif
