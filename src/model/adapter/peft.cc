#include "model/adapter/peft.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/adapter/peft_config.h"
#include "model/adapter/peft_modules.h"
#include "model/dequantize.h"
#include "model/limits.h"
#include "model/safetensors.h"
#include "model/shown.h"

namespace pie {
namespace {

constexpr float kLargestHalf = 65'504;

// The parts of a tensor's name: "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight".
struct Place {
  enum class Part : uint8_t { kA, kB, kBase };

  std::string module;  // the whole name of the module or the parameter
  const PeftModule* of = nullptr;
  uint32_t layer = 0;  // the number of layers for the ends
  uint32_t expert = 0;
  Part part = Part::kA;
  std::string partner;  // the name of B's tensor for A, and the other way round
};

// Removes a number and a dot from the front of `text`. Returns false if they are not there.
bool TakeNumber(std::string_view& text, uint32_t& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest == end || *rest != '.') return false;
  text.remove_prefix(static_cast<size_t>(rest - text.data()) + 1);
  return true;
}

class PeftReader {
 public:
  PeftReader(const PeftConfig& config, const AdapterShape& shape, const std::string& blocks)
      : config_(config),
        shape_(shape),
        modules_(PeftModulesOf(shape)),
        weights_(EmptyAdapter(shape)) {
    weights_.rslora = config.rslora;
    for (size_t at = 0, end; (end = blocks.find(' ', at)) != blocks.npos; at = end + 1) {
      blocks_.insert(blocks.substr(at, end - at));
    }
  }

  Result<AdapterWeights> Run(const TensorTable& tensors) {
    // A tensor without a partner is reported only if all names are valid, because the name of its
    // partner may be the invalid one.
    const Tensor* lonely = nullptr;
    std::string missing;
    for (const Tensor& tensor : tensors.all()) {
      const Place place = PIE_TRY(Parse(tensor));
      if (place.part == Place::Part::kBase) {
        PIE_RETURN_IF_ERROR(CheckBase(place, tensor));
        continue;
      }
      const Tensor* const partner = tensors.Find(place.partner);
      if (partner == nullptr) {
        lonely = &tensor;
        missing = place.partner;
      } else if (place.part == Place::Part::kA) {
        PIE_RETURN_IF_ERROR(Take(place, tensor, *partner));
      }
    }
    if (lonely != nullptr) return Bad(*lonely, "its partner '{}' is missing", Shown(missing));
    if (tensors.size() == 0) {
      return Fail(Code::kInvalid, "{} holds no tensors", kPeftTensorFile);
    }
    return std::move(weights_);
  }

 private:
  static std::unexpected<Error> Bad(const Tensor& tensor, const Error& error) {
    return Fail(error.code, "{}: tensor '{}': {}", kPeftTensorFile, Shown(tensor.name), error.text);
  }
  template <class... Args>
  static std::unexpected<Error> Bad(const Tensor& tensor, fmt::format_string<Args...> format,
                                    Args&&... args) {
    return Bad(tensor, {Code::kInvalid, fmt::format(format, std::forward<Args>(args)...)});
  }

  Result<Place> Parse(const Tensor& tensor) const {
    constexpr std::string_view kPrefix = "base_model.model.";
    std::string_view name = tensor.name;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    Place place;
    std::string_view module;
    if (name.ends_with(".base_layer.weight")) {
      place.part = Place::Part::kBase;
      module = name.substr(0, name.size() - std::string_view(".base_layer.weight").size());
    } else {
      PIE_RETURN_IF_ERROR(ParsePart(tensor, name, place, module));
    }
    PIE_RETURN_IF_ERROR(FindModule(tensor, module, place));
    const bool is_end = place.of->kind == PeftModule::Kind::kEnd;
    const bool is_embedding = place.of->targets[0] == AdapterTarget::kEmbedding;
    const bool named_so = name.find(".lora_embedding_") != name.npos;
    if (place.part == Place::Part::kBase ? !is_end : is_embedding != named_so) {
      return Bad(tensor, "PEFT has no tensor of this name for the module");
    }
    if (is_end && config_.ties) {
      return Bad(tensor, "ensure_weight_tying in {} is not supported for {}; train without it",
                 kPeftConfigFile, place.of->name);
    }
    if (place.of->kind != PeftModule::Kind::kStacked && !config_.Targets(place.module)) {
      return Bad(tensor, "target_modules in {} does not include it", kPeftConfigFile);
    }
    return place;
  }

