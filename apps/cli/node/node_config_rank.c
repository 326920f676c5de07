/* SPDX-License-Identifier: Apache-2.0 */
#include "node_config_check.h"

#include "uwasa/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES 12u

/* Room for a text of the rank's own; NULL: none. */
static char *new_text(struct uw_node_file *f, size_t bytes)
{
    char *text = f->texts_n < UW_NODE_RANK_TEXTS ? malloc(bytes) : NULL;
    if (text != NULL) {
        f->texts[f->texts_n++] = text;
    }
    return text;
}

static const char *number(struct uw_node_file *f, uint32_t n)
{
    char *text = new_text(f, NUMBER_BYTES);
    if (text != NULL) {
        snprintf(text, NUMBER_BYTES, "%u", (unsigned)n);
    }
    return text;
}

/* The text with every {rank} and {size} in numbers; the text itself when it has none. */
static const char *fill(struct uw_node_file *f, const char *text, const char *rank,
                        const char *size)
{
    if (strstr(text, "{rank}") == NULL && strstr(text, "{size}") == NULL) {
        return text;
    }
    size_t cap = 2u * strlen(text) + NUMBER_BYTES, n = 0;   /* a number has less than 12 digits */
    char *out = new_text(f, cap);
    for (const char *p = text; out != NULL && *p != '\0';) {
        bool is_rank = strncmp(p, "{rank}", 6) == 0, is_size = strncmp(p, "{size}", 6) == 0;
        int k = is_rank || is_size ? snprintf(out + n, cap - n, "%s", is_rank ? rank : size)
                                   : snprintf(out + n, cap - n, "%c", *p);
        n += (size_t)k;
        p += is_rank || is_size ? 6 : 1;
    }
    return out;
}

/* "dir/w.safetensors" and "3" into "dir/w.3.safetensors". */
static const char *own_file(struct uw_node_file *f, const char *file, const char *rank)
{
    const char *base = strrchr(file, '/') != NULL ? strrchr(file, '/') + 1 : file;
    const char *dot = strrchr(base, '.');
    size_t stem = dot != NULL && dot != base ? (size_t)(dot - file) : strlen(file);
    size_t bytes = strlen(file) + strlen(rank) + 2u;
    char *out = new_text(f, bytes);
    if (out != NULL) {
        snprintf(out, bytes, "%.*s.%s%s", (int)stem, file, rank, file + stem);
    }
    return out;
}

static const char *own_name(struct uw_node_file *f, const char *name, const char *rank)
{
    size_t bytes = strlen(name) + strlen(rank) + 1u;
    char *out = new_text(f, bytes);
    if (out != NULL) {
        snprintf(out, bytes, "%s%s", name, rank);
    }
    return out;
}

/* Where there is a text and no {rank} in it, one of the rank's own. False: no memory. */
static bool give_own(struct uw_node_file *f, const char **text, const char *rank,
                     const char *(*own)(struct uw_node_file *, const char *, const char *))
{
    if (*text != NULL && strstr(*text, "{rank}") == NULL) {
        *text = own(f, *text, rank);
        return *text != NULL;
    }
    return true;
}

int uw_node_config_rank(struct uw_node_file *f, uint32_t rank, uint32_t size,
                        struct uw_error *err)
{
    struct uw_node_options *o = &f->o;
    if (size > UW_NODE_RANKS_MAX && strcmp(o->exchange, "allreduce") == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "\"exchange\" allreduce: %u ranks, and %u at most "
                            "average exactly; hierarchical has cells", (unsigned)size,
                            UW_NODE_RANKS_MAX);
    }
    const char *number_of = number(f, rank), *size_of = number(f, size);
    if (number_of == NULL || size_of == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    bool all = give_own(f, &o->name, number_of, own_name) &&
               (size <= 1 || (give_own(f, &o->checkpoint, number_of, own_file) &&
                              give_own(f, &o->trace, number_of, own_file) &&
                              give_own(f, &o->pcap, number_of, own_file)));
    if (all && size > 1 && o->events != NULL && strcmp(o->events, "-") != 0) {
        all = give_own(f, &o->events, number_of, own_file);
    }
    for (uint32_t i = 0; all && i < uw_node_keys.n; i++) {
        const struct uw_opt *row = &uw_node_keys.row[i];
        const char **text = (void *)((uint8_t *)o + row->offset);
        if (row->kind == UW_OPT_TEXT && *text != NULL) {
            *text = fill(f, *text, number_of, size_of);
            all = *text != NULL;
        }
    }
    o->seeds.n = 0;
    for (uint32_t i = 0; all && i < size && i < UW_OPT_LIST_MAX; i++) {
        o->seeds.item[i] = number(f, i);
        o->seeds.n = i + 1u;
        all = o->seeds.item[i] != NULL;
    }
    if (!all) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    o->members = o->members > size + 1u ? o->members : size + 1u;
    o->together = o->together != UW_NODE_TOGETHER_UNSAID ? o->together : size;
    f->ranked = true;
    return uw_node_config_check(f, err);
}

int uw_node_config_shard(const char *text, uint32_t *shard, uint32_t *shards_n)
{
    char *end;
    *shard = *shards_n = 0;
    if (text == NULL) {
        return UW_OK;
    }
    unsigned long i = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : UINT32_MAX;
    if (i >= UINT32_MAX || *end != '/' || end[1] < '1' || end[1] > '9') {
        return UW_ERR_INVALID;
    }
    unsigned long k = strtoul(end + 1, &end, 10);
    if (*end != '\0' || k > 65536 || i >= k) {
        return UW_ERR_INVALID;
    }
    *shard = (uint32_t)i;
    *shards_n = (uint32_t)k;
    return UW_OK;
}
