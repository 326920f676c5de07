/* SPDX-License-Identifier: Apache-2.0 */
#include "predict_array.h"

#include "base/open_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD_BYTES 128              /* a multiple of 64, with room for any shape */

/* The head of the file. Its length does not change with the shape. */
static void put_head(struct uw_predict_array *a)
{
    char head[HEAD_BYTES], text[HEAD_BYTES - 10], shape[96];
    int used = snprintf(shape, sizeof shape, "%llu,", (unsigned long long)a->n);
    for (uint32_t i = 0; i < a->rank; i++) {
        used += snprintf(shape + used, sizeof shape - (size_t)used, "%s%u", i == 0 ? " " : ", ",
                         (unsigned)a->dim[i]);
    }
    memset(head, ' ', HEAD_BYTES);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)(HEAD_BYTES - 10);
    head[9] = 0;
    int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, "
                     "'shape': (%.60s), }", a->bytes ? "|u1" : "<f4", shape);
    memcpy(head + 10, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1u);
    head[HEAD_BYTES - 1] = '\n';
    fwrite(head, 1, HEAD_BYTES, a->file);
}

int uw_predict_array_open(struct uw_predict_array *a, const char *path, const uint32_t *dim,
                          uint32_t rank, bool bytes, struct uw_error *err)
{
    *a = (struct uw_predict_array){.path = path, .rank = rank, .bytes = bytes};
    for (uint32_t i = 0; i < rank; i++) {
        a->dim[i] = dim[i];
    }
    struct stat there;
    bool plain = stat(path, &there) != 0 || S_ISREG(there.st_mode);
    a->part = plain ? malloc(strlen(path) + sizeof ".part") : NULL;
    if (plain && a->part == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.160s: no memory", path);
    }
    if (plain) {
        strcat(strcpy(a->part, path), ".part");
    }
    a->file = uw_open_file(plain ? a->part : path, true);
    if (a->file == NULL) {
        free(a->part);
        return uw_error_set(err, UW_ERR_IO, "%.160s: %s", path, strerror(errno));
    }
    uw_empty_file(a->file);
    put_head(a);
    return UW_OK;
}

void uw_predict_array_add(struct uw_predict_array *a, const float *numbers)
{
    size_t n = 1;
    for (uint32_t i = 0; i < a->rank; i++) {
        n *= a->dim[i];
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        const unsigned char le[4] = {(unsigned char)bits, (unsigned char)(bits >> 8),
                                     (unsigned char)(bits >> 16), (unsigned char)(bits >> 24)};
        const unsigned char class = a->bytes ? (unsigned char)numbers[i] : 0;
        fwrite(a->bytes ? &class : le, 1, a->bytes ? 1 : sizeof le, a->file);
    }
    a->n++;
}

int uw_predict_array_close(struct uw_predict_array *a, struct uw_error *err)
{
    FILE *f = a->file;
    if (f == NULL) {
        return UW_OK;
    }
    bool good = fseek(f, 0, SEEK_SET) == 0;
    if (good) {
        put_head(a);
    }
    good = good && ferror(f) == 0;
    good = fclose(f) == 0 && good;
    a->file = NULL;
    if (a->part != NULL) {
        good = good && (a->n == 0 || rename(a->part, a->path) == 0);
        int why = errno;
        remove(a->part);            /* unless it is in place */
        errno = why;
    }
    free(a->part);
    a->part = NULL;
    return good ? UW_OK
                : uw_error_set(err, UW_ERR_IO, "%.160s: could not be written: %s", a->path,
                               strerror(errno));
}