  // Whether the tensor is A or B, and the part of its name before that.
  static Status ParsePart(const Tensor& tensor, std::string_view name, Place& place,
                          std::string_view& module) {
    size_t kind = name.npos;
    size_t letter = name.npos;   // of "A" or "B"
    bool is_whole_name = false;  // nothing is after the letter
    for (const std::string_view start : {".lora_", ".lora_embedding_"}) {
      for (const char part : {'A', 'B'}) {
        const size_t at = name.rfind(std::string(start) + part);
        if (at == name.npos) continue;
        kind = at;
        letter = at + start.size();
        is_whole_name = start != ".lora_";
        place.part = part == 'A' ? Place::Part::kA : Place::Part::kB;
      }
    }
    const std::string_view rest = kind == name.npos ? "" : name.substr(letter + 1);
    const bool is_named_well =
        is_whole_name ? rest.empty() : rest.starts_with('.') && rest.ends_with("weight");
    if (kind == name.npos || !is_named_well) {
      return Bad(tensor, "it is not the lora_A or lora_B weight of a module");
    }
    module = name.substr(0, kind);
    place.partner = tensor.name;
    place.partner[tensor.name.size() - name.size() + letter] =
        place.part == Place::Part::kA ? 'B' : 'A';
    return {};
  }

  Status FindModule(const Tensor& tensor, std::string_view name, Place& place) const {
    place.module = name;
    constexpr std::string_view kLayers = "layers.";
    const size_t layers = name.rfind(kLayers);
    const bool in_layer = layers != name.npos && (layers == 0 || name[layers - 1] == '.');
    std::string_view rest = in_layer ? name.substr(layers + kLayers.size()) : name;
    std::string wanted(name.substr(name.rfind('.') + 1));
    place.layer = shape_.layers;
    if (in_layer) {
      if (!TakeNumber(rest, place.layer)) return Unknown(tensor);
      if (place.layer >= shape_.layers) {
        return Bad(tensor, "the model has {} layers", shape_.layers);
      }
      wanted = rest;
      if (shape_.experts > 0) PIE_RETURN_IF_ERROR(FindExpert(tensor, rest, place, wanted));
    }
    const auto found = std::ranges::find(modules_, wanted, &PeftModule::name);
    const bool is_end = found != modules_.end() && found->kind == PeftModule::Kind::kEnd;
    if (found == modules_.end() || is_end == in_layer) return Unknown(tensor);
    place.of = &*found;
    return {};
  }

  // `rest` is the module's name in its layer, and `wanted` that of the table.
  Status FindExpert(const Tensor& tensor, std::string_view rest, Place& place,
                    std::string& wanted) const {
    const std::string prefix = place.module.substr(0, place.module.size() - rest.size());
    const bool is_inner = rest.ends_with(kInnerWrapper);
    if (rest.substr(0, rest.size() - (is_inner ? kInnerWrapper.size() : 0)) == kStackedModule) {
      const bool gate_up = config_.TargetsParameter(prefix + std::string(kStackedGateUp));
      const bool down = config_.TargetsParameter(prefix + std::string(kStackedDown));
      if (is_inner ? !(gate_up && down) : !(gate_up || down)) {
        return Bad(tensor, "target_parameters in {} does not include its parameter",
                   kPeftConfigFile);
      }
      wanted = is_inner || !down ? kStackedGateUp : kStackedDown;
      place.module = prefix + wanted;
      return {};
    }
    constexpr std::string_view kExperts = ".experts.";
    const size_t experts = rest.find(kExperts);
    if (experts == rest.npos) return {};
    std::string_view behind = rest.substr(experts + kExperts.size());
    if (!TakeNumber(behind, place.expert)) return Unknown(tensor);
    if (place.expert >= shape_.experts) {
      return Bad(tensor, "the model has {} experts in a layer", shape_.experts);
    }
    wanted = fmt::format("{}{}*.{}", rest.substr(0, experts), kExperts, behind);
    return {};
  }

  std::unexpected<Error> Unknown(const Tensor& tensor) const {
    return Bad(tensor, "adapters of this model change {}, and no other module", NamesOf(modules_));
  }

  // PEFT writes the weights of the model itself where it changes the embedding or the head. They
  // are the model's own, so they are not read.
  Status CheckBase(const Place& place, const Tensor& tensor) const {
    const std::vector<uint64_t> expected = {shape_.head.out, shape_.head.in};
    if (tensor.shape == expected) return {};
    return Bad(tensor, "its shape must be [{}, {}], as the model's {} is", expected[0], expected[1],
               place.of->name);
  }

  static Result<std::vector<float>> Numbers(const Tensor& tensor) {
    if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kF16 &&
        tensor.dtype != DType::kBF16) {
      return Bad(tensor, "its type is {}; F32, F16 and BF16 are supported", NameOf(tensor.dtype));
    }
    std::vector<float> numbers(tensor.elements());
    if (const Status read = Dequantize(tensor.dtype, tensor.data, numbers); !read) {
      return Bad(tensor, read.error());
    }
    // Without the sign, the bits of floats are ordered as the numbers are, and those of NaN come
    // last.
    uint32_t bits = 0;
    for (const float number : numbers) bits = std::max(bits, std::bit_cast<uint32_t>(number) << 1);
    const auto largest = std::bit_cast<float>(bits >> 1);
    if (std::isnan(largest)) return Bad(tensor, "it contains NaN");
    if (largest > kLargestHalf) {
      return Bad(tensor, "it contains {}; numbers must be within ±{}", largest, kLargestHalf);
    }
    return numbers;
  }

