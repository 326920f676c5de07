/* SPDX-License-Identifier: Apache-2.0
 *
 * Model files, mutated. What is refused must come with a sentence that names the file; what is
 * accepted must be measurable or be refused by name, and be written so that it reads the same. */
#include "fuzz.h"

#include "model/model_json.h"

#include "uwasa/backends.h"

#include <stdlib.h>
#include <string.h>

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const char graph[] =
        "{\"name\": \"g\", \"input\": [2, 6, 7], \"layers\": [\n"
        "{\"name\": \"a\", \"type\": \"conv2d\", \"out_channels\": 3, \"kernel\": [3, 1],"
        " \"stride\": [1, 2], \"padding\": [1, 0], \"bias\": false},\n"
        "{\"name\": \"r\", \"type\": \"relu\"},\n"
        "{\"name\": \"s\", \"type\": \"add\", \"inputs\": [\"r\", \"a\"]},\n"
        "{\"name\": \"p\", \"type\": \"maxpool2d\", \"kernel\": 2, \"stride\": 1},\n"
        "{\"name\": \"f\", \"type\": \"flatten\"},\n"
        "{\"name\": \"d\", \"type\": \"dense\", \"out\": 2}]}";
    static const char everything[] =
        "{\"name\": \"e\", \"about\": \"all\", \"input\": [4, 8, 8], \"layers\": [\n"
        "{\"name\": \"a\", \"type\": \"conv2d\", \"out_channels\": 4, \"kernel\": 3,"
        " \"padding\": 1, \"dilation\": 1, \"groups\": 2},\n"
        "{\"name\": \"b\", \"type\": \"batchnorm\", \"eps\": 1e-4, \"momentum\": 0.2,"
        " \"affine\": false, \"frozen\": true},\n"
        "{\"name\": \"c\", \"type\": \"concat\", \"inputs\": [\"a\", \"b\"], \"axis\": 0},\n"
        "{\"name\": \"d\", \"type\": \"conv_transpose2d\", \"out_channels\": 4, \"kernel\": 2,"
        " \"stride\": 2, \"output_padding\": 1},\n"
        "{\"name\": \"e\", \"type\": \"avgpool2d\", \"kernel\": [3, 2], \"ceil_mode\": true,"
        " \"count_include_pad\": false},\n"
        "{\"name\": \"f\", \"type\": \"groupnorm\", \"num_groups\": 2},\n"
        "{\"name\": \"g\", \"type\": \"lrn\", \"size\": 3, \"alpha\": 0.1, \"beta\": 0.5,"
        " \"k\": 2},\n"
        "{\"name\": \"h\", \"type\": \"gelu\", \"approximate\": \"tanh\"},\n"
        "{\"name\": \"i\", \"type\": \"reshape\", \"shape\": [4, -1]},\n"
        "{\"name\": \"j\", \"type\": \"conv1d\", \"out_channels\": 6, \"kernel\": 3},\n"
        "{\"name\": \"k\", \"type\": \"maxpool1d\", \"kernel\": 2},\n"
        "{\"name\": \"l\", \"type\": \"transpose\", \"order\": [1, 0]},\n"
        "{\"name\": \"m\", \"type\": \"attention\", \"heads\": 2, \"causal\": true},\n"
        "{\"name\": \"n\", \"type\": \"layernorm\", \"axes\": 1},\n"
        "{\"name\": \"o\", \"type\": \"rnn\", \"hidden\": 5, \"nonlinearity\": \"relu\"},\n"
        "{\"name\": \"p\", \"type\": \"lstm\", \"hidden\": 5, \"reverse\": true},\n"
        "{\"name\": \"q\", \"type\": \"slice\", \"axis\": 0, \"start\": -1, \"length\": 1,"
        " \"squeeze\": true},\n"
        "{\"name\": \"r\", \"type\": \"dropout\", \"p\": 0.5},\n"
        "{\"name\": \"s\", \"type\": \"dense\", \"out\": 3}],\n"
        "\"losses\": [{\"type\": \"cross_entropy\", \"label_smoothing\": 0.1},\n"
        "{\"type\": \"huber\", \"layer\": \"r\", \"target\": \"values\", \"delta\": 2,"
        " \"weight\": 2}]}";
    static const char words[] =
        "{\"name\": \"w\", \"input\": [7], \"layers\": [\n"
        "{\"name\": \"e\", \"type\": \"embedding\", \"vocabulary\": 9, \"size\": 4},\n"
        "{\"name\": \"g\", \"type\": \"gru\", \"hidden\": 3, \"last\": true}],\n"
        "\"loss\": {\"type\": \"binary_cross_entropy\"}}";
    uw_fuzz_add(corpus, graph, sizeof graph - 1u);
    uw_fuzz_add(corpus, everything, sizeof everything - 1u);
    uw_fuzz_add(corpus, words, sizeof words - 1u);
    for (uint32_t i = 0; i < uw_model_builtins_n; i++) {
        uw_fuzz_add(corpus, uw_model_builtins[i].text, strlen(uw_model_builtins[i].text));
    }
}

static int measure(const struct uw_model_def *def, struct uw_error *err)
{
    struct uw_model_need need;
    struct uw_model_config config = {.def = def,
                                     .kernels = &uw_kernels_ref,
                                     .batch_n = 2,
                                     .optimizer = {.momentum = 0.9f},
                                     .snapshot = true,
                                     .input = true,
                                     .workspace_bytes = UW_MODEL_WORKSPACE_BYTES(def->layers_n)};
    void *workspace = malloc(config.workspace_bytes);
    config.workspace = workspace;
    int rc = workspace != NULL ? uw_model_measure(&config, &need, err) : UW_OK;
    free(workspace);
    return rc;
}

/* What was read is written, read and written again: the same text twice. */
static bool round_trip(const struct uw_model_def *def)
{
    struct uw_error err;
    struct uw_model_file again = {.layers = NULL};
    int bytes = uw_model_write(def, NULL, 0);
    char *first = bytes > 0 ? malloc((size_t)bytes + 1u) : NULL;
    char *second = bytes > 0 ? malloc((size_t)bytes + 1u) : NULL;
    bool same = first != NULL && second != NULL &&
                uw_model_write(def, first, (size_t)bytes + 1u) == bytes &&
                uw_model_parse(&again, "again", first, (size_t)bytes, &err) == UW_OK &&
                uw_model_write(&again.def, second, (size_t)bytes + 1u) == bytes &&
                memcmp(first, second, (size_t)bytes) == 0;
    uw_model_file_deinit(&again);
    free(first);
    free(second);
    return same;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    struct uw_model_file m;
    struct uw_error err = {.text = ""};
    int rc = uw_model_parse(&m, "m.json", (const char *)input, bytes, &err);
    if (rc < 0) {
        return strncmp(err.text, "m.json:", 7) == 0 ? -rc : -1;
    }
    bool same = round_trip(&m.def);
    rc = measure(&m.def, &err);
    uw_model_file_deinit(&m);
    if (!same || (rc < 0 && err.text[0] == '\0')) {
        return -1;
    }
    return rc < 0 ? 100 - rc : 0;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"model_json", add_inputs, try_one, 0}, argc, argv);
}
