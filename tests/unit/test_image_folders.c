/* SPDX-License-Identifier: Apache-2.0
 *
 * Images in a folder a class: what is a class, which images test, and how they are brought to the
 * size that a model takes. */
#include "dataset_files.h"

/* Write a file; its folders are made. */
static void put(const char *name, const void *data, size_t bytes)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    fclose(f);
}

/* A grey image of one value. */
static void put_grey(const char *name, uint32_t width, uint32_t height, uint8_t value)
{
    uint8_t bytes[64 + 400];
    int n = snprintf((char *)bytes, 64, "P5\n# made\n%u %u\n255\n", (unsigned)width,
                     (unsigned)height);
    memset(bytes + n, value, width * height);
    put(name, bytes, (size_t)n + width * height);
}

static const char *spec(const char *options)
{
    static char text[300];
    snprintf(text, sizeof text, "images:%s%s", folder, options);
    return text;
}

static uint32_t read_one(struct uw_data *d, uint64_t index, float *x)
{
    uint32_t label = 99;
    assert_int_equal(d->base->ops->read(d->base, index, x, &label), UW_OK);
    return label;
}

static void test_images_folders_are_classes(void **state)
{
    (void)state;
    float x[4];
    put_grey("dog/b.pgm", 2, 2, 51);
    put_grey("cat/a.PGM", 2, 2, 255);
    put_grey("cat/.hidden.pgm", 2, 2, 255);
    put("cat/notes.txt", "x", 1);
    struct uw_data d = open_good(spec(",test=0"), NULL);
    assert_int_equal(d.base->samples_n, 2);
    assert_true(d.base->channels == 1 && d.base->height == 2 && d.base->width == 2);
    assert_string_equal(uw_data_columns(&d)->classes[1], "dog");
    assert_int_equal(read_one(&d, 0, x), 0);
    assert_true(x[0] == 1.0f);
    assert_int_equal(read_one(&d, 1, x), 1);
    assert_true(x[3] == 51.0f / 255.0f);
    assert_true(tells(&d, "2 classes for training: cat (1), dog (1)"));
    uw_data_close(&d);
    d = open_good(spec(",test=0,classes=dog+bird+cat"), NULL);
    assert_int_equal(d.base->classes, 3);
    assert_int_equal(read_one(&d, 0, x), 2);
    uw_data_close(&d);
    expect_error(spec(",classes=dog+bird"), UW_ERR_MISMATCH, "folder cat is none of the 2 classes");
    expect_error(spec(",label=first"), UW_ERR_INVALID, "options are test, classes and label=none");
}

static void test_images_numbers_are_in_their_order(void **state)
{
    (void)state;
    float x[1];
    put_grey("10/a.pgm", 1, 1, 10);
    put_grey("9/a.pgm", 1, 1, 9);
    struct uw_data d = open_good(spec(",test=0"), NULL);
    assert_int_equal(read_one(&d, 0, x), 0);
    assert_true(x[0] == 9.0f / 255.0f);
    uw_data_close(&d);
}

static void test_images_test_set_is_a_folder_or_a_share(void **state)
{
    (void)state;
    float x[1];
    char name[32];
    for (int i = 0; i < 24; i++) {
        snprintf(name, sizeof name, "%s/%02d.pgm", i % 2 == 0 ? "a" : "b", i);
        put_grey(name, 1, 1, (uint8_t)i);
    }
    uint32_t seen[24] = {0}, of_class[2] = {0, 0};
    for (int test = 0; test <= 1; test++) {
        struct uw_data d = open_good(spec(""), &(struct uw_data_config){.test = test});
        for (uint32_t i = 0; i < d.base->samples_n; i++) {
            uint32_t label = read_one(&d, i, x);
            seen[(int)(x[0] * 255.0f + 0.5f)]++;
            of_class[label] += test == 1;
        }
        uw_data_close(&d);
    }
    for (int i = 0; i < 24; i++) {
        assert_int_equal(seen[i], 1);
    }
    assert_true(of_class[0] == 2 && of_class[1] == 2);
    (void)empty_folder(state);
    put_grey("train/a/1.pgm", 1, 1, 1);
    put_grey("train/b/2.pgm", 1, 1, 2);
    put_grey("val/b/3.pgm", 1, 1, 3);
    struct uw_data d = open_good(spec(""), &(struct uw_data_config){.test = true});
    assert_int_equal(d.base->samples_n, 1);
    assert_int_equal(read_one(&d, 0, x), 1);
    uw_data_close(&d);
    put_grey("val/c/4.pgm", 1, 1, 4);
    expect_error(spec(""), UW_ERR_MISMATCH, "folder c is none of the 2 classes for training");
}

