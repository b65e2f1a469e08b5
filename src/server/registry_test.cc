#include "server/registry.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "host/hash.h"

namespace pie::server {
namespace {

std::string Manifest(std::string_view name, std::string_view version) {
  return fmt::format("[package]\nname = \"{}\"\nversion = \"{}\"\n", name, version);
}

class RegistryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/registry-XXXXXX";
    dir = mkdtemp(pattern.data());
    registry = *Registry::Open(dir);
  }
  void TearDown() override { std::filesystem::remove_all(dir); }
  std::string dir;
  std::unique_ptr<Registry> registry;
};

TEST_F(RegistryTest, FindsInstalledPrograms) {
  ASSERT_TRUE(registry->Add(Manifest("hello", "0.1.0"), "component", "ada", false));
  registry = *Registry::Open(dir);  // as another process would
  auto found = registry->Find("hello@0.1.0");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->wasm_hash, host::Blake3Hex("component"));
  EXPECT_EQ(found->manifest_hash, host::Blake3Hex(Manifest("hello", "0.1.0")));
  EXPECT_EQ(found->bytes, 9u);
  EXPECT_EQ(found->owner, "ada");
  EXPECT_EQ(registry->ReadComponent(*found), "component");
}

TEST_F(RegistryTest, FindsTheLatestVersion) {
  for (const char* version : {"0.9.0", "0.10.0", "0.2.0", "0.10.0-rc.1"}) {
    ASSERT_TRUE(registry->Add(Manifest("hello", version), version, "ada", false));
  }
  EXPECT_EQ(registry->Find("hello")->version, "0.10.0");
  EXPECT_EQ(registry->Find("hello@0.2.0")->version, "0.2.0");
  EXPECT_FALSE(registry->Find("hello@1.0.0"));
  EXPECT_FALSE(registry->Find("nobody"));
  EXPECT_FALSE(registry->Find(""));
  EXPECT_FALSE(registry->Find("@0.2.0"));
  EXPECT_EQ(registry->List()->size(), 4u);
}

TEST_F(RegistryTest, ReplacingNeedsOverwrite) {
  const std::string manifest = Manifest("hello", "0.1.0");
  ASSERT_TRUE(registry->Add(manifest, "one", "ada", false));
  EXPECT_TRUE(registry->Add(manifest, "one", "ada", false)) << "the same bytes again";
  EXPECT_FALSE(registry->Add(manifest, "two", "ada", false));
  EXPECT_TRUE(registry->Add(manifest, "two", "ada", true));
  EXPECT_FALSE(registry->Add(manifest, "three", "eve", true)) << "belongs to another user";
  EXPECT_FALSE(registry->Add(Manifest("hello", "9.0.0"), "three", "eve", true))
      << "the name belongs to another user";
  EXPECT_TRUE(registry->Add(manifest, "three", "root", true, /*admin=*/true));
  EXPECT_EQ(registry->ReadComponent(*registry->Find("hello")), "three");
}

// Quotas count the components that have names, so others must not stay on the disk.
TEST_F(RegistryTest, AReplacedComponentLeavesTheDisk) {
  const auto components = [&] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(dir + "/components")) {
      found.insert(entry.path().stem());
    }
    return found;
  };
  const auto hashes = [](auto... contents) {
    return std::set<std::string>{host::Blake3Hex(contents)...};
  };
  for (const char* content : {"one", "two", "three", "three"}) {
    ASSERT_TRUE(registry->Add(Manifest("a", "0.1.0"), content, "ada", true));
  }
  EXPECT_EQ(components(), hashes("three"));
  ASSERT_TRUE(registry->Add(Manifest("b", "0.1.0"), "three", "ada", false));
  ASSERT_TRUE(registry->Prepare("four"));
  ASSERT_TRUE(registry->Add(Manifest("a", "0.1.0"), "four", "ada", true));
  registry->Discard("four");
  EXPECT_EQ(components(), hashes("three", "four")) << "another program has the component";
  EXPECT_EQ(registry->ReadComponent(*registry->Find("b")), "three");
}

TEST_F(RegistryTest, RemovesPrograms) {
  ASSERT_TRUE(registry->Add(Manifest("a", "0.1.0"), "1", "ada", false));
  ASSERT_TRUE(registry->Add(Manifest("a", "0.2.0"), "2", "ada", false));
  EXPECT_TRUE(registry->Remove("a@0.2.0"));
  EXPECT_EQ(registry->Find("a")->version, "0.1.0");
  EXPECT_TRUE(registry->Remove("a"));
  EXPECT_FALSE(registry->Find("a"));
  EXPECT_FALSE(registry->Remove("a"));
}

TEST_F(RegistryTest, VersionsThatDifferInBuildMetadataAreOrdered) {
  for (const char* version : {"1.0.0+b", "1.0.0", "0.9.0", "1.0.0+a"}) {
    ASSERT_TRUE(registry->Add(Manifest("a", version), version, "ada", false));
  }
  const auto all = registry->List();
  ASSERT_TRUE(all);
  std::vector<std::string> found;
  for (const auto& program : *all) found.push_back(program.version);
  EXPECT_EQ(found, (std::vector<std::string>{"0.9.0", "1.0.0", "1.0.0+a", "1.0.0+b"}));
}

