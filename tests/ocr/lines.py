"""Lines of text drawn with real fonts, and what PP-OCR makes of such a picture before it is recognised."""
import array
import dataclasses
import math
import pathlib
import random

from PIL import Image, ImageDraw, ImageFont

HEIGHT, WIDTH = 48, 320  # of the recogniser's input


@dataclasses.dataclass(frozen=True)
class Line:
    text: str
    font: str
    size: int  # pixels per em
    ink: tuple = (0, 0, 0)
    paper: tuple = (255, 255, 255)
    noise: float = 0.0  # standard deviation of the paper's grain, of 255
    index: int = 0  # of the face in a collection


ZENHEI = "wqy-zenhei.ttc"
LINES = (
    Line("Hello, World!", "DejaVuSans.ttf", 40),
    Line("Tilewright 2026", "DejaVuSerif-Bold.ttf", 28, noise=6),
    Line("3.14159265358979", "DejaVuSansMono.ttf", 24),
    Line("(A+B)*C = 42%", "DejaVuSans-Bold.ttf", 34, ink=(20, 20, 120), noise=4),
    Line("The quick brown fox", "LiberationSerif-Regular.ttf", 36, paper=(250, 244, 220)),
    Line("jumps over 13 dogs.", "LiberationSans-Bold.ttf", 22, ink=(120, 10, 10)),
    Line("Invoice No. 48-1027", "LiberationSansNarrow-Regular.ttf", 44, noise=8),
    Line("TOTAL: $1,299.50", "LiberationMono-Bold.ttf", 30, paper=(225, 232, 240)),
    Line("user@example.org", "LiberationSans-Italic.ttf", 26),
    Line("WEDNESDAY 08:45", "LiberationSerif-Bold.ttf", 56, ink=(245, 245, 245), paper=(30, 60, 40), noise=5),
    Line("你好，世界", ZENHEI, 40),
    Line("上海浦东国际机场", ZENHEI, 32, noise=6),
    Line("第12号线 人民广场", ZENHEI, 28, ink=(255, 255, 255), paper=(160, 30, 30)),
    Line("神经网络Transformer", ZENHEI, 36, ink=(60, 60, 60), noise=4),
    Line("合计：￥368.00元", ZENHEI, 24, paper=(245, 240, 225)),
    Line("二维码扫描支付", ZENHEI, 48, ink=(0, 70, 140), paper=(235, 245, 235), noise=8, index=1),
)


def draw(line: Line, fonts: pathlib.Path, seed: int) -> Image.Image:
    """An RGB picture of the line with a margin of a sixth of an em. Equal arguments give equal pixels."""
    font = ImageFont.truetype(str(fonts / line.font), line.size, line.index, layout_engine=ImageFont.Layout.BASIC)
    left, top, right, bottom = font.getbbox(line.text)
    margin = math.ceil(line.size / 6)
    picture = Image.new("RGB", (right - left + 2 * margin, bottom - top + 2 * margin), line.paper)
    if line.noise:
        grain = random.Random(seed)
        picture.putdata([tuple(round(min(max(c + shift, 0), 255)) for c in line.paper)
                         for shift in (grain.gauss(0, line.noise) for _ in range(picture.width * picture.height))])
    ImageDraw.Draw(picture).text((margin - left, margin - top), line.text, fill=line.ink, font=font)
    return picture


def recogniser_input(picture: Image.Image) -> array.array:
    """F32 [3, 48, 320] in the order blue, green, red, from -1 to 1: scaled to the height, at most as wide as the
    input, zeros to the right of it."""
    width = min(WIDTH, math.ceil(HEIGHT * picture.width / picture.height))
    scaled = picture.resize((width, HEIGHT), Image.Resampling.BILINEAR)
    values = array.array("f")
    for channel in reversed(scaled.split()):
        pixels = channel.tobytes()
        for row in range(HEIGHT):
            values.extend((p / 255 - 0.5) / 0.5 for p in pixels[row * width:(row + 1) * width])
            values.extend([0.0] * (WIDTH - width))
    return values
