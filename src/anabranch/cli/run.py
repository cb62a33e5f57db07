"""`anabranch run`: start the queries of a flow file and show how they fare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from anabranch.cli.figures import count
from anabranch.cli.flow_file import check_sources, read_flow
from anabranch.cli.follow import follow
from anabranch.cli.spark_start import parse_conf, start_spark
from anabranch.cli.stop_request import StopRequest
from anabranch.cli.telling import Debug, InputError, telling
from anabranch.cli.views import RunView, choose_view
from anabranch.errors import ConfigError
from anabranch.language.duration import DURATION_HINT, duration_us
from anabranch.plan.logical import Flow
from anabranch.runtime.events import Event
from anabranch.runtime.settings import CONF_PREFIX, Settings
from anabranch.state import PosixStorage, newest

FlowFile = Annotated[Path, typer.Argument(metavar="FLOW.SQL", help="CREATE STREAM, CREATE QUERY, SET.")]


def run(
    flow: FlowFile,
    checkpoint: Annotated[
        Path, typer.Option(help="Directory of the state; a run that finds one goes on from it.")
    ],
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Stop when everything there is has been read.")
    ] = False,
    end_of_input: Annotated[
        bool,
        typer.Option(
            "--end-of-input", help="With --available-now: nothing older will come, every row is final."
        ),
    ] = False,
    every: Annotated[
        str | None, typer.Option(help='Start a batch at this interval, as in "2 seconds".')
    ] = None,
    sites: Annotated[int | None, typer.Option(help="Logical workers; the default is one per core.")] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark master; the default is all cores of this machine.")
    ] = None,
    conf: Annotated[list[str] | None, typer.Option(help="Spark setting key=value; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per batch and event.")] = False,
    debug: Debug = False,
) -> None:
    """Run the continuous queries of a flow file until they are done or Ctrl-C."""
    with telling(debug=debug):
        declared = read_flow(flow)
        trigger = _trigger(available_now=available_now, every=every)
        if end_of_input and not available_now:
            raise InputError("--end-of-input needs --available-now: only then does the input have an end")
        if end_of_input:
            trigger["endOfInput"] = True
        settings = parse_conf(conf or [])
        _check_options(declared, settings, sites)
        check_sources(declared)
        view = choose_view(title=f"{flow} · checkpoint {checkpoint}", as_json=as_json)
        code = _run(declared, checkpoint, view, trigger, (master, settings, sites), debug=debug)
    if code:
        raise typer.Exit(code)


def _run(
    flow: Flow,
    checkpoint: Path,
    view: RunView,
    trigger: dict[str, Any],
    cluster: tuple[str | None, dict[str, str], int | None],
    *,
    debug: bool,
) -> int:
    from anabranch.runtime.session import Session

    master, conf, sites = cluster
    try:
        view.note("Starting Spark …")
        spark = start_spark(master, conf, debug=debug)
        session = Session(spark, checkpoint, **({} if sites is None else {"sites": sites}))
        session.load(flow)
        with StopRequest() as stop, view:
            follow(session.start(**trigger), view, stop)
    except KeyboardInterrupt:
        Console(stderr=True).print("Interrupted. The state is at the last committed batch; nothing is lost.")
        return 130
    view.end(_last_word(session.checkpoint, stop))
    # To stop a run without end is how it ends; to stop one that had an end leaves work undone.
    return stop.exit_code if "availableNow" in trigger else 0


def _last_word(checkpoint: Path, stop: StopRequest) -> Event:
    manifest = newest(PosixStorage(checkpoint))
    batch = -1 if manifest is None else manifest.batch
    if stop.signal is not None:
        where = "before the first batch" if manifest is None else f"after batch {batch}"
        return Event(
            batch,
            "stopped",
            f"stopped {where} ({stop.signal.name}); the same command continues from {checkpoint}",
        )
    rows = sum(s.accepted for s in manifest.streams) if manifest else 0
    return Event(
        batch,
        "finished",
        f"everything available is processed: {count(rows)} rows in all, last batch {batch}; "
        f"the same command continues from {checkpoint} when there is more",
    )


def _trigger(*, available_now: bool, every: str | None) -> dict[str, Any]:
    """Spark's trigger words."""
    if available_now and every is not None:
        raise InputError("--available-now and --every exclude each other: choose one")
    if available_now:
        return {"availableNow": True}
    if every is None:
        return {}
    number, _, unit = every.strip().partition(" ")
    if not duration_us(number, unit.strip()):
        raise InputError(f"--every {every!r} is no length of time: write it {DURATION_HINT}")
    return {"processingTime": every}


def _check_options(flow: Flow, conf: dict[str, str], sites: int | None) -> None:
    """Refuse unknown or impossible settings before Spark starts."""
    if not flow.queries:
        raise InputError("the flow file has no query: add CREATE QUERY name INTO parquet 'path' AS SELECT …")
    ours = [(key, value) for key, value in conf.items() if key.startswith(CONF_PREFIX)]
    given = [] if sites is None else [("sites", str(sites))]
    try:
        Settings().with_values(ours).with_values(flow.settings).with_values(given)
    except ConfigError as error:
        raise InputError(str(error)) from None
