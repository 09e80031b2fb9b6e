#include "exchange/row_writer.h"

#include <algorithm>

#include "target/isa.h"

namespace tw::exchange {
namespace {

constexpr std::uint32_t kSendAddressMask = 0x1FFFF8, kPointerMask = 0x3FFFF;

}  // namespace

void RowWriter::push(const Item& item) {
  items_.push_back(item);
  words_ += item.kind == Kind::Pair ? 2 : 1;
}

void RowWriter::delay(std::uint32_t n) { push({.kind = Kind::Delay, .n = n}); }

void RowWriter::control(const RowControl& c, std::uint32_t n) {
  push({.kind = Kind::DelayControl, .pic = c.pic, .n = n, .value = c.value});
}

void RowWriter::send(std::uint32_t n, const SendSpan& s) {
  push({.kind = Kind::Send,
        .sends = true,
        .n = n,
        .address = s.address,
        .send_control = s.control,
        .stride = s.stride});
}

void RowWriter::send_on(std::uint32_t n, std::uint32_t send_control) {
  push({.kind = Kind::SendOn, .sends = true, .n = n, .send_control = send_control});
}

void RowWriter::send_control(const RowControl& c, std::uint32_t n) {
  push({.kind = Kind::SendControl,
        .pic = c.pic,
        .sends = true,
        .n = n,
        .value = c.value,
        .send_control = items_.back().send_control});
}

bool RowWriter::pair(std::uint32_t n, const RowControl& select, const RowControl& pointer, const SendSpan* s,
                     std::uint32_t sent) {
  const bool aligned = align();
  slack_from_ = items_.size();
  push({.kind = Kind::Pair,
        .sends = s != nullptr,
        .n = n,
        .value = select.value,
        .pointer = pointer.value,
        .address = s ? s->address + 4 * sent : 0,
        .send_control = s ? s->control : 0,
        .stride = s ? s->stride : 0});
  return aligned;
}

// Makes the next word index even by splitting the nearest instruction that lasts two events or more.
bool RowWriter::align() {
  if (words_ % 2 == 0) return true;
  for (std::size_t i = items_.size(); i > slack_from_; --i) {
    if (split(i - 1)) return true;
  }
  return false;
}

bool RowWriter::split(std::size_t at) {
  Item& item = items_[at];
  if (item.n < 2) return false;
  Item rest;
  std::size_t place = at + 1;
  switch (item.kind) {
    case Kind::Send:  // the opening item alone, as the worked row E5 has it
      rest = {.kind = Kind::SendOn, .sends = true, .n = item.n - 1, .send_control = item.send_control};
      item.n = 1;
      break;
    case Kind::DelayControl:  // the control must stay on the last event
      rest = {.kind = Kind::Delay, .n = item.n - 1};
      item.n = 1;
      place = at;
      break;
    default:
      rest = {.kind = item.sends ? Kind::SendOn : Kind::Delay,
              .sends = item.sends,
              .n = 1,
              .send_control = item.send_control};
      --item.n;
  }
  ++words_;
  items_.insert(items_.begin() + static_cast<std::ptrdiff_t>(place), rest);
  return true;
}

void RowWriter::write(const Item& item, std::vector<std::uint32_t>& words, std::vector<Site>& sites) {
  const auto here = static_cast<std::uint32_t>(words.size());
  const Site address{here, kSendAddressMask, 2 * item.stride};  // words << 3
  switch (item.kind) {
    case Kind::Delay:
      words.push_back(isa::delay(item.n));
      break;
    case Kind::DelayControl:
      if (item.pic) sites.push_back({here, kPointerMask, 0});
      words.push_back(item.pic ? isa::delaypic(item.n, 0, item.value)
                               : isa::delayxpic(item.n, 0, item.value));
      break;
    case Kind::Send:
      sites.push_back(address);
      words.push_back(isa::send(item.n, item.address / 4, item.send_control));
      break;
    case Kind::SendOn:
      words.push_back(isa::sendoff(item.n, 0, item.send_control));
      break;
    case Kind::SendControl:
      if (item.pic) sites.push_back({here, kPointerMask, 0});
      words.push_back(isa::sendpic(item.n, item.pic ? 2 : 0, item.value));
      break;
    case Kind::Pair: {
      if (item.sends) sites.push_back(address);
      sites.push_back({here + 1, kPointerMask, 0});
      const auto two =
          isa::sendpicp(item.n, item.address / 4, item.send_control, 0, item.value, item.pointer);
      words.push_back(two.word0);
      words.push_back(two.word1);
    }
  }
}

void RowWriter::finish(std::vector<std::uint32_t>& words, std::vector<Site>& sites) const {
  words.clear();
  sites.clear();
  words.reserve(words_ + 1);
  for (const Item& item : items_) write(item, words, sites);
  words.push_back(isa::kReturnWord);
}

}  // namespace tw::exchange
