/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes are divided into blocks of distinct powers of two, the largest first. Each block averages
 * internally. Then each block in turn mixes with all blocks behind it, which makes its mean that of
 * all from it on, and averages internally again. For 2^a r nodes with odd r, groups of r do so,
 * followed by a hypercube across the groups. */
#include "base2.h"

#include "bits.h"

struct block {
    uint32_t index;             /* 0: the largest */
    uint32_t first, nodes;
    uint32_t rest;              /* nodes of this and all later blocks */
};

static uint32_t power_below(uint32_t n)
{
    return 1u << uw_log2_down(n);
}

static struct block block_at(uint32_t nodes, uint32_t node)
{
    struct block b = {.nodes = power_below(nodes), .rest = nodes};
    while (node >= b.first + b.nodes) {
        b.first += b.nodes;
        b.rest -= b.nodes;
        b.nodes = power_below(b.rest);
        b.index++;
    }
    return b;
}

/* Rounds for an odd number of nodes. */
static uint32_t odd_rounds(uint32_t nodes)
{
    return nodes == 1 ? 0 : 2 * uw_log2_down(nodes) + 1;
}

static const struct uw_base2_pair idle = {.partner = UW_BASE2_IDLE, .whole = 1};

static struct uw_base2_pair half(uint32_t partner)
{
    return (struct uw_base2_pair){partner, 1, 2};
}

/* The pair of a node in round `round` of its block's hypercube. */
static struct uw_base2_pair inside(const struct block *b, uint32_t node, uint32_t round)
{
    uint32_t sides = uw_log2_down(b->nodes);
    if (sides == 0) {
        return idle;
    }
    return half(b->first + ((node - b->first) ^ 1u << round % sides));
}

static struct uw_base2_pair odd_pair(uint32_t nodes, uint32_t node, uint32_t round)
{
    struct block b = block_at(nodes, node);
    uint32_t before = uw_log2_down(power_below(nodes));
    if (round < before) {
        return inside(&b, node, round);
    }
    uint32_t l = round - before;        /* the block that mixes with later ones */
    if (l < b.index) {
        uint32_t rest = nodes;
        for (uint32_t i = 0; i < l; i++) {
            rest -= power_below(rest);
        }
        uint32_t own = power_below(rest);
        return (struct uw_base2_pair){node - own, own, rest};
    }
    if (l == b.index) {
        uint32_t behind = b.rest - b.nodes;
        return node - b.first < behind
                   ? (struct uw_base2_pair){node + b.nodes, b.nodes, b.rest}
                   : idle;
    }
    uint32_t since = l - b.index - 1;
    return since < uw_log2_down(b.nodes) ? inside(&b, node, since) : idle;
}

uint32_t uw_base2_rounds_n(uint32_t nodes)
{
    if (nodes < 2) {
        return 0;
    }
    uint32_t zeros = uw_lowest_bit(nodes);
    return odd_rounds(nodes >> zeros) + zeros;
}

struct uw_base2_pair uw_base2_pair(uint32_t nodes, uint32_t node, uint32_t round)
{
    if (nodes < 2 || node >= nodes || round >= uw_base2_rounds_n(nodes)) {
        return idle;
    }
    uint32_t size = nodes >> uw_lowest_bit(nodes), group = node / size, within = node % size;
    if (round >= odd_rounds(size)) {
        return half((group ^ 1u << (round - odd_rounds(size))) * size + within);
    }
    struct uw_base2_pair p = odd_pair(size, within, round);
    p.partner = p.partner == UW_BASE2_IDLE ? p.partner : group * size + p.partner;
    return p;
}
