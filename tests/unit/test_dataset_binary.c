/* SPDX-License-Identifier: Apache-2.0
 *
 * IDX, MNIST and CIFAR-10: a good file gives its samples, a malformed one a code and a sentence
 * that names the file and the place. */
#include "dataset_files.h"

/* ---- IDX ---- */

static const uint8_t two_images[] = {0, 0, 8, 3, 0, 0, 0,  2,   0, 0, 0,
                                     1, 0, 0, 0, 3, 0, 51, 255, 1, 2, 3};
static const uint8_t two_labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 4, 0};

static const char *idx_spec(void)
{
    static char spec[400];
    snprintf(spec, sizeof spec, "idx:%s,%s", at("images"), at("labels"));
    return spec;
}

static void write_pair(void)
{
    write_file("images", two_images, sizeof two_images);
    write_file("labels", two_labels, sizeof two_labels);
}

static void test_idx_bytes_are_divided_by_255(void **state)
{
    (void)state;
    write_pair();
    struct uw_data d = open_good(idx_spec(), NULL);
    assert_int_equal(d.base->samples_n, 2);
    assert_int_equal(d.base->channels, 1);
    assert_int_equal(d.base->height, 1);
    assert_int_equal(d.base->width, 3);
    assert_int_equal(d.base->classes, 5);
    expect_sample(&d, 0, (float[]){0.0f, 51.0f / 255.0f, 1.0f}, 4);
    expect_sample(&d, 1, (float[]){1.0f / 255.0f, 2.0f / 255.0f, 3.0f / 255.0f}, 0);
    float x[3];
    uint32_t label;
    assert_int_equal(d.base->ops->read(d.base, 2, x, &label), UW_ERR_INVALID);
    uw_data_close(&d);
    assert_null(d.base);
    uw_data_close(&d);
}

static void test_idx_floats_of_rank_4_are_taken_as_they_are(void **state)
{
    (void)state;
    static const uint8_t images[] = {0, 0, 0x0d, 4, 0, 0, 0,    1,    0, 0, 0,    2,    0, 0,
                                     0, 1, 0,    0, 0, 1, 0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 1};
    write_file("images", images, sizeof images);
    write_file("labels", labels, sizeof labels);
    struct uw_data d = open_good(idx_spec(), NULL);
    assert_int_equal(d.base->channels, 2);
    expect_sample(&d, 0, (float[]){1.0f, -2.5f}, 1);
    uw_data_close(&d);
}

/* Two values of each type: -2 (254 bytes of 255 in unsigned ones) and 3. */
static void test_idx_values_of_every_type_are_read(void **state)
{
    static const struct {
        uint8_t type, bytes, value[16];
        float first, second;
    } types[] = {
        {0x08, 1, {254, 3}, 254.0f / 255.0f, 3.0f / 255.0f},
        {0x09, 1, {254, 3}, -2.0f, 3.0f},
        {0x0b, 2, {255, 254, 0, 3}, -2.0f, 3.0f},
        {0x0c, 4, {255, 255, 255, 254, 0, 0, 0, 3}, -2.0f, 3.0f},
        {0x0d, 4, {0xc0, 0, 0, 0, 0x40, 0x40}, -2.0f, 3.0f},
        {0x0e, 8, {0xc0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x08}, -2.0f, 3.0f}};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 1};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        uint8_t file[32] = {0, 0, types[i].type, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2};
        memcpy(file + 16, types[i].value, sizeof types[i].value);
        write_file("images", file, 16u + 2u * types[i].bytes);
        write_file("labels", labels, sizeof labels);
        struct uw_data d = open_good(idx_spec(), NULL);
        expect_sample(&d, 0, (float[]){types[i].first, types[i].second}, 1);
        uw_data_close(&d);
    }
}

