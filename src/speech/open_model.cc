#include "speech/open_model.h"

#include <system_error>
#include <utility>

#include "model/config.h"
#include "model/gguf.h"
#include "model/limits.h"
#include "model/mapped_file.h"
#include "speech/chat_source.h"
#include "speech/chat_template.h"
#include "speech/tokenizer.h"

namespace pie {
namespace {

namespace fs = std::filesystem;

Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const fs::path& folder, uint32_t vocab_size) {
  const fs::path path = folder / "tokenizer.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return Fail(Code::kNotFound, "{}: the folder has no tokenizer.json", folder.string());
  }
  const MappedFile file = PIE_TRY(MappedFile::Open(path));
  const auto bytes = file.bytes();
  return TokenizerFromJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, vocab_size);
}

// Adds the path to an error of a reader that does not know the file's name.
Error In(const fs::path& path, Error error) {
  if (!error.text.contains(path.string())) error.text = path.string() + ": " + error.text;
  return error;
}

Result<Model> Assemble(const fs::path& path, std::string name,
                       Result<std::unique_ptr<Tokenizer>> tokenizer, auto&& read_chat_source) {
  if (!tokenizer) return std::unexpected(In(path, std::move(tokenizer.error())));
  Model model{.name = std::move(name), .tokenizer = *std::move(tokenizer)};
  const ChatSource source = PIE_TRY(read_chat_source(*model.tokenizer));
  auto chat = ChatTemplate::Make(source, *model.tokenizer);
  if (!chat) return std::unexpected(In(path, std::move(chat.error())));
  model.chat = *std::move(chat);
  return model;
}

}  // namespace

Result<Model> OpenModel(const fs::path& path, std::string name) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const ModelConfig config = PIE_TRY(OpenConfigJson(path / "config.json"));
    return Assemble(path, std::move(name), OpenTokenizer(path, config.vocab_size),
                    [&](const Tokenizer&) { return ReadChatSource(path); });
  }
  const Gguf gguf = PIE_TRY(Gguf::Open(path));
  return Assemble(path, std::move(name), TokenizerFromGguf(gguf),
                  [&](const Tokenizer& tokenizer) -> Result<ChatSource> {
                    return ReadChatSource(gguf, tokenizer);
                  });
}

}  // namespace pie
