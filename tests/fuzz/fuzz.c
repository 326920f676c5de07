/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { INPUTS_MAX = 2048, OUTCOMES_MAX = 1024, HANG_SECONDS = 20, PREFIXES_MAX = 4096 };

struct input {
    uint8_t *data;
    size_t bytes;
};

struct uw_fuzz_corpus {
    struct input inputs[INPUTS_MAX];
    size_t n;
    int outcomes[OUTCOMES_MAX];
    size_t outcomes_n;
};

struct run {
    const struct uw_fuzz_target *target;
    const struct uw_fuzz_form *form;    /* NULL: bytes */
    struct uw_fuzz_corpus corpus;
    struct uw_rng rng;
    size_t bytes_max;
    uint64_t tried_n;
    const char *keep;               /* file for what mutations find; NULL: none */
    const char *program;
};

/* What a signal handler or a sanitizer's last words need: the input being tried. */
static struct {
    const uint8_t *data;
    size_t bytes;
    char file[128];
    const char *program;
} now;

/* ---- the last words ---- */

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) {
        return; /* nobody is left to tell */
    }
}

static void keep_input(void)
{
    if (now.data == NULL) {
        return;
    }
    int fd = open(now.file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ssize_t put = fd < 0 ? -1 : write(fd, now.data, now.bytes);
    say("\nthis input failed; replay with: ");
    say(now.program);
    say(" ");
    say(put == (ssize_t)now.bytes ? now.file : "(could not be written)");
    say("\n");
    if (fd >= 0) {
        close(fd);
    }
    now.data = NULL;
}

static void on_signal(int number)
{
    say(number == SIGALRM ? "hang" : "crash");
    keep_input();
    signal(number, SIG_DFL);
    raise(number);
}

/* Present in a sanitizer build only. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void catch_crashes(void)
{
    static const int signals[] = {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        signal(signals[i], on_signal);
    }
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(keep_input);
    }
}

/* ---- where the code has been ---- */

static int went_on;                     /* where no input has been before */

#ifdef UWASA_FUZZ_TRACE
static uint8_t seen[1u << 20];

void __sanitizer_cov_trace_pc(void);

/* Called from each branch of what is compiled with -fsanitize-coverage=trace-pc. Distances within
 * the program are the same wherever it is loaded: so is the run. */
void __sanitizer_cov_trace_pc(void)
{
    static uintptr_t last;
    uintptr_t here = (uintptr_t)__builtin_return_address(0) - (uintptr_t)seen;
    uint8_t *edge = &seen[(here ^ last) % sizeof seen];
    went_on |= *edge == 0;
    *edge = 1;
    last = here >> 1;
}
#endif

/* ---- trying ---- */

void uw_fuzz_add(struct uw_fuzz_corpus *corpus, const void *input, size_t bytes)
{
    if (corpus->n == INPUTS_MAX) {
        return;
    }
    struct input *in = &corpus->inputs[corpus->n++];
    in->data = malloc(bytes + 1);
    in->bytes = bytes;
    if (in->data == NULL) {
        abort();
    }
    memcpy(in->data, input, bytes);
}

/* As a line of a corpus, where one is asked for. */
static void keep_line(const struct run *r, const uint8_t *data, size_t bytes, int outcome)
{
    FILE *f = r->keep != NULL ? fopen(r->keep, "a") : NULL;
    if (f != NULL) {
        for (size_t i = 0; i < bytes; i++) {
            fprintf(f, "%02x", data[i]);
        }
        fprintf(f, " # %d\n", outcome);
        fclose(f);
    }
}

static int is_new_outcome(struct uw_fuzz_corpus *c, int outcome)
{
    for (size_t i = 0; i < c->outcomes_n; i++) {
        if (c->outcomes[i] == outcome) {
            return 0;
        }
    }
    if (c->outcomes_n == OUTCOMES_MAX) {
        return 0;
    }
    c->outcomes[c->outcomes_n++] = outcome;
    return 1;
}

/* Returns what the target says; below 0 the input has been kept in a file. */
static int try_input(struct run *r, const uint8_t *data, size_t bytes)
{
    uint8_t *exact = malloc(bytes == 0 ? 1 : bytes);
    if (exact == NULL) {
        abort();
    }
    memcpy(exact, data, bytes);
    if (r->tried_n++ % 256 == 0) {
        alarm(HANG_SECONDS);
    }
    now.data = data;
    now.bytes = bytes;
    went_on = 0;
    int outcome = r->target->try_one(exact, bytes);
    if (outcome < 0) {
        say("broken promise");
        keep_input();
    } else if (is_new_outcome(&r->corpus, outcome) || went_on) {
        uw_fuzz_add(&r->corpus, data, bytes);
        keep_line(r, data, bytes, outcome);
    }
    now.data = NULL;
    free(exact);
    return outcome;
}

/* ---- mutating ---- */

static size_t pick(struct run *r, size_t n)
{
    return uw_rng_below(&r->rng, (uint32_t)n);
}

static void put_integer(struct run *r, uint8_t *buf, size_t bytes)
{
    static const uint64_t telling[] = {0,          1,          0x7f,       0x80,        0xff,
                                       0x100,      0x7fff,     0x8000,     0xffff,      0x10000,
                                       0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, INT64_MAX,
                                       UINT64_MAX, 0x40000000, 0x20000001};
    size_t width = (size_t)1 << pick(r, 4);
    if (bytes < width) {
        return;
    }
    size_t at = pick(r, bytes - width + 1);
    uint64_t value = telling[pick(r, sizeof telling / sizeof telling[0])];
    int big_endian = uw_rng_below(&r->rng, 2) != 0;
    for (size_t i = 0; i < width; i++) {
        size_t shift = 8 * (big_endian ? width - 1 - i : i);
        buf[at + i] = (uint8_t)(value >> shift);
    }
}

static void put_text(struct run *r, uint8_t *buf, size_t bytes)
{
    static const char *const telling[] = {
        "-1",   "0",  "1e999", "nan", "inf", "99999999999999999999",
        "1e-5", "\"", "[",     "]",   "{",   "}",
        ",",    ":",  "\\u",   "\n",  "\r",  "null"};
    const char *text = telling[pick(r, sizeof telling / sizeof telling[0])];
    size_t text_bytes = strlen(text);
    if (text_bytes <= bytes) {
        memcpy(buf + pick(r, bytes - text_bytes + 1), text, text_bytes);
    }
}

/* Open a gap of some bytes; it keeps what lay there, so it repeats a piece. */
static size_t insert_gap(struct run *r, uint8_t *buf, size_t bytes)
{
    size_t room = r->bytes_max - bytes, gap = 1 + pick(r, 64);
    if (room == 0) {
        return bytes;
    }
    gap = gap < room ? gap : room;
    size_t at = pick(r, bytes + 1);
    memmove(buf + at + gap, buf + at, bytes - at);
    if (uw_rng_below(&r->rng, 2) == 0) {
        memset(buf + at, (int)(uw_rng_u32(&r->rng) & 0xffu), gap);
    }
    return bytes + gap;
}

static size_t cut_out(struct run *r, uint8_t *buf, size_t bytes)
{
    size_t at = pick(r, bytes), cut = 1 + pick(r, 64);
    cut = cut < bytes - at ? cut : bytes - at;
    memmove(buf + at, buf + at + cut, bytes - at - cut);
    return bytes - cut;
}

/* Replace the tail by the tail of another input. */
static size_t splice(struct run *r, uint8_t *buf, size_t bytes)
{
    const struct input *other = &r->corpus.inputs[pick(r, r->corpus.n)];
    size_t at = pick(r, bytes + 1), from = pick(r, other->bytes + 1);
    size_t tail = other->bytes - from;
    tail = tail < r->bytes_max - at ? tail : r->bytes_max - at;
    memcpy(buf + at, other->data + from, tail);
    return at + tail;
}

static size_t mutate_once(struct run *r, uint8_t *buf, size_t bytes)
{
    if (bytes == 0) {
        return insert_gap(r, buf, bytes);
    }
    switch (uw_rng_below(&r->rng, 9)) {
    case 0:
    case 1:
        buf[pick(r, bytes)] ^= (uint8_t)(1u << pick(r, 8));
        return bytes;
    case 2:
        buf[pick(r, bytes)] = (uint8_t)uw_rng_u32(&r->rng);
        return bytes;
    case 3:
        put_integer(r, buf, bytes);
        return bytes;
    case 4:
        put_text(r, buf, bytes);
        return bytes;
    case 5:
        return pick(r, bytes + 1);
    case 6:
        return insert_gap(r, buf, bytes);
    case 7:
        return cut_out(r, buf, bytes);
    default:
        return splice(r, buf, bytes);
    }
}

static size_t mutate(struct run *r, uint8_t *buf)
{
    const struct input *in = &r->corpus.inputs[pick(r, r->corpus.n)];
    size_t bytes = in->bytes < r->bytes_max ? in->bytes : r->bytes_max;
    memcpy(buf, in->data, bytes);
    for (size_t times = 1 + pick(r, 4); times > 0; times--) {
        int fields = r->form != NULL && r->form->mutate != NULL && pick(r, 4) != 0;
        bytes = fields ? r->form->mutate(&r->rng, buf, bytes, r->bytes_max)
                       : mutate_once(r, buf, bytes);
    }
    if (r->form != NULL && r->form->seal != NULL && pick(r, 16) != 0) {
        r->form->seal(buf, bytes);
    }
    return bytes;
}

/* ---- the run ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* As it is, and sealed. */
static int try_prefix(struct run *r, const uint8_t *data, size_t bytes)
{
    int failed = try_input(r, data, bytes) < 0;
    if (!failed && r->form != NULL && r->form->seal != NULL) {
        uint8_t *sealed = malloc(bytes + 1);
        if (sealed == NULL) {
            abort();
        }
        memcpy(sealed, data, bytes);
        r->form->seal(sealed, bytes);
        failed = try_input(r, sealed, bytes) < 0;
        free(sealed);
    }
    return failed;
}

static int try_prefixes(struct run *r, double end)
{
    size_t given_n = r->corpus.n;
    for (size_t i = 0; i < given_n; i++) {
        struct input in = r->corpus.inputs[i];
        size_t shortest = in.bytes > PREFIXES_MAX ? in.bytes - PREFIXES_MAX : 0;
        for (size_t bytes = in.bytes + 1; bytes-- > shortest;) {
            if (try_prefix(r, in.data, bytes)) {
                return 1;
            }
            if (bytes != in.bytes && seconds() > end) {
                break;
            }
        }
    }
    return 0;
}

/* Until the end, or so many of them; -1: as many as there is time for. */
static int try_mutations(struct run *r, double end, int64_t most_n)
{
    uint8_t *buf = malloc(r->bytes_max);
    int failed = buf == NULL;
    r->keep = getenv("UWASA_FUZZ_KEEP");
    for (int64_t n = 0; !failed && (most_n >= 0 ? n < most_n : seconds() < end); n++) {
        size_t bytes = mutate(r, buf);
        failed = try_input(r, buf, bytes) < 0;
    }
    free(buf);
    return failed;
}

/* The lines of the corpus; what cannot be read is none. */
static void add_corpus(struct run *r)
{
    char path[512];
    size_t n = 0;
    int c, comment = 0, nibbles = 0;
    uint8_t *data = malloc(r->bytes_max);
    snprintf(path, sizeof path, "%s/%s.hex", UWASA_FUZZ_CORPUS, r->target->name);
    FILE *f = fopen(path, "r");
    while (f != NULL && data != NULL && (c = fgetc(f)) != EOF) {
        const char *digits = "0123456789abcdef", *digit = c != 0 ? strchr(digits, c) : NULL;
        comment |= c == '#';
        if (!comment && digit != NULL && n < r->bytes_max) {
            uint8_t high = nibbles % 2 == 0 ? 0 : (uint8_t)(data[n] << 4);
            data[n] = (uint8_t)(high | (digit - digits));
            n += nibbles++ % 2 != 0;
        }
        if (c == '\n') {
            if (nibbles > 0) {
                uw_fuzz_add(&r->corpus, data, n);
            }
            n = 0;
            comment = nibbles = 0;
        }
    }
    free(data);
    if (f != NULL) {
        fclose(f);
    }
}

static int replay(struct run *r, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        fprintf(stderr, "%s: cannot be opened\n", path);
        return 2;
    }
    size_t cap = 1u << 24;
    uint8_t *data = malloc(cap);
    size_t bytes = data == NULL ? 0 : fread(data, 1, cap, f);
    fclose(f);
    int outcome = try_input(r, data, bytes);
    printf("%s: %zu bytes, outcome %d\n", path, bytes, outcome);
    free(data);
    return outcome < 0;
}

