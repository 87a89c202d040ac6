// The instructions of compute capability 9.0 that have no name in CUDA C++.

#ifndef TEIR_HOST

#define SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
// At least ``blocks`` at a time on one multiprocessor: its 65536 registers are shared among them.
#define KERNEL_BLOCKS(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define MAP const __grid_constant__ TensorMap
#define NO_UNROLL _Pragma("unroll 1")
#define HOPPER static __device__ __forceinline__

HOPPER unsigned bits_of_f32(float value) { return __float_as_uint(value); }
HOPPER float f32_of_bits(unsigned bits) { return __uint_as_float(bits); }
HOPPER float f32_toward_zero(double value) { return __double2float_rz(value); }
HOPPER float f32_of_f16(unsigned short half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}
HOPPER unsigned short f16_of_f32(float value) {
  unsigned short half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}
HOPPER unsigned short bf16_of_f32(float value) {
  unsigned short half;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}

// What lane ``source`` of the warp gives; all lanes call it together.
HOPPER unsigned from_lane(unsigned value, unsigned source) {
  return __shfl_sync(0xffffffffu, value, source);
}

// d += a * b on a warp's tensor cores: 16 rows, 8 columns, 16 steps of K. Lane l holds of a the
// rows l / 4 + 8 (i % 2), steps l % 4 + 4 (i / 2); of b the column l / 4, steps l % 4 + 4 i; of d
// the rows l / 4 + 8 (i / 2), columns 2 (l % 4) + i % 2.
HOPPER void double_product(double (&d)[4], const double (&a)[8], const double (&b)[4]) {
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
        "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}

// Copies from global to shared memory past the registers; zeros where not ``inside``.
template <int bytes> HOPPER void copy_async(void* to, const void* from, bool inside) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  const int read = inside ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(read)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(bytes),
                 "r"(read)
                 : "memory");
}
template <int bytes> HOPPER void copy_async(void* to, const void* from) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(bytes)
                 : "memory");
}
HOPPER void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> HOPPER void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
#endif
