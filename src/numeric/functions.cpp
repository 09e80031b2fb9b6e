#include "numeric/functions.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.h"

namespace tw::numeric {
namespace {

constexpr const char* kUnaryNames[] = {"gelu_tanh", "gelu_erf", "quick_gelu", "silu", "relu",
                                       "tanh",      "sigmoid",  "hard_swish", "erf",  "exp",
                                       "log",       "sqrt",     "reciprocal", "neg",  "abs"};
constexpr const char* kBinaryNames[] = {"add", "sub", "mul", "div", "pow", "max", "min"};
constexpr const char* kReductionNames[] = {"reduce_sum", "reduce_mean", "reduce_max"};
static_assert(std::size(kUnaryNames) == kUnaryFunctions && std::size(kBinaryNames) == kBinaryFunctions &&
              std::size(kReductionNames) == kReductions);

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
// Far out on the negative side the product of the definitions would be -inf times 0.
double gated(double x, double gate) { return gate == 0.0 ? -0.0 : x * gate; }

}  // namespace

const char* name_of(Unary function) { return kUnaryNames[static_cast<std::size_t>(function)]; }
const char* name_of(Binary function) { return kBinaryNames[static_cast<std::size_t>(function)]; }
const char* name_of(Reduction function) { return kReductionNames[static_cast<std::size_t>(function)]; }

double evaluate(Unary function, double x) {
  switch (function) {
    case Unary::GeluTanh:
      return gated(x,
                   0.5 * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x))));
    case Unary::GeluErf:
      return gated(x, 0.5 * std::erfc(-x / std::numbers::sqrt2));
    case Unary::QuickGelu:
      return gated(x, sigmoid(1.702 * x));
    case Unary::Silu:
      return gated(x, sigmoid(x));
    case Unary::Relu:
      return x < 0 ? 0.0 : x;
    case Unary::Tanh:
      return std::tanh(x);
    case Unary::Sigmoid:
      return sigmoid(x);
    case Unary::HardSwish:
      return x < -3.0 ? -0.0 : x > 3.0 ? x : x * (x + 3.0) / 6.0;
    case Unary::Erf:
      return std::erf(x);
    case Unary::Exp:
      return std::exp(x);
    case Unary::Log:
      return std::log(x);
    case Unary::Sqrt:
      return std::sqrt(x);
    case Unary::Reciprocal:
      return 1.0 / x;
    case Unary::Negate:
      return -x;
    case Unary::Absolute:
      return std::fabs(x);
  }
  fail_check("Unary", "unknown function");
}

double evaluate(Binary function, double a, double b) {
  const bool nan = std::isnan(a) || std::isnan(b);
  switch (function) {
    case Binary::Add:
      return a + b;
    case Binary::Subtract:
      return a - b;
    case Binary::Multiply:
      return a * b;
    case Binary::Divide:
      return a / b;
    case Binary::Power:
      return std::pow(a, b);
    case Binary::Maximum:
      return nan ? std::numeric_limits<double>::quiet_NaN() : std::fmax(a, b);
    case Binary::Minimum:
      return nan ? std::numeric_limits<double>::quiet_NaN() : std::fmin(a, b);
  }
  fail_check("Binary", "unknown function");
}

}  // namespace tw::numeric
