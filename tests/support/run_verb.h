// The program inside a test: run_verb({"config", "check", "tiny"}) gives exit code and both
// streams.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/verbs.h"

namespace stretto {

struct VerbAnswer {
  int code = 0;
  std::string out, err;
};

// `columns`: the width of its lines; 0: as where nothing says one.
inline VerbAnswer run_verb(std::vector<std::string> words, int columns = 0) {
  ::setenv("COLUMNS", std::to_string(columns).c_str(), 1);
  words.insert(words.begin(), "stretto");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  VerbAnswer answer;
  answer.code = cli::run(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  answer.out = testing::internal::GetCapturedStdout();
  answer.err = testing::internal::GetCapturedStderr();
  return answer;
}

}  // namespace stretto
