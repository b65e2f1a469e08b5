#include "server/service.h"

namespace pie::server {
namespace {

Result<std::optional<std::string>> Try(const Service::Job& job, host::Compiling compiling) {
  try {
    return job(compiling);
  } catch (const std::exception& error) {  // for example when memory runs out
    return Fail(Code::kInternal, "the request failed inside the server: {}", error.what());
  }
}

}  // namespace

bool Service::Run(std::string_view user, Job job, Done done) {
  auto again = [job, done] {
    auto result = Try(job, host::Compiling::kAllowed);
    done(result ? Result<std::string>(result->value_or("")) : std::unexpected(result.error()));
  };
  return work.Push(user, [this, user = std::string(user), job = std::move(job),
                          done = std::move(done), again = std::move(again)]() mutable {
    auto result = Try(job, host::Compiling::kRefused);
    if (!result) return done(std::unexpected(result.error()));
    if (*result) return done(**std::move(result));
    if (!engine.compile_work().Push(user, std::move(again))) {
      done(Fail(Code::kExhausted, "too many components wait to be compiled; try again later"));
    }
  });
}

}  // namespace pie::server
