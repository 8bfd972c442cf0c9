"""Forebay: what a storage workload does to its disks, and what would help."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, final, overload

import pandas
import polars
import pyarrow
from typing_extensions import Buffer, Self

from . import fleet as fleet
from . import laws as laws
from .sweep.answers import Answers
from .sweep.ask import Progress
from .sweep.grid import Grid

__all__ = [
    "Advice",
    "Batches",
    "Error",
    "Request",
    "Result",
    "Snapshot",
    "Store",
    "Table",
    "Trace",
    "TraceWarning",
    "__version__",
    "adapt",
    "adapt_writes",
    "fleet",
    "laws",
    "read",
    "sweep",
]

__version__: str

class Error(ValueError):
    """The input or the request is invalid, or an operating-system error occurred (then it is an `OSError` too)."""

class TraceWarning(UserWarning):
    """A trace was read with losses, or a result rests on weak evidence."""

class _ArrowTable(Protocol):
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

_T = TypeVar("_T")
_Path: TypeAlias = str | PathLike[str]
_Source: TypeAlias = _Path | Trace | _ArrowTable
_StreamBy: TypeAlias = Literal["thread", "process", "name"]
_Replay: TypeAlias = Literal["open", "closed", "dependent"]
_Map: TypeAlias = Literal["scale", "wrap", "clip"]
_Arrangement: TypeAlias = Literal["enhanced", "basic", "raid0"]

class _Sweep(Protocol):
    """The package `forebay.sweep`, which can be called like its function of that name."""

    def __call__(
        self,
        grid: Grid | Sequence[Grid],
        traces: _Path | Iterable[_Path],
        *,
        output: _Path,
        by_volume: bool | None = False,
        executor: Executor | None = None,
        client: Any = None,
        processes: int | None = None,
        shard: tuple[int, int] | None = None,
        retry: bool = False,
        storage: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Answers: ...
    def report(
        self, answers: Answers | _Path, path: _Path, *, figure: str | None = None, along: str | None = None
    ) -> None: ...

sweep: _Sweep

@final
class Trace:
    """A block-I/O trace on disk, read in batches each time its rows are requested.

    Columns: `at_ns` (int64, nanoseconds from the first request), `op` (read, write, flush, trim), `offset` (uint64,
    bytes), `len` (uint64, bytes), `stream` and `volume` (uint32, indices into `streams` and `volumes`), `latency_ns`
    (int64, nanoseconds, null where unknown), `flags` (letters of PFASM: preflush, FUA, read-ahead, synchronous,
    metadata).
    """

    @property
    def path(self) -> Path: ...
    @property
    def format(self) -> str: ...
    @property
    def streams(self) -> list[dict[str, Any]]: ...
    @property
    def volumes(self) -> list[str]: ...
    @property
    def records(self) -> int: ...
    @property
    def notes(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def batches(self) -> Batches: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def to_pyarrow(self) -> pyarrow.Table: ...
    def to_polars(self) -> polars.DataFrame: ...
    def to_pandas(self) -> pandas.DataFrame: ...
    def _repr_html_(self) -> str: ...

@final
class Batches:
    """The rows of a trace, about 65,000 at a time."""

    def __iter__(self) -> Iterator[Table]: ...
    def __next__(self) -> Table: ...

@final
class Table:
    """Rows that open in Polars, pandas and pyarrow."""

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def to_pyarrow(self) -> pyarrow.Table: ...
    def to_polars(self) -> polars.DataFrame: ...
    def to_pandas(self) -> pandas.DataFrame: ...

@final
class Request:
    """A request to the disk, as a policy sees it."""

    def __new__(
        cls,
        op: Literal["read", "write", "flush", "trim"],
        offset: int = 0,
        len: int = 0,
        *,
        stream: int = 0,
        flags: str = "",
    ) -> Self: ...
    @property
    def id(self) -> int | None: ...
    @property
    def at_ns(self) -> int: ...
    @property
    def op(self) -> Literal["read", "write", "flush", "trim"]: ...
    @property
    def offset(self) -> int: ...
    @property
    def len(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def stream(self) -> int: ...
    @property
    def sync(self) -> bool: ...
    @property
    def flags(self) -> str: ...

class _Policy(Protocol):
    """The methods required of a policy in Python; `complete`, `wakeup`, `wake` and `merged` are optional."""

    def submit(self, now: int, request: Request, /) -> Any: ...
    def dispatch(self, now: int, /) -> Request | None: ...

_PolicyLike: TypeAlias = str | _Policy | Callable[[], _Policy]

@final
class Result:
    """The result of `simulate`; as a table, one row for each policy."""

    @property
    def headline(self) -> str: ...
    @property
    def runs(self) -> list[dict[str, Any]]: ...
    @property
    def streams(self) -> Table: ...
    @property
    def heads(self) -> Table: ...
    @property
    def latencies(self) -> Table: ...
    def to_dict(self) -> dict[str, Any]: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def to_pyarrow(self) -> pyarrow.Table: ...
    def to_polars(self) -> polars.DataFrame: ...
    def to_pandas(self) -> pandas.DataFrame: ...
    def plot(self) -> Any: ...
    def _repr_html_(self) -> str: ...

@final
class Advice:
    """The result of `advise`; as a table, the ranking, best first."""

    @property
    def verdict(
        self,
    ) -> Literal[
        "recommended",
        "baseline_is_best",
        "load_too_low",
        "nothing_to_gain",
        "depends",
        "too_short",
        "no_times",
    ]: ...
    @property
    def recommended(self) -> str | None: ...
    @property
    def today(self) -> dict[str, str] | None: ...
    @property
    def headline(self) -> str: ...
    @property
    def findings(self) -> list[str]: ...
    @property
    def trust(self) -> dict[str, Any]: ...
    @property
    def disturbances(self) -> list[dict[str, Any]]: ...
    @property
    def remedies(self) -> list[dict[str, Any]]: ...
    @property
    def cautions(self) -> list[str]: ...
    @property
    def redundancy(self) -> dict[str, Any] | None: ...
    @property
    def ranking(self) -> list[dict[str, Any]]: ...
    @property
    def other_replay(self) -> dict[str, Any] | None: ...
    @property
    def runs(self) -> list[dict[str, Any]]: ...
    @property
    def html(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def to_pyarrow(self) -> pyarrow.Table: ...
    def to_polars(self) -> polars.DataFrame: ...
    def to_pandas(self) -> pandas.DataFrame: ...
    def _repr_html_(self) -> str: ...

def adapt(
    units: Sequence[int],
    chunks: Sequence[int],
    *,
    rules: str | Sequence[str],
    costs: str | dict[str, Any] | None = None,
    first: Literal["raid6", "raid10", "write"] = "raid6",
) -> list[dict[str, Any]]:
    """Compares rules of RAID adaptation with the offline optimum in the cost model."""

def adapt_writes(
    kind: Literal["a", "b", "c"],
    *,
    units: int = 1000,
    writes_per_unit: int = 24,
    run: int = 8,
    within: Literal["repeats", "draws"] = "repeats",
    after: Literal["same-bias", "opposite-bias"] = "same-bias",
    bias: float = 0.9,
    seed: int = 1,
) -> Table:
    """Generates the writes of one of the adaptive-RAID paper's workloads."""

