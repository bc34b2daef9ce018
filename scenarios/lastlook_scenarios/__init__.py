"""Scenarios: the papers' workloads, their oracles, and the baselines that lastlook is compared with."""

__all__: list[str] = []
