// Limits on what a model file may contain. Real models stay far below; a file beyond a limit is
// refused as malformed.
#pragma once

#include <cstdint>

namespace pie::limits {

inline constexpr uint64_t kGgufMetadata = 65'536;  // key-value pairs
inline constexpr uint64_t kGgufTensors = 65'536;
inline constexpr uint64_t kGgufNameBytes = 65'535;  // bytes of a key or a tensor's name
inline constexpr uint32_t kGgufArrayDepth = 4;      // nesting of arrays
inline constexpr uint32_t kGgufDimensions = 4;
inline constexpr uint32_t kGgufAlignment = 1 << 20;

inline constexpr uint64_t kSafetensorsHeaderBytes = 32 << 20;
inline constexpr uint64_t kSafetensorsDimensions = 8;
inline constexpr uint64_t kSafetensorsShards = 4'096;
inline constexpr uint64_t kConfigBytes = 16 << 20;  // config.json and index files

inline constexpr uint32_t kAdapterRank = 256;           // of a LoRA adapter
inline constexpr uint32_t kZoPopulation = 65'536;       // candidates of a generation
inline constexpr uint64_t kAdapterFileBytes = 1 << 30;  // adapter_model.safetensors
inline constexpr uint64_t kModulePatternBytes = 1'024;  // a regular expression that names modules
inline constexpr uint64_t kModulePatternParts = 4'096;  // the compiled parts of one pattern
inline constexpr uint32_t kModulePatternDepth = 32;     // nesting of its groups

// bytes of the tool calls in one turn, as the model wrote them
inline constexpr uint64_t kToolCallBytes = 1 << 20;
inline constexpr uint32_t kToolCallDepth = 64;  // nesting of a tool call's arguments

inline constexpr uint32_t kLayers = 1'024;
inline constexpr uint32_t kHiddenSize = 1 << 17;
inline constexpr uint32_t kHeads = 1'024;
inline constexpr uint32_t kHeadDim = 1'024;
inline constexpr uint32_t kFfnSize = 1 << 20;
inline constexpr uint32_t kVocabSize = 1 << 22;
inline constexpr uint32_t kExperts = 4'096;
inline constexpr uint32_t kContextLength = 1 << 28;

}  // namespace pie::limits
