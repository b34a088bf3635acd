//! Assembles and runs the embedded orchestrator.
