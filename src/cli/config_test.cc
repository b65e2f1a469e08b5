#include "cli/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/server_config.h"

namespace pie::cli {
namespace {

class ConfigTest : public testing::Test {
 protected:
  ConfigTest() { std::filesystem::create_directories(dir_); }
  ~ConfigTest() override { std::filesystem::remove_all(dir_); }

  Result<Config> Read(std::string_view text) {
    std::ofstream(path_) << text;
    return ReadConfig(path_);
  }
  // Returns the error without the path.
  std::string ErrorOf(std::string_view text) {
    auto config = Read(text);
    EXPECT_FALSE(config) << text;
    return config ? "" : config.error().text.substr(path_.size());
  }

  const std::filesystem::path dir_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("pie-config-{}", getpid());
  const std::string path_ = dir_ / "config.toml";
};

TEST_F(ConfigTest, ReadsEveryValue) {
  auto config = Read(R"(
[runtime]
worker_threads = 3
wasm_max_instances = 10
wasm_max_memory_mb = 256
max_output_mb = 1
cpu_budget_ms = 1000
allow_fs = false
fs_scratch_dir = "/tmp/here"

[[model]]
name = "tiny"
hf_repo = "~/models/tiny.gguf"
draft = "tinier"
[model.driver]
type = "portable"
random_seed = 9
[model.driver.options]
kv_page_size = 8
total_pages = 100
max_forward_tokens = 64
max_forward_requests = 4
kv_cache_dtype = "q8"
weight_dtype = "fp8"
max_positions = 2048
swap_pool_size = 11
threads = 2
asynchronous = true
[model.scheduler]
batch_policy = "eager"
request_timeout_secs = 7
default_endowment_pages = 9
admission_oversubscription_factor = 1.5
restore_pause_at_utilization = 0.5
default_token_limit = 1000
chains = false
swap_always = true
suspend_every_steps = 3
)");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->runtime.worker_threads, 3u);
  EXPECT_EQ(config->runtime.max_instances, 10u);
  EXPECT_EQ(config->runtime.limits.max_memory_bytes, 256u << 20);
  EXPECT_EQ(config->runtime.limits.max_output_bytes, 1u << 20);
  EXPECT_EQ(config->runtime.limits.cpu_budget_ms, 1000u);
  EXPECT_FALSE(config->allow_fs);
  EXPECT_EQ(config->scratch_root, "/tmp/here");
  ASSERT_EQ(config->models.size(), 1u);
  const ModelEntry& model = config->models[0];
  EXPECT_EQ(model.name, "tiny");
  EXPECT_EQ(model.weights, "~/models/tiny.gguf");
  EXPECT_EQ(model.driver, ModelEntry::Driver::kCpu);
  EXPECT_EQ(model.seed, 9u);
  EXPECT_EQ(model.page_tokens, 8u);
  EXPECT_EQ(model.scheduler.batch_policy, BatchPolicy::kEager);
  EXPECT_EQ(model.scheduler.request_timeout_ms, 7000u);
  EXPECT_EQ(model.scheduler.memory.endowment_pages, 9u);
  EXPECT_EQ(model.scheduler.memory.oversubscription, 1.5);
  EXPECT_EQ(model.scheduler.memory.restore_pause_at, 0.5);
  EXPECT_EQ(model.scheduler.memory.swap_pages, 11u);
  EXPECT_EQ(model.token_limit, 1000u);
  EXPECT_EQ(model.draft, "tinier");
  EXPECT_EQ(model.kv_cache_dtype, "q8");
  EXPECT_EQ(model.weight_dtype, "fp8");
  EXPECT_EQ(model.total_pages, 100u);
  EXPECT_EQ(model.max_batch_tokens, 64u);
  EXPECT_EQ(model.max_batch_members, 4u);
  EXPECT_EQ(model.max_positions, 2048u);
  EXPECT_EQ(model.threads, 2u);
  EXPECT_TRUE(model.asynchronous);
  EXPECT_FALSE(model.scheduler.chains);
  EXPECT_TRUE(model.scheduler.memory.swap_always);
  EXPECT_EQ(model.scheduler.suspend_every_steps, 3u);
}

TEST_F(ConfigTest, EmptyFileGivesTheDefaults) {
  auto config = Read("");
  ASSERT_TRUE(config);
  ASSERT_EQ(config->models.size(), 1u);
  EXPECT_EQ(config->models[0].name, "default");
  EXPECT_EQ(config->models[0].weights, "");
  EXPECT_EQ(config->models[0].driver, ModelEntry::Driver::kAuto);
}

TEST_F(ConfigTest, ReadsModelsInBothForms) {
  auto array = Read("[[model]]\nname = \"b\"\n[[model]]\nname = \"a\"\nhf_repo = \"x.gguf\"");
  ASSERT_TRUE(array) << array.error().text;
  ASSERT_EQ(array->models.size(), 2u);
  EXPECT_EQ(array->models[0].name, "b");
  EXPECT_EQ(array->models[1].weights, "x.gguf");
  auto tables = Read("[model.b]\nhf_repo = \"x\"\n[model.a]\ndriver.type = \"dummy\"");
  ASSERT_TRUE(tables) << tables.error().text;
  ASSERT_EQ(tables->models.size(), 2u);
  EXPECT_EQ(tables->models[0].name, "b") << "the order of the file";
  EXPECT_EQ(tables->models[1].driver, ModelEntry::Driver::kDummy);
}

TEST_F(ConfigTest, TheDummyMayHaveTheVocabularyOfAnotherModel) {
  auto config = Read(
      "[[model]]\n[model.driver]\ntype = \"dummy\"\nvocabulary = \"m\"\n[[model]]"
      "\nname = \"b\"");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->models[0].vocabulary, "m");
  UseDummy(*config);  // --dummy is the small model, whatever the file says
  ASSERT_EQ(config->models.size(), 1u);
  EXPECT_EQ(config->models[0].vocabulary, "");
  UseDummy(*config, "other.gguf");
  EXPECT_EQ(config->models[0].vocabulary, "other.gguf");
}

TEST_F(ConfigTest, ErrorsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"[runtime", ":1: "},
      {"runtime = 3", ":1: 'runtime' must be a table, written [runtime]"},
      {"[runtime]\nworker_threads = \"two\"", ":2: 'worker_threads' must be a whole number"},
      {"[runtime]\nworker_threads = -1", ":2: 'worker_threads' must be a whole number"},
      {"[runtime]\nworker_threads = 5000", ":2: 'worker_threads' must be a whole number"},
      {"[runtime]\n\nwasm_max_instances = 0", ":3: 'wasm_max_instances' must be a whole number"},
      {"[runtime]\nwasm_max_instances = 99999999999", ":2: 'wasm_max_instances' must be"},
      {"[runtime]\nwasm_max_memory_mb = 0", ":2: 'wasm_max_memory_mb' must be a whole number from"},
      {"[runtime]\nallow_fs = 1", ":2: 'allow_fs' must be true or false"},
      {"[runtime]\nfs_scratch_dir = 1", ":2: 'fs_scratch_dir' must be a text in quotes"},
      {"[model]\nname = \"x\"", ":1: write each model as [[model]]"},
      {"[[model]]\n[[model]]", ":2: two models are named 'default'"},
      {"[[model]]\ndriver.type = \"tpu\"",
       ":2: 'type' must be \"auto\", \"cpu\", \"cuda\" or \"dummy\""},
      {"[[model]]\ndriver.vocabulary = \"m\"", ":2: 'vocabulary' is for type = \"dummy\""},
      {"model = []", ":1: write each model as [[model]]"},
      {"[[model]]\nname = 1", ":2: 'name' must be a text in quotes"},
      {"[[model]]\ndriver = \"dummy\"", ":2: 'model.driver' must be a table"},
      {"[[model]]\n[model.driver]\ntype = 1", ":3: 'type' must be \"auto\", \"cpu\""},
      {"[[model]]\n[model.driver.options]\nkv_page_size = 0", ":3: 'kv_page_size' must be"},
      {"[[model]]\n[model.driver.options]\ntotal_pages = 0", ":3: 'total_pages' must be"},
      {"[[model]]\n[model.driver.options]\nmax_forward_tokens = 0", ":3: 'max_forward_tokens'"},
      {"[[model]]\n[model.driver.options]\nmax_forward_requests = 1.5",
       ":3: 'max_forward_requests'"},
      {"[[model]]\n[model.scheduler]\nrestore_pause_at_utilization = 1.5",
       ":3: 'restore_pause_at_utilization' must be a number from 0 to 1"},
      {"[[model]]\n[model.scheduler]\nrestore_pause_at_utilization = \"x\"",
       ":3: 'restore_pause_at_utilization' must be a number from 0 to 1"},
      {"[[model]]\n[model.scheduler]\nbatch_policy = \"lazy\"",
       ":3: 'batch_policy' must be \"greedy\", \"eager\" or \"adaptive\""},
  };
  for (const auto& [text, wanted] : cases) {
    const std::string error = ErrorOf(text);
    EXPECT_TRUE(error.starts_with(wanted)) << text << "\ngave: " << error;
  }
}

