#include "model/adapter/peft_modules.h"

#include <algorithm>

namespace pie {

uint32_t PeftModule::RowOf(const AdapterShape& shape, size_t index, uint32_t row) const {
  if (interleaved)
    return row * static_cast<uint32_t>(targets.size()) + static_cast<uint32_t>(index);
  for (size_t i = 0; i < index; ++i) row += shape.Of(targets[i]).out;
  return row;
}

std::vector<PeftModule> PeftModulesOf(const AdapterShape& shape) {
  using enum AdapterTarget;
  using Kind = PeftModule::Kind;
  std::vector<PeftModule> modules = {{Kind::kLayer, "self_attn.o_proj", {kO}}};
  if (shape.fused) {
    modules.push_back({Kind::kLayer, "self_attn.qkv_proj", {kQ, kK, kV}});
  } else {
    modules.push_back({Kind::kLayer, "self_attn.q_proj", {kQ}});
    modules.push_back({Kind::kLayer, "self_attn.k_proj", {kK}});
    modules.push_back({Kind::kLayer, "self_attn.v_proj", {kV}});
  }
  if (shape.experts > 0) {
    modules.push_back({Kind::kExpert, "mlp.experts.*.gate_proj", {kGate}});
    modules.push_back({Kind::kExpert, "mlp.experts.*.up_proj", {kUp}});
    modules.push_back({Kind::kExpert, "mlp.experts.*.down_proj", {kDown}});
    modules.push_back({Kind::kExpert, "block_sparse_moe.experts.*.w1", {kGate}});  // Mixtral
    modules.push_back({Kind::kExpert, "block_sparse_moe.experts.*.w3", {kUp}});
    modules.push_back({Kind::kExpert, "block_sparse_moe.experts.*.w2", {kDown}});
    modules.push_back({Kind::kStacked, kStackedGateUp, {kGate, kUp}, shape.interleaved});
    modules.push_back({Kind::kStacked, kStackedDown, {kDown}});
  } else if (shape.fused) {
    modules.push_back({Kind::kLayer, "mlp.gate_up_proj", {kGate, kUp}});
    modules.push_back({Kind::kLayer, "mlp.down_proj", {kDown}});
  } else {
    modules.push_back({Kind::kLayer, "mlp.gate_proj", {kGate}});
    modules.push_back({Kind::kLayer, "mlp.up_proj", {kUp}});
    modules.push_back({Kind::kLayer, "mlp.down_proj", {kDown}});
  }
  modules.push_back({Kind::kEnd, "embed_tokens", {kEmbedding}});
  modules.push_back({Kind::kEnd, "lm_head", {kHead}});
  std::erase_if(modules,
                [&](const PeftModule& module) { return shape.Of(module.targets[0]).out == 0; });
  return modules;
}

std::string NamesOf(const std::vector<PeftModule>& modules) {
  std::vector<std::string_view> names;
  for (const PeftModule& module : modules) {
    const std::string_view name = module.name.substr(module.name.rfind('.') + 1);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace pie
