// The chart of `plan --scale --svg`: tokens per day against devices, on an axis of doublings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "plan/scale.h"

namespace stretto::plan {
namespace {

constexpr double kWidth = 720, kHeight = 440;
constexpr double kLeft = 72, kRight = kWidth - 24, kTop = 64, kBottom = kHeight - 56;

// 1, 2 or 5 times a power of ten, such that three to eight ticks are below `most`.
double tick_step(double most) {
  const double rough = most / 8, unit = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * unit) return factor * unit;
  }
  return 10 * unit;
}

std::string text(double x, double y, const char* anchor, const std::string& words,
                 const char* more = "font-size=\"11\"") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y,
                     anchor, more, words);
}

class ScaleSvg {
 public:
  explicit ScaleSvg(const ScalePlan& plan) : plan_(plan) {
    for (const ScalePoint& p : plan.points) {
      low_ = std::min(low_, std::log2(static_cast<double>(p.devices)));
      high_ = std::max(high_, std::log2(static_cast<double>(p.devices)));
      most_ = std::max(most_, p.tokens_per_day * (1 + p.interval));
      if (first_ == nullptr && p.feasible) first_ = &p;
    }
    if (most_ <= 0) most_ = 1;
    if (high_ <= low_) high_ = low_ + 1;
  }

  // Grid and labels: doublings of devices, round numbers of tokens.
  std::string axes() const {
    std::string out;
    const auto line = [&](double x1, double y1, double x2, double y2, const char* color) {
      out += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1,
          x2, y2, color);
    };
    const auto column = [&](double devices) {
      line(x(devices), kTop, x(devices), kBottom, "#e4e4e4");
      out += text(x(devices), kBottom + 16, "middle", fmt::format("{:.0f}", devices));
    };
    const double from = std::ceil(low_ - 1e-9), to = std::floor(high_ + 1e-9);
    for (double e = from; e <= to; ++e) column(std::exp2(e));
    if (from > to) column(std::exp2(low_));
    const double step = tick_step(most_);
    for (int i = 0; i * step <= most_; ++i) {
      line(kLeft, y(i * step), kRight, y(i * step), i == 0 ? "#555" : "#e4e4e4");
      out += text(kLeft - 6, y(i * step) + 4, "end", i == 0 ? "0" : format_count(i * step));
    }
    return out;
  }

  std::string curves() const {
    if (first_ == nullptr) return "";
    std::string line, upper, lower, ideal, dots;
    for (const ScalePoint& p : plan_.points) {
      const auto n = static_cast<double>(p.devices);
      const double perfect = n / static_cast<double>(first_->devices) * first_->tokens_per_day;
      if (&p >= first_) ideal += point(n, perfect);
      if (!p.feasible) continue;
      line += point(n, p.tokens_per_day);
      upper += point(n, p.tokens_per_day * (1 + p.interval));
      lower = point(n, p.tokens_per_day * (1 - p.interval)) + lower;
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"#1f5fa8\"/>\n", x(n),
                          y(p.tokens_per_day));
    }
    return fmt::format(
        "<clipPath id=\"plot\"><rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" "
        "height=\"{:.0f}\"/></clipPath>\n"
        "<polygon points=\"{}{}\" fill=\"#1f5fa8\" fill-opacity=\"0.15\"/>\n"
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#777\" stroke-dasharray=\"5 4\" "
        "clip-path=\"url(#plot)\"/>\n"
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"2\"/>\n{}",
        kLeft, kTop, kRight - kLeft, kBottom - kTop, upper, lower, ideal, line, dots);
  }

  std::string chosen() const {
    if (!plan_.best) return "";
    const ScalePoint& p = plan_.points[*plan_.best];
    const double at = x(static_cast<double>(p.devices)), up = y(p.tokens_per_day);
    // The label fits to the left of its point, where the line is lower.
    const bool room = at > kLeft + 120;
    return fmt::format(
               "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"7\" fill=\"none\" stroke=\"#c8501e\" "
               "stroke-width=\"2\"/>\n",
               at, up) +
           text(room ? at - 6 : at, up - 12, room ? "end" : "start",
                fmt::format("{} devices", p.devices),
                "font-size=\"12\" font-weight=\"bold\" fill=\"#c8501e\"");
  }

 private:
  double x(double devices) const {
    return kLeft + (std::log2(devices) - low_) / (high_ - low_) * (kRight - kLeft);
  }
  double y(double tokens) const { return kBottom - tokens / most_ * (kBottom - kTop); }
  std::string point(double devices, double tokens) const {
    return fmt::format("{:.1f},{:.1f} ", x(devices), y(tokens));
  }

  const ScalePlan& plan_;
  const ScalePoint* first_ = nullptr;  // that can run
  double low_ = 1e300, high_ = 0, most_ = 0;
};

}  // namespace

std::string scale_chart_svg(const ScalePlan& plan, const std::string& title) {
  const ScaleSvg chart(plan);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
             "font-family=\"sans-serif\">\n<title>{}</title>\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             kWidth, kHeight, title) +
         text(kLeft, 24, "start", title, "font-size=\"15\"") +
         text(kLeft, 44, "start",
              "tokens per day; shaded: interval, dashed: perfect scaling, circle: chosen",
              "font-size=\"11\" fill=\"#555\"") +
         chart.axes() + chart.curves() + chart.chosen() +
         text((kLeft + kRight) / 2, kHeight - 14, "middle", "devices") + "</svg>\n";
}

}  // namespace stretto::plan
