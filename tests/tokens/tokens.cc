// pie-tokens: tokenizes texts with a model's tokenizer, for tests/tokens.
//
//   pie-tokens FILE < texts.jsonl      FILE: a .gguf, or a tokenizer.json
//
// Each line of input is a JSON string and is answered with one line:
//   {"ids": […], "plain": […], "text": decoded at once without special tokens, "streamed": decoded
//   token by token}
// or {"error": …}. The first line of output describes the vocabulary.
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "speech/text_pieces.h"
#include "speech/tokenizer.h"

namespace {

using nlohmann::json;

pie::Result<std::unique_ptr<pie::Tokenizer>> Load(const std::string& path) {
  if (path.ends_with(".gguf")) {
    auto gguf = pie::Gguf::Open(path);
    if (!gguf) return std::unexpected(gguf.error());
    return pie::TokenizerFromGguf(*gguf);
  }
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  return pie::TokenizerFromJson(content);
}

json About(const pie::Tokenizer& tokenizer) {
  json special = json::object();
  const auto& tokens = tokenizer.special_tokens();
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    special[std::to_string(tokens.ids[i])] = tokens.bytes[i];
  }
  return {{"vocab_size", tokenizer.vocab_size()},
          {"split_regex", std::string(tokenizer.split_regex())},
          {"special", special}};
}

std::string Streamed(const pie::Tokenizer& tokenizer, const std::vector<uint32_t>& ids) {
  std::string text;
  std::string partial;
  pie::TextPieces bytes(tokenizer);
  for (uint32_t id : ids) {
    partial += bytes.Next(id);
    partial.erase(0, pie::AppendWholeCharacters(partial, text));
  }
  return text + pie::ToValidUtf8(partial);
}

json Encoded(const pie::Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.Encode(text);
  if (!ids) return {{"error", ids.error().text}};
  const auto plain = tokenizer.EncodePlain(text);
  if (!plain) return {{"error", plain.error().text}};
  std::vector<uint32_t> visible = *ids;
  std::erase_if(visible, [&](uint32_t id) { return tokenizer.IsSpecial(id); });
  const auto back = tokenizer.Decode(visible);
  if (!back) return {{"error", back.error().text}};
  return {
      {"ids", *ids}, {"plain", *plain}, {"text", *back}, {"streamed", Streamed(tokenizer, *ids)}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: pie-tokens FILE < texts.jsonl\n";
    return 2;
  }
  const auto tokenizer = Load(argv[1]);
  if (!tokenizer) {
    std::cerr << tokenizer.error().text << "\n";
    return 1;
  }
  std::cout << About(**tokenizer).dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
  for (std::string line; std::getline(std::cin, line);) {
    const json answer = Encoded(**tokenizer, json::parse(line).get<std::string>());
    std::cout << answer.dump() << "\n";
  }
  return 0;
}
