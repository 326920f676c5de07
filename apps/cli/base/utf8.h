/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.h - whether bytes are UTF-8
 *
 * Memory     none      Blocking  never      Context  any thread
 * Source     RFC 3629, section 4
 */
#ifndef UWASA_CLI_UTF8_H
#define UWASA_CLI_UTF8_H

#include <stddef.h>

/* Length of the UTF-8 character at s, at most `most`; 0: invalid, which includes surrogates,
 * overlong forms and values above U+10FFFF. Reads no byte behind a NUL. */
size_t uw_utf8_bytes(const char *s, size_t most);

#endif
