// Adapters as the PEFT package stores them: a folder with adapter_config.json and
// adapter_model.safetensors. These functions translate contents; reading and writing the files is
// the caller's business.
//
// The contents are not trusted. Errors name the field or the tensor. Features that would change the
// result and that the engine does not compute (DoRA, biases, modules_to_save, …) are refused by
// name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/adapter/adapter.h"

namespace pie {

class Safetensors;

inline constexpr std::string_view kPeftConfigFile = "adapter_config.json";
inline constexpr std::string_view kPeftTensorFile = "adapter_model.safetensors";

// The key of a file's metadata that lists the modules whose targets have an A each, as WritePeft
// made them: A has the rows of all targets, and B is block-diagonal. A space follows each name.
inline constexpr const char* kPeftBlocks = "pie.blocks";

// Reads the contents of the two files. Every tensor must fit `shape`, and be finite and small
// enough for 16-bit numbers, in which devices keep adapters. Costs one pass over the tensors.
Result<AdapterWeights> ReadPeft(std::string_view config, std::span<const std::byte> tensors,
                                const AdapterShape& shape);

// How many numbers the matrices of an adapter have together. ReadPeft needs memory for about this
// many, and for three times as many at most: where a file has one A for several modules, each of
// them gets a copy. Reads no tensors.
uint64_t PeftParameters(const Safetensors& file);

// The largest rank of an adapter's matrices, as its configuration has them.
Result<uint32_t> PeftRank(std::string_view config);

struct PeftFiles {
  std::string config;
  std::string tensors;
};

// Writes the two files that ReadPeft reads, with 32-bit numbers. `metadata` goes into the tensors'
// header. Fails if the adapter has no weights.
Result<PeftFiles> WritePeft(const AdapterWeights& weights, const AdapterShape& shape,
                            const std::map<std::string, std::string>& metadata = {});

// A file of tensors that has metadata and no tensors.
std::string EmptyPeftTensors(const std::map<std::string, std::string>& metadata);

}  // namespace pie
