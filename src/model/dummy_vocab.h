// The token ids of the dummy model: ids below 256 are bytes, the special tokens follow. The dummy
// backend uses them too, so that its output looks like text and sometimes ends.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace pie::dummy {

inline constexpr uint32_t kByteTokens = 256;
inline constexpr uint32_t kBos = 256;
inline constexpr uint32_t kEos = 257;
inline constexpr uint32_t kImStart = 258;
inline constexpr uint32_t kImEnd = 259;
inline constexpr uint32_t kPad = 260;
inline constexpr uint32_t kUnk = 261;
inline constexpr uint32_t kVocabSize = 262;

inline constexpr std::array<std::string_view, kVocabSize - kByteTokens> kSpecialNames = {
    "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>", "<|pad|>", "<|unk|>"};

}  // namespace pie::dummy
