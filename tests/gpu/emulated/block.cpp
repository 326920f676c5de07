/* SPDX-License-Identifier: Apache-2.0
 *
 * A fiber runs one thread after another, as long as they end; a thread that waits keeps its fiber,
 * and the next ones get another. So a kernel without barriers needs one fiber and no switch. */
#include "block.h"
#include "fibers.h"
#include "races.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LANES 32u
#define SHARED_MAX (256u << 10)
#define NOTHING 0xff            /* fills memory: NaN as a float and as a double */

enum state { NOT_BEGUN, READY, AT_BARRIER, IN_WARP, ENDED };

struct thread {
    struct uw_emulated_place place;
    struct fiber *fiber;
    enum state state;
    struct uw_emulated_site site;
    enum uw_emulated_warp_op op;
    unsigned mask, with, width;
    uint64_t value, result;
};

struct uw_emulated_place *uw_emulated_at;

static struct thread threads[THREADS_MAX];
static unsigned threads_n, begun_n;
static bool backwards;
static struct thread *running;
static unsigned in_warp[THREADS_MAX / LANES];   /* lanes that wait for others */
static struct fiber *spare[THREADS_MAX];
static unsigned spare_n;
static unsigned char *shared_end;               /* a page that nobody may touch follows */
static void *shared_at;
static const struct uw_emulated_kernel *kernel;

