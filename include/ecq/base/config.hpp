#pragma once
/// \file
/// Compiler and machine differences, kept in one place. Everything else in the library is plain C++20.

#if defined(__cplusplus) && __cplusplus < 202002L && (!defined(_MSVC_LANG) || _MSVC_LANG < 202002L)
#error "ecq needs C++20: compile with -std=c++20"
#include "C++20"  // There is no such file: the compiler stops here instead of naming a thousand consequences.
#endif

/// \def ECQ_HEADER_ONLY
/// 1 unless ECQ_COMPILED is defined; linking the CMake target ecq::compiled defines it. Definitions that involve no
/// user type are in "-inl" headers. If ECQ_HEADER_ONLY is 1, the headers that declare them include these; otherwise
/// only the compiled library contains them.
/// \def ECQ_INLINE
/// Precedes the definitions in "-inl" headers: `inline`, or nothing if the library compiles them once.
#if defined(ECQ_COMPILED)
#define ECQ_HEADER_ONLY 0
#define ECQ_INLINE
#else
#define ECQ_HEADER_ONLY 1
#define ECQ_INLINE inline
#endif

/// Marks functions that compile for the host and, under nvcc, for the device too.
#if defined(__CUDACC__)
#define ECQ_HOST_DEVICE __host__ __device__
#else
#define ECQ_HOST_DEVICE
#endif

/// \def ECQ_EXACT_FLOAT
/// Marks a function whose floating-point results are part of the format: the same bits with every compiler, flag
/// (-ffast-math included) and instruction set, as long as the machine does not flush subnormal numbers to zero. Without
/// it, a build with FMA contracts `a * b + c` and rounds once instead of twice, so a scale would differ from machine to
/// machine. clang has no such attribute; there ECQ_EXACT_FLOAT_BODY does the work.
/// \def ECQ_EXACT_FLOAT_BODY
/// Comes first in the body of every function marked ECQ_EXACT_FLOAT.
#if defined(__clang__)
#define ECQ_EXACT_FLOAT
#define ECQ_EXACT_FLOAT_BODY _Pragma("clang fp contract(off) reassociate(off)")
#elif defined(__GNUC__)
#define ECQ_EXACT_FLOAT __attribute__((optimize("fp-contract=off", "no-fast-math")))
#define ECQ_EXACT_FLOAT_BODY
#else
#define ECQ_EXACT_FLOAT
#define ECQ_EXACT_FLOAT_BODY
#endif

/// 1 where files can be memory-mapped and replaced the POSIX way, else 0 (plain reads and writes).
#if !defined(ECQ_POSIX)
#if defined(__unix__) || defined(__APPLE__)
#define ECQ_POSIX 1
#else
#define ECQ_POSIX 0
#endif
#endif

/// 1 where the library has kernels for the x86-64 instruction sets, chosen at run time; else 0 (only the scalar
/// definition). It has the same value in a .cu file, whose host code the host compiler compiles, so that inline
/// functions have one body in all files of a program. If nvcc's front end rejects a host compiler's intrinsics, define
/// -DECQ_X86=0 in every file.
#if !defined(ECQ_X86)
#if defined(__x86_64__) && defined(__GNUC__)
#define ECQ_X86 1
#else
#define ECQ_X86 0
#endif
#endif

/// Marks every function that uses AVX2, or FMA, which comes with it. Users need no -m flags, and no other code is
/// compiled for AVX2. ECQ_EXACT_FLOAT marks functions whose products and sums must be rounded one by one.
#define ECQ_AVX2 [[gnu::target("avx2,bmi,bmi2,fma,popcnt")]]
/// \def ECQ_AVX512_EMULATED
/// 1 where functions emulate the intrinsics of AVX-512 (tests/support/avx512_emulated), so that tests run its kernels
/// on machines without it; else 0.
/// \def ECQ_AVX512
/// Marks every function that uses AVX-512, as ECQ_AVX2 does for AVX2. Not every machine with AVX-512 has dot products
/// of BF16. They occur only where an intrinsic asks for them: no compiler generates them from other code.
/// \def ECQ_AVX512_VNNI
/// Marks every function that uses the dot products of bytes of AVX-512 (VNNI), which not every machine with AVX-512
/// has.
/// \def ECQ_AMX
/// Marks every function that uses tile registers (AMX, see machine_has_amx()) and AVX-512.
#if !defined(ECQ_AVX512_EMULATED)
#define ECQ_AVX512_EMULATED 0
#endif
#if ECQ_AVX512_EMULATED
#define ECQ_AVX512 ECQ_AVX2
#define ECQ_AVX512_VNNI ECQ_AVX2
#define ECQ_AMX ECQ_AVX2
#else
#define ECQ_AVX512                                                                                               \
  [[gnu::target(                                                                                                 \
      "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni,avx2,bmi,bmi2," \
      "popcnt")]]
#define ECQ_AVX512_VNNI                                                                                                \
  [[gnu::target(                                                                                                       \
      "avx512vnni,avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni,avx2,bmi," \
      "bmi2,popcnt")]]
