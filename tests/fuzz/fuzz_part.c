/* SPDX-License-Identifier: Apache-2.0
 *
 * A message of an all-reduce from anybody: what is read is written again as the same bytes, with a
 * checksum and without. */
#include "fuzz.h"
#include "wire_form.h"

#include "wire/part.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 512u

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const float floats[5] = {1.0f, -2.5f, 0.0f, 1e30f, 1e-40f};
    uint8_t buf[MOST_BYTES];
    for (int type = UW_PART_DATA; type <= UW_PART_DONE; type++) {
        for (int reply = 0; reply < 2; reply++) {
            const struct uw_part p = {.type = (enum uw_part_type)type, .group = 3, .round = 9,
                                      .step = 2, .op = 1, .seq = 4, .offset_n = 77, .count_n = 5,
                                      .floats = floats, .reply = reply != 0,
                                      .want = {.transfer = 2, .seq = 4, .base = 8, .chunk_n = 100,
                                               .wanted = 0x8000000000000001u, .spread_us = 500}};
            int bytes = uw_part_encode(&p, 12, true, buf, sizeof buf);
            if (bytes < 0) {
                abort();
            }
            uw_fuzz_add(corpus, buf, (size_t)bytes);
        }
    }
}

static int try_one(const uint8_t *input, size_t bytes)
{
    _Alignas(4) uint8_t read[MOST_BYTES];
    uint8_t written[MOST_BYTES];
    int outcome = 0;
    for (int checked = 0; checked < 2; checked++) {
        struct uw_part p;
        uint32_t run;
        memcpy(read, input, bytes);
        int rc = uw_part_decode(read, (uint32_t)bytes, checked != 0, &run, &p);
        if (rc == UW_OK) {
            int n = uw_part_encode(&p, run, checked != 0, written, sizeof written);
            if (n != (int)bytes || written[0] != input[0] ||
                memcmp(written + UW_WIRE_HEAD_BYTES, input + UW_WIRE_HEAD_BYTES,
                       bytes - UW_WIRE_HEAD_BYTES) != 0 ||
                (checked != 0 && memcmp(written, input, bytes) != 0) ||
                uw_part_encode(&p, run, checked != 0, written, (uint32_t)bytes - 1u) >= 0) {
                return -1;
            }
        } else if (rc != UW_ERR_CORRUPT) {
            return -1;
        }
        outcome = outcome * 32 + (rc == UW_OK ? 1 + (int)p.type + 8 * (int)p.reply : 0);
    }
    return outcome;
}

static size_t mutate(struct uw_rng *rng, uint8_t *input, size_t bytes, size_t cap_bytes)
{
    static const struct uw_fuzz_field fields[] = {
        {0, 1}, {5, 1}, {6, 2}, {8, 4}, {12, 4}, {16, 4}, {20, 4}, {24, 2}, {26, 2}, {28, 8},
        {36, 4}, {40, 4}};
    (void)cap_bytes;
    uw_fuzz_mutate_field(rng, input, bytes, fields, sizeof fields / sizeof fields[0]);
    return bytes;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"part", add_inputs, try_one, MOST_BYTES};
    return uw_fuzz_run_form(&target, &(struct uw_fuzz_form){mutate, uw_fuzz_seal_wire}, argc, argv);
}
