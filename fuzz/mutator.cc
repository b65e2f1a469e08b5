#include "mutator.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace pie::fuzz {
namespace {

using Json = nlohmann::ordered_json;

// A random place, more often near the beginning, where file formats keep their tables.
size_t Place(const std::string& bytes, Dice& dice) {
  const size_t end = dice.Once(2) ? bytes.size() : std::min<size_t>(bytes.size(), 4096);
  return dice.Below(end);
}

// The place of what looks like a small number: a count, a length, an offset or a type.
size_t PlaceOfNumber(const std::string& bytes, size_t width, Dice& dice) {
  for (int i = 0; i < 64; ++i) {
    const size_t at = Place(bytes, dice);
    if (at + width > bytes.size()) continue;
    uint64_t value = 0;
    std::memcpy(&value, &bytes[at], width);
    if (value < (1 << 20)) return at;
  }
  return bytes.size() < width ? 0 : dice.Below(bytes.size() - width + 1);
}

void DamageNumber(std::string& bytes, Dice& dice) {
  const size_t width = dice.Once(3) ? 4 : 8;
  if (bytes.size() < width) return;
  const size_t at = PlaceOfNumber(bytes, width, dice);
  uint64_t old = 0;
  std::memcpy(&old, &bytes[at], width);
  const uint64_t value = dice.Extreme(dice.Once(2) ? old : bytes.size());
  std::memcpy(&bytes[at], &value, width);
}

void DamageOnce(std::string& bytes, Dice& dice) {
  if (bytes.empty()) return;
  const size_t at = Place(bytes, dice);
  const size_t length = std::min<size_t>(1 + dice.Below(64), bytes.size() - at);
  switch (dice.Below(9)) {
    case 0:
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << dice.Below(8)));
      break;
    case 2:
      bytes[at] = static_cast<char>(dice.Bits());
      break;
    case 3:
    case 4:
      DamageNumber(bytes, dice);
      break;
    case 5:
      bytes.resize(at);
      break;
    case 6:
      bytes.erase(at, length);
      break;
    case 7:
      bytes.insert(Place(bytes, dice), bytes.substr(at, length));
      break;
    default:
      bytes.replace(Place(bytes, dice), length, bytes.substr(at, length));
  }
}

Json ExtremeJson(const Json& old, Dice& dice) {
  const double number = old.is_number() ? old.get<double>() : 1;
  switch (dice.Below(14)) {
    case 0:
      return nullptr;
    case 1:
      return dice.Once(2);
    case 2:
      return -number;
    case 3:
      return number * 2 + 0.5;
    case 4:
      return static_cast<int64_t>(dice.Extreme());
    case 5:
      return dice.Extreme();
    case 6:
      return 1e308;
    case 7:
      return std::numeric_limits<double>::denorm_min();
    case 8:
      return "";
    case 9:
      return std::string(1 + dice.Below(2000), "a\x01\u00e9"[dice.Below(2)]);
    case 10:
      return Json::array({old, old});
    case 11:
      return Json::object({{"type", old}});
    case 12: {
      Json deep = old;
      for (uint64_t i = dice.Below(200); i > 0; --i) deep = Json::array({std::move(deep)});
      return deep;
    }
    default:
      return Json::array();
  }
}

// A random value inside `json`, at any depth, or `json` itself.
Json& Pick(Json& json, Dice& dice) {
  Json* at = &json;
  while (at->is_structured() && !at->empty() && !dice.Once(6)) {
    auto item = at->begin();
    std::advance(item, static_cast<std::ptrdiff_t>(dice.Below(at->size())));
    at = &*item;
  }
  return *at;
}

void DamageValue(Json& value, Dice& dice) {
  if (value.is_object() && !value.empty() && dice.Once(2)) {
    auto item = value.begin();
    std::advance(item, static_cast<std::ptrdiff_t>(dice.Below(value.size())));
    value.erase(item.key());
  } else if (value.is_array() && !value.empty() && dice.Once(2)) {
    const Json copy = value[dice.Below(value.size())];
    for (uint64_t i = 1 + dice.Below(20); i > 0; --i) value.push_back(copy);
  } else {
    value = ExtremeJson(value, dice);
  }
}

}  // namespace

uint64_t Dice::Extreme(uint64_t near) {
  switch (Below(6)) {
    case 0:
      return (uint64_t{1} << Below(64)) + Below(3) - 1;
    case 1:
      return ~Below(16);
    case 2:
      return near + Below(5) - 2;
    case 3:
      return near * (2 + Below(1000));
    case 4:
      return Below(300);
    default:
      return Bits() >> Below(64);
  }
}

void DamageBytes(std::string& bytes, Dice& dice) {
  for (uint64_t i = 1 + dice.Below(4); i > 0; --i) DamageOnce(bytes, dice);
}

void DamageJson(Json& json, Dice& dice) {
  for (uint64_t i = 1 + dice.Below(3); i > 0; --i) DamageValue(Pick(json, dice), dice);
}

}  // namespace pie::fuzz
