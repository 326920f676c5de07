/* SPDX-License-Identifier: Apache-2.0
 *
 * A strict pull parser for the JSON of a safetensors header: an object of objects that contain
 * strings and unsigned integers. */
#include "safetensors.h"

#include "uwasa/hash.h"

#include <string.h>

#define WINDOW_BYTES 256u
#define PIECE_BYTES 512u

struct reader {
    const struct uw_safetensors *st;
    struct uw_error *err;
    uint64_t at;                    /* next byte of the header */
    uint64_t window_at;             /* header offset of window[0] */
    uint32_t window_n;
    char window[WINDOW_BYTES];
    int rc;                         /* first failure; sticky */
};

static int fail(struct reader *r, const char *what)
{
    if (r->rc == UW_OK) {
        r->rc = uw_error_set(r->err, UW_ERR_CORRUPT, "%s: byte %llu: %s", r->st->object,
                             (unsigned long long)(8 + r->at), what);
    }
    return r->rc;
}

/* The next byte, which stays unread; -1 at the end of the header or after a failure. */
static int peek(struct reader *r)
{
    if (r->rc < 0 || r->at >= r->st->header_bytes) {
        return -1;
    }
    if (r->at < r->window_at || r->at >= r->window_at + r->window_n) {
        uint64_t left = r->st->header_bytes - r->at;
        r->window_n = left < WINDOW_BYTES ? (uint32_t)left : WINDOW_BYTES;
        r->window_at = r->at;
        int rc = r->st->storage->ops->read(r->st->storage, r->st->object, 8 + r->at, r->window,
                                           r->window_n);
        if (rc < 0) {
            r->rc = uw_error_set(r->err, rc, "%s: %s", r->st->object, uw_status_text(rc));
            r->window_n = 0;
            return -1;
        }
    }
    return (unsigned char)r->window[r->at - r->window_at];
}

static int take(struct reader *r)
{
    int c = peek(r);
    if (c >= 0) {
        r->at++;
    }
    return c;
}

static int skip_space(struct reader *r)
{
    int c = peek(r);
    while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        r->at++;
        c = peek(r);
    }
    return c;
}

static int expect(struct reader *r, int wanted, const char *what)
{
    if (skip_space(r) != wanted) {
        return fail(r, what);
    }
    r->at++;
    return UW_OK;
}

static int take_hex4(struct reader *r, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++) {
        int c = take(r);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return fail(r, "\\u needs four hexadecimal digits");
        }
        *code = *code * 16 + (uint32_t)digit;
    }
    return UW_OK;
}

static void put(char *out, uint32_t out_bytes, uint32_t *length, int c)
{
    if (*length + 1 < out_bytes) {
        out[*length] = (char)c;
    }
    (*length)++;
}

/* Append a UTF-16 code unit as UTF-8. Surrogate pairs are not joined: such names match nothing. */
static void put_code(char *out, uint32_t out_bytes, uint32_t *length, uint32_t code)
{
    if (code < 0x80) {
        put(out, out_bytes, length, (int)code);
    } else if (code < 0x800) {
        put(out, out_bytes, length, (int)(0xc0 | (code >> 6)));
        put(out, out_bytes, length, (int)(0x80 | (code & 0x3f)));
    } else {
        put(out, out_bytes, length, (int)(0xe0 | (code >> 12)));
        put(out, out_bytes, length, (int)(0x80 | ((code >> 6) & 0x3f)));
        put(out, out_bytes, length, (int)(0x80 | (code & 0x3f)));
    }
}

static int take_escape(struct reader *r, char *out, uint32_t out_bytes, uint32_t *length)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    int c = take(r);

    if (c == 'u') {
        uint32_t code;
        if (take_hex4(r, &code) < 0) {
            return r->rc;
        }
        put_code(out, out_bytes, length, code);
        return UW_OK;
    }
    const char *hit = c > 0 ? strchr(from, c) : NULL;
    if (hit == NULL) {
        return fail(r, "unknown escape in a string");
    }
    put(out, out_bytes, length, to[hit - from]);
    return UW_OK;
}

