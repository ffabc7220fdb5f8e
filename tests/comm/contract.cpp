#include "comm/contract.h"

#include <cmath>
#include <limits>

namespace stretto::contract {
namespace {

constexpr DType kSums[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32};
constexpr DType kMoved[] = {DType::f32, DType::bf16, DType::u8, DType::u16, DType::f64};
// Odd, tiny, around block borders, larger than any internal block.
constexpr int64_t kCounts[] = {0, 1, 2, 7, 1023, 1025, 16385, 70001};

double value(int rank, int64_t i) { return static_cast<double>((rank * 3 + i) % 7); }

double sum_of(int n, int64_t i) {
  double sum = 0;
  for (int r = 0; r < n; ++r) sum += value(r, i);
  return sum;
}

void fill(Array& a, int rank, int64_t shift = 0) {
  for (int64_t i = 0; i < a.count(); ++i) a.set(i, value(rank, i + shift));
}

// Counts mismatches instead of one message per element.
template <typename Expected>
void expect_all(const Array& a, Expected expected, const char* what) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < a.count(); ++i) wrong += a.get(i) != expected(i);
  EXPECT_EQ(wrong, 0) << what << " of " << a.count() << " " << dtype_name(a.tensor().dtype());
}

void all_reduce_sum_of(Comm& comm, DType type, int64_t count) {
  Array a(type, count);
  fill(a, comm.rank());
  comm.all_reduce(a.tensor());
  expect_all(
      a, [&](int64_t i) { return sum_of(comm.size(), i); }, "sum");
}

void all_reduce_sums(Comm& comm) {
  for (const DType type : kSums) {
    for (const int64_t count : kCounts) all_reduce_sum_of(comm, type, count);
  }
  all_reduce_sum_of(comm, DType::f32, 700'001);  // in several pieces where messages are
}

void all_reduce_takes_maximum(Comm& comm) {
  for (const DType type : kSums) {
    Array a(type, 1001);
    for (int64_t i = 0; i < 1001; ++i) a.set(i, -5.0 - static_cast<double>((comm.rank() + i) % 3));
    comm.all_reduce(a.tensor(), ReduceOp::max);
    expect_all(
        a,
        [&](int64_t i) {
          double best = -100;
          for (int r = 0; r < comm.size(); ++r) {
            best = std::max(best, -5.0 - static_cast<double>((r + i) % 3));
          }
          return best;
        },
        "max");
  }
}

// An overflow flag must not disappear, whichever rank raises it and whatever comes after it. The
// last element has nobody's.
void a_nan_wins_every_maximum(Comm& comm) {
  const int64_t n = comm.size();
  for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    Array a(type, n + 1);
    for (int64_t i = 0; i <= n; ++i) {
      const auto other = static_cast<double>((comm.rank() + i) % 3 - 1);
      a.set(i, comm.rank() == i ? std::numeric_limits<double>::quiet_NaN() : other);
    }
    comm.all_reduce(a.tensor(), ReduceOp::max);
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_TRUE(std::isnan(a.get(i))) << "of rank " << i << ", " << dtype_name(type);
    }
    EXPECT_FALSE(std::isnan(a.get(n)));
  }
}

void reduce_scatter_adds_to_what_is_there(Comm& comm) {
  for (const int64_t count : {1, 7, 20000}) {
    Array in(DType::f32, count * comm.size()), out(DType::f32, count);
    fill(in, comm.rank());
    for (int64_t i = 0; i < count; ++i) out.set(i, 100);
    const RequestPtr request =
        comm.start_reduce_scatter(out.tensor(), in.tensor(), Accumulate::yes);
    if (request) request->wait();
    expect_all(
        out, [&](int64_t i) { return 100 + sum_of(comm.size(), comm.rank() * count + i); },
        "added sum");
  }
}

void reduce_scatter_gives_own_part(Comm& comm) {
  for (const DType type : kSums) {
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{33}, int64_t{20011}}) {
      Array in(type, count * comm.size());
      Array out(type, count);
      fill(in, comm.rank());
      comm.reduce_scatter(out.tensor(), in.tensor());
      const int64_t begin = count * comm.rank();
      expect_all(
          out, [&](int64_t i) { return sum_of(comm.size(), begin + i); }, "scatter");
      // The same in place.
      const Tensor own = in.tensor().slice(begin, begin + count);
      comm.reduce_scatter(own, in.tensor());
      if (count > 0) {
        EXPECT_EQ(std::memcmp(own.data(), out.tensor().data(), own.bytes()), 0);
      }
    }
  }
}

