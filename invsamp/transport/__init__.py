"""Transport maps: coordinates in which a distribution is closer to a standard normal one."""

from invsamp.transport.fisher_divergence import fisher_divergence
from invsamp.transport.fitting import Fitted, fit
from invsamp.transport.transport_map import TransportMap

__all__ = ["Fitted", "TransportMap", "fisher_divergence", "fit"]
