#include "checkpoint/runs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strict_json.h"

namespace stretto {

using nlohmann::json;

std::vector<ShardPiece> shard_pieces(const ParameterSpec& spec, int64_t tp, int64_t tp_rank,
                                     int64_t begin, int64_t end, int64_t limit) {
  std::vector<ShardPiece> pieces;
  int64_t position = 0;
  for (const Run& run : shard_runs(spec, tp, tp_rank)) {
    const int64_t first = std::max(begin, position);
    const int64_t global = run.global_begin + (first - position);
    const int64_t last = std::min({end, position + run.count, first + limit - global});
    if (first < last) pieces.push_back({first, global, last - first});
    position += run.count;
  }
  return pieces;
}

std::vector<StridedRun> compress_runs(const std::vector<ShardPiece>& pieces) {
  std::vector<StridedRun> runs;
  for (const ShardPiece& piece : pieces) {
    StridedRun* last = runs.empty() ? nullptr : &runs.back();
    const int64_t stride = last == nullptr ? 0 : piece.global_begin - last->begin;
    if (last != nullptr && last->repeat == 1 && stride == last->count) {
      last->count += piece.count;  // adjoining in the whole tensor, too
    } else if (last != nullptr && last->count == piece.count && last->repeat == 1 &&
               stride > last->count) {
      last->stride = stride;
      last->repeat = 2;
    } else if (last != nullptr && last->count == piece.count && last->repeat > 1 &&
               stride == last->stride * last->repeat) {
      ++last->repeat;
    } else {
      runs.push_back({piece.global_begin, piece.count, 0, 1});
    }
  }
  return runs;
}

std::vector<Run> expand_runs(const std::vector<StridedRun>& runs) {
  std::vector<Run> out;
  for (const StridedRun& run : runs) {
    for (int64_t i = 0; i < run.repeat; ++i) out.push_back({run.begin + i * run.stride, run.count});
  }
  return out;
}

int64_t element_count(const std::vector<StridedRun>& runs) {
  int64_t count = 0;
  for (const StridedRun& run : runs) count += run.count * run.repeat;
  return count;
}

int64_t Placement::global_count() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::string placement_text(const Placement& placement) {
  json runs = json::array();
  for (const StridedRun& run : placement.runs) {
    runs.push_back(run.repeat == 1 ? json{run.begin, run.count}
                                   : json{run.begin, run.count, run.stride, run.repeat});
  }
  return json{{"shape", placement.shape}, {"runs", runs}}.dump();
}

namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Error(ExitCode::bad_data, fmt::format("{}: {}", name, what),
              "this file is damaged or not one of Stretto's shards");
}

// At most 2^47 elements, so that products of count, stride and repeat cannot overflow.
int64_t size_in(const json& value, const std::string& name) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > (uint64_t{1} << 47)) {
    refuse(name, "a placement contains something other than sizes");
  }
  return static_cast<int64_t>(value.get<uint64_t>());
}

StridedRun read_run(const json& item, int64_t global_count, const std::string& name) {
  if (!item.is_array() || (item.size() != 2 && item.size() != 4)) {
    refuse(name, "a run is [begin, count] or [begin, count, stride, repeat]");
  }
  StridedRun run{size_in(item[0], name), size_in(item[1], name), 0, 1};
  if (item.size() == 4) {
    run.stride = size_in(item[2], name);
    run.repeat = size_in(item[3], name);
  }
  const bool steps = run.repeat == 1 || (run.repeat > 1 && run.stride >= run.count);
  int64_t end = 0;
  const bool fits = run.count >= 1 && steps &&
                    !__builtin_mul_overflow(run.repeat - 1, run.stride, &end) &&
                    end <= global_count && run.begin + run.count <= global_count - end;
  if (!fits) refuse(name, "a run is outside its tensor");
  return run;
}

}  // namespace

Placement parse_placement(std::string_view text, const std::string& name) {
  const json document = parse_json(text, name);
  if (!document.is_object() || document.size() != 2 || !document.contains("shape") ||
      !document.contains("runs") || !document["shape"].is_array() || !document["runs"].is_array()) {
    refuse(name, "a placement must have shape and runs, nothing else");
  }
  Placement placement;
  int64_t count = 1;
  for (const json& size : document["shape"]) {
    placement.shape.push_back(size_in(size, name));
    if (__builtin_mul_overflow(count, placement.shape.back(), &count)) {
      refuse(name, "a shape larger than any memory");
    }
  }
  int64_t rest = count;  // no element may appear twice
  for (const json& item : document["runs"]) {
    const StridedRun run = read_run(item, count, name);
    if (run.count > rest / run.repeat) refuse(name, "its runs hold more than the tensor");
    rest -= run.count * run.repeat;
    placement.runs.push_back(run);
  }
  return placement;
}

}  // namespace stretto
