// Kernels on the host: the instructions of device/hopper.cu and device/tiles.cu on byte buffers.
//
// A thread is a fiber; fibers are switched at barriers and waits only, in drawn order. Tile loads
// land later, in drawn order. Shared memory is poisoned. When nobody can go on, the run fails.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <vector>
#include <ucontext.h>

#define __device__
#define __forceinline__ inline
#define __restrict__ __restrict
#define HOPPER static inline
#define NO_UNROLL
#define __shared__ static
#define KERNEL(threads) static void
#define SHARED(name) unsigned char* name = host::block().shared.data() + host::block().shift
#define MAP const TensorMap
#define CLUSTER(blocks)

struct Dim { unsigned x; };
namespace host {
struct Barrier { int arrivals, missing; long long pending; unsigned phase; };
struct Block {
  std::vector<unsigned char> shared;
  size_t shift = 0;
  std::map<uint32_t, Barrier> barriers;
  std::map<int, std::pair<int, unsigned>> groups;
  unsigned number = 0;
};
struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  unsigned thread = 0;
  unsigned block = 0;
  bool done = false;
};
static std::vector<Block> blocks;
static std::vector<Fiber> fibers;
static Fiber* current = nullptr;
static ucontext_t scheduler;
static unsigned grid_blocks, block_threads, first_block;
static unsigned long long events;
static std::mt19937 drawn;
static std::vector<std::function<void()>> landing;
static std::function<void()> body;

static Block& block() { return blocks[current->block]; }
static const char* failure = nullptr;
static bool in_fiber = false;
static void fail(const char* why) {
  failure = why;
  if (in_fiber) swapcontext(&current->context, &scheduler);
}
static void yield() { swapcontext(&current->context, &scheduler); }
template <typename Ready> static void until(Ready ready) {
  while (!ready()) yield();
  ++events;
}
static void advance(Barrier& one) {
  if (one.missing < 0) fail("more arrivals than a barrier counts");
  if (one.missing || one.pending) return;
  one.missing = one.arrivals;
  ++one.phase;
  ++events;
}
static Barrier& barrier_of(Block& owner, uint32_t at) {
  auto found = owner.barriers.find(at);
  static Barrier none{1, 1, 0, 0};
  if (found != owner.barriers.end()) return found->second;
  fail("a barrier that was not initialised");
  return none;
}
static void meet(int group, int threads) {
  auto& [here, round] = block().groups[group];
  unsigned mine = round;
  if (++here == threads) {
    here = 0;
    ++round;
    ++events;
    return;
  }
  Block* owner = &block();
  until([=] { return owner->groups[group].second != mine; });
}
static std::pair<unsigned, unsigned> whole_cluster;
static void meet_cluster() {
  auto& [here, round] = whole_cluster;
  unsigned mine = round;
  if (++here == fibers.size()) {
    here = 0;
    ++round;
    ++events;
    return;
  }
  until([=] { return whole_cluster.second != mine; });
}
static void enter() {
  body();
  current->done = true;
  ++events;
  swapcontext(&current->context, &scheduler);
}
static void run_cluster(unsigned cluster, unsigned threads, size_t shared) {
  blocks.assign(cluster, Block{});
  for (unsigned at = 0; at < cluster; ++at) {
    Block& one = blocks[at];
    one.shared.assign(shared + 2048, 0xAB);
    one.shift = (1024 - reinterpret_cast<uintptr_t>(one.shared.data()) % 1024) % 1024;
    one.number = first_block + at;
  }
  fibers.clear();
  whole_cluster = {0, 0};
  fibers.resize(cluster * threads);
  for (unsigned at = 0; at < fibers.size(); ++at) {
    Fiber& one = fibers[at];
    one.stack.resize(64 * 1024);
    one.thread = at % threads;
    one.block = at / threads;
    getcontext(&one.context);
    one.context.uc_stack.ss_sp = one.stack.data();
    one.context.uc_stack.ss_size = one.stack.size();
    makecontext(&one.context, reinterpret_cast<void (*)()>(enter), 0);
  }
  for (;;) {
    unsigned long long before = events;
    unsigned left = 0;
    unsigned first = drawn() % fibers.size();
    for (unsigned at = 0; at < fibers.size(); ++at) {
      current = &fibers[(at + first) % fibers.size()];
      if (current->done) continue;
      ++left;
      in_fiber = true;
      swapcontext(&scheduler, &current->context);
      in_fiber = false;
      if (failure) return;
    }
    if (!left) break;
    bool stuck = events == before;
    if (!landing.empty() && (stuck || drawn() % 2)) {
      unsigned at = drawn() % landing.size();
      auto land = landing[at];
      landing.erase(landing.begin() + at);
      land();
      ++events;
    } else if (stuck) {
      return fail("nobody can go on");
    }
    if (failure) return;
  }
  if (!landing.empty()) fail("a tile load that nobody waited for");
}
}  // namespace host