  Status Take(const Place& place, const Tensor& a, const Tensor& b) {
    const std::vector<AdapterTarget>& targets = place.of->targets;
    const bool stacked = place.of->kind == PeftModule::Kind::kStacked;
    const uint32_t experts = stacked ? shape_.experts : 1;
    const bool blocks = targets.size() > 1 && blocks_.contains(place.module);
    const auto parts = static_cast<uint32_t>(blocks ? targets.size() : 1);
    const uint32_t in = shape_.Of(targets[0]).in;
    uint64_t out = 0;
    for (const AdapterTarget target : targets) out += shape_.Of(target).out;
    if (a.shape.size() != 2 || a.shape[1] != in || a.shape[0] % experts != 0) {
      return stacked ? Bad(a, "its shape must be [{} experts × rank, {}]", experts, in)
                     : Bad(a, "its shape must be [rank, {}]", in);
    }
    const uint64_t rank = a.shape[0] / experts;
    if (rank == 0 || rank / parts > limits::kAdapterRank || rank % parts != 0) {
      return Bad(a, "its rank is {}; from 1 to {} is supported", rank / parts,
                 limits::kAdapterRank);
    }
    if (static_cast<double>(rank) != config_.RankOf(place.module)) {
      return Bad(a, "its rank is {}, but {} says {}", rank, kPeftConfigFile,
                 config_.RankOf(place.module));
    }
    if (b.shape != std::vector<uint64_t>{out, rank * experts}) {
      return Bad(b, "its shape must be [{}, {}]", out, rank * experts);
    }
    std::vector<float> rows = PIE_TRY(Numbers(a));
    std::vector<float> columns = PIE_TRY(Numbers(b));
    // The scale of a block is that of the whole.
    const auto of_all = static_cast<float>(config_.AlphaOf(place.module));
    const auto part_rank = static_cast<uint32_t>(rank / parts);
    const float alpha = AdapterScale(of_all, parts, config_.rslora);
    const float scale = AdapterScale(alpha, part_rank, config_.rslora);
    if (!std::isfinite(scale)) return Bad(a, "its scale is {}", scale);
    for (uint32_t expert = 0; expert < experts; ++expert) {
      for (size_t index = 0; index < targets.size(); ++index) {
        const uint32_t slot = AdapterSlot(targets[index], stacked ? expert : place.expert);
        LowRank& part = weights_.layers[place.layer][slot];
        if (part.rank != 0) return Bad(a, "another tensor is for the same module");
        part = {.rank = part_rank, .alpha = alpha, .scale = scale};
        if (experts == 1 && targets.size() == 1) {
          part.a = std::move(rows);
          part.b = std::move(columns);
          return {};
        }
        // Column (first + j) × experts + expert of B belongs to row expert × rank + first + j of A.
        const size_t first = blocks ? index * part_rank : 0;
        const auto from = rows.begin() + static_cast<ptrdiff_t>((expert * rank + first) * in);
        part.a.assign(from, from + static_cast<ptrdiff_t>(size_t{part_rank} * in));
        const uint32_t part_out = shape_.Of(targets[index]).out;
        part.b.resize(size_t{part_out} * part_rank);
        for (uint32_t i = 0; i < part_out; ++i) {
          const float* const row = &columns[place.of->RowOf(shape_, index, i) * rank * experts];
          for (uint32_t j = 0; j < part_rank; ++j) {
            part.b[size_t{i} * part_rank + j] = row[(first + j) * experts + expert];
          }
        }
      }
    }
    return {};
  }

  const PeftConfig& config_;
  const AdapterShape& shape_;
  const std::vector<PeftModule> modules_;
  std::set<std::string> blocks_;
  AdapterWeights weights_;
};

}  // namespace

Result<AdapterWeights> ReadPeft(std::string_view config, std::span<const std::byte> tensors,
                                const AdapterShape& shape) {
  const PeftConfig parsed = PIE_TRY(ParsePeftConfig(config));
  const Safetensors file = PIE_TRY(Safetensors::Parse(tensors, std::string(kPeftTensorFile)));
  const auto blocks = file.metadata().find(kPeftBlocks);
  return PeftReader(parsed, shape, blocks == file.metadata().end() ? "" : blocks->second)
      .Run(file.tensors());
}

uint64_t PeftParameters(const Safetensors& file) {
  uint64_t parameters = 0;
  for (const Tensor& tensor : file.tensors().all()) {
    if (tensor.name.find(".lora_") != tensor.name.npos) parameters += tensor.elements();
  }
  return parameters;
}

Result<uint32_t> PeftRank(std::string_view config) {
  return PIE_TRY(ParsePeftConfig(config)).MaxRank();
}

}  // namespace pie
