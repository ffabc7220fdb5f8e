#include "comm/threads_group.h"

#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "base/cores.h"
#include "comm/reduce.h"

namespace stretto::threads {
namespace {

constexpr size_t kEagerBytes = 64 << 10;  // larger sends wait for their receive
constexpr int64_t kBlockBytes = 64 << 10;
// Waiting ranks wake up now and then, because a rank that stops the job cannot notify all mailboxes
// and groups: it does not know them.
constexpr auto kLookAgain = std::chrono::milliseconds(20);

}  // namespace

Job::Job(int n) : ranks(n), spin(usable_cores() >= n), left(static_cast<size_t>(n)) {}

void Job::stop(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!stopped.exchange(true)) why_ = why;
}

std::string Job::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

Op::Op(Group& group, const Call& what) : call(what), missing(group.size()) {
  const auto n = static_cast<size_t>(group.size());
  in.resize(n);
  out.resize(n);
  posted.resize(n);
  wishes.resize(n);
  const bool by_part = call.kind == CommKind::reduce_scatter || call.kind == CommKind::all_gather;
  block_ = kBlockBytes / static_cast<int64_t>(dtype_size(call.dtype));
  blocks_ = ceil_div(call.count, block_);
  items_ = blocks_ * (by_part ? group.size() : 1);
}

void Op::help(Group& group) {
  active_.fetch_add(1);
  while (!given_up_.load()) {
    const int64_t item = next_.fetch_add(1);
    if (item >= items_) break;
    work(item);
    if (finished_.fetch_add(1) + 1 == items_) group.complete(*this);
  }
  active_.fetch_sub(1);
}

void Op::give_up() {
  given_up_.store(true);
  while (active_.load() > 0) std::this_thread::yield();
}

void Op::work(int64_t item) {
  const int64_t part = item / blocks_;
  const int64_t begin = item % blocks_ * block_;
  const int64_t len = std::min(block_, call.count - begin);
  if (call.kind == CommKind::all_reduce || call.kind == CommKind::reduce_scatter) {
    reduce_block(part, begin, len);
  } else {
    copy_block(call.kind == CommKind::broadcast ? call.root : part, begin, len);
  }
}

void Op::reduce_block(int64_t part, int64_t begin, int64_t len) {
  const bool scatter = call.kind == CommKind::reduce_scatter;
  const size_t n = in.size();
  const int64_t from = (scatter ? part * call.count : 0) + begin;
  void* result = at(out[static_cast<size_t>(part)], begin, call.dtype);
  RecycledVector<const void*> sources;
  sources.reserve(n + 1);
  if (call.add == Accumulate::yes) sources.push_back(result);
  for (size_t r = 0; r < n; ++r) sources.push_back(at(in[r], from, call.dtype));
  ordered_reduce(call.dtype, call.op, result, sources.data(), static_cast<int>(sources.size()),
                 len);
  if (scatter) return;
  const size_t bytes = static_cast<size_t>(len) * dtype_size(call.dtype);
  for (size_t r = 1; r < n; ++r) std::memcpy(at(out[r], begin, call.dtype), result, bytes);
}

void Op::copy_block(int64_t from, int64_t begin, int64_t len) {
  const void* source = at(in[static_cast<size_t>(from)], begin, call.dtype);
  const int64_t offset = call.kind == CommKind::all_gather ? from * call.count : 0;
  for (void* base : out) {
    void* target = at(base, offset + begin, call.dtype);
    if (target == source) continue;
    std::memcpy(target, source, static_cast<size_t>(len) * dtype_size(call.dtype));
  }
}

Group::Group(std::shared_ptr<Job> job, std::string name, std::vector<int> world_ranks)
    : job_(std::move(job)),
      name_(std::move(name)),
      world_ranks_(std::move(world_ranks)),
      boxes_(world_ranks_.size()) {}

OpPtr Group::post(int rank, uint64_t seq, const Call& call, const void* in, void* out,
                  std::pair<int, int> wish) {
  if (job_->stopped.load()) {
    throw PeerStopped(ExitCode::peer_lost,
                      fmt::format("rank {}: {} of group {} not started: {}", world_rank(rank),
                                  name_of(call.kind), name_, job_->why()));
  }
  const auto r = static_cast<size_t>(rank);
  OpPtr op;
  {
    const std::lock_guard lock(mutex_);
    const size_t index = seq - first_open_;
    if (index == open_.size()) open_.push_back(make_recycled<Op>(*this, call));
    op = open_[index];
    if (op->call != call) {
      const std::string what = fmt::format(
          "rank {} calls {} of {} elements of {} where its peers in group {} call {} of {} of {}",
          world_rank(rank), name_of(call.kind), call.count, dtype_name(call.dtype), name_,
          name_of(op->call.kind), op->call.count, dtype_name(op->call.dtype));
      throw Error(ExitCode::internal, what, "all ranks of a group must make the same calls");
    }
    op->in[r] = in;
    op->out[r] = out;
    op->wishes[r] = wish;
    op->posted[r] = true;
    if (--op->missing > 0) return op;
    // Ranks post in order, so the oldest open operation is complete first.
    open_.pop_front();
    ++first_open_;
    if (call.kind == CommKind::split) make_splits(*op);
    op->ready.store(true);
    if (call.kind == CommKind::split || call.kind == CommKind::barrier || call.count == 0) {
      op->complete.store(true);
    }
    changed_.notify_all();
  }
  if (op->small() && !op->complete.load()) op->help(*this);
  return op;
}

