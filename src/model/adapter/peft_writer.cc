#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "model/adapter/peft.h"

namespace pie {
namespace {

using nlohmann::json;

// One module of a file.
struct Written {
  std::string module;  // "model.layers.3.self_attn.q_proj"
  uint32_t rank = 0;
  float alpha = 0;
  uint32_t in = 0;
  uint32_t out = 0;
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [out, rank]
};

// Several targets that files have as one matrix. Where they share A, the rows of B are put one
// below the other. Otherwise A has the rows of all, B is block-diagonal, and the scales go into B.
Written Join(const AdapterWeights::Layer& layer, std::span<const AdapterTarget> targets,
             const AdapterShape& shape, bool rslora) {
  Written joined{.in = shape.Of(targets[0]).in};
  const LowRank& first = layer[static_cast<size_t>(targets[0])];
  bool shared = true;
  for (const AdapterTarget target : targets) {
    const LowRank& part = layer[static_cast<size_t>(target)];
    joined.out += shape.Of(target).out;
    joined.rank += part.rank;
    shared &= part.rank == first.rank && part.scale == first.scale && part.a == first.a;
  }
  if (joined.rank == 0) return joined;
  if (shared) {
    joined.rank = first.rank;
    joined.alpha = first.alpha;
    joined.a = first.a;
    for (const AdapterTarget target : targets) {
      const LowRank& part = layer[static_cast<size_t>(target)];
      joined.b.insert(joined.b.end(), part.b.begin(), part.b.end());
    }
    return joined;
  }
  // The scale of the file is 1.
  joined.alpha = 1 / AdapterScale(1, joined.rank, rslora);
  joined.b.resize(size_t{joined.out} * joined.rank);
  size_t row = 0;
  size_t column = 0;
  for (const AdapterTarget target : targets) {
    const LowRank& part = layer[static_cast<size_t>(target)];
    joined.a.insert(joined.a.end(), part.a.begin(), part.a.end());
    const uint32_t out = shape.Of(target).out;
    for (size_t i = 0; i < out && part.rank > 0; ++i) {
      for (size_t j = 0; j < part.rank; ++j) {
        joined.b[(row + i) * joined.rank + column + j] = part.scale * part.b[i * part.rank + j];
      }
    }
    row += out;
    column += part.rank;
  }
  return joined;
}

std::vector<Written> ModulesOf(const AdapterWeights& weights, const AdapterShape& shape) {
  using enum AdapterTarget;
  std::vector<std::pair<std::string_view, std::vector<AdapterTarget>>> modules = {
      {"self_attn.o_proj", {kO}}, {"mlp.down_proj", {kDown}}};
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
  std::vector<Written> written;
  for (size_t layer = 0; layer < weights.layers.size(); ++layer) {
    for (const auto& [name, targets] : modules) {
      Written module = Join(weights.layers[layer], targets, shape, weights.rslora);
      if (module.rank == 0) continue;
      module.module = fmt::format("model.layers.{}.{}", layer, name);
      written.push_back(std::move(module));
    }
  }
  return written;
}

// The value that most modules have; the others become patterns.
template <class T>
T Commonest(const std::vector<Written>& modules, T Written::* field) {
  std::map<T, size_t> counts;
  for (const Written& module : modules) ++counts[module.*field];
  return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })
      ->first;
}

std::string ConfigOf(const std::vector<Written>& modules, bool rslora) {
  std::set<std::string> targets;
  const uint32_t rank = Commonest(modules, &Written::rank);
  const float alpha = Commonest(modules, &Written::alpha);
  json ranks = json::object();
  json alphas = json::object();
  for (const Written& module : modules) {
    targets.insert(module.module.substr(module.module.rfind('.') + 1));
    if (module.rank != rank) ranks[module.module] = module.rank;
    if (module.alpha != alpha) alphas[module.module] = module.alpha;
  }
  const json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"r", rank},
                       {"lora_alpha", alpha},
                       {"lora_dropout", 0.0},
                       {"target_modules", targets},
                       {"rank_pattern", ranks},
                       {"alpha_pattern", alphas},
                       {"use_rslora", rslora},
                       {"use_dora", false},
                       {"bias", "none"},
                       {"fan_in_fan_out", false},
                       {"inference_mode", true},
                       {"init_lora_weights", true},
                       {"modules_to_save", nullptr},
                       {"base_model_name_or_path", nullptr}};
  return config.dump(2) + "\n";
}

std::string TensorsOf(const std::vector<Written>& modules,
                      const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  header["__metadata__"] = {{"format", "pt"}};
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  uint64_t bytes = 0;
  const auto add = [&](const Written& module, std::string_view kind, uint32_t rows,
                       uint32_t columns) {
    const uint64_t end = bytes + uint64_t{rows} * columns * sizeof(float);
    header[fmt::format("base_model.model.{}.{}.weight", module.module, kind)] = {
        {"dtype", "F32"}, {"shape", {rows, columns}}, {"data_offsets", {bytes, end}}};
    bytes = end;
  };
  for (const Written& module : modules) {
    add(module, "lora_A", module.rank, module.in);
    add(module, "lora_B", module.out, module.rank);
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the numbers are aligned
  std::string file(sizeof(uint64_t), '\0');
  const uint64_t length = text.size();
  std::memcpy(file.data(), &length, sizeof(length));
  file.reserve(file.size() + text.size() + bytes);
  file += text;
  for (const Written& module : modules) {
    for (const std::vector<float>* numbers : {&module.a, &module.b}) {
      file.append(reinterpret_cast<const char*>(numbers->data()), numbers->size() * sizeof(float));
    }
  }
  return file;
}

}  // namespace

std::string EmptyPeftTensors(const std::map<std::string, std::string>& metadata) {
  return TensorsOf({}, metadata);
}

Result<PeftFiles> WritePeft(const AdapterWeights& weights, const AdapterShape& shape,
                            const std::map<std::string, std::string>& metadata) {
  const std::vector<Written> modules = ModulesOf(weights, shape);
  if (modules.empty()) {
    return Fail(Code::kInvalid, "the adapter has no weights yet: load some, or call zo.initialize");
  }
  return PeftFiles{.config = ConfigOf(modules, weights.rslora),
                   .tensors = TensorsOf(modules, metadata)};
}

}  // namespace pie
