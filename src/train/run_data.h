// The data of a run: token sources that fit the model, and the samplers that draw from them.
#pragma once

#include <memory>

#include "config/config.h"
#include "data/sampler.h"
#include "train/data_mark.h"

namespace stretto {

struct RunData {
  std::unique_ptr<TokenSource> source;
  std::unique_ptr<TokenSource> eval_source;  // only with data.eval_path
  std::unique_ptr<Sampler> train;
  std::unique_ptr<Sampler> held_out;  // none where nothing is held out
  DataMark mark;                      // of `source`
  DataMark eval_mark;                 // of `eval_source`
};

// Opens what config.data names, or synthetic tokens. `config` has a definite seq_len. The ids of
// files are looked over by all ranks together, of which this one does number `part` of `parts`.
// Training leaves out a tail of data.path only if that tail is evaluated: with train.eval_every and
// without data.eval_path. Throws bad_config for data that do not fit the model's tokenizer,
// bad_data for ids that do not fit its vocabulary.
RunData open_run_data(const Config& config, int part, int parts);

// Trains on the first `tokens` from now on. The order of samples depends on their number, so a run
// that goes on keeps the number with which it began, even if it evaluates something else now.
void train_on(RunData& data, const Config& config, int64_t tokens);

// How many tokens there are before the tail that can be held out of data.path. Older versions
// always trained on this many, and did not record it.
int64_t tokens_before_tail(const Config& config, const TokenSource& source);

}  // namespace stretto
