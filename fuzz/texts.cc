// Targets that read what users and guests write: chat templates, manifests, the config file, and
// the files of saved contexts.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "cli/config.h"
#include "files.h"
#include "host/manifest.h"
#include "kv/snapshot_file.h"
#include "speech/chat_source.h"
#include "speech/dummy_model.h"
#include "speech/turn.h"

namespace pie::fuzz {
namespace {

constexpr std::string_view kTemplates[] = {
    R"({% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})",
    R"({%- if tools %}{{ tools | tojson(indent=2) }}{% endif -%}{% set ns = namespace(first=true) %}{% for m in messages %}{% if m.role == 'system' and ns.first %}{{ m.content | trim }}{% set ns.first = false %}{% elif m.role != 'user' %}{{ raise_exception('no') }}{% else %}[{{ loop.index0 }}] {{ m.content }}{% endif %}{% endfor %})",
    R"({% macro turn(role, text) %}<{{ role }}>{{ text | upper | replace('A', 'B') }}</{{ role }}>{% endmacro %}{% for m in messages[::-1] %}{{ turn(m['role'], m['content'][1:-1]) }}{% endfor %}{{ range(10) | join(',') }})",
    R"({% for a in range(9) %}{% for b in range(9) %}{{ a ~ b * 2 - 1 % 3 }}{% endfor %}{% endfor %}{% if x is defined and y is not none %}{{ strftime_now('%Y') }}{% endif %})",
};

constexpr std::string_view kManifests[] = {
    "[package]\nname = \"text-completion\"\nversion = \"0.1.0\"\ndescription = \"a\"\n"
    "[parameters]\nprompt = { type = \"string\", description = \"b\" }\n"
    "max_tokens = { type = \"int\", optional = true }\n[runtime]\ncore = \"^0.2.0\"\n",
    "package = { name = 'a', version = \"1.2.3-rc.1+build\" }\nparameters.x.type = \"float\"\n"
    "parameters.\"y z\" = { type = \"bool\", optional = false }\n",
};

constexpr std::string_view kConfigs[] = {
    "[runtime]\nworker_threads = 2\nwasm_max_instances = 10\ncpu_budget_ms = 1_000\n"
    "allow_fs = true\nprefix_cache_scope = \"engine\"\n[runtime.http]\nallow = [\"a.example\"]\n"
    "[[model]]\nname = \"a\"\nhf_repo = \"b\"\n[model.driver]\ntype = \"dummy\"\n"
    "[model.driver.options]\nkv_page_size = 16\n",
    "[model.default]\nhf_repo = \"x\"\n[model.default.driver]\nrandom_seed = 1\ntype = \"cpu\"\n"
    "[server]\nhost = \"::1\"\nport = 8080\n[auth]\nenabled = false\n",
};

template <size_t kSize>
std::string Damaged(const std::string_view (&texts)[kSize], Dice& dice) {
  std::string text(dice.Of(texts));
  const uint64_t rounds = dice.Below(4);
  for (uint64_t i = 0; i < rounds; ++i) DamageBytes(text, dice);
  return text;
}

// A file that holds one input after the other.
const std::string& FileWith(const std::string& bytes) {
  static const std::string path = [] {
    std::string pattern = std::string(P_tmpdir) + "/pie-fuzz-XXXXXX";
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
  return Damaged(kTemplates, dice);
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
  return Damaged(kManifests, dice);
}

bool ReadTheManifest(const std::string& text) {
  const auto manifest = host::ParseManifest(text, "Pie.toml");
  if (!manifest) return false;
  (void)manifest->Warnings({{"prompt", "a"}, {"max_tokens", 3}, {"x", 1.5}});
  return true;
}

std::string MakeSettings(Dice& dice) {
  return Damaged(kConfigs, dice);
}

bool ReadSettings(const std::string& text) {
  return cli::ReadConfig(FileWith(text)).has_value();
}

// Numbers that do not fit have a checksum that does, because damage alone is found by it.
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
    const uint64_t sum = PageChecksum(page, content);
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
