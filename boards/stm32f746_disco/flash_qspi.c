/* SPDX-License-Identifier: Apache-2.0
 *
 * The board's N25Q128A: subsectors of 4 kB, pages of 256 bytes.
 *
 * Source     Micron, "N25Q128A" data sheet */
#include "stm32f746.h"

#include <string.h>

#define QSPI 0xa0001000u
#define QSPI_CR UW_REG(QSPI + 0x00u)
#define QSPI_DCR UW_REG(QSPI + 0x04u)
#define QSPI_SR UW_REG(QSPI + 0x08u)
#define QSPI_FCR UW_REG(QSPI + 0x0cu)
#define QSPI_DLR UW_REG(QSPI + 0x10u)
#define QSPI_CCR UW_REG(QSPI + 0x14u)
#define QSPI_AR UW_REG(QSPI + 0x18u)
#define QSPI_DR (*(volatile uint8_t *)(uintptr_t)(QSPI + 0x20u))

#define AHB3_QSPI (1u << 1)
#define CR_27_MHZ_ON (7u << 24 | 1u << 4 | 1u)
#define DCR_16_MB (23u << 16 | 1u << 8)
#define SR_DONE (1u << 1)
#define SR_FIFO (1u << 2)
#define SR_BUSY (1u << 5)
#define CCR_INSTRUCTION (1u << 8)       /* on one line, like the next two */
#define CCR_ADDRESS (1u << 10 | 2u << 12)
#define CCR_DATA (1u << 24)
#define CCR_READ (1u << 26)

#define WRITE_ENABLE 0x06u
#define READ_STATUS 0x05u
#define READ 0x03u
#define PAGE_PROGRAM 0x02u
#define SUBSECTOR_ERASE 0x20u
#define RESET_ENABLE 0x66u
#define RESET_MEMORY 0x99u
#define STATUS_BUSY 1u
#define CR_ABORT 2u
#define BUSY_US 4000000u                /* an erasure takes 3 s at most */

#define SECTOR_BYTES 4096u
#define SECTORS_N 4096u
#define PAGE_BYTES 256u
#define PROGRAM_BYTES 16u
#define TRIES 10000000u

static bool wait_for(uint32_t flag, bool set)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        if (((QSPI_SR & flag) != 0) == set) {
            return true;
        }
    }
    return false;
}

static int abandon(void)
{
    QSPI_CR |= CR_ABORT;
    (void)wait_for(SR_BUSY, false);
    return UW_ERR_IO;
}

/* Send an instruction, with an address if ccr says so, and read or write bytes. */
static int transfer(uint32_t ccr, uint32_t at, uint8_t *in, const uint8_t *out, uint32_t bytes)
{
    if (!wait_for(SR_BUSY, false)) {
        return UW_ERR_IO;
    }
    if (bytes > 0) {
        QSPI_DLR = bytes - 1u;
    }
    QSPI_CCR = ccr;
    if ((ccr & CCR_ADDRESS) != 0) {
        QSPI_AR = at;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        if (!wait_for(SR_FIFO | SR_DONE, true)) {
            return abandon();
        }
        if (in != NULL) {
            in[i] = QSPI_DR;
        } else {
            QSPI_DR = out[i];
        }
    }
    bool done = wait_for(SR_DONE, true);
    QSPI_FCR = SR_DONE;
    return done ? UW_OK : abandon();
}

static int enable_write(void)
{
    return transfer(CCR_INSTRUCTION | WRITE_ENABLE, 0, NULL, NULL, 0);
}

static int wait_ready(const struct uw_flash *f)
{
    uint8_t status = STATUS_BUSY;
    uint64_t begin_us = uw_machine_now_us();
    while ((status & STATUS_BUSY) != 0) {
        if (uw_machine_now_us() - begin_us > BUSY_US) {
            return UW_ERR_IO;
        }
        int rc = transfer(CCR_READ | CCR_DATA | CCR_INSTRUCTION | READ_STATUS, 0, &status, NULL, 1);
        if (rc < 0) {
            return rc;
        }
        if (f->idle != NULL) {
            f->idle(f->idle_arg);
        }
    }
    return UW_OK;
}

static bool inside(uint32_t at, uint32_t bytes)
{
    return at <= SECTORS_N * SECTOR_BYTES && bytes <= SECTORS_N * SECTOR_BYTES - at;
}

static int flash_read(struct uw_flash *f, uint32_t at, void *buf, uint32_t bytes)
{
    (void)f;
    if (!inside(at, bytes)) {
        return UW_ERR_INVALID;
    }
    return bytes == 0 ? UW_OK
                      : transfer(CCR_READ | CCR_DATA | CCR_ADDRESS | CCR_INSTRUCTION | READ, at,
                                 buf, NULL, bytes);
}

/* Program up to one page. */
static int program_page(struct uw_flash *f, uint32_t at, const uint8_t *p, uint32_t bytes)
{
    uint8_t got[PAGE_BYTES];
    int rc = enable_write();
    rc = rc < 0 ? rc : transfer(CCR_DATA | CCR_ADDRESS | CCR_INSTRUCTION | PAGE_PROGRAM, at, NULL,
                                p, bytes);
    rc = rc < 0 ? rc : wait_ready(f);
    rc = rc < 0 ? rc : flash_read(f, at, got, bytes);
    return rc < 0 ? rc : memcmp(got, p, bytes) == 0 ? UW_OK : UW_ERR_IO;
}

static int program(struct uw_flash *f, uint32_t at, const void *buf, uint32_t bytes)
{
    const uint8_t *p = (const uint8_t *)buf;
    if (!inside(at, bytes) || at % PROGRAM_BYTES != 0 || bytes % PROGRAM_BYTES != 0) {
        return UW_ERR_INVALID;
    }
    int rc = UW_OK;
    while (bytes > 0 && rc == UW_OK) {
        uint32_t room = PAGE_BYTES - at % PAGE_BYTES, n = bytes < room ? bytes : room;
        rc = program_page(f, at, p, n);
        p += n;
        at += n;
        bytes -= n;
    }
    return rc;
}

static int erase(struct uw_flash *f, uint32_t sector)
{
    if (sector >= SECTORS_N) {
        return UW_ERR_INVALID;
    }
    int rc = enable_write();
    rc = rc < 0 ? rc : transfer(CCR_ADDRESS | CCR_INSTRUCTION | SUBSECTOR_ERASE,
                                sector * SECTOR_BYTES, NULL, NULL, 0);
    return rc < 0 ? rc : wait_ready(f);
}

static const struct uw_flash_ops ops = {
    .name = "qspi", .read = flash_read, .program = program, .erase = erase};

struct uw_flash uw_flash_qspi = {.ops = &ops, .sector_bytes = SECTOR_BYTES,
                                 .sectors_n = SECTORS_N, .program_bytes = PROGRAM_BYTES};

void uw_flash_qspi_start(void)
{
    RCC_AHB3ENR |= AHB3_QSPI;
    uw_pin_function(PORT_B, 2, 9);
    uw_pin_function(PORT_B, 6, 10);
    uw_pin_function(PORT_D, 11, 9);
    uw_pin_function(PORT_D, 12, 9);
    uw_pin_function(PORT_D, 13, 9);
    uw_pin_function(PORT_E, 2, 9);
    QSPI_DCR = DCR_16_MB;
    QSPI_CR = CR_27_MHZ_ON;
    /* Another program may have left the chip in four-line mode. */
    (void)transfer(CCR_INSTRUCTION | RESET_ENABLE, 0, NULL, NULL, 0);
    (void)transfer(CCR_INSTRUCTION | RESET_MEMORY, 0, NULL, NULL, 0);
}
