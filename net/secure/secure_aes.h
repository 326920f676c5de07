/* SPDX-License-Identifier: Apache-2.0
 *
 * secure_aes.h - what the choice of a cipher has to know of the processor
 *
 * Blocking   never      Context  any thread */
#ifndef UW_NET_SECURE_AES_H
#define UW_NET_SECURE_AES_H

#include <stdbool.h>

/* Does the processor have instructions for AES that Mbed TLS, 2.28 and later, makes use of? */
bool uw_aes_is_quick(void);

#endif
