// The communicator of a rank that is alone. Because of it no other file needs to ask whether there
// is only one rank.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <list>
#include <vector>

#include "comm/abort.h"
#include "comm/comm.h"
#include "comm/reduce.h"

namespace stretto {
namespace {

class SelfComm final : public Comm {
 public:
  SelfComm(const std::string& name, std::shared_ptr<RankMonitor> monitor)
      : Comm(name, std::move(monitor)) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  const char* transport() const override { return "self"; }

  void abort(int exit_code, const std::string& message) override {
    report_before_exit(monitor().board(), exit_code, message);
    std::_Exit(exit_code);
  }

 protected:
  RequestPtr do_all_reduce(Tensor, ReduceOp) override { return nullptr; }
  RequestPtr do_reduce_scatter(Tensor out, ConstTensor in, Accumulate add) override {
    if (add == Accumulate::no) return copy(out, in);
    const void* sources[] = {out.data(), in.data()};
    ordered_reduce(in.dtype(), ReduceOp::sum, out.data(), sources, 2, in.count());
    return nullptr;
  }
  RequestPtr do_all_gather(Tensor out, ConstTensor in) override { return copy(out, in); }
  RequestPtr do_broadcast(Tensor, int) override { return nullptr; }
  RequestPtr do_barrier() override { return nullptr; }
  std::unique_ptr<Comm> do_split(int colour, int /*key*/, const std::string& name) override {
    if (colour < 0) return nullptr;
    return std::make_unique<SelfComm>(name, shared_monitor());
  }

  // A message to oneself is kept as a copy until it is received.
  RequestPtr do_send(ConstTensor t, int, int tag) override {
    for (auto it = receives_.begin(); it != receives_.end(); ++it) {
      if ((*it)->tag != tag) continue;
      deliver(**it, t.data(), t.bytes());
      receives_.erase(it);
      return nullptr;
    }
    const auto* begin = t.as<char>();
    kept_.push_back({tag, std::vector<char>(begin, begin + t.bytes())});
    return nullptr;
  }

  RequestPtr do_recv(Tensor t, int, int tag) override {
    auto posted = std::make_shared<Posted>(Posted{tag, t, false});
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (it->tag != tag) continue;
      deliver(*posted, it->bytes.data(), it->bytes.size());
      kept_.erase(it);
      return nullptr;
    }
    receives_.push_back(posted);
    return std::make_unique<Receive>(std::move(posted));
  }

 private:
  struct Kept {
    int tag;
    std::vector<char> bytes;
  };
  struct Posted {
    int tag;
    Tensor to;
    bool done;
  };
  class Receive final : public Request {
   public:
    explicit Receive(std::shared_ptr<Posted> posted) : posted_(std::move(posted)) {}
    void wait() override {
      STRETTO_CHECK(posted_->done, "rank 0 waits for a message it never sent to itself, tag {}",
                    posted_->tag);
    }
    bool done() override { return posted_->done; }

   private:
    std::shared_ptr<Posted> posted_;
  };

  static RequestPtr copy(Tensor out, ConstTensor in) {
    if (out.data() != in.data() && in.bytes() > 0) std::memcpy(out.data(), in.data(), in.bytes());
    return nullptr;
  }

  static void deliver(Posted& posted, const void* data, size_t bytes) {
    STRETTO_CHECK(posted.to.bytes() == bytes, "message of {} bytes into {}", bytes,
                  posted.to.bytes());
    if (bytes > 0) std::memcpy(posted.to.data(), data, bytes);
    posted.done = true;
  }

  std::list<Kept> kept_;
  std::list<std::shared_ptr<Posted>> receives_;
};

}  // namespace

std::unique_ptr<Comm> make_self_comm(const std::string& name) {
  auto monitor = std::make_shared<RankMonitor>(StatusBoard::in_process(1), 0, 0);
  return std::make_unique<SelfComm>(name, std::move(monitor));
}

}  // namespace stretto
