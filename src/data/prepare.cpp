#include "data/prepare.h"

#include <condition_variable>
#include <exception>
#include <mutex>

#include "base/error.h"
#include "data/encoder.h"
#include "data/workers.h"

namespace stretto {
namespace {

// Workers take blocks in order, encode them at their own speed, and write when it is their turn. A
// waiting worker holds one block, which limits the memory.
class Pipeline {
 public:
  Pipeline(CorpusReader& corpus, const Tokenizer& tokenizer, std::optional<int32_t> end,
           TokenWriter& writer, const std::function<void(const PrepareProgress&)>& progress)
      : corpus_(corpus), tokenizer_(tokenizer), end_(end), writer_(writer), progress_(progress) {}

  PrepareProgress run(int threads) {
    run_workers(threads, [this](int) { work(); });
    if (failure_) std::rethrow_exception(failure_);
    if (done_.tokens == 0) corpus_.refuse_as_empty();
    writer_.finish();
    return done_;
  }

 private:
  struct Encoded {
    std::vector<int32_t> ids;
    std::vector<size_t> ends;  // where in `ids` documents end
  };

  void work() {
    try {
      Encoder encoder(tokenizer_);
      CorpusBlock block;
      Encoded encoded;
      while (!failed() && corpus_.next(block)) {
        encode(block, encoder, encoded);
        if (!write(block, encoded)) return;
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      turn_changed_.notify_all();
    }
  }

  void encode(const CorpusBlock& block, Encoder& encoder, Encoded& out) const {
    out.ids.clear();
    out.ends.clear();
    corpus_.documents(block, [&](const CorpusReader::Part& part) {
      encoder.encode(part.text, out.ids, !part.begins);
      if (!part.ends) return;
      if (end_) out.ids.push_back(*end_);
      out.ends.push_back(out.ids.size());
    });
  }

  // Returns false if another worker has failed: the turn would never come.
  bool write(const CorpusBlock& block, const Encoded& encoded) {
    std::unique_lock lock(mutex_);
    turn_changed_.wait(lock, [&] { return turn_ == block.index || failure_; });
    if (failure_) return false;
    size_t begin = 0;
    for (const size_t end : encoded.ends) {
      writer_.append(std::span(encoded.ids).subspan(begin, end - begin));
      writer_.end_document();
      begin = end;
    }
    if (begin < encoded.ids.size()) writer_.append(std::span(encoded.ids).subspan(begin));
    done_.bytes += static_cast<int64_t>(block.bytes.size());
    done_.tokens += static_cast<int64_t>(encoded.ids.size());
    done_.documents += static_cast<int64_t>(encoded.ends.size());
    if (progress_) progress_(done_);
    ++turn_;
    turn_changed_.notify_all();
    return true;
  }

  bool failed() {
    const std::lock_guard lock(mutex_);
    return failure_ != nullptr;
  }

  CorpusReader& corpus_;
  const Tokenizer& tokenizer_;
  std::optional<int32_t> end_;
  TokenWriter& writer_;
  const std::function<void(const PrepareProgress&)>& progress_;

  std::mutex mutex_;
  std::condition_variable turn_changed_;
  int64_t turn_ = 0;
  PrepareProgress done_;
  std::exception_ptr failure_;
};

}  // namespace

PrepareProgress prepare_tokens(CorpusReader& corpus, const Tokenizer& tokenizer,
                               std::optional<int32_t> end_of_document, TokenWriter& writer,
                               int threads,
                               const std::function<void(const PrepareProgress&)>& progress) {
  return Pipeline(corpus, tokenizer, end_of_document, writer, progress).run(threads);
}

}  // namespace stretto
