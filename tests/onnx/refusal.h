// What an action is refused with.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.h"

namespace tw::onnx {

// The message; "accepted" when nothing is thrown.
inline std::string refusal(const std::function<void()>& action, ErrorKind kind = ErrorKind::Shape) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, kind) << e.what();
    return e.what();
  }
  return "accepted";
}

}  // namespace tw::onnx
