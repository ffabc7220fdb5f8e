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
};

// Opens what config.data names, or synthetic tokens. `config` has a definite seq_len. The ids of
// files are looked over by all ranks together, of which this one does number `part` of `parts`.
// Throws bad_config for data that do not fit the model's tokenizer, bad_data for ids that do not
// fit its vocabulary.
RunData open_run_data(const Config& config, int part, int parts);

}  // namespace stretto
