// Every rule, broken once: the message, the fix, the place and the severity. The last test makes
// sure that no rule lacks its case.
#include "config/rules.h"

#include <rapidcheck.h>

#include <set>

#include "config/registry.h"
#include "config/rule_cases.h"
#include "config/schema.h"
#include "config/support.h"

namespace stretto {
namespace {

using test::error_of;

TEST(Rules, EveryBrokenConfigurationIsExplained) {
  for (const Case& c : cases()) {
    std::vector<std::string> words = {"tiny"};
    words.insert(words.end(), c.words.begin(), c.words.end());
    SCOPED_TRACE(std::string(c.rule) + ": " + c.words.back());
    const ResolvedConfig resolved = load_config(words);
    bool found = false;
    std::string said;
    for (const Finding& finding : check_config(resolved.config)) {
      if (finding.rule != c.rule) continue;
      const std::string text = describe(finding, resolved);
      said += text + "\nfix: " + finding.fix + "\n";
      if (!test::contains(text, c.message)) continue;
      found = true;
      EXPECT_EQ(finding.severity, c.severity);
      EXPECT_CONTAINS(finding.fix, c.fix);
      EXPECT_NE(find_key(finding.key), nullptr);
    }
    EXPECT_TRUE(found) << "wanted: " << c.message << "\nsaid: " << said;
    if (c.severity == Severity::error) {
      EXPECT_EQ(error_of([&] { require_valid(resolved); }).code(), ExitCode::bad_config);
    } else {
      EXPECT_NO_THROW(require_valid(resolved));
    }
  }
}

TEST(Rules, WhatFollowsFromAValueOutOfRangeIsNoErrorOfItsOwn) {
  const Config c = load_config({"tiny", "model.hidden=4611686018427387904"}).config;
  const std::vector<Finding> findings = check_config(c);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].key, "model.hidden");
}

TEST(Rules, ADegreeThatDividesNothingIsOneError) {
  const Config c = load_config({"tiny", "parallel.tp=3"}).config;
  std::vector<std::string> errors;
  for (const Finding& f : check_config(c)) {
    if (f.severity == Severity::error) errors.emplace_back(f.rule);
  }
  EXPECT_EQ(errors, std::vector<std::string>{"heads-tp"});
}

TEST(Rules, EveryRuleHasACase) {
  std::set<std::string> tested = {"engine"};  // engine_rule_test.cpp
  for (const Case& c : cases()) tested.insert(c.rule);
  for (const std::string& name : rule_names()) EXPECT_TRUE(tested.count(name)) << name;
}

TEST(Rules, MessagesPointIntoTheFile) {
  const ResolvedConfig resolved = load_config_text(
      "# mine\nmodel:\n  name: tiny\n  heads: 8\nparallel:\n  tp: 3\n", "configs/my.yaml");
  const Error error = error_of([&] { require_valid(resolved); });
  EXPECT_CONTAINS(std::string(error.what()),
                  "configs/my.yaml:6:7  parallel.tp: 3\n"
                  "    does not divide model.heads: 8 (configs/my.yaml:4)");
  EXPECT_EQ(error.hint(), "use 1, 2, 4 or 8");
}

TEST(Rules, WithoutOriginsThereAreNoPlaces) {
  Config c = load_config({"tiny"}).config;
  c.parallel.tp = 8;
  const std::string text = error_of([&] { require_valid(c); }).what();
  EXPECT_CONTAINS(text, "parallel.tp: 8\n    does not divide model.heads: 4");
  EXPECT_FALSE(test::contains(text, "default"));
}

TEST(Rules, RaggedMicroBatchesAreLegal) {
  const Config c = load_config({"tiny", "global_batch=48", "micro_batch=11"}).config;
  EXPECT_TRUE(check_config(c).empty());
}

// What other stacks' softmax kernels ask of heads and micro-batch, our own do not.
TEST(Rules, AGpuTakesAnyHeadsAndMicroBatch) {
  const Config c = load_config({"tiny", "device=cuda", "parallel.tp=4", "micro_batch=2"}).config;
  for (const Finding& f : check_config(c)) EXPECT_NE(f.key, "micro_batch") << f.message;
}

TEST(Rules, AllSequencesThatAGpuTakesAreLegal) {
  for (const char* micro_batch : {"micro_batch=65535", "micro_batch=auto"}) {
    EXPECT_NO_THROW(
        require_valid(load_config({"tiny", "device=cuda", "global_batch=131070", micro_batch})));
  }
  EXPECT_NO_THROW(require_valid(load_config({"tiny", "global_batch=65536", "micro_batch=65536"})));
}

TEST(Rules, WhatTheTablesRanIsLegal) {
  EXPECT_NO_THROW(require_valid(
      load_config({"bloom-prequel-72x14336h64", "parallel.dp=8", "parallel.tp=4", "parallel.pp=12",
                   "parallel.zero=1", "micro_batch=2", "global_batch=2048", "device=cuda"})));
  EXPECT_NO_THROW(require_valid(
      load_config({"fugaku-30b", "parallel.tp=4", "parallel.pp=48", "global_batch=1536"})));
  EXPECT_NO_THROW(
      require_valid(load_config({"mpt-70b", "parallel.dp=128", "parallel.zero=FULL_SHARD",
                                 "global_batch=2048", "device=cuda", "precision=amp_fp8"})));
}

TEST(Rules, EmbeddingAndHeadMayMakeStagesEven) {
  const auto advised = [](const char* partition) {
    const auto findings =
        check_config(load_config({"tiny", "parallel.pp=3", "global_batch=12", partition}).config);
    return std::any_of(findings.begin(), findings.end(),
                       [](const Finding& f) { return f.rule == std::string("even-stages"); });
  };
  EXPECT_TRUE(advised("parallel.partition=transformer"));  // four layers
  EXPECT_FALSE(advised("parallel.partition=transformer+embedding"));
}

TEST(Rules, ExtremeNumbersNeverCrash) {
  const auto any = rc::gen::element<int64_t>(INT64_MIN, -1, 0, 1, 2, 3, 4, 6, 8, 12, 64, 1000003,
                                             int64_t{1} << 40, INT64_MAX);
  EXPECT_TRUE(rc::check("every finding has a reason and a fix", [&] {
    Config c = load_config({"tiny"}).config;
    for (const Key& key : config_keys()) {
      const bool number = key.type == ValueType::count || key.type == ValueType::bytes;
      if (number && *rc::gen::inRange(0, 40) == 0) key.set(c, *any);
    }
    c.parallel.zero = *rc::gen::inRange(-1, 5);
    c.parallel.partition =
        Partition(*rc::gen::element<std::string>("transformer", "[1]", "[2,2]", "[", "[-1]"));
    for (const Finding& f : check_config(c)) {
      RC_ASSERT(!f.fix.empty());
      RC_ASSERT(!f.message.empty());
    }
  }));
}

// Other rules multiply degrees and batches: 2^64 with these.
TEST(Rules, WhereSizesAreTooLargeNothingElseIsAsked) {
  const Config c = load_config({"tiny", "parallel.dp=1048576", "parallel.pp=1048576",
                                "micro_batch=16777216", "parallel.schedule=interleaved"})
                       .config;
  const std::vector<Finding> findings = check_config(c);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].rule, std::string("world-size"));
}

}  // namespace
}  // namespace stretto