/* More classes than a byte has: labels of 16 and of 32 bits. */
static void test_idx_labels_of_every_size_are_read(void **state)
{
    static const uint8_t of_16[] = {0, 0, 0x0b, 1, 0, 0, 0, 2, 3, 231, 1, 0};
    static const uint8_t of_32[] = {0, 0, 0x0c, 1, 0, 0, 0, 2, 0, 0, 3, 231, 0, 0, 1, 0};
    static const uint8_t of_8[] = {0, 0, 9, 1, 0, 0, 0, 2, 4, 0};
    static const uint8_t below[] = {0, 0, 0x0b, 1, 0, 0, 0, 2, 0, 1, 255, 255};
    static const uint8_t above[] = {0, 0, 0x0c, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0, 0};
    static const uint8_t floats[] = {0, 0, 0x0d, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0};
    (void)state;
    write_pair();
    for (uint32_t i = 0; i < 2; i++) {
        write_file("labels", i == 0 ? of_16 : of_32, i == 0 ? sizeof of_16 : sizeof of_32);
        struct uw_data d = open_good(idx_spec(), NULL);
        assert_int_equal(d.base->classes, 1000);
        expect_sample(&d, 0, (float[]){0.0f, 51.0f / 255.0f, 1.0f}, 999);
        expect_sample(&d, 1, (float[]){1.0f / 255.0f, 2.0f / 255.0f, 3.0f / 255.0f}, 256);
        uw_data_close(&d);
    }
    write_file("labels", of_8, sizeof of_8);
    struct uw_data d = open_good(idx_spec(), NULL);
    assert_int_equal(d.base->classes, 5);
    uw_data_close(&d);
    write_file("labels", below, sizeof below);
    expect_error(idx_spec(), UW_ERR_CORRUPT, "byte 10: label -1");
    write_file("labels", above, sizeof above);
    expect_error(idx_spec(), UW_ERR_CORRUPT, "byte 12: label 65536");
    write_file("labels", floats, sizeof floats);
    expect_error(idx_spec(), UW_ERR_UNSUPPORTED, "labels are whole");
}

static void test_idx_large_sample_crosses_every_block_border(void **state)
{
    (void)state;
    for (uint32_t width = 4094; width <= 4098; width++) {
        uint8_t *file = calloc(1, 16 + 2 * (size_t)width);
        uint8_t header[16] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0};
        header[14] = (uint8_t)(width >> 8);
        header[15] = (uint8_t)width;
        memcpy(file, header, 16);
        float *x = malloc(width * sizeof *x);
        for (uint32_t i = 0; i < width; i++) {
            file[16 + width + i] = (uint8_t)(i * 7);
            x[i] = (float)(uint8_t)(i * 7) / 255.0f;
        }
        write_file("images", file, 16 + 2 * (size_t)width);
        write_file("labels", two_labels, sizeof two_labels);
        struct uw_data d = open_good(idx_spec(), NULL);
        expect_sample(&d, 1, x, 0);
        uw_data_close(&d);
        free(x);
        free(file);
    }
}

static void test_idx_every_truncation_is_refused(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < sizeof two_images; bytes++) {
        write_pair();
        write_file("images", two_images, bytes);
        expect_error(idx_spec(), UW_ERR_CORRUPT, at("images"));
    }
    for (size_t bytes = 0; bytes < sizeof two_labels; bytes++) {
        write_pair();
        write_file("labels", two_labels, bytes);
        expect_error(idx_spec(), UW_ERR_CORRUPT, at("labels"));
    }
}

static void damage_image(size_t byte, uint8_t value, int code, const char *part)
{
    uint8_t copy[sizeof two_images];
    memcpy(copy, two_images, sizeof copy);
    copy[byte] = value;
    write_pair();
    write_file("images", copy, sizeof copy);
    expect_error(idx_spec(), code, part);
}

