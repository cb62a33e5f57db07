"""`anabranch run`: start the queries of a flow file and show how they fare."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from anabranch.cli.flow_file import check_sources, read_flow
from anabranch.cli.screen.figures import duration
from anabranch.cli.screen.follow import follow
from anabranch.cli.screen.telling import Debug, InputError, telling
from anabranch.cli.screen.views import RunView, choose_view
from anabranch.cli.small_input import quick_options
from anabranch.cli.spark_start import log_kept_after_failure, parse_conf, start_spark
from anabranch.cli.stop_request import StopRequest
from anabranch.engine.settings import CONF_PREFIX, Settings
from anabranch.errors import ConfigError
from anabranch.language.syntax.duration import DURATION_HINT, duration_us
from anabranch.plan.logical import Flow

FlowFile = Annotated[Path, typer.Argument(metavar="FLOW.SQL", help="CREATE STREAM, CREATE QUERY, SET.")]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where Spark runs, and how."""

    master: str | None
    conf: dict[str, str]
    sites: int | None
    log_file: Path | None


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
    log_file: Annotated[
        Path | None, typer.Option(help="Keep Spark's log in this file; else it is kept only after a failure.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per batch and event.")] = False,
    debug: Debug = False,
) -> None:
    """Run the continuous queries of a flow file until they are done or Ctrl-C."""
    with log_kept_after_failure(), telling(debug=debug):
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
        cluster = Cluster(master, settings, sites, log_file)
        code = _run(declared, checkpoint, view, trigger, cluster, debug=debug)
    if code:
        raise typer.Exit(code)


def _run(
    flow: Flow,
    checkpoint: Path,
    view: RunView,
    trigger: dict[str, Any],
    cluster: Cluster,
    *,
    debug: bool,
) -> int:
    try:
        view.note("Starting Spark …")
        began = time.perf_counter()
        _import_beside()
        spark = start_spark(
            cluster.master,
            cluster.conf,
            java_options=quick_options(flow) if "availableNow" in trigger else "",
            log_file=cluster.log_file,
            debug=debug,
        )
        view.note(f"Spark is up after {duration(time.perf_counter() - began)}. Workers start …")
        from anabranch.cli.screen.last_word import last_word
        from anabranch.spark.session import Session

        session = Session(spark, checkpoint, **({} if cluster.sites is None else {"sites": cluster.sites}))
        flow = session.load(flow)
        with StopRequest() as stop, view:
            follow(session.start(listeners=[view], **trigger), stop)
            if stop.signal is not None:
                view.stopped()
    except KeyboardInterrupt:
        Console(stderr=True).print("Interrupted. The state is at the last committed batch; nothing is lost.")
        return 130
    view.last_word(last_word(session.checkpoint, flow.queries, stop))
    # To stop a run without end is how it ends; to stop one that had an end leaves work undone.
    return stop.exit_code if "availableNow" in trigger else 0


def _import_beside() -> None:
    """Import what a session needs while the JVM starts: it takes a second."""
    import_module("anabranch.spark.start.spark_session")  # PySpark cannot be imported by two threads at once
    threading.Thread(target=import_module, args=("anabranch.spark.session",), daemon=True).start()


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
    if not flow.queries and not flow.unbound:
        raise InputError("the flow file has no query: add CREATE QUERY name INTO parquet 'path' AS SELECT …")
    ours = [(key, value) for key, value in conf.items() if key.startswith(CONF_PREFIX)]
    given = [] if sites is None else [("sites", str(sites))]
    try:
        Settings().with_values(ours).with_values(flow.settings).with_values(given)
    except ConfigError as error:
        raise InputError(str(error)) from None
