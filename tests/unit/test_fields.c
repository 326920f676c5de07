/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages as bytes: nanopb's own coder writes the same and reads the same, of random messages and
 * of those with bytes changed. */
#include "test_support.h"

#include "message.h"

#include "uwasa/rng.h"

#include <pb_decode.h>
#include <pb_encode.h>

#define TRIALS 3000u
#define CHANGES 40u
#define BUF_BYTES 4096u

static const struct {
    const struct uw_message_form *form;
    const pb_msgdesc_t *theirs;
} forms[] = {{&uw_form_ping, uwasa_Ping_fields},
             {&uw_form_want, uwasa_Want_fields},
             {&uw_form_refuse, uwasa_Refuse_fields},
             {&uw_form_goodbye, uwasa_Goodbye_fields},
             {&uw_form_status_request, uwasa_StatusRequest_fields},
             {&uw_form_status_reply, uwasa_StatusReply_fields},
             {&uw_form_cell, uwasa_Cell_fields}};
#define FORMS (sizeof forms / sizeof forms[0])

/* Large enough for any of them, and aligned. */
union body {
    uwasa_Ping ping;
    uwasa_StatusReply reply;
    uwasa_Cell cell;
    uint8_t bytes[sizeof(uwasa_StatusReply)];
};

static void fill(struct uw_rng *rng, const struct uw_fields *t, uint8_t *body);

static void fill_value(struct uw_rng *rng, const struct uw_field *f, const struct uw_fields *t,
                       uint8_t *at, uint32_t bytes)
{
    uint32_t kind = f->kind & UW_FIELD_KINDS;
    if (kind == UW_FIELD_MESSAGE) {
        fill(rng, t, at);
    } else if (kind == UW_FIELD_TEXT) {
        uint32_t n = uw_rng_below(rng, bytes);
        for (uint32_t i = 0; i < n; i++) {
            at[i] = (uint8_t)(1u + uw_rng_below(rng, 255));
        }
    } else if (kind == UW_FIELD_BOOL) {
        at[0] = 1;
    } else {
        uint64_t v = (uint64_t)uw_rng_u32(rng) << 32 | uw_rng_u32(rng);
        v >>= uw_rng_below(rng, 64);
        uint32_t narrow = (uint32_t)v;
        if (bytes == 1u) {
            at[0] = (uint8_t)narrow;
        } else {
            memcpy(at, bytes == 8u ? (const void *)&v : (const void *)&narrow, bytes);
        }
    }
}

static void fill(struct uw_rng *rng, const struct uw_fields *t, uint8_t *body)
{
    const struct uw_fields *const *messages = t->messages;
    for (uint32_t i = 0; i < t->fields_n; i++) {
        const struct uw_field *f = &t->fields[i];
        uint8_t *at = body + f->offset;
        bool is_message = (f->kind & UW_FIELD_KINDS) == UW_FIELD_MESSAGE;
        const struct uw_fields *inner = is_message ? *messages++ : NULL;
        uint32_t n = 1, each = is_message ? inner->bytes : f->size;
        if (uw_rng_below(rng, 3) == 0) {
            continue;
        }
        if ((f->kind & UW_FIELD_ARRAY) != 0) {
            each = is_message ? each : sizeof(uint32_t);
            n = uw_rng_below(rng, f->size + 1u);
            pb_size_t count = (pb_size_t)n;
            memcpy(at - f->before, &count, sizeof count);
        } else if (is_message) {
            at[-(int)f->before] = 1;
        }
        for (uint32_t k = 0; k < n; k++) {
            fill_value(rng, f, inner, at + k * each, each);
        }
    }
}

static uint32_t write_both(uint32_t k, const union body *body, uint8_t *buf)
{
    uint8_t theirs[BUF_BYTES];
    pb_ostream_t stream = pb_ostream_from_buffer(theirs, sizeof theirs);
    assert_true(pb_encode(&stream, forms[k].theirs, body));
    int bytes = uw_fields_write(forms[k].form->fields, body, buf, BUF_BYTES);
    assert_int_equal(bytes, stream.bytes_written);
    assert_memory_equal(buf, theirs, stream.bytes_written);
    return (uint32_t)bytes;
}

