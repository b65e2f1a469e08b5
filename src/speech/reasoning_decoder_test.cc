#include "speech/reasoning_decoder.h"

#include <gtest/gtest.h>

#include "model/dummy_vocab.h"
#include "speech/chat_source.h"
#include "speech/dummy_model.h"

namespace pie {
namespace {

using Tokens = std::vector<uint32_t>;

// Text as the dummy's tokens, with its special tokens by name.
Tokens ToTokens(std::string_view text) {
  Tokens tokens;
  while (!text.empty()) {
    uint32_t special = 0;
    for (uint32_t id = dummy::kBos; id < dummy::kVocabSize; ++id) {
      if (text.starts_with(dummy::kSpecialNames[id - dummy::kByteTokens])) special = id;
    }
    tokens.push_back(special != 0 ? special : static_cast<uint8_t>(text[0]));
    text.remove_prefix(special != 0 ? dummy::kSpecialNames[special - dummy::kByteTokens].size()
                                    : 1);
  }
  return tokens;
}

class ReasoningDecoderTest : public testing::Test {
 protected:
  // "*" for a start, "+text" for a delta, "=text" for the end.
  std::string Feed(std::string_view text) { return Feed(ToTokens(text)); }
  std::string Feed(const Tokens& tokens) {
    const auto event = decoder_.Feed(tokens);
    if (!event) return "?" + event.error().text;
    if (const auto* delta = std::get_if<ReasoningDecoder::Delta>(&*event)) return "+" + delta->text;
    if (const auto* done = std::get_if<ReasoningDecoder::Complete>(&*event)) {
      return "=" + done->text;
    }
    return "*";
  }

  void Use(std::string_view source) {
    const ChatSource chat{std::string(source), {}, {dummy::kEos}};
    model_.chat = *ChatTemplate::Make(chat, *model_.tokenizer);
    decoder_ = ReasoningDecoder(model_);
  }

  Model model_ = MakeDummyModel("dummy");
  ReasoningDecoder decoder_{model_};
};

TEST_F(ReasoningDecoderTest, FollowsTheMarks) {
  EXPECT_EQ(Feed("before <th"), "+");
  EXPECT_EQ(Feed("ink>\nfirst"), "*");
  EXPECT_EQ(Feed(" second"), "+first second");
  EXPECT_EQ(Feed(" \n</thi"), "+");  // perhaps the end
  EXPECT_EQ(Feed("s> third"), "+ \n</this> third");
  EXPECT_EQ(Feed("\n</think>\n\nanswer"), "=first second \n</this> third");
  EXPECT_EQ(Feed(" goes on<|im_end|>"), "+");
}

TEST_F(ReasoningDecoderTest, AllAtOnce) {
  EXPECT_EQ(Feed("<think>\nwhy\n</think>so<|im_end|>"), "=why");
  EXPECT_EQ(Feed("<think></think>"), "=");
  EXPECT_EQ(Feed("<think>again</think>"), "=again");
}

TEST_F(ReasoningDecoderTest, GivesWholeCharactersOnly) {
  EXPECT_EQ(Feed("<think>"), "*");
  EXPECT_EQ(Feed(Tokens{0xE2, 0x82}), "+");
  EXPECT_EQ(Feed(Tokens{0xAC, 'x'}), "+€x");
}

TEST_F(ReasoningDecoderTest, AStopEndsThoughtsAndTheTurn) {
  EXPECT_EQ(Feed("<think>half"), "*");
  EXPECT_EQ(Feed("<|im_end|>ignored"), "=half");
  EXPECT_EQ(Feed("no marks"), "+");
  decoder_.Reset();
  EXPECT_EQ(Feed("<think>new"), "*");
  EXPECT_EQ(Feed(Tokens{400}), "?token 400 is outside the vocabulary of 262 tokens");
  EXPECT_EQ(Feed("</think>"), "=new");
}

TEST_F(ReasoningDecoderTest, BeginsInsideWhereTheCueOpensIt) {
  Use("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}");
  EXPECT_EQ(Feed("so"), "*");
  EXPECT_EQ(Feed(" on"), "+so on");
  EXPECT_EQ(Feed("</think>x"), "=so on");
  EXPECT_EQ(Feed("x"), "+");
  decoder_.Reset();
  EXPECT_EQ(Feed("a</think>"), "=a");
}

TEST_F(ReasoningDecoderTest, MarksMayBeSpecialTokens) {
  Use("{% for m in messages %}<|im_start|>{{ m.role }}"
      "{% if m.thinking %}<|bos|>analysis<|unk|>{{ m.thinking }}<|pad|><|im_start|>{{ m.role }}{% "
      "endif %}"
      "<|bos|>final<|unk|>{{ m.content }}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}");
  ASSERT_EQ(model_.chat->reasoning()->open, "<|bos|>analysis<|unk|>");
  ASSERT_EQ(model_.chat->reasoning()->close, "<|pad|>");
  EXPECT_EQ(Feed("<|bos|>analysis"), "+");
  EXPECT_EQ(Feed("<|unk|>think"), "*");
  EXPECT_EQ(Feed("ing<|pad|><|im_start|>assistant<|bos|>final<|unk|>yes"), "=thinking");
  EXPECT_EQ(Feed(" no"), "+");
}

TEST_F(ReasoningDecoderTest, AModelWithoutAFormatHasNone) {
  Use("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  ASSERT_FALSE(model_.chat->reasoning());
  EXPECT_EQ(Feed("<think>a</think><|im_end|>"), "+");
}

}  // namespace
}  // namespace pie
