"""Forward models: adapters, failed solves, servers, populations. May import `noise` and below."""
