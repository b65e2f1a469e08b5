#include "inferlet/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace inferlet {
namespace {

constexpr int kMaxDepth = 256;  // nesting beyond this is an error, not a stack overflow

void AppendUtf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

void AppendQuoted(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
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

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Json> Whole() {
    Json value = PIE_TRY_SYNC(Value(0));
    SkipSpace();
    if (at_ != text_.size()) return Fault("unexpected text after the value");
    return value;
  }

 private:
  std::unexpected<std::string> Fault(std::string_view what) const {
    return Error(std::string(what) + " at offset " + std::to_string(at_));
  }
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' ||
                                  text_[at_] == '\r')) {
      ++at_;
    }
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Result<Json> Value(int depth) {
    if (depth > kMaxDepth) return Fault("too deeply nested");
    SkipSpace();
    if (at_ >= text_.size()) return Fault("unexpected end");
    switch (text_[at_]) {
      case '{': return Object(depth);
      case '[': return Array(depth);
      case '"': return Json(PIE_TRY_SYNC(String()));
      case 't': if (TakeWord("true")) return Json(true); break;
      case 'f': if (TakeWord("false")) return Json(false); break;
      case 'n': if (TakeWord("null")) return Json(); break;
      default: return Number();
    }
    return Fault("unknown word");
  }

  Result<Json> Object(int depth) {
    ++at_;
    Json object = Json::Object();
    if (Take('}')) return object;
    do {
      SkipSpace();
      if (at_ >= text_.size() || text_[at_] != '"') return Fault("expected a member name in quotes");
      const std::string key = PIE_TRY_SYNC(String());
      if (!Take(':')) return Fault("expected ':'");
      object[key] = PIE_TRY_SYNC(Value(depth + 1));
    } while (Take(','));
    if (!Take('}')) return Fault("expected ',' or '}'");
    return object;
  }

  Result<Json> Array(int depth) {
    ++at_;
    Json::Items items;
    if (Take(']')) return Json(std::move(items));
    do {
      items.push_back(PIE_TRY_SYNC(Value(depth + 1)));
    } while (Take(','));
    if (!Take(']')) return Fault("expected ',' or ']'");
    return Json(std::move(items));
  }

  Result<std::string> String() {
    std::string out;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return out;
      }
      if (static_cast<unsigned char>(c) < 0x20) return Fault("unescaped control character");
      if (c != '\\') {
        out += c;
        continue;
      }
      if (++at_ >= text_.size()) break;
      switch (text_[at_]) {
        case '"': case '\\': case '/': out += text_[at_]; break;
        case 'b': out += '\b'; break;
        case 'f': out += '\f'; break;
        case 'n': out += '\n'; break;
        case 'r': out += '\r'; break;
        case 't': out += '\t'; break;
        case 'u': AppendUtf8(out, PIE_TRY_SYNC(Escaped())); break;
        default: return Fault("unknown escape");
      }
    }
    return Fault("unterminated string");
  }

  // The code point of \uXXXX, or of a pair of them; `at_` ends on the last digit.
  Result<uint32_t> Escaped() {
    const uint32_t unit = PIE_TRY_SYNC(FourDigits());
    if (unit < 0xD800 || unit > 0xDFFF) return unit;
    if (unit <= 0xDBFF && text_.substr(at_ + 1).starts_with("\\u")) {
      at_ += 2;
      const uint32_t low = PIE_TRY_SYNC(FourDigits());
      if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    return Fault("half of a surrogate pair");
  }

  Result<uint32_t> FourDigits() {
    const std::string_view digits = text_.substr(at_ + 1, 4);
    uint32_t unit = 0;
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    if (fault != std::errc() || end != digits.data() + 4) return Fault("expected four hex digits");
    at_ += 4;
    return unit;
  }

  bool TakeDigits() {
    const size_t from = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > from;
  }

  Result<Json> Number() {
    const size_t from = at_;
    if (text_[at_] == '-') ++at_;
    const size_t digits = at_;
    if (!TakeDigits()) return Fault("unexpected character");
    if (text_[digits] == '0' && at_ > digits + 1) return Fault("a number starts with 0");
    bool whole = true;
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      whole = false;
      if (!TakeDigits()) return Fault("expected a digit");
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      whole = false;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      if (!TakeDigits()) return Fault("expected a digit");
    }
    const std::string number(text_.substr(from, at_ - from));
    if (whole) {
      int64_t value = 0;
      const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
      if (parsed.ec == std::errc()) return Json(value);
    }
    return Json(std::strtod(number.c_str(), nullptr));  // also whole numbers beyond 64 bits
  }

  std::string_view text_;
  size_t at_ = 0;
};

const Json kNull;
const Json::Items kNoItems;
const Json::Members kNoMembers;

}  // namespace

Result<Json> Json::Parse(std::string_view text) { return Parser(text).Whole(); }

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
  } else if (const double* number = std::get_if<double>(&value_); number && std::isfinite(*number)) {
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

size_t Json::Size() const { return ItemList().size() + MemberList().size(); }

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