#define threadIdx (Dim{host::current->thread})
#define blockIdx (Dim{host::block().number})
#define gridDim (Dim{host::grid_blocks})
#define blockDim (Dim{host::block_threads})
static inline void __syncthreads() { host::meet(0, host::block_threads); }

HOPPER unsigned bits_of_f32(float value) { unsigned b; memcpy(&b, &value, 4); return b; }
HOPPER float f32_of_bits(unsigned bits) { float v; memcpy(&v, &bits, 4); return v; }
HOPPER float f32_toward_zero(double value) {
  float near = (float)value;
  if (std::isinf(near) && !std::isinf(value)) return std::copysign(3.40282347e38f, near);
  return std::fabs((double)near) > std::fabs(value) ? std::nextafterf(near, 0.0f) : near;
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

struct TensorMap;
namespace host {
// The 128 bytes of a map as the tests write them.
struct Described {
  uint64_t base, strides[4];
  uint32_t sizes[5], box[5], rank, width, swizzle;
};
static uint32_t swizzled(uint32_t at, uint32_t span) {
  return span ? at ^ (at / 128 % (span / 16)) * 16 : at;
}
static void load(Block* owner, uint32_t to, const void* map, uint32_t barrier, std::vector<int> c) {
  Described one;
  memcpy(&one, map, sizeof one);
  if (one.rank != c.size()) fail("coordinates of another rank");
  if (to % 128) fail("a tile that is not aligned");
  landing.push_back([=] {
    uint32_t count = 1;
    for (uint32_t d = 0; d < one.rank; ++d) count *= one.box[d];
    for (uint32_t e = 0; e < count; ++e) {
      uint32_t rest = e;
      uint64_t from = one.base;
      bool inside = true;
      for (uint32_t d = 0; d < one.rank; ++d) {
        long long position = (long long)c[d] + rest % one.box[d];
        rest /= one.box[d];
        inside = inside && position >= 0 && position < one.sizes[d];
        from += position * (d ? one.strides[d - 1] : one.width);
      }
      uint32_t at = swizzled(to + e * one.width, one.swizzle);
      if (at + one.width > owner->shared.size() - 2048) return fail("a tile outside shared memory");
      unsigned char* target = owner->shared.data() + owner->shift + at;
      if (inside) memcpy(target, reinterpret_cast<const void*>(from), one.width);
      else memset(target, 0, one.width);
    }
    Barrier& mine = barrier_of(*owner, barrier);
    mine.pending -= count * one.width;
    advance(mine);
  });
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
  const unsigned char* from = block().shared.data() + block().shift + at;
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
static void product(float (&sums)[n / 2], uint64_t a, uint64_t b, int keep) {
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
}  // namespace host

static inline uint32_t shared_address(const void* at) {
  return (uint32_t)((const unsigned char*)at - host::block().shared.data() - host::block().shift);
}
HOPPER void barrier_init(uint32_t at, uint32_t arrivals) {
  host::block().barriers[at] = {(int)arrivals, (int)arrivals, 0, 0};
}
HOPPER void barriers_ready() {}
HOPPER void barrier_expect(uint32_t at, uint32_t bytes) {
  auto& one = host::barrier_of(host::block(), at);
  one.pending += bytes;
  --one.missing;
  host::advance(one);
}
HOPPER void barrier_arrive(uint32_t at) { barrier_expect(at, 0); }
HOPPER void barrier_wait(uint32_t at, uint32_t parity) {
  host::Block* owner = &host::block();
  host::until([=] { return host::barrier_of(*owner, at).phase % 2 != parity; });
}
HOPPER void prefetch_map(const TensorMap*) {}
template <typename... C>
static void tile_load(uint32_t to, const TensorMap* map, uint32_t barrier, C... c) {
  host::load(&host::block(), to, map, barrier, {(int)c...});
}
template <typename... C>
static void tile_load_all(uint32_t mask, uint32_t to, const TensorMap* map, uint32_t barrier, C... c) {
  for (unsigned at = 0; at < host::blocks.size(); ++at)
    if (mask >> at & 1) host::load(&host::blocks[at], to, map, barrier, {(int)c...});
}
HOPPER uint32_t cluster_rank() { return host::current->block; }
HOPPER void cluster_sync() { host::meet_cluster(); }
HOPPER void barrier_arrive_at(uint32_t rank, uint32_t at) {
  auto& one = host::barrier_of(host::blocks[rank], at);
  --one.missing;
  host::advance(one);
}
HOPPER void products_fence() {}
HOPPER void products_commit() {}
template <int pending> static void products_wait() {}
template <int count> static void more_registers() {}
template <int count> static void fewer_registers() {}
HOPPER void group_sync(int group, int threads) { host::meet(group, threads); }
using std::fma;
