/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/board.h"

#include <errno.h>
#include <sys/random.h>

int uw_board_entropy(void *buf, size_t bytes)
{
    uint8_t *p = buf;
    while (bytes > 0) {
        ssize_t got = getrandom(p, bytes, 0);
        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            return UW_ERR_IO;
        }
        p += got;
        bytes -= (size_t)got;
    }
    return UW_OK;
}
