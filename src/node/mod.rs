//! The client half of the agent.
