#include <fmt/format.h>

#include <map>

#include "plan/exam.h"

namespace stretto::plan {
namespace {

struct Pool {
  WholeTable table;
  std::vector<double> all, clean;

  void add(const std::vector<HeldOut>& held) {
    for (const HeldOut& h : held) {
      all.insert(all.end(), h.errors.begin(), h.errors.end());
      clean.insert(clean.end(), h.clean_errors.begin(), h.clean_errors.end());
    }
  }
};

}  // namespace

std::vector<WholeTable> whole_tables(const Exam& exam) {
  std::vector<Pool> pools;
  std::map<std::string, size_t> known;
  const auto add = [&](const ExamTable& t, const std::string& what,
                       const std::vector<HeldOut>& held, double median, double p90) {
    if (median == 0) return;  // no target
    const std::string key = fmt::format("{}{} {} {}", t.spec.file, what, median, p90);
    const auto [at, fresh] = known.try_emplace(key, pools.size());
    if (fresh) pools.push_back({{t.spec.name + what, median, p90, {}, {}}, {}, {}});
    Pool& pool = pools[at->second];
    if (!fresh) pool.table.names += " + " + t.spec.name + what;
    pool.add(held);
  };
  for (const ExamTable& t : exam.tables) {
    add(t, "", t.seconds, t.spec.target_median, t.spec.target_p90);
    add(t, ", memory", t.memory, t.spec.memory_median, t.spec.memory_p90);
  }
  std::vector<WholeTable> out;
  for (Pool& pool : pools) {
    pool.table.all = errors_of(pool.all);
    pool.table.clean = errors_of(pool.clean);
    out.push_back(std::move(pool.table));
  }
  return out;
}

}  // namespace stretto::plan
