// Internals of the threads transport: what the ranks of one process share.
//
// A collective is an Op. Every rank posts its pointers; when all have done so, the Op is ready. Its
// work consists of independent blocks of elements, and any rank that waits takes blocks and works
// on them. So an Op completes once all ranks have *started* it and one of them waits: ranks that
// are still computing are not needed, and no order of waiting can deadlock.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace stretto::threads {

// Thrown in a rank that must stop because another one has: never the first error of a job.
class PeerStopped : public Error {
 public:
  using Error::Error;
};

// One per job.
struct Job {
  explicit Job(int n);

  void stop(const std::string& why);  // the first reason is kept
  std::string why() const;

  const int ranks;
  const bool spin;  // there are idle cores, so waiting ranks spin for a while before they sleep
  std::atomic<bool> stopped{false};
  std::vector<std::atomic<bool>> left;  // by world rank: its function has ended

 private:
  mutable std::mutex mutex_;
  std::string why_;
};

struct Call {  // what all ranks must agree on
  CommKind kind = CommKind::none;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int64_t count = 0;  // elements; of one part for reduce_scatter and all_gather
  Accumulate add = Accumulate::no;
  bool operator==(const Call&) const = default;
};

class Group;

class Op {
 public:
  Op(Group& group, const Call& call);

  const Call call;
  RecycledVector<const void*> in;  // by rank in the group
  RecycledVector<void*> out;
  RecycledVector<bool> posted;
  int missing;  // guarded by the group's mutex
  std::atomic<bool> ready{false};
  std::atomic<bool> complete{false};

  // split only: what each rank asked for, and the group it got
  RecycledVector<std::pair<int, int>> wishes;  // colour, key
  std::vector<std::pair<std::shared_ptr<Group>, int>> grants;

  void help(Group& group);  // works on blocks until none is left
  void give_up();           // after this returns, no block touches a rank's tensors
  bool small() const { return items_ <= 1; }

 private:
  void work(int64_t item);
  void reduce_block(int64_t part, int64_t begin, int64_t len);
  void copy_block(int64_t from, int64_t begin, int64_t len);

  int64_t block_;   // elements
  int64_t blocks_;  // per part
  int64_t items_;
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> finished_{0};
  std::atomic<int> active_{0};
  std::atomic<bool> given_up_{false};
};
using OpPtr = std::shared_ptr<Op>;

struct Message {  // a send or a receive that waits for its counterpart
  int from;
  int tag;
  const void* source = nullptr;
  void* target = nullptr;
  size_t bytes;
  RecycledVector<char> kept;  // small sends: a copy, so that the sender goes on
  std::atomic<bool> done{false};
};
using MessagePtr = std::shared_ptr<Message>;

struct Mailbox {  // one per receiving rank
  std::mutex mutex;
  std::condition_variable changed;
  std::list<MessagePtr, Recycled<MessagePtr>> sends;
  std::list<MessagePtr, Recycled<MessagePtr>> receives;
};

// Shared by all ranks of a communicator.
class Group {
 public:
  Group(std::shared_ptr<Job> job, std::string name, std::vector<int> world_ranks);

  OpPtr post(int rank, uint64_t seq, const Call& call, const void* in, void* out,
             std::pair<int, int> wish = {});
  void wait(Op& op, int rank);
  void complete(Op& op);

  // Returns nullptr if the message was received already or kept as a copy.
  MessagePtr send(int from, int to, int tag, ConstTensor t);
  MessagePtr receive(int from, int to, int tag, Tensor t);
  void wait(Message& message, Mailbox& box, int self, int peer, CommKind kind);
  static void give_up(const MessagePtr& message, Mailbox& box);

  int size() const { return static_cast<int>(world_ranks_.size()); }
  int world_rank(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }
  Mailbox& box(int rank) { return boxes_[static_cast<size_t>(rank)]; }
  Job& job() { return *job_; }
  const std::string& name() const { return name_; }

 private:
  template <typename Done, typename Lost>
  void sleep_until(std::mutex& mutex, std::condition_variable& changed, Done done, Lost lost,
                   int rank, CommKind kind);
  void make_splits(Op& op);
  void deliver(Message& to, const void* data, size_t bytes, int self);

  std::shared_ptr<Job> job_;
  std::string name_;
  std::vector<int> world_ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<OpPtr, Recycled<OpPtr>>
      open_;  // not yet posted by all; open_[0] has number first_open_
  uint64_t first_open_ = 0;
  std::vector<Mailbox> boxes_;
};

}  // namespace stretto::threads
