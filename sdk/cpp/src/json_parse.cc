#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "inferlet/json.h"

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
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
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
      case '{':
        return Object(depth);
      case '[':
        return Array(depth);
      case '"':
        return Json(PIE_TRY_SYNC(String()));
      case 't':
        if (TakeWord("true")) return Json(true);
        break;
      case 'f':
        if (TakeWord("false")) return Json(false);
        break;
      case 'n':
        if (TakeWord("null")) return Json();
        break;
      default:
        return Number();
    }
    return Fault("unknown word");
  }

  Result<Json> Object(int depth) {
    ++at_;
    Json object = Json::Object();
    if (Take('}')) return object;
    do {
      SkipSpace();
      if (at_ >= text_.size() || text_[at_] != '"')
        return Fault("expected a member name in quotes");
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
        case '"':
        case '\\':
        case '/':
          out += text_[at_];
          break;
        case 'b':
          out += '\b';
          break;
        case 'f':
          out += '\f';
          break;
        case 'n':
          out += '\n';
          break;
        case 'r':
          out += '\r';
          break;
        case 't':
          out += '\t';
          break;
        case 'u':
          AppendUtf8(out, PIE_TRY_SYNC(Escaped()));
          break;
        default:
          return Fault("unknown escape");
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
    const auto [end, fault] =
        std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
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
    const double value = std::strtod(number.c_str(), nullptr);  // also whole numbers beyond 64 bits
    if (std::isinf(value)) return Fault("number out of range");
    return Json(value);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Json> Json::Parse(std::string_view text) {
  return Parser(text).Whole();
}

}  // namespace inferlet
