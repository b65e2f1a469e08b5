#include "speech/tokenizer.h"

#include <gtest/gtest.h>

#include "model/gguf_test_writer.h"
#include "speech/chat_decoder.h"
#include "speech/chat_source.h"
#include "speech/model.h"

namespace pie {
namespace {

using Tokens = std::vector<uint32_t>;

// SentencePiece: ids 3 to 258 are bytes, then come a few words.
struct SmallVocabulary {
  SmallVocabulary() {
    Add("<unk>", 2, 0);
    Add("<s>", 3, 0);
    Add("</s>", 3, 0);
    for (int byte = 0; byte < 256; ++byte) Add(fmt::format("<0x{:02X}>", byte), 6, 0);
    for (const char* token : {"▁the", "▁t", "he", "▁", "t", "h", "e"}) {
      Add(token, 1, -static_cast<float>(tokens.size()));
    }
  }
  void Add(std::string token, int32_t type, float score) {
    tokens.push_back(std::move(token));
    types.push_back(type);
    scores.push_back(score);
  }
  GgufTestWriter Writer() const {
    GgufTestWriter writer;
    writer.Add("tokenizer.ggml.model", std::string("llama"));
    writer.AddArray("tokenizer.ggml.tokens", tokens);
    writer.AddArray("tokenizer.ggml.token_type", types);
    writer.AddArray("tokenizer.ggml.scores", scores);
    return writer;
  }

  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
};

constexpr uint32_t kThe = 259;
constexpr uint32_t kByte = 3;

Result<std::unique_ptr<Tokenizer>> Load(const GgufTestWriter& writer) {
  const std::string bytes = writer.Bytes();
  auto gguf = ParseGguf(bytes);
  if (!gguf) return std::unexpected(gguf.error());
  return TokenizerFromGguf(*gguf);
}

std::string ErrorOf(const GgufTestWriter& writer) {
  const auto tokenizer = Load(writer);
  return tokenizer ? "it loads" : tokenizer.error().text;
}

TEST(TokenizerTest, GgufVocabularyEncodesAndDecodes) {
  const auto tokenizer = *Load(SmallVocabulary().Writer());
  EXPECT_EQ(tokenizer->vocab_size(), 266U);
  EXPECT_EQ(*tokenizer->Encode("the the"), (Tokens{kThe, kThe}));
  EXPECT_EQ(*tokenizer->Encode("the€"), (Tokens{kThe, kByte + 0xE2, kByte + 0x82, kByte + 0xAC}));
  EXPECT_EQ(*tokenizer->Decode(Tokens{kThe, kThe, kByte + 0xE2}), "the the\xEF\xBF\xBD");
  EXPECT_EQ(*tokenizer->Encode("<s>the"), (Tokens{1, kThe}));
  EXPECT_EQ(*tokenizer->Decode(*tokenizer->EncodePlain("<s>the")), "<s>the");
  EXPECT_EQ(*tokenizer->Decode(Tokens{1, kThe, 2}), "<s>the</s>");
  EXPECT_EQ(tokenizer->Decode(Tokens{266}).error().text,
            "token 266 is outside the vocabulary of 266 tokens");
}

TEST(TokenizerTest, TellsOfItsTokens) {
  const auto tokenizer = *Load(SmallVocabulary().Writer());
  EXPECT_EQ(tokenizer->Bytes(kThe), " the");
  EXPECT_EQ(tokenizer->Bytes(kByte + 'a'), "a");
  EXPECT_EQ(tokenizer->Bytes(1), "");
  EXPECT_TRUE(tokenizer->drops_leading_space());
  EXPECT_TRUE(tokenizer->IsSpecial(0) && tokenizer->IsSpecial(2));
  EXPECT_FALSE(tokenizer->IsSpecial(3));
  EXPECT_EQ(tokenizer->special_tokens().ids, (Tokens{0, 1, 2}));
  EXPECT_EQ(tokenizer->special_tokens().bytes[1], "<s>");
  EXPECT_EQ(tokenizer->Find("</s>"), 2U);
  EXPECT_EQ(tokenizer->Find("▁the"), kThe);
  EXPECT_EQ(tokenizer->Find("the"), std::nullopt);
  EXPECT_EQ(tokenizer->split_regex(), "");
}

TEST(TokenizerTest, ATurnDecodedTokenByTokenIsTheTurnDecodedAtOnce) {
  Model model{"small", *Load(SmallVocabulary().Writer()), nullptr};
  model.chat = *ChatTemplate::Make(ChatSource{.text = "", .special_tokens = {}, .stop_ids = {2}},
                                   *model.tokenizer);
  ChatDecoder decoder(model);
  for (const std::string text : {"the the", " the", "€the", "  €", ""}) {
    const Tokens tokens = *model.tokenizer->Encode(text);
    ASSERT_EQ(*model.tokenizer->Decode(tokens), text);
    std::string streamed;
    for (uint32_t token : tokens) {
      streamed += std::get<ChatDecoder::Delta>(*decoder.Feed(Tokens{token})).text;
    }
    EXPECT_EQ(streamed, text);
    EXPECT_EQ(std::get<ChatDecoder::Done>(*decoder.Feed(Tokens{2})).text, text);
  }
}

TEST(TokenizerTest, AFileWithoutATokenizerSaysSo) {
  GgufTestWriter writer;
  writer.Add("general.architecture", std::string("llama"));
  EXPECT_TRUE(ErrorOf(writer).starts_with("test.gguf has no tokenizer (tokenizer.ggml.model"));
}

TEST(TokenizerTest, ValuesOfTheWrongKindAreNamed) {
  const auto with = [](auto add) {
    GgufTestWriter writer = SmallVocabulary().Writer();
    add(writer);
    return ErrorOf(writer);
  };
  EXPECT_EQ(
      with([](auto& w) { w.Add("tokenizer.ggml.bos_token_id", std::string("x")); }),
      "the vocabulary of test.gguf: tokenizer.ggml.bos_token_id is not a token: it is damaged");
  EXPECT_EQ(
      with([](auto& w) { w.Add("tokenizer.ggml.add_space_prefix", uint32_t{1}); }),
      "the vocabulary of test.gguf: tokenizer.ggml.add_space_prefix is not true or false: it is "
      "damaged");
  EXPECT_EQ(
      with([](auto& w) { w.AddArray("tokenizer.ggml.merges", std::vector<float>{1}); }),
      "the vocabulary of test.gguf: tokenizer.ggml.merges is not a list of texts: it is damaged");
  EXPECT_EQ(with([](auto& w) { w.Add("tokenizer.ggml.bos_token_id", uint32_t{0xFFFFFFFF}); }),
            "it loads");
}

TEST(TokenizerTest, WhatIsNotKnownIsNamedWithWhatIs) {
  GgufTestWriter writer;
  writer.Add("tokenizer.ggml.model", std::string("gpt2"));
  writer.Add("tokenizer.ggml.pre", std::string("martian"));
  writer.AddArray("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab"});
  writer.AddArray("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  const std::string error = ErrorOf(writer);
  EXPECT_TRUE(error.contains("its pre-tokenizer \"martian\" is not known; known are")) << error;
}

TEST(TokenizerTest, NoDamagedVocabularyDoesWorseThanFail) {
  SmallVocabulary small;
  small.tokens.resize(40);
  small.types.resize(40);
  small.scores.resize(40);
  const std::string bytes = small.Writer().Bytes();
  size_t loaded = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int flip : {0x01, 0x80, 0xFF}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const auto gguf = ParseGguf(damaged);
      if (!gguf) continue;
      const auto tokenizer = TokenizerFromGguf(*gguf);
      if (!tokenizer) continue;
      ++loaded;
      const auto tokens = (*tokenizer)->Encode("the <s> €");
      EXPECT_TRUE(!tokens || (*tokenizer)->Decode(*tokens));
    }
  }
  EXPECT_GT(loaded, 0U);
}

