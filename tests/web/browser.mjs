// An offline chromium and what must not happen in it.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";

const SIZES = [[1280, 800], [1920, 1080]];

// `modules`: folder with node_modules. `problems` collects errors of the page, console messages that `isProblem`
// names, and every address asked for that is no file on this machine.
export async function start(modules, { args = [], context = {}, isProblem = (m) => m.type() === "error" } = {}) {
  const { chromium } = createRequire(path.join(modules, "package.json"))("playwright-core");
  const browser = await chromium.launch({ executablePath: process.env.TW_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", ...args] });
  const [width, height] = SIZES[0];
  const page = await (await browser.newContext({ viewport: { width, height }, offline: true, ...context })).newPage();
  const problems = [];
  page.on("pageerror", (e) => problems.push(String(e)));
  page.on("console", (m) => isProblem(m) && problems.push(m.text()));
  page.on("request", (r) => /^(file|data):/.test(r.url()) || problems.push(`asks for ${r.url()}`));
  return { browser, page, problems };
}

// Pictures of views, each at two widths, light and dark: NAME-WIDTH-SCHEME.png in `folder`. `views`: {name, url, look},
// `look`: what is asserted of the open view.
export async function picture(page, folder, views) {
  for (const [width, height] of SIZES) {
    await page.setViewportSize({ width, height });
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      for (const { name, url, look = async () => {} } of views) {
        await page.goto(url);
        await page.reload();
        await look();
        const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
        assert.equal(wide, false, `${name} is wider than ${width}`);
        await page.screenshot({ path: path.join(folder, `${name}-${width}-${scheme}.png`), fullPage: true });
      }
    }
  }
}
