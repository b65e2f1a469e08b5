// The modules that adapters change, as the PEFT package's files name them. Only for the sources of
// this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/adapter/adapter.h"

namespace pie {

struct PeftModule {
  enum class Kind : uint8_t {
    kLayer,    // a module of a layer
    kExpert,   // a module of one expert, where experts are modules
    kStacked,  // a parameter that has the matrices of all experts of a layer
    kEnd,      // the embedding or the head
  };

  Kind kind = Kind::kLayer;
  std::string_view name;  // after "layers.3."; "*" stands for the number of an expert
  // Several targets are one matrix in the file, whose rows are one below the other.
  std::vector<AdapterTarget> targets;
  bool interleaved = false;  // the rows of the targets come in turn instead

  // The row of the file's matrix that has row `row` of its target number `index`.
  uint32_t RowOf(const AdapterShape& shape, size_t index, uint32_t row) const;
};

// The modules that the shape has. Files that we write use neither of the names of single experts.
std::vector<PeftModule> PeftModulesOf(const AdapterShape& shape);

// "q_proj, v_proj, …", for people.
std::string NamesOf(const std::vector<PeftModule>& modules);

// The module whose parameters PEFT wraps to change stacked experts, and the two parameters. The
// wrapper of the first is inside that of the second where a file has both.
inline constexpr std::string_view kStackedModule = "mlp.experts";
inline constexpr std::string_view kStackedGateUp = "mlp.experts.gate_up_proj";
inline constexpr std::string_view kStackedDown = "mlp.experts.down_proj";
inline constexpr std::string_view kInnerWrapper = ".base_layer";

}  // namespace pie
