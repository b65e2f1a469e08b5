#include "machine_limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "backend/cpu/machine/arena.h"
#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/machine/simd.h"

namespace pie {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 7;
// About the size of a small model's weights, and several times that of the caches.
constexpr size_t kReadBytes = size_t{96} << 20;
constexpr int kReadPasses = 5;

// Seconds from the moment at which all threads are ready until the last has finished work(thread).
template <class Work>
double Together(unsigned threads, Work&& work) {
  std::atomic<unsigned> ready = 0;
  std::atomic<bool> go = false;
  std::vector<std::thread> started;
  for (unsigned i = 0; i < threads; ++i) {
    started.emplace_back([&, i] {
      ++ready;
      while (!go) __builtin_ia32_pause();
      work(i);
    });
  }
  while (ready < threads) std::this_thread::yield();
  const auto begin = Clock::now();
  go = true;
  for (std::thread& thread : started) thread.join();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <class Measure>
double Median(Measure&& measure) {
  std::vector<double> values;
  for (int i = 0; i < kRepeats; ++i) values.push_back(measure());
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Sums up the memory. The sum is used, so the compiler cannot drop a load.
uint64_t ReadScalar(const std::byte* data, size_t bytes) {
  const auto* const words = reinterpret_cast<const volatile uint64_t*>(data);
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) sum += words[i];
  return sum;
}

PIE_AVX2 uint64_t ReadAvx2(const std::byte* data, size_t bytes) {
  __m256i sum[4] = {};
  for (size_t at = 0; at + 128 <= bytes; at += 128) {
    PIE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const auto* const from = reinterpret_cast<const __m256i*>(data + at + 32 * i);
      sum[i] = _mm256_xor_si256(sum[i], _mm256_load_si256(from));
    }
  }
  alignas(32) uint64_t words[4];
  _mm256_store_si256(
      reinterpret_cast<__m256i*>(words),
      _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3])));
  return words[0] ^ words[1] ^ words[2] ^ words[3];
}

PIE_AVX512 uint64_t ReadAvx512(const std::byte* data, size_t bytes) {
  __m512i sum[4] = {};
  for (size_t at = 0; at + 256 <= bytes; at += 256) {
    PIE_UNROLL
    for (int i = 0; i < 4; ++i) {
      sum[i] = _mm512_xor_si512(sum[i], _mm512_load_si512(data + at + 64 * i));
    }
  }
  alignas(64) uint64_t words[8];
  _mm512_store_si512(
      words, _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3])));
  uint64_t all = 0;
  for (uint64_t word : words) all ^= word;
  return all;
}

// Computes 12 independent products of bytes at a time, which is enough to hide the latency.
constexpr int kChains = 12;
constexpr uint64_t kRounds = 2'000'000;

PIE_AVX512_VNNI void MultiplyVnni() {
  __m512i sum[kChains];
  for (__m512i& s : sum) s = _mm512_set1_epi32(1);
  __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(2);
  for (uint64_t round = 0; round < kRounds; ++round) {
    PIE_UNROLL
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], a, b);
    asm volatile("" : "+v"(a));
  }
  for (__m512i& s : sum) asm volatile("" : "+v"(s));
}

PIE_AVX2 void MultiplyAvx2() {
  __m256i sum[kChains];
  for (__m256i& s : sum) s = _mm256_set1_epi16(1);
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(2);
  for (uint64_t round = 0; round < kRounds; ++round) {
    PIE_UNROLL
    for (int i = 0; i < kChains; ++i) {
      sum[i] = _mm256_add_epi16(sum[i], _mm256_maddubs_epi16(a, b));
    }
    asm volatile("" : "+x"(a));
  }
  for (__m256i& s : sum) asm volatile("" : "+x"(s));
}

}  // namespace

double MeasureReadBandwidth(unsigned threads) {
  cpu::Arena arena;
  const auto memory = arena.Allocate(kReadBytes);
  if (!memory) return 0;
  std::fill_n(*memory, kReadBytes, std::byte{1});
  const cpu::CpuLevel level = cpu::DetectCpuLevel();
  const auto read = level >= cpu::CpuLevel::kAvx512 ? ReadAvx512
                    : level >= cpu::CpuLevel::kAvx2 ? ReadAvx2
                                                    : ReadScalar;
  const size_t share = kReadBytes / threads / 256 * 256;
  std::atomic<uint64_t> all = 0;
  return Median([&] {
    const double seconds = Together(threads, [&](unsigned thread) {
      for (int pass = 0; pass < kReadPasses; ++pass) {
        all ^= read(*memory + thread * share, share);
      }
    });
    return static_cast<double>(share) * threads * kReadPasses / seconds;
  });
}

double MeasureInt8Peak(unsigned threads) {
  const cpu::CpuLevel level = cpu::DetectCpuLevel();
  if (level < cpu::CpuLevel::kAvx2) return 0;
  const bool vnni = level >= cpu::CpuLevel::kAvx512Vnni;
  const double operations = double{kRounds} * kChains * (vnni ? 128 : 64) * threads;
  return Median([&] {
    return operations /
           Together(threads, [&](unsigned) { vnni ? MultiplyVnni() : MultiplyAvx2(); });
  });
}

}  // namespace pie
