/* SPDX-License-Identifier: Apache-2.0
 *
 * The dataset readers on mutated files. The first byte of an input chooses the format; IDX takes
 * two more, the length of the image file, and the rest is the label file. What opens must give
 * every sample, in range; what does not must say why, with the file's name. */
#include "fuzz.h"

#include "uwasa/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { IDX, CIFAR10, CSV, NPZ, IMAGE, SOUND, FORMATS, RECORD_BYTES = 3073, SAMPLES_MAX = 4096 };

static char folder[64];

static int write_file(const char *name, const uint8_t *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL) {
        return -1;
    }
    size_t put = bytes == 0 ? 0 : fwrite(data, 1, bytes, f);
    return fclose(f) == 0 && put == bytes ? 0 : -1;
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const uint8_t bytes[] = {IDX, 0, 22, 0,   0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0,
                                    3,   0, 51, 255, 1, 2, 3, 0, 0, 8, 1, 0, 0, 0, 2, 4, 0};
    static const uint8_t floats[] = {IDX, 0, 24, 0, 0, 13, 4,    0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0,
                                     1,   0, 0,  0, 1, 63, 0x80, 0, 0, 0, 0, 8, 1, 0, 0, 0, 1, 1};
    static uint8_t record[1 + 2 * RECORD_BYTES] = {CIFAR10, 9};
    static const char *const tables[] = {
        "\2width,height,kind\n1,2,0\n-3.5,4e2,1\n0.25,1e-3,2\n",
        "\2"
        "1,0\r\n2,1\r\n\r\n3,0\r\n4,1\r\n5,0\r\n6,1\r\n7,1\r\n",
        "\2# a\n;\"b\";c\n0;1,5;pear\n1;?;'plum'\n2;-2,25;pear\n",
        "\2 1.5e0 \t2 1\n 3 4 -1\n",
        "\2+1 1:0.5 3:-2\n-1 2:4 # 5\n+1 3:1e1\n",
        "\2" "0,1,2,3\n5,0,1,0\n6,1,0,0\n7,0,0,1\n",
    };
    /* x [2][2] and y [2], deflated */
    static const uint8_t archive[] = {
        NPZ,
        80, 75, 3, 4, 20, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 83, 0, 0, 0, 144, 0, 0, 0, 5, 0,
        0, 0, 120, 46, 110, 112, 121, 155, 236, 23, 234, 27, 16, 201, 200, 80, 198, 80, 173, 158,
        146, 90, 156, 92, 164, 110, 165, 160, 110, 147, 102, 162, 174, 163, 160, 158, 150, 95, 84,
        82, 148, 152, 23, 159, 95, 148, 146, 10, 18, 119, 75, 204, 41, 78, 5, 138, 23, 103, 36,
        22, 164, 2, 249, 26, 70, 58, 10, 70, 154, 58, 10, 181, 10, 100, 3, 46, 6, 134, 6, 123, 6,
        6, 6, 7, 32, 2, 226, 6, 7, 0, 80, 75, 3, 4, 20, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 70,
        0, 0, 0, 130, 0, 0, 0, 5, 0, 0, 0, 121, 46, 110, 112, 121, 155, 236, 23, 234, 27, 16, 201,
        200, 80, 198, 80, 173, 158, 146, 90, 156, 92, 164, 110, 165, 160, 94, 83, 106, 168, 174,
        163, 160, 158, 150, 95, 84, 82, 148, 152, 23, 159, 95, 148, 146, 10, 18, 119, 75, 204, 41,
        78, 5, 138, 23, 103, 36, 22, 164, 2, 249, 26, 70, 58, 154, 58, 10, 181, 10, 20, 0, 46, 6,
        70, 0, 80, 75, 1, 2, 20, 0, 20, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 83, 0, 0, 0, 144,
        0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 120, 46, 110, 112, 121, 80,
        75, 1, 2, 20, 0, 20, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 70, 0, 0, 0, 130, 0, 0, 0, 5,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 118, 0, 0, 0, 121, 46, 110, 112, 121, 80, 75, 5, 6,
        0, 0, 0, 0, 2, 0, 2, 0, 102, 0, 0, 0, 223, 0, 0, 0, 0, 0};
    static const uint8_t png[] = {
        IMAGE,
        137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 2, 0, 0, 0, 1, 8,
        6, 0, 0, 0, 244, 34, 127, 138, 0, 0, 0, 17, 73, 68, 65, 84, 120, 218, 99, 248, 207, 96,
        220, 192, 144, 246, 159, 1, 0, 14, 227, 3, 24, 167, 73, 140, 9, 0, 0, 0, 0, 73, 69, 78,
        68, 174, 66, 96, 130};
    static const char ppm[] = "\4P6\n2 1\n255\nabcdef";
    static const uint8_t wav[] = {
        SOUND,
        82, 73, 70, 70, 68, 0, 0, 0, 87, 65, 86, 69, 102, 109, 116, 32, 16, 0, 0, 0, 1, 0, 2, 0,
        200, 0, 0, 0, 32, 3, 0, 0, 4, 0, 16, 0, 76, 73, 83, 84, 1, 0, 0, 0, 7, 0, 100, 97, 116, 97,
        16, 0, 0, 0, 1, 0, 2, 0, 255, 255, 0, 128, 255, 127, 3, 0, 9, 0, 200, 17};
    uw_fuzz_add(corpus, wav, sizeof wav);
    uw_fuzz_add(corpus, archive, sizeof archive);
    uw_fuzz_add(corpus, png, sizeof png);
    uw_fuzz_add(corpus, ppm, sizeof ppm - 1);
    uw_fuzz_add(corpus, bytes, sizeof bytes);
    uw_fuzz_add(corpus, floats, sizeof floats);
    uw_fuzz_add(corpus, record, 1 + RECORD_BYTES);
    uw_fuzz_add(corpus, record, sizeof record);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        uw_fuzz_add(corpus, tables[i], strlen(tables[i]));
    }
}

