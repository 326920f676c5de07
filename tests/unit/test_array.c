/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of NumPy as samples and labels: .npy files and .npz archives, as numpy.save and
 * numpy.savez write them, and damaged ones. */
#include "dataset_files.h"

#include <stdlib.h>

struct bytes {
    uint8_t at[2048];
    size_t n;
};

static void add(struct bytes *b, const void *data, size_t n)
{
    assert_true(b->n + n <= sizeof b->at);
    memcpy(b->at + b->n, data, n);
    b->n += n;
}

static void add_number(struct bytes *b, uint32_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)(i < 4 ? value >> 8 * i : 0);
        add(b, &byte, 1);
    }
}

/* A .npy file of version 1. */
static struct bytes npy(const char *descr, const char *shape, const void *data, size_t bytes)
{
    struct bytes b = {.n = 0};
    char header[119];
    memset(header, ' ', sizeof header);
    int n = snprintf(header, sizeof header,
                     "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    header[n] = ' ';
    header[117] = '\n';
    add(&b, "\x93NUMPY\1\0", 8);
    add_number(&b, 118, 2);
    add(&b, header, 118);
    add(&b, data, bytes);
    return b;
}

static void write_npy(const char *name, const char *descr, const char *shape, const void *data,
                      size_t bytes)
{
    struct bytes b = npy(descr, shape, data, bytes);
    write_file(name, b.at, b.n);
}

static const char *spec(const char *options)
{
    static char text[700];
    snprintf(text, sizeof text, "npy:%s,%s%s", at("a.csv"), at("b.csv"), options);
    return text;
}

static void test_npy_types_are_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *descr;
        uint8_t data[16];
        size_t bytes;
        float want[2];
    } types[] = {
        {"|u1", {7, 255}, 2, {7.0f, 255.0f}},
        {"|i1", {7, 255}, 2, {7.0f, -1.0f}},
        {"|b1", {1, 0}, 2, {1.0f, 0.0f}},
        {"<i2", {1, 0, 0xfe, 0xff}, 4, {1.0f, -2.0f}},
        {">u2", {0, 1, 1, 0}, 4, {1.0f, 256.0f}},
        {"<i8", {3, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 16,
         {3.0f, -1.0f}},
        {"<f2", {0, 0x3c, 0, 0xc1}, 4, {1.0f, -2.5f}},
        {"<f4", {0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0}, 8, {1.5f, -2.0f}},
        {">f4", {0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0}, 8, {1.5f, -2.0f}},
        {"<f8", {0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0}, 16, {1.5f, -2.0f}},
    };
    static const uint8_t labels[] = {0, 1};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        print_message("%s\n", types[i].descr);
        write_npy("a.csv", types[i].descr, "(2, 1)", types[i].data, types[i].bytes);
        write_npy("b.csv", "|u1", "(2,)", labels, sizeof labels);
        struct uw_data d = open_good(spec(",test=0"), NULL);
        assert_int_equal(d.base->samples_n, 2);
        expect_sample(&d, 0, &types[i].want[0], 0);
        expect_sample(&d, 1, &types[i].want[1], 1);
        uw_data_close(&d);
    }
}

static void test_npy_in_the_order_of_fortran_is_turned(void **state)
{
    (void)state;
    static const float one[12] = {0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11};
    static const float want[2][6] = {{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}};
    static const uint8_t labels[] = {0, 1};
    write_npy("a.csv", "<f4', 'fortran_order': True, 'x': '", "(2, 3, 2)", one, sizeof one);
    write_npy("b.csv", "|u1", "(2,)", labels, sizeof labels);
    struct uw_data d = open_good(spec(",test=0"), NULL);
    expect_sample(&d, 0, want[0], 0);
    expect_sample(&d, 1, want[1], 1);
    uw_data_close(&d);
}

static void test_npy_of_words_is_refused_with_what_numbers_them(void **state)
{
    (void)state;
    static const uint8_t x[] = {1, 2}, words[40] = {97};
    write_npy("a.csv", "|u1", "(2, 1)", x, sizeof x);
    write_npy("b.csv", "<U5", "(2,)", words, sizeof words);
    expect_error(spec(""), UW_ERR_UNSUPPORTED,
                 "of b.csv are words: numpy.unique(y, return_inverse=True)[1] numbers labels");
}

