/* SPDX-License-Identifier: Apache-2.0
 *
 * Model files, mutated. What is refused must come with a sentence that names the file; what is
 * accepted must be measurable or be refused by name. */
#include "fuzz.h"

#include "model_json.h"

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
    uw_fuzz_add(corpus, graph, sizeof graph - 1u);
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

static int try_one(const uint8_t *input, size_t bytes)
{
    struct uw_model_file m;
    struct uw_error err = {.text = ""};
    int rc = uw_model_parse(&m, "m.json", (const char *)input, bytes, &err);
    if (rc < 0) {
        return strncmp(err.text, "m.json:", 7) == 0 ? -rc : -1;
    }
    rc = measure(&m.def, &err);
    uw_model_file_deinit(&m);
    if (rc < 0 && err.text[0] == '\0') {
        return -1;
    }
    return rc < 0 ? 100 - rc : 0;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"model_json", add_inputs, try_one, 0}, argc, argv);
}
