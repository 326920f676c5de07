/* SPDX-License-Identifier: Apache-2.0
 *
 * The chip's true random number generator, monitored by its own tests of clock and seed. */
#include "stm32f746.h"

#include <string.h>

#define RNG_CR UW_REG(0x50060800u)
#define RNG_SR UW_REG(0x50060804u)
#define RNG_DR UW_REG(0x50060808u)
#define AHB2_RNG (1u << 6)
#define CR_ON (1u << 2)
#define SR_READY 1u
#define SR_FAULTS (1u << 5 | 1u << 6)   /* clock error, seed error; cleared by 0 */
#define TRIES 100000u

/* A word equal to the one before is rejected: the generator may be stuck. */
static int next_word(uint32_t *word, uint32_t before)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t status = RNG_SR;
        if ((status & SR_FAULTS) != 0) {
            RNG_SR = 0;                 /* by RM0385: clear, turn off and on again */
            RNG_CR = 0;
            RNG_CR = CR_ON;
        } else if ((status & SR_READY) != 0) {
            *word = RNG_DR;
            if (*word != before && *word != 0) {
                return UW_OK;
            }
        }
    }
    return UW_ERR_IO;
}

int uw_machine_entropy(void *buf, size_t bytes)
{
    static uint32_t last;
    uint8_t *p = buf;
    if ((RCC_AHB2ENR & AHB2_RNG) == 0 || (RNG_CR & CR_ON) == 0) {
        RCC_AHB2ENR |= AHB2_RNG;
        (void)RCC_AHB2ENR;              /* the clock needs two cycles */
        RNG_CR = CR_ON;
    }
    while (bytes > 0) {
        uint32_t word = 0;
        if (next_word(&word, last) < 0) {
            return UW_ERR_IO;
        }
        last = word;
        size_t n = bytes < sizeof word ? bytes : sizeof word;
        memcpy(p, &word, n);
        p += n;
        bytes -= n;
    }
    return UW_OK;
}
