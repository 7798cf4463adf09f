"""Replica exchange: who meets whom (`schemes`), and whether they swap (`rules`). The swap itself: `engine/swaps`."""
