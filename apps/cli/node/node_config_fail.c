/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose mistake it is: an assignment's, a line's, the file's. */
#include "node_config_check.h"

#include <stdio.h>

/* The value of "key" or "object.key"; NULL: it is not there. */
static const cJSON *find_key(const cJSON *root, const char *key)
{
    const char *dot = strchr(key, '.');
    char object[32];
    if (root != NULL && dot != NULL) {
        snprintf(object, sizeof object, "%.*s", (int)(dot - key), key);
        root = cJSON_GetObjectItemCaseSensitive(root, object);
        key = dot + 1;
    }
    return root != NULL ? cJSON_GetObjectItemCaseSensitive(root, key) : NULL;
}

/* The last assignment of a key; NULL: there is none. */
static const char *find_set(const struct uw_opt_list *set, const char *key)
{
    size_t n = strlen(key);
    for (uint32_t i = set != NULL ? set->n : 0; i > 0; i--) {
        if (strncmp(set->item[i - 1u], key, n) == 0 && set->item[i - 1u][n] == '=') {
            return set->item[i - 1u];
        }
    }
    return NULL;
}

int uw_node_config_fail(struct uw_node_file *f, const char *key, const char *sentence,
                        struct uw_error *err)
{
    const cJSON *m = find_key(f->json.root, key);
    const char *set = find_set(f->set, key);
    if (set != NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "--set %.80s: \"%s\" %s", set, key, sentence);
    }
    if (m != NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "%.160s:%u: \"%s\" %s", f->json.file,
                            (unsigned)uw_json_line(&f->json, m), key, sentence);
    }
    return f->json.file != NULL ? uw_error_set(err, UW_ERR_INVALID, "%.160s: \"%s\" %s",
                                               f->json.file, key, sentence)
                                : uw_error_set(err, UW_ERR_INVALID, "\"%s\" %s", key, sentence);
}
