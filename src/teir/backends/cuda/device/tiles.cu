// Barriers, tile loads and warpgroup products. Shared addresses are bytes in the shared window.

// The start of a matrix in its descriptor: bits 4 to 17 of the address. In a cluster the window's
// addresses hold the block's rank above them, where the descriptor has its leading dimension.
FN u64 matrix_start(u32 at) { return (at & 0x3ffffu) >> 4; }

#ifndef TEIR_HOST
HOPPER u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

HOPPER void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
HOPPER void barriers_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
HOPPER void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
HOPPER void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
HOPPER bool barrier_passed(u32 barrier, u32 parity) {
  u32 passed;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(passed)
      : "r"(barrier), "r"(parity)
      : "memory");
  return passed != 0;
}
HOPPER u64 nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
HOPPER void barrier_wait(u32 barrier, u32 parity) {
#ifdef TEIR_BOUNDED_WAITS  // nanoseconds
  const u64 begin = nanoseconds();
  while (!barrier_passed(barrier, parity))
    if (nanoseconds() - begin > TEIR_BOUNDED_WAITS) asm volatile("trap;");
#else
  while (!barrier_passed(barrier, parity)) {
  }
#endif
}

HOPPER void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
#define TILE_LOAD "cp.async.bulk.tensor."
#define TILE_INTO ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
HOPPER void tile_load(u32 to, const TensorMap* map, u32 barrier, int c0) {
  asm volatile(TILE_LOAD "1d" TILE_INTO "{%3}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(c0)
               : "memory");
}
HOPPER void tile_load(u32 to, const TensorMap* map, u32 barrier, int c0, int c1) {
  asm volatile(TILE_LOAD "2d" TILE_INTO "{%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(barrier),
               "r"(c0), "r"(c1)
               : "memory");
}
HOPPER void tile_load(u32 to, const TensorMap* map, u32 barrier, int c0, int c1, int c2) {
  asm volatile(TILE_LOAD "3d" TILE_INTO "{%3, %4, %5}], [%2];" ::"r"(to), "l"(map), "r"(barrier),
               "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
HOPPER void tile_load(u32 to, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3) {
  asm volatile(TILE_LOAD "4d" TILE_INTO "{%3, %4, %5, %6}], [%2];" ::"r"(to), "l"(map),
               "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
HOPPER void tile_load(u32 to, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3,
                      int c4) {
  asm volatile(TILE_LOAD "5d" TILE_INTO "{%3, %4, %5, %6, %7}], [%2];" ::"r"(to), "l"(map),
               "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}

// Tile stores: what ordinary stores wrote to shared memory, read by the asynchronous proxy.
#define TILE_STORE "cp.async.bulk.tensor."
#define TILE_FROM ".global.shared::cta.bulk_group [%0, "
HOPPER void tile_store(u32 from, const TensorMap* map, int c0) {
  asm volatile(TILE_STORE "1d" TILE_FROM "{%2}], [%1];" ::"l"(map), "r"(from), "r"(c0) : "memory");
}
HOPPER void tile_store(u32 from, const TensorMap* map, int c0, int c1) {
  asm volatile(TILE_STORE "2d" TILE_FROM "{%2, %3}], [%1];" ::"l"(map), "r"(from), "r"(c0), "r"(c1)
               : "memory");
}
HOPPER void tile_store(u32 from, const TensorMap* map, int c0, int c1, int c2) {
  asm volatile(TILE_STORE "3d" TILE_FROM "{%2, %3, %4}], [%1];" ::"l"(map), "r"(from), "r"(c0),
               "r"(c1), "r"(c2)
               : "memory");
}
HOPPER void tile_store(u32 from, const TensorMap* map, int c0, int c1, int c2, int c3) {
  asm volatile(TILE_STORE "4d" TILE_FROM "{%2, %3, %4, %5}], [%1];" ::"l"(map), "r"(from),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
HOPPER void tile_store(u32 from, const TensorMap* map, int c0, int c1, int c2, int c3, int c4) {
  asm volatile(TILE_STORE "5d" TILE_FROM "{%2, %3, %4, %5, %6}], [%1];" ::"l"(map), "r"(from),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}
HOPPER void put_shared(u32 at, Pack<4> pair) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(*(const u32*)&pair) : "memory");
}
HOPPER void put_shared(u32 at, Pack<8> pair) {
  asm volatile("st.shared.b64 [%0], %1;" ::"r"(at), "l"(*(const u64*)&pair) : "memory");
}
HOPPER void stores_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
HOPPER void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int pending> HOPPER void stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

// Clusters: the same tile into every block of the mask, at the same shared address.
#define INTO_ALL ".shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
HOPPER void tile_load_all(u16 mask, u32 to, const TensorMap* map, u32 barrier, int c0, int c1) {
  asm volatile(TILE_LOAD "2d" INTO_ALL "{%3, %4}], [%2], %5;" ::"r"(to), "l"(map), "r"(barrier),
               "r"(c0), "r"(c1), "h"(mask)
               : "memory");
}
HOPPER void tile_load_all(u16 mask, u32 to, const TensorMap* map, u32 barrier, int c0, int c1,
                          int c2) {
  asm volatile(TILE_LOAD "3d" INTO_ALL "{%3, %4, %5}], [%2], %6;" ::"r"(to), "l"(map),
               "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "h"(mask)
               : "memory");
}
HOPPER void tile_load_all(u16 mask, u32 to, const TensorMap* map, u32 barrier, int c0, int c1,
                          int c2, int c3) {
  asm volatile(TILE_LOAD "4d" INTO_ALL "{%3, %4, %5, %6}], [%2], %7;" ::"r"(to), "l"(map),
               "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "h"(mask)
               : "memory");
}
HOPPER void tile_load_all(u16 mask, u32 to, const TensorMap* map, u32 barrier, int c0, int c1,
                          int c2, int c3, int c4) {
  asm volatile(TILE_LOAD "5d" INTO_ALL "{%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(to), "l"(map),
               "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "h"(mask)
               : "memory");
}
HOPPER u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
HOPPER void cluster_sync() {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");  // lanes that worked alone come back
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Released at the scope of the block: what is given back was read by the asynchronous proxy and is
// done; at the scope of the cluster every arrival waits for all memory of the device.
HOPPER void barrier_arrive_at(u32 rank, u32 barrier) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

HOPPER void products_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
HOPPER void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending> HOPPER void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// Nothing that reads the sums is moved to before this point, where products may still write them.
template <int count> HOPPER void sums_settled(float (&sums)[count]) {
  _Pragma("unroll")
  for (int at = 0; at < count; ++at) asm volatile("" : "+f"(sums[at])::"memory");
}
template <int count> HOPPER void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count> HOPPER void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
HOPPER void group_sync(int group, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(group), "r"(threads) : "memory");
}
#endif
