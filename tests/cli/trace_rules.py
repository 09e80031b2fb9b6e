"""What the Trace Event Format asks of a file, and what this project adds: tracks without gaps, times that add up."""
import collections

REQUIRED = {"B": {"name", "cat", "ph", "ts", "pid", "tid"}, "E": {"ph", "ts", "pid", "tid"}, "C": {"name", "ph", "ts", "pid", "args"},
            "M": {"name", "ph", "pid", "args"}, "s": {"name", "cat", "ph", "ts", "pid", "tid", "id"},
            "f": {"name", "cat", "ph", "ts", "pid", "tid", "id", "bp"}}
METADATA = {"process_name", "thread_name", "thread_sort_index"}


def nanoseconds(microseconds):
    ns = round(microseconds * 1000)
    assert abs(ns - microseconds * 1000) < 1e-3 * max(1, ns * 1e-9), microseconds  # viewers keep whole nanoseconds
    return ns


def check_form(test, trace):
    """Fields, types, ranges, names of tracks, nesting of slices, ends of flows."""
    test.assertEqual(trace["displayTimeUnit"], "ns")
    named, slices, flows, opened = set(), collections.defaultdict(list), {}, {}
    for e in trace["traceEvents"]:
        test.assertIn(e["ph"], REQUIRED)
        test.assertLessEqual(REQUIRED[e["ph"]], set(e), e)
        test.assertIsInstance(e["pid"], int)
        test.assertIsInstance(e.get("tid", 0), int)
        test.assertGreaterEqual(e.get("ts", 0), 0)
        if e["ph"] == "M":
            test.assertIn(e["name"], METADATA)
            named.add((e["pid"], e.get("tid", 0)))
        elif e["ph"] == "C":
            test.assertTrue(all(isinstance(v, (int, float)) for v in e["args"].values()), e)
        elif e["ph"] == "B":
            test.assertNotIn((e["pid"], e["tid"]), opened)  # ours do not nest
            opened[e["pid"], e["tid"]] = e
        elif e["ph"] == "E":
            begin = opened.pop((e["pid"], e["tid"]))
            test.assertEqual((e["name"], e["cat"]), (begin["name"], begin["cat"]))
            slices[e["pid"], e["tid"]].append((nanoseconds(begin["ts"]), nanoseconds(e["ts"]), begin))
        else:
            ends = flows.setdefault((e["cat"], e["name"], e["id"]), {})
            test.assertNotIn(e["ph"], ends, "one start and one end")
            ends[e["ph"]] = e
    test.assertEqual(opened, {})
    test.assertLessEqual(set(slices), named)
    for track in slices.values():
        for before, after in zip(track, track[1:]):
            test.assertLessEqual(before[0], before[1])
            test.assertLessEqual(before[1], after[0])
    for ends in flows.values():
        test.assertEqual(set(ends), {"s", "f"})
        test.assertLessEqual(ends["s"]["ts"], ends["f"]["ts"])
        test.assertNotEqual(ends["s"]["tid"], ends["f"]["tid"])
        test.assertEqual(ends["f"]["bp"], "e")
        for e in ends.values():  # a flow hangs on the slice around its time
            around = [s for s in slices[e["pid"], e["tid"]] if s[0] <= nanoseconds(e["ts"]) < s[1]]
            test.assertEqual([s[2]["cat"] for s in around], ["exchange"], e)
    return slices, list(flows.values())


def check_cycles(test, slices, cycles, clock_hz):
    """Every track is full from zero to `cycles`."""
    for track in slices.values():
        now = 0
        for begin, end, e in track:
            test.assertEqual(begin, round(now * 1e9 / clock_hz), e)
            now += e["args"]["cycles"]
            test.assertEqual(end, round(now * 1e9 / clock_hz), e)
        test.assertEqual(now, cycles)
