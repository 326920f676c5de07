/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/allreduce_steps.h"

#include "base/base2.h"
#include "base/bits.h"

#include <stddef.h>
#include <string.h>

static const char *const names[UW_ALLREDUCE_KINDS_N] = {"tree", "doubling", "halving", "ring",
                                                        "sweep"};

static const struct uw_allreduce_step nothing = {.to = UW_RANK_NONE, .from = UW_RANK_NONE};

static struct uw_allreduce_step send_all(uint32_t to, uint32_t n)
{
    return (struct uw_allreduce_step){.to = to, .from = UW_RANK_NONE, .send_n = n};
}

static struct uw_allreduce_step take_all(uint32_t from, uint32_t n, enum uw_allreduce_take take)
{
    return (struct uw_allreduce_step){.to = UW_RANK_NONE, .from = from, .recv_n = n, .take = take};
}

/* Up to rank 0: in step k the ranks whose lowest set bit is k send. Down: the reverse. */
static struct uw_allreduce_step tree_step(uint32_t p, uint32_t rank, uint32_t n, uint32_t k)
{
    uint32_t levels = uw_log2_up(p);
    bool up = k < levels;
    uint32_t bit = 1u << (up ? k : 2 * levels - 1 - k);
    if (rank % bit != 0) {
        return nothing;
    }
    if ((rank & bit) != 0) {
        return up ? send_all(rank - bit, n) : take_all(rank - bit, n, UW_TAKE_COPY);
    }
    if (rank + bit >= p) {
        return nothing;
    }
    return up ? take_all(rank + bit, n, UW_TAKE_ADD) : send_all(rank + bit, n);
}

/* The first 2 * extra ranks fold in pairs: the even rank acts for both. */
struct fold {
    uint32_t extra, power, bits;
};

static struct fold fold_of(uint32_t p)
{
    uint32_t bits = uw_log2_down(p);
    return (struct fold){p - (1u << bits), 1u << bits, bits};
}

static bool sits_out(const struct fold *f, uint32_t rank)
{
    return rank < 2 * f->extra && rank % 2 == 1;
}

static uint32_t rank_to_folded(const struct fold *f, uint32_t rank)
{
    return rank < 2 * f->extra ? rank / 2 : rank - f->extra;
}

static uint32_t folded_to_rank(const struct fold *f, uint32_t folded)
{
    return folded < f->extra ? 2 * folded : folded + f->extra;
}

/* The even one of a pair hands the result to the odd one. */
static struct uw_allreduce_step unfold(const struct fold *f, uint32_t rank, uint32_t n)
{
    if (rank >= 2 * f->extra) {
        return nothing;
    }
    return rank % 2 == 0 ? send_all(rank + 1, n) : take_all(rank - 1, n, UW_TAKE_COPY);
}

static struct uw_allreduce_step doubling_step(uint32_t p, uint32_t rank, uint32_t n, uint32_t k)
{
    struct fold f = fold_of(p);
    if (f.extra > 0 && k == 0) {
        if (rank >= 2 * f.extra) {
            return nothing;
        }
        return rank % 2 == 1 ? send_all(rank - 1, n) : take_all(rank + 1, n, UW_TAKE_ADD);
    }
    k -= f.extra > 0 ? 1 : 0;
    if (k == f.bits) {
        return unfold(&f, rank, n);
    }
    if (sits_out(&f, rank)) {
        return nothing;
    }
    uint32_t other = folded_to_rank(&f, rank_to_folded(&f, rank) ^ 1u << k);
    return (struct uw_allreduce_step){.to = other, .from = other, .send_n = n, .recv_n = n,
                                      .take = UW_TAKE_ADD};
}

/* A pair reduces a half each, then the even one collects. */
static struct uw_allreduce_step fold_halves(const struct fold *f, uint32_t rank, uint32_t n,
                                            uint32_t k)
{
    uint32_t first = n / 2;
    bool odd = rank % 2 == 1;
    if (rank >= 2 * f->extra) {
        return nothing;
    }
    if (k == 0) {
        uint32_t other = odd ? rank - 1 : rank + 1;
        return (struct uw_allreduce_step){
            .to = other, .from = other, .send_at = odd ? 0 : first,
            .send_n = odd ? first : n - first, .recv_at = odd ? first : 0,
            .recv_n = odd ? n - first : first, .take = UW_TAKE_ADD};
    }
    struct uw_allreduce_step s = odd ? send_all(rank - 1, n - first)
                                     : take_all(rank + 1, n - first, UW_TAKE_COPY);
    s.send_at = odd ? first : 0;
    s.recv_at = odd ? 0 : first;
    return s;
}

struct window {
    uint32_t at, n;
};

/* What a folded rank still holds after `levels` halvings, and what it gave away in the last one. */
static struct window window_of(uint32_t folded, uint32_t n, uint32_t levels, struct window *given)
{
    struct window own = {0, n};
    for (uint32_t k = 0; k < levels; k++) {
        struct window left = {own.at, own.n / 2}, right = {own.at + own.n / 2, own.n - own.n / 2};
        bool high = (folded >> k & 1u) != 0;
        own = high ? right : left;
        *given = high ? left : right;
    }
    return own;
}