void Group::complete(Op& op) {
  const std::lock_guard lock(mutex_);
  op.complete.store(true);
  changed_.notify_all();
}

template <typename Done, typename Lost>
void Group::sleep_until(std::mutex& mutex, std::condition_variable& changed, Done done, Lost lost,
                        int rank, CommKind kind) {
  if (done() || (job_->spin && watch_until(done))) return;
  std::unique_lock lock(mutex);
  while (!done()) {
    const int lost_rank = lost();
    if (job_->stopped.load() || lost_rank >= 0) {
      const std::string why =
          job_->stopped.load() ? job_->why() : fmt::format("rank {} has left the job", lost_rank);
      throw PeerStopped(ExitCode::peer_lost,
                        fmt::format("rank {} stopped waiting in {} of group {}: {}",
                                    world_rank(rank), name_of(kind), name_, why));
    }
    changed.wait_for(lock, kLookAgain);
  }
}

void Group::wait(Op& op, int rank) {
  if (op.complete.load()) return;
  const auto nobody = [] { return -1; };
  const auto absent = [&] {
    for (size_t r = 0; r < op.posted.size(); ++r) {
      if (!op.posted[r] && job_->left[static_cast<size_t>(world_ranks_[r])].load()) {
        return world_ranks_[r];
      }
    }
    return -1;
  };
  sleep_until(
      mutex_, changed_, [&] { return op.ready.load(); }, absent, rank, op.call.kind);
  op.help(*this);
  sleep_until(
      mutex_, changed_, [&] { return op.complete.load(); }, nobody, rank, op.call.kind);
}

void Group::make_splits(Op& op) {
  std::map<int, std::vector<std::pair<int, int>>> colours;  // colour -> (key, rank)
  for (int r = 0; r < size(); ++r) {
    const auto [colour, key] = op.wishes[static_cast<size_t>(r)];
    if (colour >= 0) colours[colour].emplace_back(key, r);
  }
  op.grants.resize(world_ranks_.size());
  for (auto& [colour, members] : colours) {
    std::sort(members.begin(), members.end());
    std::vector<int> ranks;
    for (const auto& [key, r] : members) ranks.push_back(world_rank(r));
    // Each member has its own name for the new group; errors use that of the first member.
    auto group = std::make_shared<Group>(job_, name_ + "/" + std::to_string(colour), ranks);
    for (size_t i = 0; i < members.size(); ++i) {
      op.grants[static_cast<size_t>(members[i].second)] = {group, static_cast<int>(i)};
    }
  }
}

void Group::deliver(Message& to, const void* data, size_t bytes, int self) {
  if (to.bytes != bytes) {
    throw Error(ExitCode::internal,
                fmt::format("rank {}: a message of {} bytes meets a receive of {}, group {}",
                            world_rank(self), bytes, to.bytes, name_),
                "sender and receiver must agree on the shape");
  }
  if (bytes > 0) std::memcpy(to.target, data, bytes);
}

MessagePtr Group::send(int from, int to, int tag, ConstTensor t) {
  Mailbox& mail = box(to);
  const std::lock_guard lock(mail.mutex);
  const auto it =
      std::find_if(mail.receives.begin(), mail.receives.end(),
                   [&](const MessagePtr& m) { return m->from == from && m->tag == tag; });
  if (it != mail.receives.end()) {
    deliver(**it, t.data(), t.bytes(), from);
    (*it)->done.store(true);
    mail.receives.erase(it);
    mail.changed.notify_all();
    return nullptr;
  }
  auto message = make_recycled<Message>();
  message->from = from;
  message->tag = tag;
  message->bytes = t.bytes();
  message->source = t.data();
  const bool eager = t.bytes() <= kEagerBytes;
  if (eager) {
    message->kept.assign(t.as<char>(), t.as<char>() + t.bytes());
    message->source = message->kept.data();
  }
  mail.sends.push_back(message);
  return eager ? nullptr : message;
}

MessagePtr Group::receive(int from, int to, int tag, Tensor t) {
  Mailbox& mail = box(to);
  auto message = make_recycled<Message>();
  message->from = from;
  message->tag = tag;
  message->bytes = t.bytes();
  message->target = t.data();
  const std::lock_guard lock(mail.mutex);
  const auto it = std::find_if(mail.sends.begin(), mail.sends.end(), [&](const MessagePtr& m) {
    return m->from == from && m->tag == tag;
  });
  if (it == mail.sends.end()) {
    mail.receives.push_back(message);
    return message;
  }
  deliver(*message, (*it)->source, (*it)->bytes, to);
  (*it)->done.store(true);
  mail.sends.erase(it);
  mail.changed.notify_all();
  return nullptr;
}

void Group::wait(Message& message, Mailbox& mail, int self, int peer, CommKind kind) {
  const auto absent = [&] {
    return job_->left[static_cast<size_t>(world_rank(peer))].load() ? world_rank(peer) : -1;
  };
  sleep_until(
      mail.mutex, mail.changed, [&] { return message.done.load(); }, absent, self, kind);
}

void Group::give_up(const MessagePtr& message, Mailbox& mail) {
  const std::lock_guard lock(mail.mutex);
  mail.sends.remove(message);
  mail.receives.remove(message);
}

}  // namespace stretto::threads
