#include "files.h"

#include <fmt/format.h>

#include <cstdlib>

namespace pie::fuzz {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kArchitectures[] = {"llama",  "qwen2", "qwen3", "qwen3moe", "gemma2",
                                          "gemma3", "phi3",  "olmo2", "gpt-oss",  "mamba"};
constexpr const char* kNumbers[] = {"block_count",
                                    "context_length",
                                    "embedding_length",
                                    "feed_forward_length",
                                    "attention.head_count",
                                    "attention.head_count_kv",
                                    "attention.key_length",
                                    "attention.value_length",
                                    "attention.sliding_window",
                                    "rope.dimension_count",
                                    "rope.scaling.original_context_length",
                                    "vocab_size",
                                    "expert_count",
                                    "expert_used_count",
                                    "expert_feed_forward_length"};
constexpr const char* kFloats[] = {"attention.layer_norm_rms_epsilon",
                                   "rope.freq_base",
                                   "rope.scaling.factor",
                                   "attn_logit_softcapping",
                                   "final_logit_softcapping",
                                   "rope.scaling.attn_factor",
                                   "expert_weights_scale",
                                   "rope.scaling.yarn_log_multiplier"};
constexpr const char* kModelTypes[] = {"llama", "mistral", "mixtral",     "qwen2",
                                       "qwen3", "gemma2",  "gemma3_text", "phi3",
                                       "olmo2", "gpt_oss", "qwen3_moe"};
constexpr const char* kScalings[] = {"linear", "llama3", "yarn", "longrope", "dynamic", "default"};

void AddArchitecture(GgufTestWriter& writer, Dice& dice) {
  const std::string name = dice.Of(kArchitectures);
  writer.Add("general.architecture", name);
  for (const char* key : kNumbers) {
    if (dice.Once(8)) continue;
    const std::string full = name + "." + key;
    const uint64_t value = dice.Once(20) ? dice.Extreme() : uint64_t{4} << dice.Below(5);
    switch (dice.Below(6)) {
      case 0:
        writer.Add(full, value);
        break;
      case 1:
        writer.Add(full, static_cast<int32_t>(value));
        break;
      case 2:
        writer.AddArray(full, std::vector<uint32_t>(dice.Below(20), static_cast<uint32_t>(value)));
        break;
      default:
        writer.Add(full, static_cast<uint32_t>(value));
    }
  }
  for (const char* key : kFloats) {
    if (dice.Once(2)) writer.Add(name + "." + key, static_cast<float>(dice.Below(100)) / 7);
  }
  if (dice.Once(2)) writer.Add(name + ".rope.scaling.type", dice.Of(kScalings));
}

void AddTensors(GgufTestWriter& writer, Dice& dice) {
  constexpr const char* kNames[] = {"token_embd.weight", "output_norm.weight", "output.weight",
                                    "blk.0.attn_q.weight", "rope_freqs.weight"};
  for (uint64_t i = dice.Below(6); i > 0; --i) {
    const std::string name =
        dice.Once(3) ? dice.Of(kNames) : "blk." + std::to_string(i) + ".ffn_up.weight";
    const DTypeInfo& type = dice.Of(AllDTypes());
    std::vector<uint64_t> dimensions(1 + dice.Below(dice.Once(10) ? 6 : 3));
    for (uint64_t& size : dimensions) size = dice.Once(15) ? dice.Extreme() : 1 + dice.Below(8);
    dimensions[0] = dice.Once(9) ? dice.Extreme() : type.block_elements * (1 + dice.Below(3));
    double elements = 1;
    for (const uint64_t size : dimensions) elements *= static_cast<double>(size);
    if (type.gguf_number >= 0 && elements < 100'000 && dimensions.size() <= 4 && !dice.Once(4)) {
      writer.AddZeros(name, dimensions, type.dtype);
    } else {  // an entry without data of its own: it overlaps others, or lies beyond the file
      writer.AddEntry({name, dimensions, static_cast<uint32_t>(dice.Below(45)),
                       dice.Once(2) ? dice.Below(4) * 32 : dice.Extreme(1024)});
    }
  }
}

}  // namespace

std::string RandomGguf(Dice& dice) {
  GgufTestWriter writer;
  if (dice.Once(16)) writer.version = static_cast<uint32_t>(dice.Below(6));
  if (dice.Once(8)) {
    writer.alignment = uint64_t{8} << dice.Below(6);
    writer.Add("general.alignment", static_cast<uint32_t>(writer.alignment));
  }
  if (dice.Once(16)) writer.extra_tensors = dice.Extreme();
  if (dice.Once(16)) writer.extra_metadata = dice.Extreme();
  AddArchitecture(writer, dice);
  if (dice.Once(2)) AddVocabulary(writer, dice);
  if (dice.Once(8)) {
    writer.AddRaw("odd", static_cast<GgufType>(dice.Below(16)), std::string(dice.Below(64), '\3'));
  }
  AddTensors(writer, dice);
  return writer.Bytes();
}

