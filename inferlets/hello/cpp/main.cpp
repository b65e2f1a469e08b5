// The smallest inferlet: a parameter in, a text out.
#include <inferlet/inferlet.h>

using namespace inferlet;

Task<Result<Json>> Main(Json input) {
  const std::string name = PIE_TRY(input.Get("name", "world"));
  co_return "Hello, " + name + "!";
}

PIE_MAIN(Main)
