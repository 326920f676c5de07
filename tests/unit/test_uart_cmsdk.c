/* SPDX-License-Identifier: Apache-2.0
 *
 * The UART of Arm's boards, not emulated, says how much may arrive at once: what its ring takes
 * while nobody reads. */
#include "uwasa/uart_cmsdk.h"

#include "uwasa/cortex_m.h"
#include "uwasa/machine.h"

#include "test_support.h"

#define RX_FULL 2u
#define RX_INTERRUPT 8u

static struct {
    uint32_t data, state, control, interrupt, divider;
} registers;

const struct uw_machine uw_machine = {.emulated = false};

void uw_interrupt_set(uint32_t number, void (*handler)(void))
{
    (void)number;
    (void)handler;
}

static void test_burst_is_what_arrives_without_loss_before_read(void **state)
{
    static struct uw_uart_cmsdk u;
    uint8_t got[2 * UW_UART_RING_BYTES];
    (void)state;
    uw_uart_cmsdk_start(&u, (uintptr_t)&registers, 0, 25000000, 115200, NULL);
    registers.data = 'x';
    registers.state = RX_FULL;          /* for ever */
    uw_uart_cmsdk_interrupt(&u);
    assert_int_equal(registers.control & RX_INTERRUPT, 0);
    registers.state = 0;
    assert_true(u.base.burst_bytes > 0);
    assert_int_equal(u.base.ops->read(&u.base, got, sizeof got), u.base.burst_bytes);
    assert_int_equal(registers.control & RX_INTERRUPT, RX_INTERRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_burst_is_what_arrives_without_loss_before_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
