/* SPDX-License-Identifier: Apache-2.0
 *
 * A message of a lease of samples from anybody: what is read is written again as the same bytes. */
#include "fuzz.h"
#include "wire_form.h"

#include "shuffle/shuffle.h"

#include "uwasa/status.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 512u

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const float floats[3] = {0.0f, 0.5f, 1.0f};
    uint8_t buf[MOST_BYTES] = {0};
    for (int act = UW_SHUFFLE_OFFER; act <= UW_SHUFFLE_OVER; act++) {
        const struct uw_shuffle_message m = {
            .act = (enum uw_shuffle_act)act, .to = {1, 0x1234567890u}, .from = {2, 5},
            .sample_n = 784, .base = 4, .classes = 10, .wanted = 0x80000001u, .lease_ms = 30000,
            .chunk_n = 300, .offset_n = 600, .label = 7, .count_n = 3};
        int bytes = uw_shuffle_encode(&m, 12, floats, buf, sizeof buf);
        if (bytes < 0) {
            abort();
        }
        uw_fuzz_add(corpus, buf, (size_t)bytes);
    }
}

static int try_one(const uint8_t *input, size_t bytes)
{
    struct uw_shuffle_message m;
    uint32_t run;
    uint8_t written[MOST_BYTES] = {0};
    float floats[MOST_BYTES / 4u];
    int rc = uw_shuffle_decode(input, (uint32_t)bytes, &run, &m);
    if (rc != UW_OK) {
        return rc == UW_ERR_CORRUPT ? 0 : -1;
    }
    int finite = m.act != UW_SHUFFLE_DATA || uw_shuffle_floats(&m, floats);
    int n = uw_shuffle_encode(&m, run, floats, written, sizeof written);
    if (n != (int)bytes || memcmp(written + 8, input + 8, bytes - 8u) != 0 ||
        written[0] != input[0] || written[5] != input[5] ||
        uw_shuffle_encode(&m, run, floats, written, (uint32_t)bytes - 1u) >= 0) {
        return -1;
    }
    return 2 * (int)m.act + finite;
}

static size_t mutate(struct uw_rng *rng, uint8_t *input, size_t bytes, size_t cap_bytes)
{
    static const struct uw_fuzz_field fields[] = {
        {0, 1}, {5, 1}, {6, 2}, {8, 4}, {12, 4}, {16, 8}, {24, 4}, {28, 8}, {36, 4}, {40, 4},
        {44, 4}, {48, 4}};
    (void)cap_bytes;
    uw_fuzz_mutate_field(rng, input, bytes, fields, sizeof fields / sizeof fields[0]);
    return bytes;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"shuffle", add_inputs, try_one, MOST_BYTES};
    return uw_fuzz_run_form(&target, &(struct uw_fuzz_form){mutate, uw_fuzz_seal_wire}, argc, argv);
}
