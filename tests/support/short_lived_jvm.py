"""Options for Java processes that live for seconds.

Such a process spends most of its CPU time on compiling its own byte code for a later that never comes: the
windows on Spark took 26.6 s of it, and 14.7 s with the quick compiler alone. Measurements do not use this.
"""

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
DRIVERS = "SPARK_SUBMIT_OPTS"
DAEMONS = "SPARK_DAEMON_JAVA_OPTS"
EXECUTORS = "spark.executor.extraJavaOptions"
