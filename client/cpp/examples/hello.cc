#include <iostream>

#include "pie_client/client.h"

int main(int argc, char** argv) {
  const std::string uri = argc > 1 ? argv[1] : "ws://127.0.0.1:8080";
  auto client = pie_client::Client::Connect(uri, {.username = "ada"});
  auto process = client.LaunchProcess("text-completion", {{"prompt", "Hello"}, {"temperature", 0}});
  while (auto text = process.NextText()) std::cout << *text << std::flush;
}