static void test_npy_images_have_their_channels_first(void **state)
{
    (void)state;
    static const uint8_t last[2 * 5 * 5 * 3] = {0, 51, 102, 255};
    static const uint8_t labels[] = {4, 2};
    const struct uw_data_config as_they_are = {.channels = 5, .height = 5, .width = 3,
                                               .outputs = 5};
    float x[75], scale = 1.0f / 255.0f;
    uint32_t label;
    write_npy("a.csv", "|u1", "(2, 5, 5, 3)", last, sizeof last);
    write_npy("b.csv", "|u1", "(2, 1)", labels, sizeof labels);
    struct uw_data d = open_good(spec(",test=0"), NULL);
    assert_true(d.base->channels == 3 && d.base->height == 5 && d.base->width == 5);
    assert_int_equal(d.base->ops->read(d.base, 0, x, &label), UW_OK);
    assert_int_equal(label, 1); /* labels 2 and 4 are numbered in their order */
    assert_true(x[0] == 0.0f && x[25] == 51.0f * scale && x[50] == 102.0f * scale &&
                x[1] == 255.0f * scale);
    assert_true(tells(&d, "a.csv [2][5][5][3], b.csv [2][1]"));
    assert_true(tells(&d, "features divided by 255"));
    uw_data_close(&d);
    d = open_good(spec(",test=0"), &as_they_are);
    assert_true(d.base->channels == 5 && d.base->width == 3);
    assert_int_equal(d.base->ops->read(d.base, 0, x, &label), UW_OK);
    assert_int_equal(label, 4);
    assert_true(x[1] == 51.0f * scale && x[3] == 255.0f * scale);
    uw_data_close(&d);
}

static void test_npy_labels_may_be_one_hot_or_values(void **state)
{
    (void)state;
    static const float x[] = {1.0f, 2.0f};
    static const float hot[] = {0.0f, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f}, y[] = {0.5f, 0.25f};
    float target;
    write_npy("a.csv", "<f4", "(2,)", x, sizeof x);
    write_npy("b.csv", "<f4", "(2, 3)", hot, sizeof hot);
    struct uw_data d = open_good(spec(",test=0"), NULL);
    assert_int_equal(d.base->classes, 3);
    expect_sample(&d, 0, &x[0], 1);
    expect_sample(&d, 1, &x[1], 0);
    uw_data_close(&d);
    write_npy("b.csv", "<f4", "(2,)", y, sizeof y);
    d = open_good(spec(",test=0"), &(struct uw_data_config){.channels = 1, .outputs = 1});
    assert_int_equal(d.base->targets_n, 1);
    assert_int_equal(d.base->ops->read_target(d.base, 1, &target), UW_OK);
    assert_true(target == 0.25f);
    uw_data_close(&d);
    d = open_good(spec(",test=0,label=none"), NULL);
    assert_int_equal(d.base->channels, 1);
    assert_null(uw_data_columns(&d)->classes);
    uw_data_close(&d);
}

static void test_npy_that_is_malformed_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *descr, *shape;
        int code;
        const char *part;
    } bad[] = {
        {"<U3", "(2,)", UW_ERR_UNSUPPORTED, "are words"},
        {"|O", "(2,)", UW_ERR_UNSUPPORTED, "are objects of Python"},
        {"<f4", "(9,)", UW_ERR_CORRUPT, "cut off"},
        {"<f4", "(0, 2)", UW_ERR_CORRUPT, "empty"},
        {"<f4", "()", UW_ERR_UNSUPPORTED, "single number"},
        {"<f4", "(1, 1, 1, 1, 1, 1)", UW_ERR_UNSUPPORTED, "5 axes"},
        {"<f4", "(4000000000, 4000000000, 4000000000)", UW_ERR_TOOBIG, "too many"},
        {"<f4", "2", UW_ERR_CORRUPT, "no shape"},
        {"<f4", "(1, 2)", UW_ERR_MISMATCH, "another number of samples"},
    };
    static const float x[] = {1.0f, 2.0f};
    static const uint8_t labels[] = {0, 1};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_npy("a.csv", bad[i].descr, bad[i].shape, x, sizeof x);
        write_npy("b.csv", "|u1", "(2,)", labels, sizeof labels);
        expect_error(spec(""), bad[i].code, bad[i].part);
    }
    struct bytes good = npy("<f4", "(2,)", x, sizeof x);
    for (size_t cut = 0; cut < good.n; cut++) {
        write_file("a.csv", good.at, cut);
        expect_error(spec(""), UW_ERR_CORRUPT, "a.csv");
    }
    write_file("a.csv", good.at, good.n);
    static const int32_t large[] = {3, 16777217};
    write_npy("b.csv", "<i4", "(2,)", large, sizeof large);
    expect_error(spec(",test=0"), UW_ERR_CORRUPT, "a.csv:2: column 2: a label above 16777215");
    expect_error(spec(",test=0,classes=3+16777216"), UW_ERR_CORRUPT, "a label above 16777215");
    expect_error(spec(",label=1"), UW_ERR_INVALID, "are for tables of text");
    expect_error(spec(",lable=1"), UW_ERR_INVALID, "there are label=none, classes, scale");
    expect_error(spec(",drop=1"), UW_ERR_INVALID, "are for tables of text");
    expect_error(spec(",x.npy"), UW_ERR_INVALID, "a test set has two files");
}

