"""Multi-start search for modes, and how often the chains visit them. May import `adaptation` and below."""