void all_gather_orders_parts(Comm& comm) {
  for (const DType type : kMoved) {
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{33}, int64_t{20011}}) {
      Array in(type, count);
      Array out(type, count * comm.size());
      fill(in, comm.rank());
      const auto expected = [&](int64_t i) {
        return value(static_cast<int>(i / count), i % count);
      };
      comm.all_gather(out.tensor(), in.tensor());
      expect_all(out, expected, "gather");
      Array same(type, count * comm.size());
      const Tensor own = same.tensor().slice(count * comm.rank(), count * (comm.rank() + 1));
      if (count > 0) std::memcpy(own.data(), in.tensor().data(), own.bytes());
      comm.all_gather(same.tensor(), own);
      expect_all(same, expected, "gather in place");
    }
  }
}

void broadcast_from_every_root(Comm& comm) {
  for (int root = 0; root < comm.size(); ++root) {
    for (const int64_t count : kCounts) {
      Array a(DType::bf16, count);
      fill(a, comm.rank());
      comm.broadcast(a.tensor(), root);
      expect_all(
          a, [&](int64_t i) { return value(root, i); }, "broadcast");
    }
  }
}

// Values whose sum depends on the order: only rank order 0, 1, ... passes, on every transport.
void sums_are_in_rank_order(Comm& comm) {
  const int64_t count = 1000 * comm.size();
  const auto hard = [](int rank, int64_t i) {
    return static_cast<float>(std::sin(static_cast<double>(i * 7 + rank * 131))) *
           std::pow(10.0f, static_cast<float>((i + rank) % 9 - 4));
  };
  Array a(DType::f32, count);
  for (int64_t i = 0; i < count; ++i) a.set(i, hard(comm.rank(), i));
  Array in = a;
  comm.all_reduce(a.tensor());
  expect_all(
      a,
      [&](int64_t i) {
        float sum = hard(0, i);
        for (int r = 1; r < comm.size(); ++r) sum += hard(r, i);
        return static_cast<double>(sum);
      },
      "ordered sum");
  Array part(DType::f32, 1000);
  Array whole(DType::f32, count);
  comm.reduce_scatter(part.tensor(), in.tensor());
  comm.all_gather(whole.tensor(), part.tensor());
  EXPECT_EQ(std::memcmp(whole.tensor().data(), a.tensor().data(), a.tensor().bytes()), 0);
}

// 256 + 1 = 256 in bf16: summing in f32 and rounding once keeps the ones.
void narrow_sums_round_once(Comm& comm) {
  Array a(DType::bf16, 3);
  for (int64_t i = 0; i < 3; ++i) a.set(i, comm.rank() == 0 ? 256 : 1);
  comm.all_reduce(a.tensor());
  const float exact = 256.0f + static_cast<float>(comm.size() - 1);
  expect_all(
      a, [&](int64_t) { return to_float(to_bf16(exact)); }, "bf16 sum");
}

void messages_go_round(Comm& comm) {
  const int next = (comm.rank() + 1) % comm.size();
  const int last = (comm.rank() + comm.size() - 1) % comm.size();
  for (const int64_t count : kCounts) {
    Array out(DType::f32, count);
    Array in(DType::f32, count);
    fill(out, comm.rank());
    const RequestPtr sent = comm.start_send(out.tensor(), next, 3);
    comm.recv(in.tensor(), last, 3);
    sent->wait();
    expect_all(
        in, [&](int64_t i) { return value(last, i); }, "message");
  }
}

// Receives are posted first and waited for in another order than the sends are made.
void messages_match_by_tag(Comm& comm) {
  const int next = (comm.rank() + 1) % comm.size();
  const int last = (comm.rank() + comm.size() - 1) % comm.size();
  constexpr int kMessages = 24;
  std::vector<Array> out;
  std::vector<Array> in;
  std::vector<RequestPtr> requests;
  for (int m = 0; m < kMessages; ++m) {
    in.emplace_back(DType::f32, 1 + m * 1500);
    out.emplace_back(DType::f32, 1 + m * 1500);
    fill(out.back(), comm.rank(), m);
  }
  for (int m = 0; m < kMessages; ++m) {
    requests.push_back(comm.start_recv(in[static_cast<size_t>(m)].tensor(), last, m));
  }
  for (int m = kMessages - 1; m >= 0; --m) {
    requests.push_back(comm.start_send(out[static_cast<size_t>(m)].tensor(), next, m));
  }
  for (const RequestPtr& request : requests) request->wait();
  for (int m = 0; m < kMessages; ++m) {
    expect_all(
        in[static_cast<size_t>(m)], [&](int64_t i) { return value(last, i + m); }, "tag");
  }
}

