/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/serial_tty.h - struct uw_serial over a terminal device: UART, USB CDC, pseudo terminal
 *
 * The line is opened raw, 8 bits, no parity, one stop bit, no flow control; earlier input is
 * discarded. A device that disappears, such as the USB port of a board that restarts, is like an
 * unplugged cable: no input, and output is lost. Once a second it is opened again at its path.
 *
 *     struct uw_serial_tty tty;
 *     uw_serial_tty_open(&tty, "/dev/ttyACM0", 115200, &err);
 *     ...     a link over &tty.base
 *     uw_serial_tty_close(&tty);
 *
 * Memory     caller owns the struct; the path is copied      Blocking   never
 * Context    one thread per stream
 */
#ifndef UWASA_SERIAL_TTY_H
#define UWASA_SERIAL_TTY_H

#include "uwasa/cplusplus.h"
#include "uwasa/serial.h"

#include <stdbool.h>

UW_C_BEGIN

#define UW_SERIAL_TTY_PATH_BYTES 256u

struct uw_serial_tty {
    struct uw_serial base;      /* fd keeps its number while the device is away */
    char path[UW_SERIAL_TTY_PATH_BYTES];
    bool away;
    int quiet;                  /* write end of an empty pipe; -1: none */
    uint64_t look_us;           /* next attempt to open it */
};

/* Open a device exclusively.
 *
 *   baud   bits a second: 1200 to 4000000, as the system names them
 *   err    may be NULL; gets a sentence that names the device
 *
 * Returns UW_OK, UW_ERR_INVALID (no such rate, no terminal device), UW_ERR_TOOBIG (path too long),
 * UW_ERR_NOTFOUND, UW_ERR_DENIED, UW_ERR_AGAIN (another program has it), UW_ERR_IO. */
int uw_serial_tty_open(struct uw_serial_tty *s, const char *path, uint32_t baud,
                       struct uw_error *err);

/* Is it a rate that uw_serial_tty_open accepts? */
bool uw_serial_tty_baud_ok(uint32_t baud);

/* Release the device. Safe on a zeroed struct, after a failed open, and twice. */
void uw_serial_tty_close(struct uw_serial_tty *s);

UW_C_END
#endif