constexpr std::string_view kJson = R"({
  "added_tokens": [{"id": 5, "content": "<end>", "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true}],
  "normalizer": null, "post_processor": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4},
            "merges": ["a b", "Ġ ab"]}})";

TEST(TokenizerTest, TokenizerJsonEncodesAndDecodes) {
  const auto tokenizer = *TokenizerFromJson(kJson);
  EXPECT_EQ(tokenizer->vocab_size(), 6U);
  EXPECT_EQ(*tokenizer->Encode("ab ab<end>"), (Tokens{3, 4, 5}));
  EXPECT_EQ(*tokenizer->Decode(Tokens{4, 3, 5}), " abab<end>");
  EXPECT_FALSE(tokenizer->drops_leading_space());
  EXPECT_TRUE(tokenizer->split_regex().starts_with("'s|'t"));
}

TEST(TokenizerTest, TheModelMayHaveMoreTokensThanTheFile) {
  const auto tokenizer = *TokenizerFromJson(kJson, 8);
  EXPECT_EQ(tokenizer->vocab_size(), 8U);
  EXPECT_EQ(tokenizer->Bytes(7), "");
  EXPECT_EQ(*tokenizer->Decode(Tokens{7, 3}), "ab");
}

TEST(TokenizerTest, NoTruncatedJsonDoesWorseThanFail) {
  for (size_t length = 0; length < kJson.size(); ++length) {
    const auto tokenizer = TokenizerFromJson(kJson.substr(0, length));
    ASSERT_FALSE(tokenizer) << length;
    EXPECT_TRUE(tokenizer.error().text.starts_with("tokenizer.json: it cannot be read"));
  }
}

TEST(TokenizerTest, TextThatIsNoUtf8IsMendedFirst) {
  const auto tokenizer = *Load(SmallVocabulary().Writer());
  EXPECT_EQ(*tokenizer->Encode("the\xFF"), *tokenizer->Encode("the\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace pie
