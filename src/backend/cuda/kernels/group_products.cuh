// Products of a warp group, four warps, by Hopper's tensor cores: they run asynchronously and read
// their operands from shared memory. The emulator has its own versions.
//
// The order of calls: ShowToGroupProducts by every thread that copied operands, a barrier,
// BeginGroupProducts, products, CommitGroupProducts, AwaitGroupProducts before a register of them
// is read or written, Settle for the results, and KeepUntilHere for an operand in registers.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/instructions.cuh"

namespace pie::cuda {

// Describes an operand in shared memory, whose rows of 128 bytes have their 16-byte chunks
// permuted: chunk c of row r is at c ^ (r % 8). Tiles begin at multiples of 1,024 bytes. If k runs
// along the rows, 8 rows follow one another, and the next 8 are `eight` bytes further. If k runs
// across them, that holds for k, and numbers 64 … 127 of the other dimension are `next` bytes
// further.
__host__ __device__ inline uint64_t OperandAt(uint32_t address, uint32_t eight, uint32_t next) {
  constexpr uint64_t kPermuted128 = uint64_t{1} << 62;
  return uint64_t{address >> 4} | uint64_t{next >> 4} << 16 | uint64_t{eight >> 4} << 32 |
         kPermuted128;
}

}  // namespace pie::cuda

#ifdef PIE_CUDA_EMULATED
#include "backend/cuda/emulator/group_products.h"
#elif PIE_HAS_WGMMA

namespace pie::cuda {

__device__ inline void BeginGroupProducts() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void CommitGroupProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
__device__ void AwaitGroupProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
__device__ inline void ShowToGroupProducts() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Called after an Await: keeps the compiler from reading these results earlier.
template <int kTiles>
__device__ void Settle(float (&d)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    asm volatile("" : "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])::"memory");
  }
}
// Called before BeginGroupProducts: the registers of an operand are filled before it.
template <int kCount>
__device__ void Hold(uint32_t (&a)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    asm volatile("" : "+r"(a[i][0]), "+r"(a[i][1]), "+r"(a[i][2]), "+r"(a[i][3])::"memory");
  }
}
// Called after an Await, for an operand in registers: products read it until then, but ptxas 13.0
// gives its registers to something else as soon as they are issued if there is a branch before the
// Await. So the operand is used here, in a branch that is never taken: `never` is false, but the
// compiler cannot know it.
template <int kCount>
__device__ void KeepUntilHere(const uint32_t (&a)[kCount][4], bool never) {
  if (!never) return;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(0), "r"(a[i][0]), "r"(a[i][1]),
                 "r"(a[i][2]), "r"(a[i][3])
                 : "memory");
  }
}

// Waits for the other threads of this warp group. `barrier` is the group's own number, from 1 on.
__device__ inline void SyncGroup(uint32_t barrier) {
  asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
}

// Two warp groups take turns: a group waits at its barrier until the other group passes the turn.
__device__ inline void AwaitTurn(uint32_t barrier) {
  asm volatile("bar.sync %0, 256;" ::"r"(barrier) : "memory");
}
__device__ inline void PassTurn(uint32_t barrier_of_other) {
  asm volatile("bar.arrive %0, 256;" ::"r"(barrier_of_other) : "memory");
}

// Changes how many registers the threads of this warp group have: all of its warps call it. Others
// get what is given up.
template <int kRegisters>
__device__ void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

#define PIE_FOUR(x) "+f"((x)[0]), "+f"((x)[1]), "+f"((x)[2]), "+f"((x)[3])

// d = a · b, or d += a · b, for tiles of 64 × 16 and 16 × (8 × the size of d) numbers; k runs along
// the rows of both.
__device__ inline void GroupScores(float (&d)[8][4], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %34, 0;"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
      "}, %32, %33, p, 1, 1, 0, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3]), PIE_FOUR(d[4]),
        PIE_FOUR(d[5]), PIE_FOUR(d[6]), PIE_FOUR(d[7])
      : "l"(a), "l"(b), "r"(add ? 1 : 0));
}

__device__ inline void GroupScores(float (&d)[2][4], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %10, 0;"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7"
      "}, %8, %9, p, 1, 1, 0, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1])
      : "l"(a), "l"(b), "r"(add ? 1 : 0));
}
__device__ inline void GroupScores(float (&d)[4][4], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %18, 0;"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
      "}, %16, %17, p, 1, 1, 0, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3])
      : "l"(a), "l"(b), "r"(add ? 1 : 0));
}
__device__ inline void GroupScores(float (&d)[16][4], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %66, 0;"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
      "}, %64, %65, p, 1, 1, 0, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3]), PIE_FOUR(d[4]),
        PIE_FOUR(d[5]), PIE_FOUR(d[6]), PIE_FOUR(d[7]), PIE_FOUR(d[8]), PIE_FOUR(d[9]),
        PIE_FOUR(d[10]), PIE_FOUR(d[11]), PIE_FOUR(d[12]), PIE_FOUR(d[13]), PIE_FOUR(d[14]),
        PIE_FOUR(d[15])
      : "l"(a), "l"(b), "r"(add ? 1 : 0));
}
__device__ inline void GroupScores(float (&d)[32][4], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %130, 0;"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
      "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
      "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
      "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
      "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
      "}, %128, %129, p, 1, 1, 0, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3]), PIE_FOUR(d[4]),
        PIE_FOUR(d[5]), PIE_FOUR(d[6]), PIE_FOUR(d[7]), PIE_FOUR(d[8]), PIE_FOUR(d[9]),
        PIE_FOUR(d[10]), PIE_FOUR(d[11]), PIE_FOUR(d[12]), PIE_FOUR(d[13]), PIE_FOUR(d[14]),
        PIE_FOUR(d[15]), PIE_FOUR(d[16]), PIE_FOUR(d[17]), PIE_FOUR(d[18]), PIE_FOUR(d[19]),
        PIE_FOUR(d[20]), PIE_FOUR(d[21]), PIE_FOUR(d[22]), PIE_FOUR(d[23]), PIE_FOUR(d[24]),
        PIE_FOUR(d[25]), PIE_FOUR(d[26]), PIE_FOUR(d[27]), PIE_FOUR(d[28]), PIE_FOUR(d[29]),
        PIE_FOUR(d[30]), PIE_FOUR(d[31])
      : "l"(a), "l"(b), "r"(add ? 1 : 0));
}

