/* SPDX-License-Identifier: Apache-2.0
 *
 * port_check - checks that a board keeps the contract of uwasa/machine.h. Prints a line for each
 * point: "ok", "missing" (the board lacks it) or "WRONG". Runs three times in a row: checks, resets
 * itself, and lets the watchdog reset it.
 *
 * Erases the last sector of the flash. In an emulator exits with 0 if nothing is wrong. */
#include "uwasa/link_serial.h"
#include "uwasa/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WATCHDOG_MS 300u
#define PATTERN 0x5a5a1234u
#define FRAME_BYTES 60u
#define SERIAL_FRAME_BYTES (UW_LINK_SERIAL_MTU_DEFAULT + 10u)   /* link=serial, at most */
#define ENTROPY_BYTES 64u

static uint32_t wrong;

/* The stage before a reset, in memory that survives the reset. */
enum stage { CHECKS = 0x43484b21, RESETS, HANGS };
static volatile uint32_t before __attribute__((section(".noinit")));

static void print(const char *text)
{
    size_t bytes = strlen(text);
    while (bytes > 0) {
        int n = uw_machine.console->ops->write(uw_machine.console, text, (uint32_t)bytes);
        if (n < 0) {
            return;
        }
        text += n;
        bytes -= (size_t)n;
    }
}

static void print_line(const char *verdict, const char *what, const char *format, va_list args)
{
    char reason[120], line[160];
    (void)vsnprintf(reason, sizeof reason, format, args);
    (void)snprintf(line, sizeof line, "%-8s %-14s %s\n", verdict, what, reason);
    print(line);
}

static void missing(const char *what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line("missing", what, format, args);
    va_end(args);
}

static void judge(bool good, const char *what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(good ? "ok" : "WRONG", what, format, args);
    va_end(args);
    wrong += good ? 0 : 1u;
}

static void check_facts(void)
{
    const struct uw_machine *m = &uw_machine;
    judge(m->name != NULL && m->core != NULL, "name", "%s, %s", m->name != NULL ? m->name : "?",
          m->core != NULL ? m->core : "?");
    judge(m->core_hz >= 1000000u, "core_hz", "%u", (unsigned)m->core_hz);
    judge(m->init != NULL && m->reset != NULL && m->reset_cause != NULL, "functions",
          "init, reset, reset_cause");
}

static void check_region(const struct uw_machine_region *r, uint32_t i)
{
    bool shaped = r->end > r->start && (uintptr_t)r->start % 16u == 0 &&
                  (uintptr_t)r->end % 4u == 0;
    bool held = shaped;
    if (shaped) {
        volatile uint32_t *word[2] = {(volatile uint32_t *)(void *)r->start,
                                      (volatile uint32_t *)(void *)(r->end - 4)};
        *word[0] = PATTERN;
        *word[1] = ~PATTERN;
        held = *word[0] == PATTERN && *word[1] == ~PATTERN;
    }
    judge(held, "region", "%u, %s: %u bytes%s", (unsigned)i, r->name,
          shaped ? (unsigned)(r->end - r->start) : 0u,
          !shaped ? ": ends or alignment are wrong" : !held ? ": does not hold its ends" : "");
}

static void check_regions(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < UW_MACHINE_REGIONS_MAX; i++) {
        if (uw_machine.region[i].start != NULL) {
            check_region(&uw_machine.region[i], i);
            n++;
        }
    }
    if (n == 0) {
        judge(false, "region", "none: a model has no memory");
    }
}

static void check_clock(void)
{
    uint64_t begin = uw_machine_now_us(), last = begin;
    bool back = false;
    for (uint32_t i = 0; i < 100000u; i++) {
        uint64_t now = uw_machine_now_us();
        back = back || now < last;
        last = now;
    }
    judge(!back && last > begin, "clock", "%s", back ? "goes back" : last == begin ? "stands still"
                                                                                   : "runs");
    if (uw_machine.wait == NULL) {
        missing("wait", "the processor is never put to sleep");
        return;
    }
    begin = uw_machine_now_us();
    uw_machine.wait();
    judge(uw_machine_now_us() - begin < 100000u, "wait", "ends with the next interrupt");
}