void same_tag_keeps_order(Comm& comm) {
  const int next = (comm.rank() + 1) % comm.size();
  const int last = (comm.rank() + comm.size() - 1) % comm.size();
  std::vector<Array> out;
  std::vector<RequestPtr> requests;
  for (int m = 0; m < 10; ++m) {
    out.emplace_back(DType::i32, 1);
    out.back().set(0, m);
  }
  for (int m = 0; m < 10; ++m) {
    requests.push_back(comm.start_send(out[static_cast<size_t>(m)].tensor(), next));
  }
  for (int m = 0; m < 10; ++m) {
    Array in(DType::i32, 1);
    comm.recv(in.tensor(), last);
    EXPECT_EQ(in.get(0), m);
  }
}

// Many started collectives of all kinds and sizes, waited for in a different order on every rank.
void many_in_flight(Comm& comm) {
  constexpr int kOps = 60;
  std::vector<Array> a;
  std::vector<Array> b;
  for (int k = 0; k < kOps; ++k) {
    const int64_t count = (k * 977) % 30011;
    a.emplace_back(DType::f32, count * (k % 3 == 1 ? comm.size() : 1));
    b.emplace_back(DType::f32, count * (k % 3 == 2 ? comm.size() : 1));
    fill(a.back(), comm.rank(), k);
  }
  std::vector<RequestPtr> requests;
  for (size_t k = 0; k < kOps; ++k) {
    if (k % 3 == 0) requests.push_back(comm.start_all_reduce(a[k].tensor()));
    if (k % 3 == 1) requests.push_back(comm.start_reduce_scatter(b[k].tensor(), a[k].tensor()));
    if (k % 3 == 2) requests.push_back(comm.start_all_gather(b[k].tensor(), a[k].tensor()));
  }
  for (size_t k = 0; k < kOps; ++k) {
    requests[(k * 7 + static_cast<size_t>(comm.rank()) * 13) % kOps]->wait();
  }
  for (int k = 0; k < kOps; ++k) {
    const Array& in = a[static_cast<size_t>(k)];
    const Array& out = b[static_cast<size_t>(k)];
    if (k % 3 == 0) {
      expect_all(
          in, [&](int64_t i) { return sum_of(comm.size(), i + k); }, "flying all_reduce");
    } else if (k % 3 == 1) {
      const int64_t begin = out.count() * comm.rank();
      expect_all(
          out, [&](int64_t i) { return sum_of(comm.size(), i + begin + k); },
          "flying reduce_scatter");
    } else {
      expect_all(
          out,
          [&](int64_t i) { return value(static_cast<int>(i / in.count()), i % in.count() + k); },
          "flying all_gather");
    }
  }
}

// Rank 0 waits for the sum before it sends; the others receive before they wait for the sum. All
// have started the sum, so nothing may stand still.
void started_needs_no_partner_in_wait(Comm& comm) {
  Array a(DType::f32, 100003);
  fill(a, comm.rank());
  RequestPtr sum = comm.start_all_reduce(a.tensor());
  Array token(DType::i32, 1);
  if (comm.rank() == 0) {
    sum->wait();
    token.set(0, 17);
    for (int r = 1; r < comm.size(); ++r) comm.send(token.tensor(), r);
  } else {
    comm.recv(token.tensor(), 0);
    EXPECT_EQ(token.get(0), 17);
    sum->wait();
  }
  expect_all(
      a, [&](int64_t i) { return sum_of(comm.size(), i); }, "sum");
}

void done_becomes_true(Comm& comm) {
  Array a(DType::f32, 50000);
  fill(a, comm.rank());
  const RequestPtr request = comm.start_all_reduce(a.tensor());
  while (!request->done()) {
  }
  request->wait();
  expect_all(
      a, [&](int64_t i) { return sum_of(comm.size(), i); }, "polled sum");
  comm.barrier();
}

void destructor_waits(Comm& comm) {
  Array a(DType::f32, 50000);
  fill(a, comm.rank());
  { const RequestPtr request = comm.start_all_reduce(a.tensor()); }
  expect_all(
      a, [&](int64_t i) { return sum_of(comm.size(), i); }, "dropped sum");
}