// The same with a in registers: those of a thread are as for a tile of Mma.
__device__ inline void GroupScores(float (&d)[2][4], uint32_t a0, uint32_t a1, uint32_t a2,
                                   uint32_t a3, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %13, 0;"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7"
      "}, {%8,%9,%10,%11}, %12, p, 1, 1, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add ? 1 : 0));
}
__device__ inline void GroupScores(float (&d)[4][4], uint32_t a0, uint32_t a1, uint32_t a2,
                                   uint32_t a3, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %21, 0;"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
      "}, {%16,%17,%18,%19}, %20, p, 1, 1, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add ? 1 : 0));
}
__device__ inline void GroupScores(float (&d)[8][4], uint32_t a0, uint32_t a1, uint32_t a2,
                                   uint32_t a3, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %37, 0;"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
      "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3]), PIE_FOUR(d[4]),
        PIE_FOUR(d[5]), PIE_FOUR(d[6]), PIE_FOUR(d[7])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add ? 1 : 0));
}
__device__ inline void GroupScores(float (&d)[16][4], uint32_t a0, uint32_t a1, uint32_t a2,
                                   uint32_t a3, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %69, 0;"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
      "}, {%64,%65,%66,%67}, %68, p, 1, 1, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3]), PIE_FOUR(d[4]),
        PIE_FOUR(d[5]), PIE_FOUR(d[6]), PIE_FOUR(d[7]), PIE_FOUR(d[8]), PIE_FOUR(d[9]),
        PIE_FOUR(d[10]), PIE_FOUR(d[11]), PIE_FOUR(d[12]), PIE_FOUR(d[13]), PIE_FOUR(d[14]),
        PIE_FOUR(d[15])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add ? 1 : 0));
}

// The same for f16.
__device__ inline void GroupScoresOfHalves(float (&d)[2][4], uint32_t a0, uint32_t a1, uint32_t a2,
                                           uint32_t a3, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %13, 0;"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7"
      "}, {%8,%9,%10,%11}, %12, p, 1, 1, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add ? 1 : 0));
}
__device__ inline void GroupScoresOfHalves(float (&d)[4][4], uint32_t a0, uint32_t a1, uint32_t a2,
                                           uint32_t a3, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %21, 0;"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
      "}, {%16,%17,%18,%19}, %20, p, 1, 1, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add ? 1 : 0));
}
__device__ inline void GroupScoresOfHalves(float (&d)[8][4], uint32_t a0, uint32_t a1, uint32_t a2,
                                           uint32_t a3, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %37, 0;"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
      "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3]), PIE_FOUR(d[4]),
        PIE_FOUR(d[5]), PIE_FOUR(d[6]), PIE_FOUR(d[7])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add ? 1 : 0));
}
__device__ inline void GroupScoresOfHalves(float (&d)[16][4], uint32_t a0, uint32_t a1, uint32_t a2,
                                           uint32_t a3, uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %69, 0;"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
      "}, {%64,%65,%66,%67}, %68, p, 1, 1, 0; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3]), PIE_FOUR(d[4]),
        PIE_FOUR(d[5]), PIE_FOUR(d[6]), PIE_FOUR(d[7]), PIE_FOUR(d[8]), PIE_FOUR(d[9]),
        PIE_FOUR(d[10]), PIE_FOUR(d[11]), PIE_FOUR(d[12]), PIE_FOUR(d[13]), PIE_FOUR(d[14]),
        PIE_FOUR(d[15])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add ? 1 : 0));
}

// d += a · b for tiles of 64 × 16 numbers in registers and 16 × 64 or 16 × 128 in shared memory; k
// runs across the rows of b.
__device__ inline void GroupOutputs(float (&d)[8][4], uint32_t a0, uint32_t a1, uint32_t a2,
                                    uint32_t a3, uint64_t b) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, 1, 0;"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
      "}, {%32,%33,%34,%35}, %36, p, 1, 1, 1; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3]), PIE_FOUR(d[4]),
        PIE_FOUR(d[5]), PIE_FOUR(d[6]), PIE_FOUR(d[7])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}
__device__ inline void GroupOutputs(float (&d)[16][4], uint32_t a0, uint32_t a1, uint32_t a2,
                                    uint32_t a3, uint64_t b) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, 1, 0;"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
      "}, {%64,%65,%66,%67}, %68, p, 1, 1, 1; }"
      : PIE_FOUR(d[0]), PIE_FOUR(d[1]), PIE_FOUR(d[2]), PIE_FOUR(d[3]), PIE_FOUR(d[4]),
        PIE_FOUR(d[5]), PIE_FOUR(d[6]), PIE_FOUR(d[7]), PIE_FOUR(d[8]), PIE_FOUR(d[9]),
        PIE_FOUR(d[10]), PIE_FOUR(d[11]), PIE_FOUR(d[12]), PIE_FOUR(d[13]), PIE_FOUR(d[14]),
        PIE_FOUR(d[15])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}

#undef PIE_FOUR

}  // namespace pie::cuda
#endif
