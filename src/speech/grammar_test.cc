#include "speech/grammar.h"

#include <gtest/gtest.h>

#include "model/dummy_vocab.h"
#include "speech/dummy_model.h"

namespace pie {
namespace {

using Tokens = std::vector<uint32_t>;

Tokens Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()),
          reinterpret_cast<const uint8_t*>(text.data()) + text.size()};
}

class GrammarTest : public testing::Test {
 protected:
  Result<Matcher> Begin(const Result<Grammar>& grammar) {
    if (!grammar) return std::unexpected(grammar.error());
    return Matcher::Make(vocabulary_, *grammar);
  }
  std::string ErrorOf(const Result<Grammar>& grammar) {
    const auto matcher = Begin(grammar);
    return matcher ? "it compiles" : matcher.error().text;
  }

  Model model_ = MakeDummyModel("dummy");
  GrammarVocabulary vocabulary_{model_};
};

TEST_F(GrammarTest, ADocumentIsWrittenTokenByToken) {
  const auto grammar = Grammar::FromJsonSchema(
      R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
          "additionalProperties": false})");
  Matcher matcher = *Begin(grammar);
  EXPECT_EQ(*matcher.MaskRuns(), (Tokens{'{', 1}));
  EXPECT_EQ(matcher.ForcedTokens(), (Tokens{'{'}));
  ASSERT_TRUE(matcher.Accept(Bytes("{\"a\":1")));
  EXPECT_FALSE(matcher.is_terminated());
  const auto refused = matcher.Accept(Bytes("x"));
  EXPECT_EQ(refused.error().text, "matcher: token 120 does not fit the grammar (position 6)");
  ASSERT_TRUE(matcher.Accept(Bytes("}")));
  EXPECT_TRUE(matcher.is_terminated());
  EXPECT_EQ(*matcher.MaskRuns(), (Tokens{dummy::kEos, 1, 1, 1}));  // <|eos|> and <|im_end|>
  EXPECT_TRUE(matcher.Accept(Tokens{dummy::kImEnd}));
}

TEST_F(GrammarTest, MasksAreBitsToo) {
  Matcher matcher = *Begin(Grammar::FromRegex("[ac]"));
  const Tokens bits = *matcher.MaskBits();
  EXPECT_EQ(bits.size(), (dummy::kVocabSize + 31) / 32);
  EXPECT_EQ(bits[3], 1U << 1 | 1U << 3);
}

TEST_F(GrammarTest, ForksAndRollbacks) {
  Matcher matcher = *Begin(Grammar::FromEbnf("root ::= \"ab\" | \"ac\" \"d\"*"));
  ASSERT_TRUE(matcher.Accept(Bytes("a")));
  Matcher fork = *matcher.Fork();
  ASSERT_TRUE(matcher.Accept(Bytes("b")));
  EXPECT_TRUE(matcher.is_terminated());
  ASSERT_TRUE(fork.Accept(Bytes("cdd")));
  ASSERT_TRUE(fork.Rollback(3));
  EXPECT_FALSE(fork.Rollback(2));
  ASSERT_TRUE(fork.Accept(Bytes("b")));
  matcher.Reset();
  EXPECT_EQ(*matcher.MaskRuns(), (Tokens{'a', 1}));
}

TEST_F(GrammarTest, ACompiledGrammarGivesAMatcherAtOnce) {
  const auto grammar = Grammar::FromRegex("at once");
  EXPECT_FALSE(Matcher::OfCompiled(vocabulary_, *grammar));
  ASSERT_TRUE(vocabulary_.Compile(*grammar));
  EXPECT_EQ(Matcher::OfCompiled(vocabulary_, *grammar)->MaskRuns(), (Tokens{'a', 1}));
}

TEST_F(GrammarTest, SourcesAreKept) {
  EXPECT_EQ(Grammar::FromRegex("a+")->source(), "a+");
  EXPECT_EQ(Grammar::Json()->source(), "");
}

TEST_F(GrammarTest, ErrorsTellThePlace) {
  EXPECT_EQ(ErrorOf(Grammar::FromJsonSchema(R"({"items": {"contains": {}}})")),
            "grammar: /items/contains: the keyword `contains` is not enforced");
  EXPECT_EQ(ErrorOf(Grammar::FromEbnf("root ::= a")),
            "grammar: line 1, column 10: the rule `a` is not defined");
  EXPECT_TRUE(ErrorOf(Grammar::FromRegex("ab("))
                  .starts_with("grammar: line 1, column 3: the regular expression"))
      << ErrorOf(Grammar::FromRegex("ab("));
  EXPECT_TRUE(ErrorOf(Grammar::FromJsonSchema("{")).contains("not JSON"));
}

}  // namespace
}  // namespace pie