void give_up(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("emulated CUDA: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

static unsigned index_of(const struct thread *t)
{
    return static_cast<unsigned>(t - threads);
}

static void resume(struct thread *t)
{
    running = t;
    uw_emulated_at = &t->place;
    races_thread(index_of(t));
}

static struct thread *next_to_begin(void)
{
    if (begun_n == threads_n) {
        return nullptr;
    }
    unsigned i = backwards ? threads_n - 1u - begun_n : begun_n;
    begun_n++;
    return &threads[i];
}

/* A fiber's life. */
static void work(void)
{
    for (;;) {
        for (struct thread *t = next_to_begin(); t != nullptr; t = next_to_begin()) {
            resume(t);
            t->state = READY;
            kernel->thread();
            running->state = ENDED;
        }
        running = nullptr;
        fiber_leave();
    }
}

static void wait_as(enum state state)
{
    struct thread *t = running;
    t->state = state;
    fiber_leave();
    resume(t);
}

/* Enter f; who waits in it afterwards has it, else it is spare. */
static void enter(struct fiber *f)
{
    fiber_enter(f);
    if (running != nullptr) {
        running->fiber = f;
    } else {
        spare[spare_n++] = f;
    }
}

static void begin_all(void)
{
    while (begun_n < threads_n) {
        enter(spare_n > 0 ? spare[--spare_n] : fiber_new(work));
    }
}

int uw_emulated_barrier(struct uw_emulated_site site, bool value)
{
    running->site = site;
    running->value = value;
    wait_as(AT_BARRIER);
    return static_cast<int>(running->result);
}

unsigned uw_emulated_active(void)
{
    return 1u << index_of(running) % LANES;
}

void *uw_emulated_shared(void)
{
    return shared_at;
}

/* What lane `lane` of the warp gets, all lanes of its mask being there. */
static uint64_t warp_result(const struct thread *warp, unsigned lane)
{
    const struct thread *t = &warp[lane];
    unsigned first = lane / t->width * t->width, from = lane;
    uint64_t bits = 0;
    switch (t->op) {
    case UW_EMULATED_SYNC:
        return 0;
    case UW_EMULATED_BALLOT:
        for (unsigned i = 0; i < LANES; i++) {
            bits |= (t->mask >> i & 1u) != 0 && warp[i].value != 0 ? uint64_t(1) << i : 0;
        }
        return bits;
    case UW_EMULATED_SHFL:
        from = first + t->with % t->width;
        break;
    case UW_EMULATED_UP:
        from = lane - first >= t->with ? lane - t->with : lane;
        break;
    case UW_EMULATED_DOWN:
        from = lane - first + t->with < t->width ? lane + t->with : lane;
        break;
    case UW_EMULATED_XOR:
        from = (lane ^ t->with) < first + t->width ? lane ^ t->with : lane;
        break;
    }
    /* What another lane has that takes no part is not defined. */
    return (t->mask >> from & 1u) != 0 ? warp[from].value : ~uint64_t(0);
}

static bool same_call(const struct thread *a, const struct thread *b)
{
    return a->op == b->op && a->mask == b->mask && a->site.line == b->site.line &&
           strcmp(a->site.file, b->site.file) == 0;
}

/* The last lane is there. */
static void finish_warp(struct thread *warp, unsigned mask, const struct thread *last)
{
    for (unsigned i = 0; i < LANES; i++) {
        if ((mask >> i & 1u) != 0 && !same_call(&warp[i], last)) {
            give_up("%s:%d: lanes of one mask call different warp functions: %s:%d",
                    last->site.file, last->site.line, warp[i].site.file, warp[i].site.line);
        }
    }
    if (last->op == UW_EMULATED_SYNC) {
        races_warp(index_of(warp), mask);
    }
    for (unsigned i = 0; i < LANES; i++) {
        if ((mask >> i & 1u) != 0) {
            warp[i].result = warp_result(warp, i);
            warp[i].state = READY;
        }
    }
}

uint64_t uw_emulated_warp(struct uw_emulated_site site, enum uw_emulated_warp_op op, unsigned mask,
                          uint64_t value, unsigned with, unsigned width)
{
    struct thread *t = running;
    unsigned at = index_of(t), lane = at % LANES, first = at - lane;
    unsigned lanes = threads_n - first < LANES ? threads_n - first : LANES;
    if ((mask >> lane & 1u) == 0 || (lanes < LANES && mask >> lanes != 0)) {
        give_up("%s:%d: the mask %08x names lanes that the warp does not have (%u), or not the "
                "one that calls (%u)", site.file, site.line, mask, lanes, lane);
    }
    if (width == 0 || width > LANES || (width & (width - 1u)) != 0) {
        give_up("%s:%d: a width of %u", site.file, site.line, width);
    }
    t->site = site;
    t->op = op;
    t->mask = mask;
    t->value = value;
    t->with = with;
    t->width = width;
    unsigned *there = &in_warp[first / LANES];
    *there |= 1u << lane;
    if ((*there & mask) == mask) {
        *there &= ~mask;
        finish_warp(&threads[first], mask, t);
        return t->result;
    }
    wait_as(IN_WARP);
    return t->result;
}

/* Returns whether a thread ran. */
static bool run_ready(void)
{
    bool any = false;
    for (unsigned n = 0; n < threads_n; n++) {
        struct thread *t = &threads[backwards ? threads_n - 1u - n : n];
        if (t->state == READY) {
            struct fiber *f = t->fiber;
            running = t;
            enter(f);
            any = true;
        }
    }
    return any;
}

/* Nobody can go on: every thread has ended, or all stand at one barrier, or the kernel is wrong. */
static bool all_ended(void)
{
    for (unsigned i = 0; i < threads_n; i++) {
        if (threads[i].state != ENDED) {
            return false;
        }
    }
    return true;
}

static void explain(const struct thread *t)
{
    static const char *const states[] = {"has not begun", "runs", "is at the barrier of",
                                         "waits for lanes of its warp in", "has ended"};
    unsigned like_it = 0;
    for (unsigned i = 0; i < threads_n; i++) {
        like_it += threads[i].state == t->state;
    }
    fprintf(stderr, "  thread %u of %u %s", index_of(t), threads_n, states[t->state]);
    if (t->state != ENDED) {
        fprintf(stderr, " %s:%d", t->site.file, t->site.line);
    }
    fprintf(stderr, ", %u such threads\n", like_it);
}

static void check_barrier(void)
{
    const struct thread *a = &threads[0];
    for (unsigned i = 0; i < threads_n; i++) {
        const struct thread *b = &threads[i];
        if (b->state == AT_BARRIER && a->state == AT_BARRIER && b->site.line == a->site.line &&
            strcmp(b->site.file, a->site.file) == 0) {
            continue;
        }
        if (a == b) {
            b = a + 1;
            while (b < threads + threads_n - 1 && b->state == a->state) {
                b++;
            }
        }
        explain(a);
        explain(b);
        give_up("a barrier or a warp function that not all of its threads reach: block (%u, %u, "
                "%u)", a->place.block.x, a->place.block.y, a->place.block.z);
    }
}

static void pass_barrier(void)
{
    uint64_t count = 0;
    check_barrier();
    races_barrier();
    for (unsigned i = 0; i < threads_n; i++) {
        count += threads[i].value;
    }
    for (unsigned i = 0; i < threads_n; i++) {
        threads[i].result = count;
        threads[i].state = READY;
    }
}

static void prepare(const struct uw_emulated_kernel &k, uint3 block)
{
    uint3 at = {0, 0, 0};
    threads_n = k.threads.x * k.threads.y * k.threads.z;
    begun_n = 0;
    for (unsigned i = 0; i < threads_n; i++) {
        threads[i].place = {at, block, k.threads, k.grid};
        threads[i].state = NOT_BEGUN;
        at.x = at.x + 1u < k.threads.x ? at.x + 1u : 0u;
        at.y = at.x > 0u ? at.y : at.y + 1u < k.threads.y ? at.y + 1u : 0u;
        at.z = at.x > 0u || at.y > 0u ? at.z : at.z + 1u;
    }
    memset(in_warp, 0, sizeof in_warp);
    if (k.own.from != nullptr) {
        memset(k.own.from, NOTHING, static_cast<size_t>(k.own.to - k.own.from));
    }
    memset(shared_at, NOTHING, k.shared_bytes);
}

static void run_block(const struct uw_emulated_kernel &k, uint3 block)
{
    prepare(k, block);
    begin_all();
    for (;;) {
        if (run_ready()) {
            continue;
        }
        if (all_ended()) {
            return;
        }
        pass_barrier();
    }
}

static void take_shared(size_t bytes)
{
    if (shared_end == nullptr) {
        void *map = mmap(nullptr, SHARED_MAX + 4096u, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) {
            give_up("no memory for shared memory");
        }
        shared_end = static_cast<unsigned char *>(map) + SHARED_MAX;
        (void)mprotect(shared_end, 4096, PROT_NONE);
    }
    shared_at = shared_end - (bytes + 15u) / 16u * 16u;
}

void run_kernel(const struct uw_emulated_kernel &k, unsigned order, bool races)
{
    size_t blocks = static_cast<size_t>(k.grid.x) * k.grid.y * k.grid.z;
    races_launch(races);
    backwards = (order & 1u) != 0;
    kernel = &k;
    take_shared(k.shared_bytes);
    for (size_t n = 0; n < blocks; n++) {
        size_t i = (order & 2u) != 0 ? blocks - 1u - n : n;
        uint3 block = {static_cast<unsigned>(i % k.grid.x),
                       static_cast<unsigned>(i / k.grid.x % k.grid.y),
                       static_cast<unsigned>(i / k.grid.x / k.grid.y)};
        races_block(block, static_cast<unsigned>(i));
        run_block(k, block);
    }
    races_threads_end();
}
