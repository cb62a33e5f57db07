"""The job of a batch: planned once, and run on the rows of every batch that has the same shape.

Spark would analyse, optimise and plan it anew in every batch, tell its listeners of it as text, and open a
socket for what it brings back: a fifth of a batch that has little to do. The rows of a batch are a leaf of
the plan, and the rest of it stays; so it is run with another leaf. It is part of the execution that Spark's
micro-batch is, not one of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from py4j.java_gateway import JavaObject
from pyspark import SparkContext
from pyspark.sql import DataFrame

from anabranch.engine.task.arrival.parcel import Content, Parcel
from anabranch.plan.states.state_id import StateId
from anabranch.spark.start.compiled_class import class_loader

_SOURCE = """
package anabranch;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;
import scala.runtime.AbstractFunction0;

public class SlotJobs {
    /** The parcels that a plan makes of the rows of a batch, or, if there are none, of its own. */
    public byte[] run(final SparkPlan planned, final Dataset made, Dataset rows) throws IOException {
        final SparkSession session = made.queryExecution().sparkSession();
        final LogicalRDD mine = rows == null ? null : (LogicalRDD) rows.logicalPlan();
        if (mine != null && leaves(planned) != 1) {
            throw new IllegalStateException("a plan with one leaf of rows is needed: " + planned);
        }
        final AbstractFunction0 collect = new AbstractFunction0() {
            public Object apply() {
                return over((SparkPlan) planned.clone(), mine).executeCollect();
            }
        };
        return bytes((InternalRow[]) session.withActive(new AbstractFunction0() {
            public Object apply() {
                return isExecution(session)
                    ? SQLExecution.withSQLConfPropagated(session, collect)
                    : SQLExecution.withNewExecutionId(made.queryExecution(), Option.empty(), collect);
            }
        }));
    }

    /** Whether this thread works on an execution: only there are stages with other input taken back. */
    static boolean isExecution(SparkSession session) {
        return session.sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY()) != null;
    }

    /** The plan over other rows. It is a copy in every run: nodes keep what they have shuffled. */
    static SparkPlan over(SparkPlan planned, LogicalRDD rows) {
        if (planned instanceof RDDScanExec && rows != null) {
            RDDScanExec leaf = (RDDScanExec) planned;
            return new RDDScanExec(
                leaf.output(), rows.rdd(), leaf.name(), rows.outputPartitioning(), rows.outputOrdering(),
                rows.stream());
        }
        Seq children = planned.children();
        if (children.isEmpty()) {
            return planned;
        }
        ArrayBuffer others = new ArrayBuffer();
        for (int i = 0; i < children.size(); i++) {
            others.addOne(over((SparkPlan) children.apply(i), rows));
        }
        return (SparkPlan) planned.withNewChildren((Seq) others.toSeq());
    }

    static int leaves(SparkPlan planned) {
        int found = planned instanceof RDDScanExec ? 1 : 0;
        for (int i = 0; i < planned.children().size(); i++) {
            found += leaves((SparkPlan) planned.children().apply(i));
        }
        return found;
    }

    static byte[] bytes(InternalRow[] rows) throws IOException {
        ByteArrayOutputStream made = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(made);
        for (int i = 0; i < rows.length; i++) {
            out.writeInt(rows[i].getInt(0));
            for (int column = 1; column < 4; column++) {
                byte[] value = rows[i].getBinary(column);
                out.writeInt(value.length);
                out.write(value);
            }
        }
        return made.toByteArray();
    }
}
"""
_INT = struct.Struct(">i")


class SlotJob:
    """A planned job.

    Parameters
    ----------
    made
        The parcels that it makes of some rows: those of a batch, or others, with which alone it runs then.
    """

    def __init__(self, made: DataFrame, rows: DataFrame) -> None:
        self._made, self._rows = made, rows
        self._plan = made._jdf.queryExecution().executedPlan()
        self._jobs = _jobs(made.sparkSession.sparkContext)

    def run(self, rows: DataFrame) -> list[Parcel]:
        """What it makes of rows with the same columns; one action."""
        others = None if rows is self._rows else rows._jdf
        return list(parcels_in(self._jobs.run(self._plan, self._made._jdf, others)))


def parcels_in(data: bytes) -> Iterator[Parcel]:
    """Parcels, as the JVM has written them one after the other."""
    at = 0

    def number() -> int:
        nonlocal at
        at += _INT.size
        found: int = _INT.unpack_from(data, at - _INT.size)[0]
        return found

    def value() -> bytes:
        nonlocal at
        length = number()
        at += length
        return data[at - length : at]

    while at < len(data):
        slot, state, content = number(), value().decode(), value().decode()
        yield Parcel(slot, StateId(state), Content(content), value())


def _jobs(context: SparkContext) -> JavaObject:
    return class_loader(context, _SOURCE).loadClass("anabranch.SlotJobs").newInstance()
