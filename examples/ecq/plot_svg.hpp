#pragma once
/// \file
/// A scatter-and-line chart as an SVG file, legible without colour vision.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/io/json.hpp"
#include "text.hpp"

namespace tool {

struct plot_point {
  double x = 0, y = 0;
};

struct plot_series {
  std::string name;
  std::vector<plot_point> points;
};

struct plot {
  std::string title, subtitle, x_label, y_label;
  std::vector<plot_series> series;
  bool log_y = false;  ///< logarithmic y axis; values that are not above 0 lie at the bottom
};

namespace detail {

/// Escapes text for XML character data and attributes; characters that XML 1.0 forbids (control characters, broken
/// UTF-8) become '?'.
inline std::string xml(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t length = (std::max)(ecq::utf8_sequence(text), std::size_t{1});
    const std::string_view character = text.substr(0, length);
    const bool broken = ecq::utf8_sequence(text) == 0;
    text.remove_prefix(length);
    if (character == "&") {
      escaped += "&amp;";
    } else if (character == "<") {
      escaped += "&lt;";
    } else if (character == ">") {
      escaped += "&gt;";
    } else if (character == "\"") {
      escaped += "&quot;";
    } else if (broken || static_cast<unsigned char>(character[0]) < 0x20 || character == "\xef\xbf\xbe" ||
               character == "\xef\xbf\xbf") {
      escaped += '?';
    } else {
      escaped += character;
    }
  }
  return escaped;
}

/// Axis with ticks at round numbers that enclose the data.
class axis {
 public:
  /// Makes an axis with some space on both sides, but without negative ticks for data that are never negative.
  static axis linear(double smallest, double largest, int about) {
    const double spread = (std::max)(largest - smallest, 1e-3 * (std::max)(1.0, std::fabs(largest)));
    const double magnitude = std::pow(10.0, std::floor(std::log10(spread / about)));
    double step = 10 * magnitude;
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * magnitude * about >= spread) {
        step = factor * magnitude;
        break;
      }
    }
    double low = std::floor((smallest - 0.15 * step) / step) * step;
    if (smallest >= 0) low = (std::max)(low, 0.0);
    const double high = std::ceil((largest + 0.15 * step) / step) * step;
    axis made(false);
    const auto last = static_cast<std::size_t>(std::lround((high - low) / step));
    const int digits = (std::max)(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
    for (std::size_t i = 0; i <= last; ++i) made.add(low + static_cast<double>(i) * step, digits);
    return made;
  }

  /// Makes an axis by orders of magnitude, for data above 0.
  static axis logarithmic(double smallest, double largest) {
    const double orders = std::log10(largest) - std::log10(smallest);
    const int every = (std::max)(1, static_cast<int>(orders / 8));
    axis made(true);
    constexpr int greatest = 308;  // of a finite tick
    for (int exponent = static_cast<int>(std::floor(std::log10(smallest)));;
         exponent = (std::min)(exponent + every, greatest)) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor != 1 && orders > 4) continue;
        const double tick = factor * std::pow(10.0, exponent);
        if (tick <= smallest) made = axis(true);
        made.add(tick, (std::max)(0, -exponent));
        if (tick > largest || exponent == greatest) return made;
      }
    }
  }

  const std::vector<double>& ticks() const noexcept { return ticks_; }
  const std::string& label(std::size_t tick) const noexcept { return labels_[tick]; }

  /// Returns the position of a value: 0 at the first tick and for all values before it, 1 at the last tick.
  double place(double value) const {
    if (!(value > ticks_.front())) return 0;
    return (scaled(value) - scaled(ticks_.front())) / (scaled(ticks_.back()) - scaled(ticks_.front()));
  }

 private:
  explicit axis(bool logarithmic) : logarithmic_(logarithmic) {}

  void add(double tick, int digits) {
    ticks_.push_back(tick);
    labels_.push_back(decimal(tick, digits));
  }

  double scaled(double value) const { return logarithmic_ ? std::log10(value) : value; }

  bool logarithmic_;
  std::vector<double> ticks_;
  std::vector<std::string> labels_;
};

}  // namespace detail

