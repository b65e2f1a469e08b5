#include <array>

#include "checks.h"

using namespace inferlet;

namespace {

enum class Colour { kRed, kBlue };
constexpr std::array<const char*, 2> EnumTexts(Colour) {
  return {"red", "blue"};
}

struct Leaf {
  std::string name;
  Colour colour = Colour::kRed;
  static constexpr auto kFields =
      std::tuple(Field("name", &Leaf::name), Field("colour", &Leaf::colour));
};

struct Tree {
  std::vector<Leaf> leaves;
  std::optional<int8_t> age;
  std::map<std::string, double> sizes;
  static constexpr auto kFields = std::tuple(
      Field("leaves", &Tree::leaves), Field("age", &Tree::age), Field("sizes", &Tree::sizes));
};

static_assert(Described<Tree> && !Described<Faults>);

}  // namespace

Task<Result<void>> CheckDescribed(Faults& faults) {
  const Json leaf = Json::Parse(R"({"type":"object","properties":{"name":{"type":"string"},)"
                                R"("colour":{"enum":["red","blue"]}},)"
                                R"("required":["name","colour"],"additionalProperties":false})")
                        .value();
  faults.Expect(SchemaOf<Leaf>() == leaf, SchemaOf<Leaf>().Dump());
  const Json tree = SchemaOf<Tree>();
  faults.Expect(tree["required"] == Json::Array({"leaves", "sizes"}), "what may be missing");
  faults.Expect(tree["properties"]["age"]["anyOf"][0]["maximum"] == Json(127), "a bound");

  const Json document =
      Json::Parse(R"({"leaves":[{"name":"a","colour":"blue"}],"age":7,"sizes":{"x":1}})").value();
  const Result<Tree> read = FromJson<Tree>(document);
  faults.Expect(read && read->leaves.at(0).colour == Colour::kBlue && read->age == 7 &&
                    read->sizes.at("x") == 1.0,
                read ? "a member" : read.error());
  const auto fault = [](const char* text) {
    const Result<Tree> wrong = FromJson<Tree>(Json::Parse(text).value());
    return wrong ? "" : wrong.error();
  };
  faults.Expect(fault(R"({"leaves":[],"sizes":{},"age":300})").contains("age: "), "a range");
  faults.Expect(fault(R"({"leaves":[{"name":"a","colour":"green"}],"sizes":{}})").contains("green"),
                "an unknown value");
  faults.Expect(fault("[]").contains("expected an object"), "a type");

  Flags flags({"--n", "8", "--rate=0.5", "--verbose", "rest"});
  faults.Expect(flags.Get<int>("--n") == 8 && flags.Get("--rate", 1.0) == 0.5, "values");
  faults.Expect(flags.Has("--verbose") && !flags.Has("--verbose"), "a flag is there once");
  faults.Expect(flags.Get("--name", "x") == "x", "a fallback");
  faults.Expect(flags.Get<int>("--n").error() == "--n is missing", "absence");
  faults.Expect(flags.CheckAllUsed().error() == "unknown argument rest", "what is left");
  faults.Expect(Flags({"--n", "many"}).Get("--n", 1).error().contains("is a number"), "no number");
  faults.Expect(Flags({"--n"}).Get("--n", 1).error() == "--n needs a value", "no value");
  co_return {};
}
