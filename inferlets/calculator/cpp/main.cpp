// Answers a question by arithmetic: the model writes an expression in a language of our own, and
// the inferlet evaluates it.
#include <inferlet/inferlet.h>

#include <cmath>
#include <cstdlib>

using namespace inferlet;

// The text is complete with its "=".
constexpr const char* kLanguage = R"lark(
start: expression "="
expression: term (("+" | "-") term)*
term: factor (("*" | "/") factor)*
factor: NUMBER | "(" expression ")"
NUMBER: /(0|[1-9][0-9]{0,5})(\.[0-9]{1,3})?/
)lark";

// Evaluates a text of the language, rule by rule. There are no syntax errors to look for.
class Calculator {
 public:
  explicit Calculator(std::string_view text) : text_(text) {}

  double Expression() {
    double value = Term();
    while (const char op = Take("+-")) {
      const double term = Term();
      value = op == '+' ? value + term : value - term;
    }
    return value;
  }

 private:
  // The next character if it is one of these; else 0.
  char Take(std::string_view choices) {
    if (text_.empty() || !choices.contains(text_.front())) return 0;
    const char found = text_.front();
    text_.remove_prefix(1);
    return found;
  }
  double Term() {
    double value = Factor();
    while (const char op = Take("*/")) {
      const double factor = Factor();
      value = op == '*' ? value * factor : value / factor;
    }
    return value;
  }
  double Factor() {
    if (Take("(") != 0) {
      const double value = Expression();
      Take(")");
      return value;
    }
    std::string digits;
    while (const char digit = Take("0123456789.")) digits += digit;
    return std::strtod(digits.c_str(), nullptr);
  }

  std::string_view text_;  // what is left of it
};

Task<Result<Json>> Main(Json input) {
  const Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  Context context = PIE_TRY(Context::New(model));
  context.System("Answer with an arithmetic expression and an equals sign, such as (2+3)*4=")
      .User(PIE_TRY(input.Get<std::string>("question")));
  const auto temperature = PIE_TRY(input.Get("temperature", 0.0));
  const auto max_tokens = PIE_TRY(input.Get("max_tokens", 200));
  Generator generator = context.Cue().Generate(Sampler::TopP(temperature, 0.95));
  generator.Seed(PIE_TRY(input.Get("seed", 0)));
  generator.MaxTokens(max_tokens);
  PIE_TRY(generator.ConstrainWith(Ebnf{kLanguage}));
  std::string text = PIE_TRY(co_await generator.CollectText());
  if (!text.ends_with('=')) {
    co_return Error("the expression is not complete after " + std::to_string(max_tokens) +
                    " tokens: " + text);
  }
  const double value = Calculator(text).Expression();
  if (!std::isfinite(value)) {
    co_return Error("the expression divides by zero or is too large: " + text);
  }
  text.pop_back();
  co_return Json::Object({{"expression", text}, {"value", value}});
}

PIE_MAIN(Main)
