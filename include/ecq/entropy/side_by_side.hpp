#pragma once
/// \file
/// Loops over chunks side by side, shared by the vector kernels of every coder. A cursor is a chunk being decoded, with
/// `left`, the number of codes not decoded yet, or a chunk being encoded, with `codes`, the codes not encoded yet.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "ecq/base/lanes.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/entropy_coder.hpp"

namespace ecq::detail {

/// Calls `advance(cursors, count, groups)` for runs of at most `Width` cursors that each have `groups` whole groups
/// left, until all groups are decoded. A chunk that runs out of words stays where it is.
template <std::size_t Width, class Cursor, class Advance>
void advance_in_runs(std::span<Cursor*> cursors, const Advance& advance) {
  // Sorts chunks by length, so that chunks of the same length run side by side to their ends. There are few chunks.
  const auto groups_left = [](const Cursor* cursor) { return cursor->left / group_symbols; };
  for (std::size_t i = 1; i < cursors.size(); ++i) {
    for (std::size_t at = i; at > 0 && groups_left(cursors[at]) > groups_left(cursors[at - 1]); --at) {
      std::swap(cursors[at], cursors[at - 1]);
    }
  }
  for (std::size_t first = 0; first < cursors.size(); first += Width) {
    auto run = cursors.subspan(first, (std::min)(Width, cursors.size() - first));
    while (!run.empty()) {
      const std::size_t groups = run.back()->left / group_symbols;
      if (groups > 0 && !advance(run.data(), run.size(), groups)) break;
      const std::size_t done = run.back()->left / group_symbols;
      while (!run.empty() && run.back()->left / group_symbols == done) run = run.first(run.size() - 1);
    }
  }
}

/// Calls `advance(cursors)` with `Width` cursors, of which `count` are given, and returns its result. Copies of the
/// last one fill the remaining places: they write the same bytes again.
template <std::size_t Width, class Cursor, class Advance>
auto advance_filled(Cursor* const* cursors, std::size_t count, const Advance& advance) {
  Cursor copy = *cursors[count - 1];
  Cursor* all[Width];
  for (std::size_t i = 0; i < Width; ++i) all[i] = i < count ? cursors[i] : &copy;
  return advance(all);
}

/// Decodes chunks in batches. `begin(cursor, i)` puts a cursor at the beginning of chunk i, or returns false if that is
/// not a valid chunk; `advance(cursors)` decodes the chunks that began as far as it can; `finish(cursor, i)` returns
/// the verdict on chunk i.
template <class Cursor, class Begin, class Advance, class Finish>
void decode_side_by_side(std::span<errc> verdicts, const Begin& begin, const Advance& advance, const Finish& finish) {
  constexpr std::size_t batch = 16;
  Cursor cursors[batch];
  for (std::size_t first = 0; first < verdicts.size(); first += batch) {
    const std::size_t count = (std::min)(batch, verdicts.size() - first);
    Cursor* begun[batch];
    std::size_t running = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool valid = begin(cursors[i], first + i);
      verdicts[first + i] = valid ? errc::ok : errc::corrupt;
      if (valid) begun[running++] = &cursors[i];
    }
    advance(std::span<Cursor*>(begun, running));
    for (std::size_t i = 0; i < running; ++i) {
      const std::size_t chunk = first + static_cast<std::size_t>(begun[i] - cursors);
      verdicts[chunk] = finish(*begun[i], chunk);
    }
  }
}

/// Calls `encode(cursors, count, first, last)`, which encodes groups last - 1 down to `first` of `count` (at most
/// `Width`) chunks, until nothing is left of the chunks. Precondition: whole groups are left.
template <std::size_t Width, class Cursor, class Encode>
void encode_in_runs(std::span<Cursor> cursors, const Encode& encode) {
  const auto groups_left = [](const Cursor& cursor) { return cursor.codes.size() / group_symbols; };
  for (std::size_t begin = 0; begin < cursors.size(); begin += Width) {
    const auto together = cursors.subspan(begin, (std::min)(Width, cursors.size() - begin));
    // Groups are coded from the end, so longer chunks begin before the others.
    std::size_t last = 0;
    for (const Cursor& cursor : together) last = (std::max)(last, groups_left(cursor));
    while (last > 0) {
      Cursor* run[Width];
      std::size_t count = 0;
      std::size_t first = 0;
      for (Cursor& cursor : together) {
        const std::size_t left = groups_left(cursor);
        if (left < last) first = (std::max)(first, left);
        if (left >= last) run[count++] = &cursor;
      }
      encode(run, count, first, last);
      last = first;
    }
    for (Cursor& cursor : together) cursor.codes = {};
  }
}

/// Encodes chunks, several side by side. `begin(cursor, i)` puts a cursor at the end of chunk i, `finish(cursor,
/// down_to)` encodes all groups above the first `down_to`, `advance(cursors)` encodes all whole groups that are left,
/// or none, and `end(cursor, i)` writes the states.
template <class Cursor, class Begin, class Finish, class Advance, class End>
void encode_side_by_side(std::size_t chunks, const Begin& begin, const Finish& finish, const Advance& advance,
                         const End& end) {
  constexpr std::size_t batch = 4;
  for (std::size_t first = 0; first < chunks; first += batch) {
    const std::size_t count = (std::min)(batch, chunks - first);
    Cursor cursors[batch];
    for (std::size_t i = 0; i < count; ++i) {
      begin(cursors[i], first + i);
      finish(cursors[i], cursors[i].codes.size() / group_symbols);
    }
    advance(std::span<Cursor>(cursors, count));
    for (std::size_t i = 0; i < count; ++i) {
      finish(cursors[i], 0);
      end(cursors[i], first + i);
    }
  }
}

}  // namespace ecq::detail
