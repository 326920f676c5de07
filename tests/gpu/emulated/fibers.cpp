/* SPDX-License-Identifier: Apache-2.0
 *
 * A switch saves what a call preserves. x86-64 has its own, as ucontext's asks the kernel for the
 * signal mask each time. */
#include "fibers.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define STACK_BYTES (512u << 10)
#else
#define STACK_BYTES (128u << 10)
#endif
#define GUARD_BYTES 4096u

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct fiber {
    void (*work)(void);
    char *stack;
#if defined(__x86_64__)
    void *at;
#else
    ucontext_t at;
#endif
    void *fake;                     /* the address sanitizer's */
};

static struct fiber *now;
static struct fiber outside;
#if defined(__SANITIZE_ADDRESS__)
static const void *outside_stack;
static size_t outside_bytes;
#endif

#if defined(__x86_64__)
extern "C" void uw_emulated_switch(void **from, void *to);
__asm__(".text\n"
        ".globl uw_emulated_switch\n"
        ".hidden uw_emulated_switch\n"
        ".type uw_emulated_switch, @function\n"
        "uw_emulated_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size uw_emulated_switch, .-uw_emulated_switch\n");

static void change(struct fiber *from, struct fiber *to)
{
    uw_emulated_switch(&from->at, to->at);
}
#else
static void change(struct fiber *from, struct fiber *to)
{
    (void)swapcontext(&from->at, &to->at);
}
#endif

static void begin(void)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &outside_stack, &outside_bytes);
#endif
    now->work();
    abort();
}

static void prepare(struct fiber *f)
{
#if defined(__x86_64__)
    void **top = reinterpret_cast<void **>(f->stack + STACK_BYTES) - 2;
    *top = reinterpret_cast<void *>(begin); /* where the first switch returns to */
    f->at = top - 6;
#else
    (void)getcontext(&f->at);
    f->at.uc_stack.ss_sp = f->stack;
    f->at.uc_stack.ss_size = STACK_BYTES;
    makecontext(&f->at, begin, 0);
#endif
}

struct fiber *fiber_new(void (*work)(void))
{
    struct fiber *f = static_cast<struct fiber *>(calloc(1, sizeof *f));
    void *map = mmap(nullptr, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f == nullptr || map == MAP_FAILED || mprotect(map, GUARD_BYTES, PROT_NONE) != 0) {
        fputs("emulated CUDA: no memory for the threads of a block\n", stderr);
        abort();
    }
    f->work = work;
    f->stack = static_cast<char *>(map) + GUARD_BYTES;
    prepare(f);
    return f;
}

void fiber_enter(struct fiber *f)
{
    now = f;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&outside.fake, f->stack, STACK_BYTES);
#endif
    change(&outside, f);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(outside.fake, nullptr, nullptr);
#endif
}

void fiber_leave(void)
{
    struct fiber *self = now;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&self->fake, outside_stack, outside_bytes);
#endif
    change(self, &outside);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(self->fake, &outside_stack, &outside_bytes);
#endif
}