static void check_entropy(void)
{
    uint8_t a[ENTROPY_BYTES] = {0}, b[ENTROPY_BYTES] = {0};
    bool given = uw_machine_entropy(a, sizeof a) == UW_OK &&
                 uw_machine_entropy(b, sizeof b) == UW_OK;
    uint32_t ones = 0, repeats = 0;
    for (uint32_t i = 0; i < ENTROPY_BYTES; i++) {
        for (uint8_t bits = a[i]; bits != 0; bits = (uint8_t)(bits & (bits - 1u))) {
            ones++;
        }
        repeats += i > 0 && a[i] == a[i - 1u] ? 1u : 0u;
    }
    bool random = memcmp(a, b, sizeof a) != 0 && ones > 160u && ones < 352u && repeats < 8u;
    judge(given && random, "entropy", "%s", !given ? "the source fails"
                                            : !random ? "does not look random"
                                            : uw_machine.emulated ? "the host's: an emulator"
                                                                  : "looks random");
}

static void check_serial(void)
{
    struct uw_serial *s = uw_machine.serial;
    if (s == NULL) {
        missing("serial", "no frames and no samples over a second line");
        return;
    }
    uint8_t byte;
    int wrote = s->ops->write(s, "\n", 1), n = s->ops->read(s, &byte, 1);
    judge(wrote >= 0 && wrote <= 1 && n >= 0 && n <= 1, "serial", "%s, %u bits/s", s->ops->name,
          (unsigned)s->rate_bits_per_s);
    judge(s->burst_bytes == 0 || s->burst_bytes >= SERIAL_FRAME_BYTES, "serial burst",
          "%u bytes, 0: the sender waits; a frame has %u", (unsigned)s->burst_bytes,
          SERIAL_FRAME_BYTES);
}

static void check_ethernet(void)
{
    struct uw_ethernet *e = uw_machine.ethernet;
    uint8_t mac[UW_ETHERNET_MAC_BYTES] = {0}, frame[UW_ETHERNET_FRAME_MAX] = {0};
    if (e == NULL) {
        missing("ethernet", "only serial links");
        return;
    }
    int rc = e->ops->start(e, mac);
    if (rc < 0) {
        judge(false, "ethernet", "%s does not start: %s", e->ops->name, uw_status_text(rc));
        return;
    }
    bool own = (mac[0] & 1u) == 0 && (mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5]) != 0;
    judge(own, "mac", "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
          mac[5]);
    memset(frame, 0xff, 6);
    memcpy(frame + 6, mac, 6);
    frame[12] = 0x88;                   /* an EtherType for experiments, IEEE 802 */
    frame[13] = 0xb5;
    judge(e->ops->send(e, frame, FRAME_BYTES) == UW_OK, "send", "a frame");
    judge(e->ops->send(e, frame, UW_ETHERNET_FRAME_MAX + 1u) == UW_ERR_TOOBIG, "send",
          "no frame that is too large");
    do {
        rc = e->ops->recv(e, frame, sizeof frame);
    } while (rc > 0);
    judge(rc == UW_ERR_AGAIN, "recv", "%s", uw_status_text(rc));
    judge(e->burst_bytes >= 1500u, "burst_bytes", "%u", (unsigned)e->burst_bytes);
}

static bool reads(struct uw_flash *f, uint32_t at, const uint8_t *want, uint32_t bytes)
{
    uint8_t got[32];
    return f->ops->read(f, at, got, bytes) == UW_OK && memcmp(got, want, bytes) == 0;
}

