/* SPDX-License-Identifier: Apache-2.0
 *
 * 8 MB of the board's MT48LC4M32B2-6A: four banks of 4096 rows and 256 columns; 16 of the 32 data
 * lines are connected. It runs at 108 MHz, half the processor's clock.
 *
 * Source     RM0385, the FMC's SDRAM controller; Micron, "MT48LC4M32B2" data sheet */
#include "stm32f746.h"

#define FMC 0xa0000000u
#define SDCR1 UW_REG(FMC + 0x140u)
#define SDTR1 UW_REG(FMC + 0x148u)
#define SDCMR UW_REG(FMC + 0x150u)
#define SDRTR UW_REG(FMC + 0x154u)
#define SDSR UW_REG(FMC + 0x158u)

#define AHB3_FMC 1u
#define SDCR_ROWS_12 (1u << 2)          /* columns: 0 means 8 bits */
#define SDCR_WIDTH_16 (1u << 4)
#define SDCR_BANKS_4 (1u << 6)
#define SDCR_CAS_3 (3u << 7)
#define SDCR_CLOCK_2 (2u << 10)
#define SDCR_READ_BURST (1u << 12)
#define SDSR_BUSY (1u << 5)

/* In clocks of 9.26 ns, less one: load mode 2 clocks, exit self-refresh 67 ns, row active 42 ns,
 * row cycle 60 ns; write recovery (at least row cycle - active - precharge), precharge and row to
 * column 18 ns each. */
#define SDTR_TIMES (1u | 7u << 4 | 4u << 8 | 6u << 12 | 2u << 16 | 1u << 20 | 1u << 24)

#define BANK_1 (1u << 4)
#define CLOCK_ON 1u
#define PRECHARGE_ALL 2u
#define REFRESH_8_TIMES (3u | 7u << 5)
#define MODE_CAS_3_SINGLE_WRITES (4u | 0x230u << 9)
#define REFRESH_COUNT 1667u             /* 64 ms for 4096 rows, less 20 clocks */
#define POWER_UP_US 100u
#define TRIES 100000u

#define ALTERNATE 12u

static void start_pins(void)
{
    static const struct { uint8_t port; uint16_t pins; } used[] = {
        {PORT_C, 0x0008}, {PORT_D, 0xc703}, {PORT_E, 0xff83}, {PORT_F, 0xf83f},
        {PORT_G, 0x8133}, {PORT_H, 0x0028}};
    for (uint32_t i = 0; i < sizeof used / sizeof used[0]; i++) {
        for (uint32_t pin = 0; pin < 16u; pin++) {
            if ((used[i].pins >> pin & 1u) != 0) {
                uw_pin_function((enum uw_port)used[i].port, pin, ALTERNATE);
            }
        }
    }
}

static void command(uint32_t what)
{
    SDCMR = BANK_1 | what;
    for (uint32_t i = 0; i < TRIES && (SDSR & SDSR_BUSY) != 0; i++) {
    }
}

void uw_sdram_start(void)
{
    RCC_AHB3ENR |= AHB3_FMC;
    start_pins();
    SDCR1 = SDCR_ROWS_12 | SDCR_WIDTH_16 | SDCR_BANKS_4 | SDCR_CAS_3 | SDCR_CLOCK_2 |
            SDCR_READ_BURST;
    SDTR1 = SDTR_TIMES;
    command(CLOCK_ON);
    uint64_t begin_us = uw_machine_now_us();
    while (uw_machine_now_us() - begin_us < POWER_UP_US) {
    }
    command(PRECHARGE_ALL);
    command(REFRESH_8_TIMES);
    command(MODE_CAS_3_SINGLE_WRITES);
    SDRTR = REFRESH_COUNT << 1;
    uw_protect(1, UW_SDRAM_START, UW_PROTECT_8M_CACHED);
}
