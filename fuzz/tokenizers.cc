// The targets `tokenizer` and `vocabulary`: tokenizer.json, and the vocabulary of a GGUF file.
#include "files.h"
#include "model/gguf_test_writer.h"
#include "speech/tokenizer.h"

namespace pie::fuzz {
namespace {

using Json = nlohmann::ordered_json;

// Encodes and decodes with a tokenizer that was accepted. Returns whether it was.
bool Use(const Result<std::unique_ptr<Tokenizer>>& read) {
  if (!read) return false;
  const Tokenizer& tokenizer = **read;
  for (const char* text : {"", "hello world  1234", "<s>\n\xc3\xa9\xe2\x96\x81 \xf0\x9f\x8d\x9e"}) {
    const auto ids = tokenizer.Encode(text);
    (void)tokenizer.EncodePlain(text);
    if (ids) (void)tokenizer.Decode(*ids);
  }
  for (uint32_t id = 0; id < std::min(tokenizer.vocab_size(), 50U); ++id) (void)tokenizer.Bytes(id);
  (void)tokenizer.Find("<s>");
  (void)tokenizer.split_regex();
  return true;
}

Json RandomModel(Dice& dice) {
  Json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"h", 2},  {"e", 3},  {"l", 4},
                     {"o", 5},     {"he", 6},  {"ll", 7}, {"▁h", 8}, {"##e", 9}};
  switch (dice.Below(4)) {
    case 0: {
      Json scored = Json::array();
      for (const auto& [token, id] : vocabulary.items()) {
        scored.push_back(Json::array({token, -1.0 * id.get<double>()}));
      }
      return {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", scored}, {"byte_fallback", false}};
    }
    case 1:
      return {{"type", "WordPiece"},
              {"unk_token", "<unk>"},
              {"continuing_subword_prefix", "##"},
              {"max_input_chars_per_word", 100},
              {"vocab", vocabulary}};
    case 2:
      return {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}};
    default:
      return {{"type", "BPE"},
              {"unk_token", "<unk>"},
              {"fuse_unk", dice.Once(2)},
              {"byte_fallback", dice.Once(2)},
              {"vocab", vocabulary},
              {"merges", dice.Once(2) ? Json({"h e", "l l"}) : Json({{"h", "e"}, {"l", "l"}})}};
  }
}

Json RandomTokenizer(Dice& dice) {
  const Json pre_tokenizers[] = {
      nullptr,
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}},
      {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}},
      {{"type", "Sequence"},
       {"pretokenizers",
        {{{"type", "Split"},
          {"pattern", {{"Regex", "\\p{N}{1,3}|\\s+"}}},
          {"behavior", "Isolated"},
          {"invert", false}},
         {{"type", "Digits"}, {"individual_digits", true}}}}}};
  const Json decoders[] = {
      nullptr,
      {{"type", "ByteLevel"}},
      {{"type", "Metaspace"}, {"replacement", "▁"}},
      {{"type", "Sequence"},
       {"decoders",
        {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
         {{"type", "ByteFallback"}},
         {{"type", "Fuse"}},
         {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}};
  return {{"version", "1.0"},
          {"added_tokens",
           {{{"id", 1 + dice.Below(12)},
             {"content", "<s>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", dice.Once(2)},
             {"special", dice.Once(2)}}}},
          {"normalizer", dice.Once(2) ? Json(nullptr) : Json({{"type", "NFC"}})},
          {"pre_tokenizer", dice.Of(pre_tokenizers)},
          {"post_processor", nullptr},
          {"decoder", dice.Of(decoders)},
          {"model", RandomModel(dice)}};
}

}  // namespace

std::string MakeTokenizer(Dice& dice) {
  Json json = RandomTokenizer(dice);
  if (!dice.Once(6)) DamageJson(json, dice);
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (dice.Once(4)) DamageBytes(text, dice);
  return text;
}

bool ReadTokenizer(const std::string& text) {
  return Use(TokenizerFromJson(text, 20));
}

std::string MakeVocabulary(Dice& dice) {
  GgufTestWriter writer;
  AddVocabulary(writer, dice);
  std::string bytes = writer.Bytes();
  if (!dice.Once(4)) DamageBytes(bytes, dice);
  return bytes;
}

bool ReadVocabulary(const std::string& bytes) {
  const auto gguf = ParseGguf(bytes);
  return gguf && Use(TokenizerFromGguf(*gguf));
}

}  // namespace pie::fuzz
