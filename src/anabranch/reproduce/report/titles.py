"""What the picture of an experiment shows, in a sentence: its title, and its caption in the docs."""

from __future__ import annotations

TITLES = {
    "cape-fig9": "A change of plans by parallel track lasts as long as the window",
    "cape-fig10": "What it costs to compute the states of another plan, by window",
    "cape-fig11": "What a change of plans costs when one stream is faster than the others",
    "cape-fig12": "Moving state or parallel track: which lasts longer, which costs more",
    "cape-fig13": "Intermediate rows while plans change, low load",
    "cape-fig14": "Results while plans change, low load",
    "cape-fig15": "Intermediate rows while plans change, high load",
    "cape-fig16": "Results while plans change, high load",
    "cape-reorder": "A join order turns bad at batch 12: with the old plan, and with the optimizer",
    "dcape-fig7": "Results over time with and without both adaptations",
    "dcape-fig8": "Rows in the system with and without both adaptations",
    "dcape-fig9": "Throughput by length of the window, low rate",
    "dcape-fig10": "Throughput by length of the window, medium rate",
    "dcape-fig11": "Throughput by length of the window, high rate",
    "dcape-fig12": "How long it takes to move partitions between sites with different plans",
    "dcape-fig13": "Large states and falling rates: moving state against parallel track",
    "flux-fig3": "Short imbalances: a buffer keeps the other sites busy",
    "flux-fig7": "One of 32 sites becomes slow: throughput falls, balancing brings it back",
    "flux-fig8": "Throughput when more and more sites are slow: static and adaptive",
    "flux-fig9": "Skewed keys: how often may partitions move?",
    "flux-fig11": "One site loses half of its memory: throughput by policy",
    "flux-fig12": "One site loses half of its memory: latency by policy",
    "flux-fig13": "Throughput when more and more sites are short of memory",
    "flux-fig14": "Latency when more and more sites are short of memory",
    "flux-fig15": "Slow sites and short memory at once: three policies",
    "flux-live": "On Spark: the busiest site when the busy keys change at batch 16",
    "flux-memory": "On Spark: a join whose state does not fit the memory of its sites",
    "flux-memory-groups": "On Spark: groups that do not fit the memory of their sites",
}
"""By name of the experiment."""
