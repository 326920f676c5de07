/* SPDX-License-Identifier: Apache-2.0 */
#include "medium_message.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (1u << 20)
#define BLOCK_LEAST 16u             /* messages */

static bool grow_heap(struct uw_sim_net *n, uint32_t cap)
{
    struct uw_sim_net_event *heap = realloc(n->heap, (size_t)cap * sizeof *heap);
    if (heap == NULL) {
        return false;
    }
    n->heap = heap;
    return true;
}

static bool add_block(struct uw_sim_net *n, uint32_t pool)
{
    struct uw_sim_pool *p = &n->pools[pool];
    size_t each = (sizeof(struct uw_sim_message) + p->cap_bytes + 7u) / 8u * 8u;
    uint32_t count = each * BLOCK_LEAST < BLOCK_BYTES ? (uint32_t)(BLOCK_BYTES / each)
                                                      : BLOCK_LEAST;
    if (!grow_heap(n, n->messages_n + count)) {
        return false;
    }
    uint8_t *block = malloc(sizeof(uint64_t) + each * count);
    if (block == NULL) {
        return false;
    }
    memcpy(block, &n->blocks, sizeof n->blocks);
    n->blocks = block;
    n->messages_n += count;
    for (uint32_t i = count; i-- > 0;) {
        struct uw_sim_message *m = (void *)(block + sizeof(uint64_t) + each * i);
        m->pool = (uint8_t)pool;
        m->next = p->free;
        p->free = m;
    }
    return true;
}

struct uw_sim_message *uw_sim_message_take(struct uw_sim_net *n, uint32_t bytes)
{
    uint32_t pool = bytes <= n->pools[0].cap_bytes ? 0 : 1u;
    struct uw_sim_pool *p = &n->pools[pool];
    if (p->free == NULL && !add_block(n, pool)) {
        return NULL;
    }
    struct uw_sim_message *m = p->free;
    p->free = m->next;
    m->next = NULL;
    return m;
}

void uw_sim_message_give(struct uw_sim_net *n, struct uw_sim_message *m)
{
    struct uw_sim_pool *p = &n->pools[m->pool];
    m->next = p->free;
    p->free = m;
}

static bool earlier(const struct uw_sim_net_event *a, const struct uw_sim_net_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

/* There is room for all messages that there are. A heap of four branches: it is half as deep as one
 * of two, and a node's branches lie together. */
void uw_sim_message_push(struct uw_sim_net *n, struct uw_sim_message *m, uint64_t at_us)
{
    const struct uw_sim_net_event e = {.at_us = at_us, .order = n->order++, .message = m};
    uint32_t i = n->heap_n++;
    for (; i != 0 && earlier(&e, &n->heap[(i - 1u) / 4u]); i = (i - 1u) / 4u) {
        n->heap[i] = n->heap[(i - 1u) / 4u];
    }
    n->heap[i] = e;
}

struct uw_sim_message *uw_sim_message_pop(struct uw_sim_net *n)
{
    struct uw_sim_message *m = n->heap[0].message;
    const struct uw_sim_net_event e = n->heap[--n->heap_n];
    uint32_t i = 0;
    for (;;) {
        uint32_t first = 4u * i + 1u;
        uint32_t end = first + 4u < n->heap_n ? first + 4u : n->heap_n;
        for (uint32_t k = first + 1u; k < end; k++) {
            first = earlier(&n->heap[k], &n->heap[first]) ? k : first;
        }
        if (first >= n->heap_n || !earlier(&n->heap[first], &e)) {
            break;
        }
        n->heap[i] = n->heap[first];
        i = first;
    }
    n->heap[i] = e;
    return m;
}
