// Keeps notes in files of /scratch, and reads them back.
#include <inferlet/inferlet.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

using namespace inferlet;
namespace fs = std::filesystem;

Result<std::string> Main(Json input) {
  std::istringstream notes(PIE_TRY_SYNC(input.Get<std::string>("notes")));
  const fs::path folder = "/scratch/notes";
  fs::create_directory(folder);
  std::string note;
  for (int number = 0; std::getline(notes >> std::ws, note, ','); ++number) {
    std::ofstream(folder / (std::to_string(number) + ".txt")) << note;
  }
  std::set<std::string> lines;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    lines.insert(entry.path().string() + ": " + text.str());
  }
  std::string all;
  for (const std::string& line : lines) all += (all.empty() ? "" : "\n") + line;
  return all;
}

PIE_MAIN(Main)