/// Returns the chart as an SVG document of 860 x 540, or wider for long names: white background, grid, legend at the
/// right. Each series has a marker and a colour of its own (Okabe and Ito's palette, which people with any kind of
/// colour vision can tell apart). Points that are not finite are left out.
inline std::string to_svg(const plot& chart) {
  static constexpr std::array<std::string_view, 7> colours{"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                           "#E69F00", "#56B4E9", "#000000"};
  static constexpr double height = 540, left = 76, right = 690, top = 76, bottom = 470;

  std::vector<plot_series> series;
  for (const plot_series& given : chart.series) {
    plot_series kept{given.name, {}};
    for (const plot_point& point : given.points) {
      if (std::isfinite(point.x) && std::isfinite(point.y)) kept.points.push_back(point);
    }
    std::sort(kept.points.begin(), kept.points.end(),
              [](const plot_point& a, const plot_point& b) { return a.x < b.x || (a.x == b.x && a.y < b.y); });
    series.push_back(std::move(kept));
  }
  std::vector<double> xs, ys;
  for (const plot_series& one : series) {
    for (const plot_point& point : one.points) {
      xs.push_back(point.x);
      if (!chart.log_y || point.y > 0) ys.push_back(point.y);
    }
  }
  if (xs.empty()) xs = {0, 1};
  if (ys.empty()) ys = {chart.log_y ? 0.1 : 0, 1};
  const auto [x_low, x_high] = std::minmax_element(xs.begin(), xs.end());
  const auto [y_low, y_high] = std::minmax_element(ys.begin(), ys.end());
  double width = 860;
  for (const plot_series& one : series) {
    constexpr double of_character = 8;
    width = (std::max)(width, right + 80 + of_character * static_cast<double>(display_width(one.name)));
  }
  const auto x_axis = detail::axis::linear(*x_low, *x_high, 7);
  const auto y_axis =
      chart.log_y ? detail::axis::logarithmic(*y_low, *y_high) : detail::axis::linear(*y_low, *y_high, 8);
  const auto x_at = [&](double x) { return left + x_axis.place(x) * (right - left); };
  const auto y_at = [&](double y) { return bottom - y_axis.place(y) * (bottom - top); };

  std::string svg;
  const auto number = [](double value) { return decimal(value, 2); };
  const auto line = [&](double x1, double y1, double x2, double y2, std::string_view style) {
    svg += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
           "\" " + std::string(style) + "/>\n";
  };
  const auto text = [&](double x, double y, std::string_view style, std::string_view words) {
    svg += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + std::string(style) + ">" + detail::xml(words) +
           "</text>\n";
  };
  // Series of one point are drawn as open shapes on top of the others, because points of several methods may coincide
  // and must not hide each other.
  const auto marker = [&](std::size_t kind, bool open, double x, double y) {
    const std::string colour(colours[kind % colours.size()]);
    const std::string paint = open ? " fill=\"none\" stroke=\"" + colour + "\" stroke-width=\"2.4\"/>\n"
                                   : " fill=\"" + colour + "\" stroke=\"#ffffff\" stroke-width=\"1.2\"/>\n";
    const double size = open ? 1.3 : 1.0;
    const auto polygon = [&](std::initializer_list<plot_point> corners) {
      svg += "<polygon points=\"";
      for (const plot_point& corner : corners)
        svg += number(x + size * corner.x) + "," + number(y + size * corner.y) + " ";
      svg.back() = '"';
      svg += paint;
    };
    switch (kind % 7) {
      case 0:
        svg += "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"" + number(6 * size) + "\"" + paint;
        break;
      case 1: polygon({{-5.5, -5.5}, {5.5, -5.5}, {5.5, 5.5}, {-5.5, 5.5}}); break;
      case 2: polygon({{0, -7}, {7, 5.5}, {-7, 5.5}}); break;
      case 3: polygon({{0, -7.5}, {7.5, 0}, {0, 7.5}, {-7.5, 0}}); break;
      case 4: polygon({{0, 7}, {7, -5.5}, {-7, -5.5}}); break;
      case 5:
        polygon({{-2.5, -7},
                 {2.5, -7},
                 {2.5, -2.5},
                 {7, -2.5},
                 {7, 2.5},
                 {2.5, 2.5},
                 {2.5, 7},
                 {-2.5, 7},
                 {-2.5, 2.5},
                 {-7, 2.5},
                 {-7, -2.5},
                 {-2.5, -2.5}});
        break;
      default: polygon({{-6, -3.5}, {0, -7}, {6, -3.5}, {6, 3.5}, {0, 7}, {-6, 3.5}}); break;
    }
  };

  svg += "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
         decimal(width, 0) + "\" height=\"" + decimal(height, 0) + "\" viewBox=\"0 0 " + decimal(width, 0) + " " +
         decimal(height, 0) + "\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" role=\"img\">\n";
  svg += "<title>" + detail::xml(chart.title) + "</title>\n";
  svg += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  text(left, 34, "font-size=\"19\" font-weight=\"bold\" fill=\"#1a1a1a\"", chart.title);
  text(left, 57, "font-size=\"13\" fill=\"#555555\"", chart.subtitle);

  for (std::size_t index = 0; index < x_axis.ticks().size(); ++index) {
    const double x = x_at(x_axis.ticks()[index]);
    line(x, top, x, bottom, "stroke=\"#e3e3e3\"");
    line(x, bottom, x, bottom + 5, "stroke=\"#444444\"");
    text(x, bottom + 21, "font-size=\"13\" fill=\"#333333\" text-anchor=\"middle\"", x_axis.label(index));
  }
  for (std::size_t index = 0; index < y_axis.ticks().size(); ++index) {
    const double y = y_at(y_axis.ticks()[index]);
    line(left, y, right, y, "stroke=\"#e3e3e3\"");
    line(left - 5, y, left, y, "stroke=\"#444444\"");
    text(left - 10, y + 4.5, "font-size=\"13\" fill=\"#333333\" text-anchor=\"end\"", y_axis.label(index));
  }
  line(left, bottom, right, bottom, "stroke=\"#444444\" stroke-width=\"1.3\"");
  line(left, top, left, bottom, "stroke=\"#444444\" stroke-width=\"1.3\"");
  text((left + right) / 2, bottom + 50, "font-size=\"14\" fill=\"#1a1a1a\" text-anchor=\"middle\"", chart.x_label);
  text(0, 0,
       "font-size=\"14\" fill=\"#1a1a1a\" text-anchor=\"middle\" transform=\"translate(24 " +
           number((top + bottom) / 2) + ") rotate(-90)\"",
       chart.y_label);

  for (std::size_t index = 0; index < series.size(); ++index) {
    if (series[index].points.size() < 2) continue;
    svg += "<polyline fill=\"none\" stroke=\"" + std::string(colours[index % colours.size()]) +
           "\" stroke-width=\"2.2\" stroke-linejoin=\"round\" points=\"";
    for (const plot_point& point : series[index].points)
      svg += number(x_at(point.x)) + "," + number(y_at(point.y)) + " ";
    svg.back() = '"';
    svg += "/>\n";
  }
  const auto single = [&](std::size_t index) { return series[index].points.size() == 1; };
  for (const bool open : {false, true}) {
    for (std::size_t index = 0; index < series.size(); ++index) {
      if (single(index) != open) continue;
      for (const plot_point& point : series[index].points) marker(index, open, x_at(point.x), y_at(point.y));
    }
  }
  double y = top + 14;
  for (std::size_t index = 0; index < series.size(); ++index, y += 26) {
    if (series[index].points.size() > 1) {
      line(right + 24, y, right + 58, y,
           "stroke=\"" + std::string(colours[index % colours.size()]) + "\" stroke-width=\"2.2\"");
    }
    marker(index, single(index), right + 41, y);
    text(right + 68, y + 4.5, "font-size=\"14\" fill=\"#1a1a1a\"", series[index].name);
  }
  return svg + "</svg>\n";
}

}  // namespace tool