static int write_input(int format, const uint8_t *input, size_t bytes)
{
    if (format == CIFAR10) {
        return write_file("test_batch.bin", input, bytes);
    }
    if (format == CSV) {
        return write_file("table.csv", input, bytes);
    }
    if (format == NPZ) {
        return write_file("table.npz", input, bytes);
    }
    if (format == IMAGE) {
        return write_file("a/1.png", input, bytes);
    }
    if (format == SOUND) {
        return write_file("b/1.wav", input, bytes);
    }
    size_t images_bytes = bytes < 2 ? 0 : (size_t)input[0] << 8 | input[1];
    size_t start = bytes < 2 ? bytes : 2;
    images_bytes = images_bytes < bytes - start ? images_bytes : bytes - start;
    int rc = write_file("images", input + start, images_bytes);
    start += images_bytes;
    return rc < 0 ? rc : write_file("labels", input + start, bytes - start);
}

/* Returns 0 when every sample is in range. */
static int read_all(struct uw_data *d, int format)
{
    const struct uw_dataset *set = d->base;
    size_t n = (size_t)set->channels * set->height * set->width;
    float *x = malloc(n * sizeof *x);
    int rc = x == NULL || n == 0 || set->samples_n == 0 ? -1 : 0;
    for (uint32_t i = 0; rc == 0 && i < set->samples_n && i < SAMPLES_MAX; i++) {
        uint32_t label;
        x[n - 1] = NAN;
        rc = d->base->ops->read(d->base, i, x, &label);
        rc = rc == 0 && label >= set->classes ? -1 : rc;
        /* floats of an IDX file are taken as they are, NaN too */
        rc = rc == 0 && format != IDX && !isfinite(x[n - 1]) ? -1 : rc;
    }
    free(x);
    return rc;
}

/* Sentences that differ in more than numbers and quoted input are different outcomes. */
static int outcome_of(const struct uw_error *err)
{
    const char *open = strchr(err->text, '"'), *close = strrchr(err->text, '"');
    uint32_t hash = 5381;
    for (const char *c = err->text; *c != '\0'; c++) {
        if (open != NULL && c > open && c < close) {
            c = close;
        }
        if (strchr("0123456789abcdef", *c) == NULL) {
            hash = hash * 33u + (uint8_t)*c;
        }
    }
    return (int)(hash & 0xffffu);
}

static int try_one(const uint8_t *input, size_t bytes)
{
    int format = bytes == 0 ? IDX : input[0] % FORMATS;
    if (write_input(format, input + (bytes > 0), bytes - (bytes > 0)) < 0) {
        return -1;
    }
    char spec[256];
    if (format == IDX) {
        snprintf(spec, sizeof spec, "idx:%s/images,%s/labels", folder, folder);
    } else if (format == CIFAR10) {
        snprintf(spec, sizeof spec, "cifar10:%s", folder);
    } else if (format == NPZ) {
        snprintf(spec, sizeof spec, "npz:%s/table.npz", folder);
    } else if (format == IMAGE) {
        snprintf(spec, sizeof spec, "images:%s", folder);
    } else if (format == SOUND) {
        snprintf(spec, sizeof spec, "sounds:%s,mels=1,window=20,hop=10", folder);
    } else {
        static const char *const options[] = {"", ",missing=mean,scale=standard", ",missing=drop",
                                              ",label=first,scale=255", ",target=2"};
        snprintf(spec, sizeof spec, "csv:%s/table.csv%s", folder,
                 options[bytes % (sizeof options / sizeof options[0])]);
    }
    struct uw_data_config config = {.test = format == CIFAR10 || bytes % 2 == 0,
                                    .channels = (uint32_t)bytes % 4u,
                                    .outputs = (uint32_t)bytes / 4u % 4u};
    struct uw_data d;
    struct uw_error err = {.text = ""};
    int rc = uw_data_open(&d, spec, &config, &err);
    if (rc < 0) {
        return d.base == NULL && strstr(err.text, folder) != NULL ? outcome_of(&err) : -1;
    }
    rc = read_all(&d, format);
    uw_data_close(&d);
    return rc < 0 ? -1 : 0x10000 + format;
}

int main(int argc, char **argv)
{
    const char *memory = "/dev/shm/uwasa_fuzz_XXXXXX", *disk = "/tmp/uwasa_fuzz_XXXXXX";
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? memory : disk);
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    char classes[2][80];
    for (int i = 0; i < 2; i++) {
        snprintf(classes[i], sizeof classes[i], "%s/%c", folder, "ab"[i]);
        if (mkdir(classes[i], 0700) != 0) {
            return 1;
        }
    }
    const struct uw_fuzz_target target = {"dataset", add_inputs, try_one, 2 * RECORD_BYTES + 64};
    int rc = uw_fuzz_run(&target, argc, argv);
    static const char *const names[] = {"images",    "labels",    "test_batch.bin",
                                        "table.csv", "table.npz", "a/1.png", "b/1.wav"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(classes[0]);
    rmdir(classes[1]);
    rmdir(folder);
    return rc;
}
