// Instructions of a row with the 8-byte alignment of sendpicp (C2). Internal to exchange/.
#pragma once
#include <cstdint>
#include <vector>

#include "exchange/row.h"

namespace tw::exchange {

class RowWriter {
 public:
  void delay(std::uint32_t n);
  void control(const RowControl& c, std::uint32_t n);         // in a gap
  void send(std::uint32_t n, const SendSpan& s);              // opens the message
  void send_on(std::uint32_t n, std::uint32_t send_control);  // continues it
  void send_control(const RowControl& c, std::uint32_t n);    // continues it with a control
  // Two controls at once; `s` == nullptr: in a gap, else restarts the message at item `sent`. False when the
  // instruction cannot be aligned.
  bool pair(std::uint32_t n, const RowControl& select, const RowControl& pointer, const SendSpan* s,
            std::uint32_t sent);
  // Appends the return.
  void finish(std::vector<std::uint32_t>& words, std::vector<Site>& sites) const;

 private:
  enum class Kind : std::uint8_t { Delay, DelayControl, Send, SendOn, SendControl, Pair };
  struct Item {
    Kind kind = Kind::Delay;
    bool pic = false, sends = false;
    std::uint32_t n = 0;
    std::uint32_t value = 0, pointer = 0;                     // controls
    std::uint32_t address = 0, send_control = 0, stride = 0;  // items; address in bytes
  };
  void push(const Item& item);
  bool align();
  bool split(std::size_t at);
  static void write(const Item& item, std::vector<std::uint32_t>& words, std::vector<Site>& sites);

  std::vector<Item> items_;
  std::size_t words_ = 0;       // so far
  std::size_t slack_from_ = 0;  // the last pair: items before it can no longer move it
};

}  // namespace tw::exchange
