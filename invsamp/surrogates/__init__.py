"""What coarse models lack, learned from pairs of coarse and fine solves. See `invsamp.correct`."""
