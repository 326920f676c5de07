/* SPDX-License-Identifier: Apache-2.0
 *
 * json_read.h - strict reading of JSON that people write, with errors that name file and line
 *
 * Open a text, read values of its objects, close. The first mistake is kept in j->err, and every
 * later call returns a harmless default. So readers check for errors only once, at the end. cJSON
 * does not record line numbers; the line of a value is found by walking text and tree in parallel,
 * only when an error needs it.
 *
 * Memory     heap (through cJSON); texts that are returned live until uw_json_close
 * Blocking   never      Context  one thread per document
 */
#ifndef UWASA_CLI_JSON_READ_H
#define UWASA_CLI_JSON_READ_H

#include "args.h"
#include "uwasa/layer_keys.h"

#include <cjson/cJSON.h>

/* Longest text accepted. */
#define UW_JSON_BYTES_MAX (1024u * 1024u)

/* A block that is released with the document; its bytes follow. */
struct uw_json_kept {
    _Alignas(max_align_t) struct uw_json_kept *next;
};

struct uw_json {
    const char *file;           /* its name, for messages; borrowed */
    char *text;                 /* own copy */
    size_t text_bytes;
    cJSON *root;
    struct uw_error err;        /* the first mistake; code UW_OK: none so far */
    struct uw_json_kept *kept;
};

/* Parse a text. On a syntax error root is NULL and j->err has its position.
 * Returns UW_OK, UW_ERR_CORRUPT (syntax), UW_ERR_TOOBIG, UW_ERR_NOMEM; close in every case. */
int uw_json_open_text(struct uw_json *j, const char *file, const char *text, size_t text_bytes);

/* The same from a file. Also returns UW_ERR_NOTFOUND, UW_ERR_DENIED, UW_ERR_IO. */
int uw_json_open_file(struct uw_json *j, const char *file);

/* Release everything; safe after a failed open and twice. */
void uw_json_close(struct uw_json *j);

/* Memory that lives as long as the texts, not cleared. NULL: out of memory, in j->err. */
void *uw_json_keep(struct uw_json *j, size_t bytes);

/* Line (from 1) of a value in the tree; for a member of an object, that of its key. */
uint32_t uw_json_line(const struct uw_json *j, const cJSON *value);

/* Set the document's error to "file:line: sentence", unless there is one already.
 * Returns UW_ERR_INVALID. */
int uw_json_fail(struct uw_json *j, const cJSON *at, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* Check that `object` is an object, that every key is one of `keys` ("name|input|layers") and that
 * no key is repeated. `what` names the object in messages, "a model". */
void uw_json_keys(struct uw_json *j, const cJSON *object, const char *what, const char *keys);

/* A member, or NULL if it is missing (a mistake if required). */
const cJSON *uw_json_member(struct uw_json *j, const cJSON *object, const char *key,
                            bool required);

/* A member that is a text, not empty; `fallback` if missing. fallback NULL: it is required. Returns
 * "" after a mistake. */
const char *uw_json_text(struct uw_json *j, const cJSON *object, const char *key,
                         const char *fallback);

/* A whole number, min .. max. Returns min after a mistake. */
uint32_t uw_json_u32(struct uw_json *j, const cJSON *value, const char *key, uint32_t min,
                     uint32_t max);

/* The same for a number that may be negative. */
int32_t uw_json_i32(struct uw_json *j, const cJSON *value, const char *key, int32_t min,
                    int32_t max);

/* A number, in the range after rounding to float. Returns 0 after a mistake. */
float uw_json_real(struct uw_json *j, const cJSON *value, const char *key,
                   enum uw_real_range range);

/* A text that is one of `choices` ("none|tanh"). Returns its index, from 0; 0 after a mistake. */
uint32_t uw_json_choice(struct uw_json *j, const cJSON *value, const char *key,
                        const char *choices);

/* Number of elements of an array, 1 to max; 0 after a mistake. `what` names them in messages. */
uint32_t uw_json_elements(struct uw_json *j, const cJSON *value, const char *key, uint32_t max,
                          const char *what);

/* A member that is true or false; `fallback` if missing. */
bool uw_json_bool(struct uw_json *j, const cJSON *object, const char *key, bool fallback);

/* Set one option from a value that is neither object nor array. */
void uw_json_option(struct uw_json *j, const struct uw_opt *o, const cJSON *value, void *out);

/* Read a whole object into options by their table (args.h): key "b" of object "a" is row "a.b",
 * an array of texts fills a list, an array of numbers bits. */
void uw_json_options(struct uw_json *j, const cJSON *object, struct uw_opts opts, void *out);

#endif