static int fuzz(struct run *r)
{
    const char *text = getenv("UWASA_TEST_SEED"), *budget = getenv("UWASA_FUZZ_SECONDS");
    const char *most = getenv("UWASA_FUZZ_INPUTS");
    int64_t most_n = most != NULL ? (int64_t)strtoull(most, NULL, 0) : -1;
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 1;
    double limit = budget != NULL ? strtod(budget, NULL) : 2.0;
    printf("%s: seed=%llu, %g s\n", r->target->name, (unsigned long long)seed, limit);
    fflush(stdout);
    uw_rng_seed(&r->rng, seed);

    r->target->add_inputs(&r->corpus);
    add_corpus(r);
    if (r->corpus.n == 0) {
        uw_fuzz_add(&r->corpus, "", 0);
    }
    double start = seconds();
    double half = most_n >= 0 ? 1e9 : limit / 2;
    int failed = try_prefixes(r, start + half) || try_mutations(r, start + limit, most_n);
    printf("%s: %llu inputs, %zu outcomes\n", r->target->name, (unsigned long long)r->tried_n,
           r->corpus.outcomes_n);
    return failed;
}

int uw_fuzz_run_form(const struct uw_fuzz_target *target, const struct uw_fuzz_form *form,
                     int argc, char **argv)
{
    static struct run r;
    r = (struct run){.target = target, .form = form, .program = argv[0]};
    r.bytes_max = target->bytes_max != 0 ? target->bytes_max : 4096;
    now.program = argv[0];
    snprintf(now.file, sizeof now.file, "%s.crash", target->name);
    catch_crashes();

    int rc = 0;
    for (int i = 1; i < argc && rc == 0; i++) {
        rc = replay(&r, argv[i]);
    }
    if (argc < 2) {
        rc = fuzz(&r);
    }
    for (size_t i = 0; i < r.corpus.n; i++) {
        free(r.corpus.inputs[i].data);
    }
    return rc;
}

int uw_fuzz_run(const struct uw_fuzz_target *target, int argc, char **argv)
{
    return uw_fuzz_run_form(target, NULL, argc, argv);
}
