// An installed program works from any folder, without the build and the sources.
#include <gtest/gtest.h>

#include "support/shell.h"
#include "support/temp_dir.h"

namespace stretto::test {
namespace {

const std::string kInstall = "'" STRETTO_CMAKE "' --install '" STRETTO_BUILD_DIR "'";

TEST(Install, TheProgramNeedsNothingButItself) {
  const TempDir dir;
  const std::string staged = dir / "stage", prefix = staged + "/opt/stretto";
  const ShellAnswer installed =
      shell("DESTDIR=" + staged + " " + kInstall + " --prefix /opt/stretto 2>&1");
  ASSERT_EQ(installed.code, 0) << installed.out;
  for (const char* file :
       {"bin/stretto", "share/bash-completion/completions/stretto",
        "share/zsh/site-functions/_stretto", "share/fish/vendor_completions.d/stretto.fish",
        "share/man/man1/stretto.1", "share/man/man1/stretto-train.1",
        "share/man/man5/stretto-config.5", "share/stretto/configs/runs/tiny.yaml",
        "share/doc/stretto/LICENSE", "share/doc/stretto/README.md",
        "share/doc/stretto/docs/configuration.md"}) {
    EXPECT_TRUE(std::filesystem::is_regular_file(prefix + "/" + file)) << file;
  }

  std::filesystem::create_directory(dir / "elsewhere");
  const auto run = [&](const std::string& command) {
    return shell("cd " + (dir / "elsewhere") + " && env -i PATH=" + prefix +
                 "/bin:/usr/bin:/bin HOME=" + dir.path() + " " + command + " 2>&1");
  };
  const ShellAnswer models = run("stretto models");
  EXPECT_EQ(models.code, 0) << models.out;
  EXPECT_NE(models.out.find("mpt-7b "), std::string::npos) << models.out;
  const ShellAnswer trained =
      run("stretto train -n 1 " + prefix + "/share/stretto/configs/runs/tiny.yaml train.steps=2");
  EXPECT_EQ(trained.code, 0) << trained.out;
  EXPECT_NE(trained.out.find("loss"), std::string::npos) << trained.out;
  for (const char* verb :
       {"plan mpt-7b --cluster h100 --gpus 8", "reference check", "config schema"}) {
    const ShellAnswer answer = run(std::string("stretto ") + verb);
    EXPECT_EQ(answer.code, 0) << answer.out;
  }
}

// Debian's zsh has another folder for what packages bring (`make package` installs there).
TEST(Install, ZshFindsWhatAPackageBrings) {
  const TempDir dir;
  const ShellAnswer installed =
      shell("DESTDIR=" + dir.path() + " " + kInstall + " --prefix /usr 2>&1");
  ASSERT_EQ(installed.code, 0) << installed.out;
  const char* folder =
      std::filesystem::exists("/etc/debian_version") ? "vendor-completions" : "site-functions";
  const std::string script = dir.path() + "/usr/share/zsh/" + folder + "/_stretto";
  EXPECT_TRUE(std::filesystem::is_regular_file(script)) << script;
}

// An empty element would be the current folder, in which anybody may have put a library.
TEST(Install, TheProgramThatWasBuiltSearchesNoCurrentFolder) {
  if (!has_command("readelf")) GTEST_SKIP() << "apt-get install binutils";
  const ShellAnswer dynamic = shell("readelf -d '" STRETTO_PROGRAM "'");
  EXPECT_NE(dynamic.out.find("libc.so"), std::string::npos) << dynamic.out;
  for (const char* empty : {"[:", "::", ":]"}) {
    EXPECT_EQ(dynamic.out.find(empty), std::string::npos) << dynamic.out;
  }
}

// It finds its libraries where the system has them, or the build found them: not in the build.
TEST(Install, NoPathOfTheBuildIsSearchedForLibraries) {
  if (!has_command("readelf")) GTEST_SKIP() << "apt-get install binutils";
  const TempDir dir;
  const ShellAnswer installed = shell(kInstall + " --prefix " + dir.path() + " 2>&1");
  ASSERT_EQ(installed.code, 0) << installed.out;
  const ShellAnswer dynamic = shell("readelf -d " + dir.path() + "/bin/stretto");
  EXPECT_NE(dynamic.out.find("libc.so"), std::string::npos) << dynamic.out;
  EXPECT_EQ(dynamic.out.find(STRETTO_SOURCE_DIR), std::string::npos) << dynamic.out;
  EXPECT_EQ(dynamic.out.find(STRETTO_BUILD_DIR), std::string::npos) << dynamic.out;
}

}  // namespace
}  // namespace stretto::test