void split_orders_by_key(Comm& comm) {
  const int n = comm.size();
  const auto half = comm.split(comm.rank() % 2, n - comm.rank(), "half");
  const int members = comm.rank() % 2 == 0 ? (n + 1) / 2 : n / 2;
  ASSERT_EQ(half->size(), members);
  EXPECT_EQ(half->name(), "half");
  EXPECT_STREQ(half->transport(), comm.transport());
  EXPECT_EQ(half->rank(), members - 1 - comm.rank() / 2);  // larger ranks have smaller keys
  Array a(DType::i32, 5);
  for (int64_t i = 0; i < 5; ++i) a.set(i, comm.rank());
  half->all_reduce(a.tensor());
  int sum = 0;
  for (int r = comm.rank() % 2; r < n; r += 2) sum += r;
  expect_all(
      a, [&](int64_t) { return sum; }, "sum of half");
  // Again from the part, and with ranks that stay out.
  const auto pair = half->split(half->rank() < 2 ? 0 : -1, half->rank(), "pair");
  EXPECT_EQ(pair != nullptr, half->rank() < 2);
  if (pair) pair->barrier();
  // Groups do not disturb each other, nor the parent.
  RequestPtr outer = comm.start_all_reduce(a.tensor());
  half->barrier();
  outer->wait();
}

void counters_are_ring_volumes(Comm& comm) {
  const auto n = static_cast<uint64_t>(comm.size());
  Array whole(DType::f32, 120 * comm.size());
  Array part(DType::f32, 120), received(DType::f32, 120);
  comm.reset_counters();
  comm.all_reduce(whole.tensor());
  comm.reduce_scatter(part.tensor(), whole.tensor());
  comm.all_gather(whole.tensor(), part.tensor());
  comm.broadcast(whole.tensor(), 0);
  const RequestPtr sent = comm.start_send(part.tensor(), (comm.rank() + 1) % comm.size());
  comm.recv(received.tensor(), (comm.rank() + comm.size() - 1) % comm.size());
  sent->wait();
  const CommCounters& c = comm.counters();
  EXPECT_EQ(c.all_reduce_bytes, 2 * (n - 1) * 480);
  EXPECT_EQ(c.reduce_scatter_bytes, (n - 1) * 480);
  EXPECT_EQ(c.all_gather_bytes, (n - 1) * 480);
  EXPECT_EQ(c.broadcast_bytes, (n - 1) * 480);
  EXPECT_EQ(c.send_bytes, 480u);
  EXPECT_EQ(c.calls, 6u);
  EXPECT_GT(c.seconds, 0);
}

void recorder_knows_the_last_calls(Comm& comm) {
  Array a(DType::f32, 3);
  comm.all_reduce(a.tensor());
  comm.barrier();
  const auto last = comm.monitor().recorder().last(2);
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].kind, CommKind::all_reduce);
  EXPECT_EQ(last[0].bytes, 12u);
  EXPECT_EQ(last[0].state, FlightRecorder::State::done);
  EXPECT_EQ(last[1].kind, CommKind::barrier);
  EXPECT_EQ(last[1].seq, last[0].seq + 1);
}

void wrong_shapes_are_refused(Comm& comm) {
  Array a(DType::f32, 7);
  Array b(DType::f32, 7 * comm.size() + 1);
  Array u(DType::u8, 7);
  EXPECT_THROW(comm.all_gather(b.tensor(), a.tensor()), Error);
  EXPECT_THROW(comm.all_reduce(u.tensor()), Error);
  EXPECT_THROW(comm.broadcast(a.tensor(), comm.size()), Error);
  EXPECT_THROW(comm.send(a.tensor(), -1), Error);
  comm.barrier();
}

}  // namespace

const std::vector<Named>& cases() {
  static const std::vector<Named> all = {
      {"AllReduceSums", all_reduce_sums},
      {"AllReduceTakesMaximum", all_reduce_takes_maximum},
      {"ANanWinsEveryMaximum", a_nan_wins_every_maximum},
      {"ReduceScatterGivesOwnPart", reduce_scatter_gives_own_part},
      {"ReduceScatterAddsToWhatIsThere", reduce_scatter_adds_to_what_is_there},
      {"AllGatherOrdersParts", all_gather_orders_parts},
      {"BroadcastFromEveryRoot", broadcast_from_every_root},
      {"SumsAreInRankOrder", sums_are_in_rank_order},
      {"NarrowSumsRoundOnce", narrow_sums_round_once},
      {"MessagesGoRound", messages_go_round},
      {"MessagesMatchByTag", messages_match_by_tag},
      {"SameTagKeepsOrder", same_tag_keeps_order},
      {"ManyInFlight", many_in_flight},
      {"StartedNeedsNoPartnerInWait", started_needs_no_partner_in_wait},
      {"DoneBecomesTrue", done_becomes_true},
      {"DestructorWaits", destructor_waits},
      {"SplitOrdersByKey", split_orders_by_key},
      {"CountersAreRingVolumes", counters_are_ring_volumes},
      {"RecorderKnowsTheLastCalls", recorder_knows_the_last_calls},
      {"WrongShapesAreRefused", wrong_shapes_are_refused},
  };
  return all;
}

}  // namespace stretto::contract
