#include "bench/report_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/units.h"
#include "bench/safe_text.h"

namespace stretto {
namespace {

using nlohmann::json;

// As the page's script writes it: "dp2 tp1 pp1 zero1 full".
std::string layout_text(const json& r) {
  std::string text = fmt::format("dp{} tp{} pp{}", r["dp"].get<int64_t>(), r["tp"].get<int64_t>(),
                                 r["pp"].get<int64_t>());
  if (r["zero"] != 0) text += fmt::format(" zero{}", r["zero"].get<int64_t>());
  if (r["checkpointing"] != "none") text += " " + r["checkpointing"].get<std::string>();
  return text;
}

std::string memory_text(const json& r) {
  const auto measured = r["memory_grown"].get<int64_t>();
  const auto planned = r["memory_rank"].get<int64_t>();
  if (measured > 0) return format_bytes(static_cast<double>(measured));
  return planned > 0 ? format_bytes(static_cast<double>(planned)) + " (plan)" : "-";
}

std::string row_text(const json& r) {
  const auto tokens = r["tokens"].get<double>(), seconds = r["seconds"].get<double>();
  const auto text = [&](const char* key) { return r[key].get<std::string>(); };
  std::string name = markup_text(text("label"));
  for (const char* key : {"reason", "busy"}) {
    const std::string why = text(key);
    if (!why.empty()) name += fmt::format("<div class=\"why\">{}</div>", markup_text(why));
  }
  const std::string cells[] = {
      text("status"),
      text("model"),
      layout_text(r),
      tokens > 0 ? format_count(tokens) : "-",
      seconds > 0 ? fmt::format("{:.4g}", seconds) : "-",
      r["mfu"].is_number() ? fmt::format("{:.2f} %", 100 * r["mfu"].get<double>()) : "-",
      memory_text(r)};
  std::string line = "<tr><td>" + name + "</td>";
  for (const std::string& cell : cells) line += "<td>" + markup_text(cell) + "</td>";
  return line + "</tr>\n";
}

}  // namespace

std::string static_table(const json& data) {
  std::vector<const json*> rows;
  for (const json& row : data["rows"]) rows.push_back(&row);
  const bool parts = data["continued"].get<bool>();  // of one run, in their order
  std::stable_sort(rows.begin(), rows.end(), [&](const json* a, const json* b) {
    return parts ? (*a)["started"] < (*b)["started"] : (*a)["tokens"] > (*b)["tokens"];
  });
  std::string page = "<div class=\"scroll\"><table>\n<tr>";
  for (const char* title :
       {"run", "status", "model", "layout", "tokens/s", "s/it", "MFU (mpt)", "memory/rank"}) {
    page += fmt::format("<th>{}</th>", title);
  }
  page += "</tr>\n";
  for (const json* row : rows) page += row_text(*row);
  return page + "</table></div>\n";
}

}  // namespace stretto