def read(path: _Path, *, from_: str | None = None, columns: str | None = None) -> Trace:
    """Opens a trace in any format that the command reads."""

@final
class Store:
    """A key-value store on several plain disks, used like a dict: a put is durable when the call returns."""

    def __new__(
        cls, paths: _Path | Sequence[_Path], without_disk: bool = False, read_only: bool = False
    ) -> Self: ...
    @staticmethod
    def create(paths: _Path | Sequence[_Path], mb: int = 10_000, overwrite: bool = False) -> Store: ...
    def __getitem__(self, key: Buffer, /) -> bytes: ...
    def __setitem__(self, key: Buffer, value: Buffer, /) -> None: ...
    def __delitem__(self, key: Buffer, /) -> None: ...
    def __contains__(self, key: Buffer, /) -> bool: ...
    def __iter__(self) -> Iterator[bytes]: ...
    @overload
    def get(self, key: Buffer, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: Buffer, default: _T) -> bytes | _T: ...
    def discard(self, key: Buffer) -> None: ...
    def update(
        self,
        mapping: Mapping[bytes, Buffer] | Iterable[tuple[bytes, Buffer]],
        delete: Iterable[Buffer] | None = None,
    ) -> None: ...
    def keys(self, start: Buffer | None = None, stop: Buffer | None = None) -> Iterator[bytes]: ...
    def items(
        self, start: Buffer | None = None, stop: Buffer | None = None
    ) -> Iterator[tuple[bytes, bytes]]: ...
    def scan(self, start: Buffer | None = None, count: int = 100) -> list[tuple[bytes, bytes]]: ...
    def snapshot(self) -> Snapshot: ...
    def status(self) -> dict[str, Any]: ...
    def check(self) -> dict[str, Any]: ...
    def repair(self, *, give_up: bool = False) -> dict[str, Any]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class Snapshot:
    """A read-only view of a store as of a single point in time."""

    def __getitem__(self, key: Buffer, /) -> bytes: ...
    def __contains__(self, key: Buffer, /) -> bool: ...
    def __iter__(self) -> Iterator[bytes]: ...
    @overload
    def get(self, key: Buffer, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: Buffer, default: _T) -> bytes | _T: ...
    def keys(self, start: Buffer | None = None, stop: Buffer | None = None) -> Iterator[bytes]: ...
    def items(
        self, start: Buffer | None = None, stop: Buffer | None = None
    ) -> Iterator[tuple[bytes, bytes]]: ...
    def scan(self, start: Buffer | None = None, count: int = 100) -> list[tuple[bytes, bytes]]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