static void test_idx_damaged_headers_name_the_byte(void **state)
{
    (void)state;
    damage_image(0, 9, UW_ERR_CORRUPT, "byte 0");
    damage_image(2, 0x0a, UW_ERR_UNSUPPORTED, "byte 2: type 0x0a");
    damage_image(3, 0, UW_ERR_UNSUPPORTED, "byte 3: 0 dimensions");
    damage_image(3, 5, UW_ERR_UNSUPPORTED, "byte 3: 5 dimensions");
    damage_image(3, 2, UW_ERR_UNSUPPORTED, "byte 3: 2 dimensions");
    damage_image(7, 0, UW_ERR_CORRUPT, "byte 4: dimension 0 is 0");
    damage_image(4, 0xff, UW_ERR_CORRUPT, "byte 4: dimension 0");
    damage_image(7, 1, UW_ERR_CORRUPT, "too long");
    damage_image(7, 3, UW_ERR_CORRUPT, "cut off");
    damage_image(12, 0x7f, UW_ERR_TOOBIG, "byte 12");
    write_file("images", "\x1f\x8b\x08\x00", 4);
    expect_error(idx_spec(), UWASA_ZLIB ? UW_ERR_CORRUPT : UW_ERR_UNSUPPORTED,
                 UWASA_ZLIB ? "damaged" : "gzip -d");
}

static void test_idx_labels_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const uint8_t three[] = {0, 0, 8, 1, 0, 0, 0, 3, 4, 0, 1};
    write_pair();
    write_file("labels", three, sizeof three);
    expect_error(idx_spec(), UW_ERR_MISMATCH, "3 labels for the 2 images");
    write_file("labels", two_images, sizeof two_images);
    expect_error(idx_spec(), UW_ERR_UNSUPPORTED, "labels are whole");
    unlink(at("labels"));
    expect_error(idx_spec(), UW_ERR_NOTFOUND, "labels: not there");
    expect_error("idx:one", UW_ERR_INVALID, "idx:IMAGES,LABELS");
    expect_error("idx:a,b,c", UW_ERR_INVALID, "idx:IMAGES,LABELS");
    expect_error("idx:a,", UW_ERR_INVALID, "idx:IMAGES,LABELS");
}

static void test_idx_second_pair_is_the_test_set(void **state)
{
    (void)state;
    static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3, 9, 9, 9};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 7};
    char spec[800];
    write_pair();
    write_file("images2", images, sizeof images);
    write_file("labels2", labels, sizeof labels);
    snprintf(spec, sizeof spec, "%s,%s,%s", idx_spec(), at("images2"), at("labels2"));
    for (int test = 0; test <= 1; test++) {
        struct uw_data d = open_good(spec, &(struct uw_data_config){.test = test});
        assert_int_equal(d.base->samples_n, test ? 1 : 2);
        assert_int_equal(d.base->classes, 8);
        uw_data_close(&d);
    }
    uint8_t wider[sizeof images];
    memcpy(wider, images, sizeof images);
    wider[11] = 3;
    wider[15] = 1;
    write_file("images2", wider, sizeof wider);
    expect_error(spec, UW_ERR_MISMATCH, "differ in shape");
}

/* ---- MNIST ---- */

static void test_mnist_reads_its_four_names_and_explains_what_is_missing(void **state)
{
    (void)state;
    char spec[128];
    snprintf(spec, sizeof spec, "mnist:%s", folder);
    expect_error(spec, UW_ERR_NOTFOUND, "tools/get-data mnist");
    write_text("train-images-idx3-ubyte.gz", "x");
    expect_error(spec, UW_ERR_CORRUPT, "train-images-idx3-ubyte.gz: 1 bytes");
    unlink(at("train-images-idx3-ubyte.gz"));
    write_file("train-images-idx3-ubyte", two_images, sizeof two_images);
    expect_error(spec, UW_ERR_NOTFOUND, "train-labels-idx1-ubyte: not there");
    write_file("train-labels-idx1-ubyte", two_labels, sizeof two_labels);
    struct uw_data d = open_good(spec, NULL);
    assert_int_equal(d.base->classes, 10);
    uw_data_close(&d);

    static const uint8_t eleven[] = {0, 0, 8, 1, 0, 0, 0, 2, 4, 10};
    write_file("train-labels-idx1-ubyte", eleven, sizeof eleven);
    expect_error(spec, UW_ERR_CORRUPT, "byte 9: label 10; 0 .. 9");
}

