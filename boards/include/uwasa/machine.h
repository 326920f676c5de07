/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/machine.h - the interface of a board without an operating system
 *
 * A port is a linker file and one `const struct uw_machine uw_machine` with its drivers; the
 * start-up code, the clock and everything above are shared. See boards/README.md; the program
 * port_check (apps/firmware) lists what is missing or breaks its contract.
 *
 * Life cycle: start-up code copies .data, clears .bss, turns the FPU on and calls init, then main.
 *
 * Units      bytes unless a name ends in _us (microseconds) or _ms
 * Memory     all static; no heap
 * Blocking   never, unless noted       Context  main loop, unless noted
 */
#ifndef UWASA_MACHINE_H
#define UWASA_MACHINE_H

#include "uwasa/cplusplus.h"
#include "uwasa/ethernet.h"
#include "uwasa/flash.h"
#include "uwasa/serial.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_MACHINE_REGIONS_MAX 4u

enum uw_reset_cause { UW_RESET_POWER, UW_RESET_PIN, UW_RESET_SOFTWARE, UW_RESET_WATCHDOG };

/* Memory that the linker file reserves for arenas. */
struct uw_machine_region {
    const char *name;               /* "dtcm" */
    uint8_t *start, *end;           /* aligned to 16; start NULL: unused entry */
};

struct uw_machine {
    const char *name;               /* "mps2-an500" */
    const char *core;               /* "Cortex-M7" */
    uint32_t core_hz;               /* of the processor, and of SysTick */
    bool emulated;                  /* its entropy must not be used for secrets */

    /* Set up clocks, pins, caches, drivers. Interrupts are off. */
    void (*init)(void);

    /* Fastest first. */
    struct uw_machine_region region[UW_MACHINE_REGIONS_MAX];

    struct uw_serial *console;      /* text output */
    struct uw_serial *serial;       /* frames or samples; NULL: none */
    struct uw_ethernet *ethernet;   /* NULL: none */
    struct uw_flash *flash;         /* for checkpoints and settings; NULL: none */

    /* Start a watchdog that resets the board ms to 2 ms milliseconds after the last watchdog_feed;
     * both NULL: none. */
    void (*watchdog_start)(uint32_t ms);
    void (*watchdog_feed)(void);

    /* Cause of the last reset. */
    enum uw_reset_cause (*reset_cause)(void);

    /* Sleep until the next interrupt (optional: NULL means busy waiting). */
    void (*wait)(void);

    /* Restart; does not return. */
    void (*reset)(void);
};

extern const struct uw_machine uw_machine;

/* Fill buf with true random data from the board's source. No default: a program that needs keys
 * does not link on a board without a source, unless it is built for the emulator (UWASA_EMULATOR).
 * May wait for the source. Returns UW_OK or UW_ERR_IO (buf is then unspecified). */
int uw_machine_entropy(void *buf, size_t bytes);

/* Microseconds since start, from SysTick. Never goes back. */
uint64_t uw_machine_now_us(void);

/* Peak use of the stack in bytes. */
size_t uw_machine_stack_bytes(void);

/* Get the arguments of the emulator, joined by spaces; "" on a board. "@FILE" as the last argument
 * is replaced by the content of that file of the host, to keep secrets out of process lists.
 * Returns UW_OK, UW_ERR_TOOBIG (longer than bytes), UW_ERR_NOTFOUND (no such file); text is then
 * "". */
int uw_machine_arguments(char *text, size_t bytes);

/* Use a file of the emulator's host as the board's flash. Returns UW_OK, UW_ERR_IO,
 * UW_ERR_UNSUPPORTED (a board). */
int uw_machine_flash_file(const char *path);

/* Called when main returns: the emulator ends with that status, a board restarts. */
void uw_machine_exit(int status);

UW_C_END
#endif
