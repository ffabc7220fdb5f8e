// `stretto flops`: activations under every way of checkpointing.
#include "cli/memory_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "account/flops.h"
#include "backend/cuda/cuda_options.h"
#include "config/reader.h"
#include "support/run_verb.h"

namespace stretto::cli {
namespace {

constexpr auto kActivations = static_cast<size_t>(MemoryTerm::activations);

TEST(MemoryTable, EveryModeHasItsOwnColumn) {
  for (const Checkpointing mode : kCheckpointings) {
    const std::string word = std::string("activation_checkpointing=") + name_of(mode);
    const Config config = load_config({"tiny", "parallel.pp=2", "micro_batch=2", word}).config;
    const std::vector<StageMemory> stages = stage_memory(config);
    ASSERT_EQ(stages.size(), 2u);
    const nlohmann::json rows = memory_json(stages);
    for (size_t i = 0; i < stages.size(); ++i) {
      const nlohmann::json& by_mode = rows[i]["activations_by_checkpointing"];
      EXPECT_EQ(by_mode.size(), std::size(kCheckpointings));
      EXPECT_EQ(by_mode[name_of(mode)], stages[i].totals.by_term[kActivations]) << word;
      EXPECT_EQ(stages[i].host, 0u);
    }
    const std::string text = memory_text(config, stages, 200);
    for (const Checkpointing column : kCheckpointings) {
      EXPECT_NE(text.find(name_of(column)), std::string::npos) << text;
    }
  }
}

TEST(MemoryTable, LogitsInTheMemoryOfGradientsAreNamed) {
  const Config config = load_config({"tiny", "parallel.pp=2", "micro_batch=8"}).config;
  const std::vector<StageMemory> stages = stage_memory(config);
  const size_t logits = 8u * 128 * 256 * sizeof(float);  // sequences, tokens, words
  EXPECT_EQ(stages[0].shared_logits, 0u);
  EXPECT_EQ(stages[1].shared_logits, logits);
  EXPECT_LT(stages[1].totals.by_term[static_cast<size_t>(MemoryTerm::logits)], logits);
  EXPECT_EQ(memory_json(stages)[1]["shared_logits_bytes"], logits);
  const std::string text = memory_text(config, stages, 200);
  EXPECT_NE(text.find("logits of 1.00 MiB share memory"), std::string::npos) << text;
}

// Wide vocabularies: the gradients lie in the memory of the logits, which are counted.
TEST(MemoryTable, LogitsWithMemoryOfTheirOwnAreNot) {
  const Config config = load_config({"tiny", "model.vocab=4096"}).config;
  const std::vector<StageMemory> stages = stage_memory(config);
  EXPECT_EQ(stages[0].shared_logits, 0u);
  EXPECT_EQ(memory_text(config, stages, 200).find("share memory"), std::string::npos);
}

// `train` and the records of `bench` count it.
TEST(MemoryTable, WhatAGpuTakesBesideThePlanIsNamed) {
  const VerbAnswer cpu = run_verb({"flops", "mpt-125m"});
  EXPECT_EQ(cpu.out.find("driver"), std::string::npos) << cpu.out;
  const std::vector<std::string> words = {"mpt-125m", "device=cuda", "precision=fp32"};
  const VerbAnswer gpu = run_verb({"flops", words[0], words[1], words[2]});
  // 550 MiB of the driver, 64 each for products and partial sums
  EXPECT_NE(gpu.out.find("driver and libraries take 678.00 MiB"), std::string::npos) << gpu.out;
  EXPECT_EQ(gpu.out.find("of one older than Hopper") == std::string::npos, cuda_device_count() > 0);
  const nlohmann::json rows = memory_json(stage_memory(load_config(words).config));
  EXPECT_EQ(rows[0]["device_overhead_bytes"], 678 << 20);
}

// As in the records of `bench`: megatron-old counts what a rank holds whole once for each.
TEST(FlopsVerb, CountsRanksAsRecordsDo) {
  const VerbAnswer answer = run_verb({"flops", "tiny", "parallel.tp=2", "parallel.pp=2", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  const nlohmann::json conventions = nlohmann::json::parse(answer.out)["conventions"];
  const Config config = load_config({"tiny"}).config;
  for (const Convention c : kConventions) {
    const FlopsPerToken flops =
        flops_per_token(c, config.model, config.seq_len, Checkpointing::none, {2, 2});
    EXPECT_DOUBLE_EQ(conventions[name_of(c)]["model_flops_per_token"]["total"].get<double>(),
                     flops.model_total())
        << name_of(c);
  }
}

TEST(MemoryTable, MoreRecomputationHoldsLess) {
  const std::vector<StageMemory> stages = stage_memory(load_config({"tiny"}).config);
  const auto& held = stages[0].activations;
  for (size_t mode = 1; mode < held.size(); ++mode) EXPECT_LT(held[mode], held[mode - 1]) << mode;
}

}  // namespace
}  // namespace stretto::cli
