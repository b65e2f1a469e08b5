#include "speech/tokenizer.h"

#include <malloc.h>

#include <algorithm>

#include "speech/tokenizer_bridge.h"

namespace pie {
namespace {

class BridgeTokenizer final : public Tokenizer {
 public:
  explicit BridgeTokenizer(pie_bridge::Tokenizer* raw)
      : raw_(raw), table_(pie_bridge::pie_tokenizer_table(raw)) {
    for (size_t i = 0; i < table_.specials; ++i) {
      const pie_bridge::SpecialToken special = pie_bridge::pie_tokenizer_special(raw_, i);
      special_.ids.push_back(special.id);
      special_.bytes.emplace_back(View(special.name));
    }
  }
  ~BridgeTokenizer() override { pie_bridge::pie_tokenizer_free(raw_); }
  BridgeTokenizer(const BridgeTokenizer&) = delete;
  BridgeTokenizer& operator=(const BridgeTokenizer&) = delete;

  uint32_t vocab_size() const override { return static_cast<uint32_t>(table_.ends.len); }

  Result<std::vector<uint32_t>> Encode(std::string_view text) const override {
    return Encode(text, false);
  }
  Result<std::vector<uint32_t>> EncodePlain(std::string_view text) const override {
    return Encode(text, true);
  }

  std::string_view Bytes(uint32_t id) const override {
    const uint32_t begin = id == 0 ? 0 : table_.ends.ptr[id - 1];
    return View(table_.bytes).substr(begin, table_.ends.ptr[id] - begin);
  }
  bool drops_leading_space() const override { return table_.drops_leading_space; }
  bool IsSpecial(uint32_t id) const override {
    return std::ranges::binary_search(special_.ids, id);
  }
  std::optional<uint32_t> Find(std::string_view token) const override {
    uint32_t id = 0;
    if (!pie_bridge::pie_tokenizer_find(raw_, ToStr(token), &id)) return std::nullopt;
    return id;
  }
  const Vocabulary& special_tokens() const override { return special_; }
  std::string_view split_regex() const override { return View(table_.split_regex); }

 private:
  Result<std::vector<uint32_t>> Encode(std::string_view text, bool plain) const {
    BridgeOut out;
    if (!pie_bridge::pie_tokenizer_encode(raw_, ToStr(text), plain, out.get())) {
      return Fail(Code::kInvalid, "{}", out.text());
    }
    return out.words();
  }

  pie_bridge::Tokenizer* raw_;
  pie_bridge::TokenTable table_;  // borrowed from raw_
  Vocabulary special_;
};

}  // namespace

std::unique_ptr<Tokenizer> WrapTokenizer(pie_bridge::Tokenizer* raw) {
  return std::make_unique<BridgeTokenizer>(raw);
}

void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

Result<std::unique_ptr<Tokenizer>> TokenizerFromJson(std::string_view json, uint32_t vocab_size) {
  BridgeOut error;
  auto* raw = pie_bridge::pie_tokenizer_from_json(ToStr(json), vocab_size, error.get());
  ReturnFreedMemory();
  if (raw == nullptr) return Fail(Code::kInvalid, "tokenizer.json: {}", error.text());
  return WrapTokenizer(raw);
}

}  // namespace pie