void AddVocabulary(GgufTestWriter& writer, Dice& dice) {
  constexpr const char* kModels[] = {"gpt2", "llama", "bert", "t5", "none"};
  constexpr const char* kSplits[] = {"default", "smollm", "qwen2", "llama-bpe", "nothing"};
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
  for (const char* token : {"h", "e", "l", "o", "he", "ll", "\xe2\x96\x81", "\xc4\xa0"}) {
    tokens.push_back(token);
  }
  if (dice.Once(4)) tokens.resize(dice.Below(tokens.size()));
  std::vector<int32_t> types(tokens.size(), 1);
  for (size_t i = 0; i < types.size(); ++i) types[i] = i < 3 ? 3 : i < 259 ? 6 : 1;
  if (dice.Once(4) && !types.empty()) {
    types[dice.Below(types.size())] = static_cast<int32_t>(dice.Extreme());
  }
  std::vector<float> scores;
  for (size_t i = 0; i < tokens.size(); ++i) scores.push_back(-static_cast<float>(i));
  writer.Add("tokenizer.ggml.model", dice.Of(kModels));
  writer.Add("tokenizer.ggml.pre", dice.Of(kSplits));
  writer.AddArray("tokenizer.ggml.tokens", tokens);
  writer.AddArray("tokenizer.ggml.scores", scores);
  writer.AddArray("tokenizer.ggml.token_type", types);
  writer.AddArray("tokenizer.ggml.merges", std::vector<std::string>{"h e", "l l"});
  for (const char* name : {"bos", "eos", "unknown", "padding"}) {
    const auto id = static_cast<uint32_t>(dice.Once(8) ? dice.Extreme() : dice.Below(3));
    writer.Add(fmt::format("tokenizer.ggml.{}_token_id", name), id);
  }
  if (dice.Once(3)) writer.Add("tokenizer.ggml.add_space_prefix", dice.Once(2));
  if (dice.Once(8)) {
    writer.AddArray("tokenizer.ggml.precompiled_charsmap",
                    std::vector<uint8_t>(dice.Below(64), static_cast<uint8_t>(dice.Bits())));
  }
}

Json RandomSafetensorsHeader(Dice& dice) {
  constexpr std::pair<const char*, uint64_t> kTypes[] = {
      {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"U8", 1}, {"F64", 8}, {"C64", 8}};
  Json header = Json::object();
  if (dice.Once(2)) header["__metadata__"] = {{"format", "pt"}};
  uint64_t at = 0;
  for (uint64_t i = dice.Below(6); i > 0; --i) {
    const auto& [type, width] = dice.Of(kTypes);
    const uint64_t rows = dice.Below(5);
    const uint64_t columns = 1 + dice.Below(9);
    if (dice.Once(8)) at = dice.Below(100);  // overlaps another tensor, or leaves a hole
    const uint64_t end = at + rows * columns * width;
    header["model.layers." + std::to_string(i) + ".weight"] = {
        {"dtype", type}, {"shape", {rows, columns}}, {"data_offsets", {at, end}}};
    at = end;
  }
  return header;
}

// The data has the length that the header's last offset says, unless that is too large.
std::string SafetensorsFile(const std::string& header) {
  const uint64_t length = header.size();
  const size_t comma = header.rfind(',');
  const uint64_t end =
      comma == std::string::npos ? 0 : std::strtoull(header.c_str() + comma + 1, nullptr, 10);
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header +
         std::string(end < 100'000 ? end : 16, 'd');
}

Json RandomConfig(Dice& dice) {
  Json json = {{"model_type", dice.Of(kModelTypes)},
               {"hidden_size", 64 << dice.Below(3)},
               {"num_hidden_layers", 2 + dice.Below(6)},
               {"num_attention_heads", 4},
               {"num_key_value_heads", 2},
               {"head_dim", 16 << dice.Below(2)},
               {"intermediate_size", 96},
               {"moe_intermediate_size", 32},
               {"num_experts", 8},
               {"num_local_experts", 8},
               {"num_experts_per_tok", 2},
               {"vocab_size", 1000},
               {"max_position_embeddings", 4096},
               {"original_max_position_embeddings", 2048},
               {"rms_norm_eps", 1e-5},
               {"rope_theta", 10000.0},
               {"tie_word_embeddings", dice.Once(2)},
               {"hidden_act", "silu"},
               {"hidden_activation", "gelu_pytorch_tanh"},
               {"sliding_window", 512},
               {"layer_types", {"sliding_attention", "full_attention"}}};
  if (dice.Once(2)) {
    json["rope_scaling"] = {{"rope_type", dice.Of(kScalings)},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 2048},
                            {"short_factor", std::vector<double>(8, 1.0)},
                            {"long_factor", std::vector<double>(8, 2.0)},
                            {"beta_fast", 32},
                            {"beta_slow", 1}};
  }
  for (const char* optional : {"head_dim", "sliding_window", "layer_types", "num_experts"}) {
    if (dice.Once(3)) json.erase(optional);
  }
  return json;
}

}  // namespace pie::fuzz
