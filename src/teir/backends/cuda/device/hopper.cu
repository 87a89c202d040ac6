// The instructions of compute capability 9.0 that have no name in CUDA C++.

#ifndef TEIR_HOST

#define SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
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
#endif