/* Returns whether it can be read: only what nanopb reads, too. That takes a field's number of more
 * than 29 bits, if those are all ones: there is none, and here it is refused. */
static bool read_both(uint32_t k, const uint8_t *buf, uint32_t bytes)
{
    static union body ours, theirs;
    memset(&ours, 0, sizeof ours);
    memset(&theirs, 0, sizeof theirs);
    pb_istream_t stream = pb_istream_from_buffer(buf, bytes);
    int rc = uw_fields_read(forms[k].form->fields, buf, bytes, &ours);
    if (rc < 0) {
        assert_int_equal(rc, UW_ERR_CORRUPT);
        return false;
    }
    assert_true(pb_decode(&stream, forms[k].theirs, &theirs));
    assert_memory_equal(&ours, &theirs, forms[k].form->fields->bytes);
    return true;
}

static void test_fields_are_what_nanopb_writes_and_reads(void **state)
{
    (void)state;
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(8));
    for (uint32_t i = 0; i < TRIALS; i++) {
        static union body body;
        uint8_t buf[BUF_BYTES];
        uint32_t k = i % FORMS;
        memset(&body, 0, sizeof body);
        fill(&rng, forms[k].form->fields, body.bytes);
        assert_true(read_both(k, buf, write_both(k, &body, buf)));
    }
}

static void test_fields_of_changed_bytes_are_what_nanopb_reads(void **state)
{
    (void)state;
    struct uw_rng rng;
    uint32_t read_n = 0, refused_n = 0;
    uw_rng_seed(&rng, uw_test_seed(9));
    for (uint32_t i = 0; i < TRIALS; i++) {
        static union body body;
        uint8_t buf[BUF_BYTES], changed[BUF_BYTES];
        uint32_t k = i % FORMS;
        memset(&body, 0, sizeof body);
        fill(&rng, forms[k].form->fields, body.bytes);
        uint32_t bytes = write_both(k, &body, buf);
        for (uint32_t c = 0; bytes != 0 && c < CHANGES; c++) {
            memcpy(changed, buf, bytes);
            changed[uw_rng_below(&rng, bytes)] = (uint8_t)uw_rng_u32(&rng);
            changed[uw_rng_below(&rng, bytes < 8u ? bytes : 8u)] ^= (uint8_t)(1u << c % 8u);
            uint32_t left = c % 4u == 0 ? uw_rng_below(&rng, bytes) : bytes;
            uint8_t *exact = malloc(left + 1u);
            memcpy(exact, changed, left);
            if (read_both(k, exact, left)) {
                read_n++;
            } else {
                refused_n++;
            }
            free(exact);
        }
    }
    assert_true(read_n > TRIALS && refused_n > TRIALS);
}

static void test_fields_that_do_not_fit_are_told(void **state)
{
    (void)state;
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(10));
    for (uint32_t i = 0; i < 4u * FORMS; i++) {
        static union body body;
        uint8_t buf[BUF_BYTES];
        uint32_t k = i % FORMS;
        memset(&body, 0, sizeof body);
        fill(&rng, forms[k].form->fields, body.bytes);
        uint32_t bytes = write_both(k, &body, buf);
        for (uint32_t cap = 0; cap < bytes; cap++) {
            uint8_t *exact = malloc(cap + 1u);
            assert_int_equal(uw_fields_write(forms[k].form->fields, &body, exact, cap),
                             UW_ERR_TOOBIG);
            free(exact);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_are_what_nanopb_writes_and_reads),
        cmocka_unit_test(test_fields_of_changed_bytes_are_what_nanopb_reads),
        cmocka_unit_test(test_fields_that_do_not_fit_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
