"""Java classes of ours: small ones, compiled at run time by what compiles Spark's own queries."""

from __future__ import annotations

from functools import cache

from py4j.java_gateway import JavaObject, JavaPackage
from pyspark import SparkContext


@cache
def class_loader(context: SparkContext, source: str) -> JavaObject:
    """What knows the class of a source text, and all that Spark does.

    The driver alone has the class: nothing that travels to executors may refer to it.
    """
    compiler = context._jvm.org.codehaus.janino.SimpleCompiler()  # type: ignore[union-attr]
    compiler.setParentClassLoader(java(context).lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader()


def java(context: SparkContext) -> JavaPackage:
    """Java's own packages."""
    return context._jvm.java  # type: ignore[union-attr]
