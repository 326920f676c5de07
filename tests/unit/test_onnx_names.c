/* SPDX-License-Identifier: Apache-2.0
 *
 * Names in an exported file: no two values, and no two nodes, have the same one. */
#include "onnx_written.h"

static const int64_t rows[2] = {0, 3}, square[2] = {3, 3}, three[1] = {3};
static const float ramp[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

struct field {
    const uint8_t *at;
    size_t n;
    uint64_t number;
};

static uint64_t take_number(struct field *rest)
{
    uint64_t v = 0;
    for (uint32_t shift = 0;; shift += 7) {
        assert_true(rest->n > 0);
        uint8_t b = *rest->at++;
        rest->n--;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            return v;
        }
    }
}

/* Take the next field; those that are no bytes are left out. */
static bool next(struct field *rest, struct field *f)
{
    while (rest->n > 0) {
        uint64_t key = take_number(rest);
        if ((key & 7) == 0) {
            (void)take_number(rest);
        } else if ((key & 7) == 5) {
            rest->at += 4;
            rest->n -= 4;
        } else {
            assert_int_equal(key & 7, 2);
            *f = (struct field){.number = key >> 3};
            f->n = (size_t)take_number(rest);
            f->at = rest->at;
            assert_true(f->n <= rest->n);
            rest->at += f->n;
            rest->n -= f->n;
            return true;
        }
    }
    return false;
}

static void put_in(char set[64][64], uint32_t *n, const struct field *f)
{
    assert_true(*n < 64 && f->n < 64);
    memcpy(set[*n], f->at, f->n);
    set[*n][f->n] = '\0';
    for (uint32_t i = 0; i < *n; i++) {
        if (strcmp(set[i], set[*n]) == 0) {
            fail_msg("two are named '%s'", set[i]);
        }
    }
    ++*n;
}

static void assert_unique(const struct message *file)
{
    char values[64][64], nodes[64][64];
    uint32_t values_n = 0, nodes_n = 0;
    struct field rest = {file->bytes, file->n, 0}, f, part, word;
    while (next(&rest, &f)) {
        while (f.number == 7 && next(&f, &part)) { /* the graph's nodes, constants and inputs */
            uint64_t kind = part.number, name = kind == 1 ? 2 : kind == 5 ? 8 : kind == 11 ? 1 : 0;
            while (name != 0 && next(&part, &word)) {
                if (word.number == name) {
                    put_in(values, &values_n, &word);
                } else if (kind == 1 && word.number == 3) {
                    put_in(nodes, &nodes_n, &word);
                }
            }
        }
    }
    assert_true(values_n > 3 && nodes_n > 1);
}

/* x W^T + b, a value that trains, a softmax; the tensors as PyTorch names them after layers */
static void check(const char *in, const char *layer, const char *lone, const char *out)
{
    struct message g = {.n = 0};
    struct uw_convert_model c, again;
    struct uw_error err = {.text = ""};
    char names[64], weights[64], bias[64];
    value(&g, 11, in, 2, rows);
    value(&g, 12, out, 2, rows);
    snprintf(weights, sizeof weights, "%s.weight", layer);
    snprintf(bias, sizeof bias, "%s.bias", layer);
    constant(&g, weights, 2, square, ramp, 0);
    constant(&g, bias, 1, three, ramp, 0);
    constant(&g, lone, 1, three, ramp, 0);
    snprintf(names, sizeof names, "%s %s %s", in, weights, bias);
    add(&g, "Gemm", names, "h0", "", 0, NULL);
    snprintf(names, sizeof names, "h0 %s", lone);
    add(&g, "Mul", names, "h1", "", 0, NULL);
    snprintf(names, sizeof names, "h1 %s %s", weights, bias);
    add(&g, "Gemm", names, out, "", 0, NULL);
    read_as(&c, &g, 17, &err);
    assert_string_equal(err.text, "");
    struct message m = written(&c);
    assert_unique(&m);
    uw_convert_read(&again, m.bytes, m.n, "m", &err);
    assert_string_equal(err.text, "");
    assert_string_equal(again.input.name, in);
    assert_string_equal(again.output[0].name, out);
    uw_convert_deinit(&again);
    uw_convert_deinit(&c);
}

static void test_output_named_as_a_layer(void **state)
{
    (void)state;
    check("x", "output", "scale", "output");
    check("input", "out", "p", "out");
    check("x", "fc", "mul", "y");
}

static void test_names_as_the_export_makes_them(void **state)
{
    (void)state;
    check("/fc/0", "fc", "/fc/1", "/fc/2");
    check("/output/0", "output", "/output/2", "/mul/1");
    check("input", "input", "/input/0", "/input/1");
}

/* Without a file that it came from the ends are "input" and "output". */
static void test_parameter_named_as_an_end(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct message g = {.n = 0};
        struct uw_convert_model c;
        struct uw_error err = {.text = ""};
        value(&g, 11, "x", 2, rows);
        value(&g, 12, "y", 2, rows);
        constant(&g, i == 0 ? "output" : "input", 1, three, ramp, 0);
        add(&g, "Relu", "x", "h", "", 0, NULL);
        add(&g, "Mul", i == 0 ? "h output" : "h input", "y", "", 0, NULL);
        read_as(&c, &g, 17, &err);
        assert_string_equal(err.text, "");
        struct message m = written_like(&c, NULL);
        assert_unique(&m);
        uw_convert_deinit(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_named_as_a_layer),
        cmocka_unit_test(test_names_as_the_export_makes_them),
        cmocka_unit_test(test_parameter_named_as_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
