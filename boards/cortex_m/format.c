/* SPDX-License-Identifier: Apache-2.0
 *
 * snprintf and vsnprintf for boards, with the conversions that this project uses: d i u x c s p %,
 * flags - and 0, width and precision (also as *), lengths hh h l ll z, and f for console figures.
 * newlib's small version lacks long long; its large version allocates from the heap.
 *
 * Differences from C: %g is %f. %f has at most 6 decimals, prints values beyond 9e12 as "big", may
 * round to either side within a double's last bit of a tie, and has no -0. A format that ends
 * inside a conversion is cut before its %. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MAX 24u
#define DECIMALS_MAX 6

struct out {
    char *text;
    size_t cap, n;                      /* n: length without truncation */
};

struct spec {
    bool left, zero;
    int width, precision;               /* precision negative: none */
    int length;                         /* bytes of the integer */
};

static void put(struct out *o, char c)
{
    if (o->n + 1u < o->cap) {
        o->text[o->n] = c;
    }
    o->n++;
}

/* prefix: a sign or "", put before padding zeros. */
static void put_field(struct out *o, const struct spec *s, const char *prefix, const char *body,
                      size_t body_n)
{
    size_t prefix_n = strlen(prefix), width = s->width > 0 ? (size_t)s->width : 0;
    size_t fill = width > prefix_n + body_n ? width - prefix_n - body_n : 0;
    for (size_t i = 0; i < fill && !s->left && !s->zero; i++) {
        put(o, ' ');
    }
    for (size_t i = 0; i < prefix_n; i++) {
        put(o, prefix[i]);
    }
    for (size_t i = 0; i < fill && !s->left && s->zero; i++) {
        put(o, '0');
    }
    for (size_t i = 0; i < body_n; i++) {
        put(o, body[i]);
    }
    for (size_t i = 0; i < fill && s->left; i++) {
        put(o, ' ');
    }
}

/* Write at least `least` digits at the end of text[DIGITS_MAX]; returns the first. */
static char *digits(uint64_t value, unsigned base, int least, char *text)
{
    char *p = text + DIGITS_MAX;
    int n = 0;
    while ((value != 0 || n < least) && n < (int)DIGITS_MAX) {
        *--p = "0123456789abcdef"[value % base];
        value /= base;
        n++;
    }
    return p;
}

static void put_integer(struct out *o, struct spec s, uint64_t value, unsigned base,
                        const char *sign)
{
    char text[DIGITS_MAX];
    const char *p = digits(value, base, s.precision >= 0 ? s.precision : 1, text);
    s.zero = s.zero && s.precision < 0;
    put_field(o, &s, sign, p, (size_t)(text + DIGITS_MAX - p));
}

static void put_real(struct out *o, const struct spec *s, double value)
{
    char text[2 * DIGITS_MAX];
    int decimals = s->precision < 0 || s->precision > DECIMALS_MAX ? DECIMALS_MAX : s->precision;
    const char *sign = value < 0 ? "-" : "";
    double size = value < 0 ? -value : value;
    if (!(size < 9e12)) {
        const char *word = value != value ? "nan" : "big";
        put_field(o, s, value != value ? "" : sign, word, 3);
        return;
    }
    uint64_t scale = 1;
    for (int i = 0; i < decimals; i++) {
        scale *= 10u;
    }
    double scaled = size * (double)scale;
    uint64_t all = (uint64_t)scaled;
    double rest = scaled - (double)all;
    all += rest > 0.5 || (rest == 0.5 && (all & 1u) != 0) ? 1u : 0u;
    char part[DIGITS_MAX];
    const char *p = digits(all / scale, 10, 1, part);
    size_t n = (size_t)(part + DIGITS_MAX - p);
    memcpy(text, p, n);
    if (decimals > 0) {
        text[n++] = '.';
        p = digits(all % scale, 10, decimals, part);
        memcpy(text + n, p, (size_t)decimals);
        n += (size_t)decimals;
    }
    put_field(o, s, sign, text, n);
}

static int number(const char **format, va_list *args)
{
    int value = 0;
    if (**format == '*') {
        (*format)++;
        return va_arg(*args, int);
    }
    while (**format >= '0' && **format <= '9') {
        value = value * 10 + (*(*format)++ - '0');
    }
    return value;
}

static struct spec parse(const char **format, va_list *args)
{
    struct spec s = {.precision = -1, .length = sizeof(int)};
    for (; **format == '-' || **format == '0'; (*format)++) {
        s.left = s.left || **format == '-';
        s.zero = s.zero || **format == '0';
    }
    s.width = number(format, args);
    if (s.width < 0) {
        s.left = true;
        s.width = -s.width;
    }
    if (**format == '.') {
        (*format)++;
        s.precision = number(format, args);
    }
    for (;; (*format)++) {
        if (**format == 'l') {
            s.length = s.length == sizeof(long) && (*format)[-1] == 'l' ? (int)sizeof(long long)
                                                                        : (int)sizeof(long);
        } else if (**format == 'z') {
            s.length = sizeof(size_t);
        } else if (**format != 'h') {
            return s;
        }
    }
}

static uint64_t unsigned_of(int length, va_list *args)
{
    return length == (int)sizeof(uint64_t) ? va_arg(*args, uint64_t)
                                           : (uint64_t)va_arg(*args, unsigned);
}

static void put_signed(struct out *o, const struct spec *s, va_list *args)
{
    int64_t value = s->length == (int)sizeof(int64_t) ? va_arg(*args, int64_t)
                                                      : (int64_t)va_arg(*args, int);
    uint64_t size = value < 0 ? 0u - (uint64_t)value : (uint64_t)value;
    put_integer(o, *s, size, 10, value < 0 ? "-" : "");
}

static void put_text(struct out *o, const struct spec *s, const char *text)
{
    size_t n = 0;
    while ((s->precision < 0 || n < (size_t)s->precision) && text[n] != '\0') {
        n++;
    }
    put_field(o, s, "", text, n);
}

int vsnprintf(char *restrict text, size_t bytes, const char *restrict sentence, va_list list)
{
    const char *format = sentence;
    struct out o = {.text = text, .cap = bytes};
    va_list args;
    va_copy(args, list);
    for (; *format != '\0'; format++) {
        if (*format != '%') {
            put(&o, *format);
            continue;
        }
        format++;
        struct spec s = parse(&format, &args);
        if (*format == '\0') {
            break;
        }
        char c;
        switch (*format) {
        case 'd':
        case 'i':
            put_signed(&o, &s, &args);
            break;
        case 'u':
            put_integer(&o, s, unsigned_of(s.length, &args), 10, "");
            break;
        case 'x':
            put_integer(&o, s, unsigned_of(s.length, &args), 16, "");
            break;
        case 'p':
            put_integer(&o, s, (uintptr_t)va_arg(args, void *), 16, "0x");
            break;
        case 'f':
        case 'g':
            put_real(&o, &s, va_arg(args, double));
            break;
        case 's':
            put_text(&o, &s, va_arg(args, const char *));
            break;
        default:
            c = *format == 'c' ? (char)va_arg(args, int) : *format;
            put_field(&o, &s, "", &c, 1);
            break;
        }
    }
    va_end(args);
    if (bytes > 0) {
        text[o.n < bytes ? o.n : bytes - 1u] = '\0';
    }
    return (int)o.n;
}

int snprintf(char *restrict text, size_t bytes, const char *restrict format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, bytes, format, args);
    va_end(args);
    return n;
}
