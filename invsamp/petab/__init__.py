"""Problems in the PEtab format, as biologists publish them: `posterior` of a problem's file, and `load` for more.

Needs the extra ``petab``. Where to look: `reading` (tables, and what is refused), `priors`, `conditions` (what differs
between experiments), `noises` and `problem`, which puts them together.
"""

from invsamp.petab.problem import PetabProblem, load, posterior

__all__ = ["PetabProblem", "load", "posterior"]