static struct uw_allreduce_step halving_step(uint32_t p, uint32_t rank, uint32_t n, uint32_t k)
{
    struct fold f = fold_of(p);
    if (f.extra > 0 && k < 2) {
        return fold_halves(&f, rank, n, k);
    }
    k -= f.extra > 0 ? 2 : 0;
    if (k == 2 * f.bits) {
        return unfold(&f, rank, n);
    }
    if (sits_out(&f, rank)) {
        return nothing;
    }
    bool scatter = k < f.bits;
    uint32_t level = scatter ? k : 2 * f.bits - 1 - k, folded = rank_to_folded(&f, rank);
    uint32_t other = folded_to_rank(&f, folded ^ 1u << level);
    struct window given = {0, 0}, own = window_of(folded, n, level + 1, &given);
    struct window out = scatter ? given : own, in = scatter ? own : given;
    return (struct uw_allreduce_step){.to = other, .from = other, .send_at = out.at,
                                      .send_n = out.n, .recv_at = in.at, .recv_n = in.n,
                                      .take = scatter ? UW_TAKE_ADD : UW_TAKE_COPY};
}

static struct window ring_window(uint32_t p, uint32_t n, uint32_t i)
{
    uint32_t at = (uint32_t)((uint64_t)n * i / p), end = (uint32_t)((uint64_t)n * (i + 1) / p);
    return (struct window){at, end - at};
}

static struct uw_allreduce_step ring_step(uint32_t p, uint32_t rank, uint32_t n, uint32_t k)
{
    bool scatter = k < p - 1;
    uint32_t turn = scatter ? k : k - (p - 1);
    uint32_t send = (rank + (scatter ? 0 : 1) + p - turn) % p;
    struct window out = ring_window(p, n, send), in = ring_window(p, n, (send + p - 1) % p);
    return (struct uw_allreduce_step){.to = (rank + 1) % p, .from = (rank + p - 1) % p,
                                      .send_at = out.at, .send_n = out.n, .recv_at = in.at,
                                      .recv_n = in.n,
                                      .take = scatter ? UW_TAKE_ADD : UW_TAKE_COPY};
}

static struct uw_allreduce_step sweep_step(uint32_t p, uint32_t rank, uint32_t n, uint32_t k)
{
    struct uw_base2_pair pair = uw_base2_pair(p, rank, k);
    if (pair.partner == UW_BASE2_IDLE) {
        return nothing;
    }
    return (struct uw_allreduce_step){.to = pair.partner, .from = pair.partner, .send_n = n,
                                      .recv_n = n, .take = UW_TAKE_MIX,
                                      .weight = (float)pair.part / (float)pair.whole};
}

const char *uw_allreduce_name(enum uw_allreduce_kind kind)
{
    return names[kind];
}

bool uw_allreduce_find(const char *name, enum uw_allreduce_kind *kind)
{
    for (int i = 0; i < UW_ALLREDUCE_KINDS_N; i++) {
        if (strcmp(name, names[i]) == 0) {
            *kind = (enum uw_allreduce_kind)i;
            return true;
        }
    }
    return false;
}

uint32_t uw_allreduce_steps_n(enum uw_allreduce_kind kind, uint32_t p)
{
    if (p < 2) {
        return 0;
    }
    struct fold f = fold_of(p);
    switch (kind) {
    case UW_ALLREDUCE_TREE: return 2 * uw_log2_up(p);
    case UW_ALLREDUCE_DOUBLING: return f.bits + (f.extra > 0 ? 2 : 0);
    case UW_ALLREDUCE_HALVING: return 2 * f.bits + (f.extra > 0 ? 3 : 0);
    case UW_ALLREDUCE_RING: return 2 * (p - 1);
    default: return uw_base2_rounds_n(p);
    }
}

struct uw_allreduce_step uw_allreduce_step(enum uw_allreduce_kind kind, uint32_t p, uint32_t rank,
                                           uint32_t n, uint32_t k)
{
    switch (kind) {
    case UW_ALLREDUCE_TREE: return tree_step(p, rank, n, k);
    case UW_ALLREDUCE_DOUBLING: return doubling_step(p, rank, n, k);
    case UW_ALLREDUCE_HALVING: return halving_step(p, rank, n, k);
    case UW_ALLREDUCE_RING: return ring_step(p, rank, n, k);
    default: return sweep_step(p, rank, n, k);
    }
}

uint32_t uw_allreduce_owned(enum uw_allreduce_kind kind, uint32_t p, uint32_t rank, uint32_t n,
                            uint32_t k, uint32_t *at)
{
    struct fold f = fold_of(p);
    struct window own = {0, n}, given;
    uint32_t folds = f.extra == 0 ? 0 : kind == UW_ALLREDUCE_HALVING ? 2 : 1;
    bool last;
    *at = 0;
    switch (kind) {
    case UW_ALLREDUCE_TREE: last = rank == 0 && k + 1 == uw_log2_up(p); break;
    case UW_ALLREDUCE_DOUBLING:
    case UW_ALLREDUCE_HALVING: last = !sits_out(&f, rank) && k + 1 == folds + f.bits; break;
    case UW_ALLREDUCE_RING: last = k + 2 == p; break;
    default: last = false; break;
    }
    if (!last) {
        return 0;
    }
    if (kind == UW_ALLREDUCE_HALVING) {
        own = window_of(rank_to_folded(&f, rank), n, f.bits, &given);
    } else if (kind == UW_ALLREDUCE_RING) {
        own = ring_window(p, n, (rank + 1) % p);
    }
    *at = own.at;
    return own.n;
}
