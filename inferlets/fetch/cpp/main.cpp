// Fetches a page by HTTP.
#include <inferlet/inferlet.h>

using namespace inferlet;

Task<Result<std::string>> Main(Json input) {
  const std::string url = PIE_TRY(input.Get<std::string>("url"));
  const http::Response response =
      PIE_TRY(co_await http::Get(url).Header("accept", "text/plain").Send());
  const std::string text = PIE_TRY(co_await response.Text());
  co_return std::to_string(response.Status()) + ": " + text;
}

PIE_MAIN(Main)
