#include "speech/chat_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace pie {
namespace {

namespace fs = std::filesystem;

class ChatSourceTest : public testing::Test {
 protected:
  ChatSourceTest() { fs::create_directories(dir_); }
  ~ChatSourceTest() override { fs::remove_all(dir_); }
  void Write(const char* name, std::string_view text) { std::ofstream(dir_ / name) << text; }

  const fs::path dir_ = fs::path(testing::TempDir()) / fmt::format("pie-chat-{}", getpid());
};

TEST_F(ChatSourceTest, NothingIsNeeded) {
  const auto source = ReadChatSource(dir_);
  ASSERT_TRUE(source) << source.error().text;
  EXPECT_EQ(source->text, "");
  EXPECT_TRUE(source->special_tokens.empty());
  EXPECT_TRUE(source->stop_ids.empty());
}

TEST_F(ChatSourceTest, FolderOfAModel) {
  Write("tokenizer_config.json", R"({"chat_template": "{{ messages }}", "bos_token": "<s>",
    "eos_token": {"content": "</s>", "special": true}, "pad_token": null})");
  Write("generation_config.json", R"({"eos_token_id": [7, 9, 7]})");
  Write("config.json", R"({"eos_token_id": 3})");
  const auto source = ReadChatSource(dir_);
  ASSERT_TRUE(source) << source.error().text;
  EXPECT_EQ(source->text, "{{ messages }}");
  const std::map<std::string, std::string> tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  EXPECT_EQ(source->special_tokens, tokens);
  EXPECT_EQ(source->stop_ids, (std::vector<uint32_t>{7, 9}));
}

TEST_F(ChatSourceTest, TemplateInAFileOfItsOwnOrAmongOthers) {
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"},
    {"name": "default", "template": "d"}]})");
  Write("config.json", R"({"eos_token_id": 3})");
  EXPECT_EQ(ReadChatSource(dir_)->text, "d");
  EXPECT_EQ(ReadChatSource(dir_)->stop_ids, std::vector<uint32_t>{3});
  Write("chat_template.jinja", "own");
  EXPECT_EQ(ReadChatSource(dir_)->text, "own");
}

TEST_F(ChatSourceTest, OddValuesAreNoFaultBrokenFilesAre) {
  Write("tokenizer_config.json", R"({"chat_template": 3, "bos_token": 4, "eos_token": [1]})");
  Write("generation_config.json", R"({"eos_token_id": [-1, "x", 99999999999, 1.5]})");
  const auto source = ReadChatSource(dir_);
  ASSERT_TRUE(source) << source.error().text;
  EXPECT_EQ(source->text, "");
  EXPECT_TRUE(source->stop_ids.empty());
  Write("tokenizer_config.json", "{");
  const auto broken = ReadChatSource(dir_);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().text.find("tokenizer_config.json"), std::string::npos);
}

}  // namespace
}  // namespace pie
