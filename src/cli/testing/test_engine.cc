#include "cli/testing/test_engine.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "cli/start_engine.h"
#include "host/folder_watch.h"

namespace pie::cli {
namespace {

namespace fs = std::filesystem;

Result<fs::path> MakeFolder() {
  std::error_code error;
  fs::path base = fs::temp_directory_path(error);
  if (error) base = "/tmp";
  std::string name = (base / "pie-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    return Fail(Code::kInternal, "cannot make a folder in {}: {}", base.string(),
                std::strerror(errno));
  }
  return fs::path(name);
}

}  // namespace

Result<std::unique_ptr<TestEngine>> TestEngine::Start(Config config, const TestProgram& program,
                                                      const TestCase& test,
                                                      const std::function<void()>& on_compile) {
  std::unique_ptr<TestEngine> made(new TestEngine);
  made->folder_ = PIE_TRY(MakeFolder());
  made->script_ = std::make_shared<Script>(std::vector<ScriptedAnswer>());
  UseDummy(config);
  config.models[0].script = made->script_;
  config.models[0].vocabulary = test.vocabulary;
  config.models[0].seed = test.seed;
  config.allow_fs = true;
  config.scratch_root = (made->folder_ / "scratch").string();
  config.data_root = (made->folder_ / "data").string();
  config.snapshot_root.clear();  // in memory
  config.adapter_root.clear();
  config.limits.user_share_percent = 100;  // there is one user
  made->engine_ = PIE_TRY(StartEngine(config, true));
  PIE_RETURN_IF_ERROR(made->engine_->AddProgram(program.manifest, program.component, on_compile));
  return made;
}

TestEngine::~TestEngine() {
  engine_.reset();
  host::RemoveTree(folder_.string());
}

Status TestEngine::Prepare(const TestCase& test) {
  PIE_RETURN_IF_ERROR(script_->Replace(test.answers));
  const fs::path data = folder_ / "data" / host::FolderName(kTestUser);
  for (const auto& [name, text] : test.files) {
    const fs::path path = data / name;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    std::ofstream file(path, std::ios::binary);
    file << text;
    if (!file.flush()) return Fail(Code::kInternal, "cannot write {}", path.string());
  }
  return {};
}

}  // namespace pie::cli
