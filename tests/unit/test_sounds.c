/* SPDX-License-Identifier: Apache-2.0
 *
 * WAV files in a folder a class: their codings, how they become features, and the lists and special
 * folders of Speech Commands. */
#include "dataset_files.h"

#include "uwasa/sound.h"
#include "wav.h"

#define RATE 8000u

/* ---- files ---- */

static void put_little(uint8_t **p, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        *(*p)++ = (uint8_t)(value >> (8u * i));
    }
}

static void make_folders(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s", at(name));
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
}

struct coding {
    uint32_t tag, bits, channels;
    bool extensible;
};

static const struct coding pcm16 = {1, 16, 1, false};

/* Write a file of these samples, alike in all channels but the second, which has half of them. */
static void put_wav(const char *name, const struct coding *c, uint32_t rate, const double *x,
                    uint32_t n)
{
    uint8_t head[80], *p = head, *body = malloc((size_t)n * c->channels * 8u + 1u), *b = body;
    uint32_t bytes = n * c->channels * c->bits / 8u, format = c->extensible ? 40 : 16;
    assert_non_null(body);
    memcpy(p, "RIFF\0\0\0\0WAVEfmt ", 16);
    p += 16;
    put_little(&p, format, 4);
    put_little(&p, c->extensible ? 0xfffe : c->tag, 2);
    put_little(&p, c->channels, 2);
    put_little(&p, rate, 4);
    put_little(&p, (uint64_t)rate * c->channels * c->bits / 8u, 4);
    put_little(&p, c->channels * c->bits / 8u, 2);
    put_little(&p, c->bits, 2);
    if (c->extensible) {
        put_little(&p, 22, 8);
        put_little(&p, c->tag, 8);
        put_little(&p, 0, 8);
    }
    memcpy(p, "LIST\3\0\0\0abc\0data", 16);     /* of an odd length */
    p += 16;
    put_little(&p, bytes, 4);
    for (uint32_t i = 0; i < n * c->channels; i++) {
        double v = x[i / c->channels] * (i % c->channels == 1 ? 0.5 : 1.0);
        uint64_t raw;
        if (c->tag == 3 && c->bits == 64) {
            memcpy(&raw, &v, sizeof raw);
        } else if (c->tag == 3) {
            float f = (float)v;
            uint32_t low;
            memcpy(&low, &f, sizeof low);
            raw = low;
        } else {
            raw = (uint64_t)(int64_t)(v * (double)(1ull << (c->bits - 1u))) +
                  (c->bits == 8 ? 128u : 0u);
        }
        put_little(&b, raw, c->bits / 8u);
    }
    make_folders(name);
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(head, 1, (size_t)(p - head), f), p - head);
    assert_int_equal(fwrite(body, 1, bytes, f), bytes);
    fclose(f);
    free(body);
}

/* A tone of so many samples. */
static void put_tone(const char *name, double hz, uint32_t n)
{
    double x[2000];
    assert_true(n <= 2000);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = 0.25 * sin(2.0 * 3.14159265358979 * hz * i / RATE);
    }
    put_wav(name, &pcm16, RATE, x, n);
}

static const char *spec(const char *options)
{
    static char text[400];
    snprintf(text, sizeof text, "sounds:%s%s", folder, options);
    return text;
}

static const struct uw_data_config two_frames = {.channels = 1, .height = 2, .width = 24};

/* ---- the tests ---- */

static void test_wav_of_every_coding_is_read(void **state)
{
    (void)state;
    static const struct coding codings[] = {{1, 8, 1, false},  {1, 16, 1, false}, {1, 24, 1, false},
                                            {1, 32, 1, false}, {3, 32, 1, false}, {3, 64, 1, false},
                                            {1, 16, 2, false}, {1, 24, 2, true},  {3, 32, 2, true}};
    static const double x[] = {0.0, 0.5, -0.5, 0.25, -1.0, 0.75};
    for (size_t i = 0; i < sizeof codings / sizeof codings[0]; i++) {
        struct uw_wav w;
        struct uw_error err = {.text = ""};
        float y[10];
        put_wav("a.wav", &codings[i], RATE, x, 6);
        if (uw_wav_open(&w, at("a.wav"), &err) < 0) {
            fail_msg("coding %u: %s", (unsigned)i, err.text);
        }
        assert_int_equal(w.samples_n, 6);
        assert_int_equal(w.rate_hz, RATE);
        assert_int_equal(uw_wav_read(&w, -2, 10, y, &err), UW_OK);
        for (int k = 0; k < 10; k++) {
            double mean = codings[i].channels == 2 ? 0.75 : 1.0;
            double want = k < 2 || k >= 8 ? 0.0 : x[k - 2] * mean;
            assert_true((double)y[k] == want);
        }
        uw_wav_close(&w);
        uw_wav_close(&w);
    }
}