static void test_idx_sets_have_their_own_names_and_labels(void **state)
{
    (void)state;
    char spec[128];
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 26, 1};
    static const uint8_t none[] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 1};
    write_file("emnist-letters-train-images-idx3-ubyte", two_images, sizeof two_images);
    write_file("emnist-letters-train-labels-idx1-ubyte", labels, sizeof labels);
    snprintf(spec, sizeof spec, "emnist-letters:%s", folder);
    struct uw_data d = open_good(spec, NULL);
    assert_int_equal(d.base->classes, 26);
    expect_sample(&d, 0, (float[]){0.0f, 51.0f / 255.0f, 1.0f}, 25);
    uw_data_close(&d);
    write_file("emnist-letters-train-labels-idx1-ubyte", none, sizeof none);
    expect_error(spec, UW_ERR_CORRUPT, "label 0; 1 .. 26 are allowed");
    write_file("train-images-idx3-ubyte", two_images, sizeof two_images);
    write_file("train-labels-idx1-ubyte", two_labels, sizeof two_labels);
    snprintf(spec, sizeof spec, "fashion-mnist:%s", folder);
    d = open_good(spec, NULL);
    assert_int_equal(d.base->classes, 10);
    uw_data_close(&d);
}

static void test_idx_labels_from_1_are_counted_from_0_where_the_model_fits(void **state)
{
    (void)state;
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 4, 1};
    write_pair();
    write_file("labels", labels, sizeof labels);
    struct uw_data d = open_good(idx_spec(), &(struct uw_data_config){.outputs = 4});
    assert_int_equal(d.base->classes, 4);
    expect_sample(&d, 0, (float[]){0.0f, 51.0f / 255.0f, 1.0f}, 3);
    uw_data_close(&d);
    d = open_good(idx_spec(), &(struct uw_data_config){.outputs = 5});
    assert_int_equal(d.base->classes, 5);
    uw_data_close(&d);
}

static void test_packed_files_are_read_unpacked(void **state)
{
    (void)state;
    static const uint8_t packed[] = {
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x33, 0xd4, 0x31, 0xd2,
        0x31, 0xe0, 0x32, 0xd6, 0x31, 0xd1, 0x31, 0xe4, 0x02, 0x00, 0x4d, 0x07, 0xe8, 0xbf,
        0x0c, 0x00, 0x00, 0x00};
    char spec[200];
    snprintf(spec, sizeof spec, "csv:%s,test=0", at("a.csv"));
    write_file("a.csv", packed, sizeof packed);
    if (!UWASA_ZLIB) {
        expect_error(spec, UW_ERR_UNSUPPORTED, "gzip -d");
        return;
    }
    struct uw_data d = open_good(spec, NULL);
    assert_int_equal(d.base->samples_n, 2);
    expect_sample(&d, 1, (float[]){3.0f, 4.0f}, 1);
    uw_data_close(&d);
    for (size_t cut = 3; cut < sizeof packed; cut++) {
        write_file("a.csv", packed, cut);
        expect_error(spec, UW_ERR_CORRUPT, "compressed, and damaged");
    }
}

/* ---- CIFAR-10 ---- */

enum { RECORD_BYTES = 3073 };

static void write_batch(const char *name, uint8_t first_label, uint32_t records_n)
{
    uint8_t *file = calloc(records_n, RECORD_BYTES);
    for (uint32_t i = 0; i < records_n; i++) {
        uint8_t *record = file + (size_t)i * RECORD_BYTES;
        memset(record, (int)(first_label + i) * 20, RECORD_BYTES);
        record[0] = (uint8_t)(first_label + i);
        record[RECORD_BYTES - 1] = 255;
    }
    write_file(name, file, (size_t)records_n * RECORD_BYTES);
    free(file);
}

