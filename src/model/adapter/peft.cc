#include "model/adapter/peft.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/adapter/peft_config.h"
#include "model/dequantize.h"
#include "model/limits.h"
#include "model/safetensors.h"
#include "model/shown.h"

namespace pie {
namespace {

constexpr float kLargestHalf = 65'504;

// A module that adapters can change, as files name it. A fused one is several targets, whose rows
// are one below the other.
struct Module {
  std::string_view name;  // behind "layers.3."
  std::vector<AdapterTarget> targets;
};

std::vector<Module> ModulesOf(const AdapterShape& shape) {
  using enum AdapterTarget;
  std::vector<Module> modules = {{"self_attn.o_proj", {kO}}, {"mlp.down_proj", {kDown}}};
  if (shape.fused) {
    modules.push_back({"self_attn.qkv_proj", {kQ, kK, kV}});
    modules.push_back({"mlp.gate_up_proj", {kGate, kUp}});
  } else {
    modules.push_back({"self_attn.q_proj", {kQ}});
    modules.push_back({"self_attn.k_proj", {kK}});
    modules.push_back({"self_attn.v_proj", {kV}});
    modules.push_back({"mlp.gate_proj", {kGate}});
    modules.push_back({"mlp.up_proj", {kUp}});
  }
  std::erase_if(modules,
                [&](const Module& module) { return shape.Of(module.targets[0]).out == 0; });
  return modules;
}

std::string NamesOf(const std::vector<Module>& modules) {
  std::string names;
  for (const Module& module : modules) {
    if (!names.empty()) names += ", ";
    names += module.name.substr(module.name.find('.') + 1);
  }
  return names;
}

// What a tensor's name says: "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight".
struct Place {
  std::string module;  // the module's whole name
  uint32_t layer = 0;
  const Module* target = nullptr;
  bool is_b = false;
};

class PeftReader {
 public:
  PeftReader(const PeftConfig& config, const AdapterShape& shape)
      : config_(config), shape_(shape), modules_(ModulesOf(shape)) {
    weights_.layers.resize(shape.layers);
    weights_.rslora = config.rslora;
  }

  Result<AdapterWeights> Run(const TensorTable& tensors) {
    for (const Tensor& tensor : tensors.all()) {
      const Place place = PIE_TRY(Parse(tensor));
      if (place.is_b) continue;
      const Tensor* const b = PIE_TRY(Partner(tensors, tensor, "lora_A", "lora_B"));
      PIE_RETURN_IF_ERROR(Take(place, tensor, *b));
    }
    for (const Tensor& tensor : tensors.all()) {
      if (!PIE_TRY(Parse(tensor)).is_b) continue;
      PIE_RETURN_IF_ERROR(Partner(tensors, tensor, "lora_B", "lora_A"));
    }
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

  static Result<const Tensor*> Partner(const TensorTable& tensors, const Tensor& tensor,
                                       std::string_view own, std::string_view other) {
    std::string name = tensor.name;
    name.replace(name.rfind(own), own.size(), other);
    const Tensor* const found = tensors.Find(name);
    if (found == nullptr) return Bad(tensor, "its partner '{}' is missing", Shown(name));
    return found;
  }

  Result<Place> Parse(const Tensor& tensor) const {
    std::string_view name = tensor.name;
    for (const std::string_view prefix : {"base_model.model."}) {
      if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    }
    Place place;
    size_t kind = name.rfind(".lora_A.");
    if (kind == name.npos) {
      kind = name.rfind(".lora_B.");
      place.is_b = true;
    }
    if (kind == name.npos || !name.ends_with("weight")) {
      return Bad(tensor, "it is not the lora_A or lora_B weight of a module");
    }
    const std::string_view module = name.substr(0, kind);
    place.module = module;
    constexpr std::string_view kLayers = "layers.";
    const size_t layers = module.rfind(kLayers);
    const bool in_layer = layers != module.npos && (layers == 0 || module[layers - 1] == '.');
    const char* const end = module.data() + module.size();
    const char* const digits = in_layer ? module.data() + layers + kLayers.size() : end;
    const auto [rest, error] = std::from_chars(digits, end, place.layer);
    if (error != std::errc() || rest == end || *rest != '.') {
      return Bad(tensor, "adapters change {} of layers, and no other module", NamesOf(modules_));
    }
    if (place.layer >= shape_.layers) {
      return Bad(tensor, "the model has {} layers", shape_.layers);
    }
    const std::string_view part(rest + 1, end);
    const auto found = std::ranges::find(modules_, part, &Module::name);
    if (found == modules_.end()) {
      return Bad(tensor, "adapters of this model change {}, and no other module",
                 NamesOf(modules_));
    }
    if (!config_.Targets(module)) {
      return Bad(tensor, "target_modules in {} does not include it", kPeftConfigFile);
    }
    place.target = &*found;
    return place;
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
    const uint32_t in = shape_.Of(place.target->targets[0]).in;
    uint64_t out = 0;
    for (const AdapterTarget target : place.target->targets) out += shape_.Of(target).out;
    if (a.shape.size() != 2 || a.shape[1] != in) {
      return Bad(a, "its shape must be [rank, {}]", in);
    }
    const uint64_t rank = a.shape[0];
    if (rank > limits::kAdapterRank) {
      return Bad(a, "its rank is {}; at most {} is supported", rank, limits::kAdapterRank);
    }
    if (static_cast<double>(rank) != config_.RankOf(place.module)) {
      return Bad(a, "its rank is {}, but {} says {}", rank, kPeftConfigFile,
                 config_.RankOf(place.module));
    }
    if (b.shape != std::vector<uint64_t>{out, rank}) {
      return Bad(b, "its shape must be [{}, {}]", out, rank);
    }
    std::vector<float> rows = PIE_TRY(Numbers(a));
    std::vector<float> columns = PIE_TRY(Numbers(b));
    const auto alpha = static_cast<float>(config_.AlphaOf(place.module));
    const bool fused = place.target->targets.size() > 1;
    auto from = columns.begin();
    for (const AdapterTarget target : place.target->targets) {
      LowRank& part = weights_.layers[place.layer][static_cast<size_t>(target)];
      if (part.rank != 0) return Bad(a, "another tensor is for the same module");
      part.rank = static_cast<uint32_t>(rank);
      part.alpha = alpha;
      part.scale = AdapterScale(alpha, part.rank, config_.rslora);
      if (!std::isfinite(part.scale)) return Bad(a, "its scale is {}", part.scale);
      if (!fused) {
        part.a = std::move(rows);
        part.b = std::move(columns);
        break;
      }
      part.a = rows;
      const auto end = from + static_cast<std::ptrdiff_t>(shape_.Of(target).out * rank);
      part.b.assign(from, end);
      from = end;
    }
    return {};
  }

  const PeftConfig& config_;
  const AdapterShape& shape_;
  const std::vector<Module> modules_;
  AdapterWeights weights_;
};

}  // namespace

Result<AdapterWeights> ReadPeft(std::string_view config, std::span<const std::byte> tensors,
                                const AdapterShape& shape) {
  const PeftConfig parsed = PIE_TRY(ParsePeftConfig(config));
  const Safetensors file = PIE_TRY(Safetensors::Parse(tensors, std::string(kPeftTensorFile)));
  return PeftReader(parsed, shape).Run(file.tensors());
}

}  // namespace pie
