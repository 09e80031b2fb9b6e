#include "support.h"

namespace tw::kernel::test {
namespace {

// Element indexes of compiler.md 2.3 for F16 (mu = 16), one matrix.
using Index = std::function<std::uint64_t(std::uint32_t r, std::uint32_t c)>;
Index left(std::uint32_t rows) {
  return [=](std::uint32_t r, std::uint32_t c) { return (c / 16 * std::uint64_t{rows} + r) * 16 + c % 16; };
}
Index right(std::uint32_t columns) {
  return [=](std::uint32_t r, std::uint32_t c) {
    return (r / 16 * std::uint64_t{columns / 16} + c / 16) * 16 * 16 + r % 16 * 16 + c % 16;
  };
}
Index block(std::uint32_t columns, std::uint32_t rb) {
  return [=](std::uint32_t r, std::uint32_t c) {
    return ((r / rb * std::uint64_t{columns / 16} + c / 16) * (rb / 16) + r % rb / 16) * 16 * 16 +
           c % 16 * 16 + r % 16;
  };
}

std::uint32_t up16(std::uint32_t n) { return (n + 15) / 16 * 16; }

void pack(Image& image, const std::vector<std::uint32_t>& m, std::uint32_t drows, std::uint32_t dcols,
          const Index& index) {
  for (std::uint32_t r = 0; r < drows; ++r)
    for (std::uint32_t c = 0; c < dcols; ++c) {
      const bool valid = r < m[2] && c < m[4];
      image.put(m[0] + 2 * index(r, c),
                valid ? image.get<std::uint16_t>(m[1] + 2 * (r * m[3] + c)) : std::uint16_t{0});
    }
}

TEST(Pack, RowToEveryPackedOrder) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 40), columns = scene.between(1, 70);
    const std::uint32_t stride = columns + scene.below(6), dcols = up16(columns) + 16 * scene.below(2);
    const std::uint32_t rb = 16 * scene.between(1, 3), drows = (rows + rb - 1) / rb * rb;
    const std::uint32_t in = scene.halves(rows * stride, 1),
                        out = scene.place(std::uint64_t{drows} * dcols * 2);
    const std::vector<std::uint32_t> unit{0, 2};
    Invocation v;
    Index index;
    std::uint32_t height = drows;
    if (seed % 3 == 0) {
      v = {Code::PackRowToLeft, {out, in, rows, stride, columns, dcols}, {}, unit};
      index = left(rows), height = rows;
    } else if (seed % 3 == 1) {
      height = up16(rows);
      v = {Code::PackRowToRight, {out, in, rows, stride, columns, height, dcols}, {}, unit};
      index = right(dcols);
    } else {
      v = {Code::PackRowToBlock, {out, in, rows, stride, columns, drows, dcols, rb}, {}, unit};
      index = block(dcols, rb);
      expect_refused(v, 7, rb + 8, "multiple of 16");
    }
    verify(scene, v, [&](Image& image) { pack(image, v.m, height, dcols, index); });
    expect_refused(v, 4, dcols + 1, "larger than destination");
    expect_refused(v, 0, in, "overlap");
    expect_refused(v, 1, in + 2, "multiple of 8");
  }
}

TEST(Unpack, LeftAndBlockToRow) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    Scene scene(seed);
    const std::uint32_t rows = scene.between(1, 40), columns = scene.between(1, 70);
    const std::uint32_t stride = columns + scene.below(6), scols = up16(columns) + 16 * scene.below(2);
    const std::uint32_t rb = 16 * scene.between(1, 3), srows = (rows + rb - 1) / rb * rb;
    const std::uint32_t in = scene.halves(std::uint64_t{srows} * scols, 1),
                        out = scene.place(rows * stride * 2);
    const bool from_left = seed % 2 == 0;
    const Index index = from_left ? left(rows) : block(scols, rb);
    const Invocation v =
        from_left
            ? Invocation{Code::UnpackLeft, {out, in, rows, scols, columns, stride}, {}, {0, 2}}
            : Invocation{Code::UnpackBlock, {out, in, rows, columns, stride, srows, scols, rb}, {}, {0, 2}};
    verify(scene, v, [&](Image& image) {
      for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t c = 0; c < columns; ++c)
          image.put(out + 2 * (r * stride + c), image.get<std::uint16_t>(in + 2 * index(r, c)));
    });
    if (rows > 1) expect_refused(v, from_left ? 5 : 4, columns - 1, "overlap");
  }
}

TEST(Copy, EveryWordSize) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    Scene scene(seed);
    const std::uint32_t n = scene.between(1, 50);
    const Code code = seed % 3 == 0 ? Code::CopyU64 : seed % 3 == 1 ? Code::CopyU32 : Code::CopyU16;
    const std::uint32_t word = seed % 3 == 0 ? 8 : seed % 3 == 1 ? 4 : 2;
    const std::uint32_t from = scene.place(n * word, word), to = scene.place(n * word, word);
    Invocation v{code, {to, from, n}, {}, {0, word == 8 ? 4 : word}};
    if (word == 8) v.m = {to, from, n / 6, n % 6};
    verify(scene, v, [&](Image& image) {
      for (std::uint32_t i = 0; i < n * word; ++i) image.put(to + i, image.get<std::uint8_t>(from + i));
    });
    expect_refused(v, 1, from + word / 2, "multiple");
    expect_refused(v, 0, from, "overlap");
  }
}

TEST(Copy, StridedRows) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    Scene scene(seed);
    const std::uint32_t word = seed % 2 == 0 ? 8 : 4, row = scene.between(1, 9), rows = scene.between(1, 20);
    const std::uint32_t from_stride = (row + scene.below(4)) * word,
                        to_stride = (row + scene.below(4)) * word;
    const std::uint32_t from = scene.place(rows * from_stride, word),
                        to = scene.place(rows * to_stride, word);
    const Invocation v{word == 8 ? Code::CopyStrided64 : Code::CopyStrided32,
                       {to, from, row, rows, from_stride, to_stride},
                       {},
                       {0, 4}};
    verify(scene, v, [&](Image& image) {
      for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t i = 0; i < row * word; ++i)
          image.put(to + r * to_stride + i, image.get<std::uint8_t>(from + r * from_stride + i));
    });
    expect_refused(v, 4, from_stride + 2, "stride");
    if (rows > 1) expect_refused(v, 5, (row - 1) * word, "overlap");
    expect_refused(v, 2, 0, "zero");
  }
}

TEST(Fill, WritesZeros) {
  Scene scene(1);
  const std::uint32_t to = scene.place(104);
  const Invocation v{Code::Fill, {to, 104}, {}, {}};
  verify(scene, v, [&](Image& image) {
    for (std::uint32_t i = 0; i < 104; ++i) image.put<std::uint8_t>(to + i, 0);
  });
  expect_refused(v, 1, 12, "multiple of 8");
  expect_refused(v, 0, to + 4, "multiple of 8");
}

}  // namespace
}  // namespace tw::kernel::test
