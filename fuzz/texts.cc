// Targets that read what users and guests write: chat templates, manifests, the config file, and
// the files of saved contexts. The texts that they start from are in fuzz/corpus.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "cli/config.h"
#include "cli/server_config.h"
#include "corpus.h"
#include "files.h"
#include "host/manifest.h"
#include "kv/snapshot_file.h"
#include "memory_file.h"
#include "speech/chat_source.h"
#include "speech/dummy_model.h"
#include "speech/turn.h"

namespace pie::fuzz {
namespace {

std::string Damaged(const std::vector<std::string>& texts, Dice& dice) {
  std::string text = texts[dice.Below(texts.size())];
  const uint64_t rounds = dice.Below(4);
  for (uint64_t i = 0; i < rounds; ++i) DamageBytes(text, dice);
  return text;
}

// A file that holds one snapshot after the other. Snapshots are not read through links, which the
// paths of files in memory are.
const std::string& FileWith(const std::string& bytes) {
  static const std::string path = [] {
    const char* const folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : P_tmpdir;
    std::string pattern = std::string(folder) + "/pie-fuzz-XXXXXX";
    const int fd = mkstemp(pattern.data());
    if (fd >= 0) close(fd);
    static std::string to_remove = pattern;
    std::atexit([] { unlink(to_remove.c_str()); });
    return pattern;
  }();
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace

std::string MakeTemplate(Dice& dice) {
  static const auto texts = Corpus("template");
  return Damaged(texts, dice);
}

bool ReadTemplate(const std::string& text) {
  static const Model model = MakeDummyModel("fuzz");
  const ChatSource source{.text = text, .special_tokens = {{"bos_token", "<s>"}}, .stop_ids = {}};
  const auto chat = ChatTemplate::Make(source, *model.tokenizer, 0);
  if (!chat) return false;
  const Turn turns[] = {MakeTurn(TurnKind::User, "hello <|im_end|>"), MakeTurn(TurnKind::Cue)};
  (void)(*chat)->Extend({}, turns);
  return (*chat)
      ->Render(R"({"messages": [{"role": "user", "content": "hi"}], "cue": true})")
      .has_value();
}

std::string MakeManifest(Dice& dice) {
  static const auto texts = Corpus("manifest");
  return Damaged(texts, dice);
}

bool ReadTheManifest(const std::string& text) {
  const auto manifest = host::ParseManifest(text, "Pie.toml");
  if (!manifest) return false;
  (void)manifest->Warnings({{"prompt", "a"}, {"max_tokens", 3}, {"x", 1.5}});
  return true;
}

std::string MakeSettings(Dice& dice) {
  static const auto texts = Corpus("settings");
  return Damaged(texts, dice);
}

bool ReadSettings(const std::string& text) {
  const MemoryFile file(text);
  const bool engine = cli::ReadConfig(file.path()).has_value();
  return cli::ReadServerConfig(file.path()).has_value() && engine;
}

// Most snapshots have numbers that contradict each other and checksums that are right, because
// checksums find every other damage.
std::string MakeSnapshot(Dice& dice) {
  const uint32_t page_tokens = 1 + static_cast<uint32_t>(dice.Below(8));
  const auto tokens = static_cast<uint32_t>(dice.Below(40));
  SnapshotInfo info{.user = "ada", .model = "m", .name = "n", .fingerprint = "f", .layout = "l"};
  info.page_bytes = 8 * (1 + dice.Below(4));
  info.page_tokens = page_tokens;
  info.committed_pages = tokens / page_tokens;
  info.working_pages = 1;
  info.working_tokens = tokens % page_tokens;
  Rows rows;
  for (uint32_t i = 0; i < tokens; ++i) {
    rows.tokens.push_back(i);
    rows.positions.push_back(i);
    if (tokens % 3 == 0) rows.masks.push_back({0, i + 1});
  }
  if (dice.Once(3)) {
    info.adapters.push_back({.name = "a", .digest = "d", .version = 1});
    for (uint32_t i = 0; i < tokens; ++i) rows.adapters.push_back({.version = dice.Below(2)});
  }
  const auto pages = (tokens + page_tokens - 1) / page_tokens;
  const size_t page_bytes = info.page_bytes;
  if (dice.Once(3)) info.page_bytes = dice.Extreme(page_bytes);
  if (dice.Once(3)) info.page_tokens = static_cast<uint32_t>(dice.Extreme(page_tokens));
  if (dice.Once(4)) info.committed_pages = static_cast<uint32_t>(dice.Extreme(pages));
  if (dice.Once(4)) info.working_tokens = static_cast<uint32_t>(dice.Extreme(tokens));
  const auto head = SnapshotHead(info, rows.view());
  std::string bytes(reinterpret_cast<const char*>(head.data()), head.size());
  for (uint32_t page = 0; page < pages; ++page) {
    const std::vector<std::byte> content(page_bytes, std::byte{7});
    PageChecksum checksum(page);
    checksum.Add(content);
    const uint64_t sum = checksum.Sum();
    bytes.append(page_bytes, '\7');
    bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  }
  if (dice.Once(2)) DamageBytes(bytes, dice);
  return bytes;
}

bool ReadSnapshot(const std::string& bytes) {
  const auto file = SnapshotFile::Open(FileWith(bytes));
  if (!file) return false;
  bool whole = true;
  for (uint32_t page = 0; page < (*file)->pages(); ++page) {
    whole &= (*file)->Page(page).has_value();
  }
  return whole;
}

}  // namespace pie::fuzz
