#!/usr/bin/env bash
# Fetches the jars of Spark's Kafka connector and reader of Avro, and with "all" those of a Kafka broker for tests, with Maven.
# Usage: scripts/kafka-jars.sh DIR [all]     makes DIR/connector, DIR/avro and DIR/broker; what is there is left alone.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/kafka" && pwd)
target=${1:?usage: scripts/kafka-jars.sh DIR [all]}

fetch() { # name: the jars that its .xml lists, complete or not at all
  [[ -d $target/$1 ]] && return
  command -v mvn >/dev/null || { echo "kafka-jars: Maven (mvn) is not installed" >&2; exit 1; }
  mkdir -p "$target"
  local part
  part=$(cd "$target" && mktemp -d "$PWD/.$1.XXXXXX")
  mvn -q -B -f "$here/$1.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$part" >&2
  mv "$part" "$target/$1"
}

fetch connector
fetch avro
[[ ${2:-} == all ]] && fetch broker
echo "$target"
