"""Logging against transformation: figure 9, and which runs alternate as in figures 6 to 8."""

import cases
from cases import SETTINGS, TREES

from forebay import reproduce

VALUES = (1000, 10_000, 100_000)


def unsynced(value):
    """Returns the settings of a load that never waits for a flush to the media: many concurrent puts, up to 400 KB in
    total, with hardly any time between them.
    """
    return {"writers": max(2, min(256, 400_000 // value)), "host_ms": 0.1, **SETTINGS["to cache"]}


#: Puts that are so rare that transformations never overlap.
RARE = {"host_ms": 60.0, **SETTINGS["to cache"]}


class Periods:
    """Returns how long a log takes, synced and unsynced, and how long its transformation takes, by value and log."""

    def __init__(self, runs, short):
        self.runs = runs
        self.values = (100_000,) if short else VALUES
        self.logs = (5, 10) if short else (5, 50, 100, 200)
        for cases_ in self.listed().values():
            for case in cases_:
                runs.ask(**case)

    def listed(self):
        """Returns results by value and log: unsynced, synced, and rare in each tree."""
        listed = {}
        for value in self.values:
            for log in self.logs:
                # Enough data for two logs of the largest size. For small values, only part of the
                # data is used.
                mb = max(self.runs.mb if value > 1000 else self.runs.mb // cases.SMALL, 2 * log)
                case = {"value_bytes": value, "log_kb": log * 1000, "total_mb": mb, "arrangement": ["enhanced"]}
                synced = SETTINGS["to cache"]
                listed[value, log] = [{**case, **unsynced(value)}, {**case, **synced},
                                      *({**case, **RARE, **how} for how in TREES.values())]
        return listed

    def told(self):
        """Returns the periods in ms by value and log: unsynced, synced, transformation in each tree."""
        found = {}
        for at, (unsynced, synced, *rare) in self.listed().items():
            logging = [self.runs(**case)["enhanced"][0]["logging_ms"] for case in (unsynced, synced)]
            work = [self.runs(**case)["enhanced"][1]["transforming_ms"] for case in rare]
            found[at] = [*logging, *work]
        return found

    def claims(self):
        """Returns for each tree the largest log's time without sync, and the synced one's transformation, as shares."""
        told, largest = self.told(), max(self.logs)
        unsynced, synced = {}, {}
        for place, tree in enumerate(TREES):
            shares = [told[value, largest][2 + place] / told[value, largest][0] * 100 for value in self.values]
            unsynced[tree, "to cache"] = min(shares)
            synced[tree, "to cache"] = max(told[at][2 + place] / told[at][1] * 100 for at in told)
        return {"unsynced": (unsynced, lambda value: value > 100), "alternation": (synced, lambda value: value < 100)}

    def table(self):
        rows = [[f"{value / 1000:g}", str(log), *map(reproduce.number, told)]
                for (value, log), told in self.told().items()]
        heads = [f"transformed, {tree}" for tree in TREES]
        return reproduce.table(["KB of a value", "MB of a log", "logged, no sync", "logged, to cache", *heads], rows)


#: Where to look for alternations: host times between puts in ms, and sizes of logs in MB.
HOSTS, LOGS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.6), (5, 50)


class Alternations:
    """Returns runs whose disks alternate as in the paper's figures 6, 7 and 8."""

    def __init__(self, runs, short):
        self.runs = runs
        self.hosts = (0.1, 2.6) if short else HOSTS
        self.logs = LOGS[:1] if short else LOGS
        for host in self.hosts:
            for log in self.logs:
                for page in (8, 512):
                    runs.ask(**self.case(host, log, page))

    @staticmethod
    def case(host, log, page):
        return {**SETTINGS["to cache"], **TREES["in place"], "host_ms": host, "log_kb": log * 1000, "page_kib": page,
                "total_mb": 24 * log, "stages": True, "arrangement": ["enhanced"]}

    def found(self):
        """Returns by name the host time, the log, the row and its periods."""
        rows = {}
        for host in self.hosts:
            for log in self.logs:
                for page in (8, 512):
                    row = self.runs(**self.case(host, log, page))["enhanced"][1]
                    rows[host, log, page] = (row, cases.periods_ms(row))

        def share(at):
            logged, worked = rows[at][1]
            return worked / logged

        calm = [at for at in rows if rows[at][0]["overlaps"] == 0]
        crowded = [at for at in rows if rows[at][0]["overlaps"] > 0]
        chosen = {"acceptable": min(calm, key=lambda at: abs(at[0] - 2.6) + abs(at[1] - 5) + at[2] / 100)}
        if calm:
            chosen["ideal"] = min(calm, key=lambda at: abs(share(at) - 2))
        if crowded:
            chosen["bad"] = max(crowded, key=lambda at: (rows[at][0]["overlaps"], -at[1]))
        order = [name for name in ("ideal", "acceptable", "bad") if name in chosen]
        return {name: (chosen[name], *rows[chosen[name]]) for name in order}

    def table(self):
        rows = []
        for name, ((host, log, page), row, (logged, worked)) in self.found().items():
            rows.append([name, f"{host:g}", str(log), str(page), reproduce.number(logged), reproduce.number(worked),
                         str(row["overlaps"]), str(row["stalls"]), reproduce.number(row["slowed_percent"])])
        return reproduce.table(["alternation", "host ms", "MB of a log", "KiB of a page", "logging ms", "transformation ms",
                                "overlaps", "stalls", "slowed %"], rows)