TEST_F(ConfigTest, UnknownKeysAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"[auth]\nenable = true", ":2: unknown key auth.enable; did you mean auth.enabled?"},
      {"[Auth]\nenabled = true", ":1: unknown key Auth; did you mean auth?"},
      {"auth_enabled = true", ":1: unknown key auth_enabled; did you mean auth.enabled?"},
      {"[runtime]\nport = 80", ":2: unknown key runtime.port; did you mean server.port?"},
      {"[[model]]\nhf-repo = \"x\"", ":2: unknown key model.hf-repo; did you mean model.hf_repo?"},
      {"[model.big]\ndrivr.type = \"cpu\"",
       ":2: unknown key model.drivr; did you mean model.driver?"},
      {"[[model]]\n[model.driver.options]\nkv_pagesize = 4",
       ":3: unknown key model.driver.options.kv_pagesize; did you mean "
       "model.driver.options.kv_page_size?"},
  };
  for (const auto& [text, wanted] : cases) {
    EXPECT_EQ(ErrorOf(text), wanted);
    const auto server = ReadServerConfig(path_);
    ASSERT_FALSE(server) << text;
    EXPECT_EQ(server.error().text.substr(path_.size()), wanted);
  }
}

TEST_F(ConfigTest, ReadsWhichWebPagesMayAsk) {
  ASSERT_TRUE(Read(R"(
[server]
allowed_hosts = ["pie.example"]
allowed_origins = ["https://app.example", "http://localhost:5173"]
trusted_apps = ["chat"]
)"));
  const auto server = ReadServerConfig(path_);
  ASSERT_TRUE(server) << server.error().text;
  EXPECT_EQ(server->server.web.hosts, std::vector<std::string>{"pie.example"});
  EXPECT_EQ(server->server.web.origins.size(), 2u);
  EXPECT_EQ(server->server.web.trusted_apps, std::vector<std::string>{"chat"});
  for (const char* wrong :
       {"allowed_hosts = [\"http://pie.example\"]", "allowed_hosts = [\"pie.example:80\"]",
        "allowed_hosts = [\"*\"]", "allowed_origins = [\"*\"]", "allowed_origins = [\"a.example\"]",
        "allowed_origins = [\"https://a.example/\"]", "allowed_origins = [\"null\"]",
        "allowed_hosts = \"pie.example\""}) {
    ASSERT_TRUE(Read(std::string("[server]\n") + wrong));
    EXPECT_FALSE(ReadServerConfig(path_)) << wrong;
  }
}

TEST_F(ConfigTest, AcceptsPublishedKeysThatChangeNothingHere) {
  const auto config = Read(R"(
[runtime]
allow_network = true
network_allowed_hosts = ["example.org"]
[[model]]
[model.driver]
tensor_parallel_size = 2
activation_dtype = "bfloat16"
)");
  EXPECT_TRUE(config) << config.error().text;
}

TEST_F(ConfigTest, ReadsTheGpu) {
  const auto config = Read(R"(
[[model]]
[model.driver]
type = "cuda"
device = ["cuda:1"]
[model.driver.options]
gpu_mem_utilization = 0.5
deterministic = true
)");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->models[0].driver, ModelEntry::Driver::kCuda);
  EXPECT_EQ(config->models[0].device, 1);
  EXPECT_EQ(config->models[0].gpu_memory_share, 0.5);
  EXPECT_TRUE(config->models[0].deterministic);
  EXPECT_EQ(Read("[[model]]\ndriver.device = \"cuda:2\"")->models[0].device, 2);
  EXPECT_EQ(ErrorOf("[[model]]\ndriver.device = \"gpu\""),
            ":2: 'device' must name a GPU, such as \"cuda:0\"");
}

TEST_F(ConfigTest, ANamedFileMustExist) {
  EXPECT_EQ(ReadConfig("/nowhere.toml").error().text,
            "the config file /nowhere.toml does not exist");
  // Both parts of the config are read from the same file, so they refuse it with the same error.
  const std::string folder = dir_.string() + " is a folder; name the config file in it";
  EXPECT_EQ(ReadConfig(dir_.string()).error().text, folder);
  EXPECT_EQ(ReadServerConfig(dir_.string()).error().text, folder);
}

TEST_F(ConfigTest, FoldersComeFromTheEnvironment) {
  setenv("PIE_HOME", dir_.c_str(), 1);
  setenv("PIE_CACHE", "/tmp/some-cache", 1);
  EXPECT_EQ(HomeDir(), dir_);
  EXPECT_EQ(CacheDir(), "/tmp/some-cache");
  EXPECT_EQ(ReadConfig("")->data_root, dir_.string() + "/data") << "without a file";
  std::ofstream(path_) << "[runtime]\nallow_fs = false";
  EXPECT_FALSE(ReadConfig("")->allow_fs);
  EXPECT_EQ(ReadConfig("")->data_root, "");
  EXPECT_EQ(ReadConfig("")->runtime.cache_dir, "/tmp/some-cache/code");
  unsetenv("PIE_CACHE");
  setenv("XDG_CACHE_HOME", "/tmp/xdg", 1);
  EXPECT_EQ(CacheDir(), "/tmp/xdg/pie");
  setenv("TMPDIR", "/nowhere", 1);
  EXPECT_TRUE(ReadConfig(""));
  for (const char* name : {"PIE_HOME", "XDG_CACHE_HOME", "TMPDIR"}) unsetenv(name);
}

TEST_F(ConfigTest, ReadsMcpServers) {
  auto config = Read(R"(
[mcp.oven]
command = "python3"
args = ["server.py", "-q"]
env = { A = "b" }
users = ["ada"]
timeout_secs = 5

[mcp.web]
url = "http://127.0.0.1/mcp"
headers = { X = "1" }
)");
  ASSERT_TRUE(config) << config.error().text;
  ASSERT_EQ(config->mcp.size(), 2u);
  const host::McpServerConfig& oven = config->mcp[0];
  EXPECT_EQ(oven.name, "oven");
  EXPECT_EQ(oven.command, (std::vector<std::string>{"python3", "server.py", "-q"}));
  EXPECT_EQ(oven.env.at("A"), "b");
  EXPECT_EQ(oven.users, std::vector<std::string>{"ada"});
  EXPECT_EQ(oven.timeout_ms, 5'000u);
  EXPECT_TRUE(config->mcp[1].command.empty());
  EXPECT_EQ(config->mcp[1].url, "http://127.0.0.1/mcp");
  EXPECT_EQ(config->mcp[1].headers.at("X"), "1");
  EXPECT_EQ(ErrorOf("[mcp.x]\n"), ":1: mcp.x: set either command or url");
  EXPECT_EQ(ErrorOf("mcp = 5\n"), ":1: write each MCP server as [mcp.<name>]");
  EXPECT_EQ(ErrorOf("[mcp.x]\nusers = 5\nurl = \"http://x\""),
            ":2: 'users' must be a list of texts in quotes");
}

TEST_F(ConfigTest, ReadsSnapshotsAndPrefixes) {
  auto config = Read("");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->snapshot_root, HomeDir() + "/snapshots");
  EXPECT_TRUE(config->prefix_cache);
  EXPECT_FALSE(config->shared_prefixes);
  config = Read(R"(
[runtime]
snapshot_dir = "~/kept"
snapshot_quota_mb = 3
max_snapshots = 5
prefix_cache = false
prefix_cache_scope = "engine"
wasm_compiler = "quick"
)");
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->snapshot_root, UserHome() + "/kept");
  EXPECT_EQ(config->limits.max_snapshot_bytes, 3u << 20);
  EXPECT_EQ(config->limits.max_snapshots, 5u);
  EXPECT_FALSE(config->prefix_cache);
  EXPECT_TRUE(config->shared_prefixes);
  EXPECT_TRUE(config->runtime.quick_only);
  EXPECT_EQ(ErrorOf("[runtime]\nprefix_cache_scope = \"all\""),
            ":2: 'prefix_cache_scope' must be \"user\" or \"engine\"");
  EXPECT_EQ(ErrorOf("[runtime]\nwasm_compiler = \"fast\""),
            ":2: 'wasm_compiler' must be \"both\" or \"quick\"");
}

}  // namespace
}  // namespace pie::cli
