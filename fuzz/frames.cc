// The target `frame`: what a client sends to the server, before it is authenticated.
#include "files.h"
#include "server/codec.h"

namespace pie::fuzz {
namespace {

using Json = nlohmann::ordered_json;

// A message of some type with random fields of all messages. Most are valid for some type.
Json RandomMessage(Dice& dice) {
  const std::vector<uint8_t> bytes(dice.Below(300), 7);
  Json message = {{"type", server::kMessageTypes[dice.Below(server::kMessageTypes.size())].tag}};
  const std::pair<const char*, Json> fields[] = {{"corr_id", 1},
                                                 {"username", "ada"},
                                                 {"signature", "AAAA"},
                                                 {"token", "t"},
                                                 {"name", "a"},
                                                 {"version", "0.1.0"},
                                                 {"wasm_hash", nullptr},
                                                 {"subject", "model_status"},
                                                 {"record", ""},
                                                 {"manifest", "[package]"},
                                                 {"force_overwrite", true},
                                                 {"program_hash", std::string(64, 'a')},
                                                 {"file_hash", std::string(64, 'b')},
                                                 {"chunk_index", dice.Extreme()},
                                                 {"total_chunks", dice.Below(4)},
                                                 {"chunk_data", Json::binary(bytes)},
                                                 {"inferlet", "a@0.1.0"},
                                                 {"input", std::string(dice.Below(200), 'x')},
                                                 {"capture_outputs", true},
                                                 {"token_budget", dice.Extreme()},
                                                 {"seen", dice.Below(9)},
                                                 {"port", 80},
                                                 {"process_id", "p"},
                                                 {"message", "m"},
                                                 {"transport", "stdio"},
                                                 {"args", {"-y", "server"}},
                                                 {"ok", true},
                                                 {"result", "{}"}};
  for (const auto& [key, value] : fields) {
    if (!dice.Once(12)) message[key] = value;
  }
  return message;
}

}  // namespace

std::string MakeFrame(Dice& dice) {
  Json message = RandomMessage(dice);
  if (dice.Once(2)) DamageJson(message, dice);
  const std::vector<uint8_t> packed = Json::to_msgpack(message);
  std::string frame(packed.begin(), packed.end());
  if (!dice.Once(3)) DamageBytes(frame, dice);
  return frame;
}

bool ReadFrame(const std::string& frame) {
  server::FuzzDecode(frame);
  return server::Decode(frame, {}).has_value();
}

}  // namespace pie::fuzz