#define ECQ_AMX                                                                                          \
  [[gnu::target(                                                                                         \
      "amx-tile,amx-bf16,amx-int8,avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2," \
      "avx512vpopcntdq,gfni,avx2,bmi,bmi2,popcnt")]]
#endif

/// \def ECQ_NEON
/// 1 where the compiler targets little-endian 64-bit Arm, which always has Advanced SIMD; else 0. Also 0 for nvcc,
/// which cannot read every compiler's <arm_neon.h>.
#if defined(__aarch64__) && defined(__ARM_NEON) && defined(__GNUC__) && !defined(__CUDACC__) && !defined(__AARCH64EB__)
#define ECQ_NEON 1
#else
#define ECQ_NEON 0
#endif

/// \def ECQ_NEON_DOT
/// 1 where the compiler can use the dot products of bytes of 64-bit Arm (dotprod), else 0. clang before 16 can use them
/// only with -march=armv8.2-a+dotprod.
/// \def ECQ_NEON_DOT_TARGET
/// Marks every function that uses the dot products of bytes of 64-bit Arm.
#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define ECQ_NEON_DOT 1
#define ECQ_NEON_DOT_TARGET
#elif defined(__aarch64__) && defined(__clang__) && __clang_major__ >= 16
#define ECQ_NEON_DOT 1
#define ECQ_NEON_DOT_TARGET [[gnu::target("dotprod")]]
#elif defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__)
#define ECQ_NEON_DOT 1
#define ECQ_NEON_DOT_TARGET [[gnu::target("arch=armv8.2-a+dotprod")]]
#else
#define ECQ_NEON_DOT 0
#define ECQ_NEON_DOT_TARGET
#endif

/// \def ECQ_KERNELS_BEGIN
/// Precedes functions that use AVX-512; ECQ_KERNELS_END follows them. It disables warnings about GCC's own headers,
/// which start some results from an uninitialised register on purpose, and at -O0, in GCC 14, pass an unsigned shift to
/// a built-in that takes an int.
/// \def ECQ_KERNELS_END
/// Restores the warnings that ECQ_KERNELS_BEGIN disabled.
#if defined(__GNUC__) && !defined(__clang__)
#define ECQ_KERNELS_BEGIN                                                                    \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmaybe-uninitialized\"") \
      _Pragma("GCC diagnostic ignored \"-Wuninitialized\"") _Pragma("GCC diagnostic ignored \"-Wsign-conversion\"")
#define ECQ_KERNELS_END _Pragma("GCC diagnostic pop")
#else
#define ECQ_KERNELS_BEGIN
#define ECQ_KERNELS_END
#endif

/// Marks functions that the device compiler must inline, however large they are. Otherwise, functions that take a sink
/// would move it from registers to memory.
#if defined(__CUDACC__)
#define ECQ_DEVICE_INLINE __attribute__((always_inline))
#else
#define ECQ_DEVICE_INLINE
#endif

/// Marks types whose values must not be ignored. Empty under nvcc, which mistakes an assignment for a discarded value.
#if defined(__CUDACC__)
#define ECQ_NODISCARD
#else
#define ECQ_NODISCARD [[nodiscard]]
#endif

/// Marks functions that run when something fails: compilers keep them out of line and small.
#if defined(__GNUC__)
#define ECQ_COLD [[gnu::cold, gnu::noinline]]
#else
#define ECQ_COLD
#endif

/// Precedes a loop with a constant number of iterations whose variables must be in registers. With AddressSanitizer the
/// loop is not unrolled, because clang would take ten times as long for some files.
#if defined(__CUDA_ARCH__)
#define ECQ_UNROLL _Pragma("unroll")
#elif defined(__clang__)
#if __has_feature(address_sanitizer)
#define ECQ_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define ECQ_UNROLL _Pragma("clang loop unroll(full)")
#endif
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define ECQ_UNROLL _Pragma("GCC unroll 16")
#else
#define ECQ_UNROLL
#endif

/// Precedes a loop that must not be unrolled because it rarely runs or its body is long. Unrolled, it would take a
/// device's registers, or most of a program's compile time.
#if defined(__CUDA_ARCH__)
#define ECQ_NO_UNROLL _Pragma("unroll 1")
#elif defined(__clang__)
#define ECQ_NO_UNROLL _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define ECQ_NO_UNROLL _Pragma("GCC unroll 1")
#else
#define ECQ_NO_UNROLL
#endif

/// Returns the error of a `result` expression from the enclosing function, or defines `name` as a reference to its
/// value: `ECQ_TRY(header, read_header(bytes));`
#define ECQ_TRY(name, ...)                                     \
  auto name##_result = (__VA_ARGS__);                          \
  if (!name##_result) return std::move(name##_result).error(); \
  auto& name = *name##_result

/// Returns the error of a `result` expression from the enclosing function, and ignores its value: ECQ_TRY for a
/// `result<void>`, or where the value is not needed.
#define ECQ_CHECK(...)                                                                         \
  do {                                                                                         \
    if (auto ecq_checked = (__VA_ARGS__); !ecq_checked) return std::move(ecq_checked).error(); \
  } while (false)