static void test_images_are_brought_to_the_models_size(void **state)
{
    (void)state;
    static const uint8_t colour[] = "P6 2 2 255\n\xff\0\0\0\xff\0\0\0\xff\xff\xff\xff";
    static const struct {
        struct uw_data_config config;
        uint32_t channels, height, width;
        float first, last;
    } sizes[] = {
        {{.channels = 0}, 3, 2, 2, 255, 255},
        {{.channels = 3, .height = 1, .width = 1}, 3, 1, 1, 128, 128},
        {{.channels = 1, .height = 2, .width = 2}, 1, 2, 2, 76, 255},
        {{.channels = 3, .height = 4, .width = 4}, 3, 4, 4, 255, 255},
        {{.channels = 12}, 3, 2, 2, 255, 255},
        {{.channels = 4}, 1, 2, 2, 76, 255},
        {{.channels = 16}, 1, 4, 4, 76, 255},
        {{.channels = 5, .height = 5, .width = 3}, 5, 5, 3, 255, 255},
    };
    float x[75];
    put("a/1.ppm", colour, sizeof colour - 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct uw_data d = open_good(spec(",test=0"), &sizes[i].config);
        size_t n = (size_t)sizes[i].channels * sizes[i].height * sizes[i].width;
        assert_true(d.base->channels == sizes[i].channels && d.base->height == sizes[i].height &&
                    d.base->width == sizes[i].width);
        (void)read_one(&d, 0, x);
        assert_true(x[0] == sizes[i].first / 255.0f && x[n - 1] == sizes[i].last / 255.0f);
        uw_data_close(&d);
    }
    const struct uw_data_config two = {.channels = 2, .height = 2, .width = 2};
    expect_refused(spec(""), &two, UW_ERR_MISMATCH, "1 or 3 channels");
}

/* Two pixels of a colour with transparency. */
static const uint8_t png[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44,
    0x52, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0xf4,
    0x22, 0x7f, 0x8a, 0x00, 0x00, 0x00, 0x11, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0xf8,
    0xcf, 0x60, 0xdc, 0xc0, 0x90, 0xf6, 0x9f, 0x01, 0x00, 0x0e, 0xe3, 0x03, 0x18, 0xa7, 0x49,
    0x8c, 0x09, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

/* 8 x 8, all of them 200. */
static const uint8_t jpeg[] = {
    0xff, 0xd8, 0xff, 0xdb, 0x00, 0x43, 0x00, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01,
    0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01,
    0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01,
    0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01,
    0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0xff, 0xc0, 0x00, 0x0b,
    0x08, 0x00, 0x08, 0x00, 0x08, 0x01, 0x01, 0x11, 0x00, 0xff, 0xc4, 0x00, 0x14, 0x00, 0x01,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x0a, 0xff, 0xc4, 0x00, 0x14, 0x10, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xda, 0x00, 0x08, 0x01, 0x01, 0x00,
    0x00, 0x3f, 0x00, 0x48, 0x0f, 0xff, 0xd9};

static void test_images_of_png_and_jpeg(void **state)
{
    (void)state;
    float x[64];
    put("a/1.png", png, sizeof png);
    if (UWASA_PNG) {
        struct uw_data d = open_good(spec(",test=0"), NULL);
        assert_true(d.base->channels == 3 && d.base->width == 2);
        (void)read_one(&d, 0, x);
        assert_true(x[0] == 1.0f && x[1] == 0.0f && x[3] == 102.0f / 255.0f && x[5] == 1.0f);
        uw_data_close(&d);
        for (size_t cut = 0; cut < sizeof png - 12; cut++) {
            put("a/1.png", png, cut);
            expect_error(spec(""), cut <= 8 ? UW_ERR_UNSUPPORTED : UW_ERR_CORRUPT, "1.png");
        }
    } else {
        expect_error(spec(""), UW_ERR_UNSUPPORTED, "libpng");
    }
    (void)empty_folder(state);
    put("a/1.jpeg", jpeg, sizeof jpeg);
    if (UWASA_JPEG) {
        struct uw_data d = open_good(spec(",test=0"), NULL);
        assert_true(d.base->channels == 1 && d.base->height == 8);
        (void)read_one(&d, 0, x);
        assert_true(x[0] == 200.0f / 255.0f && x[63] == x[0]);
        uw_data_close(&d);
        for (size_t cut = 0; cut < sizeof jpeg - 2; cut++) {
            put("a/1.jpeg", jpeg, cut);
            expect_error(spec(""), cut <= 3 ? UW_ERR_UNSUPPORTED : UW_ERR_CORRUPT, "1.jpeg");
        }
    } else {
        expect_error(spec(""), UW_ERR_UNSUPPORTED, "libjpeg");
    }
}

static void test_images_that_are_not_there_are_told(void **state)
{
    (void)state;
    expect_error(spec("/nowhere"), UW_ERR_NOTFOUND, "no folder that can be read");
    expect_error(spec(""), UW_ERR_NOTFOUND, "a folder for each class is expected");
    put("a/1.pgm", "P5 2 2 255\nab", 13);
    expect_error(spec(""), UW_ERR_CORRUPT, "1.pgm: is a damaged image");
    put("a/1.pgm", "P5 99999 2 255\n", 15);
    expect_error(spec(""), UW_ERR_TOOBIG, "16384 pixels");
    put("a/1.pgm", "GIF89a", 6);
    expect_error(spec(""), UW_ERR_UNSUPPORTED, "no PNG, JPEG, PGM or PPM");
    (void)empty_folder(state);
    put_grey("1.pgm", 1, 1, 1);
    struct uw_data d = open_good(spec(",test=0"), NULL); /* no classes: for an autoencoder */
    assert_null(uw_data_columns(&d)->classes);
    uw_data_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_images_folders_are_classes, empty_folder),
        cmocka_unit_test_teardown(test_images_numbers_are_in_their_order, empty_folder),
        cmocka_unit_test_teardown(test_images_test_set_is_a_folder_or_a_share, empty_folder),
        cmocka_unit_test_teardown(test_images_are_brought_to_the_models_size, empty_folder),
        cmocka_unit_test_teardown(test_images_of_png_and_jpeg, empty_folder),
        cmocka_unit_test_teardown(test_images_that_are_not_there_are_told, empty_folder),
    };
    return cmocka_run_group_tests_name("images", tests, make_folder, remove_folder);
}
