//! Everything the agent remembers.
