#include "speech/chat_decoder.h"

#include <gtest/gtest.h>

#include "model/dummy_vocab.h"
#include "speech/dummy_model.h"

namespace pie {
namespace {

using Tokens = std::vector<uint32_t>;

class ChatDecoderTest : public testing::Test {
 protected:
  // "+text" for a delta, "!id" for an interrupt, "=text" for done, "?text" for an error.
  std::string Feed(const Tokens& tokens) {
    const auto event = decoder_.Feed(tokens);
    if (!event) return "?" + event.error().text;
    if (const auto* delta = std::get_if<ChatDecoder::Delta>(&*event)) return "+" + delta->text;
    if (const auto* interrupt = std::get_if<ChatDecoder::Interrupt>(&*event)) {
      return "!" + std::to_string(interrupt->token);
    }
    return "=" + std::get<ChatDecoder::Done>(*event).text;
  }

  const Model model_ = MakeDummyModel("dummy");
  ChatDecoder decoder_{model_};
};

TEST_F(ChatDecoderTest, GivesTextAsItComesAndAllOfItAtTheEnd) {
  EXPECT_EQ(Feed({'h', 'e'}), "+he");
  EXPECT_EQ(Feed({}), "+");
  EXPECT_EQ(Feed({'y'}), "+y");
  EXPECT_EQ(Feed({dummy::kImEnd}), "=hey");
}

TEST_F(ChatDecoderTest, HoldsUnfinishedCharactersBack) {
  EXPECT_EQ(Feed({'a', 0xE2}), "+a");
  EXPECT_EQ(Feed({0x82}), "+");
  EXPECT_EQ(Feed({0xAC, 'b'}), "+€b");
  EXPECT_EQ(Feed({0xE2, 0x82}), "+");
  EXPECT_EQ(Feed({dummy::kEos}), "=a€b\xEF\xBF\xBD");
}

TEST_F(ChatDecoderTest, IgnoresWhatFollowsAStop) {
  EXPECT_EQ(Feed({'a', dummy::kImEnd, 'b', dummy::kBos}), "=a");
  EXPECT_EQ(Feed({'c'}), "+c");  // the next turn
  EXPECT_EQ(Feed({dummy::kImEnd}), "=c");
}

TEST_F(ChatDecoderTest, InterruptsKeepTheTextAround) {
  EXPECT_EQ(Feed({'a', dummy::kPad, 'b', dummy::kUnk}), "!260");
  EXPECT_EQ(Feed({'c'}), "+abc");
  EXPECT_EQ(Feed({dummy::kPad, 'd', dummy::kImEnd}), "=abcd");
}

TEST_F(ChatDecoderTest, RefusesUnknownTokensWithoutATrace) {
  EXPECT_EQ(Feed({'a', 0xC3}), "+a");
  EXPECT_EQ(Feed({0xA9, 400}), "?token 400 is outside the vocabulary of 262 tokens");
  EXPECT_EQ(Feed({0xA9}), "+é");
}

TEST_F(ChatDecoderTest, ResetForgets) {
  EXPECT_EQ(Feed({'a', 0xC3, dummy::kBos}), "!256");
  decoder_.Reset();
  EXPECT_EQ(Feed({'b'}), "+b");
  EXPECT_EQ(Feed({dummy::kImEnd}), "=b");
}

}  // namespace
}  // namespace pie
