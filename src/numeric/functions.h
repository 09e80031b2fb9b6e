// Real functions of general operations by name (docs/numerics.md, "General operations"): evaluated in double;
// whoever stores the result rounds it to FP32 first, and from there to F16 where it is held as F16.
#pragma once
#include <cstdint>

namespace tw::numeric {

enum class Unary : std::uint8_t {
  GeluTanh,   // x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
  GeluErf,    // x (1 + erf(x / sqrt(2))) / 2
  QuickGelu,  // x sigmoid(1.702 x)
  Silu,       // x sigmoid(x)
  Relu,
  Tanh,
  Sigmoid,
  HardSwish,  // x min(max(x + 3, 0), 6) / 6
  Erf,
  Exp,
  Log,
  Sqrt,
  Reciprocal,
  Negate,
  Absolute
};
enum class Binary : std::uint8_t { Add, Subtract, Multiply, Divide, Power, Maximum, Minimum };
enum class Reduction : std::uint8_t { Sum, Mean, Maximum };

inline constexpr std::uint32_t kUnaryFunctions = static_cast<std::uint32_t>(Unary::Absolute) + 1;
inline constexpr std::uint32_t kBinaryFunctions = static_cast<std::uint32_t>(Binary::Minimum) + 1;
inline constexpr std::uint32_t kReductions = static_cast<std::uint32_t>(Reduction::Maximum) + 1;

const char* name_of(Unary function);  // "gelu_erf"
const char* name_of(Binary function);
const char* name_of(Reduction function);

// NaN and infinities as IEEE 754 has them; Maximum and Minimum of a NaN are NaN.
double evaluate(Unary function, double x);
double evaluate(Binary function, double a, double b);

}  // namespace tw::numeric
