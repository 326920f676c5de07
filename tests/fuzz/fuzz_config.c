/* SPDX-License-Identifier: Apache-2.0
 *
 * Node configurations, mutated. What is refused must come with a sentence that names the file. */
#include "fuzz.h"

#include "node/node_config.h"

#include <string.h>

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const char small[] = "{\"name\": \"a\", \"run\": \"r\", \"key\": \"k\","
                                " \"model\": \"mlp\"}";
    static const char large[] =
        "{\"name\": \"a\", \"run\": \"r\", \"key\": \"k\", \"model\": \"mlp\",\n"
        "\"seeds\": [\"127.0.0.1:4433\", \"[::1]:1\"], \"lr\": 1e-2, \"batch\": 20,\n"
        "\"momentum_rule\": \"none\", \"schedule\": \"step:3:0.5\", \"pull_window\": \"64K\",\n"
        "\"emulate\": {\"loss\": 0.2, \"delay_ms\": 3, \"rate\": 1000000}, \"seed\": 7}";
    static const char line[] =
        "{\"name\": \"a\", \"run\": \"r\", \"key\": \"k\", \"model\": \"mlp\",\n"
        "\"link\": {\"serial\": \"/dev/ttyACM0\", \"baud\": 115200}, \"mtu\": 512}";
    uw_fuzz_add(corpus, line, sizeof line - 1u);
    uw_fuzz_add(corpus, small, sizeof small - 1u);
    uw_fuzz_add(corpus, large, sizeof large - 1u);
}

static int try_one(const uint8_t *input, size_t bytes)
{
    struct uw_node_file f;
    struct uw_error err = {.text = ""};
    int rc = uw_node_config_parse(&f, "c.json", (const char *)input, bytes, &err);
    uw_node_config_deinit(&f);
    if (rc < 0 && strncmp(err.text, "c.json:", 7) != 0) {
        return -1;
    }
    return -rc;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"config", add_inputs, try_one, 0}, argc, argv);
}