/* Read a string into out, NUL-terminated. One that does not fit becomes "": no tensor's name. */
static int take_string(struct reader *r, char *out, uint32_t out_bytes)
{
    uint32_t length = 0;

    if (expect(r, '"', "expected a string") < 0) {
        return r->rc;
    }
    for (;;) {
        int c = take(r);
        if (c < 0x20) {
            return fail(r, c < 0 ? "a string does not end" : "control character in a string");
        }
        if (c == '"') {
            break;
        }
        if (c != '\\') {
            put(out, out_bytes, &length, c);
        } else if (take_escape(r, out, out_bytes, &length) < 0) {
            return r->rc;
        }
    }
    out[length < out_bytes ? length : 0] = '\0';
    return UW_OK;
}

static int take_number(struct reader *r, uint64_t *value)
{
    int c = skip_space(r);
    *value = 0;
    if (c < '0' || c > '9') {
        return fail(r, "expected an unsigned integer");
    }
    while (c >= '0' && c <= '9') {
        uint64_t digit = (uint64_t)(c - '0');
        if (*value > (UINT64_MAX - digit) / 10) {
            return fail(r, "the number is too large");
        }
        *value = *value * 10 + digit;
        r->at++;
        c = peek(r);
    }
    return UW_OK;
}

/* Read what follows an element. Returns 1 (comma: another element), 0 (the closing character). */
static int another_element(struct reader *r, int closing)
{
    int c = skip_space(r);
    if (c != ',' && c != closing) {
        return fail(r, closing == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    }
    r->at++;
    return c == ',';
}

/* Read an array of numbers; those after the first max_n are counted but not stored. */
static int take_numbers(struct reader *r, uint64_t *out, uint32_t max_n, uint32_t *n)
{
    int go = 1;
    *n = 0;
    if (expect(r, '[', "expected '['") < 0) {
        return r->rc;
    }
    if (skip_space(r) == ']') {
        r->at++;
        return UW_OK;
    }
    while (go > 0) {
        uint64_t value;
        if (take_number(r, &value) < 0) {
            return r->rc;
        }
        if (*n < max_n) {
            out[*n] = value;
        }
        *n += *n <= max_n ? 1 : 0;
        go = another_element(r, ']');
    }
    return go;
}

static int take_entry_field(struct reader *r, struct uw_safetensors_entry *e, uint32_t *seen)
{
    char key[16];
    uint64_t offsets[2] = {0, 0};
    uint32_t n;

    if (take_string(r, key, sizeof key) < 0 || expect(r, ':', "expected ':'") < 0) {
        return r->rc;
    }
    if (strcmp(key, "dtype") == 0) {
        *seen |= 1;
        return take_string(r, e->dtype, sizeof e->dtype);
    }
    if (strcmp(key, "shape") == 0) {
        *seen |= 2;
        return take_numbers(r, e->dim, UW_SHAPE_RANK_MAX, &e->rank);
    }
    if (strcmp(key, "data_offsets") == 0) {
        *seen |= 4;
        if (take_numbers(r, offsets, 2, &n) < 0) {
            return r->rc;
        }
        e->begin = offsets[0];
        e->end = offsets[1];
        if (n != 2 || e->begin > e->end || e->end > r->st->data_bytes) {
            return fail(r, n == 2 && e->begin <= e->end
                               ? "a tensor lies beyond the end of the file: truncated"
                               : "data_offsets needs two increasing numbers");
        }
        return UW_OK;
    }
    return fail(r, "unknown key: allowed are dtype, shape, data_offsets");
}

static int take_entry(struct reader *r, struct uw_safetensors_entry *e)
{
    uint32_t seen = 0;
    int go = 1;

    if (expect(r, '{', "expected '{'") < 0) {
        return r->rc;
    }
    while (go > 0) {
        if (take_entry_field(r, e, &seen) < 0) {
            return r->rc;
        }
        go = another_element(r, '}');
    }
    if (go == 0 && seen != 7) {
        return fail(r, "a tensor needs dtype, shape and data_offsets");
    }
    return go;
}

/* __metadata__: strings by name. Fills value when key is found, with *end, if not NULL: where its
 * closing quote is in the header. Returns 1, 0 or a failure. */
static int take_metadata(struct reader *r, const char *key, char *value, uint32_t value_bytes,
                         uint64_t *end)
{
    char name[UW_SAFETENSORS_NAME_BYTES];
    char other[UW_SAFETENSORS_NAME_BYTES];
    int found = 0;
    int go = 1;

    if (expect(r, '{', "expected '{'") < 0) {
        return r->rc;
    }
    if (skip_space(r) == '}') {
        r->at++;
        return 0;
    }
    while (go > 0) {
        if (take_string(r, name, sizeof name) < 0 || expect(r, ':', "expected ':'") < 0) {
            return r->rc;
        }
        bool hit = key != NULL && strcmp(name, key) == 0;
        if (take_string(r, hit ? value : other, hit ? value_bytes : sizeof other) < 0) {
            return r->rc;
        }
        found = hit ? 1 : found;
        if (hit && end != NULL) {
            *end = r->at - 1u;
        }
        go = another_element(r, '}');
    }
    return go < 0 ? go : found;
}

/* What a pass over the header looks for; members may be NULL. */
struct search {
    const char *tensor;
    struct uw_safetensors_entry *entry;         /* of that tensor */
    const char *key;                            /* of the metadata */
    char *value;
    uint32_t value_bytes;
    uint64_t *value_end;                        /* where it ends in the header */
    void (*visit)(void *arg, const struct uw_safetensors_entry *entry);
    void *arg;
};

/* Parse the whole header and look up a tensor or a key of the metadata on the way. */
static int parse_header(const struct uw_safetensors *st, const struct search *s,
                        struct uw_error *err)
{
    struct reader r = {.st = st, .err = err};
    struct uw_safetensors_entry e;
    uint64_t end = 0;
    int found = 0;
    int go = 1;

    if (expect(&r, '{', "expected '{': is this a safetensors file?") < 0) {
        return r.rc;
    }
    if (skip_space(&r) == '}') {
        r.at++;
        go = 0;
    }
    while (go > 0) {
        e = (struct uw_safetensors_entry){0};
        if (take_string(&r, e.name, sizeof e.name) < 0 || expect(&r, ':', "expected ':'") < 0) {
            return r.rc;
        }
        if (strcmp(e.name, "__metadata__") == 0) {
            int hit = take_metadata(&r, s->key, s->value, s->value_bytes, s->value_end);
            found |= hit > 0;
        } else if (take_entry(&r, &e) == UW_OK) {
            if (s->visit != NULL) {
                s->visit(s->arg, &e);
            }
            if (s->tensor != NULL && strcmp(e.name, s->tensor) == 0) {
                if (found) {
                    return fail(&r, "a tensor is listed twice");
                }
                *s->entry = e;
                found = 1;
            }
        }
        end = e.end > end ? e.end : end;
        go = another_element(&r, '}');
    }
    if (go == 0 && skip_space(&r) != -1) {
        fail(&r, "text after the header's end");
    }
    if (go == 0 && r.rc == UW_OK && end != st->data_bytes) {
        fail(&r, "the file has bytes behind the last tensor");
    }
    return r.rc < 0 ? r.rc : found;
}

int uw_safetensors_open(struct uw_safetensors *st, struct uw_storage *storage, const char *object,
                        struct uw_error *err)
{
    uint8_t le[8];
    uint64_t bytes;
    int rc = storage->ops->size(storage, object, &bytes);

    if (rc < 0) {
        return uw_error_set(err, rc, "%s: %s", object,
                            rc == UW_ERR_NOTFOUND ? "no such file" : uw_status_text(rc));
    }
    if (bytes < 8) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%s: %llu bytes are too few for a safetensors "
                            "file", object, (unsigned long long)bytes);
    }
    rc = storage->ops->read(storage, object, 0, le, sizeof le);
    if (rc < 0) {
        return uw_error_set(err, rc, "%s: %s", object, uw_status_text(rc));
    }
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--) {
        header = header << 8 | le[i];
    }
    if (header > bytes - 8 || header > UW_SAFETENSORS_HEADER_MAX_BYTES) {
        return uw_error_set(err, UW_ERR_CORRUPT,
                            "%s: the header claims %llu bytes, the file has %llu: truncated, or "
                            "not a safetensors file",
                            object, (unsigned long long)header, (unsigned long long)bytes);
    }
    *st = (struct uw_safetensors){
        .storage = storage,
        .object = object,
        .header_bytes = header,
        .data_offset = 8 + header,
        .data_bytes = bytes - 8 - header,
    };
    return UW_OK;
}