static void test_wav_that_is_none_is_told(void **state)
{
    (void)state;
    const double x[] = {0.0, 0.0};
    struct uw_wav w;
    struct uw_error err;
    const struct coding law = {7, 8, 1, false}, many = {1, 16, 9, false}, odd = {1, 12, 1, false};
    put_wav("law.wav", &law, RATE, x, 2);
    put_wav("many.wav", &many, RATE, x, 2);
    put_wav("odd.wav", &odd, RATE, x, 2);
    write_text("text.wav", "this is no sound at all");
    write_file("short.wav", "RIFF\0\0\0\0WAVEfmt ", 16);
    write_file("late.wav", "RIFF\0\0\0\0WAVEdata\0\0\0\0", 20);
    const struct {
        const char *name;
        int code;
        const char *says;
    } cases[] = {{"law.wav", UW_ERR_UNSUPPORTED, "format 7"},
                 {"many.wav", UW_ERR_UNSUPPORTED, "9 channels"},
                 {"odd.wav", UW_ERR_UNSUPPORTED, "12 bits"},
                 {"text.wav", UW_ERR_CORRUPT, "does not begin with RIFF"},
                 {"short.wav", UW_ERR_CORRUPT, "has no data"},
                 {"late.wav", UW_ERR_CORRUPT, "comes after its data"},
                 {"none.wav", UW_ERR_NOTFOUND, "none.wav"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        err.text[0] = '\0';
        assert_int_equal(uw_wav_open(&w, at(cases[i].name), &err), cases[i].code);
        if (strstr(err.text, cases[i].says) == NULL) {
            fail_msg("%s: %s", cases[i].name, err.text);
        }
    }
}

static void test_sounds_are_the_features_of_the_middle(void **state)
{
    (void)state;
    double x[600] = {0.0};
    float want[48], clip[400], got[48];
    struct uw_sound s;
    const struct uw_sound_config c = {.rate_hz = RATE, .window_n = 240, .hop_n = 160, .frames_n = 2,
                                      .mels_n = 24, .low_hz = 20.0f, .high_hz = 4000.0f};
    float memory[4096];
    for (int i = 0; i < 600; i++) {
        x[i] = (double)((i * 37) % 101 - 50) / 128.0;
    }
    put_wav("a/long.wav", &pcm16, RATE, x, 600);
    put_wav("b/short.wav", &pcm16, RATE, x, 100);
    struct uw_data d = open_good(spec(",test=0"), &two_frames);
    assert_int_equal(uw_sound_init(&s, &c, memory, sizeof memory), UW_OK);
    assert_true(memcmp(uw_data_columns(&d)->sound, &c, sizeof c) == 0);
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < 400; i++) {
            int k = which == 0 ? i + 100 : i - 150;
            clip[i] = k >= 0 && k < (which == 0 ? 600 : 100)
                          ? (float)(int)(x[k] * 32768.0) / 32768.0f : 0.0f;
        }
        uw_sound_clip(&s, clip, want);
        expect_sample(&d, (uint64_t)which, want, (uint32_t)which);
    }
    struct uw_error err = {.text = ""};
    assert_int_equal(uw_data_read_sound(&c, at("b/short.wav"), got, &err), UW_OK);
    assert_memory_equal(got, want, sizeof got);
    assert_true(tells(&d, "a clip is 400 samples of 8000 Hz: 2 frames of 240 (window), one every "
                          "160 (hop), each as 24 mels from 20 to 4000 Hz"));
    assert_true(tells(&d, "1 files are shorter"));
    uw_data_close(&d);
}

