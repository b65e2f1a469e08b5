// Answers HTTP requests in a different way for each path.
#include <inferlet/inferlet.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

using namespace inferlet;
using namespace std::chrono_literals;

constexpr size_t kMaxBodyBytes = 8 << 20;

Json About(const http::Request& request) {
  Json headers = Json::Object();
  for (const auto& [name, value] : request.Headers()) headers[name] = value;
  return Json::Object({{"method", request.Method()},
                       {"query", request.Query()},
                       {"headers", headers},
                       {"user", runtime::Username()},
                       {"instance", runtime::InstanceId()}});
}

Task<Result<void>> Pipe(http::Request request, http::Body body) {
  for (;;) {
    const std::optional<http::Bytes> piece = PIE_TRY(co_await request.Chunk());
    if (!piece) co_return body.Finish();
    PIE_TRY(co_await body.Write(*piece));
  }
}

Task<Result<void>> Stream(http::Body body) {
  for (int i = 0; i < 3; ++i) {
    const std::string event = "data: " + std::to_string(i) + "\n\n";
    PIE_TRY(co_await body.Write(event));
    co_await Sleep(50ms);
  }
  co_return body.Finish();
}

Task<Result<std::string>> Fetch(std::string url) {
  const http::Response response = PIE_TRY(co_await http::Get(url).Timeout(5s).Send());
  co_return co_await response.Text();
}

Task<Result<std::string>> Post(std::string url) {
  const Json question = Json::Object({{"a", Json::Array({1, "ü"})}});
  const http::Response response =
      PIE_TRY(co_await http::Post(url).Header("x-key", "k").Json(question).Send());
  const Json answer = PIE_TRY(co_await response.Json());
  co_return Json::Array({response.Status(), Json(response.Ok()), answer}).Dump();
}

Task<Result<std::string>> Generate() {
  Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  Context context = PIE_TRY(Context::New(model));
  context.User("hello").Cue();
  co_return co_await context.Generate(Sampler::Argmax()).MaxTokens(8).CollectText();
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

Json Files() {
  std::filesystem::create_directories("/scratch/a/b");
  std::ofstream("/scratch/a/text") << "one\n";
  std::ofstream("/scratch/a/text", std::ios::app) << "two\n";
  std::stringstream text;
  text << std::ifstream("/scratch/a/text").rdbuf();
  const Json names = NamesIn("/scratch/a");
  const auto size = static_cast<int64_t>(std::filesystem::file_size("/scratch/a/text"));
  std::filesystem::remove("/scratch/a/text");
  std::filesystem::remove_all("/scratch/a/b");
  return Json::Array({text.str(), names, size, NamesIn("/scratch/a"),
                      Json(std::filesystem::exists("/scratch/a/text"))});
}

Task<Result<void>> SendResult(http::Responder respond, Result<std::string> answer) {
  if (!answer) respond.Status(502);
  const std::string text = answer ? *answer : answer.error();
  co_return co_await respond.Send(text);
}

Task<Result<void>> Serve(http::Request request, http::Responder respond) {
  const std::string& path = request.Path();
  if (path == "/about") {
    const std::string about = About(request).Dump();
    co_return co_await respond.Header("content-type", "application/json").Send(about);
  }
  if (path == "/echo") {
    const std::string body = PIE_TRY(co_await request.Body(kMaxBodyBytes));
    co_return co_await respond.Status(201).Send(body);
  }
  if (path == "/pipe") co_return co_await Pipe(request, PIE_TRY(respond.Start()));
  if (path == "/stream") {
    respond.Header("content-type", "text/event-stream");
    co_return co_await Stream(PIE_TRY(respond.Start()));
  }
  if (path == "/cut") {
    const http::Body body = PIE_TRY(respond.Start());
    co_return co_await body.Write("half");
  }
  if (path == "/trap") std::abort();
  if (path == "/none") co_return Result<void>();
  if (path == "/generate") co_return co_await SendResult(respond, co_await Generate());
  if (path == "/fetch") co_return co_await SendResult(respond, co_await Fetch(request.Query()));
  if (path == "/post") co_return co_await SendResult(respond, co_await Post(request.Query()));
  if (path == "/files") co_return co_await SendResult(respond, Files().Dump());
  co_return co_await respond.Status(404).Send("no such path");
}

PIE_HTTP(Serve)
