#include <cmath>

#include "checks.h"

using namespace inferlet;

Task<Result<void>> CheckJson(Faults& faults) {
  for (const std::string text : {R"({"a":[1,-2.5,1e+300,true,false,null,"\"\\\n\u0001"],"b":{}})",
                                 R"("ü🥧")", "[]", "-0.5", "9223372036854775807", "[[[]],{}]"}) {
    const Result<Json> json = Json::Parse(text);
    faults.Expect(json && json->Dump() == text, json ? json->Dump() : json.error());
  }
  faults.Expect(Json::Parse(R"("\ud83e\udd67\u00e9\/")") == Json("🥧é/"), "escapes");
  faults.Expect(Json::Parse(" { \"a\" : 1 } ")->operator[]("a") == Json(1), "spaces");
  faults.Expect(Json::Parse("18446744073709551616")->As<double>() == 18446744073709551616.0,
                "a number beyond 64 bits");
  for (const std::string text : {"", "{", "[1,]", "{\"a\"}", "01", "1.", "+1", "nul", "\"\\x\"",
                                 "\"\\ud83e\"", "\"a", "[1] 2", "\"\n\"", "{a:1}"}) {
    faults.Expect(!Json::Parse(text).has_value(), "accepted: " + text);
  }
  faults.Expect(!Json::Parse(std::string(100'000, '[')).has_value(), "deep nesting");
  for (const std::string text : {"1e999", "[-1e999]", "123456789e301"}) {
    const Result<Json> json = Json::Parse(text);
    faults.Expect(!json && json.error().starts_with("number out of range"), "infinity: " + text);
  }
  faults.Expect(Json::Parse("1e-999") == Json(0.0), "a number near 0");

  const Json object = Json::Object({{"text", "x"}, {"n", 300}, {"list", std::vector<int>{1, 2}}});
  faults.Expect(object.Get<std::string>("text") == "x", "a member");
  faults.Expect(object.Get("missing", 7) == 7, "a fallback");
  faults.Expect(object.Get<uint8_t>("n").error() == "n: the number 300 is out of range", "a range");
  faults.Expect(object.Get<int>("text").error() == "text: expected a whole number, not a string",
                "a type");
  faults.Expect(object.Get<std::string>("missing").error() == "missing is missing", "absence");
  faults.Expect(object.Get<std::vector<int>>("list") == std::vector<int>{1, 2}, "a list");
  faults.Expect(Json(NAN).Dump() == "null", "NaN");
  co_return {};
}