static void test_sounds_options_say_how_they_are_heard(void **state)
{
    (void)state;
    put_tone("a/1.wav", 500.0, 800);
    put_tone("b/1.wav", 900.0, 800);
    struct uw_data d = open_good(spec(",test=0,window=20,hop=10,mels=30,mfcc=12,low=100,high=3000"),
                                 NULL);
    const struct uw_sound_config *c = uw_data_columns(&d)->sound;
    assert_true(c->window_n == 160 && c->hop_n == 80 && c->mels_n == 30 && c->cepstra_n == 12 &&
                c->low_hz == 100.0f && c->high_hz == 3000.0f && c->frames_n == 49);
    assert_true(d.base->height == 49 && d.base->width == 12);
    struct uw_data_config like = {.channels = 1, .height = 49, .width = 12,
                                  .like = uw_data_columns(&d)};
    struct uw_data e = open_good(spec(",test=0"), &like);
    assert_true(memcmp(uw_data_columns(&e)->sound, c, sizeof *c) == 0);
    uw_data_close(&e);
    uw_data_close(&d);
    const struct uw_data_config words = {.channels = 1, .height = 49, .width = 10};
    d = open_good(spec(",test=0"), &words);
    c = uw_data_columns(&d)->sound;
    assert_true(c->mels_n == 40 && c->cepstra_n == 10);
    uw_data_close(&d);
    const struct uw_data_config flat = {.channels = 80};
    d = open_good(spec(",test=0,mels=20"), &flat);
    assert_true(d.base->height == 4 && d.base->width == 20);
    uw_data_close(&d);
    expect_refused(spec(",mels=30"), &two_frames, UW_ERR_MISMATCH, "mels=N or mfcc=N");
    expect_error(spec(",window=0"), UW_ERR_INVALID, "must be 1 or more");
    expect_error(spec(",high=4001"), UW_ERR_INVALID, "at most half the rate of 8000 Hz");
    expect_error(spec(",hop=x"), UW_ERR_INVALID, "hop=x: needs a number");
    expect_error(spec(",scale=255"), UW_ERR_INVALID, "sounds:");
    double x[100] = {0.0};
    put_wav("b/2.wav", &pcm16, 16000, x, 100);
    expect_refused(spec(",test=0"), &two_frames, UW_ERR_MISMATCH, "-ar 8000");
    const struct coding floats = {3, 32, 1, false};
    x[50] = (double)NAN;
    put_wav("b/2.wav", &floats, RATE, x, 100);
    expect_refused(spec(",test=0"), &two_frames, UW_ERR_CORRUPT, "no finite number");
}

static uint32_t count_label(struct uw_data *d, uint32_t label)
{
    uint32_t n = 0;
    float x[48];
    for (uint32_t i = 0; i < d->base->samples_n; i++) {
        uint32_t one = 99;
        assert_int_equal(d->base->ops->read(d->base, i, x, &one), UW_OK);
        n += one == label;
    }
    return n;
}

static void test_sounds_like_speech_commands(void **state)
{
    (void)state;
    static const char *const words[] = {"yes", "no", "tree", "cat", "dog"};
    char name[40], testing[400] = "", validation[400] = "";
    for (int w = 0; w < 5; w++) {
        for (int i = 0; i < 10; i++) {
            snprintf(name, sizeof name, "%s/%d.wav", words[w], i);
            put_tone(name, 300.0 * (w + 1), 400);
            strcat(i < 2 ? testing : validation, i < 3 ? name : "");
            strcat(i < 2 ? testing : validation, i < 3 ? "\r\n" : "");
        }
    }
    put_tone("_background_noise_/hum.wav", 50.0, 2000);     /* five clips, the second for testing */
    write_text("testing_list.txt", testing);
    write_text("validation_list.txt", validation);

    struct uw_data d = open_good(spec(""), &two_frames);
    assert_int_equal(d.base->classes, 5);
    assert_int_equal(d.base->samples_n, 35);
    assert_true(tells(&d, "validation_list.txt names 5 clips that are in neither set"));
    assert_true(tells(&d, "35 clips for training, 10 for testing, by testing_list.txt"));
    assert_true(tells(&d, "_background_noise_ is left out"));
    uw_data_close(&d);

    struct uw_data_config test = two_frames;
    test.test = true;
    d = open_good(spec(",test=validation"), &test);
    assert_int_equal(d.base->samples_n, 5);
    uw_data_close(&d);

    const char *twelve = ",classes=yes+no+_silence_+_unknown_";
    d = open_good(spec(twelve), &two_frames);
    assert_int_equal(count_label(&d, 0), 7);
    assert_int_equal(count_label(&d, 2), 4);
    assert_int_equal(count_label(&d, 3), 7);
    assert_int_equal(uw_data_columns(&d)->counts[2], 4);
    assert_int_equal(uw_data_columns(&d)->counts[3], 7);
    assert_true(tells(&d, "_unknown_ has 9 of the 27 clips in other folders"));
    assert_true(tells(&d, "_silence_, 4 of them for training"));
    struct uw_data_config later = test;
    later.like = uw_data_columns(&d);
    struct uw_data e = open_good(spec(""), &later);         /* the classes come with the weights */
    assert_int_equal(count_label(&e, 0), 2);
    assert_int_equal(count_label(&e, 2), 1);
    assert_int_equal(count_label(&e, 3), 2);
    uw_data_close(&e);
    uw_data_close(&d);

    expect_refused(spec(",classes=yes+no"), &two_frames, UW_ERR_MISMATCH, "none of the 2 classes");
    assert_int_equal(unlink(at("validation_list.txt")), 0);
    expect_refused(spec(",test=validation"), &two_frames, UW_ERR_NOTFOUND, "test=validation needs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_wav_of_every_coding_is_read, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_wav_that_is_none_is_told, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_sounds_are_the_features_of_the_middle, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_sounds_options_say_how_they_are_heard, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_sounds_like_speech_commands, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