int uw_safetensors_find(const struct uw_safetensors *st, const char *name,
                        struct uw_safetensors_entry *entry, struct uw_error *err)
{
    return parse_header(st, &(struct search){.tensor = name, .entry = entry}, err);
}

int uw_safetensors_each(const struct uw_safetensors *st,
                        void (*visit)(void *arg, const struct uw_safetensors_entry *entry),
                        void *arg, struct uw_error *err)
{
    int rc = parse_header(st, &(struct search){.visit = visit, .arg = arg}, err);
    return rc < 0 ? rc : UW_OK;
}

/* ---- whether tensors fill the data ---- */

struct filling {
    uint64_t at;                                /* bytes before it are in one tensor each */
    uint64_t all;                               /* bytes of all tensors */
    uint32_t index;                             /* of the tensor that is seen next */
    uint32_t of;                                /* ... and of the one that others are compared to */
    struct uw_safetensors_entry one, other;     /* other: nearest behind `at`, or overlaps one */
    bool found;
};

static void follow(void *arg, const struct uw_safetensors_entry *e)
{
    struct filling *f = arg;
    f->all += e->end - e->begin;
    if (e->begin == f->at && e->end > e->begin) {
        f->at = e->end;
        f->one = *e;
    }
}

static void find_nearest(void *arg, const struct uw_safetensors_entry *e)
{
    struct filling *f = arg;
    if (e->begin > f->at && (!f->found || e->begin < f->other.begin)) {
        f->other = *e;
        f->found = true;
    }
}

