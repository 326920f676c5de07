/* SPDX-License-Identifier: Apache-2.0
 *
 * data=uart: samples from the second UART, stored in the rest of the last region. */
#include "gossip_node.h"

static const struct uw_dataset shape = {.channels = 1, .height = UW_DIGITS_SIDE,
                                        .width = UW_DIGITS_SIDE, .classes = UW_DIGITS_CLASSES};

static struct uw_link_serial_config line(void)
{
    return (struct uw_link_serial_config){
        .serial = uw_machine.serial, .queue_n = 1,
        .mtu_bytes = UW_SAMPLES_MESSAGE_BYTES + 1u + UW_DIGITS_PIXELS_N};
}

static size_t bytes_for(uint32_t samples_n)
{
    const struct uw_link_serial_config c = line();
    return uw_link_serial_bytes(&c) + uw_samples_bytes(&shape, samples_n);
}

/* The least number of samples. */
static uint32_t wanted(const struct uw_firmware *f)
{
    return f->settings.samples != 0 ? f->settings.samples : f->settings.batch;
}

size_t uw_firmware_samples_bytes(const struct uw_firmware *f)
{
    bool uart = f->settings.data == UW_SET_DATA_UART;
    return uart ? bytes_for(wanted(f)) + UW_ARENA_ALIGN : 0;
}

/* The number of samples as set, or as many as fit. */
static uint32_t choose(const struct uw_firmware *f, size_t left)
{
    size_t fixed = bytes_for(0), each = bytes_for(1) - fixed;
    size_t room = left > fixed ? (left - fixed) / each : 0;
    uint32_t most = room < UW_SAMPLES_MAX ? (uint32_t)room : UW_SAMPLES_MAX;
    uint32_t n = f->settings.samples != 0 ? f->settings.samples : most;
    return n >= f->settings.batch && n <= room ? n : 0;
}

int uw_firmware_open_samples(struct uw_firmware *f)
{
    struct uw_link_serial_config c = line();
    struct uw_dataset base = shape;
    if (uw_firmware_samples_bytes(f) == 0) {
        return UW_OK;
    }
    if (c.serial == NULL) {
        return uw_error_set(&f->err, UW_ERR_UNSUPPORTED, "data=uart: this board has none");
    }
    if (f->settings.link != UW_SET_LINK_ETHERNET) {
        return uw_error_set(&f->err, UW_ERR_UNSUPPORTED,
                            "data=uart: needs link=ethernet, other links use the second UART");
    }
    struct uw_arena *a = &f->arena[f->regions.n - 1u];
    size_t used = a->used_bytes + uw_arena_slack_bytes();
    base.samples_n = choose(f, a->capacity_bytes > used ? a->capacity_bytes - used : 0);
    if (base.samples_n == 0) {
        return uw_error_set(&f->err, UW_ERR_NOMEM, "data=uart, samples=%u: needs batch=%u or more, "
                            "and room for them", (unsigned)wanted(f), (unsigned)f->settings.batch);
    }
    f->samples_bytes = bytes_for(base.samples_n);
    c.memory_bytes = uw_link_serial_bytes(&c);
    int rc = uw_arena_take(a, f->samples_bytes, &c.memory);
    rc = rc < 0 ? rc : uw_link_serial_init(&f->serial, &c);
    if (rc < 0) {
        return uw_error_set(&f->err, rc, "data=uart: %s", uw_status_text(rc));
    }
    uw_samples_init(&f->uart, &base, &f->serial.link, c.serial->burst_bytes,
                    (uint8_t *)c.memory + c.memory_bytes);
    f->loader.config.dataset = &f->uart.base;
    f->loader.position = 0;
    return UW_OK;
}
