"""Experiments of load diffusion (Gu, Yu, Wang)."""
