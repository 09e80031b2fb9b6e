"""Budgets at full size: met exactly they pass, missed by the smallest step they are refused with exact numbers (long).

`guards_test.py Guards.test_pe_capacity` and so on, with TILEWRIGHT_LONG=1; each compiles one model about five times.
"""
import json
import unittest

from harness import TempDir, assert_budgets_are_exact, long_test, tilewright


@long_test
class Guards(TempDir):
    def guard(self, model, policy, table_bar=None, cycles_bar=None):
        def build(*options, check=0):
            done = tilewright("compile", model, "--batch", 2, "--policy", policy, "-o", self.folder / "p.ipuexe",
                              "--progress", "never", "--json", "-", *options, check=check, timeout=3000)
            return json.loads(done.stdout)

        on = assert_budgets_are_exact(self, build)
        off = build("--relays", "off")["compile"]
        for key, figure in (("table B", lambda c: c["exchange"]["table_bytes_max"]),
                            ("fragments", lambda c: c["exchange"]["fragments_max"]),
                            ("scheduled cycles", lambda c: round(c["cycles"]["scheduled"]))):
            print(f"\n{model} {policy}: {key} {figure(on):,} with relays in {on['exchange']['relay_phases']} phases, "
                  f"{figure(off):,} without, difference {figure(on) - figure(off):,}", end="", flush=True)
        self.assertEqual(off["exchange"]["relay_phases"], 0)
        self.assertLessEqual(on["exchange"]["table_bytes_max"], off["exchange"]["table_bytes_max"])
        self.assertLessEqual(on["cycles"]["scheduled"], off["cycles"]["scheduled"])
        if table_bar:  # the seed's figures for the same job
            self.assertLessEqual(on["exchange"]["table_bytes_max"], table_bar)
            self.assertLessEqual(on["exchange"]["fragments_max"], 16384)
            self.assertLessEqual(on["cycles"]["scheduled"], cycles_bar)

    def test_pe_capacity(self):
        self.guard("pe-core-l14-capacity", "capacity", 50_652, 22_700_000)

    def test_siglip_capacity(self):
        self.guard("siglip-so400m", "capacity", 61_316, 25_300_000)

    def test_pe_default(self):
        self.guard("pe-core-l14-capacity", "default")


if __name__ == "__main__":
    unittest.main()
