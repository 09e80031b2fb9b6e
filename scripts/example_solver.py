#!/usr/bin/env python3
"""Greedy first fit for one placement problem (docs/problems.md): example_solver.py PROBLEM.json SOLVED.json"""
import json
import sys

problem = json.load(open(sys.argv[1]))
memory, requests = problem["memory"], problem["requests"]
base, placed = memory["interleaved_base"], {}
separate = {frozenset((p["a"], p["b"])) for p in problem["separate"]}


def element(address):
    """Begin and end of the memory element of a byte."""
    start, size = (0, memory["element_bytes"]) if address < base else (base, memory["pair_bytes"])
    begin = start + (address - start) // size * size
    return begin, begin + size


def obstacle_end(i, at):
    """End of a placed request that is in the way of request i at address `at`; None: it fits."""
    r = requests[i]
    for j, begin in placed.items():
        end = begin + requests[j]["bytes"]
        together = (r["last"] is None or requests[j]["first"] <= r["last"]) and \
                   (requests[j]["last"] is None or r["first"] <= requests[j]["last"])
        if frozenset((i, j)) in separate:
            begin, end = element(begin)[0], element(end - 1)[1]
        elif not together:
            continue
        if at < end and begin < at + r["bytes"]:
            return end


def first_fit(i):
    r = requests[i]
    short = r["class"] == "standard" and r["first"] > 0 and r["last"] is not None
    for span in (problem["aperture"] if short else []) + problem["free"]:
        if r["class"] == "interleaved" and span["begin"] < base:
            continue
        at = span["begin"]
        while at is not None:
            at = -(-at // r["alignment"]) * r["alignment"]
            if at + r["bytes"] > span["end"]:
                break
            found, at = at, obstacle_end(i, at)
            if at is None:
                return found
    sys.exit(f"no place for request {i}")


for i in sorted(range(len(requests)), key=lambda i: (requests[i]["last"] is not None, -requests[i]["bytes"])):
    placed[i] = first_fit(i)
problem["solution"] = {"solver": "first fit", "addresses": [placed[i] for i in range(len(requests))]}
json.dump(problem, open(sys.argv[2], "w"))
