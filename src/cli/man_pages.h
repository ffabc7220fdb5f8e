// The manual, in roff: stretto(1), a page for each verb with those below it, and the keys of a
// configuration in stretto-config(5).
#pragma once

#include <string>
#include <vector>

#include "cli/outline.h"

namespace stretto::cli {

struct ManPage {
  std::string name;  // "stretto-train.1"
  std::string text;
};

std::vector<ManPage> man_pages(const Outline& root);

}  // namespace stretto::cli
