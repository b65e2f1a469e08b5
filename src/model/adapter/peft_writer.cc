#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "model/adapter/peft.h"
#include "model/adapter/peft_modules.h"

namespace pie {
namespace {

using nlohmann::json;

// One module or parameter of a file.
struct Written {
  std::string module;  // "model.layers.3.self_attn.q_proj"
  std::string tensor;  // the beginning of the names of its tensors
  PeftModule::Kind kind = PeftModule::Kind::kLayer;
  bool is_embedding = false;
  bool blocks = false;  // see kPeftBlocks
  uint32_t rank = 0;    // of one expert
  float alpha = 0;
  uint32_t experts = 1;
  uint32_t in = 0;
  uint32_t out = 0;
  std::vector<float> a;  // [experts, rank, in]
  std::vector<float> b;  // [out, rank, experts]
};

// Joins the matrices that a file has as one: some targets, of one or of all experts. In the plain
// case the targets of an expert share their A, and all have one scale. Otherwise A has the rows of
// all targets, and B is block-diagonal. Where ranks or scales differ, scales go into B as well, and
// smaller ranks are filled up with zeros.
class Joiner {
 public:
  Joiner(const AdapterWeights::Layer& layer, const PeftModule& module, const AdapterShape& shape,
         bool rslora)
      : layer_(layer), module_(module), shape_(shape), rslora_(rslora) {
    made_.kind = module.kind;
    made_.experts = module.kind == PeftModule::Kind::kStacked ? shape.experts : 1;
    made_.in = shape.Of(module.targets[0]).in;
    for (const AdapterTarget target : module.targets) made_.out += shape.Of(target).out;
  }

  // Rank 0: nothing of it is changed.
  Written Run() {
    const LowRank& first = Part(0, 0);
    bool alike = true;
    bool shared = true;
    uint32_t most = 0;
    for (uint32_t expert = 0; expert < made_.experts; ++expert) {
      uint32_t sum = 0;
      for (size_t index = 0; index < module_.targets.size(); ++index) {
        const LowRank& part = Part(expert, index);
        sum += part.rank;
        alike &= part.rank == first.rank && part.scale == first.scale;
        shared &= alike && part.a == Part(expert, 0).a;
      }
      most = std::max(most, sum);
    }
    if (most == 0) return std::move(made_);
    made_.blocks = alike && !shared;
    made_.rank = shared ? first.rank : most;
    if (shared) {
      made_.alpha = first.alpha;
    } else if (made_.blocks) {
      const auto parts = static_cast<uint32_t>(module_.targets.size());
      made_.alpha = first.alpha / AdapterScale(1, parts, rslora_);
    } else {
      made_.alpha = 1 / AdapterScale(1, made_.rank, rslora_);  // the scale of the file is 1
    }
    made_.a.resize(size_t{made_.experts} * made_.rank * made_.in);
    made_.b.resize(size_t{made_.out} * made_.rank * made_.experts);
    for (uint32_t expert = 0; expert < made_.experts; ++expert) {
      uint32_t column = 0;
      for (size_t index = 0; index < module_.targets.size(); ++index) {
        Put(expert, index, column, alike ? 1 : Part(expert, index).scale);
        if (!shared) column += Part(expert, index).rank;
      }
    }
    return std::move(made_);
  }

 private:
  const LowRank& Part(uint32_t expert, size_t index) const {
    return layer_[AdapterSlot(module_.targets[index], expert)];
  }

  void Put(uint32_t expert, size_t index, uint32_t column, float factor) {
    const LowRank& part = Part(expert, index);
    if (part.rank == 0) return;
    const size_t row = size_t{expert} * made_.rank + column;
    std::ranges::copy(part.a, made_.a.begin() + static_cast<ptrdiff_t>(row * made_.in));
    const uint32_t out = shape_.Of(module_.targets[index]).out;
    for (uint32_t i = 0; i < out; ++i) {
      const size_t to = size_t{module_.RowOf(shape_, index, i)} * made_.rank;
      for (uint32_t j = 0; j < part.rank; ++j) {
        made_.b[(to + column + j) * made_.experts + expert] =
            factor * part.b[size_t{i} * part.rank + j];
      }
    }
  }

  const AdapterWeights::Layer& layer_;
  const PeftModule& module_;
  const AdapterShape& shape_;
  const bool rslora_;
  Written made_;
};

std::vector<Written> ModulesOf(const AdapterWeights& weights, const AdapterShape& shape) {
  const std::vector<PeftModule> modules = PeftModulesOf(shape);
  std::vector<Written> written;
  for (uint32_t layer = 0; layer < weights.layers.size(); ++layer) {
    const size_t first = written.size();
    for (const PeftModule& module : modules) {
      const bool is_end = module.kind == PeftModule::Kind::kEnd;
      if (module.kind == PeftModule::Kind::kExpert || is_end != (layer == shape.layers)) continue;
      Written made = Joiner(weights.layers[layer], module, shape, weights.rslora).Run();
      if (made.rank == 0) continue;
      const std::string prefix = is_end ? "" : fmt::format("model.layers.{}.", layer);
      made.is_embedding = module.targets[0] == AdapterTarget::kEmbedding;
      made.module = prefix + (made.is_embedding ? "model." : "") + std::string(module.name);
      made.tensor = made.kind == PeftModule::Kind::kStacked ? prefix + std::string(kStackedModule)
                                                            : made.module;
      written.push_back(std::move(made));
    }
    // The wrapper of gate and up is inside that of down.
    const auto stacked = [](const Written& one) { return one.kind == PeftModule::Kind::kStacked; };
    const auto begin = written.begin() + static_cast<ptrdiff_t>(first);
    if (std::count_if(begin, written.end(), stacked) == 2) {
      std::find_if(begin, written.end(), stacked)->tensor += kInnerWrapper;
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
  std::set<std::string> parameters;
  const uint32_t rank = Commonest(modules, &Written::rank);
  const float alpha = Commonest(modules, &Written::alpha);
  json ranks = json::object();
  json alphas = json::object();
  for (const Written& module : modules) {
    if (module.kind == PeftModule::Kind::kStacked) {
      parameters.insert(module.module.substr(module.module.find(kStackedModule)));
    } else {
      targets.insert(module.module.substr(module.module.rfind('.') + 1));
    }
    if (module.rank != rank) ranks[module.module] = module.rank;
    if (module.alpha != alpha) alphas[module.module] = module.alpha;
  }
  const json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"r", rank},
                       {"lora_alpha", alpha},
                       {"lora_dropout", 0.0},
                       {"target_modules", targets},
                       {"target_parameters", parameters.empty() ? json() : json(parameters)},
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
  std::string blocks;
  const auto add = [&](const Written& module, char part, uint32_t rows, uint32_t columns) {
    const uint64_t end = bytes + uint64_t{rows} * columns * sizeof(float);
    header[fmt::format("base_model.model.{}.lora_{}{}{}", module.tensor,
                       module.is_embedding ? "embedding_" : "", part,
                       module.is_embedding ? "" : ".weight")] = {
        {"dtype", "F32"}, {"shape", {rows, columns}}, {"data_offsets", {bytes, end}}};
    bytes = end;
  };
  for (const Written& module : modules) {
    add(module, 'A', module.rank * module.experts, module.in);
    add(module, 'B', module.out, module.rank * module.experts);
    if (module.blocks) blocks += module.module + " ";
  }
  if (!blocks.empty()) header["__metadata__"][kPeftBlocks] = blocks;
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
