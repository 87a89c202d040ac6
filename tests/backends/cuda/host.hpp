// Kernels on the host: the instructions of device/hopper.cu and device/tiles.cu on byte buffers.
//
// A thread is a fiber of ``host.cpp``, which is compiled once; this file is all a kernel needs of it
// and is read quickly: no header of the C++ library.

#include <math.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __forceinline__ inline
#define __restrict__ __restrict
#define HOPPER static inline
#define NO_UNROLL
#define __shared__ static
#define KERNEL(threads) static void
#define KERNEL_BLOCKS(threads, blocks) static void
#define SHARED(name) unsigned char* name = host::current->shared
#define MAP const TensorMap
#define CLUSTER(blocks)

namespace host {
struct Thread {
  unsigned char* shared;
  unsigned thread, rank, block;
};
extern Thread* current;
extern unsigned grid_blocks, block_threads;
void meet(int group, int threads);
void meet_cluster();
// What every lane of the caller's warp gave, ``count`` numbers each, lane by lane.
const double* gathered(const double* mine, unsigned count);
void barrier_init(uint32_t at, uint32_t arrivals);
void barrier_expect(unsigned rank, uint32_t at, uint32_t bytes);
void barrier_wait(uint32_t at, uint32_t parity);
void load(unsigned mask, uint32_t to, const void* map, uint32_t barrier, const int* c, unsigned rank);
void store(uint32_t from, const void* map, const int* c, unsigned rank);
void stores_commit();
void stores_read(unsigned pending);
void stores_fence();
void put(uint32_t at, const void* bytes, unsigned width);
// A copy that is under way: it is made at once, or when its thread waits for it.
void copy(void* to, const void* from, unsigned bytes);
void copies_commit();
void copies_wait(unsigned pending);
// A product that is under way: it reads its operands and writes its sums when ``compute`` is called.
typedef void (*Compute)(float* sums, uint64_t a, uint64_t b, int keep);
void issue(Compute compute, float* sums, uint64_t a, uint64_t b, int keep);
void products_fence();
void products_commit();
void products_wait(unsigned pending);
}  // namespace host

struct Dim { unsigned x; };
#define threadIdx (Dim{host::current->thread})
#define blockIdx (Dim{host::current->block})
#define gridDim (Dim{host::grid_blocks})
#define blockDim (Dim{host::block_threads})
static inline void __syncthreads() { host::meet(0, host::block_threads); }

HOPPER unsigned bits_of_f32(float value) { unsigned b; memcpy(&b, &value, 4); return b; }
HOPPER float f32_of_bits(unsigned bits) { float v; memcpy(&v, &bits, 4); return v; }
HOPPER float f32_toward_zero(double value) {
  float near = (float)value;
  if (__builtin_isinf(near) && !__builtin_isinf(value)) return copysignf(3.40282347e38f, near);
  return fabs((double)near) > fabs(value) ? nextafterf(near, 0.0f) : near;
}
HOPPER float f32_of_f16(unsigned short half) { _Float16 v; memcpy(&v, &half, 2); return (float)v; }
HOPPER unsigned short f16_of_f32(float value) {
  _Float16 v = (_Float16)value;
  unsigned short half;
  memcpy(&half, &v, 2);
  return half;
}
HOPPER unsigned short bf16_of_f32(float value) {
  unsigned bits = bits_of_f32(value);
  if (value != value) return 0x7fff;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

template <int bytes> static void copy_async(void* to, const void* from, bool inside = true) {
  host::copy(to, inside ? from : nullptr, bytes);
}
HOPPER void copies_commit() { host::copies_commit(); }
template <int pending> static void copies_wait() { host::copies_wait(pending); }

HOPPER unsigned from_lane(unsigned value, unsigned source) {
  double mine = value;
  return (unsigned)host::gathered(&mine, 1)[source];
}
// Its meaning, from the fragments of all lanes.
HOPPER void double_product(double (&d)[4], const double (&a)[8], const double (&b)[4]) {
  double mine[12];
  memcpy(mine, a, sizeof a);
  memcpy(mine + 8, b, sizeof b);
  const double* all = host::gathered(mine, 12);
  unsigned lane = host::current->thread % 32;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
    for (unsigned k = 0; k < 16; ++k)
      d[i] += all[(row % 8 * 4 + k % 4) * 12 + k / 4 * 2 + row / 8] *
              all[(column * 4 + k % 4) * 12 + 8 + k / 4];
  }
}

