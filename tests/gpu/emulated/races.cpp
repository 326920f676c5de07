/* SPDX-License-Identifier: Apache-2.0
 *
 * Time in a block is counted by its barriers, and within one such span each lane has a clock that
 * goes on with its __syncwarp; known[] is what a thread knows of its warp's clocks. Between blocks
 * there is only what atomics carry: the span in which a block drew, for all who draw later. */
#include "races.h"
#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LANES 32u
#define CELLS (size_t(1) << 22)         /* 16 MB of memory without two that share a cell */
#define READS 2u
#define PAGE_BYTES 4096u
#define PAGES 4096u
#define STACK_NEAR (size_t(128) << 10)  /* around what is called: this thread's locals */

/* Two words, made and compared as such. `who` is the thread, its clock, what of the four bytes it
 * touched (a bit each), whether as an atomic, and the code, as code_of knows it; 0: no access. */
struct access {
    uint64_t when, who;                 /* when: block and span */

    uint32_t block(void) const { return static_cast<uint32_t>(when >> 32); }
    uint32_t span(void) const { return static_cast<uint32_t>(when); }
    uint32_t from(void) const { return static_cast<uint32_t>(who >> 32); }
    unsigned clock(void) const { return who >> 16 & 0xffffu; }
    unsigned thread(void) const { return who & 0x7ffu; }
    unsigned bytes(void) const { return who >> 11 & 15u; }
    bool atomic(void) const { return (who >> 15 & 1u) != 0; }
};

/* What is known of four bytes: a line of the processor's cache. */
struct cell {
    uintptr_t word;
    uint64_t era;
    struct access write, read[READS];
};
static_assert(sizeof(struct cell) == 64, "one line");

/* What a block's draw by an atomic tells others: its spans before this one. */
struct drawn {
    uint32_t span;
    unsigned thread;
};
using draws = std::map<uint32_t, struct drawn>; /* by block */

/* Memory of the GPU is all blocks'; what is neither that nor a local is the block's own. */
enum place { UNKNOWN, OF_ALL, OF_BLOCK, OF_THREAD };

struct page {
    uintptr_t number;
    enum place place;
};

static struct cell *cells;
static struct page pages[PAGES];
static uint64_t eras, era_of_launch, era_of_block;
static uint64_t now;                    /* counts fences and atomics */
static uint32_t block, span;
static uint3 block_at;
/* Of a kernel: slots are compiled as their kernels are. */
static thread_local bool inside __attribute__((tls_model("initial-exec")));
static bool looks;
static uintptr_t code_base;
static unsigned thread;
static uint16_t known[THREADS_MAX][LANES];
static uint64_t fenced_at[THREADS_MAX]; /* the thread's last fence */
static uint32_t fenced_in[THREADS_MAX]; /* its span, from 1 */
static std::map<uintptr_t, draws> drawn_at; /* of this launch, by address */
static draws seen;                      /* what this block has drawn after */
static uint64_t seen_at;
static unsigned seen_by;
static uint32_t seen_in;

void races_launch(bool look)
{
    looks = look;
    if (!look) {
        return;
    }
    era_of_launch = ++eras;
    drawn_at.clear();
    memset(static_cast<void *>(pages), 0, sizeof pages);
    if (cells == nullptr) {
        void *map = mmap(nullptr, CELLS * sizeof *cells, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) {
            give_up("no memory to remember accesses");
        }
        cells = static_cast<struct cell *>(map);
    }
}

void races_block(uint3 at, unsigned number)
{
    if (!looks) {
        return;
    }
    block = number;
    block_at = at;
    era_of_block = ++eras;
    span = 1;
    memset(known, 0, sizeof known);
    memset(fenced_in, 0, sizeof fenced_in);
    seen.clear();
}

void races_thread(unsigned index)
{
    thread = index;
    inside = looks;
}

void races_threads_end(void)
{
    inside = false;
}

void races_barrier(void)
{
    span++;
}

