#include "plan/twins.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "plan/statistics.h"

namespace stretto::plan {
namespace {

struct Point {
  double micro_batches, seconds;
};
using Series = std::vector<Point>;   // rows with the same micro-batch: one line
using Family = std::vector<Series>;  // series on the same devices: one cost per iteration

std::string words(const std::vector<int64_t>& numbers) {
  std::string out;
  for (int64_t n : numbers) out += std::to_string(n) + " ";
  return out;
}

// Where a pipeline fills and drains, the cost per iteration also depends on the micro-batch.
std::vector<Family> families_of(const std::vector<Observation>& rows) {
  std::map<std::string, std::map<std::string, Series>> groups;
  for (const Observation& o : rows) {
    if (o.seconds <= 0 || o.repeat) continue;
    const ModelShape& m = o.work.model;
    Layout l = o.layout;
    const std::string batch = words({l.micro_batch, o.work.seq_len});
    l.micro_batch = 1;
    std::string family =
        describe(l) + " " +
        words({m.layers, m.hidden, m.heads, m.vocab, static_cast<int64_t>(o.work.precision),
               o.before_repair, o.boost_clock, o.softmax_fused, o.whole_recompute});
    if (l.pp > 1) family += batch;
    groups[family][batch].push_back(
        {static_cast<double>(micro_batches(o.work, o.layout)), o.seconds});
  }
  std::vector<Family> out;
  for (const auto& [name, series] : groups) {
    Family family;
    for (const auto& [batch, points] : series) {
      if (points.size() > 1) family.push_back(points);
    }
    size_t sizes = 0;  // A line through as many points as it has parameters says nothing.
    for (const Series& s : family) sizes += s.size() - 1;
    const bool one_point = std::all_of(family.begin(), family.end(), [](const Series& s) {
      return std::all_of(s.begin(), s.end(),
                         [&](const Point& p) { return p.micro_batches == s[0].micro_batches; });
    });
    if (sizes > (one_point ? 0u : 1u)) out.push_back(family);
  }
  return out;
}

struct Misses {
  double sum = 0;
  size_t beyond = 0;
  std::vector<double> errors;  // of the line with the least sum
};

// How far the points of a series are from the best lines that begin at `fixed`. A best line goes
// through a point, or through the edge of its reach.
Misses misses_of(const Series& s, double fixed, double reach) {
  Misses best{1e300, s.size(), {}};
  for (const Point& through : s) {
    for (double shift : {-reach, 0.0, reach}) {
      const double each = (through.seconds * (1 + shift) - fixed) / through.micro_batches;
      if (each <= 0) continue;
      Misses m;
      for (const Point& p : s) {
        m.errors.push_back(std::abs((fixed + each * p.micro_batches) / p.seconds - 1));
        m.sum += m.errors.back();
        m.beyond += m.errors.back() > reach * (1 + 1e-9) ? 1 : 0;
      }
      best.beyond = std::min(best.beyond, m.beyond);
      if (m.sum < best.sum) {
        best.sum = m.sum;
        best.errors = std::move(m.errors);
      }
    }
  }
  return best;
}

// Costs per iteration worth trying: where the line through two points of a series begins.
std::vector<double> beginnings(const Family& family, double reach) {
  std::vector<double> out = {0};
  for (const Series& s : family) {
    for (const Point& a : s) {
      for (const Point& b : s) {
        if (a.micro_batches >= b.micro_batches) continue;
        for (double shift : {-2 * reach, 0.0, 2 * reach}) {
          const double each =
              (b.seconds - a.seconds * (1 + shift)) / (b.micro_batches - a.micro_batches);
          const double fixed = b.seconds - each * b.micro_batches;
          if (fixed > 0 && each > 0) out.push_back(fixed);
        }
      }
    }
  }
  return out;
}

}  // namespace

TwinFloor twin_floor(const std::vector<Observation>& rows, double reach) {
  TwinFloor out;
  std::vector<double> errors;
  for (const Family& family : families_of(rows)) {
    Misses best{1e300, 1u << 30, {}};
    for (double fixed : beginnings(family, reach)) {
      Misses all;
      for (const Series& s : family) {
        const Misses m = misses_of(s, fixed, reach);
        all.sum += m.sum;
        all.beyond += m.beyond;
        all.errors.insert(all.errors.end(), m.errors.begin(), m.errors.end());
      }
      best.beyond = std::min(best.beyond, all.beyond);
      if (all.sum < best.sum) {
        best.sum = all.sum;
        best.errors = std::move(all.errors);
      }
    }
    out.beyond += best.beyond;
    errors.insert(errors.end(), best.errors.begin(), best.errors.end());
  }
  out.rows = errors.size();
  out.median = 100 * median(errors);
  out.p90 = 100 * quantile(errors, 0.9);
  return out;
}

}  // namespace stretto::plan