static void take_one(void *arg, const struct uw_safetensors_entry *e)
{
    struct filling *f = arg;
    if (f->index++ == f->of) {
        f->one = *e;
        f->found = true;
    }
}

static void find_overlap(void *arg, const struct uw_safetensors_entry *e)
{
    struct filling *f = arg;
    uint64_t begin = e->begin > f->one.begin ? e->begin : f->one.begin;
    uint64_t end = e->end < f->one.end ? e->end : f->one.end;
    if (f->index++ > f->of && begin < end && !f->found) {
        f->other = *e;
        f->found = true;
    }
}

/* Name two tensors that overlap; without any, those around the hole at f->at. */
static int name_fault(const struct uw_safetensors *st, struct filling *f, struct uw_error *err)
{
    const struct uw_safetensors_entry before = f->one;
    int rc = UW_OK;
    for (f->of = 0, f->found = true; f->found && rc == UW_OK; f->of++) {
        f->found = false;
        f->index = 0;
        rc = uw_safetensors_each(st, take_one, f, err);
        bool more = f->found;
        f->found = false;
        f->index = 0;
        rc = rc < 0 || !more ? rc : uw_safetensors_each(st, find_overlap, f, err);
        if (rc == UW_OK && f->found) {
            return uw_error_set(err, UW_ERR_CORRUPT, "%s: tensors %.70s and %.70s overlap",
                                st->object, f->one.name, f->other.name);
        }
        f->found = more;
    }
    f->found = false;
    rc = rc < 0 ? rc : uw_safetensors_each(st, find_nearest, f, err);
    return rc < 0 ? rc
                  : uw_error_set(err, UW_ERR_CORRUPT, "%s: %llu bytes before tensor %.70s%s%.70s "
                                 "belong to none", st->object,
                                 (unsigned long long)(f->other.begin - f->at), f->other.name,
                                 f->at != 0 ? ", behind " : "", before.name);
}

