#include "base/error.h"

namespace tw {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Usage:
      return 2;
    case ErrorKind::Capacity:
    case ErrorKind::Fragmentation:
    case ErrorKind::Contiguity:
    case ErrorKind::ExchangeTable:
    case ErrorKind::Fragments:
    case ErrorKind::Code:
    case ErrorKind::HostBuffer:
    case ErrorKind::SubWord:
    case ErrorKind::UnsupportedOp:
      return 3;
    case ErrorKind::File:
    case ErrorKind::Io:
    case ErrorKind::Shape:
      return 4;
    case ErrorKind::Numeric:
    case ErrorKind::DeviceFault:
      return 5;
  }
  return 1;
}

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Usage:
      return "usage";
    case ErrorKind::Capacity:
      return "capacity";
    case ErrorKind::Fragmentation:
      return "fragmentation";
    case ErrorKind::Contiguity:
      return "contiguity";
    case ErrorKind::ExchangeTable:
      return "exchange-table";
    case ErrorKind::Fragments:
      return "fragments";
    case ErrorKind::Code:
      return "code";
    case ErrorKind::HostBuffer:
      return "host-buffer";
    case ErrorKind::SubWord:
      return "sub-word";
    case ErrorKind::UnsupportedOp:
      return "unsupported-op";
    case ErrorKind::File:
      return "file";
    case ErrorKind::Io:
      return "io";
    case ErrorKind::Shape:
      return "shape";
    case ErrorKind::Numeric:
      return "numeric";
    case ErrorKind::DeviceFault:
      return "device-fault";
  }
  return "internal";
}

void fail_check(const char* condition, const std::string& what, std::source_location where) {
  throw InternalError(what + " [" + condition + "] at " + where.file_name() + ":" +
                      std::to_string(where.line()));
}

}  // namespace tw