void races_warp(unsigned first, unsigned mask)
{
    uint16_t all[LANES] = {0};
    for (unsigned lane = 0; lane < LANES; lane++) {
        known[first + lane][lane] += mask >> lane & 1u;
    }
    for (unsigned i = 0; i < LANES * LANES; i++) {
        unsigned lane = i / LANES, of = i % LANES;
        uint16_t k = (mask >> lane & 1u) != 0 ? known[first + lane][of] : uint16_t(0);
        all[of] = k > all[of] ? k : all[of];
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        if ((mask >> lane & 1u) != 0) {
            memcpy(known[first + lane], all, sizeof all);
        }
    }
}

void uw_emulated_fence(void)
{
    if (inside) {
        fenced_at[thread] = ++now;
        fenced_in[thread] = span;
    }
}

/* A draw carries what its block did in spans before this one, if who draws has fenced since the
 * barrier before it (every thread of the block fenced by then, or this one did afterwards), and what
 * it did itself. */
void uw_emulated_atomic(const void *at)
{
    if (!inside) {
        return;
    }
    draws &all = drawn_at[reinterpret_cast<uintptr_t>(at)];
    for (const auto &d : all) {
        seen[d.first] = d.second;
    }
    seen_at = ++now;
    seen_by = thread;
    seen_in = span;
    if (fenced_in[thread] != 0 && fenced_in[thread] + 1u >= span) {
        all = seen;
        all[block] = {span, thread};
    }
}

/* Has this thread fenced since the block drew, or the one that drew before a barrier? */
static bool fenced_since(void)
{
    return (thread == seen_by || span > seen_in) &&
           (fenced_at[thread] > seen_at || (fenced_at[seen_by] > seen_at && span > seen_in));
}

static bool ordered(struct access a)
{
    if (a.block() == block) {
        return a.span() < span || a.thread() == thread ||
               (a.thread() / LANES == thread / LANES &&
                known[thread][a.thread() % LANES] > a.clock());
    }
    auto d = seen.find(a.block());
    return d != seen.end() && fenced_since() &&
           (a.span() < d->second.span ||
            (a.span() == d->second.span && a.thread() == d->second.thread));
}

/* Kernels are in one program: their distance from the first that is seen has 32 bits. */
static uint32_t number_of(const void *code)
{
    uintptr_t at = reinterpret_cast<uintptr_t>(code);
    code_base = code_base != 0 ? code_base : at - (uintptr_t(1) << 31);
    return static_cast<uint32_t>(at - code_base);
}

static const void *code_of(uint32_t from)
{
    return reinterpret_cast<const void *>(code_base + from);
}

static void where(const void *code, char *text, size_t text_bytes)
{
    Dl_info in;
    char command[512];
    snprintf(text, text_bytes, "%p", code);
    if (dladdr(code, &in) == 0) {
        return;
    }
    size_t offset = static_cast<size_t>(static_cast<const char *>(code) -
                                        static_cast<const char *>(in.dli_fbase)) - 1u;
    snprintf(text, text_bytes, "%s+0x%zx", in.dli_fname, offset);
    snprintf(command, sizeof command, "addr2line -e '%s' 0x%zx 2>/dev/null", in.dli_fname, offset);
    FILE *f = popen(command, "r");
    char line[256];
    if (f != nullptr && fgets(line, sizeof line, f) != nullptr && line[0] != '?') {
        line[strcspn(line, "\n")] = '\0';
        snprintf(text, text_bytes, "%s", line);
    }
    if (f != nullptr) {
        (void)pclose(f);
    }
}

static void tell(struct access a, const char *first, struct access b,
                 const char *second, const void *at)
{
    char from_a[512], from_b[512];
    inside = false;
    where(code_of(a.from()), from_a, sizeof from_a);
    where(code_of(b.from()), from_b, sizeof from_b);
    give_up("a race at %p: thread %u of block %u %s it in %s, and thread %u of block %u %s it in %s "
            "(block (%u, %u, %u), after %u barriers); nothing orders the two", at, a.thread(),
            a.block(), first, from_a, b.thread(), b.block(), second, from_b, block_at.x, block_at.y,
            block_at.z, span - 1u);
}

static bool races(struct access before, struct access a)
{
    return before.who != 0 && (before.bytes() & a.bytes()) != 0 &&
           !(before.atomic() && a.atomic()) && !ordered(before);
}