static void check_flash(void)
{
    struct uw_flash *f = uw_machine.flash;
    uint8_t unit[32], erased[32];
    if (f == NULL) {
        missing("flash", "neither settings nor checkpoints are kept");
        return;
    }
    uint32_t n = f->program_bytes, last = f->sectors_n - 1u, at = last * f->sector_bytes;
    bool shaped = n > 0 && n <= 32u && (n & (n - 1u)) == 0 && f->sectors_n >= 4u &&
                  f->sector_bytes % n == 0;
    judge(shaped, "flash", "%s, %u sectors of %u bytes, units of %u", f->ops->name,
          (unsigned)f->sectors_n, (unsigned)f->sector_bytes, (unsigned)n);
    if (!shaped) {
        return;
    }
    memset(erased, 0xff, sizeof erased);
    for (uint32_t i = 0; i < n; i++) {
        unit[i] = (uint8_t)(i * 37u + 1u);
    }
    judge(f->ops->erase(f, last) == UW_OK && reads(f, at, erased, n), "erase",
          "the last sector, to 0xff");
    judge(f->ops->program(f, at, unit, n) == UW_OK && reads(f, at, unit, n) &&
              reads(f, at + n, erased, n),
          "program", "one unit, and not its neighbour");
    judge(f->ops->erase(f, f->sectors_n) == UW_ERR_INVALID &&
              f->ops->read(f, f->sectors_n * f->sector_bytes, unit, n) == UW_ERR_INVALID &&
              f->ops->program(f, f->sectors_n * f->sector_bytes, unit, n) == UW_ERR_INVALID,
          "bounds", "nothing beyond the last sector");
    judge(f->ops->erase(f, last) == UW_OK && reads(f, at, erased, n), "erase", "again");
}

static void check_stack(void)
{
    judge(uw_machine_stack_bytes() > 64u, "stack", "%u bytes so far",
          (unsigned)uw_machine_stack_bytes());
}

static void check_all(void)
{
    check_facts();
    check_regions();
    check_clock();
    check_entropy();
    check_serial();
    check_ethernet();
    check_flash();
    check_stack();
}

/* Feed the watchdog for longer than its period, then stop feeding it. */
static void hang(void)
{
    if (uw_machine.watchdog_start == NULL || uw_machine.watchdog_feed == NULL) {
        missing("watchdog", "a board that hangs stays so");
        return;
    }
    before = HANGS;
    uint64_t begin = uw_machine_now_us();
    uw_machine.watchdog_start(WATCHDOG_MS);
    while (uw_machine_now_us() - begin < 2000u * WATCHDOG_MS) {
        uw_machine.watchdog_feed();
    }
    judge(true, "watchdog", "waits while it is fed");
    while (uw_machine_now_us() - begin < 8000u * WATCHDOG_MS) {
    }
    judge(false, "watchdog", "does not reset a board that hangs");
}

/* A debugger's start counts as a reset, too. If the note does not survive a reset, this must not
 * lead to endless resets. */
static void begin(enum uw_reset_cause cause)
{
    before = CHECKS;
    check_all();
    before = 0;
    if (wrong != 0) {
        return;
    }
    if (cause == UW_RESET_SOFTWARE) {
        missing("reset", "not tried: this start was one; power on for a whole check");
        return;
    }
    before = RESETS;
    uw_machine.reset();
}

static void go_on(uint32_t stage, enum uw_reset_cause cause)
{
    switch (stage) {
    case CHECKS:
        judge(false, "checks", "end in a reset: after the last line before it");
        break;
    case RESETS:
        judge(cause == UW_RESET_SOFTWARE, "reset", "the board came back, and %s",
              cause == UW_RESET_SOFTWARE ? "knows why" : "does not say UW_RESET_SOFTWARE");
        if (wrong == 0) {
            hang();
        }
        break;
    case HANGS:
        judge(cause == UW_RESET_WATCHDOG, "watchdog", "resets a board that hangs%s",
              cause == UW_RESET_WATCHDOG ? "" : ", which does not say UW_RESET_WATCHDOG");
        break;
    default:
        begin(cause);
        break;
    }
}

int main(void)
{
    uint32_t stage = before;
    before = 0;
    go_on(stage, uw_machine.reset_cause());
    char line[64];
    (void)snprintf(line, sizeof line, "port_check: %u wrong\n", (unsigned)wrong);
    print(line);
    while (!uw_machine.emulated) {      /* its lines stay on the screen */
        if (uw_machine.reset_cause() == UW_RESET_WATCHDOG && uw_machine.watchdog_feed != NULL) {
            uw_machine.watchdog_feed();
        }
    }
    return wrong == 0 ? 0 : 1;
}
