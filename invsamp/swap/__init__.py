"""Replica exchange: who meets whom (`schemes`), whether they swap (`rules`), and the swap itself (`exchange`)."""