int uw_safetensors_check_data(const struct uw_safetensors *st, struct uw_error *err)
{
    struct filling f = {.at = 0};
    uint64_t before = UINT64_MAX;
    int rc = UW_OK;
    while (rc == UW_OK && f.at != st->data_bytes && f.at != before) {
        before = f.at;
        f.all = 0;
        rc = uw_safetensors_each(st, follow, &f, err);
    }
    return rc < 0 || (f.at == st->data_bytes && f.all == st->data_bytes) ? rc
                                                                         : name_fault(st, &f, err);
}

/* ---- the checksum ---- */

/* Continue a sum over bytes of the object, those from `zeros` on, UW_SUM_DIGITS of them, as '0'. */
static int sum_bytes(const struct uw_safetensors *st, uint64_t from, uint64_t to, uint64_t zeros,
                     uint64_t *sum, struct uw_error *err)
{
    char piece[PIECE_BYTES];
    while (from < to) {
        uint32_t n = to - from < PIECE_BYTES ? (uint32_t)(to - from) : PIECE_BYTES;
        int rc = st->storage->ops->read(st->storage, st->object, from, piece, n);
        if (rc < 0) {
            return uw_error_set(err, rc, "%s: %s", st->object, uw_status_text(rc));
        }
        for (uint32_t i = 0; i < n; i++) {
            bool digit = from + i >= zeros && from + i - zeros < UW_SUM_DIGITS;
            piece[i] = digit ? '0' : piece[i];
        }
        *sum = uw_hash64_words(*sum, piece, n);
        from += n;
    }
    return UW_OK;
}

int uw_safetensors_check_sum(const struct uw_safetensors *st, struct uw_error *err)
{
    char digits[UW_SUM_DIGITS + 2] = "", of[8] = "", want[UW_SUM_DIGITS + 2];
    uint64_t end = 0, sum = UW_HASH64_START;
    int has = parse_header(st, &(struct search){.key = UW_SUM_KEY, .value = digits,
                                                .value_bytes = sizeof digits,
                                                .value_end = &end}, err);
    int says = has < 0 ? has
                       : parse_header(st, &(struct search){.key = UW_SUM_OF_KEY, .value = of,
                                                           .value_bytes = sizeof of}, err);
    if (says < 0 || (has == 0 && says == 0)) {
        return says;
    }
    const uint64_t data_end = st->data_offset + st->data_bytes;
    int rc = sum_bytes(st, 8, st->data_offset, 8 + end - UW_SUM_DIGITS, &sum, err);
    rc = rc < 0 ? rc : sum_bytes(st, st->data_offset, data_end, UINT64_MAX, &sum, err);
    sum = uw_hash64_words(sum, &st->header_bytes, sizeof st->header_bytes);
    uw_sum_text(sum, want);
    if (rc == UW_OK && (has == 0 || says == 0 || strcmp(digits, want) != 0)) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%s: damaged: its bytes do not have the checksum "
                            "in its header, " UW_SUM_KEY "; another program that changes a file "
                            "removes it, with " UW_SUM_OF_KEY, st->object);
    }
    return rc;
}

void uw_sum_text(uint64_t sum, char text[UW_SUM_DIGITS + 1])
{
    for (uint32_t i = UW_SUM_DIGITS; i > 0; i--, sum /= 10u) {
        text[i - 1u] = (char)('0' + sum % 10u);
    }
    text[UW_SUM_DIGITS] = '\0';
}

int uw_safetensors_number(const struct uw_safetensors *st, const char *key, uint64_t *value,
                          struct uw_error *err)
{
    char text[24] = "";
    int rc = parse_header(st, &(struct search){.key = key, .value = text,
                                               .value_bytes = sizeof text}, err);
    if (rc <= 0) {
        return rc;
    }
    *value = 0;
    for (const char *p = text; rc > 0; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (*p == '\0' && p != text) {
            break;
        }
        if (*p < '0' || *p > '9' || *value > (UINT64_MAX - digit) / 10) {
            rc = uw_error_set(err, UW_ERR_CORRUPT, "%s: metadata %s is \"%s\", not a number",
                              st->object, key, text);
            break;
        }
        *value = *value * 10 + digit;
    }
    return rc;
}