/* Of reads the oldest makes room, but for one of this thread. */
static void remember_read(struct cell *c, struct access a)
{
    c->read[c->read[0].who != 0 && c->read[0].thread() != a.thread()] = a;
}

static void check_word(uintptr_t word, enum place place, struct access a, bool writes)
{
    struct cell *c = &cells[(word ^ (word >> 6 & 63u)) % CELLS]; /* tiles often have rows of 64 */
    uint64_t era = place == OF_ALL ? era_of_launch : era_of_block;
    const void *at = reinterpret_cast<const void *>(word * 4u);
    if (c->word != word || c->era != era) {
        *c = {word, era, {0, 0}, {{0, 0}, {0, 0}}};
    }
    if (races(c->write, a)) {
        tell(c->write, "wrote", a, writes ? "writes" : "reads", at);
    }
    if (!writes) {
        remember_read(c, a);
        return;
    }
    for (struct access r : c->read) {
        if (races(r, a)) {
            tell(r, "read", a, "writes", at);
        }
    }
    c->write = a;
    c->read[0].who = c->read[1].who = 0;
}

static enum place place_of(uintptr_t at)
{
    struct page *p = &pages[at / PAGE_BYTES % PAGES];
    if (p->place == UNKNOWN || p->number != at / PAGE_BYTES) {
        uintptr_t stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
        p->number = at / PAGE_BYTES;
        p->place = memory_find(reinterpret_cast<const void *>(at)) != nullptr ? OF_ALL
                   : at + STACK_NEAR > stack && at < stack + STACK_NEAR       ? OF_THREAD
                                                                              : OF_BLOCK;
    }
    return p->place;
}

static void check(const void *at, size_t bytes, bool writes, bool atomic, const void *from)
{
    uintptr_t first = reinterpret_cast<uintptr_t>(at), end = first + bytes;
    if (!inside) {
        return;
    }
    enum place place = place_of(first);
    if (place == OF_THREAD) {
        return;
    }
    uint64_t when = static_cast<uint64_t>(block) << 32 | span;
    uint64_t who = static_cast<uint64_t>(number_of(from)) << 32 | (atomic ? 1u << 15 : 0u) |
                   static_cast<uint32_t>(known[thread][thread % LANES]) << 16 | thread;
    for (uintptr_t word = first / 4u; word * 4u < end; word++) {
        unsigned skip = first > word * 4u ? static_cast<unsigned>(first - word * 4u) : 0u;
        unsigned n = end < word * 4u + 4u ? static_cast<unsigned>(end - word * 4u) : 4u;
        check_word(word, place, {when, who | ((1u << n) - (1u << skip)) << 11}, writes);
    }
}

#if !defined(__SANITIZE_THREAD__)
#define FROM __builtin_return_address(0)
#define HOOK(name, n, writes, atomic)                                                             \
    void __tsan_##name##n(void *at)                                                               \
    {                                                                                             \
        check(at, n, writes, atomic, FROM);                                                       \
    }
#define HOOKS(n)                                                                                  \
    HOOK(read, n, false, false)                                                                   \
    HOOK(write, n, true, false)                                                                   \
    HOOK(volatile_read, n, false, true)                                                           \
    HOOK(volatile_write, n, true, true)                                                           \
    HOOK(unaligned_read, n, false, false)                                                         \
    HOOK(unaligned_write, n, true, false)
/* Those of emulated_math.h. */
#define ATOMIC_HOOKS(bits, type)                                                                  \
    type __tsan_atomic##bits##_load(const volatile type *at, int)                                 \
    {                                                                                             \
        check(const_cast<const type *>(at), sizeof *at, true, true, FROM);                        \
        return *at;                                                                               \
    }                                                                                             \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int)                          \
    {                                                                                             \
        *at = value;                                                                              \
    }

extern "C" {
void __tsan_init(void);
void __tsan_read_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes);
void __tsan_init(void)
{
}

void __tsan_read_range(void *at, size_t bytes)
{
    check(at, bytes, false, false, FROM);
}

void __tsan_write_range(void *at, size_t bytes)
{
    check(at, bytes, true, false, FROM);
}
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
ATOMIC_HOOKS(32, uint32_t)
ATOMIC_HOOKS(64, uint64_t)
}
#endif
