//! Task drivers: processes.
