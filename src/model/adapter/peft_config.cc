#include "model/adapter/peft_config.h"

#include <algorithm>
#include <array>

#include "model/adapter/peft.h"
#include "model/json_fields.h"
#include "model/json_text.h"
#include "model/limits.h"
#include "model/shown.h"

namespace pie {
namespace {

using nlohmann::json;

std::unexpected<Error> Refuse(std::string_view field, std::string_view why) {
  return Fail(Code::kUnavailable, "{}: '{}' is not supported: {}", kPeftConfigFile, field, why);
}

// False, null, an empty list or object, or absent.
bool IsUnset(const json& config, const char* field) {
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return true;
  return found->is_boolean() ? !found->get<bool>() : found->is_structured() && found->empty();
}

Status CheckFeatures(const json& config) {
  struct Feature {
    const char* field;
    std::string_view why;
  };
  constexpr std::array<Feature, 11> kRefused = {{
      {"use_dora", "DoRA scales the columns of the base weights; train with use_dora=False"},
      {"modules_to_save", "it replaces whole modules; leave it empty"},
      {"lora_bias", "biases of adapters are not computed; train with lora_bias=False"},
      {"fan_in_fan_out", "it is for models with transposed weights, which do not run here"},
      {"layer_replication", "it changes the number of layers"},
      {"trainable_token_indices", "it changes embeddings"},
      {"alora_invocation_tokens", "an adapter applies to all tokens of a pass"},
      {"use_qalora", "QALoRA pools the inputs of the adapter"},
      {"kasa_config", "KaSA scales the ranks of the adapter"},
      {"arrow_config", "an adapter is not chosen by the tokens"},
      {"use_bdlora", "block-diagonal adapters are not computed"},
  }};
  for (const Feature& feature : kRefused) {
    if (!IsUnset(config, feature.field)) return Refuse(feature.field, feature.why);
  }
  const JsonFields fields(config);
  if (const std::string type = fields.Text("peft_type", "LORA"); type != "LORA") {
    return Fail(Code::kUnavailable, "{}: peft_type is '{}'; only 'LORA' is supported",
                kPeftConfigFile, Shown(type));
  }
  if (const std::string bias = fields.Text("bias", "none"); bias != "none") {
    return Refuse("bias", "the biases of the base model are not changed; train with bias='none'");
  }
  const std::string init = fields.Text("init_lora_weights");
  for (const std::string_view changes_base : {"pissa", "olora", "corda", "loftq"}) {
    if (init.starts_with(changes_base)) {
      return Refuse("init_lora_weights",
                    "the adapter was trained on changed base weights; convert it to plain LoRA");
    }
  }
  return {};
}

Result<std::vector<std::pair<ModulePattern, double>>> Patterns(const json& config,
                                                               const char* field) {
  std::vector<std::pair<ModulePattern, double>> patterns;
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return patterns;
  if (!found->is_object()) {
    return Fail(Code::kInvalid, "{}: '{}' must be an object", kPeftConfigFile, field);
  }
  for (const auto& [key, value] : found->items()) {
    if (!value.is_number()) {
      return Fail(Code::kInvalid, "{}: '{}' of '{}' must be a number", kPeftConfigFile, field,
                  Shown(key));
    }
    patterns.emplace_back(PIE_TRY(ModulePattern::Compile(key)), value.get<double>());
  }
  return patterns;
}

Result<std::vector<std::string>> Names(const json& found, std::string_view field,
                                       std::string_view accepted) {
  std::vector<std::string> names;
  for (const json& name : found) {
    if (!found.is_array() || !name.is_string()) {
      return Fail(Code::kInvalid, "{}: '{}' must be {}", kPeftConfigFile, field, accepted);
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

Status ReadTargets(const json& config, PeftConfig& read) {
  if (const auto found = config.find("target_parameters");
      found != config.end() && !found->is_null()) {
    read.parameters = PIE_TRY(Names(*found, "target_parameters", "a list of names"));
  }
  const auto found = config.find("target_modules");
  if (found == config.end() || found->is_null()) return {};  // the tensors decide
  if (found->is_string()) {
    const auto& pattern = found->get_ref<const std::string&>();
    if (pattern == "all-linear") return {};
    read.target_patterns.push_back(PIE_TRY(ModulePattern::Compile(pattern)));
    return {};
  }
  read.targets = PIE_TRY(Names(*found, "target_modules", "a list of names or a pattern"));
  return {};
}

bool EndsWithOne(std::string_view whole, const std::vector<std::string>& names) {
  return std::ranges::any_of(
      names, [&](const std::string& name) { return whole == name || whole.ends_with("." + name); });
}

double FirstMatch(const std::vector<std::pair<ModulePattern, double>>& patterns,
                  std::string_view module, double otherwise) {
  const auto found = std::ranges::find_if(
      patterns, [&](const auto& pattern) { return pattern.first.MatchesEnd(module); });
  return found == patterns.end() ? otherwise : found->second;
}

}  // namespace

bool PeftConfig::Targets(std::string_view module) const {
  if (!target_patterns.empty()) return target_patterns.front().MatchesAll(module);
  return targets.empty() || EndsWithOne(module, targets);
}

bool PeftConfig::TargetsParameter(std::string_view parameter) const {
  return EndsWithOne(parameter, parameters);
}

double PeftConfig::RankOf(std::string_view module) const {
  return FirstMatch(rank_patterns, module, rank);
}

double PeftConfig::AlphaOf(std::string_view module) const {
  return FirstMatch(alpha_patterns, module, alpha);
}

uint32_t PeftConfig::MaxRank() const {
  double most = rank;
  for (const auto& [pattern, value] : rank_patterns) most = std::max(most, value);
  return static_cast<uint32_t>(std::clamp(most, 0.0, 1e9));
}

Result<PeftConfig> ParsePeftConfig(std::string_view text) {
  if (text.size() > limits::kConfigBytes) {
    return Fail(Code::kInvalid, "{} has {} bytes; at most {} are allowed", kPeftConfigFile,
                text.size(), limits::kConfigBytes);
  }
  const json config = PIE_TRY(ParseJsonObject(text, kPeftConfigFile, 8));
  PIE_RETURN_IF_ERROR(CheckFeatures(config));
  const JsonFields fields(config);
  PeftConfig read;
  const auto fail = [](const Error& error) {
    return Fail(error.code, "{}: {}", kPeftConfigFile, error.text);
  };
  const auto rank = fields.U32("r", 8);
  if (!rank) return fail(rank.error());
  const auto alpha = fields.Number("lora_alpha", 8);
  if (!alpha) return fail(alpha.error());
  const auto rslora = fields.Bool("use_rslora", false);
  if (!rslora) return fail(rslora.error());
  read.ties = !IsUnset(config, "ensure_weight_tying");
  read.rank = *rank;
  read.alpha = *alpha;
  read.rslora = *rslora;
  PIE_RETURN_IF_ERROR(ReadTargets(config, read));
  read.rank_patterns = PIE_TRY(Patterns(config, "rank_pattern"));
  read.alpha_patterns = PIE_TRY(Patterns(config, "alpha_pattern"));
  return read;
}

}  // namespace pie