static void test_cifar10_records_follow_each_other_across_files(void **state)
{
    (void)state;
    char spec[128];
    snprintf(spec, sizeof spec, "cifar10:%s", folder);
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i + 1);
        expect_error(spec, UW_ERR_NOTFOUND, name);
        write_batch(name, (uint8_t)(2 * i), 2);
    }
    struct uw_data d = open_good(spec, NULL);
    assert_int_equal(d.base->samples_n, 10);
    float x[3072];
    for (uint32_t i = 0; i < 10; i++) {
        for (uint32_t k = 0; k < 3072; k++) {
            x[k] = (float)(20 * i) / 255.0f;
        }
        x[3071] = 1.0f;
        expect_sample(&d, i, x, i);
    }
    uw_data_close(&d);
    struct uw_data_config test = {.test = true};
    write_batch("test_batch.bin", 3, 1);
    d = open_good(spec, &test);
    assert_int_equal(d.base->samples_n, 1);
    uw_data_close(&d);
}

static void test_cifar10_bad_sizes_and_labels_are_refused(void **state)
{
    (void)state;
    char spec[128];
    snprintf(spec, sizeof spec, "cifar10:%s", folder);
    write_batch("data_batch_1.bin", 0, 2);
    assert_int_equal(truncate(at("data_batch_1.bin"), 2 * RECORD_BYTES - 1), 0);
    expect_error(spec, UW_ERR_CORRUPT, "records of 3073 bytes");
    assert_int_equal(truncate(at("data_batch_1.bin"), 0), 0);
    expect_error(spec, UW_ERR_CORRUPT, "0 bytes");
    write_batch("data_batch_1.bin", 9, 2);
    expect_error(spec, UW_ERR_CORRUPT, "byte 3073: label 10; 0 .. 9");
}

static void test_file_cut_while_in_use_is_an_error_code(void **state)
{
    (void)state;
    write_pair();
    struct uw_data d = open_good(idx_spec(), NULL);
    assert_int_equal(truncate(at("images"), 17), 0);
    float x[3];
    uint32_t label;
    assert_int_equal(d.base->ops->read(d.base, 0, x, &label), UW_ERR_IO);
    uw_data_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_idx_sets_have_their_own_names_and_labels, empty_folder),
        cmocka_unit_test_teardown(test_idx_labels_from_1_are_counted_from_0_where_the_model_fits,
                                  empty_folder),
        cmocka_unit_test_teardown(test_packed_files_are_read_unpacked, empty_folder),
        cmocka_unit_test_teardown(test_idx_bytes_are_divided_by_255, empty_folder),
        cmocka_unit_test_teardown(test_idx_floats_of_rank_4_are_taken_as_they_are, empty_folder),
        cmocka_unit_test_teardown(test_idx_values_of_every_type_are_read, empty_folder),
        cmocka_unit_test_teardown(test_idx_labels_of_every_size_are_read, empty_folder),
        cmocka_unit_test_teardown(test_idx_large_sample_crosses_every_block_border, empty_folder),
        cmocka_unit_test_teardown(test_idx_every_truncation_is_refused, empty_folder),
        cmocka_unit_test_teardown(test_idx_damaged_headers_name_the_byte, empty_folder),
        cmocka_unit_test_teardown(test_idx_labels_that_do_not_fit_are_refused, empty_folder),
        cmocka_unit_test_teardown(test_idx_second_pair_is_the_test_set, empty_folder),
        cmocka_unit_test_teardown(test_mnist_reads_its_four_names_and_explains_what_is_missing,
                                  empty_folder),
        cmocka_unit_test_teardown(test_cifar10_records_follow_each_other_across_files,
                                  empty_folder),
        cmocka_unit_test_teardown(test_cifar10_bad_sizes_and_labels_are_refused, empty_folder),
        cmocka_unit_test_teardown(test_file_cut_while_in_use_is_an_error_code, empty_folder),
    };
    return cmocka_run_group_tests_name("dataset_binary", tests, make_folder, remove_folder);
}