struct TensorMap;
namespace host {
static inline uint32_t swizzled(uint32_t at, uint32_t span) {
  return span ? at ^ (at / 128 % (span / 16)) * 16 : at;
}
// Bytes of an operand element: row r of M or N, column k of K (descriptor of the PTX ISA).
template <int width, bool along_rows> static uint32_t place(uint64_t bits, uint32_t r, uint32_t k) {
  static const uint32_t spans[] = {0, 128, 64, 32};
  uint32_t start = (bits & 0x3fff) * 16, leading = (bits >> 16 & 0x3fff) * 16;
  uint32_t stride = (bits >> 32 & 0x3fff) * 16, span = spans[bits >> 62];
  uint32_t line = along_rows ? k : r, across = (along_rows ? r : k) * width;
  uint32_t at = start + line % 8 * span + line / 8 * stride + across / span * leading;
  return swizzled(at + across % span, span);
}
enum Kind { BF16, FP16, TF32 };
template <Kind kind> static float number(uint32_t at) {
  const unsigned char* from = current->shared + at;
  if (kind == TF32) {
    unsigned bits;
    memcpy(&bits, from, 4);
    return f32_of_bits(bits & 0xffffe000u);
  }
  unsigned short half;
  memcpy(&half, from, 2);
  return kind == FP16 ? f32_of_f16(half) : f32_of_bits((unsigned)half << 16);
}
template <int n, Kind kind, bool a_rows, bool b_rows>
static void compute(float* sums, uint64_t a, uint64_t b, int keep) {
  constexpr int width = kind == TF32 ? 4 : 2, depth = 32 / width;
  unsigned t = current->thread % 128;
  for (int h = 0; h < 2; ++h) {
    uint32_t row = 16 * (t / 32) + t % 32 / 4 + 8 * h;
    float left[depth];
    for (int k = 0; k < depth; ++k) left[k] = number<kind>(place<width, a_rows>(a, row, k));
    for (int j = 0; j < n / 8; ++j)
      for (int c = 0; c < 2; ++c) {
        uint32_t column = 8 * j + 2 * (t % 4) + c;
        float& sum = sums[4 * j + 2 * h + c];
        double total = keep ? sum : 0.0;
        for (int k = 0; k < depth; ++k)
          total += (double)left[k] * number<kind>(place<width, b_rows>(b, column, k));
        sum = (float)total;
      }
  }
}
template <int n, Kind kind, bool a_rows, bool b_rows>
static void product(float (&sums)[n / 2], uint64_t a, uint64_t b, int keep) {
  issue(compute<n, kind, a_rows, b_rows>, sums, a, b, keep);
}
}  // namespace host

// As on the device, addresses of the shared window hold the block's rank in its cluster.
static inline uint32_t shared_address(const void* at) {
  return (uint32_t)((const unsigned char*)at - host::current->shared) | host::current->rank << 24;
}
static inline uint32_t in_block(uint32_t at) { return at & 0xffffffu; }
HOPPER void barrier_init(uint32_t at, uint32_t arrivals) { host::barrier_init(in_block(at), arrivals); }
HOPPER void barriers_ready() {}
HOPPER void barrier_expect(uint32_t at, uint32_t bytes) {
  host::barrier_expect(host::current->rank, in_block(at), bytes);
}
HOPPER void barrier_arrive(uint32_t at) { barrier_expect(at, 0); }
HOPPER void barrier_wait(uint32_t at, uint32_t parity) { host::barrier_wait(in_block(at), parity); }
HOPPER void prefetch_map(const TensorMap*) {}
template <typename... C>
static void tile_load(uint32_t to, const TensorMap* map, uint32_t barrier, C... c) {
  const int at[] = {(int)c...};
  host::load(1u << host::current->rank, in_block(to), map, in_block(barrier), at, sizeof...(C));
}
template <typename... C>
static void tile_load_all(uint32_t mask, uint32_t to, const TensorMap* map, uint32_t barrier, C... c) {
  const int at[] = {(int)c...};
  host::load(mask, in_block(to), map, in_block(barrier), at, sizeof...(C));
}
template <typename... C>
static void tile_store(uint32_t from, const TensorMap* map, C... c) {
  const int at[] = {(int)c...};
  host::store(in_block(from), map, at, sizeof...(C));
}
HOPPER void stores_commit() { host::stores_commit(); }
HOPPER void stores_fence() { host::stores_fence(); }
template <int pending> static void stores_read() { host::stores_read(pending); }
template <typename T> static void put_shared(uint32_t at, T pair) { host::put(in_block(at), &pair, sizeof pair); }
HOPPER uint32_t cluster_rank() { return host::current->rank; }
HOPPER void cluster_sync() { host::meet_cluster(); }
HOPPER void barrier_arrive_at(uint32_t rank, uint32_t at) { host::barrier_expect(rank, in_block(at), 0); }
HOPPER void products_fence() { host::products_fence(); }
HOPPER void products_commit() { host::products_commit(); }
template <int pending> static void products_wait() { host::products_wait(pending); }
template <int count> static void sums_settled(float (&)[count]) {}
template <int count> static void more_registers() {}
template <int count> static void fewer_registers() {}
HOPPER void group_sync(int group, int threads) { host::meet(group, threads); }
