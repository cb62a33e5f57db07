"""The handle of a running session; it mirrors PySpark's StreamingQuery."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from anabranch.adapt.events import Event
from anabranch.engine.progress import Progress
from anabranch.errors import AnabranchError, ConfigError
from anabranch.exchange.address import PARTITIONS
from anabranch.queries.catalog import explain_query
from anabranch.spark.live_queries import LiveQueries
from anabranch.spark.reading.declared import AnySink
from anabranch.spark.run_driver import RunDriver
from anabranch.spark.run_html import run_html


class Run:
    """A running session. Made by `Session.start`.

    Examples
    --------
    ::

        run = session.start()
        run.processAllAvailable()
        run.lastProgress.input_rows, run.lastProgress["numInputRows"]
        run.stop()
    """

    def __init__(self, driver: RunDriver, queries: LiveQueries) -> None:
        self._driver = driver
        self._queries = queries

    @property
    def id(self) -> str:
        """The same in every run from this checkpoint."""
        return str(self.streamingQuery.id)

    @property
    def runId(self) -> str:
        """Of this run alone."""
        return str(self.streamingQuery.runId)

    @property
    def name(self) -> str | None:
        """As given to `session.start(queryName=…)`."""
        return self.streamingQuery.name

    @property
    def streamingQuery(self) -> StreamingQuery:
        """Spark's own handle."""
        return self._driver.query

    @property
    def isActive(self) -> bool:
        """Whether the run goes on; once it does not, another may take the checkpoint."""
        return self._driver.is_active

    @property
    def status(self) -> dict[str, Any]:
        """As in Spark; of a run that has ended, how: `done`, `stopped` or `failed`."""
        if self.isActive:
            return dict(self.streamingQuery.status)
        return {"message": self._how(), "isDataAvailable": False, "isTriggerActive": False}

    @property
    def lastProgress(self) -> Progress | None:
        """Progress of the last committed batch."""
        progress = self._driver.record.progress
        return progress[-1] if progress else None

    @property
    def recentProgress(self) -> list[Progress]:
        """The newest progress, oldest first; `progress.jsonl` in the checkpoint goes further back."""
        return list(self._driver.record.progress)

    @property
    def events(self) -> list[Event]:
        """What happened beside rows, oldest first: the newest events."""
        return list(self._driver.record.events)

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait for the end of the run, or for `timeout` seconds; raises what made it fail."""
        if not self._driver.wait(timeout):
            return False
        if (error := self.exception()) is not None:
            raise error from self._driver.cause
        return True

    def processAllAvailable(self) -> None:
        """Wait until all rows that are there now have been processed; raises what made the run fail."""
        self._driver.process_all_available()
        if (error := self.exception()) is not None:
            raise error from self._driver.cause

    def exception(self) -> AnabranchError | None:
        """Why the run failed; None while it runs or when it ended well."""
        return self._driver.error

    def explain(self, query: str | None = None) -> None:
        """Print how the queries run, or one of them: keys, routing, plan, states."""
        catalog = self._driver.loop.catalog
        names = [q.name for q in catalog.answered]
        if query is not None and query not in names:
            raise ConfigError(f"there is no query {query!r}: choose from {', '.join(names)}")
        sites = self._driver.loop.partition_map.sites
        chosen = names if query is None else [query]
        print("\n\n".join(explain_query(catalog, name, sites=sites) for name in chosen))

    def rescale(self, sites: int) -> None:
        """Change the number of sites from the next batch on; no state is rewritten."""
        if not 1 <= sites <= PARTITIONS:
            raise ConfigError(f"rescale({sites}): choose 1 to {PARTITIONS} sites")
        self.set(sites=sites)

    def set(self, **settings: int | str) -> None:
        """Change settings of the running session, such as `memory_budget_mb`, from the next batch on."""
        self._refuse_if_ended("set")
        self._driver.loop.change(**settings)

    def add(self, name: str, select: str, sink: AnySink, *, history: bool = False) -> None:
        """Let a query run from the next batch on; it sees rows from there.

        At the next boundary it is in the checkpoint: a later run takes it up by itself if its sink can be
        written down, as `ab.parquet("out")` can. Spark's query is started anew to read for it; `events` say
        how long all waited for that.

        Parameters
        ----------
        sink
            As for `session.query`.
        history
            Whether new rows may meet older ones, as far as a group that the query joins still has them; else,
            and where it joins none, it begins with an empty state.

        Raises
        ------
        ConfigError
            There is a query of this name, or the run has ended.
        """
        self._refuse_if_ended("add")
        self._queries.add(name, select, sink, history=history)

    def drop(self, name: str) -> None:
        """Let a query end with the next step. Rows that wait to enter its state are let in before."""
        self._refuse_if_ended("drop")
        self._queries.drop(name)

    def replace(self, name: str, select: str) -> None:
        """Give a query another text from the next batch on.

        It keeps its state if that has all that the text needs, as after a restart; else it begins anew. Its
        results must have the columns that they had.
        """
        self._refuse_if_ended("replace")
        self._queries.replace(name, select)

    def migrate(
        self,
        query: str,
        plan: str,
        *,
        site: int | None = None,
        strategy: str = "moving_state",
        force: bool = False,
    ) -> None:
        """Change a query's plan at the next boundary, at one site or at all.

        Parameters
        ----------
        plan
            A join tree over the query's references, such as `((a b) c)`.
        strategy
            `moving_state`: states that the new plan lacks are computed in the next batch; or
            `parallel_track`: both plans run until the old rows have left the windows.
        force
            Even if the plan is predicted to keep more intermediate rows than `work_memory_mb` has room for.
            If it does, the site goes on without intermediate states.

        Raises
        ------
        ConfigError
            There is no such query, site or plan, the plan is predicted to keep too much, or the run has
            ended.
        """
        self._refuse_if_ended("migrate")
        self._driver.loop.migrate(query, plan, site, strategy, force=force)

    def stop(self) -> None:
        """Stop after the batch under way, which commits first."""
        self._driver.stop()

    def __repr__(self) -> str:
        last = self.lastProgress
        return f"<Run {'running' if self.isActive else self._how()}, batch {last.batch if last else '–'}>"

    def _repr_html_(self) -> str:
        """For notebooks: rates, queries with their plans, and the last decisions."""
        how = "running" if self.isActive else self._how()
        return run_html(how, self.lastProgress, self.events, plans=self._driver.loop.tracks.plans)

    def _how(self) -> str:
        if self.exception() is not None:
            return "failed"
        return "stopped" if self._driver.is_stopping else "done"

    def _refuse_if_ended(self, what: str) -> None:
        if not self.isActive:
            raise ConfigError(f"the run has ended, so that {what}(…) changes nothing: start it again first")
