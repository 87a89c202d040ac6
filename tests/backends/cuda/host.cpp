// What a kernel on the host runs on: fibers, barriers, tile loads. The kernel sees ``host.hpp``.
//
// Fibers are switched at barriers and waits only, in drawn order. Tile loads land at once or later,
// in drawn order, and tile stores read at once or later; what nobody fenced may not be stored.
// Products read their operands and write their sums at once or when somebody waits for them.
// Shared memory is poisoned. When nobody can go on, the run fails.

#include "host.hpp"

#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <vector>
#include <setjmp.h>
#include <ucontext.h>

namespace host {
struct Barrier { int arrivals, missing; long long pending; unsigned phase; };
struct Block {
  std::vector<unsigned char> room;
  unsigned char* shared = nullptr;
  size_t shared_bytes = 0;
  std::map<uint32_t, Barrier> barriers;
  std::map<int, std::pair<int, unsigned>> groups;
  std::map<int, std::vector<double>> given;
};
// Where an ordinary store of a thread went; the stores of a warp are compared one by one.
struct Put { uint32_t at, width; };
struct Product {
  Compute compute;
  float* sums;
  uint64_t a, b;
  int keep;
  unsigned group;
};
struct Copy { void* to; const void* from; unsigned bytes, group; };
struct Fiber : Thread {
  ucontext_t start;
  jmp_buf place;
  bool begun, done, unfenced;
  unsigned committed;
  std::multiset<unsigned> storing;  // the groups of tile stores that still read
  std::vector<Put> puts;
  bool ordered;  // a fence of products has come since the sums were last read
  unsigned groups;
  std::deque<Product> products;
  unsigned copy_groups;
  std::deque<Copy> copies;
};
constexpr size_t STACK_BYTES = 64 * 1024;
Thread* current = nullptr;
unsigned grid_blocks, block_threads;
static std::vector<Block> blocks;
static std::vector<Fiber> fibers;
static std::vector<char> stacks;
static jmp_buf scheduler;
static unsigned long long events;
static std::mt19937 drawn;
static std::vector<std::function<void()>> landing, reading;  // tile loads, tile stores
static std::function<void()> body;
static const char* failure = nullptr;
static bool in_fiber = false;
static std::pair<unsigned, unsigned> whole_cluster;

// swapcontext asks the kernel for the signal mask at every switch; these do not.
static void yield() {
  if (!_setjmp(static_cast<Fiber*>(current)->place)) _longjmp(scheduler, 1);
}
static void resume(Fiber& one) {
  current = &one;
  if (_setjmp(scheduler)) return;
  if (one.begun) _longjmp(one.place, 1);
  one.begun = true;
  setcontext(&one.start);
}
static void fail(const char* why) {
  failure = why;
  if (in_fiber) yield();
}
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
void meet(int group, int threads) {
  auto& meeting = blocks[current->rank].groups[group];
  auto& [here, round] = meeting;
  unsigned mine = round;
  if (++here == threads) {
    here = 0;
    ++round;
    ++events;
    return;
  }
  until([&] { return meeting.second != mine; });
}
void meet_cluster() {
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
const double* gathered(const double* mine, unsigned count) {
  constexpr int FIRST_WARP = 1000;
  Block& owner = blocks[current->rank];
  unsigned lane = current->thread % 32;
  int warp = FIRST_WARP + current->thread / 32;
  // Two turns of numbers: a lane that is ahead does not overwrite what others still read.
  std::vector<double>& room = owner.given[warp * 2 + owner.groups[warp].second % 2];
  room.resize(32 * count);
  memcpy(room.data() + lane * count, mine, count * sizeof *mine);
  meet(warp, 32);
  return room.data();
}
void barrier_init(uint32_t at, uint32_t arrivals) {
  blocks[current->rank].barriers[at] = {(int)arrivals, (int)arrivals, 0, 0};
}
// Shared memory of a block that has ended is somebody else's.
static bool has_ended(unsigned rank) {
  for (const Fiber& one : fibers)
    if (one.rank == rank && !one.done) return false;
  return true;
}
void barrier_expect(unsigned rank, uint32_t at, uint32_t bytes) {
  if (rank != current->rank && has_ended(rank)) fail("an arrival at a block that has ended");
  Barrier& one = barrier_of(blocks[rank], at);
  one.pending += bytes;
  --one.missing;
  advance(one);
}
void barrier_wait(uint32_t at, uint32_t parity) {
  Block& owner = blocks[current->rank];
  until([&] { return barrier_of(owner, at).phase % 2 != parity; });
}

// The 128 bytes of a map as the tests write them.
struct Described {
  uint64_t base, strides[4];
  uint32_t sizes[5], box[5], rank, width, swizzle;
};
static bool misaligned(uint32_t at, const Described& one) {
  return at % 128 || (one.swizzle && at % (one.swizzle * 8));
}
// Every element of a tile: its place in shared memory, and in global memory or nowhere.
template <typename Move>
static void walk(Block& owner, uint32_t to, const Described& one, const int* c, Move move) {
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
    if (at + one.width > owner.shared_bytes) return fail("a tile outside shared memory");
    move(owner.shared + at, inside ? reinterpret_cast<unsigned char*>(from) : nullptr, one.width);
  }
}
static void land(Block& owner, uint32_t to, const Described& one, const int* c) {
  walk(owner, to, one, c, [](unsigned char* shared, unsigned char* memory, uint32_t width) {
    if (memory) memcpy(shared, memory, width);
    else memset(shared, 0, width);
  });
}
static void load_into(Block* owner, uint32_t to, const Described& one, uint32_t barrier,
                      std::vector<int> c) {
  auto lands = [=] {
    land(*owner, to, one, c.data());
    long long bytes = one.width;
    for (uint32_t d = 0; d < one.rank; ++d) bytes *= one.box[d];
    Barrier& mine = barrier_of(*owner, barrier);
    mine.pending -= bytes;
    advance(mine);
  };
  if (drawn() % 4) landing.push_back(lands);
  else lands();
}
void load(unsigned mask, uint32_t to, const void* map, uint32_t barrier, const int* c,
          unsigned rank) {
  Described one;
  memcpy(&one, map, sizeof one);
  if (one.rank != rank) fail("coordinates of another rank");
  if (misaligned(to, one)) fail("a tile that is not aligned");
  for (unsigned at = 0; at < blocks.size(); ++at)
    if (mask >> at & 1) load_into(&blocks[at], to, one, barrier, {c, c + rank});
}

static Fiber& self() { return *static_cast<Fiber*>(current); }
void put(uint32_t at, const void* bytes, unsigned width) {
  if (at + width > blocks[current->rank].shared_bytes) return fail("a store outside shared memory");
  memcpy(current->shared + at, bytes, width);
  self().unfenced = true;
  self().puts.push_back({at, width});
}
void stores_fence() { self().unfenced = false; }
void stores_commit() { ++self().committed; }
void stores_read(unsigned pending) {
  Fiber& mine = self();
  until([&] { return mine.storing.empty() || *mine.storing.begin() + pending >= mine.committed; });
}
static void stored(Block& owner, uint32_t from, const Described& one, const int* c) {
  walk(owner, from, one, c, [](unsigned char* shared, unsigned char* memory, uint32_t width) {
    if (memory) memcpy(memory, shared, width);
  });
}
void store(uint32_t from, const void* map, const int* c, unsigned rank) {
  Described one;
  memcpy(&one, map, sizeof one);
  if (one.rank != rank) fail("coordinates of another rank");
  if (misaligned(from, one)) fail("a tile that is not aligned");
  for (const Fiber& writer : fibers)
    if (writer.rank == current->rank && writer.unfenced) fail("a store of what nobody fenced");
  Fiber* mine = &self();
  unsigned group = mine->committed;
  mine->storing.insert(group);
  std::vector<int> where(c, c + rank);
  Block* owner = &blocks[current->rank];
  auto reads = [=] {
    stored(*owner, from, one, where.data());
    mine->storing.erase(mine->storing.find(group));
  };
  if (drawn() % 4) reading.push_back(reads);
  else reads();
}

static void compute_first(Fiber& mine) {
  Product one = mine.products.front();
  mine.products.pop_front();
  one.compute(one.sums, one.a, one.b, one.keep);
}
void issue(Compute compute, float* sums, uint64_t a, uint64_t b, int keep) {
  Fiber& mine = self();
  if (!mine.ordered) fail("a product that no fence orders after what was done to its sums");
  mine.products.push_back({compute, sums, a, b, keep, mine.groups});
  if (mine.products.size() == 1 && drawn() % 4 == 0) compute_first(mine);
}
void products_fence() { self().ordered = true; }
void products_commit() { ++self().groups; }
void products_wait(unsigned pending) {
  Fiber& mine = self();
  while (!mine.products.empty() && mine.products.front().group + pending < mine.groups)
    compute_first(mine);
  if (!pending) mine.ordered = false;
}

static void copy_first(Fiber& mine) {
  Copy one = mine.copies.front();
  mine.copies.pop_front();
  if (one.from) memcpy(one.to, one.from, one.bytes);
  else memset(one.to, 0, one.bytes);
}
void copy(void* to, const void* from, unsigned bytes) {
  Fiber& mine = self();
  if (reinterpret_cast<uintptr_t>(to) % bytes || reinterpret_cast<uintptr_t>(from) % bytes)
    fail("a copy that is not aligned");
  Block& owner = blocks[mine.rank];
  size_t at = static_cast<unsigned char*>(to) - owner.shared;
  if (at + bytes > owner.shared_bytes) fail("a copy outside shared memory");
  mine.copies.push_back({to, from, bytes, mine.copy_groups});
  if (mine.copies.size() == 1 && drawn() % 4 == 0) copy_first(mine);
}
void copies_commit() { ++self().copy_groups; }
void copies_wait(unsigned pending) {
  Fiber& mine = self();
  while (!mine.copies.empty() && mine.copies.front().group + pending < mine.copy_groups)
    copy_first(mine);
}

// Wavefronts of the ordinary stores of all warps: what they took, and what they take at best.
static unsigned long long wavefronts[2];
static void count_wavefronts(const Fiber* lanes) {
  for (unsigned lane = 1; lane < 32; ++lane)
    if (lanes[lane].puts.size() != lanes[0].puts.size()) return;
  for (size_t at = 0; at < lanes[0].puts.size(); ++at) {
    uint32_t width = lanes[0].puts[at].width, together = width > 4 ? 128 / width : 32;
    for (unsigned first = 0; first < 32; first += together) {
      std::map<uint32_t, std::set<uint32_t>> banks;
      std::set<uint32_t> words;
      for (unsigned lane = first; lane < first + together; ++lane)
        for (uint32_t byte = 0; byte < width; byte += 4) {
          uint32_t word = (lanes[lane].puts[at].at + byte) / 4;
          banks[word % 32].insert(word);
          words.insert(word);
        }
      size_t most = 0;
      for (const auto& bank : banks) most = bank.second.size() > most ? bank.second.size() : most;
      wavefronts[0] += most;
      wavefronts[1] += (words.size() + 31) / 32;
    }
  }
}
extern "C" unsigned long long counted(int ideal) { return wavefronts[ideal]; }

static void enter() {
  body();
  if (!self().storing.empty()) fail("a tile store that nobody waited for");
  if (!self().products.empty()) fail("a product that nobody waited for");
  if (!self().copies.empty()) fail("a copy that nobody waited for");
  static_cast<Fiber*>(current)->done = true;
  ++events;
  yield();
}
static void begin(unsigned first_block, unsigned cluster, unsigned threads, size_t shared_bytes) {
  blocks.assign(cluster, Block{});
  for (Block& one : blocks) {
    one.room.assign(shared_bytes + 2048, 0xAB);
    one.shared = one.room.data() + -reinterpret_cast<uintptr_t>(one.room.data()) % 1024;
    one.shared_bytes = shared_bytes;
  }
  whole_cluster = {0, 0};
  fibers.resize(cluster * threads);
  stacks.resize(fibers.size() * STACK_BYTES);
  for (unsigned at = 0; at < fibers.size(); ++at) {
    Fiber& one = fibers[at];
    one.begun = one.done = one.unfenced = false;
    one.committed = 0;
    one.storing.clear();
    one.puts.clear();
    one.ordered = false;
    one.groups = 0;
    one.products.clear();
    one.copy_groups = 0;
    one.copies.clear();
    one.thread = at % threads;
    one.rank = at / threads;
    one.block = first_block + one.rank;
    one.shared = blocks[one.rank].shared;
    getcontext(&one.start);
    one.start.uc_stack.ss_sp = stacks.data() + at * STACK_BYTES;
    one.start.uc_stack.ss_size = STACK_BYTES;
    makecontext(&one.start, enter, 0);
  }
}
static void one_of(std::vector<std::function<void()>>& pending) {
  unsigned at = drawn() % pending.size();
  auto happens = pending[at];
  pending.erase(pending.begin() + at);
  happens();
  ++events;
}
static void run_cluster() {
  const unsigned nobody = blocks.size();
  unsigned asleep = nobody;  // a block of a cluster that does not get on for a while
  for (;;) {
    unsigned long long before = events;
    if (nobody > 1 && drawn() % 16 == 0) asleep = drawn() % (nobody + 1);
    unsigned left = 0;
    unsigned first = drawn() % fibers.size();
    for (unsigned at = 0; at < fibers.size(); ++at) {
      Fiber& one = fibers[(at + first) % fibers.size()];
      if (one.done) continue;
      ++left;
      if (one.rank == asleep) continue;
      in_fiber = true;
      resume(one);
      in_fiber = false;
      if (failure) return;
    }
    if (!left) break;
    bool stuck = events == before;
    if (!landing.empty() && (stuck || drawn() % 2)) one_of(landing);
    else if (!reading.empty() && (stuck || drawn() % 32 == 0)) one_of(reading);
    else if (stuck && asleep == nobody) return fail("nobody can go on");
    else if (stuck) asleep = nobody;
    if (failure) return;
  }
  if (!landing.empty()) fail("a tile load that nobody waited for");
  for (unsigned at = 0; at + 32 <= fibers.size(); at += 32) count_wavefronts(&fibers[at]);
}
extern "C" const char* run(void (*kernel)(void**), void** values, unsigned count, unsigned threads,
                           unsigned cluster, unsigned shared_bytes, unsigned seed) {
  grid_blocks = count, block_threads = threads, failure = nullptr;
  drawn.seed(seed);
  wavefronts[0] = wavefronts[1] = 0;
  landing.clear();
  reading.clear();
  body = [=] { kernel(values); };
  for (unsigned first = 0; first < count && !failure; first += cluster) {
    begin(first, cluster, threads, shared_bytes);
    run_cluster();
  }
  return failure;
}
}  // namespace host
