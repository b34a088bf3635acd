//! The control-plane half of the agent.