# Made from the declarations of the verbs: UPDATE=1 pytest tests/test_stubs.py

__all__ += [
    "advise",
    "array_score",
    "plan_buy",
    "cache",
    "plan_capacity",
    "capture",
    "compare",
    "plan_consolidate",
    "convert",
    "describe",
    "device_fit",
    "device_import",
    "device_probe",
    "device_validate",
    "devices",
    "fit",
    "formats",
    "generate",
    "offline",
    "play",
    "policies",
    "plan_power",
    "retrodict",
    "simulate",
    "plan_sla",
    "store_simulate",
    "plan_volume",
    "volume_check",
    "volume_create",
    "volume_grow",
    "volume_remove",
    "volume_replace",
    "volume_status",
]

def advise(
    trace: _Source | None = None,
    *,
    for_: str | None = None,
    device: _Path | None = None,
    current: str | None = None,
    fit_device: bool = False,
    flash: _Path | None = None,
    flash_size: str | int | None = None,
    array: int | None = None,
    failures_per_year: float = 0.0157,
    defects_per_year: float = 0.95,
    scrub: str = "168h",
    rebuild_mb_per_s: float = 50,
    prefer: Literal["total", "reads", "writes", "balance"] = "balance",
    report: _Path | None = None,
    replay: Literal["open", "closed", "dependent"] | None = None,
    intensity: float = 1,
    map: Literal["scale", "wrap", "clip"] = "scale",
    jobs: int | None = None,
    stream_by: Literal["thread", "process", "name"] = "thread",
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> Advice:
    """Find out what would help a disk with this workload."""

def array_score(
    device: _Path,
    *,
    drives: int = 6,
    chunk_kib: int = 64,
    filled_mib: int = 20480,
    outstanding: int | Sequence[int] = (1, 4, 16, 64),
    update: Literal["in-place", "fresh"] = "in-place",
    writes: int = 5000,
    seed: int = 1,
) -> dict[str, Any]:
    """Score RAID 6 and three copies for writes of 1 to 4 chunks, by simulation of six drives or more."""

def plan_buy(
    traces: _Source | Sequence[_Source],
    *,
    by: Literal["volume"] | None = None,
    keep_times: bool = False,
    within: str = "10ms",
    fraction: str | float = 0.99,
    promise: str | Mapping[str, tuple[str, str | float]] | Sequence[str | Mapping[str, tuple[str, str | float]]] | None = None,
    growth: float = 1,
    gib: int | None = None,
    spare: int = 0,
    headroom: str | float = 0.3,
    survives: int = 0,
    failures_per_year: float = 0.0157,
    defects_per_year: float = 0.95,
    scrub: str = "168h",
    rebuild_mb_per_s: float = 50,
    confidence: str | float | None = None,
    seed: int = 1,
    prices: _Path | None = None,
    budget: str | float | None = None,
    device: str | Sequence[str] | None = None,
    layout: Literal["single", "mirror", "raid6", "flash-cache", "volume-mirror", "volume-raid6", "adaptive"] | Sequence[Literal["single", "mirror", "raid6", "flash-cache", "volume-mirror", "volume-raid6", "adaptive"]] | None = None,
    clients: Literal["shared", "apart", "both"] = "both",
    flash: str = "d7-p5520",
    policy: str = "mq-deadline",
    devices_max: int = 64,
    configure: _Path | None = None,
    report: _Path | None = None,
    trust_times: bool = False,
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Find which drives to buy, how many and in which layout, to keep promises to clients."""

def cache(
    trace: _Source,
    *,
    block_kib: int | None = None,
    sizes_mib: float | Sequence[float] | None = None,
    sizes_blocks: int | Sequence[int] | None = None,
    report: _Path | None = None,
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Find how large a cache should be, and the hit ratio of caches of every size."""

def plan_capacity(
    trace: _Source,
    *,
    within: str | Sequence[str] = ("5ms", "10ms", "20ms", "50ms"),
    fraction: str | float | Sequence[str | float] = (0.9, 0.95, 0.99, 0.995, 0.999, 1),
    by: Literal["volume", "stream", "export"] | None = None,
    confidence: str | float | None = None,
    hold_out: str | float | None = None,
    seed: int = 1,
    cost_us: str | None = None,
    device: str | None = None,
    policy: str = "mq-deadline",
    devices_max: int = 64,
    price: float | None = None,
    report: _Path | None = None,
    trust_times: bool = False,
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Find the smallest capacity that answers a share of the requests within a time."""

def capture(
    device: _Path,
    output: _Path,
    *,
    for_: str,
    to: str | None = None,
    via: Literal["any", "blktrace", "tracefs"] = "any",
) -> dict[str, Any]:
    """Capture the requests that reach a block device as a trace."""

def compare(
    a: _Source,
    b: _Source,
    *,
    device: _Path | Sequence[_Path] | None = None,
    block_kib: int | None = None,
    intensity: float = 1,
    seed: int = 1,
    report: _Path | None = None,
    stream_by: Literal["thread", "process", "name"] = "thread",
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Report what got slower or faster from one trace to another, and how similar they are."""

def plan_consolidate(
    traces: _Source | Sequence[_Source],
    *,
    shift: str | Sequence[str] | None = None,
    clients: int | None = None,
    keep_times: bool = False,
    by: Literal["volume"] | None = None,
    within: str | Sequence[str] = "10ms",
    fraction: str | float | Sequence[str | float] = (1, 0.9, 0.95),
    cost_us: str | None = None,
    confidence: str | float | None = None,
    seed: int = 1,
    report: _Path | None = None,
    trust_times: bool = False,
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Find what clients that share a server need together, and what each of them needs alone."""

def convert(
    trace: _Source,
    output: _Path,
    *,
    to: str | None = None,
    partition_by: Literal["volume"] | None = None,
    between: str | None = None,
    anonymize: bool = False,
    key: _Path | None = None,
    cell_mib: int = 64,
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Convert a trace to Parquet, CSV, a fio iolog, DiskSim ASCII or binary blktrace."""

def describe(
    trace: _Source,
    *,
    threads: bool = False,
    limit: int = 20,
    period: str | None = None,
    report: _Path | None = None,
    stream_by: Literal["thread", "process", "name"] = "thread",
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Describe a trace: sizes, sequential runs, bursts, streams, volumes."""

def device_fit(
    measurements: _Path | Sequence[_Path],
    output: _Path,
    *,
    capacity: str | int | None = None,
    heads: int | None = None,
    rpm: float | None = None,
    name: str | None = None,
    kind: Literal["hdd", "ssd"] | None = None,
) -> dict[str, Any]:
    """Fit a drive model to fio's measurements: a sweep of queue depths, or latency logs."""

def device_import(
    file: _Path,
    output: _Path | None = None,
) -> dict[str, Any]:
    """Make a device file from a DiskSim .diskspecs and the .model, .seek and .parv next to it."""

def device_probe(
    target: _Path,
    output: _Path,
    *,
    name: str | None = None,
    driver: Literal["io_uring", "threads"] | None = None,
) -> dict[str, Any]:
    """Measure the limits of a cloud volume or a throttled disk, and write a device file."""

def device_validate(
    device: _Path,
    trace: _Path | Sequence[_Path],
    *,
    arrivals: str = "simulated",
) -> dict[str, Any]:
    """Compare a model with measurements of the drive: fio's results, or a DiskSim validation trace."""

def devices(
    device: _Path | Sequence[_Path] | None = None,
) -> dict[str, Any]:
    """List the bundled drives and volume types, or describe some of them or device files."""

def fit(
    trace: _Source,
    output: _Path | None = None,
    *,
    level: int | None = None,
    flat: bool = False,
    keep_names: bool = False,
    budget_kib: int | None = None,
    no_verdict: bool = False,
    epochs: int | None = None,
    blocks: int | None = None,
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Fit a small model to a trace, which can be shared instead of the trace."""

def formats(
    name: str | Sequence[str] | None = None,
) -> dict[str, Any]:
    """List the trace formats, or show an example of each format named."""

def generate(
    model: _Path,
    output: _Path,
    *,
    to: str | None = None,
    seed: int = 0,
    requests: int | None = None,
    for_: str | None = None,
    intensity: float = 1,
    without: str | Sequence[str] | None = None,
) -> dict[str, Any]:
    """Generate a trace from a model: a twin of the trace that the model was fitted to."""

def offline(
    trace: _Source,
    *,
    device: _Path,
    policy: str | Sequence[str],
    windows: int = 50,
    ios: int = 8,
    stream_by: Literal["thread", "process", "name"] = "thread",
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Compare schedulers with the best order of requests, found by search on small parts of a trace."""

def play(
    trace: _Source,
    *,
    target: _Path | None = None,
    map_volume: str | Mapping[str, _Path] | Sequence[str | Mapping[str, _Path]] | None = None,
    volume: _Path | Sequence[_Path] | None = None,
    emulate: _Path | None = None,
    flash: _Path | None = None,
    fail: str | Sequence[str] | None = None,
    policy: str | None = None,
    for_: str | None = None,
    overwrite: bool = False,
    driver: Literal["io_uring", "threads"] | None = None,
    buffered: bool = False,
    realtime: bool = False,
    depth: int | None = None,
    replay: Literal["open", "closed", "dependent"] = "open",
    intensity: float = 1,
    map: Literal["scale", "wrap", "clip"] = "scale",
    stream_by: Literal["thread", "process", "name"] = "thread",
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Play a trace on real files and devices, or on an emulated one, in wall time."""

def policies(
    policy: str | Sequence[str] | None = None,
) -> dict[str, Any]:
    """List the policies, or describe some of them with their parameters."""

def plan_power(
    traces: _Source | Sequence[_Source],
    *,
    device: str = "ultrastar-36z15",
    disk_iops: int | None = None,
    off_w: float | None = None,
    pool_disks: int = 4,
    within: str = "20ms",
    fraction: str | float = 0.99,
    baseline_fraction: str | float = 1,
    epoch: str = "1h",
    history: int = 1,
    report: _Path | None = None,
    trust_times: bool = False,
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Find how much energy a promise requires if pools of disks can be switched off."""

def retrodict(
    trace: _Source,
    *,
    device: _Path,
    policy: str = "mq-deadline",
    disks: int = 1,
    replay: Literal["open", "closed", "dependent"] = "open",
    map: Literal["scale", "wrap", "clip"] = "scale",
    stream_by: Literal["thread", "process", "name"] = "thread",
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Compare a model with a recording: simulate the system that recorded a trace, and compare latencies."""

def simulate(
    trace: _Source,
    *,
    device: _Path | None = None,
    policy: _PolicyLike | Sequence[_PolicyLike] | None = None,
    serve: _Path | None = None,
    served_disk: str | None = None,
    flash: _Path | None = None,
    disks: int = 1,
    fail: str | Sequence[str] | None = None,
    least_time: bool = False,
    defragment: bool = False,
    replay: Literal["open", "closed", "dependent"] = "open",
    intensity: float = 1,
    map: Literal["scale", "wrap", "clip"] = "scale",
    jobs: int | None = None,
    report: _Path | None = None,
    stream_by: Literal["thread", "process", "name"] = "thread",
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> Result:
    """Simulate a trace under several policies on a model of a drive, and compare the results."""

def plan_sla(
    promise: _Path | tuple[float, float] | Sequence[tuple[float, float]],
    trace: _Source,
    *,
    capacity: int | None = None,
    cost_us: str | None = None,
    report: _Path | None = None,
    trust_times: bool = False,
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Find the smallest capacity that keeps a promise of several tiers, e.g. 90 % within 20 ms and 99 % within 50 ms."""

def store_simulate(
    device: _Path = "st1000nm0011",
    *,
    disks: int = 4,
    value_bytes: int = 100000,
    total_mb: int = 1000,
    writers: int = 1,
    host: str = "2.6ms",
    arrangement: Literal["enhanced", "basic", "raid0"] | Sequence[Literal["enhanced", "basic", "raid0"]] = ("enhanced", "basic", "raid0"),
    no_merging: bool = False,
    to_cache: bool = False,
    tree: Literal["runs", "in-place"] = "runs",
    tree_depth: int = 1,
    tuned: bool = False,
    wall: bool = False,
    keys: Literal["random", "sequential"] = "random",
    log_kb: int = 5000,
    chunk_kib: int = 64,
    read_log: bool = False,
    flush: bool = False,
    page_kib: int = 8,
    tree_memory_mb: int = 2000,
    tree_sync: Literal["record", "log", "close"] = "log",
    stages: bool = False,
) -> dict[str, Any]:
    """Find how much sorting slows down puts, by running the store's own code on models of disks."""

def plan_volume(
    trace: _Source | None = None,
    *,
    within: str = "10ms",
    fraction: str | float = 0.99,
    type: str | Sequence[str] | None = None,
    gib: int | None = None,
    growth: float = 1,
    depth: str | Sequence[str] = ("0s", "100ms"),
    credit: Literal["full", "empty", "steady"] = "steady",
    base_latency: str | None = None,
    current: str | None = None,
    instance: str | None = None,
    prices: _Path | None = None,
    from_counters: _Path | None = None,
    disk: str | None = None,
    confidence: str | float | None = None,
    seed: int = 1,
    report: _Path | None = None,
    trust_times: bool = False,
    from_: str | None = None,
    columns: str | None = None,
    split_runs: bool = False,
    only_volume: str | None = None,
    layer: Literal["bottom", "top"] | None = None,
    bad_rows: str | float = "1%",
    model_seed: int = 0,
    names: Trace | None = None,
) -> dict[str, Any]:
    """Find which cloud volume to buy, and with which IOPS and throughput, to keep a promise."""

def volume_check(
    drives: _Path | Sequence[_Path],
    *,
    rate: int | None = None,
) -> dict[str, Any]:
    """Read everything on a volume, including all copies and parities, and repair errors."""

def volume_create(
    drives: _Path | Sequence[_Path] | None = None,
    *,
    ssd: _Path | Sequence[_Path] | None = None,
    level: Literal["raid0", "raid5", "raid6", "raid10", "raid10x3", "raid10x4"] = "raid6",
    chunk_kib: int = 64,
    chunks: int = 4,
    spares: int = 0,
    device: _Path | Sequence[_Path] | None = None,
    ssd_device: _Path | Sequence[_Path] | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Create a volume from drives."""

def volume_grow(
    drives: _Path | Sequence[_Path],
    *,
    with_: _Path | Sequence[_Path] | None = None,
    ssd: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Enlarge a volume with more drives, or with drives that have become larger."""

def volume_remove(
    drives: _Path | Sequence[_Path],
    *,
    drive: str,
) -> dict[str, Any]:
    """Remove a drive from a volume if the others have space for its data."""

def volume_replace(
    drives: _Path | Sequence[_Path],
    *,
    with_: _Path,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Replace a missing drive with a new one, and restore its data."""

def volume_status(
    drives: _Path | Sequence[_Path],
) -> dict[str, Any]:
    """Show the state of a volume without writing anything."""
