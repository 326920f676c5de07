/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/status.h - result codes and error sentences
 *
 * Every fallible function returns int: >= 0 is success or a count, < 0 is one of the codes below.
 * The list is append-only: a code keeps its number. A function that reads bytes from a file, a peer
 * or a configuration also fills a struct uw_error with a sentence that names cause and remedy.
 *
 * Memory     caller owns struct uw_error; nothing is kept
 * Blocking   never          Context  any thread
 */
#ifndef UWASA_STATUS_H
#define UWASA_STATUS_H

#include "uwasa/cplusplus.h"

#include <stdarg.h>

UW_C_BEGIN

/*        code         value  sentence */
#define UW_STATUS_LIST(X)                                                                        \
    X(OK, 0, "done")                                                                             \
    X(ERR_AGAIN, -1, "try again later")                                                          \
    X(ERR_INVALID, -2, "invalid argument or configuration value")                                \
    X(ERR_SHAPE, -3, "tensor shapes do not match")                                               \
    X(ERR_UNSUPPORTED, -4, "not supported by this build or backend")                             \
    X(ERR_NOMEM, -5, "memory region too small")                                                  \
    X(ERR_SEALED, -6, "the arena is sealed")                                                     \
    X(ERR_IO, -7, "input or output failed")                                                      \
    X(ERR_CLOSED, -8, "the peer or the device is closed")                                        \
    X(ERR_TOOBIG, -9, "message or file too large")                                               \
    X(ERR_CORRUPT, -10, "the data is damaged or malformed")                                      \
    X(ERR_MISMATCH, -11, "belongs to another model, run or version")                             \
    X(ERR_NONFINITE, -12, "NaN or infinity")                                                     \
    X(ERR_NOTFOUND, -13, "not found")                                                            \
    X(ERR_DENIED, -14, "authentication failed or permission denied")                             \
    X(ERR_TIMEOUT, -15, "timed out")                                                             \
    X(ERR_FULL, -16, "no space left")

enum uw_status {
#define UW_STATUS_ENUM(name, value, text) UW_##name = value,
    UW_STATUS_LIST(UW_STATUS_ENUM)
#undef UW_STATUS_ENUM
};

#define UW_ERROR_TEXT_BYTES 256

/* An error sentence; "" after success, always NUL-terminated. */
struct uw_error {
    int code;
    char text[UW_ERROR_TEXT_BYTES];
};

/* Name of a code, "UW_ERR_SHAPE"; "UW_ERR_UNKNOWN" for other numbers. Static storage. */
const char *uw_status_name(int code);

/* Sentence of a code, without a full stop. Static storage. */
const char *uw_status_text(int code);

/* Fill err (may be NULL) with a code and a printf-style sentence, truncated to fit.
 *
 * Returns code, so that a failing function can `return uw_error_set(err, UW_ERR_SHAPE, ...)`. */
int uw_error_set(struct uw_error *err, int code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

UW_C_END
#endif
