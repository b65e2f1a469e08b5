#include "inferlet/json.h"

#include <array>
#include <charconv>
#include <cmath>

namespace inferlet {
namespace {

void AppendQuoted(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += kHex[c >> 4];
          out += kHex[c & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

const Json kNull;
const Json::Items kNoItems;
const Json::Members kNoMembers;

}  // namespace

std::string Json::Dump() const {
  std::string out;
  DumpInto(out);
  return out;
}

void Json::DumpInto(std::string& out) const {
  std::array<char, 32> digits;
  if (const bool* flag = std::get_if<bool>(&value_)) {
    out += *flag ? "true" : "false";
  } else if (const int64_t* integer = std::get_if<int64_t>(&value_)) {
    out += std::to_string(*integer);
  } else if (const double* number = std::get_if<double>(&value_);
             number && std::isfinite(*number)) {
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), *number).ptr;
    out.append(digits.data(), end);
  } else if (const std::string* text = std::get_if<std::string>(&value_)) {
    AppendQuoted(out, *text);
  } else if (IsArray()) {
    out += '[';
    for (const Json& item : ItemList()) {
      if (&item != &ItemList().front()) out += ',';
      item.DumpInto(out);
    }
    out += ']';
  } else if (IsObject()) {
    out += '{';
    for (const Member& member : MemberList()) {
      if (&member != &MemberList().front()) out += ',';
      AppendQuoted(out, member.first);
      out += ':';
      member.second.DumpInto(out);
    }
    out += '}';
  } else {
    out += "null";
  }
}

const Json& Json::operator[](std::string_view key) const {
  for (const Member& member : MemberList()) {
    if (member.first == key) return member.second;
  }
  return kNull;
}

const Json& Json::operator[](size_t index) const {
  return index < ItemList().size() ? ItemList()[index] : kNull;
}

Json& Json::operator[](std::string_view key) {
  if (!IsObject()) value_ = Members();
  Members& members = std::get<Members>(value_);
  for (Member& member : members) {
    if (member.first == key) return member.second;
  }
  return members.emplace_back(std::string(key), Json()).second;
}

void Json::Append(Json item) {
  if (!IsArray()) value_ = Items();
  std::get<Items>(value_).push_back(std::move(item));
}

size_t Json::Size() const {
  return ItemList().size() + MemberList().size();
}

const Json::Items& Json::ItemList() const {
  const Items* items = std::get_if<Items>(&value_);
  return items ? *items : kNoItems;
}

const Json::Members& Json::MemberList() const {
  const Members* members = std::get_if<Members>(&value_);
  return members ? *members : kNoMembers;
}

const char* Json::TypeName() const {
  static constexpr const char* kNames[] = {"null",     "true or false", "a number", "a number",
                                           "a string", "an array",      "an object"};
  return kNames[value_.index()];
}

}  // namespace inferlet
