#include <utility>

#include "abi/out.h"
#include "abi/text.h"
#include "speech/tokenizer.h"
#include "speech/tokenizer_memory.h"

namespace pie {
namespace {

// Reads tokenizer.ggml.*, and keeps the arrays that the bridge borrows.
class Reader {
 public:
  explicit Reader(const Gguf& gguf) : gguf_(gguf) {}

  Result<std::unique_ptr<Tokenizer>> Load() {
    pie_bridge::VocabularyRef vocabulary{};
    const auto model = PIE_TRY(Text("model"));
    if (!model || Find("tokens") == nullptr) {
      return Fail(
          Code::kInvalid,
          "{} has no tokenizer (tokenizer.ggml.model and tokenizer.ggml.tokens are missing): "
          "use a file made for text generation",
          gguf_.name());
    }
    if (const GgufValue* architecture = gguf_.Find("general.architecture")) {
      vocabulary.architecture = abi::ToStr(architecture->String().value_or(""));
    }
    vocabulary.model = abi::ToStr(*model);
    vocabulary.pre = abi::ToStr(PIE_TRY(Text("pre")).value_or(""));
    PIE_TRY(Texts("tokens", tokens_));
    PIE_TRY(Texts("merges", merges_));
    PIE_TRY(Scores());
    PIE_TRY(Types());
    PIE_TRY(Specials());
    vocabulary.tokens = {tokens_.data(), tokens_.size()};
    vocabulary.merges = {merges_.data(), merges_.size()};
    vocabulary.scores = {scores_.data(), scores_.size()};
    vocabulary.types = {types_.data(), types_.size()};
    vocabulary.special_ids = {specials_.data(), specials_.size()};
    vocabulary.unknown = {unknown_.data(), unknown_.size()};
    vocabulary.precompiled_charsmap = PIE_TRY(Bytes("precompiled_charsmap"));
    vocabulary.add_space_prefix = PIE_TRY(Switch("add_space_prefix"));
    vocabulary.remove_extra_whitespaces = PIE_TRY(Switch("remove_extra_whitespaces"));
    vocabulary.lowercase = PIE_TRY(Switch("normalizer.lowercase"));
    vocabulary.strip_accents = PIE_TRY(Switch("normalizer.strip_accents"));

    abi::Out out;
    auto* raw = pie_bridge::pie_tokenizer_from_vocabulary(&vocabulary, out.get());
    if (raw == nullptr) {
      return Fail(Code::kInvalid, "the vocabulary of {}: {}", gguf_.name(), out.error());
    }
    return std::make_unique<Tokenizer>(raw);
  }

 private:
  const GgufValue* Find(std::string_view key) const {
    return gguf_.Find(fmt::format("tokenizer.ggml.{}", key));
  }
  std::unexpected<Error> Wrong(std::string_view key, std::string_view what) const {
    return Fail(Code::kInvalid, "the vocabulary of {}: tokenizer.ggml.{} is not {}: it is damaged",
                gguf_.name(), key, what);
  }

  Result<std::optional<std::string_view>> Text(std::string_view key) const {
    const GgufValue* value = Find(key);
    if (value == nullptr) return std::nullopt;
    const auto text = value->String();
    if (!text) return Wrong(key, "a text");
    return text;
  }

  Status Texts(std::string_view key, std::vector<pie_bridge::Str>& into) const {
    const GgufValue* value = Find(key);
    if (value == nullptr) return {};
    const auto texts = value->Strings();
    if (!texts) return Wrong(key, "a list of texts");
    into.reserve(texts->size());
    for (std::string_view text : *texts) into.push_back(abi::ToStr(text));
    return {};
  }

  Status Scores() {
    const GgufValue* value = Find("scores");
    if (value == nullptr) return {};
    const auto scores = value->Numbers();
    if (!scores) return Wrong("scores", "a list of numbers");
    scores_.assign(scores->begin(), scores->end());
    return {};
  }

  Status Types() {
    const GgufValue* value = Find("token_type");
    if (value == nullptr) return {};
    const auto types = value->Integers();
    if (!types) return Wrong("token_type", "a list of integers");
    types_.reserve(types->size());
    for (int64_t type : *types)
      types_.push_back(type >= 0 && type < 16 ? static_cast<int>(type) : 0);
    return {};
  }

  // Ids beyond the vocabulary mean "none": files exist that say 2^32 - 1.
  Status Specials() {
    for (std::string_view key :
         {"bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id", "unknown_token_id"}) {
      const GgufValue* value = Find(key);
      if (value == nullptr) continue;
      const auto id = value->Integer();
      if (!id) return Wrong(key, "a token");
      if (*id < 0 || std::cmp_greater_equal(*id, tokens_.size())) continue;
      (key == "unknown_token_id" ? unknown_ : specials_).push_back(static_cast<uint32_t>(*id));
    }
    return {};
  }

  Result<pie_bridge::Maybe> Switch(std::string_view key) const {
    const GgufValue* value = Find(key);
    if (value == nullptr) return pie_bridge::Maybe::Unsaid;
    const auto on = value->Bool();
    if (!on) return Wrong(key, "true or false");
    return *on ? pie_bridge::Maybe::Yes : pie_bridge::Maybe::No;
  }

  Result<pie_bridge::Str> Bytes(std::string_view key) {
    const GgufValue* value = Find(key);
    if (value == nullptr) return pie_bridge::Str{};
    const auto numbers = value->Integers();
    if (!numbers) return Wrong(key, "a list of bytes");
    charsmap_.reserve(numbers->size());
    for (int64_t number : *numbers) charsmap_.push_back(static_cast<char>(number));
    return abi::ToStr(charsmap_);
  }

  const Gguf& gguf_;
  std::vector<pie_bridge::Str> tokens_;
  std::vector<pie_bridge::Str> merges_;
  std::vector<float> scores_;
  std::vector<int32_t> types_;
  std::vector<uint32_t> specials_;
  std::vector<uint32_t> unknown_;
  std::string charsmap_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> TokenizerFromGguf(const Gguf& gguf) {
  auto tokenizer = Reader(gguf).Load();
  ReturnFreedMemory();
  return tokenizer;
}

}  // namespace pie
