/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector table, reset and faults. The addresses are symbols of the linker file (sections.ld). */
#include "start.h"

#include "uwasa/cortex_m.h"
#include "uwasa/machine.h"

#include <stdbool.h>
#include <string.h>

#define EXCEPTIONS_N 16u
#define VECTORS_N (EXCEPTIONS_N + UW_INTERRUPTS_N)

/* Registers of the system control block (Armv7-M and Armv8-M alike). */
#define CPACR (*(volatile uint32_t *)0xe000ed88u)
#define VTOR (*(volatile uint32_t *)0xe000ed08u)
#define CFSR (*(volatile uint32_t *)0xe000ed28u)
#define BFAR (*(volatile uint32_t *)0xe000ed38u)
#define NVIC_ENABLE ((volatile uint32_t *)0xe000e100u)

#define NMI 2u
#define CPACR_FPU (0xfu << 20)

extern uint32_t uw_stack_start[], uw_stack_end[], uw_data_start[], uw_data_end[];
extern uint32_t uw_bss_start[], uw_bss_end[];
extern const uint32_t uw_data_load[];
extern int main(void);

void uw_start(void);
void uw_fault(const uint32_t *frame);

typedef void (*handler_fn)(void);

static void hang(void)
{
    uw_fault(NULL);
}

/* Calls uw_fault; r0: address of the registers that the core stacked, r0-r3, r12, lr, pc, psr. */
__attribute__((naked)) static void fault(void)
{
    __asm volatile("tst lr, #4\n\t"
                   "ite eq\n\t"
                   "mrseq r0, msp\n\t"
                   "mrsne r0, psp\n\t"
                   "ldr r1, =uw_stack_end\n\t"     /* after a stack overflow, reset sp */
                   "mov sp, r1\n\t"
                   "b uw_fault");
}

static void print(const char *text)
{
    struct uw_serial *console = uw_machine.console;
    size_t bytes = strlen(text);
    bool open = console != NULL && console->ops != NULL;
    for (uint32_t tries = 0; open && bytes > 0 && tries < 1000000u; tries++) {
        int n = console->ops->write(console, text, (uint32_t)bytes);
        if (n < 0) {
            return;
        }
        text += n;
        bytes -= (size_t)n;
    }
}

static void print_number(const char *name, uint32_t value)
{
    char text[9];
    for (int i = 0; i < 8; i++) {
        text[i] = "0123456789abcdef"[value >> (28 - 4 * i) & 15u];
    }
    text[8] = '\0';
    print(name);
    print(text);
}

/* Reports a fault, or where the board hangs if the watchdog interrupts; then resets the board. */
void uw_fault(const uint32_t *frame)
{
    uint32_t exception;
    __asm volatile("mrs %0, ipsr" : "=r"(exception));
    bool hangs = exception == NMI;
    if (hangs) {
        print("\nwatchdog: hangs at");
    } else {
        print_number("\nfault: cfsr ", CFSR);
        print_number(" address ", BFAR);
    }
    if (frame >= uw_stack_start && frame < uw_stack_end) {
        print_number(" pc ", frame[6]);
        print_number(" lr ", frame[5]);
    }
    print("\n");
    if (!hangs) {
        uw_machine.reset();
    }
    for (;;) {
    }
}

struct vectors {
    const void *stack;
    handler_fn handler[VECTORS_N - 1u];
};

/* Interrupt handlers are registered at run time, so this table is in RAM. */
static struct vectors table __attribute__((aligned(512)));
_Static_assert(sizeof table <= 512, "a table is aligned to its size, rounded up to a power of two");

/* The table in flash is used during start-up, with interrupts off. */
struct first_vectors {
    const void *stack;
    handler_fn handler[EXCEPTIONS_N - 1u];
};

extern const struct first_vectors uw_vectors;
const struct first_vectors uw_vectors __attribute__((section(".vectors"), used)) = {
    .stack = uw_stack_end, .handler = {uw_start, fault, fault, fault, fault, fault}};

void uw_interrupt_set(uint32_t number, void (*handler)(void))
{
    table.handler[15u + number] = handler;
    NVIC_ENABLE[number / 32u] = 1u << number % 32u;
}

void uw_exception_set(uint32_t number, void (*handler)(void))
{
    table.handler[number - 1u] = handler;
}

__attribute__((noreturn)) void uw_start(void)
{
    __asm volatile("cpsid i");
    CPACR |= CPACR_FPU;
    __asm volatile("dsb\n\tisb");
    memcpy(uw_data_start, uw_data_load, (size_t)((char *)uw_data_end - (char *)uw_data_start));
    memset(uw_bss_start, 0, (size_t)((char *)uw_bss_end - (char *)uw_bss_start));
    table.stack = uw_stack_end;
    for (uint32_t i = 0; i < VECTORS_N - 1u; i++) {
        table.handler[i] = i < 6u ? fault : hang;
    }
    VTOR = (uint32_t)(uintptr_t)&table;
    uw_stack_paint();
    uw_clock_start(uw_machine.core_hz);
    uw_machine.init();
    __asm volatile("cpsie i");
    int rc = main();
    uw_machine_exit(rc);
    for (;;) {
    }
}
