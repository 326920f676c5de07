/* SPDX-License-Identifier: Apache-2.0 */
#include "secure_aes.h"

bool uw_aes_is_quick(void)
{
    return false;
}
