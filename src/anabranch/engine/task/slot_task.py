"""What the slots of one batch are told: all that they need to know beside their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.adapt.tracks.tracks import Tracks
from anabranch.engine.event_time import NEVER_LATE
from anabranch.engine.step.manifests.shipments import Shipment
from anabranch.engine.step.times.finality import trims_of
from anabranch.engine.task.arrival.admission import OPEN, Admission
from anabranch.engine.task.arrival.key_sketches import SketchedKey
from anabranch.engine.task.arrival.routing import routers_of
from anabranch.engine.task.arrival.wire import Wire
from anabranch.engine.task.blocks.step_blocks import StepBlocks
from anabranch.engine.task.home_parts import HomeParts
from anabranch.engine.task.results.live_split import LiveSplit
from anabranch.engine.task.sites.memory_plan import MemoryPlan
from anabranch.engine.task.sites.site_work import TrackCompiler, TrackWork
from anabranch.engine.task.sites.step_work import StepWork
from anabranch.engine.task.worker.constants import Constants, ConstantsFile, compiled_constants
from anabranch.exchange.aligned_router import AlignedTable
from anabranch.exchange.coordinated_router import Routes
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.router import Router
from anabranch.exchange.slot_map import SlotMap
from anabranch.exchange.split_router import HotKey
from anabranch.exchange.station_router import StationRouter
from anabranch.operators.group.final_rows import Emission
from anabranch.operators.group.newest_rows import Trim
from anabranch.operators.group.windows.window_rows import Condense
from anabranch.plan.inputs import Layout
from anabranch.plan.logical import Query
from anabranch.plan.states.state_id import StateId
from anabranch.state.block import BlockMeta
from anabranch.state.stamp import Stamp
from anabranch.state.storage import Storage


@dataclass(frozen=True, slots=True)
class SlotTask:
    """Everything the slots of one batch need to know beside their rows."""

    storage: Storage
    stamp: Stamp
    """Who writes the files of this step."""
    constants: ConstantsFile
    """What holds as long as no query comes or goes."""
    batch: int
    slots: int
    partition_map: PartitionMap
    tracks: Tracks
    """Of queries that it does not name, all sites run the plan that the constants have."""
    failed: frozenset[str]
    """Queries that were ended."""
    watermarks: Mapping[str, int | None]
    """By stream: rows before it are late."""
    latest: int
    """Rows after this time are too far ahead."""
    step_blocks: StepBlocks
    quota_pairs: int
    work_memory: int | None = None
    """Bytes that a query may keep of one batch at one site; None is any number."""
    memory_budget: int | None = None
    """Bytes that a site may hold open."""
    admission: Admission = OPEN
    look: int | None = None
    """Number of the look at how the references of joins meet, where one is due."""
    emissions: Mapping[str, Emission] = field(default_factory=dict)
    """By query that emits rows once they are final: which are, in this step."""
    shipments: tuple[Shipment, ...] = ()
    """What sites take over from others, where they share nothing."""
    relaid: tuple[BlockMeta, ...] = ()
    """Blocks of joins that were laid out otherwise until now: their rows get new addresses."""
    router: StationRouter = field(default_factory=StationRouter)
    """Which stations rows take first, and next."""
    aligned: Mapping[str, AlignedTable] = field(default_factory=dict)
    """By query with aligned routing, where its rows go."""
    coordinated: Mapping[str, Routes] = field(default_factory=dict)
    """By query with coordinated routing, the paths of its units."""
    hot: tuple[HotKey, ...] = ()
    """Keys whose rows are spread."""
    looks_for_hot_keys: bool = False
    roster: tuple[ConstantsFile, ...] = ()
    """Members that have come and gone since then."""
    homes: bytes = b""
    """By query of the layout, the site that works on it alone, or -1; empty if none has one."""
    beside: frozenset[str] = frozenset()
    """Blocks of other parts of the step (`home_parts`)."""
    gathers: bool = False
    """Whether the one slot takes rows from where they are read, without a shuffle."""

    def routers(self) -> tuple[Router, ...]:
        """Where rows on their way from ingest go that do not go by their hash."""
        diffused = self.aligned, self.coordinated
        return routers_of(self.layout, self.wire, self.batch, self.router, diffused, self.hot)

    @property
    def told(self) -> Constants:
        """The constants themselves."""
        return compiled_constants(self.storage, self.constants).constants

    @property
    def compiler(self) -> TrackCompiler:
        """Makes plans and joins ready to run; each process keeps what it has made."""
        return compiled_constants(self.storage, self.constants).compiler

    @property
    def step_work(self) -> StepWork:
        """The tracks of every site, and what follows from their plans."""
        compiled = compiled_constants(self.storage, self.constants)
        return compiled.work(self.tracks, self.partition_map, self.failed)

    @property
    def sketched(self) -> tuple[SketchedKey, ...]:
        """Keys of joins with cycles, of which sketches are made."""
        return compiled_constants(self.storage, self.constants).sketched

    @property
    def home_parts(self) -> HomeParts:
        """Which queries and inputs are at home where."""
        compiled = compiled_constants(self.storage, self.constants)
        return compiled.home_parts(self.homes, self.failed)

    def split_of(self, query: Query) -> LiveSplit:
        """The members of a group, those that have come and gone since the constants were told included."""
        compiled = compiled_constants(self.storage, self.constants)
        return compiled.split_of(query, self.storage, self.roster)

    def quota_of(self, query: Query) -> int:
        """Pairs that a query may match: a representative does so for all its members."""
        return self.quota_pairs * (1 if query.split is None else max(1, len(self.split_of(query).filter)))

    @property
    def blocks(self) -> tuple[BlockMeta, ...]:
        return self.step_blocks.blocks

    @property
    def merges(self) -> tuple[tuple[str, ...], ...]:
        """Groups of blocks to compact in passing."""
        return self.step_blocks.merges

    @property
    def layout(self) -> Layout:
        return self.told.layout

    @property
    def wire(self) -> Wire:
        return self.told.wire

    @property
    def earliest(self) -> tuple[int, ...]:
        """Per input the watermark of its stream: rows before it are late."""
        marks = {s: NEVER_LATE if mark is None else mark for s, mark in self.watermarks.items()}
        return tuple(marks[source.stream] for source in self.layout.inputs)

    @property
    def work(self) -> Mapping[int, tuple[TrackWork, ...]]:
        """The tracks of every site."""
        return self.step_work.by_site

    @property
    def stateful(self) -> frozenset[StateId]:
        """States whose rows must be kept."""
        return self.step_work.stateful

    @property
    def memory(self) -> MemoryPlan:
        """What the sites' memory budget means for each state."""
        return self.step_work.memory(self.memory_budget)

    @property
    def trims(self) -> dict[str, Trim | Condense]:
        """What mergers keep of states that need only the newest rows of each group, or a row per window."""
        return trims_of(self.step_work.windowed, self.emissions)

    @property
    def hops(self) -> int:
        """How often rows may travel, the first time included; inside one slot they need not."""
        return 1 if self.slots == 1 else self.stations

    @property
    def stations(self) -> int:
        """How many stations, or hops of its path, a row may pass."""
        paths = (routes.hops for routes in self.coordinated.values())
        return max(self.step_work.stations, *paths, 1)

    def slot_map(self) -> SlotMap:
        """Which slots get the rows of each partition: those of tracks that end on it, too."""
        homes = self.home_parts.of_input.tolist() if self.homes else ()
        return SlotMap.of(self.partition_map, self.slots, self.step_work.ending, homes)
