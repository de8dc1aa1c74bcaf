#pragma once
/// \file
/// Macros that headers of others leave behind: single capital letters (Arduino, <complex.h>, numeric codes), min and
/// max (<windows.h>), major and minor (<sys/types.h>), and more of the kind. Everything that ecq includes from
/// elsewhere comes first, since only ecq's own headers have to bear the macros.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <cmath>
#include <compare>
#include <complex>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <initializer_list>
#include <iomanip>
#include <ios>
#include <iostream>
#include <iterator>
#include <limits>
#include <list>
#include <locale>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numbers>
#include <numeric>
#include <optional>
#include <ostream>
#include <queue>
#include <random>
#include <ranges>
#include <ratio>
#include <regex>
#include <set>
#include <shared_mutex>
#include <span>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>
#include <version>

#include <nlohmann/json.hpp>

#if __has_include(<sys/mman.h>)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(ECQ_WITH_LBFGS)
#include <LBFGS.h>
#endif

// Some of these are defined by the headers above already; what matters is that they mean nothing sensible.
#undef major
#undef minor

#define A 42
#define B 42
#define C 42
#define D 42
#define E 42
#define F 42
#define G 42
#define H 42
#define I 42
#define J 42
#define K 42
#define L 42
#define M 42
#define N 42
#define O 42
#define P 42
#define Q 42
#define R 42
#define S 42
#define T 42
#define U 42
#define V 42
#define W 42
#define X 42
#define Y 42
#define Z 42

#define min(left, right) nonsense_from_a_macro(left, right)
#define max(left, right) nonsense_from_a_macro(left, right)
#define major(device) nonsense_from_a_macro(device)
#define minor(device) nonsense_from_a_macro(device)

#define small char
#define near
#define far
#define interface struct
#define PI 42
#define IN 42
#define OUT 42
#define ERROR 42
#define NO_ERROR 42
#define OPTIONAL 42
#define TRUE 42
#define FALSE 42
#define DEBUG 42
#define DOMAIN 42
#define OVERFLOW 42
#define UNDERFLOW 42
#define SUCCESS 42
#define STRICT 42
