/* SPDX-License-Identifier: Apache-2.0
 *
 * Coded chunks: what is read is written again as the same bytes and comes to floats within the
 * vector, or is refused; and a node that pulls them stays in order. */
#include "fuzz.h"
#include "fuzz_form.h"
#include "fuzz_node.h"

#include "node/node_pull.h"
#include "wire/float_code.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 300u
#define CHUNK_N 28u
#define SIZE_N 100u
#define HEAD_BYTES UW_WIRE_SHORT_DATA_BYTES

static struct fuzz_node pulls;
static const struct uw_short_data known = {.chunk_n = CHUNK_N, .transfer = 3, .seq = 900,
                                           .asked_n = 16,
                                           .version = 0x12345, .coded = true};

/* Of a chunk, whole or in two parts, what the serving side sends. */
static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    float x[CHUNK_N];
    uint8_t buf[MOST_BYTES];
    for (int spread = 0; spread < 4; spread++) {
        for (uint32_t i = 0; i < CHUNK_N; i++) {
            x[i] = ldexpf((i % 2u != 0 ? -1.0f : 1.0f) * (1.0f + (float)i / 40.0f),
                          -(int)i * spread / 2);
        }
        x[3] = spread == 2 ? 0.0f : x[3];
        for (uint32_t n = 1; n <= CHUNK_N; n += 9u) {
            const struct uw_data d = {.version = 0x12340, .seq = 899, .count_n = (uint16_t)n};
            struct uw_serve_item item = {.chunk = n % 3u, .chunk_n = CHUNK_N, .coded = true};
            do {
                item.part = item.more;
                item.more = false;
                int bytes = uw_node_codes.write(&item, &d, x, buf, sizeof buf);
                if (bytes < 0) {
                    abort();
                }
                uw_fuzz_add(corpus, buf, (size_t)bytes);
            } while (item.more);
        }
    }
}

static int try_code(const uint8_t *code, uint32_t bytes)
{
    float x[MOST_BYTES];
    uint8_t again[MOST_BYTES];
    int n = uw_float_decode(code, bytes, x, MOST_BYTES);
    if (n < 0) {
        return n == UW_ERR_CORRUPT ? 0 : -1;
    }
    return uw_float_encode(x, (uint32_t)n, again, sizeof again) == (int)bytes &&
                   memcmp(again, code, bytes) == 0
               ? n
               : -1;
}

static int try_chunk(const uint8_t *input, uint32_t bytes)
{
    struct uw_data d;
    float x[MOST_BYTES];
    int rc = uw_node_codes.read(input, bytes, &known, SIZE_N, &d);
    if (rc < 0) {
        return rc == UW_ERR_CORRUPT ? 0 : -1;
    }
    if (d.coded_bytes == 0) {
        return d.offset_n < SIZE_N + CHUNK_N && d.count_n <= MOST_BYTES ? 1 : -1;
    }
    rc = uw_node_codes.floats(&d, x);
    return d.count_n != 0 && d.count_n <= CHUNK_N && d.coded_bytes == bytes - HEAD_BYTES
               ? 2 + (rc == UW_OK)
               : -1;
}

static int try_one(const uint8_t *input, size_t size)
{
    uint32_t bytes = (uint32_t)size;
    if (bytes == 0) {
        return 0;
    }
    int code = bytes > HEAD_BYTES ? try_code(input + HEAD_BYTES, bytes - HEAD_BYTES) : 0;
    int chunk = try_chunk(input, bytes);
    if (code < 0 || chunk < 0 || fuzz_node_try(&pulls, input, bytes) < 0) {
        return -1;
    }
    return chunk + 4 * (code < 32 ? code : 32);
}

/* The head, the largest exponent, or a byte of the code. */
static size_t mutate(struct uw_rng *rng, uint8_t *input, size_t bytes, size_t cap_bytes)
{
    static const struct uw_fuzz_field fields[] = {{0, 1}, {1, 1}, {2, 3}, {5, 1}, {6, 3},
                                                  {9, 1}, {9, 4}, {12, 2}};
    (void)cap_bytes;
    uw_fuzz_mutate_field(rng, input, bytes, fields, sizeof fields / sizeof fields[0]);
    return bytes;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"code", add_inputs, try_one, MOST_BYTES};
    pulls.code = true;
    fuzz_node_open(&pulls, true, UW_NODE_GOSSIP);
    return uw_fuzz_run_form(&target, &(struct uw_fuzz_form){mutate, NULL}, argc, argv);
}