TEST_F(RegistryTest, DetectsDamagedComponents) {
  ASSERT_TRUE(registry->Add(Manifest("a", "0.1.0"), "component", "ada", false));
  const auto found = *registry->Find("a");
  std::ofstream(dir + "/components/" + found.wasm_hash + ".wasm") << "comp0nent";
  auto read = registry->ReadComponent(found);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().text.find("install it again"), std::string::npos);
}

TEST_F(RegistryTest, RefusesBadManifests) {
  EXPECT_FALSE(registry->Add("", "x", "ada", false));
  EXPECT_FALSE(registry->Add(Manifest("../../etc", "0.1.0"), "x", "ada", false));
  EXPECT_FALSE(registry->Add(Manifest("hello", "../1"), "x", "ada", false));
}

TEST_F(RegistryTest, AUserHasAQuota) {
  ASSERT_TRUE(registry->Add(Manifest("a", "0.1.0"), "component", "ada", false));
  EXPECT_TRUE(registry->CheckQuota("ada", 1 << 20));
  const Status refused = registry->CheckQuota("ada", 4ull << 30);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("remove some"), std::string::npos) << refused.error().text;
  EXPECT_TRUE(registry->CheckQuota("bob", 4ull << 30)) << "another user has another quota";
  EXPECT_TRUE(registry->CheckQuota("ada", 4ull << 30, /*admin=*/true));
}

TEST_F(RegistryTest, OnlyTheManifestOfAFoundProgramIsRead) {
  // A user may have a thousand programs with large manifests.
  ASSERT_TRUE(registry->Add(Manifest("a", "0.1.0"), "one", "ada", false));
  ASSERT_TRUE(registry->Add(Manifest("a", "0.2.0"), "two", "ada", false));
  const std::vector<InstalledProgram> programs = *registry->List();
  for (const InstalledProgram& program : programs) EXPECT_EQ(program.manifest, "");
  EXPECT_EQ(registry->Find("a")->manifest, Manifest("a", "0.2.0"));
  EXPECT_EQ(registry->Find("a@0.1.0")->manifest, Manifest("a", "0.1.0"));
}

TEST_F(RegistryTest, AComponentThatIsNotAddedLeavesNoFile) {
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(dir + "/components"),
                         std::filesystem::directory_iterator());
  };
  ASSERT_TRUE(registry->Add(Manifest("a", "0.1.0"), "one", "ada", false));
  EXPECT_FALSE(registry->Add(Manifest("a", "0.1.0"), "two", "eve", true));
  EXPECT_EQ(files(), 1);
  ASSERT_TRUE(registry->Prepare("three"));
  EXPECT_EQ(files(), 2);
  registry->Discard("three");
  EXPECT_EQ(files(), 1);
  ASSERT_TRUE(registry->Prepare("one"));
  registry->Discard("one");
  EXPECT_EQ(files(), 1) << "a program has it";
  ASSERT_TRUE(registry->Prepare("four"));
  ASSERT_TRUE(registry->Add(Manifest("b", "0.1.0"), "four", "ada", false));
  registry->Discard("four");
  EXPECT_EQ(registry->ReadComponent(*registry->Find("b")), "four");
}

TEST_F(RegistryTest, ADamagedComponentIsRepairedByInstallingItAgain) {
  ASSERT_TRUE(registry->Add(Manifest("a", "0.1.0"), "component", "ada", false));
  const auto found = *registry->Find("a");
  std::ofstream(dir + "/components/" + found.wasm_hash + ".wasm") << "comp0nent";
  ASSERT_TRUE(registry->Add(Manifest("a", "0.1.0"), "component", "ada", false));
  EXPECT_EQ(registry->ReadComponent(found), "component");
}

TEST_F(RegistryTest, RemovesOldOrphanedComponents) {
  const std::string left = dir + "/components/" + std::string(64, 'a') + ".wasm";
  std::ofstream(left) << "half";
  registry = *Registry::Open(dir);
  EXPECT_TRUE(std::filesystem::exists(left)) << "another process may be about to index it";
  std::filesystem::last_write_time(
      left, std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  registry = *Registry::Open(dir);
  EXPECT_FALSE(std::filesystem::exists(left));
}

// From semver.org, rule 11.
TEST(Version, ComparesLikeSemver) {
  const char* ordered[] = {"1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta",
                           "1.0.0-beta",  "1.0.0-beta.2",  "1.0.0-beta.11",
                           "1.0.0-rc.1",  "1.0.0",         "2.0.0",
                           "2.1.0",       "2.1.1",         "2.1.10"};
  for (size_t i = 0; i < std::size(ordered); ++i) {
    for (size_t j = 0; j < std::size(ordered); ++j) {
      EXPECT_EQ(OlderVersion(ordered[i], ordered[j]), i < j) << ordered[i] << " " << ordered[j];
    }
  }
  EXPECT_FALSE(OlderVersion("1.0.0+a", "1.0.0+b"));
  EXPECT_TRUE(OlderVersion("9.0.0", "99999999999999999999.0.0"));
}

}  // namespace
}  // namespace pie::server
