// stretto completion SHELL: the script that lets a shell complete our words. Also what an
// installation puts below share/.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <span>

#include "base/embedded.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "cli/man_pages.h"
#include "cli/verbs.h"
#include "config/suggest.h"

namespace stretto {

std::span<const EmbeddedFile> embedded_completion();

namespace cli {
namespace {

constexpr struct {
  const char* shell;
  const char* file;  // of src/cli/completion
  const char* path;  // below share/
} kShells[] = {
    {"bash", "stretto.bash", "bash-completion/completions/stretto"},
    {"zsh", "stretto.zsh", "zsh/site-functions/_stretto"},
    {"fish", "stretto.fish", "fish/vendor_completions.d/stretto.fish"},
};

std::vector<std::string> shells() {
  std::vector<std::string> names;
  for (const auto& shell : kShells) names.emplace_back(shell.shell);
  return names;
}

std::string_view content(const std::string& name) {
  for (const EmbeddedFile& file : embedded_completion()) {
    if (file.name == name) return file.content;
  }
  STRETTO_CHECK(false, "{} is not embedded", name);
  return {};
}

void print_script(const std::string& name) {
  for (const auto& shell : kShells) {
    if (name == shell.shell) return fmt::print("{}", content(shell.file));
  }
  throw Error(ExitCode::usage, fmt::format("no completion for '{}'", printable(name)),
              did_you_mean(name, shells(), "use " + join_or(shells())));
}

void write_below(const std::filesystem::path& share, const std::string& path,
                 std::string_view text) {
  const std::filesystem::path file = share / path;
  std::filesystem::create_directories(file.parent_path());
  write_file_atomic(posix_fs(), file.string(), std::string(text));
}

}  // namespace

void write_share(const Outline& root, const std::string& share) {
  for (const auto& shell : kShells) write_below(share, shell.path, content(shell.file));
  for (const ManPage& page : man_pages(root)) {
    write_below(share, fmt::format("man/man{}/{}", page.name.back(), page.name), page.text);
  }
}

void add_completion(Command& app) {
  Command* verb = app.add_subcommand(
      "completion",
      "Prints the script that lets a shell complete these words\n\n"
      "Examples:\n"
      "  source <(stretto completion bash)     for this bash; in ~/.bashrc for all\n"
      "  stretto completion bash > ~/.local/share/bash-completion/completions/stretto\n"
      "  stretto completion zsh > ~/.zfunc/_stretto    with fpath+=~/.zfunc before compinit\n"
      "  stretto completion fish > ~/.config/fish/completions/stretto.fish\n\n"
      "An installed Stretto has them where the shells look.\n");
  const auto name = std::make_shared<std::string>();
  verb->add_option("SHELL", *name, "bash, zsh or fish")->required()->offers(shells());
  verb->callback([name] { print_script(*name); });
}

}  // namespace cli
}  // namespace stretto
