#include "cli/models.h"

#include <fcntl.h>
#include <fetch_model_script.h>  // made from fetch_model.py
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <regex>

#include "cli/config.h"

namespace pie::cli {
namespace {

namespace fs = std::filesystem;

// The folder of owner/name is named owner--name.
constexpr std::string_view kSlash = "--";

std::string FolderOf(std::string_view name) {
  std::string folder(name);
  if (const size_t slash = folder.find('/'); slash != std::string::npos) {
    folder.replace(slash, 1, kSlash);
  }
  return folder;
}

std::string NameOf(const std::string& folder) {
  std::string name = folder;
  if (const size_t at = name.find(kSlash); at != std::string::npos) {
    name.replace(at, kSlash.size(), "/");
  }
  return name;
}

Status CheckName(std::string_view name) {
  static const std::regex kName("[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?");
  if (name.size() <= 200 && std::regex_match(name.begin(), name.end(), kName)) return {};
  return Fail(Code::kInvalid, "'{}' is not a model name; write NAME, or OWNER/NAME for the hub",
              name);
}

// Returns the file or folder to open in a model's folder.
Result<std::string> OpenableIn(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "config.json", error)) return folder.string();
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".gguf") found.push_back(entry.path().string());
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return Fail(Code::kNotFound, "{} holds no model: it has neither a .gguf file nor a config.json",
                folder.string());
  }
  return Fail(Code::kInvalid, "{} holds {} .gguf files; name one of them", folder.string(),
              found.size());
}

uint64_t SizeOf(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) bytes += at->file_size(ignored);
  }
  return bytes;
}

// Returns a Python that can run pip: that of this checkout's environment, or the system's.
std::string FindPython() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path own = self.parent_path().parent_path() / "venv/bin/python";
    if (access(own.c_str(), X_OK) == 0) return own.string();
  }
  return "python3";
}

// Runs a program with the same output streams and waits for it.
Result<int> RunProgram(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ);
  if (error != 0) {
    return Fail(Code::kUnavailable, "cannot run {}: {}", arguments[0], std::strerror(error));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) {
      return Fail(Code::kInternal, "cannot wait for {}: {}", arguments[0], std::strerror(errno));
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Status DownloadFromHub(std::string_view name) {
  const fs::path folder = ModelsDir() / FolderOf(name);
  auto code = RunProgram({"hf", "download", std::string(name), "--local-dir", folder.string(),
                          "--include", "*.json", "*.safetensors", "*.jinja", "*.model"});
  if (!code) {
    return Fail(Code::kUnavailable,
                "downloads from the hub need its client `hf`; run: pip install huggingface_hub");
  }
  if (*code == 0) return {};
  return Fail(Code::kUnavailable, "`hf` could not download {} (exit code {})", name, *code);
}

}  // namespace

fs::path ModelsDir() {
  return fs::path(CacheDir()) / "models";
}

std::vector<LocalModel> LocalModels() {
  std::vector<LocalModel> models;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(ModelsDir(), error)) {
    std::error_code ignored;
    if (!entry.is_directory(ignored) || !OpenableIn(entry.path())) continue;
    models.push_back({NameOf(entry.path().filename()), SizeOf(entry.path())});
  }
  std::ranges::sort(models, {}, &LocalModel::name);
  return models;
}

Result<std::string> FindModel(std::string_view model) {
  std::string text(model);
  if (text.starts_with("~/")) text = fs::path(UserHome()) / text.substr(2);
  std::error_code error;
  const fs::path path = text;
  if (fs::is_directory(path, error)) return OpenableIn(path);
  if (fs::exists(path, error)) return text;
  const fs::path downloaded = ModelsDir() / FolderOf(text);
  if (CheckName(text) && fs::is_directory(downloaded, error)) return OpenableIn(downloaded);
  if (text == kDefaultModel) {
    return Fail(Code::kNotFound,
                "the default model is not downloaded yet: run `pie model download` (98 MB), or use "
                "--dummy for the dummy model, which needs no weights");
  }
  return Fail(Code::kNotFound,
              "no model '{}' was found; use a .gguf file, the folder of a Hugging Face model, or a "
              "name that `pie model list` shows",
              model);
}

Status DownloadModel(std::string_view name) {
  PIE_RETURN_IF_ERROR(CheckName(name));
  std::error_code error;
  fs::create_directories(ModelsDir(), error);
  if (error) {
    return Fail(Code::kInvalid, "cannot create {}: {}", ModelsDir().string(), error.message());
  }
  if (name.find('/') != std::string_view::npos) return DownloadFromHub(name);
  const int code = PIE_TRY(RunProgram(
      {FindPython(), "-c", kFetchModelScript, std::string(name), (ModelsDir() / name).string()}));
  if (code == 0) return {};
  return Fail(Code::kUnavailable, "could not download {}", name);
}

Status RemoveModel(std::string_view name) {
  PIE_RETURN_IF_ERROR(CheckName(name));
  std::error_code error;
  const fs::path folder = ModelsDir() / FolderOf(name);
  if (!fs::is_directory(folder, error)) {
    return Fail(Code::kNotFound, "no model '{}' is downloaded; see `pie model list`", name);
  }
  fs::remove_all(folder, error);
  if (error) return Fail(Code::kInternal, "cannot remove {}: {}", folder.string(), error.message());
  return {};
}

}  // namespace pie::cli
