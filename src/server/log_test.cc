#include "server/log.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

namespace pie::server {
namespace {

// Returns the log line for a text that came from a client.
std::string Logged(const std::string& text, bool json) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  Log log({.json = json, .file = file.get()});
  log.Info("event", {{"text", text}});
  std::string line(4096, '\0');
  std::rewind(file.get());
  line.resize(std::fread(line.data(), 1, line.size(), file.get()));
  return line;
}

TEST(Log, TextsOfStrangersCannotCommandATerminal) {
  const std::string attack =
      "a\nb\x1b[2J\x7f\xc2\x9b"
      "2J grüße";
  for (const bool json : {false, true}) {
    const std::string line = Logged(attack, json);
    EXPECT_TRUE(line.ends_with('\n'));
    for (const char* command : {"\x1b", "\x7f", "\xc2\x9b"}) {
      EXPECT_EQ(line.find(command), std::string::npos) << line;
    }
    EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
    EXPECT_NE(line.find("grüße"), std::string::npos) << line;
  }
  EXPECT_EQ(nlohmann::json::parse(Logged(attack, true))["text"], attack);
}

}  // namespace
}  // namespace pie::server
