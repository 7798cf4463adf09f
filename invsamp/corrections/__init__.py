"""What coarse models lack, learnt from pairs of coarse and fine solves. See `invsamp.correct`."""
