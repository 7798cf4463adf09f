"""The phases before the first draw: what is searched, chosen, adapted and tried. May import `ensemble` and below."""
