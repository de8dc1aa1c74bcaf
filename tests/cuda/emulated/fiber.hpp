#pragma once
// Stacks between which one thread of the operating system switches. Each stack is a thread of a block.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#define ECQ_EMULATED_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ECQ_EMULATED_ASAN 1
#endif
#endif

#if defined(ECQ_EMULATED_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

// Saves the registers that a function must preserve, leaves the stack pointer at *from, and goes on where `to` was
// left. A context of the C library would make two system calls each time, and collectives switch once per lane.
extern "C" void ecq_emulated_switch(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
  .pushsection .text
  .weak ecq_emulated_switch
  .type ecq_emulated_switch, @function
ecq_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size ecq_emulated_switch, . - ecq_emulated_switch
  .popsection
)");
#elif defined(__aarch64__)
asm(R"(
  .pushsection .text
  .weak ecq_emulated_switch
  .type ecq_emulated_switch, %function
ecq_emulated_switch:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  ret
  .size ecq_emulated_switch, . - ecq_emulated_switch
  .popsection
)");
#else
#error "the emulator switches stacks on x86-64 and 64-bit Arm alone"
#endif

namespace ecq_emulated {

[[noreturn]] inline void give_up(const char* why) {
  std::fprintf(stderr, "emulated CUDA: %s\n", why);
  std::abort();
}

/// Stack that runs `body`, which never returns; without a body, the stack that is already running.
class fiber {
 public:
  fiber() = default;
  explicit fiber(void (*body)()) : body_(body) {
    void* const memory =
        mmap(nullptr, guard + stack_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) give_up("no memory for a stack");
    stack_ = static_cast<std::byte*>(memory) + guard;
    if (mprotect(stack_, stack_bytes, PROT_READ | PROT_WRITE) != 0) give_up("no memory for a stack");
    bottom_ = stack_;
    size_ = stack_bytes;
    start_again();
  }
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber() {
    if (stack_ == nullptr) return;
    ASAN_UNPOISON_MEMORY_REGION(stack_, stack_bytes);
    munmap(stack_ - guard, guard + stack_bytes);
  }

  /// Makes the fiber begin at the beginning of `body`; whatever ran on the stack is forgotten.
  void start_again() {
    ASAN_UNPOISON_MEMORY_REGION(stack_, stack_bytes);
    fake_stack_ = nullptr;
    void (*const entry)() = &enter;
    std::byte* const top = stack_ + stack_bytes;
#if defined(__x86_64__)
    constexpr std::size_t frame = 64;         // six registers, the address to go to, an unused return address
    constexpr std::size_t link = frame - 16;  // offset of the address to go to
#else
    constexpr std::size_t frame = 160;
    constexpr std::size_t link = 8;
#endif
    std::memset(top - frame, 0, frame);
    std::memcpy(top - frame + link, &entry, sizeof entry);
    stack_pointer_ = top - frame;
  }

  /// Leaves this fiber, which is running, for `next`. Returns when another fiber switches back.
  void switch_to(fiber& next) {
    left_ = this;
    entered_ = &next;
#if defined(ECQ_EMULATED_ASAN)
    __sanitizer_start_switch_fiber(&fake_stack_, next.bottom_, next.size_);
#endif
    ecq_emulated_switch(&stack_pointer_, next.stack_pointer_);
    arrived(fake_stack_);
  }

 private:
  static constexpr std::size_t guard = std::size_t{64} << 10;  // a multiple of every system's page size
#if defined(ECQ_EMULATED_ASAN)
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;
#else
  static constexpr std::size_t stack_bytes = std::size_t{64} << 10;
#endif

  static void enter() {
    arrived(nullptr);
    entered_->body_();
    give_up("a thread returned to nowhere");
  }
  static void arrived([[maybe_unused]] void* fake_stack) {
#if defined(ECQ_EMULATED_ASAN)
    __sanitizer_finish_switch_fiber(fake_stack, &left_->bottom_, &left_->size_);
#endif
  }

  static inline fiber* left_ = nullptr;
  static inline fiber* entered_ = nullptr;

  void (*body_)() = nullptr;
  std::byte* stack_ = nullptr;
  void* stack_pointer_ = nullptr;
  void* fake_stack_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ecq_emulated