/* ---- archives ---- */

/* (4,) of bytes 1, 2, 3, 1, deflated; DEFLATED_N bytes unpacked */
enum { DEFLATED_N = 132 };
#define DEFLATED_CRC 0x15318a75u
static const uint8_t deflated[] = {
    0x9b, 0xec, 0x17, 0xea, 0x1b, 0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a,
    0x9c, 0x5c, 0xa4, 0x6e, 0xa5, 0xa0, 0x5e, 0x53, 0x6a, 0xa8, 0xae, 0xa3, 0xa0, 0x9e, 0x96,
    0x5f, 0x54, 0x52, 0x94, 0x98, 0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a, 0x12, 0x77, 0x4b, 0xcc,
    0x29, 0x4e, 0x05, 0x8a, 0x17, 0x67, 0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a, 0x26, 0x3a, 0x9a,
    0x3a, 0x0a, 0xb5, 0x0a, 0x14, 0x00, 0x2e, 0x46, 0x26, 0x66, 0x46, 0x00};

struct archive {
    struct bytes all, directory;
    uint32_t members_n;
};

/* The check sum of zip archives, bit by bit. */
static uint32_t crc_of(const uint8_t *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < 8 * n; i++) {
        uint32_t bit = bytes[i / 8] >> i % 8 & 1u;
        crc = crc >> 1 ^ ((crc & 1u) != bit ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* crc: of the data as it is unpacked */
static void add_member(struct archive *z, const char *name, uint32_t method, const void *data,
                       size_t packed, size_t bytes, uint32_t crc)
{
    uint32_t start = (uint32_t)z->all.n, name_n = (uint32_t)strlen(name);
    add(&z->all, "PK\3\4\x14\0\0\0", 8);
    add_number(&z->all, method, 2);
    add_number(&z->all, 0, 4 + 4 + 4 + 4); /* time, checksum; sizes as in the directory only */
    add_number(&z->all, name_n, 2);
    add_number(&z->all, 0, 2);
    add(&z->all, name, name_n);
    add(&z->all, data, packed);
    add(&z->directory, "PK\1\2\x14\0\x14\0\0\0", 10);
    add_number(&z->directory, method, 2);
    add_number(&z->directory, 0, 4);
    add_number(&z->directory, crc, 4);
    add_number(&z->directory, (uint32_t)packed, 4);
    add_number(&z->directory, (uint32_t)bytes, 4);
    add_number(&z->directory, name_n, 2);
    add_number(&z->directory, 0, 2 + 2 + 2 + 2 + 4);
    add_number(&z->directory, start, 4);
    add(&z->directory, name, name_n);
    z->members_n++;
}

static void add_array(struct archive *z, const char *name, const char *descr, const char *shape,
                      const void *data, size_t bytes)
{
    struct bytes b = npy(descr, shape, data, bytes);
    add_member(z, name, 0, b.at, b.n, b.n, crc_of(b.at, b.n));
}

static void write_archive(const char *name, const struct archive *z)
{
    struct bytes b = z->all;
    add(&b, z->directory.at, z->directory.n);
    add(&b, "PK\5\6\0\0\0\0", 8);
    add_number(&b, z->members_n, 2);
    add_number(&b, z->members_n, 2);
    add_number(&b, (uint32_t)z->directory.n, 4);
    add_number(&b, (uint32_t)z->all.n, 4);
    add_number(&b, 0, 2);
    write_file(name, b.at, b.n);
}

static const char *npz(const char *options)
{
    static char text[300];
    snprintf(text, sizeof text, "npz:%s%s", at("a.csv"), options);
    return text;
}

static void test_npz_has_training_and_test_set_by_the_usual_names(void **state)
{
    (void)state;
    static const float x[] = {1.0f, 2.0f, 3.0f, 4.0f};
    static const uint8_t y[] = {0, 1}, other[] = {1};
    struct archive z = {.members_n = 0};
    add_array(&z, "x_train.npy", "<f4", "(2, 2)", x, sizeof x);
    add_array(&z, "y_train.npy", "|u1", "(2,)", y, sizeof y);
    add_array(&z, "x_test.npy", "<f4", "(1, 2)", x + 2, 8);
    add_array(&z, "y_test.npy", "|u1", "(1,)", other, sizeof other);
    write_archive("a.csv", &z);
    struct uw_data d = open_good(npz(""), NULL);
    assert_int_equal(d.base->samples_n, 2);
    expect_sample(&d, 1, x + 2, 1);
    uw_data_close(&d);
    d = open_good(npz(""), &(struct uw_data_config){.test = true});
    assert_int_equal(d.base->samples_n, 1);
    expect_sample(&d, 0, x + 2, 1);
    uw_data_close(&d);
    d = open_good(npz(",x=x_test,y=y_test,test=0"), NULL);
    assert_int_equal(d.base->samples_n, 1);
    uw_data_close(&d);
    expect_error(npz(",x=q"), UW_ERR_NOTFOUND, "no array q inside; it has \"x_train, y_train");
}

static void test_npz_test_set_may_be_an_archive_of_its_own(void **state)
{
    (void)state;
    static const float x[] = {1.0f, 2.0f, 3.0f, 4.0f};
    static const uint8_t y[] = {0, 1}, other[] = {1};
    struct archive z = {.members_n = 0}, t = {.members_n = 0}, images = {.members_n = 0};
    char options[200];
    add_array(&z, "x.npy", "<f4", "(2, 2)", x, sizeof x);
    add_array(&z, "masks.npy", "|u1", "(2,)", y, sizeof y);
    write_archive("a.csv", &z);
    add_array(&t, "x.npy", "<f4", "(1, 2)", x + 2, 8);
    add_array(&t, "y.npy", "|u1", "(1,)", other, sizeof other);
    write_archive("t.npz", &t);
    add_array(&images, "x.npy", "<f4", "(1, 1, 1, 2)", x, 8);
    add_array(&images, "x_test.npy", "<f4", "(1, 2, 1, 1)", x, 8);
    write_archive("i.npz", &images);
    snprintf(options, sizeof options, ",test=%s", at("t.npz"));
    struct uw_data d = open_good(npz(options), NULL);
    assert_int_equal(d.base->samples_n, 2);
    expect_sample(&d, 1, x + 2, 1);
    uw_data_close(&d);
    d = open_good(npz(options), &(struct uw_data_config){.test = true});
    assert_int_equal(d.base->samples_n, 1);
    expect_sample(&d, 0, x + 2, 1);
    assert_true(tells(&d, "1 of "));
    uw_data_close(&d);
    expect_error(npz(",test=abc"), UW_ERR_NOTFOUND, "test=abc: is neither a file nor a share");
    snprintf(options, sizeof options, "npz:%s", at("i.npz"));
    expect_error(options, UW_ERR_MISMATCH, "training and test set differ in shape");
    struct bytes b = npy("<f4", "(2, 2)", x, sizeof x);
    write_file("x.npy", b.at, b.n);
    snprintf(options, sizeof options, "npy:%s,label=none,test=%s", at("x.npy"), at("x.npy"));
    expect_error(options, UW_ERR_INVALID, "a test set of files is npy:X,Y,TESTX,TESTY");
}

/* Images to compute are turned to the output's axes: those that are told, or those of the input. */
static void test_npz_images_to_compute_are_turned_to_the_output(void **state)
{
    (void)state;
    static const struct {
        uint32_t output[3], in[3];
        bool turned;
    } cases[] = {
        {{2, 2, 3}, {1, 2, 3}, true},   {{2, 3, 2}, {1, 2, 3}, false},
        {{0, 0, 0}, {1, 2, 3}, true},   {{0, 0, 0}, {2, 3, 1}, false},
    };
    float x[6] = {0.0f}, y[12], got[12];
    struct archive z = {.members_n = 0};
    for (uint32_t k = 0; k < 12; k++) {
        y[k] = (float)k;
    }
    add_array(&z, "x.npy", "<f4", "(1, 1, 2, 3)", x, sizeof x);
    add_array(&z, "y.npy", "<f4", "(1, 2, 3, 2)", y, sizeof y);
    write_archive("a.csv", &z);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct uw_data_config config = {.channels = cases[i].in[0], .height = cases[i].in[1],
                                        .width = cases[i].in[2], .outputs = 12,
                                        .wanted = UW_DATA_WANT_VALUES};
        memcpy(config.output, cases[i].output, sizeof config.output);
        struct uw_data d = open_good(npz(",test=0"), &config);
        assert_int_equal(d.base->targets_n, 12);
        assert_int_equal(d.base->ops->read_target(d.base, 0, got), UW_OK);
        for (uint32_t k = 0; k < 12; k++) {
            float turned = (float)(k % 6 * 2 + k / 6);
            assert_true(got[k] == (cases[i].turned ? turned : y[k]));
        }
        assert_int_equal(tells(&d, "channels are moved to the front"), cases[i].turned);
        uw_data_close(&d);
    }
}

static void test_npz_that_is_compressed_is_read(void **state)
{
    (void)state;
    static const float x[] = {1.0f, 2.0f, 3.0f, 4.0f};
    struct archive z = {.members_n = 0};
    add_array(&z, "x.npy", "<f4", "(4, 1)", x, sizeof x);
    add_member(&z, "y.npy", 8, deflated, sizeof deflated, DEFLATED_N, DEFLATED_CRC);
    write_archive("a.csv", &z);
    if (!UWASA_ZLIB) {
        expect_error(npz(""), UW_ERR_UNSUPPORTED, "numpy.savez");
        return;
    }
    struct uw_data d = open_good(npz(",test=0"), NULL);
    expect_sample(&d, 2, x + 2, 2);
    uw_data_close(&d);
}

static void test_npz_with_another_check_sum_is_refused(void **state)
{
    (void)state;
    static const float x[] = {1.0f, 2.0f};
    struct bytes b = npy("<f4", "(2, 1)", x, sizeof x);
    struct archive z = {.members_n = 0};
    add_member(&z, "x.npy", 0, b.at, b.n, b.n, crc_of(b.at, b.n) ^ 4u);
    write_archive("a.csv", &z);
    expect_error(npz(""), UW_ERR_CORRUPT, "array x is damaged: its check sum is another");
}

static void test_npz_that_is_damaged_is_refused(void **state)
{
    (void)state;
    static const float x[] = {1.0f, 2.0f};
    static const uint8_t y[] = {0, 1};
    struct archive z = {.members_n = 0};
    add_array(&z, "x.npy", "<f4", "(2,)", x, sizeof x);
    add_array(&z, "y.npy", "|u1", "(2,)", y, sizeof y);
    write_archive("a.csv", &z);
    size_t bytes = z.all.n + z.directory.n + 22;
    uint8_t *whole = malloc(bytes);
    FILE *f = fopen(at("a.csv"), "rb");
    assert_int_equal(fread(whole, 1, bytes, f), bytes);
    fclose(f);
    for (size_t cut = 0; cut < bytes; cut++) {
        write_file("a.csv", whole, cut);
        expect_error(npz(""), UW_ERR_CORRUPT, "a.csv");
    }
    for (size_t i = 0; i < bytes; i++) { /* whatever is damaged: it opens, or says why not */
        struct uw_data d;
        struct uw_error err = {.text = ""};
        whole[i] ^= 0x55;
        write_file("a.csv", whole, bytes);
        whole[i] ^= 0x55;
        if (uw_data_open(&d, npz(""), NULL, &err) < 0) {
            assert_non_null(strstr(err.text, "a.csv"));
        }
        uw_data_close(&d);
    }
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_npy_types_are_numbers, empty_folder),
        cmocka_unit_test_teardown(test_npy_in_the_order_of_fortran_is_turned, empty_folder),
        cmocka_unit_test_teardown(test_npy_of_words_is_refused_with_what_numbers_them,
                                  empty_folder),
        cmocka_unit_test_teardown(test_npy_images_have_their_channels_first, empty_folder),
        cmocka_unit_test_teardown(test_npy_labels_may_be_one_hot_or_values, empty_folder),
        cmocka_unit_test_teardown(test_npy_that_is_malformed_is_refused, empty_folder),
        cmocka_unit_test_teardown(test_npz_has_training_and_test_set_by_the_usual_names,
                                  empty_folder),
        cmocka_unit_test_teardown(test_npz_test_set_may_be_an_archive_of_its_own, empty_folder),
        cmocka_unit_test_teardown(test_npz_images_to_compute_are_turned_to_the_output,
                                  empty_folder),
        cmocka_unit_test_teardown(test_npz_that_is_compressed_is_read, empty_folder),
        cmocka_unit_test_teardown(test_npz_with_another_check_sum_is_refused, empty_folder),
        cmocka_unit_test_teardown(test_npz_that_is_damaged_is_refused, empty_folder),
    };
    return cmocka_run_group_tests_name("array", tests, make_folder, remove_folder);
}
