//! The real agent process, the real plugin process, real mounts.
