#include "blake3.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

// Follows the specification (github.com/BLAKE3-team/BLAKE3-specs), for whole buffers only. The tree
// is walked from the top; each left half is as large as possible.
namespace pie_client {
namespace {

constexpr size_t kBlock = 64;
constexpr size_t kChunk = 1024;
constexpr uint32_t kChunkStart = 1, kChunkEnd = 2, kParent = 4, kRoot = 8;

using Words = std::array<uint32_t, 8>;   // a chaining value
using Block = std::array<uint32_t, 16>;  // a message, or a state

constexpr Words kStart = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                          0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
constexpr std::array<uint8_t, 16> kPermutation = {2, 6,  3,  10, 7, 0,  4,  13,
                                                  1, 11, 12, 5,  9, 14, 15, 8};

inline void Mix(Block& v, size_t a, size_t b, size_t c, size_t d, uint32_t x, uint32_t y) {
  v[a] += v[b] + x;
  v[d] = std::rotr(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 12);
  v[a] += v[b] + y;
  v[d] = std::rotr(v[d] ^ v[a], 8);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 7);
}

Words Compress(const Words& in, Block m, uint64_t counter, uint32_t size, uint32_t flags) {
  Block v = {in[0],
             in[1],
             in[2],
             in[3],
             in[4],
             in[5],
             in[6],
             in[7],
             kStart[0],
             kStart[1],
             kStart[2],
             kStart[3],
             static_cast<uint32_t>(counter),
             static_cast<uint32_t>(counter >> 32),
             size,
             flags};
  for (int round = 0; round < 7; ++round) {
    Mix(v, 0, 4, 8, 12, m[0], m[1]);
    Mix(v, 1, 5, 9, 13, m[2], m[3]);
    Mix(v, 2, 6, 10, 14, m[4], m[5]);
    Mix(v, 3, 7, 11, 15, m[6], m[7]);
    Mix(v, 0, 5, 10, 15, m[8], m[9]);
    Mix(v, 1, 6, 11, 12, m[10], m[11]);
    Mix(v, 2, 7, 8, 13, m[12], m[13]);
    Mix(v, 3, 4, 9, 14, m[14], m[15]);
    Block next;
    for (size_t i = 0; i < 16; ++i) next[i] = m[kPermutation[i]];
    m = next;
  }
  Words out;
  for (size_t i = 0; i < 8; ++i) out[i] = v[i] ^ v[i + 8];
  return out;
}

// Finishes a node. With `kRoot` the result is the hash, otherwise the chaining value for its
// parent.
struct Node {
  Words in;
  Block message;
  uint64_t counter;
  uint32_t size;
  uint32_t flags;
  Words Finish(uint32_t more = 0) const {
    return Compress(in, message, more != 0 ? 0 : counter, size, flags | more);
  }
};

Block Load(std::string_view bytes) {
  Block block{};
  for (size_t i = 0; i < bytes.size(); ++i) {
    block[i / 4] |= uint32_t{static_cast<uint8_t>(bytes[i])} << (i % 4 * 8);
  }
  return block;
}

Node ChunkNode(std::string_view bytes, uint64_t counter) {
  Words value = kStart;
  uint32_t flags = kChunkStart;
  while (bytes.size() > kBlock) {
    value = Compress(value, Load(bytes.substr(0, kBlock)), counter, kBlock, flags);
    bytes.remove_prefix(kBlock);
    flags = 0;
  }
  return {value, Load(bytes), counter, static_cast<uint32_t>(bytes.size()), flags | kChunkEnd};
}

Node TreeNode(std::string_view bytes, uint64_t counter) {
  if (bytes.size() <= kChunk) return ChunkNode(bytes, counter);
  const size_t left_chunks = std::bit_floor((bytes.size() - 1) / kChunk);
  const Words left = TreeNode(bytes.substr(0, left_chunks * kChunk), counter).Finish();
  const Words right = TreeNode(bytes.substr(left_chunks * kChunk), counter + left_chunks).Finish();
  Block both;
  std::ranges::copy(left, both.begin());
  std::ranges::copy(right, both.begin() + 8);
  return {kStart, both, 0, kBlock, kParent};
}

}  // namespace

std::string Blake3Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (uint32_t word : TreeNode(bytes, 0).Finish(kRoot)) {
    for (int i = 0; i < 4; ++i, word >>= 8) {
      hex += kDigits[word >> 4 & 15];
      hex += kDigits[word & 15];
    }
  }
  return hex;
}

}  // namespace pie_client
